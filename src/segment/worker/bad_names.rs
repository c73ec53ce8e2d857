//! Handling of names that make the registry's statement fail. The server continues to get numbers for all
//! other names.

use std::time::Instant;

use pgrx::prelude::*;
use snowflake_id_core::portions::Portions;
use snowflake_id_core::segment_answer::{About, SegmentState};

use super::state::Worker;
use super::wishes::Wish;

impl Worker {
    /// Sends the requests in portions. If a statement fails because of one name, the portion is split in half,
    /// and each half is sent separately, until the name is found. All other names get numbers. Returns an
    /// error if the process must stop.
    pub fn ask_in_portions(&mut self, wishes: Vec<Wish>) -> Result<(), ()> {
        let mut portions = self.portions(wishes);
        let mut has_answered = false;
        while let Some(portion) = portions.pop() {
            let failure = match self.ask(&portion) {
                Ok(()) => {
                    has_answered = true;
                    self.succeed();
                    continue;
                }
                Err(None) => return Err(()),
                Err(Some(failure)) => failure,
            };
            if failure.is_of_statement && !has_answered {
                // Send a statement without names. If this statement fails too, the cause is not a name.
                has_answered = match self.ask(&[]) {
                    Ok(()) => true,
                    Err(None) => return Err(()),
                    Err(Some(_)) => false,
                };
            }
            if !(failure.is_of_statement && has_answered) {
                self.fail(failure);
                break;
            }
            self.succeed();
            if let Some(wish) = portions.halve(portion) {
                self.suspect(&wish, failure.problem);
            }
        }
        Ok(())
    }

    /// Divides the requests into portions, each of which is sent in its own statement. Each suspected name gets
    /// a separate portion, and these portions are sent last. There is always at least one portion.
    fn portions(&self, wishes: Vec<Wish>) -> Portions<Wish> {
        let is_suspected = |wish: &Wish| self.known.is_suspected(wish.at);
        let (suspects, others): (Vec<_>, Vec<_>) = wishes.into_iter().partition(is_suspected);
        let mut portions = Portions::of(others);
        suspects.into_iter().for_each(|wish| portions.add(vec![wish]));
        if portions.is_empty() {
            portions.add(vec![]);
        }
        portions
    }

    /// Marks the name of a request as the cause of a failed statement.
    fn suspect(&mut self, wish: &Wish, problem: String) {
        let Wish { at, request } = wish;
        // Waiting calls repeat the request, but the warning is logged only once.
        if self.known.of(*at, &request.name).failed_at.is_none() {
            warning!("snowflake_id: could not get numbers of segment \"{}\": {problem}", request.name);
        }
        let (state, detail) = (SegmentState::Invalid, Some(problem));
        let about = About { state, granted: None, max_value: None, token: None, detail, near: None };
        self.note_answer(*at, request, &about);
        self.known.of(*at, &request.name).failed_at = Some(Instant::now());
        self.pause();
    }
}
