//! The state through which the keeper, the backends and administrators inform one another. The comment on
//! each part names the processes that write it.
//!
//! Times are in microseconds of Unix time. A time of 0 means that there is no such time. Accesses to a word are
//! Relaxed, unless they order accesses to other words.

use std::sync::atomic::{AtomicI64, AtomicU8, Ordering};

use snowflake_id_core::track::{Begun, TRACKS};

use super::clock_sequence::ValueWords;
use super::command_slot::CommandSlot;
use super::history::HistoryWords;
use super::keeper_words::KeeperWords;
use super::wait::Signal;
use super::wakeup::Wakeup;

/// The words of all writers. The comment on each part names the processes that may write it.
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
    /// The signal that the keeper sends at the end of each cycle.
    pub cycles: Signal,
}

/// The value of a track, and the floor of the slots of that track (see [`Begun`]). The keeper writes these
/// words under the exclusive lock of the directory.
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

    /// Returns whether the keeper has determined the floors since shared memory was created.
    pub fn is_begun(&self) -> bool {
        self.begun(0).floor_us != 0
    }

    pub(super) fn begin(&self, track: usize, begun: Begun) {
        let words = &self.begun[track];
        words.floor_us.store(begun.floor_us, Ordering::Release);
        words.value.store(begun.value, Ordering::Release);
    }

    /// Returns the current value of the clock sequence. The value is 0 until another value is opened.
    pub fn value(&self) -> u8 {
        self.begun(1).value
    }

    /// Returns the earliest time at which a layout can switch to another value of the clock sequence, in
    /// microseconds of Unix time. `max_value` is the highest value that fits the layout.
    pub fn another_value_from_us(&self, max_value: u8) -> Option<i64> {
        let lease = self.keeper.range_us();
        let from_us = self.values.free_from_us(max_value, self.value())?.max(lease.start);
        lease.contains(&from_us).then_some(from_us)
    }
}
