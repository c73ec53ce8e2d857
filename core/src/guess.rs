//! Which preset an ID may be of. An ID does not say; but few presets give it a time at which it can have been
//! made.
//!
//! The first guess is the preset that needs the fewest bits to say the ID. A sequence counts twice its
//! significant bits and one more (so that 0 counts 1, and 7 counts 7), but not more than its width: low
//! sequences are common, and one that is full of high bits was most likely cut out of the ID at the wrong
//! place. The other fields count their width, as one server is as good as another, and time the bits of the
//! number of ticks since 2010.

use crate::field::Field;
use crate::layout::presets::{PRESETS, Preset};
use crate::layout::{Decoded, Layout};

/// 2010-01-01, in microseconds of Unix time: the year in which Twitter invented these IDs. None is older.
pub const OLDEST_US: i64 = 1_262_304_000_000_000;
/// How long after the epoch of a layout its first IDs are taken for such: a day. What is earlier is far more
/// likely a small number of another kind, such as one of an ordinary sequence.
pub const FIRST_US: i64 = 86_400_000_000;
/// How far the clock that made an ID may be ahead of the one that reads it: a minute.
pub const MAX_AHEAD_US: i64 = 60_000_000;

/// A preset that an ID may be of, and what the ID says then.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// The preset.
    pub preset: &'static Preset,
    /// The ID, read with the preset's layout.
    pub decoded: Decoded,
}

/// The presets that an ID may be of, the most likely first; those that are as likely as each other in the
/// order of [`PRESETS`]. `now_us` is the time now, in microseconds of Unix time.
///
/// A preset counts if the ID lies within its layout, and the ID's time between 2010 and now (or a minute
/// later, as clocks differ), and not on the first day of the layout. There is none for a negative ID, and
/// often several: no number tells `twitter` from `leaf`.
pub fn guess(id: i64, now_us: i64) -> Vec<Guess> {
    let newest_us = now_us.saturating_add(MAX_AHEAD_US);
    let mut guesses: Vec<(u32, Guess)> = PRESETS
        .iter()
        .filter_map(|preset| {
            let layout = preset.layout();
            let decoded = layout.decode(id).ok()?;
            (OLDEST_US.max(layout.epoch_us() + FIRST_US)..=newest_us)
                .contains(&decoded.generated_at)
                .then(|| (cost(&layout, id, now_us), Guess { preset, decoded }))
        })
        .collect();
    guesses.sort_by_key(|&(cost, _)| cost);
    guesses.into_iter().map(|(_, guess)| guess).collect()
}

/// How many bits it takes to say an ID of the layout that was made since 2010.
fn cost(layout: &Layout, id: i64, now_us: i64) -> u32 {
    let ticks = now_us.saturating_sub(OLDEST_US).max(0).unsigned_abs() / layout.unit_us();
    let sequence = layout.field_of(Field::Sequence, id).ok().flatten().unwrap_or(0);
    significant_bits(ticks)
        + layout.bits(Field::Datacenter)
        + layout.bits(Field::Worker)
        + layout.bits(Field::ClockSeq)
        + (2 * significant_bits(sequence) + 1).min(layout.bits(Field::Sequence))
}

fn significant_bits(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}
