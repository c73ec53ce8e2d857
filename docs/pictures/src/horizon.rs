//! The clock, the horizon and the times of IDs, through a crash and a clock that is set back.

use crate::Picture;
use crate::canvas::{Axis, Canvas, Words};
use crate::figures::{HorizonRow, read};
use crate::records::{LEFT, RIGHT, labels, parts};

pub fn picture() -> Picture {
    let rows: Vec<HorizonRow> = read("horizon");
    Picture {
        name: "horizon",
        title: "A server's clock, its horizon and the times of its IDs through a crash and a clock that is set back",
        height: 604.0,
        draw: Box::new(move |canvas| draw(canvas, &rows)),
    }
}

fn draw(canvas: &Canvas, rows: &[HorizonRow]) {
    let palette = canvas.palette;
    let names = [
        ("the horizon, stored before it is used", palette.orange),
        ("the time in new IDs", palette.blue),
        ("the server's clock", palette.ink),
    ];
    for (number, (name, color)) in names.into_iter().enumerate() {
        let middle = 18.0 + number as f64 * 26.0;
        let thickness = if number == 1 { 8.0 } else { 3.0 };
        canvas.line(&[(LEFT, middle), (LEFT + 32.0, middle)], color, thickness);
        canvas.words((LEFT + 44.0, middle), name, Words::new(palette.ink));
    }

    let (top, bottom) = (128.0, 544.0);
    let end = rows.last().map_or(0.0, |row| row.seconds);
    let highest = rows.iter().filter_map(|row| row.horizon).fold(0.0, f64::max);
    let x = Axis { range: 0.0..end, labels: labels(end) };
    let y = Axis { range: 0.0..highest + 0.5, labels: labels(highest) };
    let mut chart = canvas.chart((64.0, top), (RIGHT, bottom), x, y);
    let axis = Words::new(palette.muted).size(17.0);
    canvas.words((LEFT, top - 20.0), "time of the clock, of the horizon and in new IDs", axis);
    canvas.words((RIGHT, bottom + 44.0), "elapsed time", axis.before());

    let events: Vec<_> = rows.iter().filter(|row| !row.event.is_empty()).collect();
    for (number, event) in events.iter().enumerate() {
        let (x, _) = chart.place_of((event.seconds, 0.0));
        canvas.line(&[(x, top), (x, bottom)], palette.others, 1.0);
        let words = Words::new(palette.ink).size(17.0);
        // There is no room between two that follow each other soon.
        match events.get(number + 1) {
            Some(next) if next.seconds - event.seconds < 5.0 => {
                canvas.words((x - 8.0, top + 13.0), &event.event, words.before());
            }
            _ => canvas.words((x + 8.0, bottom - 22.0), &event.event, words),
        }
    }
    for part in parts(rows.iter().map(|row| (row.seconds, row.id))) {
        chart.line(&part, palette.blue, 8.0);
    }
    // While the server is down it is on disk.
    let horizon: Vec<_> = rows.iter().filter_map(|row| Some((row.seconds, row.horizon?))).collect();
    chart.line(&steps(&horizon), palette.orange, 3.0);
    let clock: Vec<_> = rows.iter().map(|row| (row.seconds, row.clock)).collect();
    for part in clock.chunk_by(|one, next| one.1 <= next.1) {
        chart.line(&[part[0], part[part.len() - 1]], palette.ink, 2.0);
    }
}

/// A line that rises only at a point, without those on the way.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut line: Vec<(f64, f64)> = Vec::new();
    for (number, &(at, value)) in points.iter().enumerate() {
        match line.last() {
            Some(&(_, before)) if before == value && number + 1 < points.len() => (),
            Some(&(_, before)) => line.extend([(at, before), (at, value)]),
            None => line.push((at, value)),
        }
    }
    line
}
