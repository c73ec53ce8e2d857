//! What the server knows of its own past, whatever becomes of what is stored: horizons, identities, the clock. It outlives
//! the shared memory: see [`super::carry_over`].

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use snowflake_id_core::Identity;
use snowflake_id_core::track::{Horizon, TRACKS};
use snowflake_id_core::used::History;

/// What the server knows of its own past, whatever becomes of what is stored. Written by the keeper alone.
pub struct HistoryWords {
    tracks: [TrackWords; TRACKS],
    highest_us: AtomicI64,
    last_identity: AtomicU64,
    /// Where the horizon was stored last: the OIDs of a database and of a relation in it; 0 if nowhere yet.
    stored_at: AtomicU64,
    /// The clock less the time since boot when they were last found to agree; 0 if never.
    clock_offset_us: AtomicI64,
}

/// The horizons of a track: see [`Horizon::to_word`] and [`snowflake_id_core::track::Track`].
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
        }
    }

    /// What the server knows besides the horizons. Those are read before it: see [`HistoryWords::reset`].
    pub fn snapshot(&self) -> History {
        History { highest_us: self.highest_us.load(Ordering::Acquire), last_identity: self.last_identity() }
    }

    /// The horizon of a track that was published last: slots to come end there.
    pub fn published(&self, track: usize) -> Horizon {
        Horizon::from_word(self.tracks[track].published.load(Ordering::Acquire))
    }

    /// The value of a track that was opened, or was about to be opened, last, and the highest horizon of it that may have
    /// been stored.
    pub fn promised(&self, track: usize) -> Horizon {
        Horizon::from_word(self.tracks[track].promised.load(Ordering::Acquire))
    }

    /// Release: who sees a horizon sees all that was done to make it durable.
    pub(super) fn set_published(&self, track: usize, horizon: Horizon) {
        self.tracks[track].published.store(horizon.to_word(), Ordering::Release);
    }

    /// Notes a horizon before it is stored. Whoever stores facts anew, because the old ones were dropped
    /// meanwhile, thus knows of every horizon that may yet be published. The promise for another value is forgotten: that
    /// is not going to be used any more, or never was.
    pub fn promise(&self, track: usize, horizon: Horizon) {
        self.note_high(horizon.until_us());
        if self.promised(track).until_us_of(horizon.value()) <= horizon.until_us() {
            self.lower_promise(track, horizon);
        }
    }

    /// The highest horizon is a lower one from now on: nothing was, or will be, used beyond it.
    pub fn lower_promise(&self, track: usize, horizon: Horizon) {
        self.tracks[track].promised.store(horizon.to_word(), Ordering::Release);
    }

    /// Notes how far IDs may have come that were made before all that is known here.
    pub fn note_high(&self, instant_us: i64) {
        self.highest_us.fetch_max(instant_us, Ordering::AcqRel);
    }

    /// Everything is about to begin anew, below what the last identity was used for. That goes before the promises, so
    /// that nobody finds it with low ones (see [`HistoryWords::snapshot`]): after a loss the last identity
    /// alone goes on above the promise. Only after a fence, and before the low horizons can be read: they are to be what
    /// this server has stored.
    pub fn reset(&self, horizons: [Horizon; TRACKS]) {
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

    /// The OIDs of the database and of the relation where the horizon was stored last.
    pub fn stored_at(&self) -> Option<(u32, u32)> {
        match self.stored_at.load(Ordering::Acquire) {
            0 => None,
            word => Some(((word >> 32) as u32, word as u32)),
        }
    }

    pub fn set_stored_at(&self, (database, relation): (u32, u32)) {
        self.stored_at.store(u64::from(database) << 32 | u64::from(relation), Ordering::Release);
    }

    /// The clock less the time since boot when they were last found to agree.
    pub fn clock_offset_us(&self) -> Option<i64> {
        Some(self.clock_offset_us.load(Ordering::Relaxed)).filter(|&offset_us| offset_us != 0)
    }

    pub fn set_clock_offset(&self, offset_us: i64) {
        self.clock_offset_us.store(offset_us, Ordering::Relaxed);
    }

    /// Takes over all that another copy says.
    pub(super) fn copy_from(&self, other: &HistoryWords) {
        for track in 0..TRACKS {
            self.set_published(track, other.published(track));
            self.lower_promise(track, other.promised(track));
        }
        for (to, from) in [(&self.last_identity, &other.last_identity), (&self.stored_at, &other.stored_at)] {
            to.store(from.load(Ordering::Acquire), Ordering::Release);
        }
        self.highest_us.store(other.highest_us.load(Ordering::Acquire), Ordering::Release);
        self.set_clock_offset(other.clock_offset_us.load(Ordering::Relaxed));
    }
}
