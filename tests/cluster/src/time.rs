//! Waiting for what a server does, and limits of time.
//!
//! Only a failure that is about time alone gets a second try, in which no other test runs: see scripts/junit.py. Such a
//! failure is reported by [`too_slow`]. All other failures decide at once, so a second try cannot hide a repeated ID, a
//! missing row, or a wrong order. A test with random faults gets no second try, because it would try other faults.

use std::error::Error;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time after which a test stops waiting for a condition.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// The time that an operation of at most a second may take while other tests run.
pub const SLACK: Duration = Duration::from_secs(30);

/// Whether a client of the test has failed. What others wait for may then never happen, and that is not about time.
static CLIENT_FAILED: AtomicBool = AtomicBool::new(false);

/// Whether the test draws faults at random.
pub(crate) static IS_RANDOM: AtomicBool = AtomicBool::new(false);

/// Notes, when it is dropped, whether its thread has failed.
pub(crate) struct NoteFailure;

impl Drop for NoteFailure {
    fn drop(&mut self) {
        CLIENT_FAILED.fetch_or(std::thread::panicking(), Ordering::Relaxed);
    }
}

/// The outcome of one check of a condition.
pub trait Answer {
    type Value;

    /// Returns the value if the condition holds, and otherwise the error, which may be empty.
    fn value(self) -> Result<Self::Value, String>;
}

impl Answer for bool {
    type Value = ();

    fn value(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(String::new)
    }
}

impl<T> Answer for Option<T> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.ok_or_else(String::new)
    }
}

impl<T, E: Error + 'static> Answer for Result<T, E> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.map_err(|error| {
            // The text of a client error is only "db error". The details are in its causes.
            let causes = std::iter::successors(Some(&error as &dyn Error), |&error| error.source());
            causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
        })
    }
}

/// Reports that something took too long. No failure of another kind gets a second try.
#[track_caller]
pub fn too_slow(what: impl Display) -> ! {
    assert!(!IS_RANDOM.load(Ordering::Relaxed), "a test with random faults was too slow: {what}");
    panic!("too slow: {what}")
}

/// Reports that something took too long if it took longer than the limit. While other tests run, a limit must be at
/// least ten times the usual time; a test with a tighter limit belongs in `alone`.
#[track_caller]
pub fn assert_within(limit: Duration, took: Duration, what: impl Display) {
    if took >= limit {
        too_slow(format!("{what} took {took:?}, the limit is {limit:?}"));
    }
}

/// Checks repeatedly until the answer is `true`, `Some` or `Ok`.
#[track_caller]
pub fn eventually<A: Answer>(what: &str, ask: impl FnMut() -> A) -> A::Value {
    wait_for(ask).unwrap_or_else(|error| too_slow(format!("gave up waiting for: {what}\n{error}")))
}

/// Like [`eventually`], for rows, numbers and messages that must arrive. If they do not, some may have been lost or
/// skipped, or another one may have come instead, so the failure decides.
#[track_caller]
pub fn all_arrive<A: Answer>(what: &str, ask: impl FnMut() -> A) -> A::Value {
    wait_for(ask).unwrap_or_else(|error| panic!("did not arrive: {what}\n{error}"))
}

pub(crate) fn wait_for<A: Answer>(mut ask: impl FnMut() -> A) -> Result<A::Value, String> {
    let deadline = Instant::now() + TIMEOUT;
    // Short at first, because most waits end soon; longer later, so that waiting does not occupy the machine.
    let mut pause = Duration::from_millis(4);
    loop {
        let error = match ask().value() {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        assert!(!CLIENT_FAILED.load(Ordering::Relaxed), "a client has failed");
        if Instant::now() >= deadline {
            return Err(error);
        }
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(100));
    }
}
