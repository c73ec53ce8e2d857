//! The server's own record of its horizons, identities and clock. The record does not depend on the stored state. It
//! survives a reinitialization of shared memory (see [`super::carry_over`]).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use snowflake_id_core::Identity;
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::track::{Horizon, TRACKS};
use snowflake_id_core::used::History;

/// The words of the history. Only the keeper writes them. [`super::carry_over`] copies them all.
pub struct HistoryWords {
    tracks: [TrackWords; TRACKS],
    highest_us: AtomicI64,
    last_identity: AtomicU64,
    /// The OIDs of the database and the relation of the stored horizon, or 0 if no horizon was ever stored.
    stored_at: AtomicU64,
    /// The clock offset that was last accepted, in microseconds, or 0 if no offset has been accepted.
    clock_offset_us: AtomicI64,
    /// The floor of the last reset since the server was started, in microseconds of Unix time, or 0 if there was no
    /// reset.
    lowered_at_us: AtomicI64,
}

/// The horizons of a track, encoded by [`Horizon::to_word`]. For their meaning, see
/// [`snowflake_id_core::track::Track`].
struct TrackWords {
    published: AtomicU64,
    promised: AtomicU64,
}

impl Default for HistoryWords {
    fn default() -> HistoryWords {
        HistoryWords::nothing()
    }
}

impl HistoryWords {
    pub(super) const fn nothing() -> HistoryWords {
        const fn track() -> TrackWords {
            TrackWords { published: AtomicU64::new(0), promised: AtomicU64::new(0) }
        }
        HistoryWords {
            tracks: [track(), track()],
            highest_us: AtomicI64::new(0),
            last_identity: AtomicU64::new(Identity::NOBODY),
            stored_at: AtomicU64::new(0),
            clock_offset_us: AtomicI64::new(0),
            lowered_at_us: AtomicI64::new(0),
        }
    }

    /// Returns the history without the horizons. Callers must read the horizons first (see [`HistoryWords::reset`]).
    pub fn snapshot(&self) -> History {
        History { highest_us: self.highest_us.load(Ordering::Acquire), last_identity: self.last_identity() }
    }

    /// Returns the last published horizon of a track. Newly assigned slots also get this horizon.
    pub fn published(&self, track: usize) -> Horizon {
        Horizon::from_word(self.tracks[track].published.load(Ordering::Acquire))
    }

    /// Returns the last promise for a track: a value of the clock sequence, and the highest horizon that may
    /// have been stored for that value.
    pub fn promised(&self, track: usize) -> Horizon {
        Horizon::from_word(self.tracks[track].promised.load(Ordering::Acquire))
    }

    /// Sets the published horizon. The store uses Release, so that a process that sees the horizon also sees all
    /// earlier writes.
    pub(super) fn set_published(&self, track: usize, horizon: Horizon) {
        self.tracks[track].published.store(horizon.to_word(), Ordering::Release);
    }

    /// Records that a horizon is about to be stored. The record covers every horizon that may be published, even if the
    /// stored rows are dropped before the commit. A promise for another value is overwritten, because that value is no
    /// longer used or was never used.
    pub fn promise(&self, track: usize, horizon: Horizon) {
        self.note_high(horizon.until_us());
        if self.promised(track).until_us_of(horizon.value()) <= horizon.until_us() {
            self.lower_promise(track, horizon);
        }
    }

    /// Lowers the promise to the given horizon. The caller must ensure that no time at or after the horizon
    /// was used or will be used.
    pub fn lower_promise(&self, track: usize, horizon: Horizon) {
        self.tracks[track].promised.store(horizon.to_word(), Ordering::Release);
    }

    /// Raises the high-water mark to `instant_us`, in microseconds of Unix time. The mark also covers IDs
    /// that were issued before the current shared memory was created.
    pub fn note_high(&self, instant_us: i64) {
        self.highest_us.fetch_max(instant_us, Ordering::AcqRel);
    }

    /// Lowers the horizons for a reset. The new horizons can be lower than times that the last identity has used. If
    /// the stored state is lost, the last identity can continue at the promised horizons. Therefore, the last identity
    /// is cleared before the promises are lowered, so that no process reads this identity together with the lowered
    /// promises (see [`HistoryWords::snapshot`]).
    ///
    /// The caller must run a fence first. The lowered horizons must not be visible in the store before this call.
    /// Otherwise, the keeper would find that the stored horizons differ from its own.
    ///
    /// `floor_us` is the time at which IDs begin again. This time must be recorded here, because the lower horizons can
    /// take effect without a complete reset. This happens if the keeper exits during the reset, and a backend then
    /// crashes.
    pub fn reset(&self, horizons: [Horizon; TRACKS], floor_us: i64) {
        self.lowered_at_us.store(floor_us, Ordering::Relaxed);
        self.last_identity.store(Identity::NOBODY, Ordering::Release);
        for (track, horizon) in horizons.into_iter().enumerate() {
            self.lower_promise(track, horizon);
            self.set_published(track, horizon);
        }
    }

    pub fn last_identity(&self) -> Option<Identity> {
        Identity::from_word(self.last_identity.load(Ordering::Acquire))
    }

    pub fn set_last_identity(&self, identity: Identity) {
        self.last_identity.store(identity.to_word(), Ordering::Release);
    }

    /// Returns the OIDs of the database and the relation in which a horizon was last stored.
    pub fn stored_at(&self) -> Option<(u32, u32)> {
        match self.stored_at.load(Ordering::Acquire) {
            0 => None,
            word => Some(((word >> 32) as u32, word as u32)),
        }
    }

    pub fn set_stored_at(&self, (database, relation): (u32, u32)) {
        self.stored_at.store(u64::from(database) << 32 | u64::from(relation), Ordering::Release);
    }

    /// Returns the clock offset that was last accepted.
    pub fn clock_offset(&self) -> Option<ClockOffset> {
        let offset_us = self.clock_offset_us.load(Ordering::Relaxed);
        (offset_us != 0).then_some(ClockOffset::from_us(offset_us))
    }

    pub fn set_clock_offset(&self, offset: ClockOffset) {
        self.clock_offset_us.store(offset.as_us(), Ordering::Relaxed);
    }

    /// Returns the floor of the last reset since the server was started, in microseconds of Unix time.
    pub fn lowered_at_us(&self) -> Option<i64> {
        Some(self.lowered_at_us.load(Ordering::Relaxed)).filter(|&time_us| time_us != 0)
    }

    /// Copies all words from another history.
    pub(super) fn copy_from(&self, other: &HistoryWords) {
        for track in 0..TRACKS {
            self.set_published(track, other.published(track));
            self.lower_promise(track, other.promised(track));
        }
        for (to, from) in [(&self.last_identity, &other.last_identity), (&self.stored_at, &other.stored_at)] {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        self.highest_us.store(other.highest_us.load(Ordering::Acquire), Ordering::Release);
        self.clock_offset_us.store(other.clock_offset_us.load(Ordering::Relaxed), Ordering::Relaxed);
        self.lowered_at_us.store(other.lowered_at_us.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}
