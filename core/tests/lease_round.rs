//! The conversation about leases, with a driver that fails, stops, repeats and dies at any step, and with a registry that
//! answers anything. The driver knows what was used.

use std::collections::{BTreeMap, BTreeSet};

use snowflake_id_core::lease_answer::{Answer, Registry};
use snowflake_id_core::lease_call::Ids;
use snowflake_id_core::lease_round::{Effect, Event, LeaseRound, Now, Request};
use snowflake_id_core::lease_state::{LeaseState, Needs, Outcome};
use snowflake_id_core::protocol::Mismatch;
use snowflake_id_core::{Identity, Lease};
use uuid::Uuid;

use crate::random_runs::{Counts, Random, count_all};

const RUNS: u64 = 20_000;
const LEASE_US: i64 = 600_000_000;

type Range = (Identity, i64);

fn range_of(lease: &Lease) -> Range {
    (lease.identity, lease.from_us)
}

/// A process, what survives it, and what the registry has granted.
struct Driver {
    random: Random,
    now_us: i64,
    releases: bool,
    /// The file. It may be newer than `kept`.
    file: LeaseState,
    /// The state of the last `Keep` that was answered with `Kept`, or the file at the start.
    kept: LeaseState,
    published: Option<Lease>,
    /// The end of what this process has used.
    used: BTreeMap<Range, i64>,
    /// The end of what any process has used.
    used_by_all: BTreeMap<Range, i64>,
    /// What an earlier process had, with its end.
    inherited: Option<Lease>,
    granted: BTreeMap<Uuid, Lease>,
    /// The latest end that the registry has granted for a range.
    ends: BTreeMap<Range, i64>,
    /// The registry never knows what is released.
    knows_no_release: bool,
    signed: BTreeSet<Range>,
    released: BTreeSet<Uuid>,
    /// Another holder has the lease, which is still available.
    is_twin: bool,
    is_stopping: bool,
    counts: Counts,
}

impl Driver {
    fn new(seed: u64) -> Driver {
        let mut random = Random(seed);
        Driver {
            now_us: 1_790_000_000_000_000,
            releases: random.one_in(2),
            knows_no_release: random.one_in(4),
            random,
            file: LeaseState::default(),
            kept: LeaseState::default(),
            published: None,
            used: BTreeMap::new(),
            used_by_all: BTreeMap::new(),
            inherited: None,
            granted: BTreeMap::new(),
            ends: BTreeMap::new(),
            signed: BTreeSet::new(),
            released: BTreeSet::new(),
            is_twin: false,
            is_stopping: false,
            counts: Counts::new(),
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// A new process reads the file.
    fn start(&mut self) -> LeaseRound {
        self.kept = self.file.clone();
        self.inherited = self.file.held.as_ref().map(|held| held.lease);
        (self.published, self.is_twin, self.is_stopping) = (None, false, false);
        self.used.clear();
        LeaseRound::new(self.file.clone(), self.releases)
    }

    /// Calls use the lease that is available.
    fn use_lease(&mut self) {
        let Some(lease) = self.published.filter(|_| self.random.one_in(2)) else { return };
        let until_us = (lease.from_us + 1 + self.random.below(700_000_000) as i64).min(lease.until_us);
        for used in [&mut self.used, &mut self.used_by_all] {
            let used_us = used.entry(range_of(&lease)).or_insert(lease.from_us);
            *used_us = until_us.max(*used_us);
        }
    }

    fn may_publish(&mut self, lease: &Lease) {
        let held = self.kept.held.as_ref().expect("a lease is published that is not kept");
        assert_eq!(held.lease, *lease, "a lease is published that is not kept");
        assert!(
            self.kept.is_proved() && self.signed.contains(&range_of(lease)),
            "a lease is published without a token"
        );
        assert!(!self.released.contains(&held.lease_id), "a lease is published that was released");
        assert!(!self.is_twin && !self.is_stopping, "a lease is published that must not be used");
        self.count("published");
    }

    /// Ends the use of the lease that is available. The driver may fail to note what was used.
    fn fence(&mut self, round: &mut LeaseRound) {
        let Some(lease) = self.published.take() else { return };
        if !self.random.one_in(10) {
            let used_us = self.used.get(&range_of(&lease)).copied().unwrap_or(lease.from_us);
            round.note_used(&lease, used_us);
        }
    }

    fn check_request(&mut self, request: &Request) {
        match request {
            Request::Acquire(asking, _) => {
                assert_eq!(
                    self.kept.asking.as_ref(),
                    Some(asking),
                    "a lease is requested with IDs that are not kept"
                );
                assert!(!self.is_stopping && !self.is_twin, "a lease is requested too early");
            }
            Request::Renew(ids) => {
                assert!(!self.is_twin, "a lease is renewed that another holder has");
                let held = self.kept.held.as_ref().map(Ids::from);
                assert!(held == Some(*ids) || self.releases, "a lease is renewed that is not kept");
            }
            Request::Release { ids, used_until_us } => {
                assert!(self.releases, "a server releases a lease");
                self.released.insert(ids.lease_id);
                let is_kept = |state: &LeaseState| {
                    let held = state.held.as_ref().map(|held| held.lease_id);
                    let asking = state.asking.as_ref().map(|asking| asking.lease_id);
                    [held, asking].contains(&Some(ids.lease_id))
                };
                assert!(!is_kept(&self.file), "a lease is released that is still kept");
                let Some(lease) = self.granted.get(&ids.lease_id).copied() else {
                    self.count("released a request");
                    return;
                };
                assert!(
                    self.published.is_none_or(|published| !published.is_same_range(&lease)),
                    "a lease is released that is available"
                );
                if let Some(&used_us) = self.used_by_all.get(&range_of(&lease)) {
                    assert!(*used_until_us >= used_us, "a lease is released that was used for longer");
                    self.count("released a used lease");
                }
                if let Some(inherited) = self.inherited.filter(|known| known.is_same_range(&lease)) {
                    assert!(*used_until_us >= inherited.until_us, "an inherited lease is released as unused");
                    self.count("released an inherited lease");
                }
            }
        }
    }

    /// A grant that does not answer the request: of another identity, which may not fit, or of a time that has not come.
    fn wrong_grant(&mut self) -> Lease {
        let identity = Identity { datacenter: 0, worker: self.random.below(16) as u32 };
        let from_us = self.now_us + if self.random.one_in(2) { 100_000_000 } else { -7 };
        Lease { identity, from_us, until_us: self.now_us + 2 * LEASE_US }
    }

    fn answer(&mut self, request: &Request) -> Event {
        let outcome = match (self.random.below(30), request) {
            (_, Request::Release { .. }) if self.knows_no_release => Outcome::Unknown,
            (0 | 1, _) => Outcome::Unknown,
            (2 | 3, _) => Outcome::Twin,
            (4, _) => Outcome::Taken { free_from_us: 0 },
            (5, _) => Outcome::Mismatch(Mismatch::RegistryTooOld),
            (6, _) => Outcome::NotStarted,
            (7, _) => Outcome::Quarantine,
            (8, _) => Outcome::ClockDiffers,
            (9, _) => Outcome::Foreign,
            (10, _) => Outcome::Released,
            (11 | 12, Request::Renew(_)) => Outcome::Granted(self.wrong_grant()),
            (11 | 12, Request::Acquire(asking, needs)) => {
                let lease = self.wrong_grant();
                let is_right = needs.are_met_by(lease.identity) && lease.from_us < self.now_us;
                if is_right {
                    let lease = *self.granted.entry(asking.lease_id).or_insert(lease);
                    self.note_end(&lease);
                    Outcome::Granted(lease)
                } else {
                    Outcome::Granted(lease)
                }
            }
            (_, request) => match request {
                Request::Acquire(asking, _) => {
                    let identity = Identity { datacenter: 0, worker: self.random.below(8) as u32 };
                    let (from_us, until_us) = (self.now_us - 1, self.now_us + LEASE_US);
                    // A repeated request is answered with the same range.
                    let granted = self.granted.entry(asking.lease_id);
                    let lease = *granted.or_insert(Lease { identity, from_us, until_us });
                    self.note_end(&lease);
                    Outcome::Granted(lease)
                }
                Request::Renew(ids) => match self.granted.get(&ids.lease_id) {
                    Some(lease) if !self.released.contains(&ids.lease_id) => {
                        let lease = Lease { until_us: self.now_us + LEASE_US, ..*lease };
                        self.signed.insert(range_of(&lease));
                        self.note_end(&lease);
                        Outcome::Granted(lease)
                    }
                    _ => Outcome::Twin,
                },
                Request::Release { .. } => Outcome::Released,
            },
        };
        let is_signed = matches!((request, &outcome), (Request::Renew(_), Outcome::Granted(_)));
        let token = (is_signed && !self.random.one_in(10)).then(|| "token".into());
        let registry = Registry { id: Uuid::from_u128(1), lease_us: LEASE_US, renew_every_us: LEASE_US / 10 };
        let (protocols, registry) = (Some(1..=1), Some(registry));
        let answer =
            Answer { outcome, protocols, registry_clock_us: self.now_us, registry, detail: None, token };
        Event::Answered { answer, sent_us: self.now_us, round_trip_us: 0 }
    }

    fn note_end(&mut self, lease: &Lease) {
        let end_us = self.ends.entry(range_of(lease)).or_insert(lease.until_us);
        *end_us = lease.until_us.max(*end_us);
    }

    /// A state contains only a lease that fits, that has begun, and that was granted to its end.
    fn check_state(&self, state: &LeaseState, needs: &Needs) {
        let Some(held) = &state.held else { return };
        let known = self.ends.get(&range_of(&held.lease)).copied();
        assert!(known >= Some(held.lease.until_us), "a lease is kept that was not granted: {held:?}");
        let is_new = self.kept.held.as_ref().is_none_or(|kept| kept.lease_id != held.lease_id);
        assert!(!is_new || needs.are_met_by(held.lease.identity), "a lease is kept that does not fit");
    }

    /// Notes what the machine is told: that a state is kept, or that another holder has the lease in hand.
    fn note_told(&mut self, effect: &Effect, event: &Event) {
        if let (Effect::Keep(state), Event::Kept) = (effect, event) {
            self.kept = (**state).clone();
        }
        let held = self.kept.held.as_ref().map(|held| Effect::Send(Request::Renew(held.into())));
        if let Event::Answered { answer, .. } = event
            && answer.outcome == Outcome::Twin
            && held.as_ref() == Some(effect)
        {
            self.is_twin = true;
            self.count("twin");
        }
    }

    /// Carries out an effect.
    fn carry_out(&mut self, round: &mut LeaseRound, effect: &Effect, needs: &Needs) -> Event {
        let failed = || Event::Failed("no reply".into());
        match effect {
            Effect::Connect if self.random.one_in(6) => failed(),
            Effect::Connect => Event::Connected,
            Effect::Keep(state) => {
                assert!(!self.is_twin, "the state is kept before the lease is withdrawn");
                self.check_state(state, needs);
                let fate = self.random.below(8);
                if fate > 0 {
                    self.file = (**state).clone();
                }
                if fate < 2 {
                    return Event::NotKept("disk full".into());
                }
                Event::Kept
            }
            Effect::Send(request) => {
                self.check_request(request);
                let answer = self.answer(request);
                match self.random.one_in(10) {
                    true => failed(),
                    false => answer,
                }
            }
            Effect::Publish(lease) => {
                self.may_publish(lease);
                if self.published.is_some_and(|published| !published.is_same_range(lease)) {
                    self.fence(round);
                    self.count("exchanged");
                }
                if self.random.one_in(15) {
                    self.fence(round);
                    return Event::Failed("does not fit the layout".into());
                }
                self.published = Some(*lease);
                Event::Published { wants_another: self.random.one_in(6) }
            }
            Effect::Withdraw => {
                self.is_twin = false;
                self.fence(round);
                Event::Withdrawn
            }
            Effect::Rest(_) | Effect::End => unreachable!("these have no event"),
        }
    }

    /// Nothing follows the end.
    fn check_end(&mut self, round: &mut LeaseRound, needs: Needs) {
        self.count("ended");
        assert_eq!(self.published, None);
        let random = &mut || -> Uuid { unreachable!("the end is not random") };
        let now = &mut Now { us: self.now_us, random };
        assert_eq!(round.begin(needs), Effect::End);
        assert_eq!((round.give_up(), round.stop()), (Effect::End, Effect::End));
        assert_eq!((round.step(Event::Kept, now), round.go_on(self.now_us)), (Effect::End, None));
    }

    fn run(&mut self) {
        let mut round = self.start();
        for _ in 0..30 {
            let unwanted = if self.random.one_in(6) { vec![self.random.below(8) as u32] } else { vec![] };
            let needs = Needs { worker_limit: 8, unwanted, ..Needs::default() };
            let mut effect = match self.random.one_in(25) {
                true => round.give_up(),
                false => round.begin(needs.clone()),
            };
            let mut requests = 0;
            for turn in 0.. {
                assert!(turn < 60, "the round does not end");
                requests += usize::from(matches!(effect, Effect::Send(Request::Acquire(..))));
                assert!(requests < 2, "a round requests two leases");
                self.now_us += self.random.below(3_000_000) as i64;
                self.use_lease();
                if self.random.one_in(10)
                    && let Some(lease) = round.go_on(self.now_us)
                {
                    self.may_publish(&lease);
                    assert_eq!(self.published, None, "two leases are available");
                    self.published = Some(lease);
                    self.count("gone on");
                }
                match &effect {
                    Effect::Rest(rest) => {
                        assert!(!self.is_stopping && !self.is_twin, "rests too early");
                        assert!(!format!("{:?}", rest.result).contains("bug"), "{rest:?}");
                        if !self.random.one_in(20) {
                            break;
                        }
                    }
                    Effect::End => {
                        self.check_end(&mut round, needs);
                        round = self.start();
                        break;
                    }
                    _ => {}
                }
                // An effect that is cut off may have been carried out.
                let (stops, dies) = (!self.is_stopping && self.random.one_in(40), self.random.one_in(80));
                let is_resting = matches!(effect, Effect::Rest(_));
                // A request and a write may be repeated. A lease is published once.
                let repeats = self.random.one_in(20) && !matches!(effect, Effect::Publish(_));
                if (stops || dies || repeats) && !is_resting && self.random.one_in(2) {
                    self.carry_out(&mut round, &effect, &needs);
                }
                if dies {
                    round = self.start();
                    self.count("died");
                    break;
                }
                if stops || is_resting {
                    (self.is_stopping, self.is_twin) = (true, false);
                    effect = round.stop();
                    continue;
                }
                let event = self.carry_out(&mut round, &effect, &needs);
                self.note_told(&effect, &event);
                let random = &mut || self.random.uuid();
                effect = round.step(event, &mut Now { us: self.now_us, random });
            }
        }
    }
}

#[test]
fn a_driver_that_does_anything() {
    count_all(RUNS, 9, |seed| {
        let mut driver = Driver::new(seed);
        driver.run();
        driver.counts
    });
}
