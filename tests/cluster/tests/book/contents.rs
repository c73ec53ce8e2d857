//! Checks of the book without a server: its contents are complete, and the tests that it names exist. "make book"
//! checks its links.

use std::collections::BTreeSet;

use harness::book::{files, pages, read, rows, section};

#[test]
fn the_contents_of_the_book_are_complete() {
    let listed = ["docs", "docs/design"].map(|book| {
        let contents = read(&format!("{book}/SUMMARY.md"));
        let links = contents.split("](").skip(1).map(|rest| rest.split(')').next().unwrap());
        links.map(|link| format!("{book}/{link}")).collect::<Vec<_>>()
    });
    let listed = listed.concat();
    let pages = pages().into_iter().map(|page| page.path);
    let distinct: BTreeSet<_> = listed.iter().cloned().collect();
    assert_eq!(distinct.len(), listed.len(), "a page is there twice");
    assert_eq!(distinct, pages.collect());
}

#[test]
fn the_readme_is_short() {
    let readme = read("README.md");
    let lines = readme.lines().count();
    assert!(lines <= 120, "{lines} lines");
    // Somebody who was just paged finds the page in the first screen.
    let first_screen: String = readme.lines().take(20).collect();
    assert!(first_screen.contains("](docs/run/when-it-fails.md)"));
}

/// `tests/promises.tsv` names at least one test for each promise and each fault of the page, and nothing else.
#[test]
fn the_promises_are_tested() {
    let page = read("docs/concepts/promises.md");
    let numbers = section(&page, "The promises").lines().filter_map(|line| line.split_once(". **"));
    let numbers = numbers.filter(|(number, _)| number.parse::<u32>().is_ok());
    let faults = rows(section(&page, "Faults, and what happens")).map(|cells| cells[0]);
    let expected: BTreeSet<String> = numbers
        .map(|(number, _)| format!("promise {number}"))
        .chain(faults.filter(|fault| *fault != "fault").map(String::from))
        .collect();
    assert!(expected.len() > 50, "only {} promises and faults", expected.len());

    let sources: String =
        [files("tests", ".rs"), files("core", ".rs")].concat().iter().map(|path| read(path)).collect();
    let makefile = read("Makefile");
    let list = read("tests/promises.tsv");
    let mut tested = BTreeSet::new();
    for line in list.lines().filter(|line| !line.starts_with("# ")) {
        let (promised, test) = line.split_once('\t').unwrap_or_else(|| panic!("no tab in {line}"));
        let exists = match test.strip_prefix("make ") {
            Some(target) => makefile.contains(&format!("\n{target}:")),
            None => sources.contains(&format!("fn {test}(")),
        };
        assert!(exists, "there is no test {test}");
        tested.insert(promised.to_owned());
    }
    assert_eq!(tested, expected);
}

/// The section names all files of the extension with `unsafe`, each by itself or by its directory, and no others.
#[test]
fn the_unsafe_code_is_where_the_design_says() {
    let is_unsafe = |line: &str| {
        let code = line.split("//").next().unwrap();
        ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe("]
            .iter()
            .any(|word| code.contains(word))
    };
    let mut found = files("src", ".rs");
    found.retain(|path| read(path).lines().any(is_unsafe));
    let page = read("docs/design/README.md");
    let section = section(&page, "Use of `unsafe`");
    let places = section.split('`').skip(1).step_by(2);
    let places = places.filter(|place| (place.ends_with('/') || place.ends_with(".rs")) && *place != "src/");
    let places: Vec<_> = places.map(|place| format!("src/{place}")).collect();
    let is_at = |path: &String, place: &String| path.starts_with(place.as_str());
    let missing: Vec<_> =
        found.iter().filter(|path| !places.iter().any(|place| is_at(path, place))).collect();
    let surplus: Vec<_> =
        places.iter().filter(|place| !found.iter().any(|path| is_at(path, place))).collect();
    assert!(missing.is_empty() && surplus.is_empty(), "missing: {missing:?}, surplus: {surplus:?}");
}
