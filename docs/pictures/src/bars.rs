//! The cost of a call, as bars.

use plotters::style::RGBColor;

use crate::Picture;
use crate::canvas::{Canvas, Words};
use crate::figures::{Call, read};
use crate::palette::Palette;

const LEFT: f64 = 12.0;
const RIGHT: f64 = 688.0;

/// What one call costs.
pub fn cost() -> Picture {
    const ROW: f64 = 58.0;
    let mut calls: Vec<Call> = read("calls");
    calls.sort_by(|one, other| one.ns.total_cmp(&other.ns));
    Picture {
        name: "cost",
        title: "What one call costs: nanoseconds of snowflake_nextval() beside what PostgreSQL has itself",
        height: 40.0 + calls.len() as f64 * ROW,
        draw: Box::new(move |canvas| {
            let palette = canvas.palette;
            canvas.words((LEFT, 20.0), "nanoseconds for one call", Words::new(palette.muted).size(17.0));
            let most = calls.iter().map(|call| call.ns).fold(0.0, f64::max);
            for (number, call) in calls.iter().enumerate() {
                let top = 40.0 + number as f64 * ROW;
                name(canvas, (LEFT, top + 11.0), &call.call);
                let end = LEFT + call.ns / most * (RIGHT - LEFT - 70.0);
                bar(canvas, (LEFT, top + 26.0), end, &call.call, &format!("{:.0}", call.ns));
            }
        }),
    }
}

fn name(canvas: &Canvas, at: (f64, f64), text: &str) {
    let words = Words::new(canvas.palette.ink).code().size(17.0);
    canvas.words(at, text, if is_ours(text) { words.bold() } else { words });
}

fn bar(canvas: &Canvas, (left, top): (f64, f64), end: f64, of: &str, value: &str) {
    const THICKNESS: f64 = 22.0;
    let palette = canvas.palette;
    canvas.bar((left, top), (end, top + THICKNESS), color(palette, of));
    canvas.words((end + 8.0, top + THICKNESS / 2.0), value, Words::new(palette.ink));
}

fn color(palette: &Palette, name: &str) -> RGBColor {
    if is_ours(name) { palette.blue } else { palette.others }
}

fn is_ours(name: &str) -> bool {
    name.contains("snowflake_")
}
