//! The registry worker of a server: `src/registry/worker.rs` and `lease_file.rs` of the extension. Its knowledge and
//! its steps are the product's `LeaseState`.

use std::collections::VecDeque;

use snowflake_id_core::lease_state::{Held, LeaseState, Needs, Outcome};
use snowflake_id_core::{Field, Layout};

use crate::context::Context;
use crate::mutation::Mutation;
use crate::random::Random;
use crate::registry::{Answer, Ask, Call, Registry};
use crate::server::{LeaseFile, Server, instant};

const TIME_TO_RENEW_FIRST_US: i64 = 2_000_000;
const LEAST_TIME_UNWANTED_US: i64 = 60_000_000;
const MOST_CLOCK_DIFFERENCE_US: i64 = 60_000_000;
const MAX_CLOCK_OFFSET_US: i64 = 5_000_000;

enum Op {
    Renew,
    Acquire,
    /// A reply has arrived.
    Renewed(Held, Answer),
    Acquired(Needs, Answer),
    /// A state to be written to the file, which counts after that.
    Keep(Box<LeaseState>),
    Tell,
    Confirm(bool),
    AcquireIfNeeded,
}

pub struct Worker {
    state: LeaseState,
    started_us: i64,
    is_unknown: bool,
    is_inherited: bool,
    unwanted: Vec<(u32, i64)>,
    noted_after: u64,
    ops: VecDeque<Op>,
}

/// The fate of a call.
enum Delivery {
    Answered(Answer),
    /// There is no reply.
    Nothing,
}

impl Worker {
    pub fn new(server: &Server, cx: &Context) -> Worker {
        let state = server.file.state.clone();
        let is_original = server.file.original == server.original || cx.is(Mutation::CopyBelieved);
        Worker {
            state: if is_original { state } else { state.of_an_unrecognized_server() },
            started_us: cx.now_us,
            is_unknown: false,
            is_inherited: true,
            unwanted: vec![],
            noted_after: 0,
            ops: VecDeque::new(),
        }
    }

    fn has_known_lease(&self) -> bool {
        !self.is_unknown && self.state.held.is_some()
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

    /// The keeper refuses the lease permanently. The lease ends, because it is not renewed.
    fn let_go(&mut self, cx: &mut Context) {
        let Some(running) = &mut self.running else { return };
        let worker = &mut running.worker;
        let mut state = worker.state.clone();
        if let Some(held) = state.held.take() {
            worker.unwanted.retain(|(unwanted, _)| *unwanted != held.lease.identity.worker);
        }
        self.keep_state(state);
        self.tell_lease(cx);
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
            let op = match worker.ops.pop_front() {
                Some(op) => op,
                None if step > 0 => return, // The round is over.
                None => {
                    let is_unwanted = |held: &Held| needs.unwanted.contains(&held.lease.identity.worker);
                    if worker.is_inherited
                        && running.shared.open_for().is_none()
                        && worker.state.held.as_ref().is_some_and(is_unwanted)
                    {
                        return self.let_go(cx);
                    }
                    worker.ops.push_back(if worker.has_known_lease() { Op::Renew } else { Op::Acquire });
                    continue;
                }
            };
            self.step_of_worker(cx, random, registry, &needs, op);
            if cx.failure.is_some() {
                return;
            }
        }
    }

    fn needs(&mut self, cx: &Context, registry: &Registry, layout: &Layout) -> Needs {
        let Some(running) = &mut self.running else { return Needs::default() };
        let (lease_status, worker) = (running.shared.lease_status, &mut running.worker);
        let time_us = registry.lease_us().max(LEAST_TIME_UNWANTED_US);
        worker.unwanted.retain(|(_, since_us)| cx.now_us - since_us < time_us);
        if let Some(lease) = lease_status.lease
            && running.shared.another_needed_after == lease_status.number
            && worker.noted_after != lease_status.number
        {
            worker.noted_after = lease_status.number;
            worker.unwanted.push((lease.identity.worker, cx.now_us));
        }
        Needs {
            datacenter: 0,
            pin: None,
            worker_limit: 1 << layout.bits(Field::Worker),
            unwanted: worker.unwanted.iter().map(|(worker, _)| *worker).collect(),
        }
    }

    /// Calls the registry. The call or the reply may be lost or late.
    fn ask(&mut self, cx: &mut Context, random: &mut Random, registry: &mut Registry, ask: Ask) -> Delivery {
        let clock_us = self.clock_us(cx);
        let Some(running) = &self.running else { return Delivery::Nothing };
        let evidence = &running.worker.state.evidence;
        let tokens = match cx.is(Mutation::TokenUnshown) {
            true => vec![],
            false => evidence.iter().filter_map(|evidence| evidence.token.parse().ok()).collect(),
        };
        let registry_id = running.worker.state.registry_id;
        let call = Call { server: self.at, registry_id, clock_us, tokens, ask };
        if self.is_cut || registry.is_down {
            return Delivery::Nothing;
        }
        let fate = random.below(40);
        if fate == 0 {
            cx.count("request to the registry lost");
            self.say(cx, || "its request to the registry is lost".into());
            return Delivery::Nothing;
        }
        if fate == 1 {
            cx.count("request to the registry late");
            self.say(cx, || "its request to the registry is late, and is given up".into());
            registry.strays.push(call);
            return Delivery::Nothing;
        }
        let answer = registry.call(cx, &call, random);
        if fate == 2 {
            cx.count("reply of the registry lost");
            self.say(cx, || "the reply of the registry is lost".into());
            return Delivery::Nothing;
        }
        if fate == 3 {
            cx.count("request to the registry repeated");
            self.say(cx, || "its request to the registry is sent a second time".into());
            registry.strays.push(call);
        }
        Delivery::Answered(answer)
    }

    fn step_of_worker(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        registry: &mut Registry,
        needs: &Needs,
        op: Op,
    ) {
        match op {
            Op::Renew => {
                let Some(held) = self.running.as_ref().and_then(|running| running.worker.state.held.clone())
                else {
                    return;
                };
                let ask =
                    Ask::Renew { lease_id: held.lease_id, last: held.last_nonce, next: held.next_nonce };
                match self.ask(cx, random, registry, ask) {
                    Delivery::Answered(answer) => self.push(Op::Renewed(held, answer)),
                    Delivery::Nothing => self.fail_round(cx),
                }
            }
            Op::Acquire => {
                let Some(running) = &mut self.running else { return };
                let mut state = running.worker.state.clone();
                let tokens = [random.uuid(), random.uuid()];
                let count = std::cell::Cell::new(0);
                let asking = state.ask(|| tokens[count.replace(count.get() + 1) % 2]);
                self.keep_state(state);
                let ask =
                    Ask::Acquire { lease_id: asking.lease_id, nonce: asking.nonce, needs: needs.clone() };
                match self.ask(cx, random, registry, ask) {
                    Delivery::Answered(answer) => self.push(Op::Acquired(needs.clone(), answer)),
                    Delivery::Nothing => self.fail_round(cx),
                }
            }
            Op::Renewed(held, answer) => self.renewed(cx, random, registry, held, answer),
            Op::Acquired(needs, answer) => self.acquired(cx, random, &needs, answer),
            Op::Keep(state) => self.keep_state(*state),
            Op::Tell => self.tell_lease(cx),
            Op::Confirm(is_clock_good) => {
                let offset_us = self.clock_us(cx) - self.since_boot_us(cx);
                let Some(running) = &mut self.running else { return };
                running.shared.lease_status.confirmed_clock_us = is_clock_good.then_some(offset_us);
            }
            Op::AcquireIfNeeded => {
                let Some(running) = &mut self.running else { return };
                if running.worker.state.has_to_acquire(needs) {
                    running.worker.ops.push_back(Op::Acquire);
                }
            }
        }
    }

    fn push(&mut self, op: Op) {
        if let Some(running) = &mut self.running {
            running.worker.ops.push_back(op);
        }
    }

    fn fail_round(&mut self, cx: &mut Context) {
        if let Some(running) = &mut self.running {
            running.worker.ops.clear();
            running.shared.lease_status.confirmed_clock_us = None;
        }
        self.tell_lease_in_hand(cx, true);
    }

    fn renewed(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        registry: &Registry,
        held: Held,
        answer: Answer,
    ) {
        let clock_us = self.clock_us(cx);
        let is_clock_good = (clock_us - answer.clock_us).abs() <= MAX_CLOCK_OFFSET_US;
        let Some(running) = &mut self.running else { return };
        let worker = &mut running.worker;
        match answer.outcome {
            Outcome::Granted(lease) if lease.is_same_range(&held.lease) => {
                let mut state = worker.state.clone();
                state.note(answer.registry_id);
                let nonce = random.uuid();
                state.renew(lease, || nonce);
                if let Some(token) = answer.token {
                    if !registry.shows_lease(token, &lease) {
                        return cx.fail("the stand-in signs the requested lease", format!("{lease:?}"));
                    }
                    state.prove(token.to_string(), clock_us);
                }
                let is_proved = state.is_proved();
                worker.ops.push_back(Op::Keep(Box::new(state)));
                if is_proved {
                    worker.ops.extend([Op::Tell, Op::Confirm(is_clock_good), Op::AcquireIfNeeded]);
                }
            }
            Outcome::Unknown | Outcome::Granted(_) => {
                worker.is_unknown = true;
                worker.ops.push_back(Op::Acquire);
                self.say(cx, || "the registry does not know its lease, which is used to its end".into());
            }
            Outcome::Twin => {
                running.shared.lease_status.tell(None);
                running.shared.close_gate();
                worker.state.held = None;
                let state = worker.state.clone();
                worker.ops.extend([Op::Keep(Box::new(state)), Op::Acquire]);
                self.say(cx, || "is told that another server has its lease: the gate is closed".into());
            }
            _ => self.fail_round(cx),
        }
    }

    fn acquired(&mut self, cx: &mut Context, random: &mut Random, needs: &Needs, answer: Answer) {
        let clock_us = self.clock_us(cx);
        let Some(running) = &mut self.running else { return };
        let worker = &mut running.worker;
        let mut state = worker.state.clone();
        match answer.outcome {
            Outcome::Granted(lease) if needs.are_met_by(lease.identity) => {
                if lease.from_us > clock_us + MOST_CLOCK_DIFFERENCE_US {
                    return self.fail_round(cx);
                }
                state.note(answer.registry_id);
                let nonce = random.uuid();
                state.hold(lease, || nonce);
                (worker.is_unknown, worker.is_inherited) = (false, false);
                worker.ops.extend([Op::Keep(Box::new(state)), Op::Renew]);
            }
            Outcome::Granted(_) | Outcome::Twin => {
                state.asking = None;
                self.keep_state(state);
                self.fail_round(cx);
            }
            _ => self.fail_round(cx),
        }
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
        if let Some(running) = &mut self.running {
            running.worker.state = state;
        }
    }

    fn tell_lease(&mut self, cx: &mut Context) {
        let clock_us = self.clock_us(cx);
        let Some(running) = &mut self.running else { return };
        let lease = running.worker.state.lease_at(clock_us);
        running.shared.lease_status.tell(lease);
        running.shared.lease_status.is_inherited = running.worker.is_inherited;
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
        let Some(running) = &self.running else { return };
        let is_due = has_failed || cx.now_us - running.worker.started_us >= TIME_TO_RENEW_FIRST_US;
        if is_due
            && running.shared.lease_status.lease.is_none()
            && running.worker.state.lease_at(clock_us).is_some()
        {
            self.tell_lease(cx);
        }
    }
}
