//! The pictures are those of the figures, and fit for any page.

use std::collections::BTreeSet;
use std::fs;

use plotters::style::RGBColor;
use snowflake_id_pictures::palette::{DARK, LIGHT};
use snowflake_id_pictures::{directory, files};

#[test]
fn they_are_up_to_date() {
    let files = files();
    let stale: Vec<_> = files
        .iter()
        .filter(|file| fs::read_to_string(directory().join(&file.name)).ok().as_ref() != Some(&file.svg))
        .map(|file| file.name.as_str())
        .collect();
    assert!(stale.is_empty(), "not what the figures say: {}; run: make pictures", stale.join(", "));

    let drawn: BTreeSet<_> = files.iter().map(|file| file.name.clone()).collect();
    let there =
        fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<_> = there.filter(|name| name.ends_with(".svg")).collect();
    assert_eq!(there, drawn);
}

/// A page shows them without asking anybody, and reads their names to who cannot see them.
#[test]
fn they_stand_alone() {
    for file in files() {
        let body = file.svg.replacen("xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
        for reference in ["http", "href", "url(", "@import", "<image", "<script", "<style"] {
            assert!(!body.contains(reference), "{}: {reference}", file.name);
        }
        assert!(body.contains("<title id=\"title\">") && body.contains("role=\"img\""), "{}", file.name);
    }
}

/// Words and what carries them stand out from every page that they are made for, as WCAG 2.2 has it.
#[test]
fn they_can_be_read() {
    for palette in [&LIGHT, &DARK] {
        let colors = [palette.blue, palette.orange, palette.green, palette.purple, palette.grey];
        for page in palette.pages {
            for color in [palette.ink, palette.muted].into_iter().chain(colors) {
                assert!(contrast(color, page) >= 4.5, "{}: {color:?} on {page:?}", palette.name);
            }
            assert!(contrast(palette.others, page) >= 2.7, "{}: {page:?}", palette.name);
        }
        for color in colors {
            assert!(contrast(palette.on_color, color) >= 4.5, "{}: on {color:?}", palette.name);
        }
    }
}

fn contrast(one: RGBColor, other: RGBColor) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

fn luminance(RGBColor(red, green, blue): RGBColor) -> f64 {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
}
