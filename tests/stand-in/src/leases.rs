//! `acquire()`, `renew()` and `release()`.

use std::cmp::Reverse;

use snowflake_id_core::Identity;
use snowflake_id_core::lease_state::Needs;
use uuid::Uuid;

use crate::open::Opening;
use crate::tables::LeaseRow;
use crate::{Caller, Identification, LeaseAnswer, Outcome, StandIn};

const MOST_CLOCK_DIFFERENCE_US: i64 = 60_000_000;
/// No lease ends later, unless the clock was wrong when it was granted.
pub(crate) const LONGEST_US: i64 = (24 * 60 + 1) * 60_000_000;
const HOUR_US: i64 = 3_600_000_000;
/// How many rows a role can add without a lease.
const MOST_ROWS_OF_A_ROLE: usize = 64;
/// How many identities a role can say to be used by hand: those that it named last.
const MOST_HANDS_OF_A_ROLE: usize = 64;

impl StandIn {
    pub(crate) fn protocol_mismatch(&self, caller: &Caller) -> Option<Outcome> {
        match caller.protocol {
            known if self.protocols.contains(&known) => None,
            later if later > *self.protocols.end() => Some(Outcome::RegistryTooOld),
            _ => Some(Outcome::CallerTooOld),
        }
    }

    pub(crate) fn is_foreign(&self, caller: &Caller) -> bool {
        caller.registry_id.is_some_and(|id| id != self.tables.settings.registry_id)
    }

    /// Fills in the common columns, and refuses a caller if that needs no lock.
    fn begin_answer(&self, caller: &Caller, compares_clocks: bool) -> (LeaseAnswer, bool) {
        let settings = &self.tables.settings;
        let offset_us =
            caller.clock_us - self.clock.now_us + caller.round_trip_us.clamp(0, MOST_CLOCK_DIFFERENCE_US) / 2;
        let refusal = if let Some(mismatch) = self.protocol_mismatch(caller) {
            Some(mismatch)
        } else if self.is_foreign(caller) {
            Some(Outcome::Foreign)
        } else if compares_clocks && offset_us.abs() > MOST_CLOCK_DIFFERENCE_US {
            Some(Outcome::Clock)
        } else {
            None
        };
        let answer = LeaseAnswer {
            outcome: refusal.unwrap_or(Outcome::Unknown),
            lease_us: settings.lease_us,
            renew_every_us: 0, // Known after the call.
            identity: None,
            range_us: None,
            free_from_us: None,
            token: None,
        };
        (answer, refusal.is_some())
    }

    pub(crate) fn acquire(
        &mut self,
        caller: &Caller,
        lease_id: Uuid,
        nonce: Uuid,
        needs: &Needs,
    ) -> LeaseAnswer {
        let (mut answer, is_refused) = self.begin_answer(caller, true);
        let tokens = Some(&caller.tokens[..]);
        let is_heard = !caller.by_hand.is_empty() && self.protocol_mismatch(caller).is_none();
        let clocks_agree = !is_refused;
        self.open(Opening { is_alone: clocks_agree || is_heard, tokens, clocks_agree, lease_id: None });
        let moment_us = self.clock.now_us;
        if is_heard {
            self.note_hands(caller, needs);
        }
        if is_refused {
            return answer;
        }
        if let Some((identity, row)) = self.tables.held(lease_id) {
            let is_other = row.nonce.is_some_and(|known| known != nonce);
            let is_shown = caller.tokens.iter().any(|token| token.is_of_lease(lease_id));
            if row.used_until_us.is_some() || row.is_renewed || is_other || is_shown {
                answer.outcome = Outcome::Twin;
                return answer;
            }
            let is_usable = row.until_us > moment_us && row.until_us <= moment_us + LONGEST_US;
            if is_usable && needs.are_met_by(identity) && !row.is_kept_from(&caller.role) {
                answer.grant(identity, row);
                return answer;
            }
            (row.lease_id, row.nonce) = (None, None);
        }
        let settings = &self.tables.settings;
        answer.outcome = Outcome::Taken;
        if settings.frozen_until_us.is_some() {
        } else if !settings.is_started {
            answer.outcome = Outcome::NotStarted;
        } else if needs.datacenter > settings.last_datacenter {
        } else if self.is_waiting() {
            answer.free_from_us = self.wait_ends_us();
        } else if let Some((identity, free_from_us)) = self.find_free(caller, needs) {
            if free_from_us > moment_us {
                answer.free_from_us = Some(free_from_us);
            } else {
                self.grant(caller, identity, free_from_us, lease_id, nonce);
                answer.grant(identity, &self.tables.leases[&identity]);
            }
        }
        answer
    }

    /// Records which identities of the pool are used by hand.
    fn note_hands(&mut self, caller: &Caller, needs: &Needs) {
        let moment_us = self.clock.now_us;
        let settings = &self.tables.settings;
        let Some((first, last)) = settings.workers.filter(|_| settings.is_started) else { return };
        let (floor_us, last_datacenter) =
            (settings.nothing_before_us.min(moment_us), settings.last_datacenter);
        let of_role = |row: &&LeaseRow| row.role.as_ref() == Some(&caller.role) && row.grant_count == 0;
        let has_room = self.tables.leases.values().filter(of_role).count() < MOST_ROWS_OF_A_ROLE;
        if needs.datacenter > last_datacenter {
            return;
        }
        for worker in caller.by_hand.iter().copied() {
            let identity = Identity { datacenter: needs.datacenter, worker };
            if let Some(row) = self.tables.leases.get_mut(&identity) {
                row.note_by_hand(&caller.role, moment_us);
            } else if has_room && (first..=last).contains(&worker) {
                let row = LeaseRow {
                    role: Some(caller.role.clone()),
                    said_by_hand_us: [(caller.role.clone(), moment_us)].into(),
                    ..LeaseRow::unheld(floor_us, floor_us, moment_us)
                };
                self.tables.leases.insert(identity, row);
            }
        }
        let said = self.tables.leases.iter_mut().filter_map(|(identity, row)| {
            let said_us = *row.said_by_hand_us.get(&caller.role)?;
            // A spare stays used up.
            (!row.is_reserved || row.reserved_for.is_some()).then_some(())?;
            Some((Reverse(said_us), *identity, row))
        });
        let mut said: Vec<_> = said.collect();
        said.sort_by_key(|(said_us, identity, _)| (*said_us, identity.datacenter, identity.worker));
        for (.., row) in said.into_iter().skip(MOST_HANDS_OF_A_ROLE) {
            row.said_by_hand_us.remove(&caller.role);
        }
    }

    /// The identity that is free, or becomes free first, and the time from which it is. One that the server held before is
    /// preferred, in the end the one that it renewed last, and one that is used by hand is the last choice.
    fn find_free(&self, caller: &Caller, needs: &Needs) -> Option<(Identity, i64)> {
        let settings = &self.tables.settings;
        let of = |worker| Identity { datacenter: needs.datacenter, worker };
        let (lowest, highest) = settings.workers.expect("a registry that was started has a pool");
        let in_datacenter =
            self.tables.leases.iter().filter(|(identity, _)| identity.datacenter == needs.datacenter);
        let of_role = in_datacenter.clone().filter(|(identity, row)| {
            row.reserved_for.as_ref() == Some(&caller.role)
                && needs.pin.is_none_or(|pin| identity.worker == pin)
        });
        let mut reserved: Vec<u32> = of_role.map(|(identity, _)| identity.worker).collect();
        if needs.pin.is_some() && reserved.is_empty() {
            return None;
        }
        let is_named = |worker: &u32| caller.by_hand.contains(worker) && needs.are_met_by(of(*worker));
        if reserved.iter().any(is_named) {
            reserved.retain(is_named);
        }
        let is_allowed = |worker: u32| {
            let is_of_pool = reserved.is_empty() && (lowest..=highest).contains(&worker);
            (is_of_pool || reserved.contains(&worker)) && needs.are_met_by(of(worker))
        };
        let known = in_datacenter.filter(|(identity, row)| {
            is_allowed(identity.worker) && !(reserved.is_empty() && row.is_reserved)
        });
        let known = known.map(|(identity, row)| {
            let is_its_own = row.node_name.is_some() && row.node_name == caller.node_name;
            let renewed_us = is_its_own.then_some(row.renewed_at_us);
            (identity.worker, self.free_from_us(row), !row.said_by_hand_us.is_empty(), renewed_us)
        });
        // A limit of 0 leaves none.
        let never_given = (lowest..=highest.min(needs.worker_limit.saturating_sub(1)))
            .find(|worker| is_allowed(*worker) && !self.tables.leases.contains_key(&of(*worker)));
        let never_given = never_given.map(|worker| (worker, settings.nothing_before_us, false, None));
        let best = known.chain(never_given).min_by_key(|&(worker, free_from_us, is_by_hand, renewed_us)| {
            let waits_until_us = Some(free_from_us).filter(|from_us| *from_us > self.clock.now_us);
            (waits_until_us, is_by_hand, Reverse(renewed_us), worker)
        });
        best.map(|(worker, free_from_us, ..)| (of(worker), free_from_us))
    }

    /// The earliest start of the next range. Its end must not be before the end of the last one.
    fn free_from_us(&self, row: &LeaseRow) -> i64 {
        let settings = &self.tables.settings;
        let ended_us = match row.used_until_us {
            Some(used_us) => used_us.max(row.until_us - settings.lease_us),
            None => row.until_us,
        };
        ended_us.max(settings.nothing_before_us)
    }

    fn grant(&mut self, caller: &Caller, identity: Identity, from_us: i64, lease_id: Uuid, nonce: Uuid) {
        let moment_us = self.clock.now_us;
        let until_us = moment_us + self.tables.settings.lease_us;
        let before = self.tables.leases.get(&identity);
        let row = LeaseRow {
            lease_id: Some(lease_id),
            nonce: Some(nonce),
            node_name: caller.node_name.clone(),
            role: Some(caller.role.clone()),
            protocol: caller.protocol,
            is_renewed: false,
            grant_count: before.map_or(0, |row| row.grant_count) + 1,
            is_reserved: before.is_some_and(|row| row.is_reserved),
            reserved_for: before.and_then(|row| row.reserved_for.clone()),
            said_by_hand_us: before.map(|row| row.said_by_hand_us.clone()).unwrap_or_default(),
            released_until_us: before.and_then(|row| row.released_until_us),
            ..LeaseRow::unheld(from_us, until_us, moment_us)
        };
        self.tables.leases.insert(identity, row);
        self.tables.settings.serial += 1;
        self.sign();
    }

    pub(crate) fn renew(&mut self, caller: &Caller, ids: &Identification) -> LeaseAnswer {
        let (mut answer, is_refused) = self.begin_answer(caller, true);
        if !self.is_proved_by(&caller.tokens) {
            answer.token = self.token_of_lease(ids.lease_id);
        }
        self.open(Opening {
            is_alone: false,
            tokens: Some(&caller.tokens),
            clocks_agree: !is_refused,
            lease_id: Some(ids.lease_id),
        });
        if is_refused {
            return answer;
        }
        let moment_us = self.clock.now_us;
        let is_released = self.is_range_released(ids.lease_id, &caller.tokens);
        let (is_waiting, wait_ends_us) = (self.is_waiting(), self.wait_ends_us());
        let settings = self.tables.settings.clone();
        let Some((identity, row)) = self.tables.held(ids.lease_id) else {
            answer.outcome = if is_released { Outcome::Twin } else { Outcome::Unknown };
            return answer;
        };
        let floor_us = Some(settings.nothing_before_us).filter(|_| settings.is_started);
        let has_ended = row.until_us <= moment_us;
        if row.used_until_us.is_some() || row.nonce.is_some_and(|known| !ids.contains(known)) {
            answer.outcome = Outcome::Twin;
        } else if row.is_kept_from(&caller.role) && settings.frozen_until_us.is_none()
            || row.until_us > moment_us + LONGEST_US
            || row.until_us < settings.nothing_before_us && settings.is_started && !is_waiting
        {
            answer.outcome = Outcome::Unknown;
        } else if has_ended && settings.frozen_until_us.is_some() {
            answer.outcome = Outcome::Quarantine;
        } else if has_ended && (is_waiting || settings.nothing_before_us > moment_us || !settings.is_started)
        {
            answer.outcome = Outcome::Quarantine;
            answer.free_from_us = wait_ends_us.max(floor_us);
        } else {
            let reach_us = moment_us + settings.lease_us;
            let reach_us = settings.frozen_until_us.map_or(reach_us, |frozen_us| frozen_us.min(reach_us));
            row.until_us = row.until_us.max(reach_us);
            row.nonce = Some(ids.next_nonce);
            if caller.node_name.is_some() {
                row.node_name.clone_from(&caller.node_name);
            }
            row.role = Some(caller.role.clone());
            row.protocol = caller.protocol;
            row.renewed_at_us = moment_us;
            row.is_renewed = true;
            answer.grant(identity, row);
            self.note_used_spares(caller, identity.datacenter);
        }
        answer
    }

    /// Records which identities that are reserved for use by hand were used.
    fn note_used_spares(&mut self, caller: &Caller, datacenter: u32) {
        let moment_us = self.clock.now_us;
        for worker in caller.by_hand.iter().copied() {
            let row = self.tables.leases.get_mut(&Identity { datacenter, worker });
            if let Some(row) = row.filter(|row| row.is_reserved && row.reserved_for.is_none()) {
                row.note_by_hand(&caller.role, moment_us);
            }
        }
    }

    pub(crate) fn release(
        &mut self,
        caller: &Caller,
        ids: &Identification,
        used_until_us: Option<i64>,
    ) -> LeaseAnswer {
        let (mut answer, is_refused) = self.begin_answer(caller, false);
        self.open(Opening {
            is_alone: false,
            tokens: Some(&caller.tokens),
            clocks_agree: false,
            lease_id: Some(ids.lease_id),
        });
        if is_refused {
            return answer;
        }
        let moment_us = self.clock.now_us;
        let Some((identity, row)) = self.tables.held(ids.lease_id) else { return answer };
        if row.nonce.is_some_and(|known| !ids.contains(known)) {
            answer.outcome = Outcome::Twin;
            return answer;
        }
        if row.used_until_us.is_none() {
            if row.nonce.is_none() {
                return answer;
            }
            let used_us = match used_until_us {
                None => row.until_us,
                // The past is never handed back.
                Some(used_us) => used_us.clamp(0, row.until_us.max(0)).max(moment_us),
            };
            row.used_until_us = Some(used_us.max(row.from_us + 1).min(row.until_us));
            row.released_until_us = Some(row.until_us);
        }
        answer.outcome = Outcome::Released;
        answer.identity = Some(identity);
        answer.free_from_us = row.used_until_us;
        answer
    }
}

impl LeaseRow {
    /// Whether a server holds the identity.
    pub(crate) fn is_live(&self, moment_us: i64) -> bool {
        self.lease_id.is_some() && self.used_until_us.is_none() && self.until_us > moment_us
    }

    /// Records a report that the identity is used by hand, at most once an hour.
    fn note_by_hand(&mut self, role: &str, moment_us: i64) {
        if self.said_by_hand_us.get(role).is_none_or(|at_us| *at_us < moment_us - HOUR_US) {
            self.said_by_hand_us.insert(role.into(), moment_us);
        }
    }

    /// Whether the identity is reserved, and not for this role.
    fn is_kept_from(&self, role: &str) -> bool {
        self.is_reserved && self.reserved_for.as_deref() != Some(role)
    }
}

impl LeaseAnswer {
    fn grant(&mut self, identity: Identity, row: &LeaseRow) {
        self.outcome = Outcome::Granted;
        self.identity = Some(identity);
        self.range_us = Some((row.from_us, row.until_us));
    }
}

impl Identification {
    fn contains(&self, nonce: Uuid) -> bool {
        nonce == self.last_nonce || nonce == self.next_nonce
    }
}
