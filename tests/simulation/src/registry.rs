//! A stand-in for the registry, which is SQL in the product (`sql/registry/parts/`). It follows the rules of
//! `acquire()`, `renew()`, `take()`, quarantine, evidence and freeze, one call after another. The functions have the
//! same names as there.

use std::collections::BTreeMap;

use snowflake_id_core::lease_state::{Needs, Outcome};
use snowflake_id_core::{Identity, Lease};
use uuid::Uuid;

use crate::context::{Context, duration};
use crate::random::Random;
use crate::server::instant;

const ALLOWANCE_US: i64 = 120_000_000;
const MOST_COUNTED_US: i64 = 60_000_000;
const MOST_CLOCK_DIFFERENCE_US: i64 = 60_000_000;
const LONGEST_US: i64 = (24 * 60 + 1) * 60_000_000;

#[derive(Clone, Debug)]
struct Row {
    from_us: i64,
    until_us: i64,
    lease_id: Option<Uuid>,
    nonce: Option<Uuid>,
    node: usize,
    is_renewed: bool,
    grant_count: u64,
}

#[derive(Clone, Debug)]
pub struct SegmentRow {
    pub next: i64,
    step: i64,
    pub is_closed: bool,
}

/// Tokens that the registry has signed. Servers store their indexes.
#[derive(Clone, Debug)]
pub enum Token {
    Lease { worker: u32, grant_count: u64, from_us: i64, until_us: i64, mark: Option<Uuid>, serial: u64 },
    Segment { at: usize, next: i64, serial: u64 },
}

/// The tables.
#[derive(Clone, Debug)]
pub struct Tables {
    id: Uuid,
    pub lease_us: i64,
    workers: u32,
    serial: u64,
    nothing_before_us: i64,
    pub waits_us: i64,
    counted_at_us: i64,
    is_proved: bool,
    is_witnessed: bool,
    is_restarted: bool,
    witnesses: bool,
    frozen_until_us: Option<i64>,
    /// The location and the start of the registry when the settings were last written.
    signed: (u64, u64),
    rows: BTreeMap<u32, Row>,
    pub segments: Vec<SegmentRow>,
}

pub struct Registry {
    pub tables: Tables,
    /// Earlier committed states.
    older: Vec<Tables>,
    incarnation: (u64, u64),
    pub offset_us: i64,
    pub is_down: bool,
    tokens: Vec<Token>,
    /// Servers that know of a loss by a silent set-back. They are heard before the wait ends.
    unheard: Vec<(usize, Kind)>,
    /// Calls that were given up, and are still in transit.
    pub strays: Vec<Call>,
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
    Take { at: usize, is_wanted: bool },
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub registry_id: Uuid,
    pub outcome: Outcome,
    pub token: Option<usize>,
    /// The result of `take()`: the first number and the count.
    pub range: Option<(i64, u64)>,
    pub clock_us: i64,
    /// The start of the registry to which it belongs: no connection outlives a restart.
    pub life: u64,
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
        let segment = SegmentRow { next: 1, step: 1000, is_closed: false };
        let tables = Tables {
            id,
            lease_us,
            workers,
            serial: 0,
            nothing_before_us: now_us,
            waits_us: 0,
            counted_at_us: now_us,
            is_proved: false,
            is_witnessed: false,
            is_restarted: false,
            witnesses,
            frozen_until_us: None,
            signed: (1, 1),
            rows: BTreeMap::new(),
            segments: vec![segment; segments],
        };
        Registry {
            tables,
            older: vec![],
            incarnation: (1, 1),
            offset_us: 0,
            is_down: false,
            tokens: vec![],
            unheard: vec![],
            strays: vec![],
        }
    }

    fn clock_us(&self, cx: &Context) -> i64 {
        cx.now_us + self.offset_us
    }

    /// The interval between renewals.
    pub fn renew_every_us(&self) -> i64 {
        self.tables.lease_us / 10
    }

    /// Executes a call and commits.
    pub fn call(&mut self, cx: &mut Context, call: &Call, random: &mut Random) -> Answer {
        let kind = match call.ask {
            Ask::Take { at, .. } => Kind::Numbers(at),
            _ => Kind::Lease,
        };
        self.unheard.retain(|known| *known != (call.server, kind));
        let clock_us = self.clock_us(cx);
        let clocks_agree = (call.clock_us - clock_us).abs() <= MOST_CLOCK_DIFFERENCE_US;
        let is_foreign = call.registry_id.is_some_and(|id| id != self.tables.id);
        let token = match &call.ask {
            _ if self.is_proving(&call.tokens) => None,
            Ask::Acquire { .. } => None,
            Ask::Renew { lease_id, .. } => self.token_of_lease(*lease_id),
            Ask::Take { at, .. } => Some(self.sign(Token::Segment {
                at: *at,
                next: self.tables.segments[*at].next,
                serial: self.tables.serial,
            })),
        };
        let lease_id = match call.ask {
            Ask::Renew { lease_id, .. } => Some(lease_id),
            _ => None,
        };
        let is_take = matches!(call.ask, Ask::Take { .. });
        // take() does not report the caller's clock.
        self.open(cx, &call.tokens, clocks_agree && !is_foreign && !is_take, lease_id);
        let mut answer = Answer {
            registry_id: self.tables.id,
            outcome: Outcome::Foreign,
            token,
            range: None,
            clock_us,
            life: self.incarnation.1,
        };
        if is_foreign {
            return answer;
        }
        if !clocks_agree && !is_take {
            answer.outcome = Outcome::ClockDiffers;
            return answer;
        }
        match &call.ask {
            Ask::Acquire { lease_id, nonce, needs } => {
                answer.outcome = self.acquire(cx, call.server, *lease_id, *nonce, needs);
            }
            Ask::Renew { lease_id, last, next } => {
                answer.outcome = self.renew(cx, *lease_id, [*last, *next]);
            }
            Ask::Take { at, is_wanted } => {
                answer.outcome = Outcome::Unknown;
                if *is_wanted {
                    answer.range = self.take(*at);
                }
            }
        }
        // The registry may be set back to any committed state.
        if random.one_in(8) {
            self.keep();
        }
        answer
    }

    /// Keeps a copy of the present state.
    pub fn keep(&mut self) {
        if self.older.len() == 4 {
            self.older.remove(0);
        }
        self.older.push(self.tables.clone());
    }

    fn sign(&mut self, token: Token) -> usize {
        self.tokens.push(token);
        self.tokens.len() - 1
    }

    fn token_of_lease(&mut self, lease_id: Uuid) -> Option<usize> {
        let (worker, row) = self.tables.rows.iter().find(|(_, row)| row.lease_id == Some(lease_id))?;
        let token = Token::Lease {
            worker: *worker,
            grant_count: row.grant_count,
            from_us: row.from_us,
            until_us: row.until_us,
            mark: row.lease_id,
            serial: self.tables.serial,
        };
        Some(self.sign(token))
    }

    /// Whether tokens prove more than the tables contain.
    fn is_proving(&self, tokens: &[usize]) -> bool {
        tokens.iter().any(|token| self.proves(&self.tokens[*token]))
    }

    fn proves(&self, token: &Token) -> bool {
        match token {
            Token::Lease { serial, .. } | Token::Segment { serial, .. } if *serial > self.tables.serial => {
                true
            }
            Token::Lease { worker, grant_count, from_us, until_us, mark, .. } => {
                let Some(row) = self.tables.rows.get(worker) else { return true };
                // As in SQL, a comparison with an unknown holder is not true.
                let differs = row.lease_id.is_some() && *mark != row.lease_id;
                *grant_count > row.grant_count
                    || *grant_count == row.grant_count && differs
                    || *from_us == row.from_us && *until_us > row.until_us
                    || *from_us != row.from_us && *until_us > row.from_us
            }
            Token::Segment { at, next, .. } => *next > self.tables.segments[*at].next,
        }
    }

    fn learn(&mut self, token: &Token, lease_id: Option<Uuid>) {
        let tables = &mut self.tables;
        match token {
            Token::Lease { serial, .. } | Token::Segment { serial, .. } => {
                tables.serial = tables.serial.max(*serial);
            }
        }
        match *token {
            Token::Lease { worker, grant_count, from_us, until_us, mark, .. } => {
                let is_known =
                    tables.rows.values().any(|row| row.lease_id.is_some() && row.lease_id == lease_id);
                let holder = lease_id.filter(|_| mark == lease_id && !is_known);
                let Some(row) = tables.rows.get_mut(&worker) else {
                    let row = Row {
                        from_us,
                        until_us,
                        lease_id: holder,
                        nonce: None,
                        node: usize::MAX,
                        is_renewed: false,
                        grant_count,
                    };
                    tables.rows.insert(worker, row);
                    return;
                };
                let differs = row.lease_id.is_some() && mark != row.lease_id;
                if from_us == row.from_us
                    && grant_count <= row.grant_count
                    && !(grant_count == row.grant_count && differs)
                {
                    row.until_us = row.until_us.max(until_us);
                } else if grant_count >= row.grant_count || until_us > row.from_us {
                    let is_later = grant_count > row.grant_count;
                    let until = row.until_us.max(until_us);
                    row.lease_id = holder.filter(|_| is_later && row.until_us <= from_us);
                    row.from_us = if is_later { from_us } else { until };
                    row.until_us = until;
                    row.grant_count = grant_count.max(row.grant_count + 1);
                    row.nonce = None;
                }
            }
            Token::Segment { at, next, .. } => {
                tables.segments[at].next = tables.segments[at].next.max(next);
            }
        }
    }

    /// Checks whether commits were lost, evaluates the tokens, and counts the wait.
    fn open(&mut self, cx: &mut Context, tokens: &[usize], clocks_agree: bool, lease_id: Option<Uuid>) {
        let has_moved = self.tables.signed.0 != self.incarnation.0;
        let has_restarted = self.tables.signed.1 != self.incarnation.1;
        let is_proving = self.is_proving(tokens);
        if is_proving {
            for token in tokens {
                let token = self.tokens[*token].clone();
                self.learn(&token, lease_id);
            }
        }
        if has_moved || is_proving {
            self.quarantine(
                cx,
                if is_proving { "a token proves more than the tables" } else { "another timeline" },
            );
        } else if has_restarted {
            self.note_restart(cx);
        }
        self.tables.signed = self.incarnation;
        self.count_wait(cx, clocks_agree, !tokens.is_empty());
    }

    pub fn quarantine(&mut self, cx: &mut Context, why: &str) {
        let clock_us = self.clock_us(cx);
        let tables = &mut self.tables;
        let latest_us = tables.rows.values().map(|row| row.until_us).max().unwrap_or(clock_us);
        let longest_us = tables.lease_us.max((latest_us - clock_us).min(24 * 3_600_000_000));
        tables.waits_us = tables.waits_us.max(longest_us + ALLOWANCE_US);
        tables.counted_at_us = clock_us;
        (tables.is_proved, tables.is_witnessed, tables.is_restarted) = (true, false, false);
        tables.serial += 1;
        for row in tables.rows.values_mut() {
            if row.until_us <= clock_us + ALLOWANCE_US {
                row.lease_id = None;
            }
            row.nonce = None;
        }
        for segment in &mut tables.segments {
            segment.is_closed = true;
        }
        let waits_us = tables.waits_us;
        cx.say("registry", || format!("quarantine for {}: {why}", duration(waits_us)));
    }

    fn note_restart(&mut self, cx: &mut Context) {
        let clock_us = self.clock_us(cx);
        let tables = &mut self.tables;
        if tables.waits_us <= 0 || !tables.is_proved {
            tables.is_proved = false;
        }
        tables.waits_us = tables.waits_us.max(tables.lease_us + ALLOWANCE_US);
        tables.counted_at_us = clock_us;
        (tables.is_witnessed, tables.is_restarted) = (false, true);
        tables.rows.values_mut().for_each(|row| row.nonce = None);
        let waits_us = tables.waits_us;
        cx.say("registry", || format!("has been started, and grants nothing new for {}", duration(waits_us)));
    }

    fn count_wait(&mut self, cx: &mut Context, clocks_agree: bool, has_token: bool) {
        let clock_us = self.clock_us(cx);
        let renew_every_us = self.renew_every_us().max(1_000_000);
        let tables = &mut self.tables;
        if tables.waits_us <= 0 {
            return;
        }
        if clocks_agree {
            tables.waits_us -= (clock_us - tables.counted_at_us).clamp(0, MOST_COUNTED_US);
        }
        if tables.witnesses && !tables.is_proved && !tables.is_witnessed && has_token {
            tables.is_witnessed = true;
            tables.waits_us = tables.waits_us.min(renew_every_us * 5 / 2).max(1);
        }
        if !self.unheard.is_empty() {
            // Every server that is not cut off calls regularly, and the wait is longer than the interval.
            tables.waits_us = tables.waits_us.max(1);
        }
        if tables.waits_us <= 0 {
            tables.waits_us = 0;
            (tables.is_proved, tables.is_witnessed) = (false, false);
            tables.nothing_before_us = tables.nothing_before_us.max(clock_us);
            cx.say("registry", || format!("its wait is over; no range begins before {}", instant(clock_us)));
        } else if clocks_agree || tables.counted_at_us > clock_us {
            tables.counted_at_us = clock_us;
        }
    }

    fn acquire(
        &mut self,
        cx: &mut Context,
        server: usize,
        lease_id: Uuid,
        nonce: Uuid,
        needs: &Needs,
    ) -> Outcome {
        let clock_us = self.clock_us(cx);
        let tables = &mut self.tables;
        let held = tables.rows.iter_mut().find(|(_, row)| row.lease_id == Some(lease_id));
        if let Some((worker, row)) = held {
            if row.nonce.map_or(row.is_renewed, |known| known != nonce) {
                return Outcome::Twin;
            }
            let identity = Identity { datacenter: 0, worker: *worker };
            if row.until_us > clock_us && row.until_us <= clock_us + LONGEST_US && needs.are_met_by(identity)
            {
                return Outcome::Granted(Lease { identity, from_us: row.from_us, until_us: row.until_us });
            }
            (row.lease_id, row.nonce) = (None, None);
        }
        if tables.frozen_until_us.is_some() || tables.waits_us > 0 {
            return Outcome::Taken { free_from_us: 0 };
        }
        // Of the free ones, the server's own is preferred.
        let free_from = |worker: &u32| {
            let until_us = tables.rows.get(worker).map_or(i64::MIN, |row| row.until_us);
            until_us.max(tables.nothing_before_us)
        };
        let is_its_own = |worker: &u32| tables.rows.get(worker).is_some_and(|row| row.node == server);
        let will_do = |worker: &u32| needs.are_met_by(Identity { datacenter: 0, worker: *worker });
        let candidates = (0..tables.workers).filter(will_do);
        let Some(worker) =
            candidates.min_by_key(|worker| (free_from(worker).max(clock_us), !is_its_own(worker), *worker))
        else {
            return Outcome::Taken { free_from_us: 0 };
        };
        let from_us = free_from(&worker);
        if from_us > clock_us {
            return Outcome::Taken { free_from_us: from_us };
        }
        let until_us = clock_us + tables.lease_us;
        let grant_count = tables.rows.get(&worker).map_or(0, |row| row.grant_count) + 1;
        let row = Row {
            from_us,
            until_us,
            lease_id: Some(lease_id),
            nonce: Some(nonce),
            node: server,
            is_renewed: false,
            grant_count,
        };
        tables.rows.insert(worker, row);
        tables.serial += 1;
        cx.say("registry", || {
            format!(
                "grants worker ID {worker} to S{server}, from {} to {}",
                instant(from_us),
                instant(until_us)
            )
        });
        Outcome::Granted(Lease { identity: Identity { datacenter: 0, worker }, from_us, until_us })
    }

    fn renew(&mut self, cx: &mut Context, lease_id: Uuid, nonces: [Uuid; 2]) -> Outcome {
        let clock_us = self.clock_us(cx);
        let tables = &mut self.tables;
        let held = tables.rows.iter_mut().find(|(_, row)| row.lease_id == Some(lease_id));
        let Some((worker, row)) = held else { return Outcome::Unknown };
        if row.nonce.is_some_and(|known| !nonces.contains(&known)) {
            return Outcome::Twin;
        }
        let is_waiting = tables.waits_us > 0;
        if row.until_us > clock_us + LONGEST_US || row.until_us < tables.nothing_before_us && !is_waiting {
            return Outcome::Unknown;
        }
        let has_lapsed = row.until_us <= clock_us;
        if has_lapsed
            && (tables.frozen_until_us.is_some() || is_waiting || tables.nothing_before_us > clock_us)
        {
            return Outcome::Quarantine;
        }
        let reach_us = (clock_us + tables.lease_us).min(tables.frozen_until_us.unwrap_or(i64::MAX));
        row.until_us = row.until_us.max(reach_us);
        row.nonce = Some(nonces[1]);
        row.is_renewed = true;
        let identity = Identity { datacenter: 0, worker: *worker };
        Outcome::Granted(Lease { identity, from_us: row.from_us, until_us: row.until_us })
    }

    fn take(&mut self, at: usize) -> Option<(i64, u64)> {
        let tables = &mut self.tables;
        let segment = &mut tables.segments[at];
        let is_busy = tables.waits_us > 0 && tables.is_restarted;
        if segment.is_closed || tables.frozen_until_us.is_some() || is_busy {
            return None;
        }
        let first = segment.next;
        segment.next += segment.step;
        Some((first, segment.step as u64))
    }

    // Faults ----------------------------------------------------------------------------------------------

    pub fn restart(&mut self, cx: &mut Context) {
        self.incarnation.1 += 1;
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
        self.tables = self.older[at].clone();
        self.older.truncate(at + 1);
        self.incarnation.1 += 1;
        self.is_down = false;
        if is_silent {
            self.unheard.extend(knowing);
        } else {
            self.incarnation.0 += 1;
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

    /// Whether a token proves that the numbers of a segment up to this one were granted.
    pub fn shows_number(&self, token: usize, last: i64) -> bool {
        matches!(&self.tokens[token], Token::Segment { next, .. } if *next > last)
    }

    pub fn shows_lease(&self, token: usize, lease: &Lease) -> bool {
        matches!(&self.tokens[token], Token::Lease { worker, from_us, .. }
            if *worker == lease.identity.worker && *from_us == lease.from_us)
    }

    pub fn revoke(&mut self, cx: &mut Context, random: &mut Random) -> bool {
        let held: Vec<_> = self
            .tables
            .rows
            .iter()
            .filter(|(_, row)| row.lease_id.is_some())
            .map(|(worker, _)| *worker)
            .collect();
        if held.is_empty() {
            return false;
        }
        let worker = random.pick(&held);
        if let Some(row) = self.tables.rows.get_mut(&worker) {
            (row.lease_id, row.nonce) = (None, None);
        }
        cx.say("registry", || format!("the lease of worker ID {worker} is revoked"));
        true
    }

    pub fn freeze(&mut self, cx: &mut Context, is_frozen: bool) -> bool {
        if self.tables.frozen_until_us.is_some() == is_frozen {
            return false;
        }
        let latest_us = self.tables.rows.values().map(|row| row.until_us).max().unwrap_or(0);
        let until_us = latest_us.max(self.clock_us(cx));
        self.tables.frozen_until_us = is_frozen.then_some(until_us);
        // So that the registry is not set back to a state without the freeze: that is not covered.
        self.older.clear();
        cx.say("registry", || if is_frozen { "is frozen".into() } else { "is unfrozen".into() });
        true
    }

    /// An administrator says where the numbers continue.
    pub fn resume(&mut self, cx: &mut Context, ends: &[i64]) -> bool {
        let mut is_any = false;
        for (segment, end) in self.tables.segments.iter_mut().zip(ends) {
            if segment.is_closed {
                segment.is_closed = false;
                segment.next = segment.next.max(*end);
                is_any = true;
            }
        }
        if is_any {
            cx.say("registry", || "its segments are resumed".into());
        }
        is_any
    }
}
