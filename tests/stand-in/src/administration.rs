//! The functions for administrators of a fleet.

use snowflake_id_core::Identity;

use crate::call::Reply;
use crate::open::{ALLOWANCE_US, Opening};
use crate::tables::LeaseRow;
use crate::{Administration, FOREVER, Fault, RequestName, StandIn};

const DAY_US: i64 = 24 * 3_600_000_000;

impl StandIn {
    /// Executes a call. If it fails, the caller undoes its changes.
    pub(crate) fn administer(&mut self, call: &Administration) -> Result<Reply, Fault> {
        match call {
            Administration::StartFleet { .. } => self.start_fleet(call),
            Administration::EndFleet => self.end_fleet(),
            Administration::RequireProtocol { lowest } => self.require_protocol(*lowest),
            Administration::Configure { .. } => self.configure(call),
            Administration::RevokeLease(identity) => self.revoke_lease(*identity),
            Administration::Reserve { identity, used_by, name } => {
                self.reserve(*identity, used_by.as_ref(), *name)
            }
            Administration::GiveUpReservation(identity) => self.give_up_reservation(*identity),
            Administration::Freeze { until_us, name } => self.freeze(*until_us, *name),
            Administration::Unfreeze { name } => self.unfreeze(*name),
            Administration::Quarantine => self.quarantine(),
            Administration::EndQuarantine => self.end_quarantine(),
            Administration::CreateSegment { name, shape } => self.create_segment(name, shape),
            Administration::AlterSegment { .. } => self.alter_segment(call),
            Administration::DropSegment { name } => self.drop_segment(name),
            Administration::ResumeSegment { name, next_value } => self.resume_segment(name, *next_value),
            Administration::ResumeSegments => Ok(self.resume_segments()),
            Administration::GrantSegment { name } => {
                self.limits.get_or_insert_default().insert(name.clone());
                Ok(Reply::Nothing)
            }
            Administration::RevokeSegment { name } => {
                self.limits.as_mut().ok_or(Fault::WrongState)?.remove(name);
                Ok(Reply::Nothing)
            }
            Administration::GrantAllSegments => {
                self.limits = None;
                Ok(Reply::Nothing)
            }
        }
    }

    pub(crate) fn begin_request(&mut self) {
        self.open(Opening { is_alone: true, ..Opening::default() });
    }

    /// The given end, or in a quarantine the latest end of ranges that may have been granted in lost commits.
    fn end_with_forgotten(&self, known_us: Option<i64>, wait_ends_us: Option<i64>) -> Option<i64> {
        if wait_ends_us.is_none() {
            return known_us;
        }
        let longest_us = self.clock.now_us + self.tables.settings.longest_lease_us + ALLOWANCE_US;
        known_us.max(wait_ends_us).max(Some(longest_us))
    }

    /// The end of the present quarantine, if there is one.
    fn quarantine_ends_us(&self) -> Option<i64> {
        self.wait_ends_us().filter(|_| self.is_waiting())
    }

    /// The bounds of a pool, with the bounds so far for those that a call leaves out. `None` if there are none.
    fn pool(&self, first: Option<u32>, last: Option<u32>) -> Result<Option<(u32, u32)>, Fault> {
        let before = self.tables.settings.workers;
        let first = first.or(before.map(|(first, _)| first));
        let last = last.or(before.map(|(_, last)| last));
        match (first, last) {
            (None, None) => Ok(None),
            (Some(first), Some(last)) if first <= last => Ok(Some((first, last))),
            _ => Err(Fault::InvalidValue),
        }
    }

    fn start_fleet(&mut self, call: &Administration) -> Result<Reply, Fault> {
        let Administration::StartFleet { first_worker, last_worker, not_before_us, first_start, name } =
            *call
        else {
            return Ok(Reply::Nothing);
        };
        if not_before_us > Some(self.clock.now_us + DAY_US) {
            return Err(Fault::InvalidValue);
        }
        self.begin_request();
        if self.tables.has_granted() {
            return Err(Fault::WrongState);
        }
        let workers = self.pool(first_worker, last_worker)?;
        let settings = &mut self.tables.settings;
        if workers.is_none() || grows(settings.workers, workers) {
            return Err(Fault::WrongState);
        }
        settings.workers = workers;
        let floor_us = not_before_us.map_or(self.clock.now_us, |us| us.max(self.clock.now_us));
        settings.nothing_before_us = settings.nothing_before_us.max(floor_us);
        settings.is_started = true;
        if !first_start {
            self.enter_quarantine(false);
        }
        self.note_request(name);
        Ok(Reply::of(self.quarantine_ends_us().max(Some(self.tables.settings.nothing_before_us))))
    }

    fn end_fleet(&mut self) -> Result<Reply, Fault> {
        self.begin_request();
        let mut ends = self.tables.leases.values().map(|row| row.used_until_us.unwrap_or(row.until_us));
        if self.is_waiting() || ends.any(|end_us| end_us > self.clock.now_us) {
            return Err(Fault::InUse);
        }
        self.tables.settings.is_started = false;
        self.sign();
        Ok(Reply::Nothing)
    }

    fn require_protocol(&mut self, lowest: u32) -> Result<Reply, Fault> {
        self.begin_request();
        let may_be_lower = lowest > *self.protocols.start();
        let is_unknown = self.is_waiting() && self.tables.settings.is_started;
        let mut older = self.tables.leases.values().filter(|row| row.protocol < lowest);
        let is_used = older.any(|row| row.used_until_us.unwrap_or(row.until_us) > self.clock.now_us);
        if may_be_lower && is_unknown || is_used {
            return Err(Fault::InUse);
        }
        Ok(Reply::Nothing)
    }

    fn configure(&mut self, call: &Administration) -> Result<Reply, Fault> {
        let Administration::Configure {
            lease_us,
            renew_every_us,
            first_worker,
            last_worker,
            last_datacenter,
            synchronous,
            witnesses,
            none_by_hand,
            name,
        } = call
        else {
            return Ok(Reply::Nothing);
        };
        self.begin_request();
        let may_follow_another = self.is_waiting()
            || self.tables.has_granted()
            || self.tables.segments.values().any(|segment| segment.has_left);
        let workers = self.pool(*first_worker, *last_worker);
        let settings = &mut self.tables.settings;
        let mut before = settings.clone();
        let lease_us = lease_us.unwrap_or(settings.lease_us);
        let renew_every_us = renew_every_us.unwrap_or(settings.renew_every_us);
        if !(1_000_000..=DAY_US).contains(&lease_us)
            || renew_every_us < 100_000
            || renew_every_us * 2 > lease_us
        {
            return Err(Fault::InvalidValue);
        }
        let workers = workers?;
        let grows = grows(settings.workers, workers);
        if grows && !none_by_hand {
            return Err(Fault::WrongState);
        }
        settings.longest_lease_us = settings.longest_lease_us.max(lease_us);
        settings.lease_us = lease_us;
        settings.renew_every_us = renew_every_us;
        settings.longest_renewal_us = match may_follow_another {
            true => settings.longest_renewal_us.max(renew_every_us),
            false => renew_every_us,
        };
        settings.workers = workers;
        settings.last_datacenter = last_datacenter.unwrap_or(settings.last_datacenter);
        settings.synchronous = synchronous.unwrap_or(settings.synchronous);
        settings.witnesses = witnesses.unwrap_or(settings.witnesses);
        before.longest_renewal_us = settings.longest_renewal_us;
        if *settings != before {
            self.note_request(*name);
        }
        self.sign();
        Ok(Reply::Nothing)
    }

    fn revoke_lease(&mut self, identity: Identity) -> Result<Reply, Fault> {
        self.begin_request();
        let row = self.tables.leases.get_mut(&identity);
        let row = row.filter(|row| row.lease_id.is_some() && row.used_until_us.is_none());
        let row = row.ok_or(Fault::NotHeld)?;
        (row.lease_id, row.nonce) = (None, None);
        let end_us = Some(row.until_us);
        Ok(Reply::of(self.end_with_forgotten(end_us, self.quarantine_ends_us())))
    }

    fn note_request(&mut self, name: RequestName) {
        self.tables.settings.serial += 1;
        self.tables.settings.requests.push(name);
        self.sign();
    }

    fn reserve(
        &mut self,
        identity: Identity,
        used_by: Option<&String>,
        name: RequestName,
    ) -> Result<Reply, Fault> {
        self.begin_request();
        let moment_us = self.clock.now_us;
        let ends_us = self.quarantine_ends_us();
        let is_frozen = self.tables.settings.frozen_until_us.is_some();
        let in_datacenter = |(known, row): (&Identity, &LeaseRow)| {
            (known.datacenter == identity.datacenter).then(|| row.clone())
        };
        let rows: Vec<LeaseRow> = self.tables.leases.iter().filter_map(in_datacenter).collect();
        let reserved =
            rows.iter().filter(|row| used_by.is_some() && row.reserved_for.as_ref() == used_by).count();
        let leases = rows.iter().filter(|row| row.role.as_ref() == used_by && row.is_live(moment_us)).count();
        let row = self.tables.leases.entry(identity);
        let row = row.or_insert(LeaseRow::unheld(moment_us, moment_us, moment_us));
        let is_live = row.is_live(moment_us);
        if row.is_reserved && row.reserved_for.as_ref() != used_by {
            return Err(Fault::WrongState);
        } else if is_live && (used_by.is_none() || row.role.as_ref() != used_by) {
            return Err(Fault::InUse);
        } else if used_by.is_none()
            && (row.grant_count > 0 || (ends_us.is_some() || is_frozen) && !row.is_reserved)
        {
            return Err(Fault::WrongState);
        }
        let is_by_others = row.said_by_hand_us.keys().any(|role| Some(role) != used_by);
        if used_by.is_some() && !row.is_reserved && (is_by_others || leases > reserved + 1) {
            return Err(Fault::InUse);
        }
        let is_new = !row.is_reserved;
        if is_new {
            row.is_reserved = true;
            row.reserved_for = used_by.cloned();
            if row.grant_count == 0 {
                row.acquired_at_us = moment_us;
            }
        }
        let (until_us, acquired_us) = (row.until_us, row.acquired_at_us);
        // The time that the call returns does not depend on its own changes.
        let settings = &self.tables.settings;
        let known_us = until_us.max(acquired_us).max(settings.nothing_before_us);
        let from_us = match used_by {
            None => Some((acquired_us + 2 * settings.longest_renewal_us).max(settings.nothing_before_us)),
            Some(_) => self.end_with_forgotten(Some(known_us), ends_us),
        };
        if is_new {
            self.note_request(name);
        }
        Ok(Reply::of(from_us))
    }

    fn give_up_reservation(&mut self, identity: Identity) -> Result<Reply, Fault> {
        self.begin_request();
        let row = self.tables.leases.get_mut(&identity).filter(|row| row.reserved_for.is_some());
        let row = row.ok_or(Fault::NotHeld)?;
        (row.is_reserved, row.reserved_for) = (false, None);
        Ok(Reply::Nothing)
    }

    fn freeze(&mut self, until_us: i64, name: RequestName) -> Result<Reply, Fault> {
        self.begin_request();
        let until_us = until_us.max(0);
        let ends_us = self.quarantine_ends_us();
        if self.tables.settings.frozen_until_us.is_some_and(|frozen_us| until_us > frozen_us) {
            return Err(Fault::WrongState);
        }
        self.tables.settings.frozen_until_us = Some(until_us);
        self.note_request(name);
        let known_us = self.tables.latest_end_us().max(Some(until_us));
        Ok(Reply::of(self.end_with_forgotten(known_us, ends_us)))
    }

    fn unfreeze(&mut self, name: RequestName) -> Result<Reply, Fault> {
        self.begin_request();
        self.tables.settings.frozen_until_us.take().ok_or(Fault::WrongState)?;
        self.note_request(name);
        Ok(Reply::Nothing)
    }

    fn quarantine(&mut self) -> Result<Reply, Fault> {
        self.begin_request();
        let has_segments = !self.tables.segments.is_empty();
        let settings = &mut self.tables.settings;
        if settings.workers.is_none() && !has_segments {
            return Err(Fault::WrongState);
        }
        if !settings.is_started && settings.workers.is_some() {
            settings.is_started = true;
            settings.nothing_before_us = settings.nothing_before_us.max(self.clock.now_us);
        }
        self.enter_quarantine(true);
        Ok(Reply::of(self.wait_ends_us()))
    }

    fn end_quarantine(&mut self) -> Result<Reply, Fault> {
        self.begin_request();
        let settings = &mut self.tables.settings;
        if !settings.is_started && settings.waits_us <= 0 {
            return Err(Fault::WrongState);
        }
        (settings.waits_us, settings.numbers_wait_us) = (0, 0);
        (settings.is_proved, settings.is_witnessed) = (false, false);
        self.sign();
        Ok(Reply::Nothing)
    }
}

/// Whether the new pool has worker IDs that the old one does not have.
fn grows(old: Option<(u32, u32)>, new: Option<(u32, u32)>) -> bool {
    old.zip(new).is_some_and(|(old, new)| new.0 < old.0 || new.1 > old.1)
}

impl Reply {
    fn of(instant_us: Option<i64>) -> Reply {
        Reply::Instant(instant_us.unwrap_or(FOREVER))
    }
}
