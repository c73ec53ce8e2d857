//! The colours. Each picture is drawn twice, for pages that are light and for pages that are dark.

use plotters::style::RGBColor;
use snowflake_id_core::Field;

/// The colours of one kind of page. Blue, orange and green can be told apart by people who do not see all colours.
pub struct Palette {
    /// What stands at the end of a file's name.
    pub name: &'static str,
    /// The darkest and the lightest page that the pictures are made for. They are not painted.
    pub pages: [RGBColor; 2],
    /// Words and figures.
    pub ink: RGBColor,
    /// Words that explain.
    pub muted: RGBColor,
    /// Lines behind the figures.
    pub grid: RGBColor,
    /// What others do.
    pub others: RGBColor,
    /// Words on any of the colours below.
    pub on_color: RGBColor,
    pub blue: RGBColor,
    pub orange: RGBColor,
    pub green: RGBColor,
    pub purple: RGBColor,
    pub grey: RGBColor,
}

pub static LIGHT: Palette = Palette {
    name: "light",
    pages: [RGBColor(0xf4, 0xf4, 0xf4), RGBColor(0xff, 0xff, 0xff)],
    ink: RGBColor(0x1f, 0x23, 0x28),
    muted: RGBColor(0x59, 0x63, 0x6e),
    grid: RGBColor(0xd8, 0xde, 0xe4),
    others: RGBColor(0x8c, 0x95, 0x9f),
    on_color: RGBColor(0xff, 0xff, 0xff),
    blue: RGBColor(0x1b, 0x62, 0xb5),
    orange: RGBColor(0xb3, 0x55, 0x00),
    green: RGBColor(0x0b, 0x73, 0x64),
    purple: RGBColor(0x82, 0x47, 0x98),
    grey: RGBColor(0x5f, 0x69, 0x74),
};

pub static DARK: Palette = Palette {
    name: "dark",
    pages: [RGBColor(0x0d, 0x11, 0x17), RGBColor(0x22, 0x27, 0x35)],
    ink: RGBColor(0xe6, 0xed, 0xf3),
    muted: RGBColor(0xa3, 0xab, 0xb4),
    grid: RGBColor(0x3d, 0x44, 0x4d),
    others: RGBColor(0x7d, 0x87, 0x92),
    on_color: RGBColor(0x0d, 0x11, 0x17),
    blue: RGBColor(0x6c, 0xb2, 0xff),
    orange: RGBColor(0xf0, 0xa0, 0x4b),
    green: RGBColor(0x4c, 0xc2, 0xae),
    purple: RGBColor(0xcc, 0xa0, 0xe2),
    grey: RGBColor(0xa3, 0xab, 0xb4),
};

impl Palette {
    /// The colour of a field of an ID.
    pub fn field(&self, field: Field) -> RGBColor {
        match field {
            Field::Time => self.blue,
            Field::Datacenter => self.purple,
            Field::Worker => self.orange,
            Field::ClockSeq => self.grey,
            Field::Sequence => self.green,
        }
    }
}
