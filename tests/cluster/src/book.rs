//! The pages of the book, as files.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The text of a file, by its path in the repository.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The files below a directory of the repository whose names end like this, by their paths in it, sorted.
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

/// The cells of the rows of a page's tables, heads as well. None has a bar in it.
pub fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    lines.map(|line| line[1..line.len() - 1].split('|').map(str::trim).collect())
}

/// What stands between a pair of backquotes in a text, in order.
pub fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
