//! The state that all parts of a run share: the true time, the checks, the story.

use std::collections::BTreeMap;

use crate::ledger::Ledger;
use crate::mutation::{Broken, Mutation};

/// Why a run has failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The property that is violated.
    pub what: &'static str,
    pub text: String,
}

pub struct Context {
    /// The true time, in microseconds of Unix time.
    pub now_us: i64,
    pub began_us: i64,
    pub broken: Broken,
    pub ledger: Ledger,
    pub failure: Option<Failure>,
    /// The events in words, if they are to be printed.
    pub story: Option<Vec<String>>,
    pub faults: BTreeMap<&'static str, u64>,
    /// Fixed worker IDs that no server has had.
    pub fresh_workers: std::ops::Range<u32>,
    pub next_oid: u32,
    /// A server has lost tokens that the registry had signed for it.
    pub is_evidence_lost: bool,
}

impl Context {
    pub fn is(&self, mutation: Mutation) -> bool {
        self.broken == Some(mutation)
    }

    pub fn fail(&mut self, what: &'static str, text: String) {
        if self.failure.is_none() {
            self.say("CHECK", || format!("VIOLATED: {what}: {text}"));
            self.failure = Some(Failure { what, text });
        }
    }

    pub fn say(&mut self, who: &str, text: impl FnOnce() -> String) {
        let since_us = self.now_us - self.began_us;
        if let Some(story) = &mut self.story {
            story.push(format!("{} {who}: {}", duration(since_us), text()));
        }
    }

    /// Counts a fault that had an effect.
    pub fn count(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    pub fn fresh_worker(&mut self) -> Option<u32> {
        self.fresh_workers.next()
    }

    pub fn fresh_oid(&mut self) -> u32 {
        self.next_oid += 1;
        self.next_oid
    }
}

/// A time since the start of the run: days, hours, minutes, seconds.
pub fn duration(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "" };
    let us = us.unsigned_abs();
    let (seconds, rest) = (us / 1_000_000, us % 1_000_000);
    let (days, hours) = (seconds / 86_400, seconds / 3_600 % 24);
    let days = if days > 0 { format!("{days}d ") } else { String::new() };
    format!("{sign}{days}{hours:02}:{:02}:{:02}.{rest:06}", seconds / 60 % 60, seconds % 60)
}
