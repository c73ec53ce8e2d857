//! Guesses the preset that an ID belongs to. An ID does not contain its layout, but most presets would decode
//! the ID to an implausible time.
//!
//! The first guess is the preset that needs the fewest bits to express the ID. The bits are counted as
//! follows:
//!
//! * The time counts as the number of bits that are needed to number the ticks since 2010.
//! * The sequence counts as one bit plus two bits for each of its significant bits, but never more than its
//!   width. For example, 0 counts as 1 bit, and 7 counts as 7. Low sequences are common, so a high sequence
//!   was probably read from the wrong bits of the ID. If the layout has no worker, the sequence counts as its
//!   full width, because it is partly random.
//! * Worker, datacenter and clock sequence together count like the sequence, because most generators number
//!   servers from 0 or 1. If servers have arbitrary numbers, such as half of an IP address (`SPREAD`), the
//!   numbers count as their full width.
//! * A few bits are added for rare presets, and subtracted for common ones (`RARITY`).

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

/// The presets of generators whose servers have arbitrary numbers: half of an IP address (Sonyflake), a
/// number for each start of a program (Baidu), or a random number (TSID).
const SPREAD: [&str; 6] = ["sonyflake", "sonyflake2", "baidu", "baidu_long", "baidu_restart", "tsid"];

/// The bits that are added for presets whose IDs are rare, or subtracted for presets whose IDs are common.
/// Without this correction, more IDs would be attributed to the wrong preset, for example IDs of `standard`
/// to `cockroachdb`.
const RARITY: [(&str, i32); 3] = [("cockroachdb", 2), ("tiktok", -2), ("wide", 3)];

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
    let mut guesses: Vec<(i32, Guess)> = PRESETS
        .iter()
        .filter_map(|preset| {
            let layout = preset.layout();
            let decoded = layout.decode(id).ok()?;
            (OLDEST_US.max(layout.epoch_us() + FIRST_US)..=newest_us)
                .contains(&decoded.generated_at)
                .then(|| (cost(preset, &layout, id, now_us), Guess { preset, decoded }))
        })
        .collect();
    guesses.sort_by_key(|&(cost, _)| cost);
    guesses.into_iter().map(|(_, guess)| guess).collect()
}

/// Returns the number of bits needed to represent an ID created after 2010 in the layout of a preset.
fn cost(preset: &Preset, layout: &Layout, id: i64, now_us: i64) -> i32 {
    let ticks = now_us.saturating_sub(OLDEST_US).max(0).unsigned_abs() / layout.unit_us();
    let value = |field| layout.field_of(field, id).ok().flatten().unwrap_or(0);
    // The fields that tell servers apart, as one number.
    let fields = layout.fields().into_iter();
    let (server, servers) = fields
        .filter(|(field, _)| !matches!(field, Field::Time | Field::Sequence))
        .fold((0, 0), |(server, servers), (field, bits)| (server << bits | value(field), servers + bits));
    let sequences = layout.bits(Field::Sequence);
    // CockroachDB has no sequence, and numbers its nodes from 1. Therefore, a server 0 without a sequence is
    // unlikely.
    let is_spread = SPREAD.contains(&preset.name) || sequences == 0 && server == 0;
    let bits = significant_bits(ticks)
        + if is_spread { servers } else { low_number(server, servers) }
        + if servers == 0 { sequences } else { low_number(value(Field::Sequence), sequences) };
    // At most 64 + 63 bits.
    bits as i32 + RARITY.iter().find(|(name, _)| *name == preset.name).map_or(0, |&(_, bits)| bits)
}

/// Returns the number of bits that are counted for a number that is probably low.
fn low_number(value: u64, width: u32) -> u32 {
    (2 * significant_bits(value) + 1).min(width)
}

fn significant_bits(value: u64) -> u32 {
    u64::BITS - value.leading_zeros()
}
