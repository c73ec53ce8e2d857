//! [`NumberRound`]: the conversation of a holder with the registry about numbers of segments, without I/O.
//!
//! A holder is a server or a program. The driver of the holder carries out one [`Effect`] at a time, and returns one
//! [`Event`] for each effect, as in a [`LeaseRound`](crate::lease_round::LeaseRound). The order of the effects prevents
//! repeated numbers:
//!
//! * A holder reports its numbers to a registry before it requests numbers, because another registry may have granted
//!   its numbers. The holder reports again after each start of the registry's server, because the registry may have
//!   lost commits.
//! * Before a granted range is kept, the holder requests a token for the range in a second call. The token proves the
//!   grant, even if the registry later loses the commit. The second call is necessary because a registry signs only
//!   grants that are committed. If the registry's server was restarted between the calls, the range is rejected. The
//!   registry may have lost the grant, and granted the same numbers to another holder.
//! * A range is above all numbers that the holder was granted.
//! * The end of a range is kept before the range is published. All ranges of an answer are kept together.
//!
//! The records belong to the driver, which changes them in two cases only: it applies the changes of [`Effect::Keep`]
//! when they are durable, and it enters periods.

use std::collections::BTreeSet;
use std::time::Duration;

use uuid::Uuid;

use crate::lease_call::Call;
use crate::number_call::{Request, TAKE, TAKE_LOCAL, take};
use crate::portions::Portions;
use crate::protocol::{Mismatch, Protocol};
use crate::rest::Origin;
use crate::segment_answer::{About, Answer, REPORT_EVERY, SegmentState, has_begun, report_every};
use crate::segment_records::{Change, SegmentRecords, Update};
use crate::signed::{NOT_DURABLE, proves};

/// The maximum number of names in a later report. The first report contains all names.
const MOST_REPORTED: usize = 1024;
/// The maximum pause between reports after a restart of the registry's server, until a report has succeeded. The
/// registry waits only a short time for these reports.
const PAUSE_OF_URGENT_REPORTS: Duration = Duration::from_secs(1);

/// The number of times that a missing token of a granted range is requested again. Each time, the registry waits for up
/// to half a second before it answers that the grant is not durable yet.
const MORE_TRIES_TO_PROVE: u32 = 3;

/// The kind of holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A program. It takes numbers from one registry only.
    Program,
    /// A server. It may later take numbers from another registry.
    Server,
    /// A server with the registry in its own database. The server needs no tokens, because its WAL contains the grants.
    ServerOfRegistry,
}

/// A call of the registry. [`NumberRound::call`] returns the statement.
#[derive(Clone, Debug)]
pub struct Take {
    /// The registry that must answer, or `None` if any registry may answer.
    pub registry_id: Option<Uuid>,
    /// The requests. A call without requests only asks for the ID of the registry.
    pub requests: Vec<Request>,
}

impl Take {
    /// Returns the number of rows in the answer: one for each request, or a single row with the ID of the registry if
    /// there are no requests. Further rows are not read.
    pub fn most_rows(&self) -> usize {
        self.requests.len().max(1)
    }
}

/// An action that the driver must carry out.
#[derive(Debug)]
pub enum Effect {
    /// Call the registry. Return [`Event::Answered`] or [`Event::Failed`].
    Send(Take),
    /// Make these changes durable together, and apply them to the records. Return [`Event::Kept`] or
    /// [`Event::NotKept`].
    Keep(Vec<Change>),
    /// Make the ranges available, and show the answers. Return [`Event::Published`].
    Publish(Vec<Given>),
    /// The round has ended with this result. Do nothing until the next round.
    Rest(Result<(), Refusal>),
}

/// The outcome of an action of the driver.
#[derive(Debug)]
pub enum Event {
    /// The registry has answered. Before this event, the driver must enter all periods that have begun. Otherwise, a
    /// new range of such a period would be used first, and the lower range that was held back for the period would be
    /// lost.
    Answered(Answer),
    /// There is no answer, and the driver knows why. The call may have been executed, or may still be executed.
    Failed {
        /// Whether the registry's database cannot process a value of the call, such as a name.
        is_of_data: bool,
    },
    /// The changes are durable, and the records contain them.
    Kept,
    /// The changes may or may not be durable, and the driver knows why. The records do not contain them.
    NotKept,
    /// The ranges are available.
    Published,
}

/// The answer to a request.
#[derive(Debug)]
pub struct Given {
    /// The index of the request.
    pub at: usize,
    /// The answer. A range in it is proved, kept, and above all numbers of the holder.
    pub about: About,
    /// Whether the range must be held back until its period starts.
    pub is_held: bool,
    /// If the range was refused because it is not above all earlier numbers of the holder: the first number of the
    /// range, and the highest earlier number.
    pub not_above: Option<(i64, i64)>,
}

/// The reason why a round has failed.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An effect has failed, and the driver knows why.
    Failed,
    /// The registry has refused the protocol, with its details.
    Mismatch(Mismatch, Option<String>),
    /// The answers cannot be used, for this reason.
    Failure(&'static str),
}

/// The purpose of a round, which follows the meeting.
#[derive(Debug)]
enum Purpose {
    Meet,
    Take { wishes: Vec<Request>, is_again: bool },
    Report,
}

/// The reports before the first request.
#[derive(Debug)]
struct Meeting {
    registry_id: Option<Uuid>,
    left: Portions<Request>,
    /// The registry that has answered, and the start of its server.
    heard: Option<(Option<Uuid>, Option<i64>)>,
    /// A portion that failed because of one of its values.
    failed: Option<Vec<Request>>,
}

/// The reports that request tokens.
#[derive(Debug)]
struct Reports {
    left: Portions<Request>,
    signed: Vec<(String, String)>,
    sent: Vec<Request>,
    more_tries: u32,
}

/// The effect in progress, by its purpose.
#[derive(Debug)]
enum Step {
    Resting,
    Meeting(Meeting, Vec<Request>),
    Asking {
        sent_to: Option<Uuid>,
    },
    Proving(Answer, Reports),
    /// The last field says why a range is not proved.
    Keeping(Vec<Given>, Option<&'static str>),
    Publishing(Option<&'static str>),
    Reporting(Option<Uuid>, Reports, Option<String>),
    KeepingTokens(Option<String>),
}

/// The conversation.
#[derive(Debug)]
pub struct NumberRound {
    holder: Holder,
    protocol: Protocol,
    /// The last call, which is sent again if the registry refuses its protocol.
    sent: Option<Take>,
    /// The registry to which all high-water marks were reported since the last start of its server.
    told: Option<Uuid>,
    /// The start of the registry's server, according to the last answer.
    started_us: Option<i64>,
    report_every: Duration,
    is_report_urgent: bool,
    /// The last name of the last report, if that report did not contain all names.
    reported_to: Option<String>,
    purpose: Purpose,
    step: Step,
}

impl NumberRound {
    /// Starts a conversation.
    pub fn new(holder: Holder) -> NumberRound {
        NumberRound {
            holder,
            protocol: Protocol::default(),
            sent: None,
            told: None,
            started_us: None,
            report_every: REPORT_EVERY,
            is_report_urgent: false,
            reported_to: None,
            purpose: Purpose::Meet,
            step: Step::Resting,
        }
    }

    /// Reports all numbers of the holder to the registry, unless they have already been reported.
    pub fn meet(&mut self, records: &SegmentRecords) -> Effect {
        self.begin(records, Purpose::Meet)
    }

    /// Takes ranges of numbers. The driver may begin a round at any time. It must then drop the event of the effect in
    /// progress. If this event is an answer, its numbers are lost.
    pub fn take(&mut self, records: &SegmentRecords, wishes: Vec<Request>) -> Effect {
        self.begin(records, Purpose::Take { wishes, is_again: false })
    }

    /// Reports the high-water marks, and requests tokens. If there are many names, each report contains the next part
    /// of the names.
    pub fn report(&mut self, records: &SegmentRecords) -> Effect {
        self.begin(records, Purpose::Report)
    }

    /// Forgets the registry, because the next call may reach another one.
    pub fn forget_registry(&mut self) {
        self.told = None;
    }

    /// Returns the start of the registry's server, according to the last answer, in microseconds of Unix time.
    pub fn registry_started_us(&self) -> Option<i64> {
        self.started_us
    }

    /// Returns whether a report is due now, because the registry's server was restarted.
    pub fn is_report_urgent(&self) -> bool {
        self.is_report_urgent
    }

    /// Returns the pause before the next report. Drivers vary the pause at random.
    pub fn pause_of_reports(&self) -> Duration {
        match self.is_report_urgent {
            true => self.report_every.min(PAUSE_OF_URGENT_REPORTS),
            false => self.report_every,
        }
    }

    /// Returns the origin of the numbers that the holder has.
    pub fn origin(&self, records: &SegmentRecords) -> Origin {
        let is_told = self.is_local() || self.told.is_some();
        Origin { registry_id: records.registry_id, server_started_us: self.started_us.filter(|_| is_told) }
    }

    /// Returns the statement of a call. The tokens in the statement are those of the registry that must answer. If any
    /// registry may answer, the tokens are those of the registry that answered last.
    pub fn call(&self, records: &SegmentRecords, sent: &Take, node_name: &str) -> Call {
        let tokens = self.tokens(records, sent);
        let function = if self.is_local() { TAKE_LOCAL } else { TAKE };
        take(function, self.protocol, sent.registry_id, node_name, &sent.requests, &tokens)
    }

    /// Returns the tokens of a call.
    pub fn tokens(&self, records: &SegmentRecords, sent: &Take) -> Vec<String> {
        let registry_id = sent.registry_id.or(records.registry_id);
        let names: BTreeSet<_> = sent.requests.iter().map(|request| &request.name).collect();
        names.into_iter().flat_map(|name| records.signed.tokens(registry_id, name)).collect()
    }

    /// Processes the event of the effect in progress, and returns the next effect. `now_us` is the time of the
    /// registry's clock.
    pub fn step(&mut self, records: &SegmentRecords, event: Event, now_us: i64) -> Effect {
        if let Event::Answered(answer) = &event {
            let is_refused = answer.mismatch.is_some();
            if self.protocol.note(is_refused, answer.protocols.clone())
                && let Some(take) = self.sent.take()
            {
                return Effect::Send(take);
            }
            if let Some(mismatch) = answer.mismatch {
                return self.rest(Err(Refusal::Mismatch(mismatch, answer.detail.clone())));
            }
            self.note(answer);
        }
        match (std::mem::replace(&mut self.step, Step::Resting), event) {
            (Step::Meeting(meeting, _), Event::Answered(answer)) => self.heard(records, meeting, &answer),
            (Step::Meeting(meeting, sent), Event::Failed { is_of_data: true }) if !sent.is_empty() => {
                self.halve(records, meeting, sent)
            }
            (Step::Asking { sent_to }, Event::Answered(answer)) => {
                // If the registry that heard the reports had no ID, the registry that has now answered may be another
                // registry.
                let is_told =
                    sent_to.is_some() || answer.registry_id.is_none() || records.segments.is_empty();
                if !self.is_of(&answer, sent_to) || !is_told {
                    return self.met_another(records);
                }
                if records.segments.is_empty() {
                    // There were no numbers to report.
                    self.told = answer.registry_id;
                }
                let granted = answer.about.iter().filter(|(_, about)| about.granted.is_some());
                let names: BTreeSet<_> = granted.filter_map(|(at, _)| Some(&self.wish(*at)?.name)).collect();
                let reports = Reports::of(records, names.into_iter().map(String::as_str));
                self.prove(records, answer, reports, now_us)
            }
            (Step::Proving(answer, mut reports), Event::Answered(signed)) => {
                if !self.is_of(&signed, answer.registry_id) {
                    return self.fail(self.text_of_another());
                }
                if signed.server_started_us != answer.server_started_us {
                    return self.fail("the registry's server was restarted");
                }
                reports.note(signed);
                self.prove(records, answer, reports, now_us)
            }
            (Step::Keeping(given, unproved), Event::Kept) => {
                self.to(Step::Publishing(unproved), Effect::Publish(given))
            }
            (Step::Publishing(unproved), Event::Published) => match unproved {
                Some(why) => self.fail(why),
                None => self.rest(Ok(())),
            },
            (Step::Reporting(registry_id, mut reports, to), Event::Answered(answer)) => {
                if !self.is_of(&answer, registry_id) {
                    return self.met_another(records);
                }
                reports.note(answer);
                self.report_next(records, registry_id, reports, to)
            }
            // A name that the registry's database cannot represent must not prevent the other names from getting
            // tokens.
            (Step::Reporting(registry_id, mut reports, to), Event::Failed { is_of_data: true }) => {
                let sent = std::mem::take(&mut reports.sent);
                reports.left.halve(sent);
                self.report_next(records, registry_id, reports, to)
            }
            // Tokens that could not be kept are requested again in the next report.
            (Step::KeepingTokens(to), Event::Kept | Event::NotKept) => self.reported(records, to),
            (_, Event::Failed { .. } | Event::NotKept) => self.rest(Err(Refusal::Failed)),
            _ => self.fail("bug: an event that does not belong to the effect"),
        }
    }

    fn begin(&mut self, records: &SegmentRecords, purpose: Purpose) -> Effect {
        self.purpose = purpose;
        if self.told.is_some() || records.segments.is_empty() {
            return self.go_on(records);
        }
        let registry_id = records.registry_id.filter(|_| self.holder == Holder::Program);
        self.meet_registry(records, registry_id)
    }

    /// Reports the numbers of all names, no matter which registry granted them.
    fn meet_registry(&mut self, records: &SegmentRecords, registry_id: Option<Uuid>) -> Effect {
        let left = Reports::of(records, records.names_after(None)).left;
        self.meet_next(records, Meeting { registry_id, left, heard: None, failed: None })
    }

    fn meet_next(&mut self, records: &SegmentRecords, mut meeting: Meeting) -> Effect {
        let registry_id = meeting.registry_id;
        if let Some(requests) = meeting.left.pop() {
            let take = Take { registry_id, requests: requests.clone() };
            return self.to(Step::Meeting(meeting, requests), Effect::Send(take));
        }
        let told = meeting.heard.and_then(|(registry_id, _)| registry_id);
        if told.is_some() && told != records.registry_id && registry_id.is_none() {
            // The holder may have used this registry before. Now that its ID is known, the reports are repeated with
            // its tokens.
            return self.meet_registry(records, told);
        }
        self.told = told;
        // If the registry has an ID, all marks have been reported with their tokens, so no report is urgent.
        self.is_report_urgent &= told.is_none();
        self.go_on(records)
    }

    /// All answers must come from the same registry, and its server must not have been restarted in between.
    fn heard(&mut self, records: &SegmentRecords, mut meeting: Meeting, answer: &Answer) -> Effect {
        let teller = (answer.registry_id, answer.server_started_us);
        let former = meeting.heard.replace(teller);
        if !self.is_of(answer, meeting.registry_id) || former.is_some_and(|former| former.0 != teller.0) {
            return self.fail(self.text_of_another());
        }
        if former.is_some_and(|former| former != teller) {
            return self.fail("the registry's server was restarted");
        }
        if answer.about.iter().any(|(_, about)| about.state == SegmentState::Busy) {
            return self.fail("other sessions held a lock on a segment for too long");
        }
        if let Some(failed) = meeting.failed.take() {
            meeting.left.halve(failed);
        }
        self.meet_next(records, meeting)
    }

    /// Skips a name that the registry's database cannot represent, because the registry cannot have a segment with this
    /// name. After any other error, such a segment may exist.
    fn halve(&mut self, records: &SegmentRecords, mut meeting: Meeting, sent: Vec<Request>) -> Effect {
        if meeting.heard.is_some() {
            meeting.left.halve(sent);
            return self.meet_next(records, meeting);
        }
        // Send a statement without names. If it fails as well, no name is the cause.
        meeting.failed = Some(sent);
        let take = Take { registry_id: meeting.registry_id, requests: vec![] };
        self.to(Step::Meeting(meeting, vec![]), Effect::Send(take))
    }

    fn go_on(&mut self, records: &SegmentRecords) -> Effect {
        match &self.purpose {
            Purpose::Take { wishes, .. } => {
                let is_bound = self.holder == Holder::Program;
                let sent_to = self.told.or(records.registry_id.filter(|_| is_bound));
                let take = Take { registry_id: sent_to, requests: wishes.clone() };
                self.to(Step::Asking { sent_to }, Effect::Send(take))
            }
            // This call reports nothing, but the registry counts the time of its waits from call to call.
            Purpose::Report if self.is_local() => {
                let nothing =
                    Reports { left: Portions::of(vec![]), signed: vec![], sent: vec![], more_tries: 0 };
                let take = Take { registry_id: self.told, requests: vec![] };
                self.to(Step::Reporting(self.told, nothing, None), Effect::Send(take))
            }
            Purpose::Report if self.told.is_some() => {
                let mut names: Vec<_> =
                    records.names_after(self.reported_to.as_deref()).take(MOST_REPORTED + 1).collect();
                let is_part = names.len() > MOST_REPORTED;
                names.truncate(MOST_REPORTED);
                let to = names.last().filter(|_| is_part).map(|&name| name.to_owned());
                let reports = Reports::of(records, names.into_iter());
                self.report_next(records, self.told, reports, to)
            }
            Purpose::Meet | Purpose::Report => self.rest(Ok(())),
        }
    }

    /// Requests the next tokens for the ranges of an answer. After the last request, the holder keeps the ranges that
    /// are proved.
    fn prove(
        &mut self,
        records: &SegmentRecords,
        answer: Answer,
        mut reports: Reports,
        now_us: i64,
    ) -> Effect {
        if !self.is_local() {
            let take = reports.next(answer.registry_id).or_else(|| {
                let granted = answer.about.iter().filter(|(_, about)| about.granted.is_some());
                let names = granted.filter_map(|(at, _)| Some(self.wish(*at)?.name.as_str()));
                reports.ask_again(records, names.collect(), answer.registry_id)
            });
            if let Some(take) = take {
                return self.to(Step::Proving(answer, reports), Effect::Send(take));
            }
        }
        let mut update = Update::new(records, answer.registry_id);
        let (mut given, mut unproved) = (vec![], None);
        for (at, mut about) in answer.about {
            let Some(wish) = self.wish(at) else { continue };
            let (mut is_held, mut not_above) = (false, None);
            if let Some(granted) = about.granted {
                let mut signed = reports.signed.iter().filter(|(name, _)| *name == wish.name).peekable();
                if !self.is_local() {
                    let why = match signed.peek() {
                        Some(_) => "the registry did not sign the numbers that it granted",
                        None => NOT_DURABLE,
                    };
                    if !signed.any(|(_, token)| proves(token, &granted)) {
                        unproved = Some(why);
                        continue;
                    }
                }
                let bound = update.bound(&wish.name, &granted);
                not_above = bound
                    .filter(|bound| granted.range.first <= *bound)
                    .map(|bound| (granted.range.first, bound));
                is_held = wish.may_be_early && !has_begun(granted.period, now_us);
                if not_above.is_some() {
                    (about.granted, about.state) = (None, SegmentState::Invalid);
                } else if is_held {
                    update.hold(&wish.name, &granted);
                } else {
                    update.enter(&wish.name, &granted);
                }
            }
            given.push(Given { at, about, is_held, not_above });
        }
        reports.signed.into_iter().for_each(|(name, token)| update.prove(&name, token));
        let changes = update.changes();
        match changes.is_empty() {
            true => self.to(Step::Publishing(unproved), Effect::Publish(given)),
            false => self.to(Step::Keeping(given, unproved), Effect::Keep(changes)),
        }
    }

    fn report_next(
        &mut self,
        records: &SegmentRecords,
        registry_id: Option<Uuid>,
        mut reports: Reports,
        to: Option<String>,
    ) -> Effect {
        if let Some(take) = reports.next(registry_id) {
            return self.to(Step::Reporting(registry_id, reports, to), Effect::Send(take));
        }
        let mut update = Update::new(records, registry_id);
        reports.signed.into_iter().for_each(|(name, token)| update.prove(&name, token));
        match update.changes() {
            changes if changes.is_empty() => self.reported(records, to),
            changes => self.to(Step::KeepingTokens(to), Effect::Keep(changes)),
        }
    }

    /// Ends a report. If an answer has shown that the registry's server was restarted, all names are reported again.
    fn reported(&mut self, records: &SegmentRecords, to: Option<String>) -> Effect {
        self.reported_to = to;
        match self.told {
            Some(_) => self.rest(Ok(())),
            None => self.begin(records, Purpose::Meet),
        }
    }

    /// Another registry has answered. A server reports its numbers to that registry, and repeats the request once.
    fn met_another(&mut self, records: &SegmentRecords) -> Effect {
        self.told = None;
        match std::mem::replace(&mut self.purpose, Purpose::Meet) {
            _ if self.holder == Holder::Program => self.fail(self.text_of_another()),
            Purpose::Take { wishes, is_again: false } => {
                self.begin(records, Purpose::Take { wishes, is_again: true })
            }
            Purpose::Take { .. } => self.fail(self.text_of_another()),
            Purpose::Meet | Purpose::Report => self.begin(records, Purpose::Meet),
        }
    }

    /// Notes what an answer says about the registry.
    fn note(&mut self, answer: &Answer) {
        if !answer.is_foreign
            && let Some(report_every_us) = answer.report_every_us
        {
            self.report_every = report_every(report_every_us.unsigned_abs());
        }
        if self.started_us != answer.server_started_us {
            // The registry may have lost what it was told before.
            self.is_report_urgent |= self.started_us.is_some() && !self.is_local();
            (self.started_us, self.told) = (answer.server_started_us, None);
        }
    }

    fn is_local(&self) -> bool {
        self.holder == Holder::ServerOfRegistry
    }

    fn wish(&self, at: usize) -> Option<&Request> {
        match &self.purpose {
            Purpose::Take { wishes, .. } => wishes.get(at),
            Purpose::Meet | Purpose::Report => None,
        }
    }

    /// Returns whether the expected registry has answered.
    fn is_of(&self, answer: &Answer, expected: Option<Uuid>) -> bool {
        !answer.is_foreign && (expected.is_none() || expected == answer.registry_id)
    }

    fn text_of_another(&self) -> &'static str {
        match self.holder {
            Holder::Program => "the numbers of this program were granted by another registry",
            Holder::Server | Holder::ServerOfRegistry => "replies came from different registries",
        }
    }

    fn to(&mut self, step: Step, effect: Effect) -> Effect {
        self.step = step;
        if let Effect::Send(take) = &effect {
            self.sent = Some(take.clone());
        }
        effect
    }

    fn fail(&mut self, why: &'static str) -> Effect {
        self.rest(Err(Refusal::Failure(why)))
    }

    fn rest(&mut self, result: Result<(), Refusal>) -> Effect {
        self.is_report_urgent &= result.is_err() || !matches!(self.purpose, Purpose::Report);
        self.to(Step::Resting, Effect::Rest(result))
    }
}

impl Reports {
    fn of<'a>(records: &SegmentRecords, names: impl Iterator<Item = &'a str>) -> Reports {
        let reports = names.flat_map(|name| Request::reports(name, records.segments.get(name)));
        Reports { left: Portions::of(reports.collect()), signed: vec![], sent: vec![], more_tries: 0 }
    }

    /// Returns a call that requests the missing tokens of these names once more.
    fn ask_again(
        &mut self,
        records: &SegmentRecords,
        mut names: BTreeSet<&str>,
        registry_id: Option<Uuid>,
    ) -> Option<Take> {
        names.retain(|name| self.signed.iter().all(|(signed, _)| signed != name));
        if self.more_tries == MORE_TRIES_TO_PROVE {
            return None;
        }
        self.more_tries += 1;
        self.left = Reports::of(records, names.into_iter()).left;
        self.next(registry_id)
    }

    /// Returns the next call.
    fn next(&mut self, registry_id: Option<Uuid>) -> Option<Take> {
        self.sent = self.left.pop()?;
        Some(Take { registry_id, requests: self.sent.clone() })
    }

    /// Notes the tokens of an answer.
    fn note(&mut self, answer: Answer) {
        let signed = answer.about.into_iter();
        self.signed
            .extend(signed.filter_map(|(at, about)| Some((self.sent.get(at)?.name.clone(), about.token?))));
    }
}
