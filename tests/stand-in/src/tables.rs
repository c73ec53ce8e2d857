//! The tables of the registry.

use std::collections::BTreeMap;

use snowflake_id_core::Identity;
use uuid::Uuid;

use crate::Period;

/// PostgreSQL's infinity.
pub const FOREVER: i64 = i64::MAX;
/// PostgreSQL's -infinity.
pub(crate) const BEFORE_EVERYTHING: i64 = i64::MIN;

/// What the registry compares to notice that its server was started or promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub timeline: u32,
    pub started_us: i64,
}

/// The name of a call of an administrator on which others rely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestName(pub u32);

#[derive(Clone, Debug)]
pub struct Tables {
    pub settings: Settings,
    pub leases: BTreeMap<Identity, LeaseRow>,
    pub segments: BTreeMap<String, SegmentRow>,
    /// Whether the row of the settings was written by the registry itself: a restored dump was not.
    pub is_signed: bool,
    pub are_guards_on: bool,
}

/// The row of table `settings`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    pub registry_id: Uuid,
    pub lease_us: i64,
    pub longest_lease_us: i64,
    pub renew_every_us: i64,
    pub longest_renewal_us: i64,
    /// The pool of worker IDs.
    pub workers: Option<(u32, u32)>,
    pub last_datacenter: u32,
    pub synchronous: bool,
    pub place: Place,
    pub serial: u64,
    pub is_started: bool,
    pub nothing_before_us: i64,
    pub waits_us: i64,
    pub counted_at_us: Option<i64>,
    pub is_proved: bool,
    pub is_witnessed: bool,
    pub numbers_wait_us: i64,
    pub was_alone: bool,
    pub witnesses: bool,
    pub frozen_until_us: Option<i64>,
    pub requests: Vec<RequestName>,
}

/// A row of table `lease`.
#[derive(Clone, Debug)]
pub struct LeaseRow {
    pub from_us: i64,
    pub until_us: i64,
    pub lease_id: Option<Uuid>,
    pub nonce: Option<Uuid>,
    pub node_name: Option<String>,
    pub role: Option<String>,
    pub protocol: u32,
    pub acquired_at_us: i64,
    pub renewed_at_us: i64,
    pub is_renewed: bool,
    pub grant_count: u64,
    pub is_reserved: bool,
    pub reserved_for: Option<String>,
    /// The roles that said so, and when each last did.
    pub said_by_hand_us: BTreeMap<String, i64>,
    pub used_until_us: Option<i64>,
    pub released_until_us: Option<i64>,
}

/// A row of table `segment`. A number has one digit more than a `bigint`, because the value after the last number must
/// fit.
#[derive(Clone, Debug)]
pub struct SegmentRow {
    pub next: i128,
    pub start: i64,
    pub increment: i64,
    pub min_step: i64,
    pub max_step: i64,
    pub step: i64,
    pub max_value: i64,
    pub period: Option<Period>,
    pub period_key: Option<i64>,
    /// The next period, if numbers of it were taken: its prefix, and its lowest value that was not granted.
    pub ahead: Option<(i64, i128)>,
    pub has_left: bool,
    pub is_closed: bool,
    pub seen_until: Option<i128>,
    pub taken_at_us: Option<i64>,
    pub taken_by: Option<String>,
    pub is_dropped: bool,
    pub was_lost: bool,
    pub numbers_granted: i64,
}

impl SegmentRow {
    pub(crate) fn ahead_value(&self) -> Option<i128> {
        self.ahead.map(|(_, value)| value)
    }

    pub(crate) fn ahead_key(&self) -> Option<i64> {
        self.ahead.map(|(key, _)| key)
    }

    /// The value below which numbers may have been granted.
    pub fn end(&self) -> i128 {
        self.ahead_value().map_or(self.next, |ahead| ahead.max(self.next))
    }
}

impl Tables {
    pub(crate) fn new(registry_id: Uuid, place: Place) -> Tables {
        let settings = Settings {
            registry_id,
            lease_us: 600_000_000,
            longest_lease_us: 600_000_000,
            renew_every_us: 60_000_000,
            longest_renewal_us: 60_000_000,
            workers: None,
            last_datacenter: i32::MAX as u32,
            synchronous: false,
            place,
            serial: 0,
            is_started: false,
            nothing_before_us: BEFORE_EVERYTHING,
            waits_us: 0,
            counted_at_us: None,
            is_proved: false,
            is_witnessed: false,
            numbers_wait_us: 0,
            was_alone: false,
            witnesses: true,
            frozen_until_us: None,
            requests: vec![],
        };
        Tables {
            settings,
            leases: BTreeMap::new(),
            segments: BTreeMap::new(),
            is_signed: true,
            are_guards_on: true,
        }
    }

    /// The row of the lease with this ID.
    pub(crate) fn held(&mut self, lease_id: Uuid) -> Option<(Identity, &mut LeaseRow)> {
        let held = self.leases.iter_mut().find(|(_, row)| row.lease_id == Some(lease_id));
        held.map(|(identity, row)| (*identity, row))
    }

    /// Whether the registry has ever granted a worker ID.
    pub(crate) fn has_granted(&self) -> bool {
        self.leases.values().any(|row| row.grant_count > 0)
    }

    pub(crate) fn latest_end_us(&self) -> Option<i64> {
        self.leases.values().map(|row| row.until_us).max()
    }
}
