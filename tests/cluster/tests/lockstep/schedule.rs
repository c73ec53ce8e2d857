//! Random schedules of calls and accidents, each from a seed.

use std::collections::{BTreeMap, VecDeque};

use harness::Random;
use snowflake_id_core::Identity;
use snowflake_id_core::lease_state::Needs;
use snowflake_id_stand_in::{
    Administration, Answer, Call, Caller, FOREVER, Identification, Outcome, Period, Place, Request,
    RequestName, SegmentShape, TakeOutcome, Token, Unit,
};
use uuid::Uuid;

use super::compared::{Agreed, Compared, Difference, Sent, Shown, Transaction};

const BEGAN_US: i64 = 1_790_000_000_000_000;
const SECOND_US: i64 = 1_000_000;
const STEPS: u32 = 300;
const HOLDERS: usize = 4;
const SEGMENTS: [&str; 3] = ["s0", "s1", "p"];
const LEASES_S: [i64; 5] = [60, 120, 300, 600, 3600];

/// Settings of a caller that must not matter. A schedule has half of them.
const HOSTILE: [&str; 20] = [
    "SET DateStyle = 'SQL, DMY'",
    "SET IntervalStyle = 'iso_8601'",
    "SET TimeZone = 'America/St_Johns'",
    "SET standard_conforming_strings = off",
    "SET bytea_output = 'escape'",
    "SET extra_float_digits = -15",
    "SET search_path = hostile, public",
    "SET quote_all_identifiers = on",
    "SET backslash_quote = on",
    "SET array_nulls = off",
    "SET transform_null_equals = on",
    "SET xmloption = document",
    "SET plan_cache_mode = force_generic_plan",
    "SET enable_hashagg = off; SET enable_seqscan = off",
    "SET enable_indexscan = off; SET enable_bitmapscan = off; SET enable_nestloop = off",
    "SET work_mem = '64kB'",
    "SET default_transaction_deferrable = on",
    "SET synchronous_commit = off",
    "SET client_min_messages = debug5",
    "SET check_function_bodies = off",
];

/// A server or a program, as it knows itself.
#[derive(Clone, Default)]
struct Holder {
    asking: Option<(Uuid, Uuid)>,
    held: Option<Identification>,
    tokens: Vec<Shown>,
    numbers: BTreeMap<String, Shown>,
    had_until: BTreeMap<String, i64>,
}

/// What happens in one step.
#[derive(Clone, Copy, Debug)]
enum Event {
    Acquire {
        holder: usize,
        pin: Option<u32>,
        is_lost: bool,
    },
    /// The configuration sets a worker ID that the server excludes.
    AcquireNamed {
        holder: usize,
        worker: u32,
    },
    Renew {
        holder: usize,
    },
    Release {
        holder: usize,
    },
    /// Shows the tokens of another one.
    RenewWithTokensOf {
        holder: usize,
        other: usize,
    },
    Take {
        holder: usize,
    },
    /// The numbers that the server has may not be known.
    TakeAhead {
        holder: usize,
    },
    Repeat,
    /// A copy of a holder that was made earlier calls.
    Copy,
    /// A copy repeats the request for an identity.
    CopyAcquires,
    /// The same, but the copy has the tokens of the holder.
    CopyAcquiresWithTokens {
        holder: usize,
    },
    Administer,
    EndQuarantine,
    Unfreeze,
    ResumeSegments,
    ShortLeases,
    /// All leases end.
    Wait,
    /// About as much time as counts between two calls.
    WaitShortly,
    /// Other servers may take numbers, or may no longer.
    OthersMayTake(bool),
    /// The freeze ends in the middle of the leases.
    Freeze,
    Reserve {
        worker: Option<u32>,
    },
    /// Reserves a worker ID for the role of the holders.
    ReserveForRole {
        worker: u32,
    },
    /// Gives up all reservations for roles.
    GiveUpReservations,
    RequireProtocol,
    Restart,
    SetBack {
        to_last: bool,
        is_silent: bool,
    },
    Keep,
    SwitchGuardOff,
    NewSettings,
}

pub struct Schedule<'a, 'b> {
    random: Random,
    compared: &'a mut Compared<'b>,
    registry_id: Uuid,
    holders: [Holder; HOLDERS],
    older: Vec<Holder>,
    all_tokens: Vec<Shown>,
    past: Vec<(usize, Sent)>,
    /// Events that follow one another, each soon after the other.
    story: VecDeque<Event>,
    lease_us: i64,
    rarity: u64,
    log: Vec<String>,
}

/// Runs the schedule of a seed. Returns what differs.
pub fn run(compared: &mut Compared, seed: u64, counts: &mut BTreeMap<String, u64>) -> Result<(), String> {
    let random = Random::of(seed);
    let mut schedule = Schedule {
        random,
        compared,
        registry_id: Uuid::nil(),
        holders: Default::default(),
        older: vec![],
        all_tokens: vec![],
        past: vec![],
        story: VecDeque::new(),
        lease_us: 0,
        rarity: 1,
        log: vec![],
    };
    let mut step = 0;
    let mut result = schedule.begin(counts);
    while result.is_ok() && step < STEPS {
        step += 1;
        result = schedule.step(counts);
    }
    result.map_err(|Difference(text)| {
        let from = schedule.log.len().saturating_sub(12);
        format!(
            "SQL and stand-in differ at step {step} of the schedule SNOWFLAKE_ID_LOCKSTEP_SCHEDULE={seed}:\n{}\n{text}",
            schedule.log[from..].join("\n")
        )
    })
}

impl Schedule<'_, '_> {
    fn begin(&mut self, counts: &mut BTreeMap<String, u64>) -> Result<(), Difference> {
        self.rarity = *self.random.one_of(&[1, 3, 10, 30]);
        let is_own_only = self.random.once_in(8);
        let place = Place { timeline: 1, started_us: BEGAN_US - SECOND_US };
        self.registry_id = self.compared.begin(place, BEGAN_US, !is_own_only)?;
        self.new_settings();
        let configure = self.configuration();
        let mut calls = if self.random.once_in(8) {
            vec![configure, Administration::Quarantine]
        } else {
            vec![self.start(), configure]
        };
        if self.random.once_in(3) {
            calls.swap(0, 1);
        }
        // Most of the pools that it would state would be refused.
        if let Administration::StartFleet { first_worker, last_worker, .. } = &mut calls[1]
            && !self.random.once_in(6)
        {
            (*first_worker, *last_worker) = (None, None);
        }
        calls.extend(SEGMENTS.map(|name| self.creation(name)));
        if self.random.once_in(6) {
            calls.push(Administration::GrantSegment { name: self.random.one_of(&SEGMENTS).to_string() });
        }
        for call in calls {
            self.administer(call, counts)?;
        }
        Ok(())
    }

    fn between(&mut self, least: i64, most: i64) -> i64 {
        least + self.random.below((most - least + 1) as u64) as i64
    }

    fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.random.below(u64::MAX), self.random.below(u64::MAX))
    }

    fn now_us(&self) -> i64 {
        self.compared.stand_in.clock.now_us
    }

    fn new_settings(&mut self) {
        let some: Vec<_> = HOSTILE.iter().filter(|_| self.random.once_in(2)).copied().collect();
        self.compared.new_sessions(&some.join(";"));
    }

    /// The time goes on, or the clock is set back.
    fn move_clock(&mut self) {
        let lease_us = self.lease_us;
        let by_us = if !self.story.is_empty() {
            self.between(1, 2 * SECOND_US)
        } else {
            match self.random.below(100) {
                0..3 => 0,
                3..30 => self.between(1, 100_000),
                30..60 => self.between(SECOND_US, 10 * SECOND_US),
                60..85 => self.between(1, lease_us / 2),
                85..94 => self.between(lease_us / 2, lease_us + SECOND_US),
                94..97 => self.between(1, 3600 * SECOND_US),
                97 => self.between(1, 30 * 3600 * SECOND_US),
                _ => -self.between(1, 90 * SECOND_US),
            }
        };
        let step_at_lock_us = match self.random.below(10) {
            0 => self.between(0, 2 * SECOND_US),
            1 if self.random.once_in(2) => -self.between(1, SECOND_US),
            _ => 0,
        };
        let clock = &mut self.compared.stand_in.clock;
        clock.now_us += by_us;
        clock.step_at_lock_us = step_at_lock_us;
    }

    fn step(&mut self, counts: &mut BTreeMap<String, u64>) -> Result<(), Difference> {
        if self.story.is_empty() && self.random.once_in(15) {
            self.begin_story();
        }
        self.move_clock();
        let event = match self.story.pop_front() {
            Some(event) => event,
            None => self.event(),
        };
        let at_s = (self.now_us() - BEGAN_US) as f64 / 1e6;
        self.log.push(format!("{at_s:.6} s: {event:?}"));
        self.execute(event, counts)
    }

    fn event(&mut self) -> Event {
        let holder = self.random.below(HOLDERS as u64) as usize;
        let mut at = self.random.below(1000);
        // In most schedules, administrators and accidents are rare.
        if (800..930).contains(&at) && !self.random.once_in(self.rarity) {
            at = *self.random.one_of(&[400, 100, 100]);
        }
        match at {
            0..330 => Event::Renew { holder },
            330..500 => Event::Acquire { holder, pin: None, is_lost: false },
            500..560 => Event::Repeat,
            560..590 => Event::Copy,
            590..650 => Event::Release { holder },
            650..785 => Event::Take { holder },
            785..800 => Event::TakeAhead { holder },
            800..875 => Event::Administer,
            875..900 => Event::Restart,
            900..922 => Event::SetBack { to_last: false, is_silent: self.random.once_in(2) },
            922..925 => Event::SwitchGuardOff,
            925..928 => Event::NewSettings,
            928..930 => Event::OthersMayTake(self.random.once_in(2)),
            _ => Event::Keep,
        }
    }

    /// Sequences that random steps rarely form.
    fn begin_story(&mut self) {
        let holder = self.random.below(HOLDERS as u64) as usize;
        let other = (holder + 1) % HOLDERS;
        let (first, last) = self.compared.stand_in.tables.settings.workers.unwrap_or_default();
        let worker = first + self.random.below(u64::from(last - first) + 1) as u32;
        let pin = Some(worker);
        let is_silent = !self.random.once_in(4);
        let acquire = |holder| Event::Acquire { holder, pin, is_lost: false };
        let renew = Event::Renew { holder };
        let back = Event::SetBack { to_last: true, is_silent };
        let ready = [Event::EndQuarantine, Event::Unfreeze, Event::ResumeSegments];
        let another = pin.map(|pin| if pin == last { first } else { pin + 1 });
        let at = self.random.below(16);
        let story: Vec<Event> = match at {
            // The rest of a released range is granted, and both are lost, or only the grant.
            0 | 1 => {
                let mut release = [Event::Keep, Event::Release { holder }];
                if self.random.once_in(2) {
                    release.reverse();
                }
                let renew_other = Event::Renew { holder: other };
                let first = if self.random.once_in(2) { renew_other } else { renew };
                let second = if self.random.once_in(2) { Event::Copy } else { renew_other };
                let grant = [acquire(other), renew_other, renew_other, back, first, second, Event::Copy];
                [acquire(holder), renew, renew].into_iter().chain(release).chain(grant).collect()
            }
            // Old copies of a holder that has released its lease.
            2 => {
                let renewals = [renew, renew].into_iter().take(self.random.below(3) as usize);
                let rest = [
                    Event::Release { holder },
                    Event::CopyAcquires,
                    Event::Copy,
                    acquire(other),
                    Event::Copy,
                    Event::Copy,
                ];
                [acquire(holder)].into_iter().chain(renewals).chain(rest).collect()
            }
            // The first answer is lost or late, and the request is repeated after a start.
            3 => [
                Event::Acquire { holder, pin, is_lost: true },
                acquire(holder),
                renew,
                Event::Restart,
                Event::CopyAcquires,
                Event::Repeat,
                Event::Repeat,
                renew,
            ]
            .into(),
            4 => [
                acquire(holder),
                renew,
                Event::Keep,
                Event::Freeze,
                renew,
                Event::Take { holder },
                renew,
                back,
                renew,
                renew,
            ]
            .into(),
            5 => {
                let reserve = Event::Reserve { worker: None };
                [acquire(holder), renew, renew, Event::Keep, reserve, renew, renew, back, renew].into()
            }
            6 => {
                let acquire = |holder| Event::Acquire { holder, pin: None, is_lost: false };
                let reserve = [Event::GiveUpReservations, Event::Reserve { worker: pin }];
                reserve.into_iter().chain((0..HOLDERS).map(acquire)).collect()
            }
            // Both leases are lost, and one of the holders shows the token of the other.
            7 => [
                Event::Keep,
                Event::Acquire { holder: other, pin: another, is_lost: false },
                acquire(holder),
                renew,
                renew,
                back,
                Event::RenewWithTokensOf { holder: other, other: holder },
                renew,
            ]
            .into(),
            // The holder stops after its renewals were lost, and a copy repeats the first request.
            8 => [
                acquire(holder),
                Event::Keep,
                renew,
                renew,
                renew,
                back,
                Event::Release { holder },
                Event::CopyAcquires,
                Event::Copy,
            ]
            .into(),
            9 => [
                acquire(holder),
                renew,
                Event::RequireProtocol,
                Event::ShortLeases,
                Event::Release { holder },
                acquire(other),
            ]
            .into(),
            // Only the first renewal is lost, which no token proves.
            10 => {
                [acquire(holder), Event::Keep, renew, back, Event::CopyAcquiresWithTokens { holder }].into()
            }
            // Only numbers are taken after a start, until the wait is over.
            11 | 12 => {
                let others = [Event::OthersMayTake(self.random.once_in(2))];
                let take = Event::Take { holder };
                let waits = (0..12).flat_map(|_| [Event::WaitShortly, take]);
                let later = [Event::OthersMayTake(true), take];
                others.into_iter().chain([take, take, Event::Restart]).chain(waits).chain(later).collect()
            }
            // The worker ID is reserved for another role after the lease has ended, and the holder renews.
            13 => [
                acquire(holder),
                renew,
                Event::GiveUpReservations,
                Event::Wait,
                Event::Reserve { worker: pin },
                renew,
            ]
            .into(),
            // Without leases, both worker IDs can be reserved for the role.
            14 => [
                Event::Wait,
                Event::ReserveForRole { worker },
                Event::ReserveForRole { worker: another.unwrap_or(worker) },
                Event::AcquireNamed { holder, worker },
                acquire(other),
            ]
            .into(),
            // Numbers are lost.
            _ => [
                Event::Keep,
                Event::Take { holder },
                Event::Take { holder },
                Event::Take { holder },
                back,
                Event::TakeAhead { holder: other },
                Event::Take { holder },
                Event::TakeAhead { holder },
            ]
            .into(),
        };
        self.story.extend(ready);
        // The worker ID of a pin must be reserved.
        if at != 6 {
            let workers = [pin, another].into_iter().flatten();
            self.story.extend(workers.map(|worker| Event::ReserveForRole { worker }));
        }
        if self.random.once_in(2) {
            self.story.push_back(Event::Wait);
        }
        self.story.extend(story);
        if self.random.once_in(2) {
            self.story.push_back(Event::GiveUpReservations);
        }
    }

    fn execute(&mut self, event: Event, counts: &mut BTreeMap<String, u64>) -> Result<(), Difference> {
        match event {
            Event::Acquire { holder, pin, is_lost } => {
                let sent = self.acquire(holder, pin);
                self.send(holder, sent, is_lost, counts)
            }
            Event::AcquireNamed { holder, worker } => {
                let mut sent = self.acquire(holder, None);
                if let Call::Acquire { caller, needs, .. } = &mut sent.call {
                    (caller.by_hand, needs.unwanted) = (vec![worker], vec![worker]);
                }
                self.send(holder, sent, false, counts)
            }
            Event::Renew { holder } => match self.renewal(holder, &self.holders[holder].clone()) {
                Some(sent) => self.send(holder, sent, false, counts),
                None => Ok(()),
            },
            Event::Release { holder } => match self.release(holder, &self.holders[holder].clone()) {
                Some(sent) => self.send(holder, sent, false, counts),
                None => Ok(()),
            },
            Event::RenewWithTokensOf { holder, other } => {
                let mut known = self.holders[holder].clone();
                known.tokens.clone_from(&self.holders[other].tokens);
                match self.renewal(holder, &known) {
                    Some(sent) => self.send(holder, sent, false, counts),
                    None => Ok(()),
                }
            }
            Event::TakeAhead { holder } => {
                let sent = self.take_ahead(holder);
                self.send(holder, sent, false, counts)
            }
            Event::Take { holder } => {
                let sent = self.take(holder);
                self.send(holder, sent, false, counts)
            }
            Event::Repeat if !self.past.is_empty() => {
                let count = self.past.len() as u64;
                let back = if self.random.once_in(3) { count } else { count.min(6) };
                let (holder, sent) = self.past[(count - 1 - self.random.below(back)) as usize].clone();
                let is_refused = matches!(&sent.call, Call::Take { is_local: false, .. });
                if is_refused && !self.compared.stand_in.serves_others {
                    return Ok(());
                }
                self.send(holder, sent, true, counts)
            }
            Event::Copy if !self.older.is_empty() => {
                let count = self.older.len() as u64;
                let copy = self.older[(count - 1 - self.random.below(count.min(5))) as usize].clone();
                let sent = match (self.random.below(6), copy.asking) {
                    (0, _) => self.release(HOLDERS, &copy),
                    (1 | 2, Some(asking)) => Some(self.request_of(HOLDERS, &copy, asking, None)),
                    _ => self.renewal(HOLDERS, &copy),
                };
                match sent {
                    Some(sent) => self.send(0, sent, true, counts),
                    None => Ok(()),
                }
            }
            Event::Administer => {
                let call = self.administration();
                self.administer(call, counts)
            }
            Event::EndQuarantine => self.administer(Administration::EndQuarantine, counts),
            Event::Unfreeze => {
                let name = self.request_name();
                self.administer(Administration::Unfreeze { name }, counts)
            }
            Event::Freeze => {
                let name = self.request_name();
                let until_us = self.now_us() + self.between(0, self.lease_us);
                self.administer(Administration::Freeze { until_us, name }, counts)
            }
            Event::CopyAcquires => {
                match self.older.iter().rev().find(|copy| copy.asking.is_some()).cloned() {
                    Some(copy) => {
                        let asking = copy.asking.expect("found by it");
                        let sent = self.request_of(HOLDERS, &copy, asking, None);
                        self.send(0, sent, true, counts)
                    }
                    None => Ok(()),
                }
            }
            Event::CopyAcquiresWithTokens { holder } => match self.holders[holder].held {
                Some(ids) => {
                    let copy = self.holders[holder].clone();
                    let sent = self.request_of(HOLDERS, &copy, (ids.lease_id, ids.last_nonce), None);
                    self.send(0, sent, true, counts)
                }
                None => Ok(()),
            },
            Event::Wait => {
                let ends = self.compared.stand_in.tables.leases.values().map(|row| row.until_us);
                let latest_us = ends.max().unwrap_or(0);
                let clock = &mut self.compared.stand_in.clock;
                if latest_us - clock.now_us < 2 * 3600 * SECOND_US {
                    clock.now_us = clock.now_us.max(latest_us + 1);
                }
                Ok(())
            }
            Event::WaitShortly => {
                let by_us = self.between(1, 70 * SECOND_US);
                self.compared.stand_in.clock.now_us += by_us;
                Ok(())
            }
            Event::OthersMayTake(is_so) => {
                self.compared.let_others_take(is_so);
                Ok(())
            }
            Event::ResumeSegments => self.administer(Administration::ResumeSegments, counts),
            Event::ShortLeases => {
                let call = Administration::Configure {
                    lease_us: Some(self.lease_us / 4),
                    renew_every_us: Some(self.lease_us / 40),
                    first_worker: None,
                    last_worker: None,
                    last_datacenter: None,
                    synchronous: None,
                    witnesses: None,
                    none_by_hand: false,
                    name: self.request_name(),
                };
                self.administer(call, counts)
            }
            Event::Reserve { worker } => {
                let call = self.reservation(worker);
                self.administer(call, counts)
            }
            Event::ReserveForRole { worker } => {
                let identity = Identity { datacenter: 0, worker };
                let used_by = Some("fleet".into());
                let call = Administration::Reserve { identity, used_by, name: self.request_name() };
                self.administer(call, counts)
            }
            Event::GiveUpReservations => {
                let leases = &self.compared.stand_in.tables.leases;
                let reserved = leases.iter().filter(|(_, row)| row.reserved_for.is_some());
                let reserved: Vec<_> = reserved.map(|(identity, _)| *identity).collect();
                for identity in reserved {
                    self.administer(Administration::GiveUpReservation(identity), counts)?;
                }
                Ok(())
            }
            Event::RequireProtocol => {
                let lowest = 1 + self.random.below(3) as u32;
                self.administer(Administration::RequireProtocol { lowest }, counts)
            }
            Event::Keep => {
                self.compared.keep();
                Ok(())
            }
            Event::Restart => {
                self.compared.restart();
                count(counts, "restart");
                Ok(())
            }
            Event::SetBack { to_last, is_silent } if !self.compared.snapshots.is_empty() => {
                let last = self.compared.snapshots.len() - 1;
                let at = if to_last { last } else { self.random.below(last as u64 + 1) as usize };
                let is_dump = !to_last && self.random.once_in(10);
                self.compared.set_back(at, is_dump);
                if !is_dump || self.random.once_in(2) {
                    self.compared.restart();
                }
                if !is_silent {
                    self.compared.stand_in.place.timeline += 1;
                }
                count(counts, if is_silent { "set back silently" } else { "set back, and promoted" });
                Ok(())
            }
            Event::SwitchGuardOff => {
                self.compared.switch_guard_off();
                count(counts, "guard off");
                Ok(())
            }
            Event::NewSettings => {
                self.new_settings();
                Ok(())
            }
            Event::Repeat | Event::Copy | Event::SetBack { .. } => Ok(()),
        }
    }

    // Calls -----------------------------------------------------------------------------------------------

    /// What each request contains. Returns it with the tokens as texts.
    fn caller(&mut self, holder: usize, shown: &[Shown]) -> (Caller, Vec<String>) {
        let mut shown = shown.to_vec();
        if self.story.is_empty() {
            if self.random.once_in(12) {
                shown.clear();
            } else if self.random.once_in(25) && !self.all_tokens.is_empty() {
                shown = (0..3).map(|_| self.random.one_of(&self.all_tokens).clone()).collect();
            }
        }
        let registry_id = match self.random.below(60) {
            0 if self.story.is_empty() => Some(Uuid::from_u128(7)),
            1..10 => None,
            _ => Some(self.registry_id),
        };
        let protocol = if self.random.once_in(100) {
            5 * self.random.below(2) as u32
        } else {
            1 + self.random.below(3) as u32
        };
        let off_us = match self.random.below(40) {
            0 if self.story.is_empty() => self.between(-100 * SECOND_US, 100 * SECOND_US),
            1 => 60 * SECOND_US,
            _ => self.between(-1000, 1000),
        };
        let caller = Caller {
            protocol,
            registry_id,
            tokens: shown.iter().map(|shown| shown.token.clone()).collect(),
            node_name: (!self.random.once_in(20)).then(|| format!("S{holder}")),
            role: "fleet".into(),
            by_hand: if self.story.is_empty() && self.random.once_in(6) {
                (0..1 + self.random.below(3)).map(|_| self.random.below(7) as u32).collect()
            } else {
                vec![]
            },
            clock_us: self.now_us() + off_us,
            round_trip_us: if self.random.once_in(10) { self.between(-10, 70 * SECOND_US) } else { 0 },
        };
        let mut texts: Vec<_> = shown.into_iter().map(|shown| shown.text).collect();
        // A token without a valid signature counts for nothing.
        if let Some(text) = texts.first().filter(|_| self.random.once_in(30)) {
            texts.push(text.replacen(':', ":1", 2));
        }
        (caller, texts)
    }

    fn acquire(&mut self, holder: usize, pin: Option<u32>) -> Sent {
        let fresh = (self.uuid(), self.uuid());
        let asking = *self.holders[holder].asking.get_or_insert(fresh);
        self.request_of(holder, &self.holders[holder].clone(), asking, pin)
    }

    /// A request for an identity, which may be a repetition.
    fn request_of(&mut self, at: usize, holder: &Holder, asking: (Uuid, Uuid), pin: Option<u32>) -> Sent {
        let (lease_id, nonce) = asking;
        let unwanted =
            if pin.is_none() && self.random.once_in(6) { vec![self.random.below(5) as u32] } else { vec![] };
        let needs = Needs {
            datacenter: if pin.is_none() && self.random.once_in(10) { 1 } else { 0 },
            pin: pin.or_else(|| self.random.once_in(12).then(|| self.random.below(6) as u32)),
            worker_limit: if self.random.once_in(12) { self.random.below(3) as u32 } else { 1024 },
            unwanted,
        };
        let (caller, texts) = self.caller(at, &holder.tokens);
        Sent {
            call: Call::Acquire { caller, lease_id, nonce, needs },
            texts,
            transaction: Transaction::OfItsOwn,
        }
    }

    fn renewal(&mut self, at: usize, holder: &Holder) -> Option<Sent> {
        let ids = holder.held?;
        let (mut caller, texts) = self.caller(at, &holder.tokens);
        let leases = self.compared.stand_in.tables.leases.iter();
        let spares = leases.filter(|(_, row)| row.is_reserved && row.reserved_for.is_none());
        let spares: Vec<u32> = spares.map(|(identity, _)| identity.worker).collect();
        if !spares.is_empty() && self.random.once_in(2) {
            caller.by_hand.push(*self.random.one_of(&spares));
        }
        Some(Sent { call: Call::Renew { caller, ids }, texts, transaction: Transaction::OfItsOwn })
    }

    fn release(&mut self, at: usize, holder: &Holder) -> Option<Sent> {
        let ids = holder.held?;
        let now_us = self.now_us();
        let used_until_us = match self.random.below(6) {
            0 => Some(0),
            1 => Some(i64::MAX),
            2 => None,
            3 => Some(now_us + self.between(-10 * SECOND_US, 100 * SECOND_US)),
            _ => Some(now_us),
        };
        let (caller, texts) = self.caller(at, &holder.tokens);
        Some(Sent {
            call: Call::Release { caller, ids, used_until_us },
            texts,
            transaction: Transaction::OfItsOwn,
        })
    }

    fn take(&mut self, holder: usize) -> Sent {
        let is_local = !self.compared.stand_in.serves_others || self.random.once_in(8);
        let count = if self.random.once_in(20) { 0 } else { 1 + self.random.below(2) };
        let requests: Vec<_> = (0..count).map(|_| self.request(holder)).collect();
        let known = &self.holders[holder].numbers;
        let shown: Vec<_> = requests.iter().filter_map(|request| known.get(&request.name)).cloned().collect();
        let (caller, texts) = self.caller(holder, &shown);
        Sent { call: Call::Take { caller, is_local, requests }, texts, transaction: Transaction::OfItsOwn }
    }

    fn take_ahead(&mut self, holder: usize) -> Sent {
        let is_local = !self.compared.stand_in.serves_others || self.random.once_in(2);
        let name = *self.random.one_of(&SEGMENTS);
        let segment = self.compared.stand_in.tables.segments.get(name);
        let next = segment.map_or(0, |segment| segment.end() as i64);
        let request = Request {
            name: name.into(),
            had_until: Some(next + self.between(0, 10)),
            registry_id: self.random.once_in(3).then(|| Some(Uuid::from_u128(8))),
            is_report: self.random.once_in(2),
            ..Request::default()
        };
        let (caller, texts) = self.caller(holder, &[]);
        let call = Call::Take { caller, is_local, requests: vec![request] };
        Sent { call, texts, transaction: Transaction::OfItsOwn }
    }

    fn request(&mut self, holder: usize) -> Request {
        let name = if self.random.once_in(25) { "x" } else { *self.random.one_of(&SEGMENTS) };
        let segment = self.compared.stand_in.tables.segments.get(name);
        let (next, key) = segment.map_or((0, None), |segment| (segment.end(), segment.period_key));
        let had_until = match self.random.below(20) {
            0 => Some(next as i64 + self.between(-3, 3)),
            1 => Some(next as i64 + self.between(0, 1_000_000)),
            2 => Some(self.random.below(1 << 62) as i64),
            3..12 => self.holders[holder].had_until.get(name).copied(),
            _ => None,
        };
        let registry_id = match self.random.below(12) {
            0 => Some(None),
            1 => Some(Some(self.registry_id)),
            2 => Some(Some(Uuid::from_u128(8))),
            _ => None,
        };
        Request {
            name: name.into(),
            had_until: had_until.map(|number| number.max(0)),
            registry_id,
            lasted_s: self.random.once_in(4).then(|| self.between(0, 3600)),
            count: self.random.once_in(6).then(|| self.between(0, 3000)),
            period_key: key.filter(|_| self.random.once_in(4)).map(|key| key + self.between(-1, 1)),
            is_next: self.random.once_in(4),
            is_report: self.random.once_in(4),
        }
    }

    fn send(
        &mut self,
        holder: usize,
        mut sent: Sent,
        is_lost: bool,
        counts: &mut BTreeMap<String, u64>,
    ) -> Result<(), Difference> {
        if self.story.is_empty() {
            sent.transaction = match self.random.below(40) {
                0 => Transaction::HasWritten,
                1 => Transaction::RolledBack,
                _ => Transaction::OfItsOwn,
            };
        }
        // Only committed answers count.
        let is_lost = is_lost || sent.transaction == Transaction::RolledBack;
        let last = self.log.len() - 1;
        let call = format!("{:?} {:?}", sent.transaction, sent.call);
        self.log[last] += &format!(" {}", call.replace("RequestName", "").replace("Some", ""));
        self.past.push((holder, sent.clone()));
        let agreed = self.compared.call(&sent)?;
        self.log[last] += &format!("\n    {:?}", agreed.answer);
        count(counts, &outcome(&sent.call, &agreed.answer));
        let is_lost = is_lost || self.story.is_empty() && self.random.once_in(10);
        if self.random.once_in(5) || !self.story.is_empty() {
            self.older.push(self.holders[holder].clone());
        }
        self.learn(holder, &sent.call, agreed, is_lost);
        Ok(())
    }

    /// The holder reads an answer, unless it was lost.
    fn learn(&mut self, holder: usize, call: &Call, agreed: Agreed, is_lost: bool) {
        let next_nonce = self.uuid();
        let gives_up = self.random.once_in(2);
        let known = &mut self.holders[holder];
        match (call, agreed.answer) {
            (Call::Take { .. }, Answer::Taken(rows)) => {
                for (row, text) in rows.into_iter().zip(agreed.texts) {
                    let Some(name) = row.name else { continue };
                    if let (Some(token), Some(text)) = (row.token, text) {
                        self.all_tokens.push(Shown { token: token.clone(), text: text.clone() });
                        if !is_lost {
                            known.numbers.insert(name.clone(), Shown { token, text });
                        }
                    }
                    if let Some((first, count)) =
                        row.range.filter(|_| row.outcome == TakeOutcome::Granted && !is_lost)
                    {
                        let increment = row.shape.map_or(1, |(increment, ..)| increment);
                        known.had_until.insert(name, first + (count - 1) * increment);
                    }
                }
            }
            (call, Answer::Lease(answer)) => {
                let text = agreed.texts.into_iter().flatten().next();
                let shown = answer.token.zip(text).map(|(token, text)| Shown { token, text });
                self.all_tokens.extend(shown.clone());
                if is_lost {
                    return;
                }
                if let Some(shown) = shown.filter(|shown| matches!(shown.token, Token::Lease { .. })) {
                    known.tokens.push(shown);
                    if known.tokens.len() > 6 {
                        known.tokens.remove(0);
                    }
                }
                match (call, answer.outcome) {
                    (Call::Acquire { lease_id, nonce, .. }, Outcome::Granted) => {
                        let ids = Identification { lease_id: *lease_id, last_nonce: *nonce, next_nonce };
                        known.held = Some(ids);
                        known.asking = None;
                    }
                    (Call::Acquire { .. }, Outcome::Twin) => known.asking = None,
                    (Call::Renew { ids, .. }, Outcome::Granted) => {
                        known.held = Some(Identification { last_nonce: ids.next_nonce, next_nonce, ..*ids });
                    }
                    (Call::Renew { .. }, Outcome::Unknown) if gives_up => known.held = None,
                    (Call::Renew { .. }, Outcome::Twin) | (Call::Release { .. }, Outcome::Released) => {
                        known.held = None;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    // Administrators --------------------------------------------------------------------------------------

    fn administer(
        &mut self,
        call: Administration,
        counts: &mut BTreeMap<String, u64>,
    ) -> Result<(), Difference> {
        self.log.push(format!("    {call:?}"));
        let sent = Sent { call: Call::Administer(call), texts: vec![], transaction: Transaction::OfItsOwn };
        let agreed = self.compared.call(&sent)?;
        let last = self.log.len() - 1;
        self.log[last] += &format!("\n    {:?}", agreed.answer);
        count(counts, &outcome(&sent.call, &agreed.answer));
        self.lease_us = self.compared.stand_in.tables.settings.lease_us;
        Ok(())
    }

    fn request_name(&mut self) -> RequestName {
        RequestName(self.random.below(u32::MAX.into()) as u32)
    }

    fn reservation(&mut self, worker: Option<u32>) -> Administration {
        let identity = Identity {
            datacenter: if worker.is_none() { self.random.below(8) as u32 / 7 } else { 0 },
            worker: worker.unwrap_or_else(|| self.random.below(6) as u32),
        };
        let used_by = match self.random.below(4) {
            0 if worker.is_none() => Some("fleet".into()),
            0 | 1 => Some("other".into()),
            _ => None,
        };
        Administration::Reserve { identity, used_by, name: self.request_name() }
    }

    fn start(&mut self) -> Administration {
        let is_given = !self.random.once_in(6);
        Administration::StartFleet {
            first_worker: is_given.then_some(0),
            last_worker: is_given.then(|| 1 + self.random.below(3) as u32),
            not_before_us: self
                .random
                .once_in(4)
                .then(|| self.now_us() + self.between(-SECOND_US, 60 * SECOND_US)),
            first_start: !self.random.once_in(4),
            name: self.request_name(),
        }
    }

    fn configuration(&mut self) -> Administration {
        let lease_us = *self.random.one_of(&LEASES_S) * SECOND_US;
        let first_worker = u32::from(self.random.once_in(6));
        Administration::Configure {
            lease_us: Some(lease_us),
            renew_every_us: Some(lease_us / *self.random.one_of(&[2, 10, 10, 60])),
            first_worker: Some(first_worker),
            last_worker: Some(first_worker + self.random.below(4) as u32),
            last_datacenter: self.random.once_in(2).then(|| self.random.below(2) as u32),
            synchronous: Some(self.random.once_in(4)),
            witnesses: Some(self.random.once_in(2)),
            none_by_hand: self.random.once_in(2),
            name: self.request_name(),
        }
    }

    fn creation(&mut self, name: &str) -> Administration {
        let period = (name == "p" || self.random.once_in(12)).then(|| Period {
            unit: *self.random.one_of(&[Unit::Day, Unit::Day, Unit::Month, Unit::Year]),
            digits: self.random.one_of(&[3, 4, 6]).to_owned(),
        });
        let min_step = *self.random.one_of(&[1, 10, 1000]);
        let is_short = self.random.once_in(6);
        let shape = SegmentShape {
            start: self.between(0, 20),
            increment: self.between(1, 3),
            min_step,
            max_step: min_step * self.between(1, 50),
            max_value: if is_short { self.between(1000, 30_000) } else { i64::MAX },
            period,
        };
        Administration::CreateSegment { name: name.into(), shape }
    }

    fn administration(&mut self) -> Administration {
        let name = self.random.one_of(&SEGMENTS).to_string();
        let tables = &self.compared.stand_in.tables;
        let end = tables.segments.get(&name).map_or(0, |segment| segment.end() as i64);
        let is_frozen = tables.settings.frozen_until_us.is_some();
        let ends: Vec<_> = tables.leases.values().map(|row| row.until_us).collect();
        let now_us = self.now_us();
        match self.random.below(100) {
            0..15 => {
                let held: Vec<_> = tables.leases.keys().copied().collect();
                let none = Identity { datacenter: 0, worker: 9 };
                let identity = if held.is_empty() { none } else { *self.random.one_of(&held) };
                Administration::RevokeLease(identity)
            }
            15..27 if is_frozen => Administration::Unfreeze { name: self.request_name() },
            15..27 => {
                let latest_us = ends.into_iter().max().unwrap_or(now_us);
                let until_us = match self.random.below(4) {
                    0 => FOREVER,
                    1 => now_us + self.between(-SECOND_US, self.lease_us),
                    _ => latest_us.max(now_us),
                };
                Administration::Freeze { until_us, name: self.request_name() }
            }
            27..37 => Administration::Quarantine,
            37..52 => Administration::EndQuarantine,
            52..60 => self.configuration(),
            60..66 => self.reservation(None),
            66..75 => Administration::ResumeSegments,
            75..85 => Administration::ResumeSegment { name, next_value: end + self.between(-2, 5000) },
            85..89 => Administration::AlterSegment {
                name,
                min_step: self.random.once_in(2).then(|| self.between(0, 1000)),
                max_step: self.random.once_in(2).then(|| self.between(1, 5000)),
                max_value: self.random.once_in(3).then(|| end + self.between(-5, 100_000)),
                next_value: self.random.once_in(2).then(|| end + self.between(-2, 5000)),
            },
            89..92 => Administration::DropSegment { name },
            92..95 => self.creation(&name),
            95 => Administration::RequireProtocol { lowest: self.random.below(5) as u32 },
            96 => self.start(),
            97 => Administration::EndFleet,
            98 if self.random.once_in(2) => Administration::RevokeSegment { name },
            98 => Administration::GrantSegment { name },
            _ => Administration::GrantAllSegments,
        }
    }
}

fn count(counts: &mut BTreeMap<String, u64>, what: &str) {
    *counts.entry(what.into()).or_default() += 1;
}

fn outcome(call: &Call, answer: &Answer) -> String {
    let debug = format!("{call:?}");
    let name = match call {
        Call::Administer(_) => debug.trim_start_matches("Administer("),
        _ => &debug,
    };
    let name: String = name.chars().take_while(|character| character.is_alphanumeric()).collect();
    let result = match answer {
        Answer::Lease(answer) => answer.outcome.name(),
        Answer::Taken(rows) => rows.first().map_or("", |row| row.outcome.name()),
        Answer::Done(_) => "done",
        Answer::Failed(fault) => fault.sqlstate(),
    };
    format!("{name} {result}")
}
