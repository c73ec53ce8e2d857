//! Ages of the samples that are kept.

use proptest::prelude::*;
use snowflake_id_core::clocks::SinceBoot;
use snowflake_id_core::samples::{MIN_SPACING_US, SAMPLES, to_replace};

/// Adds samples at these intervals, and returns their times.
fn after(intervals_us: impl IntoIterator<Item = i64>) -> ([i64; SAMPLES], i64) {
    let (mut times, mut now_us) = ([SinceBoot::default(); SAMPLES], 1);
    for interval_us in intervals_us {
        now_us += interval_us;
        let now = SinceBoot::from_us(now_us);
        if let Some(at) = to_replace(&times, now) {
            times[at] = now;
        }
    }
    (times.map(SinceBoot::as_us), now_us)
}

/// Returns the age of the youngest sample that is at least as old as a statement.
fn age_for(statement_us: i64, (times_us, now_us): &([i64; SAMPLES], i64)) -> Option<i64> {
    let ages = times_us.iter().filter(|time_us| **time_us > 0).map(|time_us| now_us - time_us);
    ages.filter(|age_us| *age_us >= statement_us).min()
}

#[test]
fn samples_are_not_taken_too_often() {
    let (times_us, now_us) = after([10]);
    let replaced_at = |us| to_replace(&times_us.map(SinceBoot::from_us), SinceBoot::from_us(us));
    assert_eq!(replaced_at(now_us + MIN_SPACING_US - 1), None);
    assert!(replaced_at(now_us + MIN_SPACING_US).is_some());
}

proptest! {
    /// Readers ask all the time. Each statement of the last ten seconds finds a sample that is not much older.
    #[test]
    fn each_statement_finds_a_sample_of_about_its_age(
        spacing_us in 1_i64..3_000,
        statement_us in 1_i64..10_000_000,
        samples in 20_000_usize..40_000,
    ) {
        let spacing_us = spacing_us.max(300);
        let samples = after((0..samples.max(30_000_000 / spacing_us as usize)).map(|_| spacing_us));
        let age_us = age_for(statement_us, &samples).expect("no sample is old enough");
        prop_assert!(age_us <= 7 * statement_us.max(MIN_SPACING_US), "{age_us} us for {statement_us} us");
    }

    /// However seldom readers ask, each new sample is kept.
    #[test]
    fn a_sample_after_a_pause_is_kept(intervals_us in prop::collection::vec(MIN_SPACING_US..1 << 40, 1..50)) {
        let (times_us, now_us) = after(intervals_us);
        prop_assert!(times_us.contains(&now_us));
    }
}
