//! Servers as the keeper sees them.

#![allow(dead_code)] // Not all who share them use all of them.

use snowflake_id_core::clock_sequence::SeenValues;
use snowflake_id_core::keeper_plan::{Past, Seen, Use, Uses};
use snowflake_id_core::{Identity, Lease};

pub const NOW_US: i64 = 1_000_000;
pub const MAX_DRIFT_US: i64 = 100;
pub const LEASE_US: i64 = 300;
pub const AHEAD_US: i64 = NOW_US + MAX_DRIFT_US + LEASE_US;

pub fn worker(worker: u32) -> Identity {
    Identity { datacenter: 0, worker }
}

/// The lease of a worker ID that the settings give.
pub fn settled(number: u32) -> Lease {
    Lease::for_good(worker(number))
}

pub fn used(number: u32, until_us: i64) -> Use {
    Use { identity: Some(worker(number)), until_us }
}

pub fn everybody(until_us: i64) -> Use {
    Use { identity: None, until_us }
}

/// A server that has just been started for the first time, and has worker ID 1.
pub fn new_server() -> Seen {
    Seen {
        now_us: NOW_US,
        max_drift_us: MAX_DRIFT_US,
        lease_us: LEASE_US,
        stored_us: None,
        is_elsewhere: false,
        uses: Uses::default(),
        values: SeenValues::default(),
        past: Past::default(),
        floor_us: None,
        end_of_use_us: 0,
        advance_to_us: None,
        wanted: Some(settled(1)),
        open_for: None,
        is_lease_inherited: false,
        is_clock_confirmed: false,
        is_anew_ordered: false,
        has_room_to_begin_anew: true,
        is_active: false,
        is_clock_good: true,
    }
}

/// One that has made IDs as worker 1 up to `NOW_US`, and goes on.
pub fn busy_server() -> Seen {
    let horizon_us = NOW_US + 50;
    Seen {
        stored_us: Some(horizon_us),
        uses: Uses(vec![used(1, 0)]),
        past: Past {
            published_us: horizon_us,
            promised_us: horizon_us,
            highest_us: horizon_us,
            last_identity: Some(worker(1)),
        },
        floor_us: Some(NOW_US - 5_000),
        end_of_use_us: NOW_US + 1,
        open_for: Some(settled(1)),
        is_active: true,
        ..new_server()
    }
}
