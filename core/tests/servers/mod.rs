//! Servers as the keeper sees them.

#![allow(dead_code)] // Not all tests that share the functions use all of them.

use snowflake_id_core::keeper_plan::{Plan, Seen};
use snowflake_id_core::track::{Begun, Horizon, Track};
use snowflake_id_core::used::{History, Scope, Use, Uses};
use snowflake_id_core::{Identity, Lease};

pub const NOW_US: i64 = 1_000_000;
pub const MAX_AHEAD_US: i64 = 100;
pub const HORIZON_MARGIN_US: i64 = 300;
pub const AHEAD_US: i64 = NOW_US + MAX_AHEAD_US + HORIZON_MARGIN_US;

pub fn worker(worker: u32) -> Identity {
    Identity { datacenter: 0, worker }
}

/// The lease of a worker ID from the settings.
pub fn settled(number: u32) -> Lease {
    Lease::for_good(worker(number))
}

pub fn used(number: u32, until_us: i64) -> Use {
    Use { identity: Some(worker(number)), scope: Scope::ZERO, until_us }
}

pub fn everybody(until_us: i64) -> Use {
    Use { identity: None, scope: Scope::ZERO, until_us }
}

/// The records about value 0.
pub fn of_zero(records: &[Use]) -> Vec<Use> {
    records.iter().filter(|record| record.scope == Scope::ZERO).copied().collect()
}

/// The floor of slots without another value, according to a plan.
pub fn floor_us(plan: &Plan) -> i64 {
    plan.tracks[0].begun.floor_us
}

pub fn horizon_us(plan: &Plan) -> Option<i64> {
    plan.tracks[0].horizon.map(|horizon| horizon.until_us())
}

impl Change for Seen {}

/// Makes changed copies of a server.
pub trait Change: Clone {
    fn with(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut changed = self.clone();
        change(&mut changed);
        changed
    }
}

/// The stored horizon of value 0, when nothing else is known.
pub fn stored(until_us: i64) -> [Track; 2] {
    [track(until_us, 0, None, 0), Track::default()]
}

/// A track for value 0.
pub fn track(stored_us: i64, published_us: i64, floor_us: Option<i64>, end_of_use_us: i64) -> Track {
    let [stored, published] = [stored_us, published_us].map(|until_us| Horizon::new(0, until_us));
    let begun = floor_us.map(|floor_us| Begun { value: 0, floor_us });
    Track { begun, stored, published, promised: published, end_of_use_us }
}

/// A server that has just been started for the first time, and has worker ID 1.
pub fn new_server() -> Seen {
    Seen {
        now_us: NOW_US,
        max_ahead_us: MAX_AHEAD_US,
        horizon_margin_us: HORIZON_MARGIN_US,
        tracks: Default::default(),
        is_elsewhere: false,
        copied_us: 0,
        uses: Uses::default(),
        history: History::default(),
        raise_floor_to_us: None,
        wanted: Some(settled(1)),
        open_for: None,
        is_lease_inherited: false,
        is_clock_confirmed: false,
        is_reset_requested: false,
        has_room_for_reset: true,
        is_active: false,
        is_clock_good: true,
    }
}

/// A server that has issued IDs as worker 1 up to `NOW_US`, and continues.
pub fn busy_server() -> Seen {
    let horizon_us = NOW_US + 50;
    Seen {
        tracks: [
            track(horizon_us, horizon_us, Some(NOW_US - 5_000), NOW_US + 1),
            Track { begun: Some(Begun::NONE), ..Track::default() },
        ],
        uses: Uses::from_iter([used(1, 0)]),
        history: History { highest_us: horizon_us, last_identity: Some(worker(1)) },
        open_for: Some(settled(1)),
        is_active: true,
        ..new_server()
    }
}
