//! The report: a page with a picture. It needs no other file.

use std::fs;
use std::path::Path;

use snowflake_id_pictures::palette::{DARK, LIGHT};

use crate::faults::Place;
use crate::ledger::{Comparison, SHORTEST_GAP};
use crate::picture::{Mark, Panel, picture};
use crate::scene::{IDS, Stage};
use crate::schedule::Done;
use crate::site::SERVERS;

pub struct Report<'a> {
    pub stage: &'a Stage,
    /// In the order in which they began.
    pub records: Vec<Done>,
    pub comparison: Comparison,
    pub minutes: u32,
    pub seed: u64,
}

const STYLE: &str = "
:root { color-scheme: light dark; }
body { font: 16px/1.5 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em;
  color: light-dark(#1f2328, #e6edf3); background: light-dark(#fff, #0d1117); }
table { border-collapse: collapse; } td, th { padding: 0.2em 0.8em; text-align: left; vertical-align: top;
  border-bottom: 1px solid light-dark(#d8dee4, #3d444d); }
td.number { text-align: right; } .failed { color: light-dark(#b3261e, #ff8f87); font-weight: bold; }
svg { max-width: 100%; height: auto; } .dark { display: none; } pre { white-space: pre-wrap; }
@media (prefers-color-scheme: dark) { .dark { display: block; } .light { display: none; } }";

impl Report<'_> {
    /// Whether nothing was repeated or lost, and every fault raised its alerts and was ended by its runbook.
    pub fn is_good(&self) -> bool {
        let Comparison { repeats, out_of_order, lost_rows, .. } = self.comparison;
        repeats + out_of_order + lost_rows == 0 && self.failures() == 0
    }

    fn failures(&self) -> usize {
        self.records.iter().filter(|done| done.record.failure.is_some()).count()
    }

    /// Writes `index.html`, and prints the totals.
    pub fn write(&self, to: &Path) {
        let totals = self.totals();
        let rows: String = totals.iter().map(|(what, value)| row(&[escaped(what), escaped(value)])).collect();
        let verdict = if self.is_good() { "Passed." } else { "<span class=failed>Failed.</span>" };
        let page = format!(
            "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8>\n\
             <meta name=viewport content=\"width=device-width\">\n<title>Rehearsal</title><style>{STYLE}</style>\n\
             <h1>Rehearsal of the runbooks</h1>\n<p>{verdict}</p>\n<table>{rows}</table>\n\
             <h2>IDs per second</h2>\n<p>Above each curve are the numbers of the faults: orange on this server, purple \
             at the registry, from the beginning of the fault until its alerts have ended.</p>\n{}\n\
             <h2>Faults</h2>\n{}\n<h2>Alerts</h2>\n{}\n<h2>What was done</h2>\n{}\n</html>\n",
            self.pictures(),
            self.faults(),
            self.alerts(),
            self.acts()
        );
        fs::create_dir_all(to).unwrap();
        let file = to.join("index.html");
        fs::write(&file, page).unwrap();
        println!();
        for (what, value) in totals {
            println!("{what:44} {value}");
        }
        println!("{}", file.display());
    }

    fn totals(&self) -> Vec<(&'static str, String)> {
        let Comparison { ids, numbers, repeats, out_of_order, after_reset, lost_rows } = self.comparison;
        let fired: usize = self.records.iter().map(|done| done.record.alerts.len()).sum();
        let end = self.seconds();
        let gaps: Vec<String> =
            (0..SERVERS).map(|at| shown(self.stage.flows[at][IDS].longest_gap(0.0, end)) + " s").collect();
        let mut totals = vec![
            ("seed", self.seed.to_string()),
            ("minutes in which faults began", self.minutes.to_string()),
            ("durations of alerts and leases", format!("1/{}", self.stage.scale.0)),
            ("faults", self.records.len().to_string()),
            ("alerts that faults raised", fired.to_string()),
            ("faults without their alert, or not ended", self.failures().to_string()),
            ("IDs", ids.to_string()),
            ("numbers of segments", numbers.to_string()),
            ("repeats", repeats.to_string()),
            ("out of order on their server", out_of_order.to_string()),
            ("lower after a reset of the horizon", after_reset.to_string()),
            ("committed rows that are missing", lost_rows.to_string()),
        ];
        totals.push(("longest time without IDs, for each server", gaps.join(", ")));
        totals
    }

    fn seconds(&self) -> f64 {
        self.records.iter().map(|done| done.record.to).fold(1.0, f64::max)
    }

    fn pictures(&self) -> String {
        let panels: Vec<Panel> = (0..SERVERS).map(|at| self.panel(at)).collect();
        let pictures = [&LIGHT, &DARK].map(|palette| {
            let svg = picture(&panels, self.seconds(), palette);
            let svg = svg.replace("\"title\"", &format!("\"title-{}\"", palette.name));
            format!("<div class={}>{svg}</div>\n", palette.name)
        });
        pictures.concat()
    }

    fn panel(&self, at: usize) -> Panel {
        let name = self.stage.site.servers[at].name.clone();
        let marks = self.records.iter().enumerate().filter_map(|(number, done)| {
            let is_general = done.fault.place == Place::Registry;
            let mark = Mark { number: number + 1, from: done.record.from, to: done.record.to, is_general };
            (is_general || done.record.place == name).then_some(mark)
        });
        let faults = marks.collect();
        Panel { per_second: self.stage.flows[at][IDS].per_second(), name, faults }
    }

    fn faults(&self) -> String {
        let head = "<tr><th>No.<th>at<th>fault<th>where<th>alerts, and after how long<th>ended after the last \
                    step<th>longest time without IDs<th>";
        let rows = self.records.iter().enumerate().map(|(number, done)| {
            let (fault, record) = (done.fault, &done.record);
            let alerts: Vec<String> =
                record.alerts.iter().map(|(name, at)| format!("{name}: {:.0} s", at - record.from)).collect();
            let alerts =
                if alerts.is_empty() { format!("none: {}", fault.silent) } else { alerts.join("<br>") };
            let gaps =
                (0..SERVERS).map(|at| shown(self.stage.flows[at][IDS].longest_gap(record.from, record.to)));
            let outcome = if record.failure.is_some() { "<span class=failed>failed</span>" } else { "ended" };
            row(&[
                (number + 1).to_string(),
                format!("{:.0} s", record.from),
                escaped(fault.name),
                escaped(&record.place),
                alerts,
                format!("{:.0} s", record.to - record.handled),
                format!("{} s", escaped(&gaps.collect::<Vec<_>>().join(", "))),
                outcome.into(),
            ])
        });
        format!("<table>{head}\n{}</table>", rows.collect::<String>())
    }

    /// All alerts of the rules, and how often a fault has raised each of them.
    fn alerts(&self) -> String {
        let rows = self.stage.site.pages.alerts().into_iter().map(|alert| {
            let raised = self.records.iter().flat_map(|done| &done.record.alerts);
            let times = raised.filter(|(name, _)| *name == alert).count();
            row(&[alert, times.to_string()])
        });
        format!("<table><tr><th>alert<th>raised by so many faults\n{}</table>", rows.collect::<String>())
    }

    fn acts(&self) -> String {
        let all = self.records.iter().enumerate().map(|(number, done)| {
            let acts: String =
                done.record.acts.iter().map(|act| format!("<li><code>{}</code>\n", escaped(act))).collect();
            let failure = done.record.failure.as_deref().unwrap_or_default();
            format!(
                "<details{}><summary>{}. {}</summary><ol>{acts}</ol><pre class=failed>{}</pre></details>\n",
                if failure.is_empty() { "" } else { " open" },
                number + 1,
                escaped(done.fault.name),
                escaped(failure)
            )
        });
        all.collect()
    }
}

/// A time without IDs. Short ones are not recorded.
fn shown(gap: f64) -> String {
    if gap == 0.0 { format!("< {SHORTEST_GAP}") } else { format!("{gap:.1}") }
}

fn row(cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
    format!("<tr>{cells}</tr>\n")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
