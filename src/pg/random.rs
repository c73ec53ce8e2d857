//! Random numbers that cannot be predicted.

use std::time::Duration;

use pgrx::prelude::*;

/// Returns random bytes.
///
/// # Panics
/// Panics if the operating system provides no random bytes. PostgreSQL itself raises an error in this case.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: the buffer has this length.
    let is_done = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), N) };
    assert!(is_done, "could not generate random numbers");
    bytes
}

/// Returns a random number from 0 to 1, inclusive.
fn random_fraction() -> f64 {
    f64::from(u32::from_ne_bytes(random_bytes())) / f64::from(u32::MAX)
}

/// Returns a random number between `low` and `high`.
pub fn random_between((low, high): (f64, f64)) -> f64 {
    low + (high - low) * random_fraction()
}

/// Returns a random duration between two durations, which are given in seconds.
pub fn random_time(seconds: (f64, f64)) -> Duration {
    Duration::from_secs_f64(random_between(seconds))
}
