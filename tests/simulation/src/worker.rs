//! The registry worker of a server: `src/registry/worker.rs` and `lease_file.rs` of the extension. The product's
//! `LeaseRound` determines the steps, and this module carries them out.

use std::time::Duration;

use snowflake_id_core::lease_answer::{self, Registry as Settings};
use snowflake_id_core::lease_call::Ids;
use snowflake_id_core::lease_round::{Effect, Event, LeaseRound, Now, Request};
use snowflake_id_core::lease_state::{LeaseState, Needs, Outcome};
use snowflake_id_core::protocol::PROTOCOLS;
use snowflake_id_core::unwanted::Unwanted;
use snowflake_id_core::{Field, Layout, Lease};

use crate::context::Context;
use crate::mutation::Mutation;
use crate::random::Random;
use crate::registry::{Answer, Ask, Call, Registry};
use crate::server::{LeaseFile, Server, instant};

const TIME_TO_RENEW_FIRST_US: i64 = 2_000_000;
const MAX_CLOCK_OFFSET_US: i64 = 5_000_000;

pub struct Worker {
    round: LeaseRound,
    effect: Option<Effect>,
    /// Mutation: a state that is said to be kept, and is not in the file yet.
    late: Option<LeaseState>,
    /// Mutation: the state to be kept has been published.
    has_published: bool,
    started_us: i64,
    unwanted: Unwanted,
}

impl Worker {
    pub fn new(server: &Server, cx: &Context) -> Worker {
        let state = server.file.state.clone();
        let is_original = server.file.original == server.original || cx.is(Mutation::CopyBelieved);
        let state = if is_original { state } else { state.of_an_unrecognized_server() };
        Worker {
            round: LeaseRound::new(state, false),
            effect: None,
            late: None,
            has_published: false,
            started_us: cx.now_us,
            unwanted: Unwanted::default(),
        }
    }
}

impl Server {
    pub fn kill_worker(&mut self, cx: &mut Context) -> bool {
        if self.running.is_none() || !self.is_leased {
            return false;
        }
        let worker = Worker::new(self, cx);
        if let Some(running) = &mut self.running {
            running.worker = worker;
        }
        self.say(cx, || "the registry worker exits, and is restarted".into());
        true
    }

    /// The registry worker takes up to `steps` steps, at most to the end of a round.
    pub fn work(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        registry: &mut Registry,
        layouts: &[Layout],
        steps: usize,
    ) {
        if !self.is_leased {
            return;
        }
        self.tell_lease_in_hand(cx, false);
        let needs = self.needs(cx, registry, &layouts[self.layout_at]);
        for step in 0..steps {
            let Some(running) = &mut self.running else { return };
            let worker = &mut running.worker;
            let Some(effect) = worker.effect.take() else {
                if step > 0 {
                    return; // The round is over.
                }
                let held = worker.round.state().held.as_ref();
                let unwanted =
                    held.map(|held| held.lease.identity.worker).filter(|it| needs.unwanted.contains(it));
                let is_refused = worker.round.is_inherited() && running.shared.open_for().is_none();
                worker.effect = Some(match unwanted.filter(|_| is_refused) {
                    Some(refused) => {
                        worker.unwanted.forget(refused);
                        worker.round.give_up()
                    }
                    None => worker.round.begin(needs.clone()),
                });
                continue;
            };
            let event = match effect {
                Effect::Connect => Event::Connected,
                Effect::Send(request) => self.send(cx, random, registry, request),
                Effect::Keep(state) => {
                    if cx.is(Mutation::PublishedFirst) && !std::mem::take(&mut worker.has_published) {
                        worker.has_published = true;
                        let lease = state.held.as_ref().map(|held| held.lease);
                        worker.effect = Some(Effect::Keep(state));
                        self.tell_lease(cx, lease);
                        continue;
                    }
                    match cx.is(Mutation::KeptLate) {
                        true => worker.late = Some(*state),
                        false => self.keep_state(*state),
                    }
                    Event::Kept
                }
                Effect::Publish(lease) => {
                    self.tell_lease(cx, Some(lease));
                    Event::Published { wants_another: false }
                }
                Effect::Withdraw => {
                    running.shared.lease_status.tell(None);
                    running.shared.close_gate();
                    self.say(cx, || "withdraws its lease: the gate is closed".into());
                    Event::Withdrawn
                }
                Effect::Rest(rest) => {
                    if let Some(late) = worker.late.take() {
                        self.keep_state(late);
                    }
                    let offset = self.clock_offset(cx);
                    let Some(running) = &mut self.running else { return };
                    let clock_offset_us = running.worker.round.terms().clock_offset_us.unwrap_or(i64::MAX);
                    let is_clock_good = rest.result.is_ok() && clock_offset_us.abs() <= MAX_CLOCK_OFFSET_US;
                    running.shared.lease_status.confirmed_clock = is_clock_good.then_some(offset);
                    if rest.result.is_err() {
                        self.tell_lease_in_hand(cx, true);
                    }
                    return;
                }
                Effect::End => return,
            };
            let us = self.clock_us(cx);
            let Some(running) = &mut self.running else { return };
            let worker = &mut running.worker;
            worker.effect = Some(worker.round.step(event, &mut Now { us, random: &mut || random.uuid() }));
            if cx.failure.is_some() {
                return;
            }
        }
    }

    fn needs(&mut self, cx: &Context, registry: &Registry, layout: &Layout) -> Needs {
        let Some(running) = &mut self.running else { return Needs::default() };
        let (lease_status, worker) = (running.shared.lease_status, &mut running.worker);
        let unusable =
            lease_status.lease.filter(|_| running.shared.another_needed_after == lease_status.number);
        let [now, lease_time] =
            [cx.now_us, registry.lease_us()].map(|us| Duration::from_micros(us.unsigned_abs()));
        worker.unwanted.update(unusable.map(|lease| lease.identity.worker), now, lease_time);
        Needs {
            datacenter: 0,
            pin: None,
            worker_limit: 1 << layout.bits(Field::Worker),
            unwanted: worker.unwanted.workers(),
        }
    }

    /// Sends a request, and translates the answer of the stand-in.
    fn send(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        registry: &mut Registry,
        request: Request,
    ) -> Event {
        let ask = match request {
            Request::Acquire(asking, needs) => {
                Ask::Acquire { lease_id: asking.lease_id, nonce: asking.nonce, needs }
            }
            Request::Renew(Ids { lease_id, last_nonce, next_nonce }) => {
                Ask::Renew { lease_id, last: last_nonce, next: next_nonce }
            }
            Request::Release { .. } => return Event::Failed("servers release no leases".into()),
        };
        let sent_us = self.clock_us(cx);
        let Some(answer) = self.ask(cx, random, registry, ask) else {
            return Event::Failed("there is no reply".into());
        };
        if let (Outcome::Granted(lease), Some(token)) = (&answer.outcome, answer.token)
            && !registry.shows_lease(token, lease)
        {
            cx.fail("the stand-in signs the requested lease", format!("{lease:?}"));
        }
        let (lease_us, renew_every_us) = (registry.lease_us(), registry.renew_every_us());
        let answer = lease_answer::Answer {
            outcome: answer.outcome,
            protocols: Some(PROTOCOLS),
            registry_clock_us: answer.clock_us,
            registry: Some(Settings { id: answer.registry_id, lease_us, renew_every_us }),
            detail: None,
            token: answer.token.map(|token| token.to_string()),
        };
        Event::Answered { answer, sent_us, round_trip_us: 0 }
    }

    fn ask(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        registry: &mut Registry,
        ask: Ask,
    ) -> Option<Answer> {
        let clock_us = self.clock_us(cx);
        let state = self.running.as_ref()?.worker.round.state();
        let tokens = match cx.is(Mutation::TokenUnshown) {
            true => vec![],
            false => state.evidence.iter().filter_map(|evidence| evidence.token.parse().ok()).collect(),
        };
        let call = Call { server: self.at, registry_id: state.registry_id, clock_us, tokens, ask };
        self.deliver(cx, random, registry, call)
    }

    /// Calls the registry. The call or the reply may be lost or late.
    pub fn deliver(
        &self,
        cx: &mut Context,
        random: &mut Random,
        registry: &mut Registry,
        call: Call,
    ) -> Option<Answer> {
        if self.is_cut || registry.is_down {
            return None;
        }
        let fate = random.below(40);
        if fate == 0 {
            cx.count("request to the registry lost");
            self.say(cx, || "its request to the registry is lost".into());
            return None;
        }
        if fate == 1 {
            cx.count("request to the registry late");
            self.say(cx, || "its request to the registry is late, and is given up".into());
            registry.strays.push(call);
            return None;
        }
        let answer = registry.call(cx, &call, random);
        if fate == 2 {
            cx.count("reply of the registry lost");
            self.say(cx, || "the reply of the registry is lost".into());
            return None;
        }
        if fate == 3 {
            cx.count("request to the registry repeated");
            self.say(cx, || "its request to the registry is sent a second time".into());
            registry.strays.push(call);
        }
        Some(answer)
    }

    /// Only the state in the file counts.
    fn keep_state(&mut self, state: LeaseState) {
        self.file = LeaseFile { original: self.original, state: state.clone() };
        if let Some(held) = &state.held {
            match self.granted.iter_mut().find(|known| known.is_same_range(&held.lease)) {
                Some(known) => known.until_us = known.until_us.max(held.lease.until_us),
                None => self.granted.push(held.lease),
            }
        }
    }

    fn tell_lease(&mut self, cx: &mut Context, lease: Option<Lease>) {
        let Some(running) = &mut self.running else { return };
        running.shared.lease_status.tell(lease);
        running.shared.lease_status.is_inherited = running.worker.round.is_inherited();
        self.say(cx, || match lease {
            Some(lease) => {
                format!("publishes the lease of {} until {}", lease.identity, instant(lease.until_us))
            }
            None => "publishes that there is no lease".into(),
        });
    }

    /// The lease in hand belongs to this server alone, whatever the registry says.
    fn tell_lease_in_hand(&mut self, cx: &mut Context, has_failed: bool) {
        let clock_us = self.clock_us(cx);
        let Some(running) = &mut self.running else { return };
        let is_due = has_failed || cx.now_us - running.worker.started_us >= TIME_TO_RENEW_FIRST_US;
        if is_due && let Some(lease) = running.worker.round.go_on(clock_us) {
            self.tell_lease(cx, Some(lease));
        }
    }
}
