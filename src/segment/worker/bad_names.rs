//! Names for which the registry's statement fails. Only these names get no numbers.

use std::time::Instant;

use pgrx::prelude::*;

use super::portions::Portions;
use super::state::Worker;
use super::wishes::Wish;
use crate::segment::answer::About;
use crate::shared::segments::SegmentState;

impl Worker {
    /// Sends all these requests. If the statement fails because of one name, the requests are split in halves and
    /// sent again until that name is found. Only that name gets no numbers. Fails if the process has to stop.
    pub fn ask_in_portions(&mut self, wishes: Vec<Wish>) -> Result<(), ()> {
        let mut portions = self.portions(wishes);
        let mut has_answered = false;
        while let Some(portion) = portions.next() {
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
                // If a statement without names fails as well, no name is the cause.
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

    /// Divides the requests into portions, one for each statement; there is at least one. Each suspected name gets a
    /// portion of its own, after the others.
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

    /// Records that the registry's statement fails because of this name.
    fn suspect(&mut self, wish: &Wish, problem: String) {
        let Wish { at, request } = wish;
        // Waiting calls repeat the request, so warn only once.
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
