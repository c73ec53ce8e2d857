//! Code shared by the workers that ask a registry in rounds: pauses after failures, logging of problems, and
//! sleeping until woken.

use std::time::{Duration, Instant};

use crate::pg::wait::wait;
use crate::shared::wakeup::Wakeup;
use crate::wait_event::WaitEvent;

/// How many bytes of a received text are logged or shown.
const LONGEST_PROBLEM: usize = 400;
/// The shortest sleep. A latch cannot wait for less than 1 ms.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// Counts consecutive failures.
#[derive(Default)]
pub struct Failures(u32);

impl Failures {
    /// Counts a failure. Returns how long to wait: `first` after the first failure, then twice as long each
    /// time, up to `longest`.
    pub fn add(&mut self, first: Duration, longest: Duration) -> Duration {
        let pause = first.saturating_mul(1 << self.0.min(10)).min(longest);
        self.0 = self.0.saturating_add(1);
        pause
    }

    /// Ends the series of failures. Returns whether there were any.
    pub fn end(&mut self) -> bool {
        std::mem::take(&mut self.0) > 0
    }
}

/// The last logged text, so that the same text is not logged again after each attempt.
pub struct Logged(Option<String>);

impl Logged {
    /// Takes over the text that the previous process may have logged.
    pub fn before(text: Option<String>) -> Logged {
        Logged(text)
    }

    /// Returns whether there is a text to log that differs from the last one.
    pub fn is_new(&mut self, text: Option<String>) -> bool {
        let is_new = text.is_some() && text != self.0;
        self.0 = text;
        is_new
    }
}

/// Truncates a received text to the length that is logged or shown.
pub fn in_short(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_PROBLEM));
    text
}

/// Sleeps until the instant `until`, or until the worker is requested. Before `asks_from`, a request does not
/// end the sleep. After each wait, `keep_waiting` is called, and returns either a new value for `asks_from`,
/// or `None` to end the sleep.
pub fn sleep(
    wakeup: &Wakeup,
    mut asks_from: Instant,
    until: Instant,
    mut keep_waiting: impl FnMut() -> Option<Instant>,
) {
    loop {
        let now = Instant::now();
        let is_wanted = wakeup.is_wanted();
        if now >= until || is_wanted && now >= asks_from {
            return;
        }
        // Only the first request sets the latch. If that request does not count yet, sleep until it counts.
        let next = if is_wanted { asks_from.min(until) } else { until };
        wait(next.saturating_duration_since(now).max(SHORTEST_NAP), WaitEvent::Registry.number());
        match keep_waiting() {
            Some(from) => asks_from = from,
            None => return,
        }
    }
}
