//! The border between the compact state of the model and the types of the product. The code of the product is called
//! here.

use std::cell::Cell;

use snowflake_id_core::keeper_plan::{self, GatePlan, Seen};
use snowflake_id_core::lease_state::{Asking, Evidence, Held as ProductHeld, LeaseState};
use snowflake_id_core::track::{Begun, Horizon, TRACKS, Track};
use snowflake_id_core::used::{History, Scope, Use, Uses};
use snowflake_id_core::{Identity as ProductIdentity, Lease as ProductLease};
use uuid::Uuid;

use crate::lease::names::{UNUSED, UNUSED_TOO};
use crate::lease::state::*;

/// The length of a tick: more than any bound by which the product tells near from far.
pub const TICK_US: i64 = 20_000_000;
/// The beginning of time. It is not 0, which has a special meaning.
const BEGIN_US: i64 = 1_700_000_000_000_000;

pub fn instant_us(instant: Instant) -> i64 {
    match instant {
        0 => 0,
        instant => BEGIN_US + i64::from((instant - 1) / 2) * TICK_US + i64::from((instant - 1) % 2),
    }
}

/// # Panics
/// Panics if the product returns an instant that the model does not have.
pub fn instant_of(us: i64) -> Instant {
    if us == 0 {
        return 0;
    }
    let (ticks, rest) = ((us - BEGIN_US).div_euclid(TICK_US), (us - BEGIN_US).rem_euclid(TICK_US));
    let instant = u8::try_from(2 * ticks + rest + 1).ok().filter(|_| rest < 2);
    instant.unwrap_or_else(|| panic!("bug: the model has no instant {us}"))
}

pub fn identity_to_product(identity: Identity) -> ProductIdentity {
    ProductIdentity { datacenter: 0, worker: identity.into() }
}

fn identity_of(identity: ProductIdentity) -> Identity {
    identity.worker as Identity
}

impl Lease {
    pub fn to_product(self) -> ProductLease {
        let [from_us, until_us] = [self.from, self.until].map(|tick| instant_us(start_of(tick)));
        ProductLease { identity: identity_to_product(self.identity), from_us, until_us }
    }

    pub fn of(lease: &ProductLease) -> Lease {
        let [from, until] = [lease.from_us, lease.until_us].map(|us| first_tick_from(instant_of(us)));
        Lease { identity: identity_of(lease.identity), from, until }
    }

    pub fn is_same(&self, other: &Lease) -> bool {
        self.to_product().is_same_range(&other.to_product())
    }
}

fn uuid(name: Name) -> Uuid {
    Uuid::from_u128(name.into())
}

fn name_of(uuid: Uuid) -> Name {
    uuid.as_u128() as Name
}

/// Returns a generator of two unused names.
pub fn new_token() -> impl Fn() -> Uuid {
    let made = Cell::new(0);
    move || uuid([UNUSED, UNUSED_TOO][made.replace(made.get() + 1)])
}

impl File {
    pub fn to_product(self) -> LeaseState {
        let held = self.held.map(|held| ProductHeld {
            lease: held.lease.to_product(),
            lease_id: uuid(held.lease_id),
            last_nonce: uuid(held.last),
            next_nonce: uuid(held.next),
        });
        let proved = held.iter().filter(|_| self.is_proved);
        let evidence = proved.map(|held| Evidence { lease: held.lease, token: String::new() }).collect();
        let asking =
            self.asking.map(|(lease_id, nonce)| Asking { lease_id: uuid(lease_id), nonce: uuid(nonce) });
        LeaseState { registry_id: None, held, asking, evidence }
    }

    fn of(state: &LeaseState) -> File {
        let held = state.held.as_ref().map(|held| Held {
            lease: Lease::of(&held.lease),
            lease_id: name_of(held.lease_id),
            last: name_of(held.last_nonce),
            next: name_of(held.next_nonce),
        });
        let asking = state.asking.as_ref().map(|asking| (name_of(asking.lease_id), name_of(asking.nonce)));
        File { held, is_proved: state.is_proved(), asking }
    }

    /// Changes the server's knowledge of its leases by a function of the product.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut LeaseState) -> T) -> T {
        let mut state = self.to_product();
        let result = change(&mut state);
        *self = File::of(&state);
        result
    }

    /// The lease to publish for the keeper, by a clock of the server.
    pub fn lease_at(&self, clock: u8) -> Option<Lease> {
        self.to_product().lease_at(instant_us(start_of(clock))).map(|lease| Lease::of(&lease))
    }
}

impl Stored {
    pub fn uses(&self) -> Uses {
        let record = |identity, until: Option<Instant>| {
            Some(Use { identity, scope: Scope::ZERO, until_us: instant_us(until?) })
        };
        let own = self.uses.iter().enumerate();
        let own = own.filter_map(|(at, &until)| record(Some(identity_to_product(at as Identity)), until));
        own.chain(record(None, self.uses_of_all)).collect()
    }

    /// Stores records. Those of other values of the clock sequence are left out, because the model has none.
    pub fn add(&mut self, records: impl IntoIterator<Item = Use>) {
        for Use { identity, scope, until_us } in self.uses().add(records) {
            if scope == Scope::ZERO {
                let place = match identity {
                    Some(identity) => self.uses.get_mut(usize::from(identity_of(identity))),
                    None => Some(&mut self.uses_of_all),
                };
                place.into_iter().for_each(|place| *place = Some(instant_of(until_us)));
            }
        }
    }
}

/// A possible cause of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Nothing,
    /// The registry has confirmed the clock.
    ClockConfirmed,
    /// An administrator has requested it.
    Requested,
}

impl Server {
    pub fn history(&self) -> History {
        // Read together with the stored data: see `Store::read()`.
        let latest_us = self.stored.uses().latest_us().max(instant_us(self.stored.horizon));
        History {
            highest_us: latest_us.max(instant_us(self.highest)),
            last_identity: self.last.map(identity_to_product),
        }
    }

    pub fn tracks(&self) -> [Track; TRACKS] {
        let horizon = |instant| Horizon::new(0, instant_us(instant));
        let begun = self.floor.map(|floor| Begun { value: 0, floor_us: instant_us(floor) });
        let first = Track {
            begun,
            stored: horizon(self.stored.horizon),
            published: horizon(self.published),
            promised: horizon(self.promised),
            end_of_use_us: instant_us(self.used),
        };
        [first, Track { begun: begun.map(|_| Begun::NONE), ..Track::default() }]
    }

    /// The input of the keeper's plan, as `store_plan()` of the extension collects it.
    pub fn seen(&self, clock: u8, margin_us: i64, cause: Cause) -> Seen {
        Seen {
            now_us: instant_us(start_of(clock)),
            max_ahead_us: 0,
            horizon_margin_us: margin_us,
            tracks: self.tracks(),
            is_elsewhere: false,
            copied_us: 0,
            uses: self.stored.uses(),
            history: self.history(),
            raise_floor_to_us: None,
            wanted: self.server_status.map(|published| published.lease.to_product()),
            open_for: self.gate.and(self.in_force).map(|published| published.lease.to_product()),
            is_lease_inherited: self.server_status.is_some_and(|published| published.is_inherited),
            is_clock_confirmed: cause == Cause::ClockConfirmed,
            is_reset_requested: cause == Cause::Requested,
            has_room_for_reset: true,
            is_active: true,
            is_clock_good: true,
        }
    }
}

impl Plan {
    pub fn of(plan: &keeper_plan::Plan, wanted: Option<Published>) -> Plan {
        let track = &plan.tracks[0];
        Plan {
            floor: instant_of(track.begun.floor_us),
            horizon: track.horizon.map(|horizon| instant_of(horizon.until_us())),
            from: instant_of(track.from_us),
            gate: match plan.gate {
                GatePlan::Stay => Gate::Stay,
                GatePlan::Open { is_another, .. } => Gate::Open { is_another },
                GatePlan::Reset(_) => Gate::Reset,
                GatePlan::Close | GatePlan::Refuse { .. } => Gate::Close,
            },
            wanted,
        }
    }
}
