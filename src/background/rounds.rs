//! What workers have in common that ask a registry round after round: how long they wait after a failure, what they log
//! of it, and how they sleep until somebody wakes them.

use std::time::{Duration, Instant};

use crate::pg::wait::wait;
use crate::shared::wakeup::Wakeup;
use crate::wait_event::WaitEvent;

/// How many bytes of what others say are told.
const LONGEST_PROBLEM: usize = 400;
/// A shorter sleep is none to a latch.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// How often in a row it has gone wrong.
#[derive(Default)]
pub struct Failures(u32);

impl Failures {
    /// It has gone wrong once more. Returns how long to wait: `first`, and each time twice as long, up to `longest`.
    pub fn add(&mut self, first: Duration, longest: Duration) -> Duration {
        let pause = first.saturating_mul(1 << self.0.min(10)).min(longest);
        self.0 = self.0.saturating_add(1);
        pause
    }

    /// It has gone well. Returns whether it had gone wrong before.
    pub fn end(&mut self) -> bool {
        std::mem::take(&mut self.0) > 0
    }
}

/// What was logged last. The same is not logged again at each attempt.
pub struct Logged(Option<String>);

impl Logged {
    /// The process before this one may have logged something.
    pub fn before(text: Option<String>) -> Logged {
        Logged(text)
    }

    /// Whether this is to be logged, if it is anything.
    pub fn is_new(&mut self, text: Option<String>) -> bool {
        let is_new = text.is_some() && text != self.0;
        self.0 = text;
        is_new
    }
}

/// As much of what others say as is told.
pub fn in_short(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(LONGEST_PROBLEM));
    text
}

/// Sleeps until an instant, or until the wakeup rings; from `asks_from` on that counts. `keep_waiting` runs after each sleep.
/// It says from when on the wakeup counts now, or ends the sleep.
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
        // While it does not count that it has rung, nobody rings again: the latch is set once.
        let next = if is_wanted { asks_from.min(until) } else { until };
        wait(next.saturating_duration_since(now).max(SHORTEST_NAP), WaitEvent::Registry.number());
        match keep_waiting() {
            Some(from) => asks_from = from,
            None => return,
        }
    }
}
