//! The picture of the report: how IDs came from each server, and when which fault was there.

use snowflake_id_pictures::canvas::{Axis, Canvas, Words, draw};
use snowflake_id_pictures::palette::Palette;

/// The IDs of one server in each second, and the faults that concern it.
pub struct Panel {
    pub name: String,
    pub per_second: Vec<u32>,
    pub faults: Vec<Mark>,
}

/// A fault: its number in the report, and from when to when it lasted, in seconds.
pub struct Mark {
    pub number: usize,
    pub from: f64,
    pub to: f64,
    /// Whether it concerns all servers.
    pub is_general: bool,
}

const LEFT: f64 = 12.0;
const AXIS: f64 = 64.0;
const RIGHT: f64 = 688.0;
const HEADING: f64 = 30.0;
const CHART: f64 = 110.0;
/// The height of a row of marks. Faults that overlap have different rows.
const ROW: f64 = 18.0;
const LABELS: f64 = 36.0;

/// The text of an SVG file.
pub fn picture(panels: &[Panel], seconds: f64, palette: &'static Palette) -> String {
    let heights: Vec<f64> =
        panels.iter().map(|panel| HEADING + rows(&panel.faults).1 as f64 * ROW + CHART + LABELS).collect();
    draw("IDs per second of each server, and the faults", heights.iter().sum(), palette, |canvas| {
        let mut top = 0.0;
        for (panel, height) in panels.iter().zip(&heights) {
            draw_panel(canvas, panel, top, seconds);
            top += height;
        }
    })
}

/// The row of each mark, and the number of rows.
fn rows(marks: &[Mark]) -> (Vec<usize>, usize) {
    let mut ends: Vec<f64> = Vec::new();
    let rows = marks.iter().map(|mark| {
        let free = ends.iter().position(|end| *end < mark.from).unwrap_or(ends.len());
        ends.resize(ends.len().max(free + 1), 0.0);
        // A short fault needs room for its number.
        ends[free] = mark.to.max(mark.from + 12.0);
        free
    });
    let rows = rows.collect();
    (rows, ends.len())
}

fn draw_panel(canvas: &Canvas, panel: &Panel, top: f64, seconds: f64) {
    let palette = canvas.palette;
    canvas.words((LEFT, top + 16.0), &panel.name, Words::new(palette.ink).bold());
    let (of_mark, count) = rows(&panel.faults);
    let chart_top = top + HEADING + count as f64 * ROW;
    let most = f64::from(*panel.per_second.iter().max().unwrap_or(&1)).max(10.0);
    let step = [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0]
        .into_iter()
        .find(|step| most / step < 4.0)
        .unwrap_or(10_000.0);
    let labels = (0..).map(|at| f64::from(at) * step).take_while(|&at| at <= most);
    let minutes = if seconds > 1200.0 { 10.0 } else { 1.0 };
    let times = (0..).map(|at| f64::from(at) * minutes).take_while(|&at| at * 60.0 <= seconds);
    let x =
        Axis { range: 0.0..seconds, labels: times.map(|at| (at * 60.0, format!("{at:.0} min"))).collect() };
    let y = Axis { range: 0.0..most * 1.05, labels: labels.map(|at| (at, format!("{at:.0}"))).collect() };
    let mut chart = canvas.chart((AXIS, chart_top), (RIGHT, chart_top + CHART), x, y);
    for (mark, row) in panel.faults.iter().zip(of_mark) {
        let (from, _) = chart.place_of((mark.from, 0.0));
        let (to, _) = chart.place_of((mark.to.min(seconds), 0.0));
        let color = if mark.is_general { palette.purple } else { palette.orange };
        let row_top = top + HEADING + row as f64 * ROW;
        canvas.bar((from, row_top + 2.0), (to.max(from + 2.0), row_top + 5.0), color);
        canvas.words((from, row_top + 11.0), &mark.number.to_string(), Words::new(palette.ink).size(11.0));
        canvas.line(&[(from, row_top + 5.0), (from, chart_top + CHART)], palette.grid, 1.0);
    }
    let points = panel.per_second.iter().enumerate().map(|(at, &count)| (at as f64, f64::from(count)));
    let points: Vec<_> = points.take_while(|point| point.0 <= seconds).collect();
    chart.line(&points, palette.blue, 1.5);
}
