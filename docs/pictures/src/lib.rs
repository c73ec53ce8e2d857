//! The pictures of the book. Each is drawn from the figures in `docs/figures` or from the core itself, never from
//! numbers that are written here, except diagrams, which show how parts work together.
//!
//! `make pictures` writes them anew; a test compares what is there with what would be written.

use std::path::PathBuf;

mod bars;
mod bits;
pub mod canvas;
mod diagrams;
mod figures;
mod horizon;
mod lease;
mod lines;
pub mod palette;
mod records;

use canvas::Canvas;
use palette::{DARK, LIGHT};

/// A picture that can be drawn in any colours.
struct Picture {
    /// The first part of the name of its files.
    name: &'static str,
    /// What it shows, for who cannot see it.
    title: &'static str,
    height: f64,
    draw: Box<dyn Fn(&Canvas)>,
}

/// A picture as a file.
pub struct File {
    /// The file's name, without a directory.
    pub name: String,
    /// The file's text.
    pub svg: String,
}

/// All pictures.
pub fn files() -> Vec<File> {
    let pictures = [
        bits::standard(),
        bits::layouts(),
        bars::cost(),
        lines::throughput(),
        horizon::picture(),
        lease::picture(),
        diagrams::fleet(),
        diagrams::watermark(),
        diagrams::segments(),
    ];
    let mut files = Vec::new();
    for picture in pictures {
        for palette in [&LIGHT, &DARK] {
            let svg = canvas::draw(picture.title, picture.height, palette, &picture.draw);
            files.push(File { name: format!("{}-{}.svg", picture.name, palette.name), svg });
        }
    }
    files
}

/// Where the files are.
pub fn directory() -> PathBuf {
    env!("CARGO_MANIFEST_DIR").into()
}
