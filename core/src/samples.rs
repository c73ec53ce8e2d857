//! The choice of the watermark samples that are kept.
//!
//! A sample consists of the watermarks and a snapshot. It answers only statements whose snapshots are at least as new
//! ([`Snapshot::is_covered_by`](crate::watermark::Snapshot::is_covered_by)). A statement asks for the watermark some
//! time after it has begun. The newest sample that is older than the statement gives the highest watermark. If only the
//! newest samples were kept, many readers would replace them before slow statements could use them. The samples
//! therefore have ages of about 1 ms, 3 ms, 10 ms, and so on, up to a minute.

use crate::clocks::SinceBoot;

/// The number of samples.
pub const SAMPLES: usize = 12;

/// The minimum time between two samples, in microseconds.
pub const MIN_SPACING_US: i64 = 1_000;

/// The age at which a sample may be dropped without regard to the others, in microseconds.
const OLD_US: i64 = 60_000_000;

/// Returns the index of the sample that a new sample replaces, or `None` if the newest sample is younger than
/// [`MIN_SPACING_US`]. `times` are the times of the samples in any order, with 0 for each unused place.
pub fn to_replace(times: &[SinceBoot; SAMPLES], now: SinceBoot) -> Option<usize> {
    const UNUSED: SinceBoot = SinceBoot::from_us(0);
    let newest = times.iter().copied().max().unwrap_or_default();
    if newest > UNUSED && now.us_since(newest) < MIN_SPACING_US {
        return None;
    }
    if let Some(unused) = times.iter().position(|&time| time == UNUSED) {
        return Some(unused);
    }
    let mut by_age: Vec<_> = times.iter().enumerate().map(|(at, &time)| (now.us_since(time), at)).collect();
    by_age.sort_unstable();
    let (oldest_us, oldest) = by_age[SAMPLES - 1];
    if oldest_us > OLD_US {
        return Some(oldest);
    }
    // After a sample is dropped, statements of its age must use the next older sample. Drop the sample for which the
    // age of the next older sample divided by the age of the next younger sample is smallest.
    let factor = |place: usize| {
        let younger_us = if place == 0 { MIN_SPACING_US } else { by_age[place - 1].0.max(MIN_SPACING_US) };
        by_age[place + 1].0 as f64 / younger_us as f64
    };
    let best = (0..SAMPLES - 1).min_by(|&one, &other| factor(one).total_cmp(&factor(other)));
    best.map(|place| by_age[place].1)
}
