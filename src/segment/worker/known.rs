//! The segments worker's private information about the segments in use.

use std::time::{Duration, Instant};

use snowflake_id_core::number_call::Lasted;
use snowflake_id_core::segment::Standing;
use snowflake_id_core::segment_answer::Granted;

use crate::pg::random::random_time;

/// The limits of the lead time, in seconds. The lead time is how long before the start of a period the worker fetches
/// the first range of the period. The lead time is random, so that not all servers send their requests at once.
const LEAD: (f64, f64) = (60.0, 600.0);
/// The limits of the pause after an answer without a range or after a failed round, in seconds. The pause is random. If
/// a call is waiting, the worker skips the pause.
const CALM_PAUSE: (f64, f64) = (5.0, 30.0);

/// The worker's knowledge of one segment.
pub struct Known {
    name: String,
    /// A range of the next period, which the worker holds back until that period starts.
    pub held: Option<Granted>,
    /// The end of the current pause. Until then, the worker requests a range only if a call is waiting.
    pub calm_until: Option<Instant>,
    pub last: Option<LastFetch>,
    /// The lead time for the first range of a period, in microseconds.
    pub lead_us: i64,
    /// Whether the worker refused the last range that the registry granted.
    pub is_refused: bool,
    /// Whether the server must hold numbers of this segment before the first call (`snowflake_id.prefetch_segments`).
    pub is_prefetched: bool,
    /// The time at which a statement last failed because of this name. The worker sends the name in a separate
    /// statement until such a statement succeeds.
    pub failed_at: Option<Instant>,
}

/// The last fetched range: the time, the size of the range, and the total of the remaining numbers at that time.
pub struct LastFetch {
    pub at: Instant,
    pub count: u64,
    pub left: u64,
}

impl Known {
    fn new(name: &str) -> Known {
        Known {
            name: name.into(),
            held: None,
            calm_until: None,
            last: None,
            lead_us: random_time(LEAD).as_micros() as i64,
            is_refused: false,
            is_prefetched: false,
            failed_at: None,
        }
    }

    /// Starts a pause of random length. During the pause, numbers are requested only if a call is waiting.
    pub fn calm_down(&mut self) {
        self.calm_until = Some(Instant::now() + random_time(CALM_PAUSE));
    }

    pub fn is_calm(&self) -> bool {
        self.calm_until.is_some_and(|until| Instant::now() < until)
    }

    /// Returns whether a statement has failed because of this name within the last `time`.
    pub fn has_failed_within(&self, time: Duration) -> bool {
        self.failed_at.is_some_and(|failed_at| failed_at.elapsed() < time)
    }
}

impl LastFetch {
    /// Returns how long the range would last at the average rate since the fetch, or `None` if no numbers were taken.
    pub fn lasted(&self, standing: &Standing) -> Option<Lasted> {
        let taken = self.left.checked_sub(standing.left).filter(|&taken| taken > 0)?;
        Some(Lasted::new(self.count, taken, self.at.elapsed()))
    }
}

/// All known segments, by slot index.
#[derive(Default)]
pub struct KnownSegments(Vec<Option<Known>>);

impl KnownSegments {
    /// Returns the worker's knowledge of the segment in a slot. If the slot has been reassigned to another name, the
    /// old knowledge is discarded first.
    pub fn of(&mut self, at: usize, name: &str) -> &mut Known {
        if self.0.len() <= at {
            self.0.resize_with(at + 1, || None);
        }
        let entry = &mut self.0[at];
        if entry.as_ref().is_some_and(|known| known.name != name) {
            *entry = None;
        }
        entry.get_or_insert_with(|| Known::new(name))
    }

    /// Returns whether the last statement with the name in this slot failed because of the name.
    pub fn is_suspected(&self, at: usize) -> bool {
        self.0.get(at).and_then(Option::as_ref).is_some_and(|known| known.failed_at.is_some())
    }

    pub fn is_prefetched(&self, at: usize) -> bool {
        self.0.get(at).and_then(Option::as_ref).is_some_and(|known| known.is_prefetched)
    }

    /// Returns the ranges that are held back for a later period, each with the slot index and the name.
    pub fn held(&self) -> impl Iterator<Item = (usize, &str, Granted)> {
        self.0.iter().enumerate().filter_map(|(at, known)| {
            let known = known.as_ref()?;
            Some((at, known.name.as_str(), known.held?))
        })
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Known> {
        self.0.iter_mut().flatten()
    }
}
