//! Pauses and deadlines. Pauses have a random part, because programs that were started at the same time must not call
//! at the same time forever.

use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

/// The longest wait: 100 years, so that no sum of times overflows.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Multiplies a duration by a random factor.
pub fn about(duration: Duration, least: f64, most: f64) -> Duration {
    let random = f64::from(Uuid::new_v4().as_u128() as u32) / f64::from(u32::MAX);
    duration.mul_f64(least + (most - least) * random)
}

/// Returns when a wait that begins now is over. It may be as long as a [`Duration`] can say.
pub fn deadline(time: Duration) -> Instant {
    Instant::now() + time.min(LONGEST)
}
