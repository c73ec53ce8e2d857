//! Requirements of tests that this machine may lack.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

use crate::installation::{ask_pg_config, major, pg_config};
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
    note(format!("{} needs {what}: {why}", Location::caller()));
    None
}

/// Returns whether PostgreSQL has TLS. If not, the test has to skip what needs TLS, which is counted. Only the builds of
/// versions 16 and 18 may have none: see scripts/postgresql.sh.
#[track_caller]
pub fn has_tls() -> bool {
    let has_tls = ask_pg_config(&pg_config(), "--configure").contains("openssl");
    if !has_tls {
        assert!([16, 18].contains(&major(&pg_config())), "PostgreSQL has no TLS");
        note(format!("{} needs a PostgreSQL with TLS", Location::caller()));
    }
    has_tls
}

fn note(line: String) {
    println!("skipped: {line}");
    let mut file = OpenOptions::new().append(true).create(true).open(work_dir().join("skipped")).unwrap();
    writeln!(file, "{line}").unwrap();
}
