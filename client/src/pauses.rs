//! Pauses and deadlines. Pauses have a random part, because programs that were started at the same time must not call
//! at the same time forever.

use std::time::Duration;

use snowflake_id_core::hosts;
use tokio::time::Instant;
use uuid::Uuid;

/// Multiplies a duration by a random factor.
pub fn about(duration: Duration, least: f64, most: f64) -> Duration {
    let random = f64::from(Uuid::new_v4().as_u128() as u32) / f64::from(u32::MAX);
    duration.mul_f64(least + (most - least) * random)
}

/// Returns when a wait that begins now is over. It may be as long as a [`Duration`] can say.
pub fn deadline(time: Duration) -> Instant {
    hosts::deadline(Instant::now().into_std(), time).into()
}
