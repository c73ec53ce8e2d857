//! A worker ID passing from one server to another.

use plotters::style::Color;

use crate::Picture;
use crate::canvas::{Axis, Canvas, Words};
use crate::figures::{LeaseRow, read};
use crate::records::{LEFT, RIGHT, labels, parts};

/// What is left of a colour behind words.
const TINT: f64 = 0.35;

pub fn picture() -> Picture {
    let rows: Vec<LeaseRow> = read("lease");
    Picture {
        name: "lease",
        title: "A worker ID passing from a server that stalls to another one, when its lease has ended",
        height: 360.0,
        draw: Box::new(move |canvas| draw(canvas, &rows)),
    }
}

/// A worker ID that a server had, and from when until when.
struct Lease<'a> {
    server: &'a str,
    worker: u32,
    from: f64,
    until: f64,
}

fn draw(canvas: &Canvas, rows: &[LeaseRow]) {
    const TOP: f64 = 78.0;
    const LANE: f64 = 116.0;
    /// Within the lane.
    const BAR: [f64; 2] = [32.0, 92.0];
    let palette = canvas.palette;
    let leases = leases(rows);
    let mut servers: Vec<&str> = Vec::new();
    for row in rows {
        if !servers.contains(&row.server.as_str()) {
            servers.push(&row.server);
        }
    }
    let mut workers: Vec<u32> = leases.iter().map(|lease| lease.worker).collect();
    workers.sort_unstable();
    workers.dedup();
    let colors = [palette.orange, palette.purple];

    canvas.bar((LEFT, 8.0), (LEFT + 16.0, 28.0), colors[0].mix(TINT));
    canvas.bar((LEFT + 16.0, 8.0), (LEFT + 32.0, 28.0), colors[1].mix(TINT));
    canvas.words((LEFT + 44.0, 18.0), "leased by the registry", Words::new(palette.ink));
    canvas.line(&[(LEFT, 44.0), (LEFT + 32.0, 44.0)], palette.blue, 8.0);
    canvas.words((LEFT + 44.0, 44.0), "the time in new IDs", Words::new(palette.ink));

    let end = rows.last().map_or(0.0, |row| row.seconds);
    let bottom = TOP + LANE * servers.len() as f64;
    let x = Axis { range: 0.0..end, labels: labels(end) };
    let chart =
        canvas.chart((LEFT + 12.0, TOP), (RIGHT - 16.0, bottom), x, Axis { range: 0.0..1.0, labels: vec![] });
    let at = |seconds: f64| chart.place_of((seconds.clamp(0.0, end), 0.0)).0;

    for (lane, server) in servers.iter().enumerate() {
        let top = TOP + lane as f64 * LANE;
        canvas.words((LEFT + 20.0, top + 16.0), &format!("server {server}"), Words::new(palette.ink).bold());
        let mark = |seconds: f64, what: &str| {
            let x = at(seconds);
            canvas.line(&[(x, top + 4.0), (x, top + BAR[1] + 6.0)], palette.ink, 1.0);
            canvas.words((x + 8.0, top + 16.0), what, Words::new(palette.ink).size(17.0));
        };
        for event in rows.iter().filter(|row| row.server == *server && row.worker.is_none()) {
            mark(event.seconds, &event.what);
        }
        for lease in leases.iter().filter(|lease| lease.server == *server && lease.until < end) {
            mark(lease.until, "its lease ends");
        }
        for lease in leases.iter().filter(|lease| lease.server == *server) {
            let color = colors[workers.iter().position(|&worker| worker == lease.worker).unwrap_or(0) % 2];
            canvas.bar((at(lease.from), top + BAR[0]), (at(lease.until), top + BAR[1]), color.mix(TINT));
            let words = Words::new(palette.ink).size(17.0);
            canvas.words((at(lease.from) + 8.0, top + 50.0), &format!("worker {}", lease.worker), words);
            for part in parts(times(rows, lease)) {
                let [from, to] = [part[0].0, part[part.len() - 1].0].map(at);
                canvas.line(&[(from, top + 76.0), (to, top + 76.0)], palette.blue, 8.0);
            }
        }
    }
}

/// The times of the IDs that were made under a lease.
fn times<'a>(rows: &'a [LeaseRow], lease: &Lease<'a>) -> impl Iterator<Item = (f64, Option<f64>)> + use<'a> {
    let (server, worker) = (lease.server, lease.worker);
    let of_lease =
        move |row: &&LeaseRow| row.what == "id" && row.server == server && row.worker == Some(worker);
    rows.iter().filter(of_lease).filter_map(|row| row.time).map(|time| (time, Some(time)))
}

/// Each worker ID that each server had, in one piece however often it was renewed.
fn leases(rows: &[LeaseRow]) -> Vec<Lease<'_>> {
    let mut leases: Vec<Lease> = Vec::new();
    for row in rows.iter().filter(|row| row.what == "lease") {
        let (Some(worker), Some(from), Some(until)) = (row.worker, row.time, row.until) else { continue };
        match leases.iter_mut().find(|lease| lease.server == row.server && lease.worker == worker) {
            Some(lease) => lease.until = lease.until.max(until),
            None => {
                // The range of a worker ID that nobody had begins when the fleet did.
                let from = if from < 0.0 { row.seconds } else { from };
                leases.push(Lease { server: &row.server, worker, from, until });
            }
        }
    }
    leases
}
