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
            Administration::StartFleet { not_before_us } => self.start_fleet(*not_before_us),
            Administration::EndFleet => self.end_fleet(),
            Administration::RequireProtocol { lowest } => self.require_protocol(*lowest),
            Administration::Configure { .. } => self.configure(call),
            Administration::RevokeLease(identity) => self.revoke_lease(*identity),
            Administration::Reserve { identity, name } => Ok(self.reserve(*identity, *name)),
            Administration::Freeze { until_us, name } => self.freeze(*until_us, *name),
            Administration::Unfreeze { name } => self.unfreeze(*name),
            Administration::Quarantine => Ok(self.quarantine()),
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

    fn start_fleet(&mut self, not_before_us: Option<i64>) -> Result<Reply, Fault> {
        if not_before_us > Some(self.clock.now_us + DAY_US) {
            return Err(Fault::InvalidValue);
        }
        self.begin_request();
        if self.tables.has_granted() {
            return Err(Fault::WrongState);
        }
        let settings = &mut self.tables.settings;
        let floor_us = not_before_us.map_or(self.clock.now_us, |us| us.max(self.clock.now_us));
        settings.nothing_before_us = settings.nothing_before_us.max(floor_us);
        settings.is_started = true;
        self.sign();
        Ok(Reply::Nothing)
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
        } = call
        else {
            return Ok(Reply::Nothing);
        };
        self.begin_request();
        let settings = &mut self.tables.settings;
        let lease_us = lease_us.unwrap_or(settings.lease_us);
        let renew_every_us = renew_every_us.unwrap_or(settings.renew_every_us);
        let first_worker = first_worker.unwrap_or(settings.first_worker);
        let last_worker = last_worker.unwrap_or(settings.last_worker);
        if !(1_000_000..=DAY_US).contains(&lease_us)
            || renew_every_us < 100_000
            || renew_every_us * 2 > lease_us
            || last_worker < first_worker
        {
            return Err(Fault::InvalidValue);
        }
        settings.longest_lease_us = settings.longest_lease_us.max(lease_us);
        settings.lease_us = lease_us;
        settings.renew_every_us = renew_every_us;
        (settings.first_worker, settings.last_worker) = (first_worker, last_worker);
        settings.last_datacenter = last_datacenter.unwrap_or(settings.last_datacenter);
        settings.synchronous = synchronous.unwrap_or(settings.synchronous);
        settings.witnesses = witnesses.unwrap_or(settings.witnesses);
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

    fn reserve(&mut self, identity: Identity, name: RequestName) -> Reply {
        let moment_us = self.clock.now_us;
        self.begin_request();
        let row = self.tables.leases.entry(identity);
        row.or_insert(LeaseRow::unheld(moment_us, moment_us, moment_us)).is_reserved = true;
        self.note_request(name);
        Reply::Nothing
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

    fn quarantine(&mut self) -> Reply {
        self.begin_request();
        let settings = &mut self.tables.settings;
        if !settings.is_started {
            settings.is_started = true;
            settings.nothing_before_us = settings.nothing_before_us.max(self.clock.now_us);
        }
        self.enter_quarantine();
        Reply::of(self.wait_ends_us())
    }

    fn end_quarantine(&mut self) -> Result<Reply, Fault> {
        self.begin_request();
        let settings = &mut self.tables.settings;
        if !settings.is_started && settings.waits_us <= 0 {
            return Err(Fault::WrongState);
        }
        settings.waits_us = 0;
        (settings.is_proved, settings.is_witnessed) = (false, false);
        self.sign();
        Ok(Reply::Nothing)
    }
}

impl Reply {
    fn of(instant_us: Option<i64>) -> Reply {
        Reply::Instant(instant_us.unwrap_or(FOREVER))
    }
}
