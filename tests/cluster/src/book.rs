//! The pages of the book, as files.

use std::fs;
use std::path::{Path, PathBuf};

/// The root directory of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The text of a file, by its path in the repository.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below a directory of the repository whose names have this ending. Their paths are relative to the
/// repository, and sorted.
pub fn files(directory: &str, end: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(root().join(&directory)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
            if !entry.file_type().unwrap().is_dir() {
                found.extend(name.ends_with(end).then_some(path));
            } else if name != "target" && name != "node_modules" {
                left.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The cells of each row of a page's tables, including the header rows. No cell may contain a bar.
pub fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    lines.map(|line| line[1..line.len() - 1].split('|').map(str::trim).collect())
}

/// The texts between pairs of backquotes, in order.
pub fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
