//! Code shared by the workers that ask a registry in rounds: pauses after failures, logging of problems, and
//! sleeping until woken.

use std::time::{Duration, Instant};

pub use snowflake_id_core::failures::Failures;
use snowflake_id_core::message::without_controls;

use crate::pg::wait::wait;
use crate::shared::wakeup::Wakeup;
use crate::wait_event::WaitEvent;

/// The maximum length of a received message in logs and views, in bytes.
const LONGEST_PROBLEM: usize = 500;
/// The shortest sleep. The minimum timeout of a latch is 1 ms.
const SHORTEST_NAP: Duration = Duration::from_millis(1);

/// The last logged message. A message is not logged again if the next attempt fails with the same message.
pub struct Logged(Option<String>);

impl Logged {
    /// Starts with the message that the previous process may have logged.
    pub fn before(text: Option<String>) -> Logged {
        Logged(text)
    }

    /// Returns whether the message must be logged because it differs from the last logged message.
    pub fn is_new(&mut self, text: Option<String>) -> bool {
        let is_new = text.is_some() && text != self.0;
        self.0 = text;
        is_new
    }
}

/// Truncates a received message for logs and views, and removes its control characters.
pub fn in_short(text: String) -> String {
    without_controls(&text[..text.floor_char_boundary(LONGEST_PROBLEM)])
}

/// Sleeps until `until`, or until another process requests the worker. A request that arrives before
/// `asks_from` ends the sleep only at `asks_from`. After each wait, the closure `keep_waiting` is called. It
/// returns a new value for `asks_from`, or `None` to end the sleep.
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
        // Only the first request sets the latch. If a request came too early to count, sleep until it counts.
        let next = if is_wanted { asks_from.min(until) } else { until };
        wait(next.saturating_duration_since(now).max(SHORTEST_NAP), WaitEvent::Registry.number());
        match keep_waiting() {
            Some(from) => asks_from = from,
            None => return,
        }
    }
}
