//! The pages for people, without a server: the contents of the book are complete, and what the pages say is tested, is.
//! "make book" checks their links.

use std::collections::BTreeSet;

use harness::book::{files, quoted, read, rows};

#[test]
fn the_contents_of_the_book_are_complete() {
    let contents = read("docs/SUMMARY.md");
    let links = contents.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
    let listed: Vec<_> = links.map(|link| format!("docs/{link}")).collect();
    let pages = files("docs", ".md").into_iter().filter(|path| path != "docs/SUMMARY.md");
    let distinct: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(distinct.len(), listed.len(), "a page is there twice");
    assert_eq!(distinct, pages.collect());
}

#[test]
fn the_readme_is_one_screen_and_what_follows() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 150, "{lines} lines");
}

/// What stands in the last column of the tables of faults: tests, and targets of the Makefile.
#[test]
fn the_tests_of_the_promises_exist() {
    let sources: String =
        [files("tests", ".rs"), files("core", ".rs")].concat().iter().map(|path| read(path)).collect();
    let makefile = read("Makefile");
    let page = read("docs/explanation/promises.md");
    let mut named = 0;
    for cells in rows(&page).filter(|cells| cells[2] != "test") {
        for name in quoted(cells[2]) {
            let exists = match name.strip_prefix("make ") {
                Some(target) => makefile.contains(&format!("\n{target}:")),
                None => sources.contains(&format!("fn {name}(")),
            };
            assert!(exists, "there is no test {name}");
            named += 1;
        }
    }
    assert!(named > 80, "only {named} tests are named");
}
