//! [`Failures`]: growing pauses between attempts that fail.

use std::time::Duration;

/// Counts consecutive failures.
#[derive(Clone, Copy, Debug, Default)]
pub struct Failures(u32);

impl Failures {
    /// Counts a failure. Returns the pause before the next attempt: `first` after the first failure, and
    /// twice as long after each further failure, up to `longest`.
    pub fn add(&mut self, first: Duration, longest: Duration) -> Duration {
        let pause = first.saturating_mul(1 << self.0.min(10)).min(longest);
        self.0 = self.0.saturating_add(1);
        pause
    }

    /// Ends the series of failures. Returns whether the series contained a failure.
    pub fn end(&mut self) -> bool {
        std::mem::take(&mut self.0) > 0
    }
}
