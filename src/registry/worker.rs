//! The rounds of the registry worker. [`LeaseRound`] determines the steps, and this module carries them out. In each
//! round, the worker renews its lease or requests a lease.

use std::time::{Duration, Instant};

use pgrx::prelude::*;
use snowflake_id_core::Lease;
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::lease_answer::Answer;
use snowflake_id_core::lease_call::Facts;
use snowflake_id_core::lease_round::{Effect, Event, LeaseRound, Now, Request, Rest};
use snowflake_id_core::lease_state::{LeaseState, Needs};
use snowflake_id_core::message::instant;
use snowflake_id_core::protocol::Mismatch;
use snowflake_id_core::unwanted::Unwanted;
use uuid::Uuid;

use super::report::{Failure, Report};
use super::{lease_file, needs};
use crate::background::connection::{self, NoAnswer};
use crate::background::own_file::Found;
use crate::background::rounds;
use crate::background::stop::is_stopping;
use crate::config;
use crate::pg::encoding::in_ascii;
use crate::pg::libpq::Connection;
use crate::pg::random::{random_between, random_bytes};
use crate::pg::{clock, process, server};
use crate::shared::lease::{self, RegistryState, lease_status};
use crate::shared::memory::State;

/// How long a newly started server tries to renew its stored lease. Afterwards, it uses the lease without a renewal.
const TIME_TO_RENEW_FIRST: Duration = Duration::from_secs(2);
/// The pause after a problem that prevents this server from contacting the registry.
const PAUSE_WITHOUT_ROUND: Duration = Duration::from_secs(5);

pub struct Worker {
    shared: &'static State,
    started: Instant,
    round: LeaseRound,
    /// The connection of the current round.
    connection: Option<Connection>,
    /// This server's clock when the last request was sent. The registry compares its own clock with this value, even if
    /// this server's clock is set before the answer arrives.
    compared_clock: ClockOffset,
    /// True if the facts about this server are sent unchanged. The flag is false if the registry's database
    /// cannot represent all characters in the facts.
    tells_facts_as_they_are: bool,
    unwanted: Unwanted,
    /// The identities that the server could use in the last round, or the reason why it could use none.
    asked_for: Result<Needs, String>,
    /// The reason why the last effect has failed.
    failure: Option<Failure>,
    report: Report,
}

impl Worker {
    /// Reads the lease file. If a newer version has written the file, waits until an administrator removes the file.
    /// Returns `None` if the process must stop.
    pub fn new(shared: &'static State) -> Option<Worker> {
        let mut report = Report::new();
        let (found, problem) = loop {
            let problem = match lease_file::read() {
                Ok(read) => break read,
                Err(problem) => problem,
            };
            let failure = Failure::new(RegistryState::Mismatch(Mismatch::CallerTooOld), problem);
            report.fail(failure, &LeaseRound::new(LeaseState::default(), false));
            shared.server_status.wakeup.request();
            pause_at_start(shared, || false)?;
        };
        if let Some(problem) = problem {
            log!("snowflake_id: {problem}");
        }
        let keeper = &shared.server_status.keeper;
        while !matches!(found, Found::Own(_)) && !keeper.is_identity_known() {
            pause_at_start(shared, || keeper.is_identity_known())?;
        }
        let state = match found {
            Found::Own(state) => state,
            // This is a new server, or an administrator has removed the file so that the server can move to another
            // registry.
            Found::Nothing if !keeper.is_old_copy() => LeaseState::default(),
            Found::Nothing | Found::Damaged(_) => {
                LeaseState::default().of_last_registry(keeper.last_registry())
            }
            Found::Copy(state) => state.of_an_unrecognized_server().of_last_registry(keeper.last_registry()),
        };
        Some(Worker {
            shared,
            started: Instant::now(),
            // A server does not release its leases, because it may use them again after a restart.
            round: LeaseRound::new(state, false),
            connection: None,
            compared_clock: ClockOffset::default(),
            tells_facts_as_they_are: true,
            unwanted: Unwanted::default(),
            asked_for: Ok(Needs::default()),
            failure: None,
            report,
        })
    }

    /// Runs until the process must stop.
    pub fn run(&mut self) {
        loop {
            self.shared.server_status.registry_wakeup.take_wanted();
            self.determine_needs();
            let pause = match self.asked_for.clone() {
                Ok(needs) => {
                    let effect = self.round.begin(needs);
                    let Some(rest) = self.drive(effect) else { return };
                    self.report(rest)
                }
                Err(why) => {
                    self.fail(Failure::new(RegistryState::Misconfigured, why));
                    PAUSE_WITHOUT_ROUND
                }
            };
            self.sleep(Instant::now() + pause);
            if !self.keep_waiting() {
                return;
            }
        }
    }

    /// Determines the identities that this server can use. Gives up the lease if the keeper cannot use it, the gate has
    /// no identity, and the lease was granted to an earlier process. The server can never use such a lease, because the
    /// server does not know how much of it has been used.
    fn determine_needs(&mut self) {
        self.note_unusable_worker();
        self.asked_for = needs::of_this_server(&self.unwanted);
        if let (Ok(needs), Some(held)) = (&self.asked_for, &self.round.state().held)
            && needs.unwanted.contains(&held.lease.identity.worker)
            && self.round.is_inherited()
            && self.shared.gate.identity().is_none()
        {
            self.unwanted.forget(held.lease.identity.worker);
            self.asked_for = needs::of_this_server(&self.unwanted);
            let effect = self.round.give_up();
            self.drive(effect);
        }
    }

    /// Carries out effects until the next pause. Returns `None` if the process must stop.
    fn drive(&mut self, mut effect: Effect) -> Option<Rest> {
        self.failure = None;
        // The lease that was known before the last step and is no longer known.
        let mut lost: Option<Lease> = None;
        loop {
            let event = match effect {
                Effect::Rest(rest) => {
                    self.connection = None;
                    return Some(rest);
                }
                Effect::End => return None,
                Effect::Connect => self.connect(),
                Effect::Send(request) => self.send(&request),
                // No signal interrupts the write.
                Effect::Keep(state) => {
                    Ok(lease_file::write(&state).map_or_else(Event::NotKept, |()| Event::Kept))
                }
                Effect::Publish(lease) => {
                    self.publish(lease);
                    Ok(Event::Published { wants_another: false })
                }
                Effect::Withdraw => {
                    self.withdraw(lost);
                    Ok(Event::Withdrawn)
                }
            };
            let event = match event {
                Ok(event) => event,
                Err(no_answer) => {
                    let failure = Failure::of_no_answer(no_answer)?;
                    let event = Event::Failed(failure.why.clone());
                    self.failure = Some(failure);
                    event
                }
            };
            let known = self.round.known();
            effect = self.round.step(event, &mut Now { us: clock::clock_us(), random: &mut new_uuid });
            lost = known.filter(|_| self.round.known().is_none());
            if let Some(lease) = lost
                && effect != Effect::Withdraw
            {
                log!(
                    "snowflake_id: the registry does not know the lease of {}; this server uses the lease until its end",
                    lease.identity
                );
            }
        }
    }

    fn connect(&mut self) -> Result<Event, NoAnswer> {
        let string = config::registry().ok_or(NoAnswer::Stopping)?;
        self.connection = Some(connection::connect(&string, &mut || self.keep_waiting())?);
        Ok(Event::Connected)
    }

    /// Sends a request with the facts about this server. The grant of a worker ID must not depend on the characters in
    /// the facts. Therefore, if the encoding of the registry's database cannot represent them, the request is sent
    /// again with the facts in ASCII.
    fn send(&mut self, request: &Request) -> Result<Event, NoAnswer> {
        let mut facts = facts(self.shared);
        let is_ascii = facts.node_name.is_ascii() && facts.host.as_deref().is_none_or(str::is_ascii);
        if is_ascii || self.tells_facts_as_they_are {
            match self.send_once(request, &facts) {
                Err(NoAnswer::Refused(_)) if !is_ascii => {}
                answered => return answered,
            }
        }
        facts.node_name = in_ascii(&facts.node_name);
        facts.host = facts.host.as_deref().map(in_ascii);
        let answered = self.send_once(request, &facts);
        self.tells_facts_as_they_are = answered.is_err();
        answered
    }

    fn send_once(&mut self, request: &Request, facts: &Facts) -> Result<Event, NoAnswer> {
        // The connection is moved out of `self` during the call, because `keep_waiting` borrows `self`.
        let mut connection =
            self.connection.take().ok_or_else(|| "bug: there is no connection".to_owned())?;
        let (sent_us, offset) = clock::clock_and_offset();
        let sent = Instant::now();
        self.compared_clock = offset;
        let call = self.round.call(request, facts, sent_us);
        let reply = connection::ask(&mut connection, &call, &mut || self.keep_waiting());
        self.connection = Some(connection);
        let answer = Answer::read(&reply?, clock::clock_us())?;
        Ok(Event::Answered { answer, sent_us, round_trip_us: sent.elapsed().as_micros() as i64 })
    }

    /// Passes a lease to the keeper.
    fn publish(&mut self, lease: Lease) {
        let is_new = !self.is_told(&lease) && !self.round.is_inherited();
        self.tell(lease);
        if is_new {
            log!("snowflake_id: {} is leased until {}", lease.identity, instant(lease.until_us));
        }
    }

    /// If the keeper has no lease, passes the current lease to the keeper without contacting the registry.
    fn go_on(&mut self) {
        let lease = self.round.go_on(clock::clock_us());
        // The keeper may already have received the lease from an earlier process.
        if let Some(lease) = lease.filter(|lease| !self.is_told(lease)) {
            log!(
                "snowflake_id: continuing with the lease of {}, which ends at {}",
                lease.identity,
                instant(lease.until_us)
            );
            self.tell(lease);
        }
    }

    /// Returns whether the keeper already has the lease. The keeper's copy may have an earlier end.
    fn is_told(&self, lease: &Lease) -> bool {
        lease_status().lease.is_some_and(|told| told.is_same_range(lease))
    }

    fn tell(&self, lease: Lease) {
        lease::tell(|lease_status| {
            (lease_status.lease, lease_status.is_inherited) = (Some(lease), self.round.is_inherited());
            lease_status.registry_id = self.round.state().registry_id;
        });
        self.shared.server_status.wakeup.request();
    }

    /// Withdraws the lease from the keeper. `twin` is the lease if the registry has just reported that another server
    /// also has it. The other server may have been issuing IDs for some time, so the function raises a warning.
    fn withdraw(&self, twin: Option<Lease>) {
        lease::tell(|lease_status| lease_status.lease = None);
        self.shared.close_gate();
        self.shared.server_status.wakeup.request();
        if let Some(Lease { identity, .. }) = twin {
            warning!(
                "snowflake_id: another server has the same lease of {identity}: one server is a copy of the other"
            );
        }
    }

    /// Reports the end of a round. Returns the time to sleep.
    fn report(&mut self, Rest { result, pause }: Rest) -> Duration {
        match result {
            Ok(note) => {
                self.report.succeed(note, self.round.terms(), self.compared_clock);
                // Spread the renewals of the servers of a fleet.
                pause.mul_f64(random_between((0.9, 1.1)))
            }
            Err(refusal) => {
                let offset = self.round.terms().clock_offset();
                let failure = self.failure.take().unwrap_or_else(|| {
                    let keeper = &self.shared.server_status.keeper;
                    Failure::of(refusal, offset, keeper.last_registry(), keeper.is_old_copy())
                });
                let is_stuck = failure.is_stuck;
                self.fail(failure);
                if is_stuck {
                    // The keeper starts another worker.
                    process::exit(1);
                }
                pause.mul_f64(random_between((0.5, 1.0)))
            }
        }
    }

    /// Continues to use the current lease, and reports the failure.
    fn fail(&mut self, failure: Failure) {
        self.go_on();
        self.report.fail(failure, &self.round);
        self.shared.server_status.wakeup.request();
    }

    /// Sleeps until the next round is due, or until the identities that this server can use have changed
    /// since the last round.
    fn sleep(&mut self, until: Instant) {
        let (wakeup, now) = (&self.shared.server_status.registry_wakeup, Instant::now());
        rounds::sleep(wakeup, now, until, || {
            self.note_unusable_worker();
            let goes_on = self.keep_waiting() && needs::of_this_server(&self.unwanted) == self.asked_for;
            goes_on.then_some(now)
        });
    }

    /// Does urgent work while the worker waits. Returns false if the worker has to stop.
    fn keep_waiting(&mut self) -> bool {
        let registry = config::registry();
        let is_needed = is_still_needed();
        if config::registry() != registry {
            self.shared.server_status.registry_wakeup.request();
        }
        if self.started.elapsed() >= TIME_TO_RENEW_FIRST {
            self.go_on();
        }
        is_needed
    }

    fn note_unusable_worker(&mut self) {
        let lease_time = Duration::from_micros(self.round.terms().lease_us.unsigned_abs());
        self.unwanted.update(needs::unusable_worker(self.shared), self.started.elapsed(), lease_time);
    }
}

/// Waits for the keeper or an administrator before the first round, unless `is_over` returns true. Returns `None` if
/// the process must stop.
fn pause_at_start(shared: &State, is_over: impl Fn() -> bool) -> Option<()> {
    let (now, until) = (Instant::now(), Instant::now() + PAUSE_WITHOUT_ROUND);
    let wakeup = &shared.server_status.registry_wakeup;
    // A request after this point ends the pause.
    wakeup.take_wanted();
    if !is_over() {
        rounds::sleep(wakeup, now, until, || is_still_needed().then_some(now));
    }
    is_still_needed().then_some(())
}

/// Returns whether the process should continue to run.
fn is_still_needed() -> bool {
    process::reload_if_asked();
    !is_stopping() && config::registry().is_some()
}

/// Returns the facts that this server reports about itself.
fn facts(shared: &State) -> Facts {
    let by_hand = shared.server_status.keeper.by_hand().into_iter();
    let by_hand = by_hand.filter(|identity| identity.datacenter == config::datacenter_id());
    Facts {
        node_name: config::node_name(),
        host: Some(server::host()),
        port: Some(server::port()),
        layout: config::valid_layout().map(|layout| layout.label()),
        version: config::VERSION.to_owned(),
        by_hand: by_hand.map(|identity| identity.worker).collect(),
    }
}

fn new_uuid() -> Uuid {
    uuid::Builder::from_random_bytes(random_bytes()).into_uuid()
}
