//! What the worker tells the registry, and how that proves what it has given.
//!
//! A registry is told up to where the server has had numbers of all names, whoever gave them, before it is asked for the
//! first range, and again every `renew_every`. So no other server gets from it what this one got from another registry, and
//! one that was set back finds that out. In return it signs what it has given.

use std::time::{Duration, Instant};

use pgrx::prelude::*;
use uuid::Uuid;

use super::failure::Failure;
use super::portions::{MOST_REQUESTS, Portions};
use super::state::Worker;
use super::wishes::Wish;
use crate::config;
use crate::pg::random::random_between;
use crate::segment::answer::Answer;
use crate::segment::fetch::{Answered, HadUntil, RegistryConnection, Request};
use crate::segment::range_file::RangeFile;
use crate::shared::segments::SegmentState;

const SHORTEST_REPORT_EVERY: Duration = Duration::from_millis(100);
const LONGEST_REPORT_EVERY: Duration = Duration::from_secs(12 * 60 * 60);

impl Worker {
    /// Another registry is told what was had as soon as the setting names it.
    pub fn follow_registry(&mut self) {
        let registry = config::registry();
        if registry != self.registry {
            self.registry = registry;
            self.connection = RegistryConnection::default();
            self.told = None;
            self.report_at = Instant::now();
        }
    }

    /// Asks for evidence of the ranges that were granted just now: only what is committed is signed. Without it they are not
    /// used: nobody else could tell the registry of them. Where the registry is in this database its WAL tells.
    pub fn evidence_of(
        &mut self,
        answer: &Answer,
        wishes: &[Wish],
    ) -> Result<Vec<(String, String)>, Option<Failure>> {
        let granted = answer.about.iter().filter(|(_, about)| about.granted.is_some());
        let names: Vec<_> =
            granted.filter_map(|(at, _)| Some(wishes.get(*at)?.request.name.clone())).collect();
        if self.is_here || names.is_empty() {
            return Ok(vec![]);
        }
        let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
        let reports: Vec<_> = names.iter().flat_map(|name| reports_of(range_file, name)).collect();
        let mut signed = vec![];
        for reports in reports.chunks(MOST_REQUESTS) {
            let Some(more) = self.ask_for_evidence(reports, answer.registry_id)? else {
                return Err(Some(Failure::of_changes()));
            };
            signed.extend(more);
        }
        if names.iter().all(|name| signed.iter().any(|(of, _)| of == name)) {
            return Ok(signed);
        }
        Err(Some(Failure::of_silence("the registry did not sign the numbers: it may be an older version")))
    }

    /// Reports, and returns what is signed; `None` if this is another registry.
    fn ask_for_evidence(
        &mut self,
        reports: &[Request],
        registry_id: Option<Uuid>,
    ) -> Result<Option<Vec<(String, String)>>, Option<Failure>> {
        let answer = self.ask_registry(&reports.iter().collect::<Vec<_>>(), registry_id)?.answer;
        if answer.is_foreign {
            return Ok(None);
        }
        if let Some(report_every_us) = answer.report_every_us {
            self.report_every = Duration::from_micros(report_every_us.unsigned_abs())
                .clamp(SHORTEST_REPORT_EVERY, LONGEST_REPORT_EVERY);
        }
        let signed = answer
            .about
            .into_iter()
            .filter_map(|(at, about)| Some((reports.get(at)?.name.clone(), about.token?)));
        Ok(Some(signed.collect()))
    }

    /// Which registry may be asked for numbers. Before it is asked for the first time, it is told all that was had: another
    /// registry may have given that, and this one does not know it. It is told of names with numbers in hand as well, as
    /// others could get those.
    pub fn meet_registry(&mut self) -> Result<Option<Uuid>, Option<Failure>> {
        let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
        let known = range_file.registry_id;
        if self.told.is_none() {
            let reports: Vec<_> = range_file.names().flat_map(|name| reports_of(range_file, name)).collect();
            if reports.is_empty() {
                return Ok(None); // Whichever it is.
            }
            let told = self.tell_registry(reports.clone(), None)?;
            if told != known && told.is_some() {
                // It may have been met before. It is shown what it has signed itself, now that it is known which one it is.
                self.tell_registry(reports, told)?;
            }
            if known.is_some() && told != known {
                ereport!(
                    PgLogLevel::WARNING,
                    PgSqlErrorCode::ERRCODE_WARNING,
                    "snowflake_id: the registry of segments is not the same as before; numbers continue above those that this server has had"
                );
            }
            self.told = told;
        }
        Ok(self.told)
    }

    /// Tells all this, to one registry or to whichever it is, and returns which has heard it.
    fn tell_registry(
        &mut self,
        reports: Vec<Request>,
        registry_id: Option<Uuid>,
    ) -> Result<Option<Uuid>, Option<Failure>> {
        let mut portions = Portions::of(reports);
        let (mut heard, mut has_answered) = (None, false);
        while let Some(portion) = portions.next() {
            match self.ask_registry(&portion.iter().collect::<Vec<_>>(), registry_id) {
                Ok(Answered { answer, .. }) => {
                    if answer.is_foreign || heard.is_some_and(|heard| heard != answer.registry_id) {
                        return Err(Some(Failure::of_changes()));
                    }
                    heard = Some(answer.registry_id);
                    if answer.about.iter().any(|(_, about)| about.state == SegmentState::Busy) {
                        return Err(Some(Failure::of_silence(
                            "other sessions held a segment locked for too long",
                        )));
                    }
                }
                Err(Some(failure)) if failure.is_of_statement => {
                    if !std::mem::replace(&mut has_answered, true) {
                        // If the same fails without a name, it is not because of one.
                        let answer = self.ask_registry(&[], None)?.answer;
                        heard = heard.or(Some(answer.registry_id));
                    }
                    // A name that the registry cannot write is none of which it could give numbers.
                    portions.halve(portion);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(heard.flatten())
    }

    /// Tells the registry what was had, of all names: a registry that was set back does not know. What goes wrong is said
    /// when numbers are wanted. Fails when the process has to stop.
    pub fn report(&mut self) -> Result<(), ()> {
        let reported = self.report_all();
        self.report_at = Instant::now() + self.report_every.mul_f64(random_between((0.9, 1.1)));
        match reported {
            Err(None) => Err(()),
            Ok(()) | Err(Some(_)) => Ok(()),
        }
    }

    fn report_all(&mut self) -> Result<(), Option<Failure>> {
        let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
        range_file.note_again().map_err(|problem| Failure::of_file(&problem))?;
        let reports: Vec<_> = range_file.names().flat_map(|name| reports_of(range_file, name)).collect();
        if reports.is_empty() {
            return Ok(());
        }
        let registry_id = self.meet_registry()?;
        if self.is_here {
            return Ok(()); // Its WAL tells it the rest.
        }
        for reports in reports.chunks(MOST_REQUESTS) {
            let Some(signed) = self.ask_for_evidence(reports, registry_id)? else {
                self.told = None;
                return self.meet_registry().map(|_| ());
            };
            if let Ok(range_file) = &mut self.range_file {
                // If it cannot be written, it is asked for again.
                let _ = range_file.keep(|range_file| {
                    signed.into_iter().for_each(|(name, token)| range_file.prove(registry_id, &name, token))
                });
            }
        }
        Ok(())
    }
}

/// What the registry is told of a name: both ends, in whose period the server has had numbers.
fn reports_of(range_file: &RangeFile, name: &str) -> Vec<Request> {
    let had = range_file.had(name);
    let mut reports: Vec<_> = had
        .ends()
        .map(|end| Request {
            name: name.into(),
            report: true,
            had: Some(HadUntil { had_until: end.until, registry_id: end.registry_id }),
            ..Request::default()
        })
        .collect();
    if reports.is_empty() {
        reports.push(Request { name: name.into(), report: true, ..Request::default() });
    }
    reports
}
