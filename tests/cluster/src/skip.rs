//! Requirements of tests that this machine may lack.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

use crate::user::work_dir;

/// Returns the requirement of a test. If it is missing, the test fails with a message that says what to install or set.
/// With `ALLOW_SKIP=1`, returns `None` instead and adds a line to file `skipped` in the work directory, which
/// scripts/test.sh counts.
#[track_caller]
pub fn needs<T, E: Display>(what: &str, found: Result<T, E>) -> Option<T> {
    let why = match found {
        Ok(found) => return Some(found),
        Err(why) => why,
    };
    let may_skip = std::env::var("ALLOW_SKIP").is_ok_and(|value| value == "1");
    assert!(may_skip, "the test needs {what}: {why} (ALLOW_SKIP=1 skips it)");
    let line = format!("{} needs {what}: {why}", Location::caller());
    println!("skipped: {line}");
    let mut file = OpenOptions::new().append(true).create(true).open(work_dir().join("skipped")).unwrap();
    writeln!(file, "{line}").unwrap();
    None
}
