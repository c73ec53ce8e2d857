//! Figures that depend on another one, as lines.

use plotters::style::RGBColor;

use crate::Picture;
use crate::canvas::{Axis, Canvas, Words};
use crate::figures::{Throughput, read};
use crate::palette::Palette;

const LEFT: f64 = 12.0;
const RIGHT: f64 = 688.0;
/// Where axes stand.
const AXIS: f64 = 92.0;

/// A part of a picture: lines over one another, with a title and their names above.
struct Panel {
    title: &'static str,
    /// Under which load, if that is to be said.
    load: &'static str,
    lines: Vec<Line>,
    x: Axis,
    y: Axis,
    height: f64,
}

/// A call and the colour of its line.
type Colored = (&'static str, fn(&Palette) -> RGBColor);

struct Line {
    name: String,
    color: fn(&Palette) -> RGBColor,
    points: Vec<(f64, f64)>,
}

impl Panel {
    const LINE: f64 = 25.0;
    const NAME: f64 = 26.0;
    const GAP: f64 = 18.0;
    const LABELS: f64 = 44.0;

    /// With its title, names and labels.
    fn whole_height(&self) -> f64 {
        self.heading_height()
            + self.lines.len() as f64 * Panel::NAME
            + Panel::GAP
            + self.height
            + Panel::LABELS
    }

    fn heading_height(&self) -> f64 {
        14.0 + if self.load.is_empty() { Panel::LINE } else { 2.0 * Panel::LINE }
    }

    fn draw(&self, canvas: &Canvas, top: f64) {
        let palette = canvas.palette;
        canvas.words((LEFT, top + 20.0), self.title, Words::new(palette.ink).bold());
        canvas.words((LEFT, top + 20.0 + Panel::LINE), self.load, Words::new(palette.muted).size(17.0));
        let mut y = top + self.heading_height();
        for line in &self.lines {
            let middle = y + Panel::NAME / 2.0;
            let color = (line.color)(palette);
            canvas.line(&[(LEFT, middle), (LEFT + 32.0, middle)], color, 3.0);
            canvas.dot((LEFT + 16.0, middle), 5.0, color);
            canvas.words((LEFT + 44.0, middle), &line.name, Words::new(palette.ink).code().size(17.0));
            y += Panel::NAME;
        }
        y += Panel::GAP;
        let mut chart =
            canvas.chart((AXIS, y), (RIGHT - 20.0, y + self.height), self.x.clone(), self.y.clone());
        // The first name lies on top.
        for line in self.lines.iter().rev() {
            chart.line(&line.points, (line.color)(palette), 3.0);
            chart.dots(&line.points, 5.0, (line.color)(palette));
        }
    }
}

/// A picture of panels one below the other.
fn stacked(name: &'static str, title: &'static str, panels: Vec<Panel>) -> Picture {
    Picture {
        name,
        title,
        height: panels.iter().map(Panel::whole_height).sum(),
        draw: Box::new(move |canvas| {
            let mut top = 0.0;
            for panel in &panels {
                panel.draw(canvas, top);
                top += panel.whole_height();
            }
        }),
    }
}

/// How many numbers several sessions take together.
pub fn throughput() -> Picture {
    let rows: Vec<Throughput> = read("throughput");
    let panel = |title, calls: &[Colored], height| {
        let lines: Vec<Line> = calls
            .iter()
            .map(|&(call, color)| {
                let of_call = rows.iter().filter(|row| row.call == call);
                let point = |row: &Throughput| (f64::from(row.sessions).log2(), row.numbers_per_second / 1e6);
                let points: Vec<_> = of_call.map(point).collect();
                assert!(!points.is_empty(), "throughput.csv has no {call}");
                Line { name: call.into(), color, points }
            })
            .collect();
        let points = || lines.iter().flat_map(|line| &line.points);
        let most = points().map(|point| point.1).fold(0.0, f64::max);
        let of_first_call = rows.iter().filter(|row| row.call == calls[0].0).map(|row| row.sessions);
        let label = |sessions| {
            let text = if sessions == 1 { "1 session".into() } else { format!("{sessions}") };
            (f64::from(sessions).log2(), text)
        };
        let labels: Vec<_> = of_first_call.map(label).collect();
        let last = labels.last().map_or(0.0, |label| label.0);
        let x = Axis { range: -0.25..last + 0.15, labels };
        Panel { title, load: "", lines, x, y: from_zero(most), height }
    };
    let panels = vec![
        panel(
            "Million numbers per second, one for each call",
            &[
                ("snowflake_nextval()", |palette| palette.blue),
                ("snowflake_segment_nextval()", |palette| palette.green),
                ("nextval(), CACHE 1000", |palette| palette.orange),
                ("nextval()", |palette| palette.others),
            ],
            210.0,
        ),
        panel(
            "Million numbers per second, 1000 for each call",
            &[
                ("snowflake_batch(1000)", |palette| palette.blue),
                ("snowflake_segment_batch(.., 1000)", |palette| palette.green),
            ],
            160.0,
        ),
    ];
    stacked("throughput", "Million numbers per second that 1 to 16 sessions take together", panels)
}

/// An axis from zero with round labels, four or five of them.
fn from_zero(most: f64) -> Axis {
    let steps = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    let step = steps.into_iter().find(|step| most / step < 5.0).expect("figures are below 500");
    let count = (most / step).ceil() as u32;
    let labels = (0..=count)
        .map(|at| f64::from(at) * step)
        .map(|at| (at, format!("{at:.0$}", usize::from(step < 1.0))))
        .collect();
    Axis { range: 0.0..f64::from(count) * step, labels }
}
