//! Diagrams of how parts work together. They show no figures.

use plotters::style::{Color, RGBColor};

use crate::Picture;
use crate::canvas::{Canvas, Place, Words};

const LEFT: f64 = 12.0;
const RIGHT: f64 = 688.0;
/// What is left of a colour behind words.
const TINT: f64 = 0.3;

/// A frame with a tint behind the words that follow.
fn box_of(canvas: &Canvas, from: Place, to: Place, color: RGBColor) {
    canvas.bar(from, to, color.mix(TINT));
    let corners = [from, (to.0, from.1), to, (from.0, to.1), from];
    canvas.line(&corners, color, 2.0);
}

/// A line that ends in a head.
fn arrow(canvas: &Canvas, from: Place, to: Place, color: RGBColor) {
    const HEAD: f64 = 9.0;
    canvas.line(&[from, to], color, 2.0);
    let length = (to.0 - from.0).hypot(to.1 - from.1);
    let (x, y) = ((to.0 - from.0) / length, (to.1 - from.1) / length);
    for side in [-0.5, 0.5] {
        let end = (to.0 - HEAD * (x - side * y), to.1 - HEAD * (y + side * x));
        canvas.line(&[to, end], color, 2.0);
    }
}

fn dashed(canvas: &Canvas, from: Place, to: Place, color: RGBColor) {
    const DASH: f64 = 8.0;
    let length = (to.0 - from.0).hypot(to.1 - from.1);
    let at = |part: f64| (from.0 + (to.0 - from.0) * part / length, from.1 + (to.1 - from.1) * part / length);
    let mut done = 0.0;
    while done < length {
        canvas.line(&[at(done), at((done + DASH).min(length))], color, 1.5);
        done += 2.0 * DASH;
    }
}

/// Who connects to whom in a fleet, and what each server keeps.
pub fn fleet() -> Picture {
    Picture {
        name: "fleet",
        title: "Three servers lease their worker IDs from a registry with a standby; sessions take IDs from their own server only",
        height: 480.0,
        draw: Box::new(draw_fleet),
    }
}

fn draw_fleet(canvas: &Canvas) {
    const WIDTH: f64 = 208.0;
    const GAP: f64 = 26.0;
    let palette = canvas.palette;
    let (ink, muted) = (Words::new(palette.ink).size(17.0), Words::new(palette.muted).size(16.0));

    box_of(canvas, (150.0, 12.0), (400.0, 96.0), palette.orange);
    canvas.words((275.0, 34.0), "registry", Words::new(palette.ink).bold().centered());
    canvas.words((275.0, 58.0), "worker IDs, ranges of time,", ink.centered());
    canvas.words((275.0, 80.0), "numbers of segments", ink.centered());
    box_of(canvas, (510.0, 24.0), (RIGHT, 84.0), palette.orange);
    canvas.words((599.0, 54.0), "its standby", ink.centered());
    arrow(canvas, (402.0, 54.0), (508.0, 54.0), palette.orange);
    canvas.words((455.0, 36.0), "every grant", muted.centered());

    let line = 176.0;
    dashed(canvas, (LEFT, line), (RIGHT, line), palette.others);
    canvas.words((184.0, 154.0), "once a minute", muted);
    canvas.words((154.0, 198.0), "calls stay below", muted);
    for (number, worker) in [512, 513, 514].into_iter().enumerate() {
        let left = LEFT + number as f64 * (WIDTH + GAP);
        let (top, middle) = (236.0, left + WIDTH / 2.0);
        let color = [palette.blue, palette.green, palette.purple][number];
        arrow(canvas, (middle, top - 4.0), (275.0 + (number as f64 - 1.0) * 70.0, 100.0), palette.orange);
        box_of(canvas, (left, top), (left + WIDTH, top + 136.0), color);
        canvas.words(
            (middle, top + 20.0),
            &format!("server {}", ["a", "b", "c"][number]),
            Words::new(palette.ink).bold().centered(),
        );
        canvas.words((middle, top + 50.0), &format!("worker ID {worker}"), ink.centered());
        canvas.words((middle, top + 78.0), "snowflake_id.lease", ink.size(15.0).code().centered());
        canvas.words((middle, top + 102.0), "horizon in its database", ink.centered());
        canvas.words((middle, top + 124.0), "numbers of segments", ink.centered());
        for session in [-60.0, 0.0, 60.0] {
            arrow(canvas, (middle + session, 430.0), (middle + session, 376.0), color);
        }
        canvas.words((middle, 450.0), "sessions", ink.centered());
    }
}

/// Why a reader must not read up to the newest row.
pub fn watermark() -> Picture {
    Picture {
        name: "watermark",
        title: "A transaction takes the smaller ID and commits later; below the watermark, no row can appear",
        height: 338.0,
        draw: Box::new(draw_watermark),
    }
}

fn draw_watermark(canvas: &Canvas) {
    const AT: [f64; 5] = [130.0, 230.0, 370.0, 490.0, 590.0];
    let palette = canvas.palette;
    let (ink, muted) = (Words::new(palette.ink).size(17.0), Words::new(palette.muted).size(16.0));
    let [slow, quick, quick_end, read, slow_end] = AT;

    let (first, second) = (74.0, 134.0);
    for (y, name, from, to, id, color) in [
        (first, "session 1", slow, slow_end, "takes 17", palette.orange),
        (second, "session 2", quick, quick_end, "takes 18", palette.blue),
    ] {
        canvas.words((LEFT, y), name, Words::new(palette.ink).bold());
        canvas.line(&[(from, y), (to, y)], color, 8.0);
        canvas.dot((from, y), 8.0, color);
        canvas.words((from - 6.0, y - 26.0), id, ink);
        canvas.line(&[(to, y - 12.0), (to, y + 12.0)], color, 4.0);
        canvas.words((to + 12.0, y), "COMMIT", ink);
    }
    arrow(canvas, (slow, 182.0), (RIGHT, 182.0), palette.others);
    canvas.words((RIGHT, 202.0), "time", muted.before());
    dashed(canvas, (read, 30.0), (read, 250.0), palette.green);
    canvas.words((read + 8.0, 34.0), "a reader reads now", ink);

    let y = 262.0;
    canvas.words((LEFT, y), "IDs", Words::new(palette.ink).bold());
    for (number, id) in (14..=18).enumerate() {
        let left = 130.0 + number as f64 * 74.0;
        let color = match id {
            17 => palette.orange,
            18 => palette.blue,
            _ => palette.grey,
        };
        if id == 17 {
            canvas.line(
                &[
                    (left, y - 18.0),
                    (left + 64.0, y - 18.0),
                    (left + 64.0, y + 18.0),
                    (left, y + 18.0),
                    (left, y - 18.0),
                ],
                color,
                2.0,
            );
            canvas.words((left + 32.0, y), "17", ink.centered());
        } else {
            canvas.bar((left, y - 18.0), (left + 64.0, y + 18.0), color);
            canvas.words(
                (left + 32.0, y),
                &id.to_string(),
                Words::new(palette.on_color).size(17.0).bold().centered(),
            );
        }
    }
    let edge = 130.0 + 3.0 * 74.0 - 5.0;
    canvas.line(&[(edge, y - 26.0), (edge, y + 26.0)], palette.green, 4.0);
    canvas.words((edge - 8.0, y + 40.0), "read these: nothing can appear below", ink.before());
    canvas.words((edge + 8.0, y + 40.0), "wait: 17 is not visible yet, 18 is", ink);
    canvas.words((edge, y + 60.0), "the watermark", Words::new(palette.green).size(17.0).bold().centered());
}

/// Which server has which numbers of a segment.
pub fn segments() -> Picture {
    Picture {
        name: "segments",
        title: "The numbers of a segment: servers take ranges in turn, and a crash loses the rest of a range",
        height: 310.0,
        draw: Box::new(draw_segments),
    }
}

fn draw_segments(canvas: &Canvas) {
    const STEP: f64 = 108.0;
    const Y: f64 = 92.0;
    const BAR: f64 = 26.0;
    let palette = canvas.palette;
    let (ink, muted) = (Words::new(palette.ink).size(17.0), Words::new(palette.muted).size(16.0));
    let colors = [palette.blue, palette.green, palette.purple];
    // The server that took the range, and which part of it has been issued.
    let ranges = [(0, 1.0), (1, 0.4), (0, 0.7), (2, 0.05), (0, 0.0)];

    canvas.words((LEFT, 24.0), "ranges of 1000 numbers, as the registry granted them", muted);
    for (number, (server, issued)) in ranges.into_iter().enumerate() {
        let (left, color) = (LEFT + number as f64 * STEP, colors[server]);
        let right = left + STEP - 3.0;
        canvas.bar((left, Y - BAR), (right, Y + BAR), color.mix(TINT));
        canvas.bar((left, Y - BAR), (left + (right - left) * issued, Y + BAR), color);
        canvas.words((left, Y - BAR - 14.0), &(number * 1000 + 1).to_string(), ink);
        canvas.words((left, Y + BAR + 18.0), &format!("server {}", ["a", "b", "c"][server]), ink.bold());
    }
    let end = LEFT + 5.0 * STEP;
    dashed(canvas, (end, Y - BAR - 4.0), (end, Y + BAR + 30.0), palette.orange);
    canvas.words((end + 6.0, Y - BAR - 14.0), "5001", ink);
    canvas.words((end + 6.0, Y), "next grant", Words::new(palette.orange).bold());

    let notes = [
        (1, "b crashed: the rest is lost, and never issued"),
        (3, "c has just got its first range"),
        (4, "fetched when a tenth of a's last range was used"),
    ];
    for (line, (range, note)) in notes.into_iter().rev().enumerate() {
        let x = LEFT + range as f64 * STEP + 46.0;
        let y = 178.0 + line as f64 * 34.0;
        canvas.line(&[(x, Y + BAR + 32.0), (x, y)], palette.others, 1.5);
        canvas.line(&[(x, y), (x + 12.0, y)], palette.others, 1.5);
        let room = if range == 4 { ink.before() } else { ink };
        let at = if range == 4 { (x - 8.0, y) } else { (x + 18.0, y) };
        canvas.words(at, note, room);
    }
    canvas.bar((LEFT, 286.0), (LEFT + 28.0, 304.0), palette.grey);
    canvas.words((LEFT + 36.0, 295.0), "issued", ink);
    canvas.bar((LEFT + 130.0, 286.0), (LEFT + 158.0, 304.0), palette.grey.mix(TINT));
    canvas.words((LEFT + 166.0, 295.0), "held by the server", ink);
}
