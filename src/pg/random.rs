//! Random numbers that nobody can guess.

use std::time::Duration;

use pgrx::prelude::*;

/// Random bytes.
///
/// # Panics
/// If the operating system has none, which PostgreSQL takes for an error as well.
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: a buffer of that length.
    let is_done = unsafe { pg_sys::pg_strong_random(bytes.as_mut_ptr().cast(), N) };
    assert!(is_done, "could not generate random numbers");
    bytes
}

/// A random number from 0 to 1.
fn random_fraction() -> f64 {
    f64::from(u32::from_ne_bytes(random_bytes())) / f64::from(u32::MAX)
}

/// A random number between two.
pub fn random_between((low, high): (f64, f64)) -> f64 {
    low + (high - low) * random_fraction()
}

/// A random time between two numbers of seconds.
pub fn random_time(seconds: (f64, f64)) -> Duration {
    Duration::from_secs_f64(random_between(seconds))
}
