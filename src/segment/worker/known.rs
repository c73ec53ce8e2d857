//! What the worker alone knows of the segments in use.

use std::time::{Duration, Instant};

use snowflake_id_core::segment::Standing;

use crate::pg::random::random_time;
use crate::segment::answer::Granted;
use crate::segment::fetch::Lasted;

/// How long before its beginning the first range of a period is fetched, not by all servers at once.
const LEAD: (f64, f64) = (60.0, 600.0);
/// How soon the registry is asked again, after an answer that was no range, if nobody waits, as there still are numbers.
const CALM_PAUSE: (f64, f64) = (5.0, 30.0);

/// What the worker alone knows of a segment.
pub struct Known {
    name: String,
    /// A range of the next period, which has not begun.
    pub held: Option<Granted>,
    /// Not before this is it asked for again, unless somebody waits.
    pub calm_until: Option<Instant>,
    pub last: Option<LastFetch>,
    /// How long before its beginning a period is fetched.
    pub lead_us: i64,
    /// Whether the last range that the registry gave could not be used.
    pub is_refused: bool,
    /// When the registry's statement last failed because of this name. It is asked for alone since, until that works.
    pub failed_at: Option<Instant>,
}

/// The last range that was fetched: when, how many numbers it has, and how many were left with it.
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
            failed_at: None,
        }
    }

    /// Has the registry not asked for a while, unless somebody waits.
    pub fn calm_down(&mut self) {
        self.calm_until = Some(Instant::now() + random_time(CALM_PAUSE));
    }

    pub fn is_calm(&self) -> bool {
        self.calm_until.is_some_and(|until| Instant::now() < until)
    }

    /// Whether the statement has failed because of this name within such a time.
    pub fn has_failed_within(&self, time: Duration) -> bool {
        self.failed_at.is_some_and(|failed_at| failed_at.elapsed() < time)
    }
}

impl LastFetch {
    /// How long the range would last at the rate at which numbers were taken since; `None` if none were.
    pub fn lasted(&self, standing: &Standing) -> Option<Lasted> {
        let taken = self.left.checked_sub(standing.left).filter(|&taken| taken > 0)?;
        let lasted = self.at.elapsed().as_secs_f64() * self.count as f64 / taken as f64;
        Some(Lasted { lasted: lasted.min(1e9), count: self.count })
    }
}

/// All of them, by the place of the slot.
#[derive(Default)]
pub struct KnownSegments(Vec<Option<Known>>);

impl KnownSegments {
    /// What is known of the segment in a slot. The slot may have gone to another name since.
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

    /// Whether the statement has last failed because of the name in this slot.
    pub fn is_suspected(&self, at: usize) -> bool {
        self.0.get(at).and_then(Option::as_ref).is_some_and(|known| known.failed_at.is_some())
    }

    /// The ranges that are held back for a later period: the place, the name and the range.
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
