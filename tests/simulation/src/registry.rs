//! The registry, which is SQL in the product. Its rules are in the crate `snowflake-id-stand-in`, which a test compares
//! with the SQL. This module adds calls in transit, earlier states, and the events in words.

use snowflake_id_core::lease_state::{Needs, Outcome};
use snowflake_id_core::number_call::Request;
use snowflake_id_core::protocol::Mismatch;
use snowflake_id_core::reply::Reply;
use snowflake_id_core::segment_answer;
use snowflake_id_core::{Identity, Lease};
use snowflake_id_stand_in as stand_in;
use snowflake_id_stand_in::{
    Administration, Caller, Identification, LeaseAnswer, Place, RequestName, SegmentShape, StandIn, Tables,
    Token,
};
use uuid::Uuid;

use crate::context::{Context, duration};
use crate::random::Random;
use crate::server::instant;

const STEP: i64 = 1000;

pub struct Registry {
    stand_in: StandIn,
    /// Earlier committed states.
    older: Vec<Tables>,
    pub offset_us: i64,
    pub is_down: bool,
    /// Tokens that the registry has signed. Servers store their indexes.
    tokens: Vec<Token>,
    /// Servers that know of a loss by a silent set-back. They are heard before the wait ends.
    unheard: Vec<(usize, Kind)>,
    /// Calls that were given up, and are still in transit.
    pub strays: Vec<Call>,
    requests: u32,
}

#[derive(Clone, Debug)]
pub struct Call {
    pub server: usize,
    pub registry_id: Option<Uuid>,
    pub clock_us: i64,
    pub tokens: Vec<usize>,
    pub ask: Ask,
}

/// The facts that a call reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Lease,
    Numbers(usize),
}

#[derive(Clone, Debug)]
pub enum Ask {
    Acquire { lease_id: Uuid, nonce: Uuid, needs: Needs },
    Renew { lease_id: Uuid, last: Uuid, next: Uuid },
    Take(Vec<Request>),
}

#[derive(Debug)]
pub struct Answer {
    pub registry_id: Uuid,
    pub outcome: Outcome,
    pub token: Option<usize>,
    /// The result of `take()`.
    pub taken: Option<segment_answer::Answer>,
    pub clock_us: i64,
}

impl Registry {
    pub fn new(
        id: Uuid,
        lease_us: i64,
        workers: u32,
        witnesses: bool,
        segments: usize,
        now_us: i64,
    ) -> Registry {
        let mut registry = Registry {
            stand_in: StandIn::new(id, Place { timeline: 1, started_us: 1 }),
            older: vec![],
            offset_us: 0,
            is_down: false,
            tokens: vec![],
            unheard: vec![],
            strays: vec![],
            requests: 0,
        };
        registry.stand_in.clock.now_us = now_us;
        let configuration = Administration::Configure {
            lease_us: Some(lease_us),
            renew_every_us: Some(lease_us / 10),
            first_worker: None,
            last_worker: None,
            last_datacenter: None,
            synchronous: None,
            witnesses: Some(witnesses),
            none_by_hand: false,
            name: RequestName(u32::MAX),
        };
        let segments = (0..segments).map(|at| Administration::CreateSegment {
            name: name(at),
            shape: SegmentShape {
                start: 1,
                increment: 1,
                min_step: STEP,
                max_step: STEP,
                max_value: i64::MAX,
                period: None,
            },
        });
        let start = Administration::StartFleet {
            first_worker: Some(0),
            last_worker: Some(workers - 1),
            not_before_us: None,
            first_start: true,
            name: RequestName(u32::MAX - 1),
        };
        for call in [start, configuration].into_iter().chain(segments) {
            registry.administer(call);
        }
        registry
    }

    pub fn lease_us(&self) -> i64 {
        self.stand_in.tables.settings.lease_us
    }

    pub fn renew_every_us(&self) -> i64 {
        self.stand_in.call_every_us()
    }

    fn administer(&mut self, call: Administration) -> bool {
        matches!(self.stand_in.apply(&stand_in::Call::Administer(call)), stand_in::Answer::Done(_))
    }

    /// Executes a call of an administrator.
    fn administer_now(&mut self, cx: &Context, call: Administration) -> bool {
        self.read_clock(cx);
        self.administer(call)
    }

    fn read_clock(&mut self, cx: &Context) {
        self.stand_in.clock.now_us = cx.now_us + self.offset_us;
    }

    /// Executes a call and commits.
    pub fn call(&mut self, cx: &mut Context, call: &Call, random: &mut Random) -> Answer {
        let is_heard = |kind: Kind| match (&call.ask, kind) {
            (Ask::Take(requests), Kind::Numbers(at)) => {
                requests.iter().any(|request| request.name == name(at))
            }
            (Ask::Take(_), Kind::Lease) => false,
            (_, kind) => kind == Kind::Lease,
        };
        self.unheard.retain(|(server, kind)| *server != call.server || !is_heard(*kind));
        // Every server that is not cut off calls regularly, and the wait is longer than the interval.
        self.stand_in.may_end_wait = self.unheard.is_empty();
        self.read_clock(cx);
        let before_us = self.stand_in.tables.settings.waits_us;
        let caller = Caller {
            protocol: 1,
            registry_id: call.registry_id,
            tokens: call.tokens.iter().map(|token| self.tokens[*token].clone()).collect(),
            node_name: Some(format!("S{}", call.server)),
            role: "fleet".into(),
            by_hand: vec![],
            clock_us: call.clock_us,
            round_trip_us: 0,
        };
        let answered = self.stand_in.apply(&match &call.ask {
            Ask::Acquire { lease_id, nonce, needs } => {
                stand_in::Call::Acquire { caller, lease_id: *lease_id, nonce: *nonce, needs: needs.clone() }
            }
            Ask::Renew { lease_id, last, next } => {
                let ids = Identification { lease_id: *lease_id, last_nonce: *last, next_nonce: *next };
                stand_in::Call::Renew { caller, ids }
            }
            Ask::Take(requests) => {
                let requests = requests.iter().map(|request| stand_in::Request {
                    name: request.name.clone(),
                    had_until: request.had.as_ref().map(|had| had.had_until),
                    registry_id: request.had.as_ref().map(|had| had.registry_id),
                    is_report: request.report,
                    ..Default::default()
                });
                stand_in::Call::Take { caller, is_local: false, requests: requests.collect() }
            }
        });
        self.tell_wait(cx, before_us);
        let mut answer = Answer {
            registry_id: self.stand_in.tables.settings.registry_id,
            outcome: Outcome::Unknown,
            token: None,
            taken: None,
            clock_us: self.stand_in.clock.now_us,
        };
        match answered {
            stand_in::Answer::Lease(lease) => {
                answer.outcome = outcome(&lease);
                answer.token = lease.token.map(|token| self.note(token));
                if let (Ask::Acquire { .. }, Outcome::Granted(lease)) = (&call.ask, &answer.outcome) {
                    tell_grant(cx, call.server, lease);
                }
            }
            stand_in::Answer::Taken(rows) => {
                let rows: Vec<_> = rows.into_iter().map(|row| self.reply(row)).collect();
                match segment_answer::Answer::read(&rows) {
                    Ok(taken) => answer.taken = Some(taken),
                    Err(why) => cx.fail("the stand-in's answers are valid", why),
                }
            }
            stand_in::Answer::Done(_) | stand_in::Answer::Failed(_) => {}
        }
        // The registry may be set back to any committed state.
        if random.one_in(8) {
            self.keep();
        }
        answer
    }

    /// The row as the SQL returns it.
    fn reply(&mut self, row: stand_in::Taken) -> Reply {
        let token = match &row.token {
            Some(Token::Segment { name, next, .. }) => {
                let statement = format!("segment:{name}:{next}::");
                row.token.clone().map(|token| format!("{statement}.{}", self.note(token)))
            }
            _ => None,
        };
        let settings = &self.stand_in.tables.settings;
        Reply::of([
            ("request", row.request.map(|at| at.to_string())),
            ("outcome", Some(row.outcome.name().into())),
            ("first", row.range.map(|(first, _)| first.to_string())),
            ("increment", Some("1".into())),
            ("count", row.range.map(|(_, count)| count.to_string())),
            ("token", token),
            ("registry_id", Some(settings.registry_id.to_string())),
            ("registry_clock", Some(self.stand_in.clock.now_us.to_string())),
            ("server_started", Some(self.stand_in.place.started_us.to_string())),
            ("report_every", Some(self.stand_in.call_every_us().to_string())),
        ])
    }

    fn note(&mut self, token: Token) -> usize {
        self.tokens.push(token);
        self.tokens.len() - 1
    }

    fn tell_wait(&self, cx: &mut Context, before_us: i64) {
        let settings = &self.stand_in.tables.settings;
        let (waits_us, is_restarted) = (settings.waits_us, settings.numbers_wait_us > 0);
        if waits_us > before_us {
            cx.say("registry", || match is_restarted {
                true => format!("has been started, and grants nothing new for {}", duration(waits_us)),
                false => format!("quarantine for {}", duration(waits_us)),
            });
        } else if waits_us == 0 && before_us > 0 {
            let floor_us = settings.nothing_before_us;
            cx.say("registry", || format!("its wait is over; no range begins before {}", instant(floor_us)));
        }
    }

    /// Keeps a copy of the present state.
    pub fn keep(&mut self) {
        if self.older.len() == 4 {
            self.older.remove(0);
        }
        self.older.push(self.stand_in.tables.clone());
    }

    // Faults ----------------------------------------------------------------------------------------------

    pub fn restart(&mut self, cx: &mut Context) {
        self.stand_in.place.started_us += 1;
        self.is_down = false;
        cx.say("registry", || "is restarted".into());
    }

    /// Sets the registry back to an older state. If `is_silent`, only its start shows that, and all servers that know
    /// of the loss have to be heard. Otherwise a standby was promoted, which the registry notices.
    pub fn set_back(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        is_silent: bool,
        knowing: Vec<(usize, Kind)>,
    ) -> bool {
        if self.older.is_empty() {
            return false;
        }
        let at = random.below(self.older.len());
        self.stand_in.tables = self.older[at].clone();
        self.older.truncate(at + 1);
        self.stand_in.place.started_us += 1;
        self.is_down = false;
        if is_silent {
            self.unheard.extend(knowing);
        } else {
            self.stand_in.place.timeline += 1;
        }
        cx.say("registry", || match is_silent {
            true => "is SET BACK to an older disk; only its start shows that".into(),
            false => "loses commits: a standby that was behind is promoted".into(),
        });
        true
    }

    pub fn is_waiting_for(&self, server: usize) -> bool {
        self.unheard.iter().any(|(known, _)| *known == server)
    }

    pub fn shows_lease(&self, token: usize, lease: &Lease) -> bool {
        matches!(&self.tokens[token], Token::Lease { identity, from_us, .. }
            if *identity == lease.identity && *from_us == lease.from_us)
    }

    pub fn revoke(&mut self, cx: &mut Context, random: &mut Random) -> bool {
        let leases = &self.stand_in.tables.leases;
        let held: Vec<Identity> =
            leases.iter().filter(|(_, row)| row.lease_id.is_some()).map(|(identity, _)| *identity).collect();
        if held.is_empty() {
            return false;
        }
        let identity = random.pick(&held);
        let is_revoked = self.administer_now(cx, Administration::RevokeLease(identity));
        if is_revoked {
            cx.say("registry", || format!("the lease of worker ID {} is revoked", identity.worker));
        }
        is_revoked
    }

    pub fn freeze(&mut self, cx: &mut Context, is_frozen: bool) -> bool {
        if self.stand_in.tables.settings.frozen_until_us.is_some() == is_frozen {
            return false;
        }
        self.requests += 1;
        let name = RequestName(self.requests);
        let latest_us = self.stand_in.tables.leases.values().map(|row| row.until_us).max().unwrap_or(0);
        let until_us = latest_us.max(cx.now_us + self.offset_us);
        let call = match is_frozen {
            true => Administration::Freeze { until_us, name },
            false => Administration::Unfreeze { name },
        };
        self.administer_now(cx, call);
        // So that the registry is not set back to a state without the freeze: that is not covered.
        self.older.clear();
        cx.say("registry", || if is_frozen { "is frozen".into() } else { "is unfrozen".into() });
        true
    }

    /// An administrator says where the numbers continue.
    pub fn resume(&mut self, cx: &mut Context, ends: &[i64]) -> bool {
        let mut is_any = false;
        for (at, end) in ends.iter().enumerate() {
            let name = name(at);
            let Some(segment) = self.stand_in.tables.segments.get(&name).filter(|segment| segment.is_closed)
            else {
                continue;
            };
            let next_value = segment.end().max((*end).into()) as i64;
            is_any |= self.administer_now(cx, Administration::ResumeSegment { name, next_value });
        }
        if is_any {
            cx.say("registry", || "its segments are resumed".into());
        }
        is_any
    }
}

fn name(segment: usize) -> String {
    segment.to_string()
}

/// The index of a token for numbers.
pub fn index_of(token: &str) -> Option<usize> {
    token.rsplit_once('.')?.1.parse().ok()
}

/// The outcome as a server reads it.
fn outcome(answer: &LeaseAnswer) -> Outcome {
    match (answer.outcome, answer.identity, answer.range_us) {
        (stand_in::Outcome::Granted, Some(identity), Some((from_us, until_us))) => {
            Outcome::Granted(Lease { identity, from_us, until_us })
        }
        (stand_in::Outcome::Twin, ..) => Outcome::Twin,
        (stand_in::Outcome::Taken, ..) => Outcome::Taken { free_from_us: answer.free_from_us.unwrap_or(0) },
        (stand_in::Outcome::NotStarted, ..) => Outcome::NotStarted,
        (stand_in::Outcome::Quarantine, ..) => Outcome::Quarantine,
        (stand_in::Outcome::Clock, ..) => Outcome::ClockDiffers,
        (stand_in::Outcome::Foreign, ..) => Outcome::Foreign,
        (stand_in::Outcome::RegistryTooOld, ..) => Outcome::Mismatch(Mismatch::RegistryTooOld),
        (stand_in::Outcome::CallerTooOld, ..) => Outcome::Mismatch(Mismatch::CallerTooOld),
        _ => Outcome::Unknown,
    }
}

fn tell_grant(cx: &mut Context, server: usize, lease: &Lease) {
    cx.say("registry", || {
        format!(
            "grants worker ID {} to S{server}, from {} to {}",
            lease.identity.worker,
            instant(lease.from_us),
            instant(lease.until_us)
        )
    });
}
