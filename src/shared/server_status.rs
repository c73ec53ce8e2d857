//! What the keeper, the backends and administrators tell each other: one type for each writer.
//!
//! Times are microseconds of Unix time; 0 means none. No word is used to order another unless it says so:
//! Relaxed does for the rest.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use snowflake_id_core::track::{Begun, TRACKS};

use super::clock_sequence::ValueWords;
use super::command_slot::CommandSlot;
use super::history::HistoryWords;
use super::keeper_words::KeeperWords;
use super::wait::Signal;
use super::wakeup::Wakeup;

/// All of it.
#[derive(Default)]
pub struct ServerStatus {
    pub history: HistoryWords,
    pub keeper: KeeperWords,
    begun: [BegunWords; TRACKS],
    pub values: ValueWords,
    /// That of the keeper.
    pub wakeup: Wakeup,
    /// That of the registry worker.
    pub registry_wakeup: Wakeup,
    pub commands: CommandSlot,
    /// Sent by the keeper when it has looked after everything.
    pub cycles: Signal,
}

/// The value of a track, and where its slots begin: see [`Begun`]. Written by the keeper, under the exclusive lock of the
/// directory.
#[derive(Default)]
struct BegunWords {
    value: AtomicU8,
    floor_us: AtomicI64,
}

impl ServerStatus {
    /// The value of a track, and where its slots begin.
    pub fn begun(&self, track: usize) -> Begun {
        let words = &self.begun[track];
        Begun { value: words.value.load(Ordering::Acquire), floor_us: words.floor_us.load(Ordering::Acquire) }
    }

    /// Whether the keeper has found that out since the shared memory was made.
    pub fn is_begun(&self) -> bool {
        self.begun(0).floor_us != 0
    }

    pub(super) fn begin(&self, track: usize, begun: Begun) {
        let words = &self.begun[track];
        words.floor_us.store(begun.floor_us, Ordering::Release);
        words.value.store(begun.value, Ordering::Release);
    }

    /// The value of the clock sequence that is in use; 0 if there is no other one.
    pub fn value(&self) -> u8 {
        self.begun(1).value
    }

    /// From when on a layout could have another value of the clock sequence than the one in use, if the highest that it
    /// can have is `max_value`.
    pub fn another_value_from_us(&self, max_value: u8) -> Option<i64> {
        let lease = self.keeper.range_us();
        let from_us = self.values.free_from_us(max_value, self.value())?.max(lease.start);
        lease.contains(&from_us).then_some(from_us)
    }
}
