//! Sends reports to the registry, and receives tokens in return.
//!
//! The worker reports the server's high-water mark for each name, no matter which registry granted the numbers. The
//! first report precedes the first request for a range, and further reports follow every `renew_every`. The registry
//! therefore does not grant these numbers to another server, even if this server received them from a different
//! registry. A registry that was restored from a backup detects its loss from the reports. In return, the registry
//! signs a token that states what it has granted.

use std::ffi::CString;
use std::time::Instant;

use pgrx::prelude::*;
use snowflake_id_core::segment_answer::{Answer, Granted, MOST_REQUESTS, SegmentState, report_every};
use snowflake_id_core::signed::proves;
use uuid::Uuid;

use super::failure::Failure;
use super::portions::Portions;
use super::state::Worker;
use super::wishes::Wish;
use crate::config;
use crate::pg::random::random_between;
use crate::segment::fetch::{Answered, HadUntil, RegistryConnection, Request};
use crate::segment::range_file::{RangeFile, Update};

/// The maximum number of names in a report that follows the first one.
const MOST_REPORTED: usize = 1024;

impl Worker {
    /// Follows the setting `snowflake_id.registry`. A new registry is sent a report immediately.
    pub fn follow_registry(&mut self) {
        let registry = config::registry();
        if registry != self.registry {
            self.registry = registry;
            self.connection = RegistryConnection::default();
            self.told = None;
            self.report_at = Instant::now();
        }
    }

    /// Requests tokens for the new ranges. A separate statement is necessary, because the registry signs only what is
    /// committed. The worker does not use a range without a token, because only the token can prove the grant if the
    /// registry loses the commit. A registry in this database needs no tokens: the WAL contains its grants.
    pub fn evidence_of(
        &mut self,
        answer: &Answer,
        wishes: &[Wish],
    ) -> Result<Vec<(String, String)>, Option<Failure>> {
        let granted = answer.about.iter();
        let granted: Vec<_> = granted
            .filter_map(|(at, about)| Some((wishes.get(*at)?.request.name.as_str(), about.granted?)))
            .collect();
        if self.is_local || granted.is_empty() {
            return Ok(vec![]);
        }
        let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
        let reports: Vec<_> = granted.iter().flat_map(|(name, _)| reports_of(range_file, name)).collect();
        let mut signed = vec![];
        for reports in reports.chunks(MOST_REQUESTS) {
            let Some(more) = self.ask_for_evidence(reports, answer.registry_id)? else {
                return Err(Some(Failure::of_changes()));
            };
            signed.extend(more);
        }
        let is_proved = |(name, granted): &(&str, Granted)| {
            signed.iter().any(|(of, token)| of == name && proves(token, granted))
        };
        if self.registry_started_us != answer.server_started_us {
            // The registry may have lost the grant, and granted the same numbers to another server.
            return Err(Some(Failure::of_restart()));
        }
        if granted.iter().all(is_proved) {
            return Ok(signed);
        }
        Err(Some(Failure::of_silence("the registry did not sign the numbers that it granted")))
    }

    /// Sends the reports and returns the tokens, or `None` if the answer came from another registry.
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
            self.report_every = report_every(report_every_us.unsigned_abs());
        }
        let signed = answer
            .about
            .into_iter()
            .filter_map(|(at, about)| Some((reports.get(at)?.name.clone(), about.token?)));
        Ok(Some(signed.collect()))
    }

    /// Returns the registry from which the worker may request numbers, or `None` if the worker may use any registry.
    /// Before the first request to a registry, the worker reports the high-water marks of all names, because another
    /// registry may have granted these numbers. The worker also reports names that still have unused numbers. Without
    /// these reports, the registry could grant the same numbers to other servers.
    pub fn meet_registry(&mut self) -> Result<Option<Uuid>, Option<Failure>> {
        let range_file = self.range_file.as_ref().map_err(|problem| Failure::of_file(problem))?;
        let known = range_file.registry_id();
        if self.told.is_none() {
            let reports: Vec<_> = range_file.names().flat_map(|name| reports_of(range_file, name)).collect();
            if reports.is_empty() {
                return Ok(None); // Any registry may be asked.
            }
            let told = self.tell_registry(reports.clone(), None)?;
            if told != known && told.is_some() {
                // This server may have used this registry before. The ID of the registry is known now, so send the
                // tokens of this registry.
                self.tell_registry(reports, told)?;
            }
            if known.is_some() && told != known {
                ereport!(
                    PgLogLevel::WARNING,
                    PgSqlErrorCode::ERRCODE_WARNING,
                    "snowflake_id: the registry of segments has changed; numbers continue above all numbers that this server has received"
                );
            }
            self.told = told;
        }
        Ok(self.told)
    }

    /// Sends the reports to the registry with this ID. Without an ID, any registry may receive the reports. Returns
    /// the ID of the registry that received the reports.
    fn tell_registry(
        &mut self,
        reports: Vec<Request>,
        registry_id: Option<Uuid>,
    ) -> Result<Option<Uuid>, Option<Failure>> {
        let mut portions = Portions::of(reports);
        let (mut heard, mut has_answered) = (None, false);
        while let Some(portion) = portions.next() {
            match self.ask_registry(&portion.iter().collect::<Vec<_>>(), registry_id) {
                Ok(Answered { answer, .. }) => hear(&mut heard, &answer)?,
                Err(Some(failure)) if failure.is_of_data => {
                    if !std::mem::replace(&mut has_answered, true) {
                        // If a statement without names fails as well, no name is the cause.
                        let answer = self.ask_registry(&[], registry_id)?.answer;
                        hear(&mut heard, &answer)?;
                    }
                    // The function skips a name that the registry's database cannot represent, because the registry
                    // cannot have a segment with this name. After any other error, the registry may have one.
                    portions.halve(portion);
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(heard.and_then(|(registry_id, _)| registry_id))
    }

    /// Reports high-water marks. A registry that was restored from a backup may not know the marks. If there are many
    /// names, each report contains some of them in turn. All names are reported at once when the registry's server was
    /// restarted, because it can lose its data unnoticed only then. The function ignores failures, because the next
    /// request for numbers will report them. Fails if the process has to stop.
    pub fn report(&mut self) -> Result<(), ()> {
        let reported = self.report_some();
        self.report_at = Instant::now() + self.report_every.mul_f64(random_between((0.9, 1.1)));
        // A name of `snowflake_id.prefetch_segments` may have lost its slot, or found no slot.
        self.prefetched = CString::default();
        match reported {
            Err(None) => Err(()),
            Ok(()) | Err(Some(_)) => Ok(()),
        }
    }

    fn report_some(&mut self) -> Result<(), Option<Failure>> {
        let range_file = self.range_file.as_mut().map_err(|problem| Failure::of_file(problem))?;
        range_file.note_again().map_err(|problem| Failure::of_file(&problem))?;
        let names = range_file.names_after(self.reported_to.as_deref());
        let mut names: Vec<_> = names.take(MOST_REPORTED + 1).collect();
        let reported_to = match names.len() {
            0..=MOST_REPORTED => None,
            _ => {
                names.pop();
                names.last().map(|&name| name.to_owned())
            }
        };
        let reports: Vec<_> = names.into_iter().flat_map(|name| reports_of(range_file, name)).collect();
        if reports.is_empty() {
            return Ok(());
        }
        let registry_id = self.meet_registry()?;
        if self.is_local {
            return Ok(()); // The WAL already contains the grants of a local registry.
        }
        for reports in reports.chunks(MOST_REQUESTS) {
            let Some(signed) = self.ask_for_evidence(reports, registry_id)? else {
                self.told = None;
                return self.meet_registry().map(|_| ());
            };
            if let Ok(range_file) = &mut self.range_file {
                let mut update = Update::default();
                signed.into_iter().for_each(|(name, token)| update.prove(registry_id, &name, token));
                // If the tokens cannot be stored, the next report requests them again.
                let _ = range_file.keep(update);
            }
        }
        self.reported_to = reported_to;
        // If an answer showed that the registry's server was restarted, all names are reported at once.
        self.meet_registry().map(|_| ())
    }
}

/// Checks an answer to a report. All answers must come from the same start of the same registry.
fn hear(heard: &mut Option<(Option<Uuid>, Option<i64>)>, answer: &Answer) -> Result<(), Option<Failure>> {
    if answer.is_foreign {
        return Err(Some(Failure::of_changes()));
    }
    let teller = (answer.registry_id, answer.server_started_us);
    match heard.replace(teller) {
        Some((registry_id, _)) if registry_id != teller.0 => return Err(Some(Failure::of_changes())),
        Some((_, started_us)) if started_us != teller.1 => return Err(Some(Failure::of_restart())),
        _ => {}
    }
    if answer.about.iter().any(|(_, about)| about.state == SegmentState::Busy) {
        return Err(Some(Failure::of_silence("other sessions held a lock on a segment for too long")));
    }
    Ok(())
}

/// Returns the reports about a name, with one report for each high-water mark (current and next period).
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
