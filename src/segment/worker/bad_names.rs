//! Names with which the registry's statement fails: they alone get no numbers.

use std::time::Instant;

use pgrx::prelude::*;

use super::portions::Portions;
use super::state::Worker;
use super::wishes::Wish;
use crate::segment::answer::About;
use crate::shared::segments::SegmentState;

impl Worker {
    /// Asks for all of these. Where a statement fails because of one name, it alone gets no numbers: halves are asked for,
    /// until it is found. Fails when the process has to stop.
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
                // If the same fails where nothing is asked for, it is not because of a name.
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

    /// What is asked for in one statement each, at least one: names that are suspected alone, and after the others.
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

    /// Notes that the registry's statement fails because of this name, for whatever reason.
    fn suspect(&mut self, wish: &Wish, problem: String) {
        let Wish { at, request } = wish;
        // Whoever waits asks again and again.
        if self.known.of(*at, &request.name).failed_at.is_none() {
            warning!("snowflake_id: segment \"{}\": the registry fails: {problem}", request.name);
        }
        let (state, detail) = (SegmentState::Invalid, Some(problem));
        let about = About { state, granted: None, max_value: None, token: None, detail, near: None };
        self.note_answer(*at, request, &about);
        self.known.of(*at, &request.name).failed_at = Some(Instant::now());
        self.pause();
    }
}
