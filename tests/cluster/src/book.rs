//! The pages of the book, as files.
//!
//! The first line of a page says how long it may be, what runs its SQL examples, and how many of their results are
//! compared: `<!-- page: budget=1200 run=database checked=6 -->`. A line `<!-- part: run=test:moves -->` begins a part
//! that something else runs, or that needs a new database.

use std::fs;
use std::path::{Path, PathBuf};

/// The root directory of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The text of a file, by its path in the repository: see [`read_file()`].
pub fn read(path: &str) -> String {
    read_file(&root().join(path))
}

/// The text of a file. In a page, the code blocks of list items lose their indentation.
pub fn read_file(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if path.extension().is_some_and(|end| end == "md") { without_indentation(&text) } else { text }
}

/// Removes the indentation of the code blocks of a page, which those in lists have.
fn without_indentation(page: &str) -> String {
    let mut text = String::new();
    // The indentation of the code block that contains the line.
    let mut block = None;
    for line in page.split_inclusive('\n') {
        let indentation = line.len() - line.trim_start_matches(' ').len();
        let is_fence = line[indentation..].starts_with("```");
        let begins = is_fence && block.is_none();
        if begins {
            block = Some(indentation);
        }
        text += &line[indentation.min(block.unwrap_or(0))..];
        if is_fence && !begins {
            block = None;
        }
    }
    text
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

/// The pages of the book for users and of that for contributors. `SUMMARY.md`, a list of contents, is none.
pub fn pages() -> Vec<Page> {
    let paths = files("docs", ".md").into_iter().filter(|path| !path.ends_with("/SUMMARY.md"));
    paths.map(Page::read).collect()
}

/// A page of the book.
pub struct Page {
    /// The path in the repository.
    pub path: String,
    /// The whole text, with the header.
    pub text: String,
    /// The maximum number of words: see [`words()`].
    pub budget: usize,
    /// The number of results that are compared in the parts that are run in a database or a schema.
    pub checked: usize,
    pub parts: Vec<Part>,
}

/// A part of a page.
pub struct Part {
    pub runner: Runner,
    pub text: String,
}

/// What runs the SQL examples of a part.
#[derive(PartialEq)]
pub enum Runner {
    /// There are no examples.
    None,
    /// A database of its own, with the extension.
    Database,
    /// A schema of its own in the database of the keeper, where the server looks for segments.
    Keeper,
    /// A test of this crate: a module or a function.
    Test(String),
    /// A target of the Makefile.
    Make(String),
}

impl Page {
    fn read(path: String) -> Page {
        let text = read(&path);
        let header = text.strip_prefix("<!-- page: ").and_then(|rest| rest.split_once(" -->\n"));
        let (header, body) = header.unwrap_or_else(|| panic!("{path} has no header"));
        let value = |name: &str| {
            let mut fields = header.split(' ').filter_map(|field| field.split_once('='));
            fields.find(|(found, _)| *found == name).unwrap_or_else(|| panic!("{path}: no {name}")).1
        };
        let number = |name: &str| value(name).parse().unwrap_or_else(|_| panic!("{path}: {name}"));
        let body = format!("{} -->\n{body}", value("run"));
        let parts = body.split("<!-- part: run=").map(|part| {
            let (run, text) = part.split_once(" -->\n").expect("an open comment");
            Part {
                runner: Runner::parse(run).unwrap_or_else(|| panic!("{path}: run={run}")),
                text: text.into(),
            }
        });
        let (budget, checked, parts) = (number("budget"), number("checked"), parts.collect());
        Page { path, text, budget, checked, parts }
    }
}

impl Runner {
    fn parse(text: &str) -> Option<Runner> {
        Some(match text.split_once(':') {
            None if text == "none" => Runner::None,
            None if text == "database" => Runner::Database,
            None if text == "keeper" => Runner::Keeper,
            Some(("test", name)) => Runner::Test(name.into()),
            Some(("make", target)) => Runner::Make(target.into()),
            _ => return None,
        })
    }
}

/// The parts of all pages that a test runs, in the order of the pages' paths.
pub fn of_test(name: &str) -> String {
    of(&Runner::Test(name.into()))
}

/// The parts of all pages that a target of the Makefile runs.
pub fn of_make(target: &str) -> String {
    of(&Runner::Make(target.into()))
}

fn of(runner: &Runner) -> String {
    let parts = pages().into_iter().flat_map(|page| page.parts).filter(|part| part.runner == *runner);
    let text: String = parts.map(|part| part.text).collect();
    assert!(!text.is_empty(), "no part of a page is run by this");
    text
}

/// The number of words of a page outside code blocks, comments and HTML: what lies between spaces and has a letter or a
/// digit.
pub fn words(page: &str) -> usize {
    let words = prose(page).flatten().flat_map(str::split_whitespace);
    words.filter(|word| word.contains(|c: char| c.is_ascii_alphanumeric())).count()
}

/// The lines of a page. `None` stands for a line of a code block, a comment or HTML.
pub fn prose(page: &str) -> impl Iterator<Item = Option<&str>> {
    let mut is_code = false;
    page.lines().map(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence && !line.starts_with('<')).then_some(line)
    })
}

/// The text below a heading, up to the next heading of the same level or a higher one.
#[track_caller]
pub fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    sections(page)
        .find(|(found, _)| *found == heading)
        .unwrap_or_else(|| panic!("no section \"{heading}\""))
        .1
}

/// The headings of a page, each with the text below it, up to the next heading of the same level or a higher one.
pub fn sections(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut headings = Vec::new();
    let mut is_code = false;
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        is_code ^= line.trim_start().starts_with("```");
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if let Some(heading) = line[level..].strip_prefix(' ').filter(|_| level > 0 && !is_code) {
            headings.push((level, heading.trim_end(), at, at + line.len()));
        }
        at += line.len();
    }
    let ends = headings.clone();
    headings.into_iter().enumerate().map(move |(number, (level, heading, _, start))| {
        let end = ends[number + 1..].iter().find(|(next, ..)| *next <= level);
        (heading, &page[start..end.map_or(page.len(), |(_, _, at, _)| *at)])
    })
}

/// The anchor of a heading.
pub fn anchor(heading: &str) -> String {
    let of_anchor = |c: char| match c {
        ' ' => Some('-'),
        '_' | '-' => Some(c),
        _ => c.is_alphanumeric().then(|| c.to_ascii_lowercase()),
    };
    heading.chars().filter_map(of_anchor).collect()
}

/// A text with single spaces in place of line ends and repeated spaces.
pub fn folded(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
