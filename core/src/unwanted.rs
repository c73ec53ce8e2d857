//! The worker IDs that a server has leased but cannot use.

use std::time::Duration;

/// The minimum time before a worker ID is accepted again.
const LEAST_TIME: Duration = Duration::from_secs(60);
/// The maximum length of a list of unwanted worker IDs that the registry accepts.
const MOST: usize = 10_000;

/// The unwanted worker IDs, with the times when they were noted. They are forgotten after a while.
#[derive(Clone, Debug, Default)]
pub struct Unwanted(Vec<(u32, Duration)>);

impl Unwanted {
    /// Notes the worker ID of the current lease if the lease is unusable, and forgets worker IDs that were noted longer
    /// ago than the length of a lease and than one minute. While the lease is unusable, its worker ID is noted again.
    /// The times count from any fixed moment.
    pub fn update(&mut self, unusable: Option<u32>, now: Duration, lease_time: Duration) {
        self.0.retain(|(_, since)| now.saturating_sub(*since) < lease_time.max(LEAST_TIME));
        if let Some(worker) = unusable
            && !self.0.iter().any(|(unwanted, _)| *unwanted == worker)
        {
            if self.0.len() == MOST {
                self.0.remove(0);
            }
            self.0.push((worker, now));
        }
    }

    /// Forgets a worker ID, because another lease of this worker ID may be usable.
    pub fn forget(&mut self, worker: u32) {
        self.0.retain(|(unwanted, _)| *unwanted != worker);
    }

    /// Returns the unwanted worker IDs, in the order in which they were noted.
    pub fn workers(&self) -> Vec<u32> {
        self.0.iter().map(|(worker, _)| *worker).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(600);

    #[test]
    fn is_forgotten_after_the_length_of_a_lease() {
        let mut unwanted = Unwanted::default();
        unwanted.update(Some(7), Duration::ZERO, LEASE);
        unwanted.update(Some(8), LEASE / 2, LEASE);
        unwanted.update(None, LEASE - Duration::from_secs(1), LEASE);
        assert_eq!(unwanted.workers(), [7, 8]);
        unwanted.update(None, LEASE, LEASE);
        assert_eq!(unwanted.workers(), [8]);
        unwanted.forget(8);
        assert!(unwanted.workers().is_empty());
    }

    #[test]
    fn is_not_forgotten_within_a_minute() {
        let mut unwanted = Unwanted::default();
        unwanted.update(Some(7), Duration::ZERO, Duration::from_secs(10));
        unwanted.update(None, LEAST_TIME - Duration::from_secs(1), Duration::from_secs(10));
        assert_eq!(unwanted.workers(), [7]);
        unwanted.update(None, LEAST_TIME, Duration::from_secs(10));
        assert!(unwanted.workers().is_empty());
    }

    /// A server whose only lease is unusable would otherwise renew that lease forever.
    #[test]
    fn stays_unwanted_while_the_lease_is_unusable() {
        let mut unwanted = Unwanted::default();
        for minute in 0..60 {
            unwanted.update(Some(7), Duration::from_secs(60 * minute), LEASE);
            assert_eq!(unwanted.workers(), [7], "in minute {minute}");
        }
    }

    #[test]
    fn is_never_longer_than_the_registry_accepts() {
        let mut unwanted = Unwanted::default();
        for worker in 0..=MOST as u32 {
            unwanted.update(Some(worker), Duration::ZERO, LEASE);
        }
        assert_eq!(unwanted.workers(), (1..=MOST as u32).collect::<Vec<_>>());
    }
}
