//! Turns of phrase over which readers stumbled, in pages that were read blind.

use harness::book::{files, folded, prose, read};

/// Words that no page has, in lower case.
const TURNS: [&str; 14] = [
    "also not",
    "anew",
    "as far as",
    "but for",
    "comes twice",
    "lies at",
    "nobody",
    "so many",
    "somebody",
    "stands in",
    "texts",
    "the latter",
    "then.",
    "thereby",
];

#[test]
fn no_page_makes_readers_stumble() {
    let pages = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(String::from);
    let pages = pages.into_iter().chain(files("docs", ".md"));
    let mut found = Vec::new();
    for page in pages {
        for sentence in sentences(&read(&page)) {
            let words = format!(" {} ", sentence.to_lowercase().replace(',', ""));
            let turn = TURNS.iter().find(|turn| words.contains(&format!(" {turn} ")));
            found.extend(turn.map(|turn| format!("{page}: \"{turn}\" in: {sentence}")));
            let after_another = words.split(" another ").nth(1).unwrap_or_default();
            if after_another.split(' ').take(3).any(|word| word == "than") {
                found.push(format!("{page}: \"another .. than\" in: {sentence}"));
            }
            if sentence.starts_with("What ") && sentence.ends_with('.') {
                found.push(format!("{page}: no question: {sentence}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// The sentences of a page outside code. A heading, an item of a list and a cell of a table end one.
fn sentences(page: &str) -> Vec<String> {
    let mut paragraph = String::new();
    for line in prose(page) {
        let line = line.unwrap_or_default().trim();
        if line.is_empty() {
            paragraph += "\n";
        } else if line.starts_with(['#', '-', '|', '>']) {
            paragraph += &format!("\n{}", line.trim_start_matches(['#', '-', '|', '>', ' ']));
        } else {
            paragraph += &format!(" {line}");
        }
    }
    let code_apart: String = paragraph.split('`').step_by(2).collect::<Vec<_>>().join("`code`");
    let ends = code_apart.replace(". ", ".\n").replace("? ", "?\n").replace('|', "\n");
    ends.lines().map(folded).filter(|line| !line.is_empty()).collect()
}
