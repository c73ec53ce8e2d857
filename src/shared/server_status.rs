//! The values that the keeper, the backends and administrators publish to one another, with a separate type
//! for each writer.
//!
//! Times are microseconds of Unix time; 0 means none. Unless a comment says otherwise, no word orders
//! accesses to another word, so Relaxed suffices.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use snowflake_id_core::track::{Begun, TRACKS};

use super::clock_sequence::ValueWords;
use super::command_slot::CommandSlot;
use super::history::HistoryWords;
use super::keeper_words::KeeperWords;
use super::wait::Signal;
use super::wakeup::Wakeup;

/// The words of all writers.
#[derive(Default)]
pub struct ServerStatus {
    pub history: HistoryWords,
    pub keeper: KeeperWords,
    begun: [BegunWords; TRACKS],
    pub values: ValueWords,
    /// The wakeup of the keeper.
    pub wakeup: Wakeup,
    /// The wakeup of the registry worker.
    pub registry_wakeup: Wakeup,
    pub commands: CommandSlot,
    /// Sent by the keeper at the end of each cycle.
    pub cycles: Signal,
}

/// The value of a track, and the floor of the slots of that track (see [`Begun`]). Written by the keeper,
/// under the exclusive lock of the directory.
#[derive(Default)]
struct BegunWords {
    value: AtomicU8,
    floor_us: AtomicI64,
}

impl ServerStatus {
    /// Returns the value of a track, and the floor of its slots.
    pub fn begun(&self, track: usize) -> Begun {
        let words = &self.begun[track];
        Begun { value: words.value.load(Ordering::Acquire), floor_us: words.floor_us.load(Ordering::Acquire) }
    }

    /// Whether the keeper has determined the floors since shared memory was created.
    pub fn is_begun(&self) -> bool {
        self.begun(0).floor_us != 0
    }

    pub(super) fn begin(&self, track: usize, begun: Begun) {
        let words = &self.begun[track];
        words.floor_us.store(begun.floor_us, Ordering::Release);
        words.value.store(begun.value, Ordering::Release);
    }

    /// Returns the value of the clock sequence that is in use, which is 0 if no other value was opened.
    pub fn value(&self) -> u8 {
        self.begun(1).value
    }

    /// Returns the earliest instant, in microseconds of Unix time, at which a layout could get another value
    /// of the clock sequence than the current one. `max_value` is the highest value that fits the layout.
    pub fn another_value_from_us(&self, max_value: u8) -> Option<i64> {
        let lease = self.keeper.range_us();
        let from_us = self.values.free_from_us(max_value, self.value())?.max(lease.start);
        lease.contains(&from_us).then_some(from_us)
    }
}
