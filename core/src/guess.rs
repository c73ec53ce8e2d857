//! Guesses the preset that an ID belongs to. An ID does not contain its layout, but most presets would decode
//! the ID to an implausible time.
//!
//! The first guess is the preset that needs the fewest bits to express the ID. The bits are counted as
//! follows:
//!
//! * The time counts as the number of bits that are needed to number the ticks since 2010.
//! * The sequence counts as one bit plus two bits for each of its significant bits, but never more than its
//!   width. For example, 0 counts as 1 bit, and 7 counts as 7. Low sequences are common. A sequence with many
//!   high bits was probably cut out of the ID at the wrong position.
//! * Each of the other fields counts as its full width, because all servers are equally likely.

use crate::field::Field;
use crate::layout::presets::{PRESETS, Preset};
use crate::layout::{Decoded, Layout};

/// 2010-01-01, in microseconds of Unix time. Twitter introduced Snowflake IDs in 2010, so older IDs do not
/// exist.
pub const OLDEST_US: i64 = 1_262_304_000_000_000;
/// The minimum time between the epoch of a layout and a plausible ID: one day, in microseconds. A number with
/// an earlier time is far more likely to be an ordinary small number, such as a value of a sequence.
pub const FIRST_US: i64 = 86_400_000_000;
/// The maximum time by which a plausible ID may be in the future: one minute, in microseconds.
pub const MAX_AHEAD_US: i64 = 60_000_000;

/// A plausible preset of an ID, and the ID as decoded with this preset.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// The preset.
    pub preset: &'static Preset,
    /// The fields of the ID in the layout of the preset.
    pub decoded: Decoded,
}

/// Returns the presets that an ID may belong to, starting with the most likely. Equally likely presets are in
/// the order of [`PRESETS`]. The parameter `now_us` is the current time in microseconds of Unix time.
///
/// A preset is plausible if the ID fits its layout, and the time of the ID is between 2010 and now. Times on
/// the first day of the layout are not plausible. The time may be up to one minute in the future, because
/// clocks differ. Negative IDs have no plausible presets. Many IDs have several plausible presets. For
/// example, the presets `twitter` and `leaf` cannot be distinguished.
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

/// Returns the number of bits needed to represent an ID created after 2010 in the layout.
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
