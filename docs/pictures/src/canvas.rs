//! What pictures are drawn on: shapes and words at places in pixels, and charts.

use std::ops::Range;

use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::prelude::SVGBackend;
use plotters::series::LineSeries;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, FontStyle, RGBAColor, RGBColor, ShapeStyle, TextStyle};

use crate::palette::Palette;

/// How wide each picture is. Words are so large that they can be read when it is shown at half of that.
pub const WIDTH: f64 = 700.0;
/// The backend knows whole numbers only: finer ones let lines be smooth.
const SCALE: f64 = 4.0;
/// The backend divides sizes of letters by this.
const LETTER_SCALE: f64 = 1.24;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A place: so far from the left, so far from the top.
pub type Place = (f64, f64);

pub struct Canvas<'a> {
    area: Area<'a>,
    pub palette: &'static Palette,
}

/// How words look.
#[derive(Clone, Copy)]
pub struct Words {
    color: RGBColor,
    size: f64,
    family: FontFamily<'static>,
    style: FontStyle,
    side: HPos,
}

impl Words {
    pub fn new(color: RGBColor) -> Words {
        Words { color, size: 18.0, family: FontFamily::SansSerif, style: FontStyle::Normal, side: HPos::Left }
    }

    pub fn size(self, size: f64) -> Words {
        Words { size, ..self }
    }

    pub fn bold(self) -> Words {
        Words { style: FontStyle::Bold, ..self }
    }

    /// Letters of one width, for what is typed.
    pub fn code(self) -> Words {
        Words { family: FontFamily::Monospace, ..self }
    }

    /// The place is their middle.
    pub fn centered(self) -> Words {
        Words { side: HPos::Center, ..self }
    }

    /// The place is their end.
    pub fn before(self) -> Words {
        Words { side: HPos::Right, ..self }
    }

    fn style(self) -> TextStyle<'static> {
        TextStyle {
            font: (self.family, self.size * SCALE * LETTER_SCALE, self.style).into(),
            color: self.color.to_backend_color(),
            pos: Pos::new(self.side, VPos::Center),
        }
    }
}

/// An axis: what it spans, and what is written where.
#[derive(Clone)]
pub struct Axis {
    pub range: Range<f64>,
    pub labels: Vec<(f64, String)>,
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let part = (value - self.range.start) / (self.range.end - self.range.start);
        from + (part * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.labels.iter().map(|label| label.0).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format(at: &f64) -> String {
        at.to_string()
    }

    fn format_ext(&self, at: &f64) -> String {
        let label = self.labels.iter().find(|label| label.0 == *at);
        label.map_or_else(|| Axis::format(at), |label| label.1.clone())
    }
}

/// A part of a picture with two axes.
pub struct Chart<'a, 'b> {
    context: ChartContext<'b, SVGBackend<'a>, Cartesian2d<Axis, Axis>>,
}

/// Draws a picture of this height: the text of an SVG file. `title` is for who cannot see it.
pub fn draw(title: &str, height: f64, palette: &'static Palette, shapes: impl FnOnce(&Canvas)) -> String {
    let mut text = String::new();
    {
        let backend = SVGBackend::with_string(&mut text, (scaled(WIDTH) as u32, scaled(height) as u32));
        let canvas = Canvas { area: backend.into_drawing_area(), palette };
        shapes(&canvas);
        canvas.area.present().expect(IN_MEMORY);
    }
    // The backend knows neither names nor another size than that in which it counts.
    let start = text.find('>').expect("a document has a first tag") + 1;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">{title}</title>{}",
        scaled(WIDTH),
        scaled(height),
        &text[start..]
    )
}

const IN_MEMORY: &str = "drawing into memory does not fail";

fn scaled(length: f64) -> i32 {
    (length * SCALE).round() as i32
}

fn place((x, y): Place) -> (i32, i32) {
    (scaled(x), scaled(y))
}

fn stroke(color: impl Into<RGBAColor>, width: f64) -> ShapeStyle {
    ShapeStyle { color: color.into(), filled: false, stroke_width: scaled(width) as u32 }
}

impl<'a> Canvas<'a> {
    /// Words whose middle is at this height.
    pub fn words(&self, at: Place, text: &str, words: Words) {
        self.area.draw_text(text, &words.style(), place(at)).expect(IN_MEMORY);
    }

    /// A filled rectangle, from the upper left to the lower right.
    pub fn bar(&self, from: Place, to: Place, color: impl Into<RGBAColor>) {
        self.area.draw(&Rectangle::new([place(from), place(to)], color.into().filled())).expect(IN_MEMORY);
    }

    pub fn line(&self, points: &[Place], color: RGBColor, width: f64) {
        let points: Vec<_> = points.iter().copied().map(place).collect();
        self.area.draw(&PathElement::new(points, stroke(color, width))).expect(IN_MEMORY);
    }

    pub fn dot(&self, at: Place, radius: f64, color: RGBColor) {
        self.area.draw(&Circle::new(place(at), scaled(radius), color.filled())).expect(IN_MEMORY);
    }

    /// A chart in this part of the picture. Labels of the axes stand outside of it.
    pub fn chart(&self, from: Place, to: Place, x: Axis, y: Axis) -> Chart<'a, '_> {
        const LABELS: f64 = 100.0;
        let place_of_labels = (scaled(from.0 - LABELS), scaled(from.1));
        let size = (scaled(to.0 - from.0 + LABELS) as u32, scaled(to.1 - from.1 + LABELS) as u32);
        let area = self.area.clone().shrink(place_of_labels, size);
        let mut context = ChartBuilder::on(&area)
            .x_label_area_size(scaled(LABELS))
            .y_label_area_size(scaled(LABELS))
            .build_cartesian_2d(x, y)
            .expect(IN_MEMORY);
        let words = Words::new(self.palette.muted).size(17.0).style();
        context
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(stroke(self.palette.grid, 0.0))
            .bold_line_style(stroke(self.palette.grid, 1.0))
            .axis_style(stroke(self.palette.grid, 1.0))
            .set_all_tick_mark_size(scaled(4.0))
            .label_style(words)
            .draw()
            .expect(IN_MEMORY);
        Chart { context }
    }
}

impl Chart<'_, '_> {
    /// A line from point to point.
    pub fn line(&mut self, points: &[(f64, f64)], color: RGBColor, width: f64) {
        let series = LineSeries::new(points.iter().copied(), stroke(color, width));
        self.context.draw_series(series).expect(IN_MEMORY);
    }

    /// A dot at each point.
    pub fn dots(&mut self, points: &[(f64, f64)], radius: f64, color: RGBColor) {
        let dots = points.iter().map(|&point| Circle::new(point, scaled(radius), color.filled()));
        self.context.draw_series(dots).expect(IN_MEMORY);
    }

    /// Where a point lies in the picture.
    pub fn place_of(&self, point: (f64, f64)) -> Place {
        let (x, y) = self.context.plotting_area().map_coordinate(&point);
        (f64::from(x) / SCALE, f64::from(y) / SCALE)
    }
}
