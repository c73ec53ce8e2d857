//! The page about failures. Its tables list the states of the product, and its queries for the registry run there.

use std::collections::BTreeSet;

use harness::book::{of_test, quoted, read, rows, section};
use harness::examples::run_examples;
use harness::*;

/// The string literals of an item in a source file, which begins with `start` and ends with the brace in its column.
fn literals(source: &str, start: &str) -> BTreeSet<String> {
    let source = read(source);
    let (before, rest) = source.split_once(start).unwrap_or_else(|| panic!("there is no \"{start}\""));
    let indentation = before.rsplit('\n').next().unwrap();
    let (item, _) = rest.split_once(&format!("\n{indentation}}}")).expect("no end");
    item.split('"').skip(1).step_by(2).map(Into::into).collect()
}

/// The states in the table of a section.
fn listed(heading: &str) -> BTreeSet<String> {
    let page = read("docs/run/when-it-fails.md");
    let states = rows(section(&page, heading)).flat_map(|cells| quoted(cells[0]));
    let states: Vec<String> = states.map(Into::into).collect();
    let distinct: BTreeSet<String> = states.iter().cloned().collect();
    assert_eq!(distinct.len(), states.len(), "a state has two rows: {states:?}");
    distinct
}

/// Both ways: every state has a row, and every row is about a state.
#[test]
fn states_are_those_of_the_product() {
    let mismatch = || literals("core/src/protocol.rs", "pub fn state(self)");
    let server = literals("src/admin/status.rs", "fn state_word(");
    assert!(server.len() > 12);
    assert_eq!(listed("State of a server"), server);

    let registry = literals("src/shared/lease.rs", "pub fn name(self)");
    assert!(registry.len() > 10);
    assert_eq!(listed("State of the registry"), &registry | &mismatch());

    let of_segments = literals("core/src/segment_answer.rs", "pub fn name(self)");
    assert!(of_segments.len() > 10);
    let of_registry = literals("src/segment/view.rs", "let state = match");
    assert_eq!(listed("State of a segment"), &(&of_segments | &of_registry) | &mismatch());

    let watermark = literals("src/watermark/status.rs", "let (problem, holder) = match");
    assert!(!watermark.is_empty());
    assert_eq!(listed("State of a watermark"), watermark);
}

/// The queries that an administrator runs in the database of the registry.
#[test]
fn steps_at_the_registry() {
    let registry = Registry::of_both("last_worker => 7").start(Cluster::builder());
    run_examples(&mut registry.connect(), &of_test("steps_at_the_registry"), 0);
}
