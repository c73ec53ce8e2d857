//! The bits of IDs, to scale.

use jiff::Timestamp;
use plotters::style::Color;
use snowflake_id_core::field::MAX_TOTAL_BITS;
use snowflake_id_core::layout::presets::{self, PRESETS};
use snowflake_id_core::{Field, Layout, Parts};

use crate::Picture;
use crate::canvas::{Canvas, Words};

/// With the sign.
const BITS: u32 = MAX_TOTAL_BITS + 1;
/// What a bit that is 0 keeps of its field's colour.
const FAINT: f64 = 0.25;

/// An ID of layout `standard`, and what it says.
pub fn standard() -> Picture {
    Picture {
        name: "standard",
        title: "The 64 bits of an ID of layout standard, and what its fields say",
        height: 228.0,
        draw: Box::new(draw_standard),
    }
}

fn draw_standard(canvas: &Canvas) {
    const LEFT: f64 = 30.0;
    const BIT: f64 = 10.0;
    let palette = canvas.palette;
    let layout = preset("standard");
    let id = example(&layout);

    canvas.words((LEFT, 26.0), &id.to_string(), Words::new(palette.ink).code().size(30.0).bold());
    let what = Words::new(palette.muted).size(17.0).before();
    canvas.words((LEFT + f64::from(BITS) * BIT, 28.0), "an ID of layout standard", what);
    let left_of = |bit: u32| LEFT + f64::from(BITS - 1 - bit) * BIT;
    let (top, bottom) = (84.0, 124.0);
    canvas.words((LEFT, 68.0), "sign, always 0", Words::new(palette.muted).size(16.0));
    canvas.bar((left_of(BITS - 1), top), (left_of(BITS - 1) + BIT - 1.0, bottom), palette.grid);
    for (field, bits) in layout.fields() {
        let (low, color) = (layout.shift(field), palette.field(field));
        for bit in low..low + bits {
            let strength = if id >> bit & 1 == 1 { 1.0 } else { FAINT };
            canvas.bar((left_of(bit), top), (left_of(bit) + BIT - 1.0, bottom), color.mix(strength));
        }
        let (from, to) = (left_of(low + bits - 1), left_of(low) + BIT - 1.0);
        canvas.line(&[(from, bottom + 8.0), (to, bottom + 8.0)], color, 2.0);
        let [says, means] = in_words(&layout, field, id);
        let middle = (from + to) / 2.0;
        let name = if field == Field::Time { format!("time, {bits} bits") } else { field.name().into() };
        canvas.words((middle, 152.0), &name, Words::new(color).bold().centered());
        canvas.words((middle, 180.0), &says, Words::new(palette.ink).size(20.0).centered());
        canvas.words((middle, 208.0), &means, Words::new(palette.muted).size(16.0).centered());
    }
}

fn preset(name: &str) -> Layout {
    presets::find(name).expect("the preset exists").layout()
}

fn example(layout: &Layout) -> i64 {
    let time: Timestamp = "2026-07-01T12:34:56.789Z".parse().expect("an instant");
    let tick = layout.tick_at(time.as_microsecond()).expect("the layout has begun and not ended");
    layout.pack(&Parts { tick, worker: 7, sequence: 42, ..Parts::default() }).expect("all parts fit")
}

/// What a field of an ID says, and what there could be.
fn in_words(layout: &Layout, field: Field, id: i64) -> [String; 2] {
    let value = layout.field_of(field, id).expect("an ID of the layout").unwrap_or_default();
    let count = 1u64 << layout.bits(field);
    let unit = unit(layout);
    match field {
        Field::Time => {
            let time = instant(layout.time_of(id).expect("an ID of the layout"));
            let (begin, end) = (instant(layout.epoch_us()), instant(layout.end_us()));
            let means = format!("steps of {unit} from {} to {}", begin.strftime("%Y"), end.strftime("%Y"));
            [time.strftime("%Y-%m-%d %H:%M:%S%.3f UTC").to_string(), means]
        }
        Field::Sequence => [value.to_string(), format!("of {count} per {}", unit.trim_start_matches("1 "))],
        _ => [value.to_string(), format!("of {count}")],
    }
}

fn instant(unix_us: i64) -> Timestamp {
    Timestamp::from_microsecond(unix_us).expect("a year with four digits")
}

fn unit(layout: &Layout) -> String {
    match layout.unit_us() {
        us if us % 1_000_000 == 0 => format!("{} s", us / 1_000_000),
        us if us % 1_000 == 0 => format!("{} ms", us / 1_000),
        us => format!("{us} µs"),
    }
}

const ROW: f64 = 46.0;
const BAR: f64 = 32.0;
const LINE: f64 = 19.0;
const FIRST_ROW: f64 = 52.0;

/// All presets, those with the same bits in one row.
pub fn layouts() -> Picture {
    let rows = rows();
    Picture {
        name: "layouts",
        title: "The bits of each preset, to scale",
        height: FIRST_ROW + rows.iter().map(Row::height).sum::<f64>(),
        draw: Box::new(move |canvas| draw_layouts(canvas, &rows)),
    }
}

/// Presets that differ at most in their epoch.
struct Row {
    layout: Layout,
    names: Vec<&'static str>,
}

impl Row {
    /// A row with many names is higher.
    fn height(&self) -> f64 {
        ROW.max(lines(&self.names).len() as f64 * LINE + ROW - BAR)
    }
}

fn rows() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for preset in PRESETS {
        let layout = preset.layout();
        let like = |row: &&mut Row| {
            row.layout.fields() == layout.fields() && row.layout.unit_us() == layout.unit_us()
        };
        match rows.iter_mut().find(like) {
            Some(row) => row.names.push(preset.name),
            None => rows.push(Row { layout, names: vec![preset.name] }),
        }
    }
    rows
}

fn draw_layouts(canvas: &Canvas, rows: &[Row]) {
    const LEFT: f64 = 172.0;
    const BIT: f64 = 8.0;
    const GAP: f64 = 1.0;
    let palette = canvas.palette;

    let mut at = 12.0;
    for field in [Field::Time, Field::Datacenter, Field::Worker, Field::ClockSeq, Field::Sequence] {
        canvas.bar((at, 12.0), (at + 16.0, 28.0), palette.field(field));
        canvas.words((at + 23.0, 20.0), field.name(), Words::new(palette.ink).size(17.0));
        at += 41.0 + field.name().len() as f64 * 10.5;
    }
    let mut row_top = FIRST_ROW;
    for row in rows {
        let top = row_top + (row.height() - ROW) / 2.0;
        row_top += row.height();
        let middle = top + BAR / 2.0;
        let names = Words::new(palette.ink).code().size(16.0);
        let lines = lines(&row.names);
        for (line, text) in lines.iter().enumerate() {
            let offset = (line as f64 - (lines.len() - 1) as f64 / 2.0) * LINE;
            canvas.words((12.0, middle + offset), text, names);
        }
        let total = row.layout.total_bits();
        let left_of = |bits_above: u32| LEFT + f64::from(bits_above) * BIT;
        let mut above = BITS - total;
        canvas.bar((LEFT, top), (left_of(above) - GAP, top + BAR), palette.grid);
        for (field, bits) in row.layout.fields() {
            let (from, to) = (left_of(above), left_of(above + bits) - GAP);
            canvas.bar((from, top), (to, top + BAR), palette.field(field));
            let text = match field {
                Field::Time => format!("{bits} bits of {}", unit(&row.layout)),
                _ => bits.to_string(),
            };
            let words = Words::new(palette.on_color).size(17.0).bold().centered();
            canvas.words(((from + to) / 2.0, middle), &text, words);
            above += bits;
        }
    }
}

/// Names in lines that fit before the bar.
fn lines(names: &[&str]) -> Vec<String> {
    const LETTERS: usize = 15;
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut() {
            Some(line) if line.len() + ", ".len() + name.len() < LETTERS => *line += &format!(", {name}"),
            Some(line) => {
                line.push(',');
                lines.push((*name).into());
            }
            None => lines.push((*name).into()),
        }
    }
    lines
}
