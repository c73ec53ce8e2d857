//! Which failed tests get a second try: scripts/junit.py reads the reports of cargo-nextest.

use std::fs;
use std::process::Command;

use harness::book::root;

/// The failure of a test, as cargo-nextest reports it: its type, and what the test printed.
fn failure(name: &str, kind: &str, printed: &str) -> String {
    format!(
        "<testcase name=\"{name}\" time=\"1.0\"><failure type=\"{kind}\"/><system-err>{printed}</system-err></testcase>"
    )
}

fn panicked(name: &str, reasons: &[&str]) -> String {
    let reason = |reason: &&str| format!("\nthread '{name}' (7) panicked at tests/x.rs:1:2:\n{reason}\n");
    failure(name, "test failure with exit code 101", &reasons.iter().map(reason).collect::<String>())
}

/// The names of the tests that get a second try; `None` if a failure decides.
fn again(cases: &[String]) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("junit.xml");
    let passed = "<testcase name=\"passed\" time=\"1.0\"/>";
    fs::write(&report, format!("<testsuites><testsuite>{passed}{}</testsuite></testsuites>", cases.concat()))
        .unwrap();
    let python = root().join("target/nextest/bin/python");
    let output =
        Command::new(python).arg(root().join("scripts/junit.py")).arg("again").arg(report).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

const SLOW: &str = "too slow: gave up waiting for: an ID";
const REPEATED: &str = "ID 7 came twice";

#[test]
fn only_failures_about_time() {
    let slow = panicked("slow", &[SLOW]);
    let in_a_thread = panicked("thread", &[SLOW, "a scoped thread panicked"]);
    assert_eq!(again(&[slow.clone(), in_a_thread]).as_deref(), Some("slow\nthread\n"));
    for reason in [REPEATED, "ID 8 came before 7", "did not arrive: the rows", "assertion failed: x", ""] {
        assert_eq!(again(&[panicked("wrong", &[reason])]), None, "{reason}");
        // Neither another slow test nor a wait in the same test hides it.
        assert_eq!(again(&[panicked("wrong", &[reason]), slow.clone()]), None, "{reason}");
        assert_eq!(again(&[panicked("wrong", &[SLOW, reason])]), None, "{reason}");
    }
    // A test that hangs, one that crashes after it was too slow, and one that returns an error.
    let reason = format!("panicked at tests/x.rs:1:2:\n{SLOW}\n");
    assert_eq!(again(&[failure("hanging", "test timeout", "")]), None);
    for kind in ["test timeout", "test abort", "test failure with exit code 3"] {
        assert_eq!(again(&[failure("crashed", kind, &reason)]), None);
    }
    assert_eq!(
        again(&[failure("error", "test failure with exit code 101", "Error: \"ID 7 came twice\"")]),
        None
    );
    // A server that noted a repeated ID, which the test did not look at.
    let noted = format!("{reason}panicked at the log of a server:\na unique key was violated\n");
    assert_eq!(again(&[failure("noted", "test failure with exit code 101", &noted)]), None);
}

#[test]
fn not_many_at_once() {
    let slow = |number: usize| panicked(&format!("slow{number}"), &[SLOW]);
    assert!(again(&(0..5).map(slow).collect::<Vec<_>>()).is_some());
    assert_eq!(again(&(0..6).map(slow).collect::<Vec<_>>()), None);
    assert_eq!(again(&[]), None);
}
