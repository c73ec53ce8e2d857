//! [`LeaseRound`]: the conversation of a holder with the registry about its leases, without I/O.
//!
//! A holder is a server or a program. Its driver carries out one [`Effect`] at a time, and returns one [`Event`] for
//! each effect. The order of the effects prevents repeated IDs:
//!
//! * A request for a lease is stored before it is sent.
//! * A lease is published only after it has been stored together with evidence from the registry. If the holder already
//!   has a lease with evidence, it can publish the lease without an answer (see [`LeaseRound::go_on`]).
//! * If another holder has the same lease, this holder withdraws the lease before it requests another one.
//! * A lease is withdrawn and removed from the stored state before it is released, because the registry can then grant
//!   the rest of the range to another holder.
//!
//! All times are in microseconds of Unix time.

use std::time::Duration;

use uuid::Uuid;

use crate::failures::Failures;
use crate::lease::Lease;
use crate::lease_answer::{Answer, MOST_CLOCK_DIFFERENCE_US, Terms};
use crate::lease_call::{Call, Facts, Ids, LeaseCalls};
use crate::lease_state::{Asking, LeaseState, Needs, Outcome};
use crate::signed::NOT_DURABLE;

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The maximum pause after a failure. If leases are renewed more often than this, the interval between renewals is the
/// maximum.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The lower limit of the maximum pause after a failure.
const LEAST_LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// The number of attempts to connect when a holder stops and has leases to release.
const TRIES_TO_RELEASE: u32 = 2;

/// The inputs of a step.
pub struct Now<'a> {
    /// The holder's clock.
    pub us: i64,
    /// Returns a new random value.
    pub random: &'a mut dyn FnMut() -> Uuid,
}

/// A request to the registry. [`LeaseRound::call`] returns its statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Asks for an identity.
    Acquire(Asking, Needs),
    /// Asks to renew a lease.
    Renew(Ids),
    /// Releases a lease.
    Release {
        /// The lease.
        ids: Ids,
        /// The end of the use of the lease: the ticks of all IDs start before this time.
        used_until_us: i64,
    },
}

/// An action that the driver has to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Connect to the registry. The event is [`Event::Connected`] or [`Event::Failed`].
    Connect,
    /// Send a request. The event is [`Event::Answered`] or [`Event::Failed`].
    Send(Request),
    /// Make the state durable. The event is [`Event::Kept`] or [`Event::NotKept`].
    Keep(Box<LeaseState>),
    /// Make a lease available. The driver first ends the use of the previous lease (see [`LeaseRound::note_used`]). The
    /// event is [`Event::Published`], or [`Event::Failed`] if no lease is available now.
    Publish(Lease),
    /// End the use of the available lease, if there is one (see [`LeaseRound::note_used`]). The event is
    /// [`Event::Withdrawn`].
    Withdraw,
    /// Wait for the next round. There is no event. The driver calls [`LeaseRound::begin`] after the pause, or earlier.
    Rest(Rest),
    /// Do nothing more, because the conversation has ended.
    End,
}

/// The result of an effect.
#[derive(Clone, Debug)]
pub enum Event {
    /// The driver has connected to the registry.
    Connected,
    /// The registry has answered a request.
    Answered {
        /// The answer.
        answer: Answer,
        /// The holder's clock when the request was sent.
        sent_us: i64,
        /// The time between the request and the answer, in microseconds.
        round_trip_us: i64,
    },
    /// The effect has failed for this reason. A request may have been executed, or may still be executed.
    Failed(String),
    /// The state is durable, and will be read after a crash. If the driver was told to stop while it stored the state,
    /// it has to return [`Event::NotKept`], because an interrupted commit looks successful. After [`LeaseRound::stop`],
    /// this rule does not apply.
    Kept,
    /// The state may or may not be durable, for the given reason. The previous state remains in effect.
    NotKept(String),
    /// The lease is available.
    Published {
        /// True if the holder has used this lease in such a way that it needs another lease.
        wants_another: bool,
    },
    /// No lease is available.
    Withdrawn,
}

/// The end of a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The registry's note for administrators, or the reason why there is no new or renewed lease.
    pub result: Result<Option<String>, Refusal>,
    /// The pause before the next round. Drivers vary it at random.
    pub pause: Duration,
}

/// The reason why a round has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The registry's answer, with its details. [`Outcome::Granted`] means that the holder cannot use the grant.
    Answer(Outcome, Option<String>),
    /// There was no answer, or an effect has failed.
    Failure(String),
}

/// The known use of a lease.
#[derive(Clone, Copy, Debug)]
struct Used {
    range: Lease,
    /// The minimum of `until_us`. An earlier process may have used the lease up to this time.
    least_us: i64,
    /// The ticks of all IDs start before this time. While the lease may be in use, this time is the end of the lease.
    until_us: i64,
}

impl Used {
    fn until(range: Lease, until_us: i64) -> Used {
        Used { range, least_us: until_us, until_us }
    }
}

/// The purpose of the effect in progress. Some steps contain the registry's note.
#[derive(Debug)]
enum Step {
    Resting,
    Connecting,
    Renewing,
    KeepingRenewal(Option<String>),
    Publishing(Option<String>),
    KeepingRequest,
    Acquiring,
    KeepingGrant,
    KeepingRefusal(Refusal),
    /// After the withdrawal, the round fails or requests another lease.
    Withdrawing(Option<Refusal>),
    Dropping(Option<Refusal>),
    Releasing {
        then: Then,
        is_last: bool,
    },
    RenewingToRelease(Then),
    Stopping,
    KeepingNothing,
    ConnectingToRelease,
    Ended,
}

/// The next action after the releases.
#[derive(Clone, Debug)]
enum Then {
    /// The round continues, and requests another lease if needed.
    Go {
        note: Option<String>,
        is_another_needed: bool,
    },
    End,
}

/// The conversation.
#[derive(Debug)]
pub struct LeaseRound {
    state: LeaseState,
    /// The state that takes effect at [`Event::Kept`].
    keeping: Option<LeaseState>,
    terms: Terms,
    needs: Needs,
    releases: bool,
    /// Whether the registry has answered that it does not know the lease. The holder uses such a lease until its end.
    is_unknown: bool,
    is_inherited: bool,
    /// Whether this round has requested a lease. A round requests at most one.
    has_asked: bool,
    is_stopping: bool,
    published: Option<Lease>,
    /// The use of the lease in `state`.
    used: Option<Used>,
    /// Leases to be released. The use is `None` for a request whose lease is not known.
    unused: Vec<(Ids, Option<Used>)>,
    /// A request that may be sent once more.
    sent: Option<Request>,
    failures: Failures,
    tries: u32,
    step: Step,
}

impl LeaseRound {
    /// Starts a conversation with the stored state. If `releases` is true, the holder releases leases that it no longer
    /// uses.
    pub fn new(state: LeaseState, releases: bool) -> LeaseRound {
        LeaseRound {
            is_inherited: state.held.is_some(),
            used: state.held.as_ref().map(|held| Used::until(held.lease, held.lease.until_us)),
            state,
            keeping: None,
            terms: Terms::default(),
            needs: Needs::default(),
            releases,
            is_unknown: false,
            has_asked: false,
            is_stopping: false,
            published: None,
            unused: vec![],
            sent: None,
            failures: Failures::default(),
            tries: 0,
            step: Step::Resting,
        }
    }

    /// Returns the last state that is known to be durable.
    pub fn state(&self) -> &LeaseState {
        &self.state
    }

    /// Returns what the registry has answered so far.
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns the lease, unless the registry has answered that it does not know the lease.
    pub fn known(&self) -> Option<Lease> {
        self.state.held.as_ref().filter(|_| !self.is_unknown).map(|held| held.lease)
    }

    /// Returns whether the lease was granted to an earlier process.
    pub fn is_inherited(&self) -> bool {
        self.is_inherited
    }

    /// Returns the statement of a request that is sent at `sent_us`.
    pub fn call(&self, request: &Request, facts: &Facts, sent_us: i64) -> Call {
        let calls = LeaseCalls { state: &self.state, terms: &self.terms, facts, sent_us };
        match request {
            Request::Acquire(asking, needs) => calls.acquire(asking, needs),
            Request::Renew(ids) => calls.renew(*ids),
            Request::Release { ids, used_until_us } => calls.release(*ids, *used_until_us),
        }
    }

    /// Returns the held lease if the lease has not ended and no lease is published. The driver publishes this lease
    /// without waiting for an answer, because no other holder has the lease. The driver may call this function during
    /// any effect.
    pub fn go_on(&mut self, now_us: i64) -> Option<Lease> {
        let lease = self.state.lease_at(now_us);
        let lease = lease.filter(|_| self.published.is_none() && !self.is_stopping)?;
        self.published = Some(lease);
        self.expect_use(lease);
        Some(lease)
    }

    /// Notes when the holder stopped using a lease. The ticks of all its IDs start before `until_us`. The driver calls
    /// this function before it publishes another lease or returns [`Event::Withdrawn`]. Without this call, the lease
    /// counts as used to its end.
    pub fn note_used(&mut self, lease: &Lease, until_us: i64) {
        let unused = self.unused.iter_mut().filter_map(|(_, used)| used.as_mut());
        for used in self.used.iter_mut().chain(unused).filter(|used| used.range.is_same_range(lease)) {
            // An earlier process may have used more.
            used.until_us = until_us.max(used.least_us);
        }
    }

    /// Begins a round, which renews the lease, or requests a lease that meets the needs.
    pub fn begin(&mut self, needs: Needs) -> Effect {
        if self.is_stopping {
            return self.stop();
        }
        (self.needs, self.has_asked) = (needs, false);
        self.to(Step::Connecting, Effect::Connect)
    }

    /// Gives up a lease that the holder can never use. The driver calls this function instead of [`LeaseRound::begin`].
    /// The lease is withdrawn and dropped, and the round fails. The lease expires because it is not renewed.
    pub fn give_up(&mut self) -> Effect {
        if self.is_stopping {
            return self.stop();
        }
        self.drop_lease(Some(Refusal::Failure("the lease cannot be used".into())))
    }

    /// Ends the conversation, at any point. The driver abandons the effect in progress, and does not return its event.
    /// An abandoned request may still be executed, and an abandoned state may or may not be durable. However, the
    /// driver must not store that state or publish that lease later. The last effect is [`Effect::End`].
    pub fn stop(&mut self) -> Effect {
        if let Step::Ended = self.step {
            return Effect::End;
        }
        self.keeping = None;
        self.is_stopping = true;
        self.to(Step::Stopping, Effect::Withdraw)
    }

    /// Handles the event of the current effect, and returns the next effect.
    pub fn step(&mut self, event: Event, now: &mut Now) -> Effect {
        if let Event::Answered { answer, sent_us, round_trip_us } = &event
            && self.terms.note(answer, *sent_us, *round_trip_us)
            && let Some(request) = self.sent.take()
        {
            return Effect::Send(request);
        }
        match (std::mem::replace(&mut self.step, Step::Resting), event) {
            (Step::Connecting, Event::Connected) => match self.known() {
                Some(_) => self.renew(),
                None => self.acquire(now),
            },
            (Step::Renewing, Event::Answered { answer, .. }) => self.renewed(answer, now),
            (Step::KeepingRenewal(note), Event::Kept) => self.publish(note),
            (Step::Publishing(note), Event::Published { wants_another }) => {
                self.published = self.state.held.as_ref().map(|held| held.lease);
                let is_another_needed = wants_another || self.state.has_to_acquire(&self.needs);
                self.release(Then::Go { note, is_another_needed }, now)
            }
            (Step::Publishing(_), Event::Failed(why)) => {
                self.published = None;
                self.fail(Refusal::Failure(why))
            }
            (Step::KeepingRequest, Event::Kept) => {
                self.take_kept();
                match self.state.asking.clone() {
                    Some(asking) => self.send(Step::Acquiring, Request::Acquire(asking, self.needs.clone())),
                    None => self.rest(Ok(None)),
                }
            }
            (Step::Acquiring, Event::Answered { answer, .. }) => self.acquired(answer, now),
            (Step::KeepingGrant, Event::Kept) => {
                let (former, used) = (self.take_kept().held, self.used.take());
                if let Some(former) = former.filter(|_| self.releases && !self.is_unknown) {
                    self.unused.push(((&former).into(), used));
                }
                self.used = self.state.held.as_ref().map(|held| Used::until(held.lease, held.lease.from_us));
                (self.is_unknown, self.is_inherited) = (false, false);
                // A second request is needed, because the registry signs only grants that have been committed.
                self.renew()
            }
            (Step::KeepingRefusal(refusal), Event::Kept) => {
                self.take_kept();
                self.fail(refusal)
            }
            (Step::Withdrawing(refusal), Event::Withdrawn) => {
                self.published = None;
                self.keep(self.state.clone(), Step::Dropping(refusal))
            }
            (Step::Dropping(refusal), Event::Kept) => {
                self.take_kept();
                match refusal {
                    Some(refusal) => self.fail(refusal),
                    None => self.acquire(now),
                }
            }
            // After a restart, the registry accepts a release only after a renewal.
            (Step::Releasing { then, is_last: false }, Event::Answered { answer, .. })
                if answer.outcome == Outcome::Unknown =>
            {
                match self.unused.last() {
                    Some((ids, _)) => self.send(Step::RenewingToRelease(then), Request::Renew(*ids)),
                    None => self.release(then, now),
                }
            }
            (Step::RenewingToRelease(then), Event::Answered { answer, .. })
                if matches!(answer.outcome, Outcome::Granted(_)) =>
            {
                self.release_last(then, true, now)
            }
            (Step::Releasing { then, .. } | Step::RenewingToRelease(then), Event::Answered { .. }) => {
                self.unused.pop();
                self.release(then, now)
            }
            (
                Step::Releasing { then: then @ Then::Go { .. }, .. }
                | Step::RenewingToRelease(then @ Then::Go { .. }),
                Event::Failed(_),
            ) => {
                // The leases expire, so the round can go on without the releases.
                self.unused.clear();
                self.release(then, now)
            }
            (Step::Stopping, Event::Withdrawn) => {
                self.published = None;
                if !self.releases {
                    return self.end();
                }
                let state = LeaseState { held: None, asking: None, ..self.state.clone() };
                self.keep(state, Step::KeepingNothing)
            }
            (Step::KeepingNothing, Event::Kept) => {
                let LeaseState { held, asking, .. } = self.take_kept();
                if let Some(held) = held.filter(|_| !self.is_unknown) {
                    self.unused.push(((&held).into(), self.used));
                }
                // The registry may have granted an interrupted request.
                self.unused.extend(asking.map(|asking| ((&asking).into(), None)));
                self.connect_to_release()
            }
            (Step::ConnectingToRelease, Event::Connected) => self.release(Then::End, now),
            (
                Step::ConnectingToRelease | Step::Releasing { .. } | Step::RenewingToRelease(_),
                Event::Failed(_),
            ) => self.connect_to_release(),
            _ if self.is_stopping => self.end(),
            (_, Event::Failed(why) | Event::NotKept(why)) => {
                self.keeping = None;
                self.fail(Refusal::Failure(why))
            }
            (step, event) => {
                self.fail(Refusal::Failure(format!("bug: event {event:?} in step {step:?} of a lease")))
            }
        }
    }

    fn to(&mut self, step: Step, effect: Effect) -> Effect {
        self.step = step;
        effect
    }

    fn send(&mut self, step: Step, request: Request) -> Effect {
        self.sent = Some(request.clone());
        self.to(step, Effect::Send(request))
    }

    fn keep(&mut self, state: LeaseState, step: Step) -> Effect {
        self.keeping = Some(state.clone());
        self.to(step, Effect::Keep(Box::new(state)))
    }

    /// Puts the stored state into effect. Returns the previous state.
    fn take_kept(&mut self) -> LeaseState {
        let kept = self.keeping.take().unwrap_or_else(|| self.state.clone());
        std::mem::replace(&mut self.state, kept)
    }

    /// Records that the lease may be used until it ends.
    fn expect_use(&mut self, lease: Lease) {
        if let Some(used) = &mut self.used {
            used.until_us = used.until_us.max(lease.until_us);
        }
    }

    fn renew(&mut self) -> Effect {
        match &self.state.held {
            Some(held) => self.send(Step::Renewing, Request::Renew(held.into())),
            None => self.rest(Ok(None)),
        }
    }

    fn renewed(&mut self, answer: Answer, now: &mut Now) -> Effect {
        let range = self.state.held.as_ref().map(|held| held.lease);
        match answer.outcome {
            Outcome::Granted(lease) if range.is_some_and(|range| lease.is_same_range(&range)) => {
                let mut state = self.state.clone();
                state.renew(lease, &mut *now.random);
                if let Some(token) = answer.token {
                    state.prove(token, now.us);
                }
                if let Some(registry) = answer.registry {
                    state.note(registry.id);
                }
                self.keep(state, Step::KeepingRenewal(answer.detail))
            }
            // A delayed request may have made the registry grant another range under this lease ID.
            Outcome::Unknown | Outcome::Granted(_) => {
                self.is_unknown = true;
                match self.has_asked {
                    true => self.fail(Refusal::Answer(Outcome::Unknown, answer.detail)),
                    false => self.acquire(now),
                }
            }
            // Another holder uses the same lease, or has released it.
            Outcome::Twin => {
                let refusal = self.has_asked.then_some(Refusal::Answer(Outcome::Twin, answer.detail));
                self.drop_lease(refusal)
            }
            outcome => self.fail(Refusal::Answer(outcome, answer.detail)),
        }
    }

    /// Withdraws and drops the lease. The lease is dropped even if the state without the lease cannot be stored.
    fn drop_lease(&mut self, refusal: Option<Refusal>) -> Effect {
        (self.state.held, self.used, self.is_inherited) = (None, None, false);
        self.to(Step::Withdrawing(refusal), Effect::Withdraw)
    }

    /// Publishes the renewed lease. The holder needs evidence first, because a registry that has lost the lease can
    /// learn about the lease only from evidence.
    fn publish(&mut self, note: Option<String>) -> Effect {
        self.take_kept();
        let held = self.state.held.as_ref().filter(|_| self.state.is_proved());
        let Some(lease) = held.map(|held| held.lease) else {
            // The registry has answered, so the pauses do not grow.
            self.failures.end();
            return self.fail(Refusal::Failure(NOT_DURABLE.into()));
        };
        self.expect_use(lease);
        self.to(Step::Publishing(note), Effect::Publish(lease))
    }

    fn acquire(&mut self, now: &mut Now) -> Effect {
        self.has_asked = true;
        let mut state = self.state.clone();
        state.ask(&mut *now.random);
        self.keep(state, Step::KeepingRequest)
    }

    fn acquired(&mut self, answer: Answer, now: &mut Now) -> Effect {
        let mut state = self.state.clone();
        match answer.outcome {
            Outcome::Granted(lease) if self.needs.are_met_by(lease.identity) => {
                if lease.from_us > now.us.saturating_add(MOST_CLOCK_DIFFERENCE_US) {
                    return self.fail(Refusal::Answer(Outcome::ClockDiffers, answer.detail));
                }
                // The registry's ID is not taken from a refusal. Otherwise, any server could replace the ID by
                // refusing, and the real registry would be rejected.
                if let Some(registry) = answer.registry {
                    state.note(registry.id);
                }
                state.hold(lease, &mut *now.random);
                self.keep(state, Step::KeepingGrant)
            }
            // The granted lease was requested earlier with other needs, or another holder has sent a request with the
            // same IDs.
            Outcome::Granted(_) | Outcome::Twin => {
                state.asking = None;
                self.keep(state, Step::KeepingRefusal(Refusal::Answer(answer.outcome, answer.detail)))
            }
            outcome => self.fail(Refusal::Answer(outcome, answer.detail)),
        }
    }

    fn release(&mut self, then: Then, now: &mut Now) -> Effect {
        self.release_last(then, false, now)
    }

    /// Releases the last unused lease. If `is_last`, the next answer is final.
    fn release_last(&mut self, then: Then, is_last: bool, now: &mut Now) -> Effect {
        match (self.unused.last(), then) {
            (Some(&(ids, used)), then) => {
                let used_until_us = used.map_or(0, |used| used.until_us);
                self.send(Step::Releasing { then, is_last }, Request::Release { ids, used_until_us })
            }
            (None, Then::Go { is_another_needed: true, .. }) if !self.has_asked => self.acquire(now),
            (None, Then::Go { note, .. }) => self.rest(Ok(note)),
            (None, Then::End) => self.end(),
        }
    }

    fn connect_to_release(&mut self) -> Effect {
        if self.unused.is_empty() || self.tries == TRIES_TO_RELEASE {
            return self.end();
        }
        self.tries += 1;
        self.to(Step::ConnectingToRelease, Effect::Connect)
    }

    fn end(&mut self) -> Effect {
        self.to(Step::Ended, Effect::End)
    }

    fn fail(&mut self, refusal: Refusal) -> Effect {
        self.rest(Err(refusal))
    }

    fn rest(&mut self, result: Result<Option<String>, Refusal>) -> Effect {
        let pause = match &result {
            Ok(_) => {
                self.failures.end();
                self.terms.renew_every
            }
            Err(_) => {
                let longest = LONGEST_PAUSE.min(self.terms.renew_every).max(LEAST_LONGEST_PAUSE);
                self.failures.add(FIRST_PAUSE, longest)
            }
        };
        self.to(Step::Resting, Effect::Rest(Rest { result, pause }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use crate::lease_answer::Registry;
    use crate::protocol::{Mismatch, Protocol};

    const NOW_US: i64 = 1_795_000_000_000_000;
    const MINUTE_US: i64 = 60_000_000;

    fn lease(worker: u32, from_us: i64) -> Lease {
        Lease { identity: Identity { datacenter: 0, worker }, from_us, until_us: from_us + 10 * MINUTE_US }
    }

    fn answer(outcome: Outcome) -> Event {
        let registry =
            Registry { id: Uuid::from_u128(1), lease_us: 10 * MINUTE_US, renew_every_us: MINUTE_US };
        let (protocols, registry, token) = (Some(1..=1), Some(registry), Some("token".into()));
        let answer = Answer { outcome, protocols, registry_clock_us: NOW_US, registry, detail: None, token };
        Event::Answered { answer, sent_us: NOW_US, round_trip_us: 0 }
    }

    /// Answers effects with events until `is_found` accepts an effect, and returns this effect.
    fn drive(
        round: &mut LeaseRound,
        grant: Lease,
        mut effect: Effect,
        is_found: impl Fn(&Effect) -> bool,
    ) -> Effect {
        let mut last = 0;
        while !is_found(&effect) {
            let event = match effect {
                Effect::Connect => Event::Connected,
                Effect::Keep(_) => Event::Kept,
                Effect::Send(Request::Acquire(..)) => answer(Outcome::Granted(grant)),
                Effect::Send(Request::Renew(_)) => {
                    answer(Outcome::Granted(round.state().held.as_ref().unwrap().lease))
                }
                Effect::Send(Request::Release { .. }) => answer(Outcome::Released),
                Effect::Publish(_) => Event::Published { wants_another: false },
                Effect::Withdraw => Event::Withdrawn,
                Effect::Rest(_) | Effect::End => panic!("{effect:?}"),
            };
            let mut random = || {
                last += 1;
                Uuid::from_u128(grant.from_us as u128 + last)
            };
            effect = round.step(event, &mut Now { us: NOW_US, random: &mut random });
        }
        effect
    }

    /// The registry has granted a lease, but signs it only when the grant is durable. Until that time, the holder asks
    /// again after one second.
    #[test]
    fn a_grant_that_is_not_durable_yet() {
        let mut round = LeaseRound::new(LeaseState::default(), true);
        let grant = lease(3, NOW_US);
        let is_renewal = |effect: &Effect| matches!(effect, Effect::Send(Request::Renew(_)));
        for _ in 0..3 {
            let effect = round.begin(needs(&[]));
            drive(&mut round, grant, effect, is_renewal);
            let Event::Answered { mut answer, sent_us, round_trip_us } = answer(Outcome::Granted(grant))
            else {
                unreachable!()
            };
            answer.token = None;
            let mut now = Now { us: NOW_US, random: &mut || Uuid::from_u128(9) };
            let effect = round.step(Event::Answered { answer, sent_us, round_trip_us }, &mut now);
            assert!(matches!(effect, Effect::Keep(_)), "{effect:?}");
            let Effect::Rest(rest) = round.step(Event::Kept, &mut now) else { panic!("published") };
            assert_eq!(rest.result, Err(Refusal::Failure(NOT_DURABLE.into())));
            assert_eq!(rest.pause, FIRST_PAUSE);
        }
        let effect = round.begin(needs(&[]));
        drive(&mut round, grant, effect, |effect| *effect == Effect::Publish(grant));
    }

    fn needs(unwanted: &[u32]) -> Needs {
        Needs { worker_limit: 8, unwanted: unwanted.into(), ..Needs::default() }
    }

    /// A program that has published the lease of worker 3.
    fn with_a_lease() -> LeaseRound {
        let mut round = LeaseRound::new(LeaseState::default(), true);
        let effect = round.begin(needs(&[]));
        let rested = drive(&mut round, lease(3, NOW_US), effect, |effect| matches!(effect, Effect::Rest(_)));
        assert_eq!(rested, Effect::Rest(Rest { result: Ok(None), pause: Duration::from_secs(60) }));
        round
    }

    /// Stops the round. Returns the end of use in each of the releases that follow.
    fn releases(round: &mut LeaseRound, used: Option<(Lease, i64)>) -> Vec<i64> {
        let mut effect = round.stop();
        assert_eq!(effect, Effect::Withdraw);
        if let Some((lease, until_us)) = used {
            round.note_used(&lease, until_us);
        }
        let mut released = vec![];
        loop {
            effect = drive(round, lease(7, 0), effect, |effect| {
                matches!(effect, Effect::Send(Request::Release { .. }) | Effect::End)
            });
            let Effect::Send(Request::Release { used_until_us, .. }) = effect else { return released };
            released.push(used_until_us);
            effect = round
                .step(answer(Outcome::Released), &mut Now { us: NOW_US, random: &mut || unreachable!() });
        }
    }

    /// The holder is stopped between the grant of another lease and its publication. The noted end of use belongs to
    /// the former lease. The other lease was not used.
    #[test]
    fn stopped_between_grant_and_publication() {
        let (former, another) = (lease(3, NOW_US), lease(5, NOW_US + 1));
        let mut round = with_a_lease();
        let effect = round.begin(needs(&[3]));
        let is_renewal_of_another = |effect: &Effect| matches!(effect, Effect::Send(Request::Acquire(..)));
        let effect = drive(&mut round, another, effect, is_renewal_of_another);
        drive(&mut round, another, effect, |effect| matches!(effect, Effect::Send(Request::Renew(_))));
        let used_until_us = NOW_US + 5 * MINUTE_US;
        assert_eq!(releases(&mut round, Some((former, used_until_us))), [another.from_us, used_until_us]);
    }

    /// The publication of another lease fails. That lease counts as used, whether or not the driver notes the former
    /// lease's end.
    #[test]
    fn stopped_after_a_failed_publication() {
        let (former, another) = (lease(3, NOW_US), lease(5, NOW_US + 1));
        for noted_us in [None, Some(NOW_US + MINUTE_US)] {
            let mut round = with_a_lease();
            let effect = round.begin(needs(&[3]));
            let is_publication = |effect: &Effect| *effect == Effect::Publish(another);
            drive(&mut round, another, effect, is_publication);
            noted_us.inspect(|noted_us| round.note_used(&former, *noted_us));
            let failed = Event::Failed("does not fit".into());
            round.step(failed, &mut Now { us: NOW_US, random: &mut || unreachable!() });
            let used_until_us = noted_us.unwrap_or(former.until_us);
            assert_eq!(releases(&mut round, None), [another.until_us, used_until_us]);
        }
    }

    /// How much of the lease an earlier process used is not known.
    #[test]
    fn an_inherited_lease_counts_as_used() {
        let former = lease(3, NOW_US);
        let state = with_a_lease().state().clone();
        let mut round = LeaseRound::new(state.clone(), true);
        assert_eq!(releases(&mut round, None), [former.until_us]);
        let mut round = LeaseRound::new(state, true);
        assert_eq!((round.go_on(NOW_US), round.go_on(NOW_US)), (Some(former), None));
        assert_eq!(releases(&mut round, Some((former, NOW_US + 1))), [former.until_us]);
    }

    /// A request is repeated once in the other protocol, not twice.
    #[test]
    fn the_protocol_of_the_answer() {
        let mut now = Now { us: NOW_US, random: &mut || Uuid::nil() };
        let mut round = with_a_lease();
        round.begin(needs(&[]));
        round.terms.protocol = Protocol(2);
        let request = round.step(Event::Connected, &mut now);
        let refused = || answer(Outcome::Mismatch(Mismatch::RegistryTooOld));
        assert_eq!(round.step(refused(), &mut now), request);
        assert_eq!(round.terms.protocol, Protocol(1));
        let Effect::Rest(Rest { result: Err(Refusal::Answer(outcome, None)), .. }) =
            round.step(refused(), &mut now)
        else {
            panic!("the request is sent again");
        };
        assert_eq!(outcome, Outcome::Mismatch(Mismatch::RegistryTooOld));
        // There is no other protocol.
        round.begin(needs(&[]));
        round.step(Event::Connected, &mut now);
        assert!(matches!(round.step(refused(), &mut now), Effect::Rest(_)));
    }
}
