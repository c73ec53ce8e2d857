//! The border between the compact state of the model and the types of the product. The code of the product is called
//! here.

use std::num::NonZeroU64;

use snowflake_id_core::lease_state::{Evidence, Held, LeaseState};
use snowflake_id_core::segment::{NEVER_ENDS, Range as ProductRange, Segment as ProductSegment};
use snowflake_id_core::{Identity, Lease};
use uuid::Uuid;

use crate::forgetting::state::*;

const TICK_US: i64 = 60 * 60 * 1_000_000;
const BEGIN_US: i64 = 1_700_000_000_000_000;

fn instant_us(tick: u8) -> i64 {
    BEGIN_US + i64::from(tick) * TICK_US
}

fn tick_of(us: i64) -> u8 {
    ((us - BEGIN_US) / TICK_US) as u8
}

fn lease_of(range: Range) -> Lease {
    let identity = Identity { datacenter: 0, worker: 0 };
    Lease { identity, from_us: instant_us(range.from), until_us: instant_us(range.until) }
}

fn range_of(lease: &Lease) -> Range {
    Range { from: tick_of(lease.from_us), until: tick_of(lease.until_us) }
}

fn no_name() -> Uuid {
    Uuid::nil() // Names are part of the model of the lease.
}

impl Token {
    fn text(self) -> String {
        let frozen = self.frozen_until.map_or(String::new(), |until| until.to_string());
        format!("{}/{frozen}", self.grants)
    }

    fn of(evidence: &Evidence) -> Option<Token> {
        let (grants, frozen) = evidence.token.split_once('/')?;
        Some(Token {
            grants: grants.parse().ok()?,
            range: range_of(&evidence.lease),
            frozen_until: frozen.parse().ok(),
        })
    }
}

impl Server {
    fn lease_state(&self) -> LeaseState {
        let held = self.held.map(|range| Held {
            lease: lease_of(range),
            lease_id: no_name(),
            last_nonce: no_name(),
            next_nonce: no_name(),
        });
        let evidence = self.token.map(|token| Evidence { lease: lease_of(token.range), token: token.text() });
        LeaseState { held, evidence: evidence.into_iter().collect(), ..LeaseState::default() }
    }

    /// Accepts a grant or a renewal with the registry's signature. Returns whether the lease is used. Of all tokens
    /// that a server can show, only the newest is kept, because it proves more grants than the others.
    pub fn take_grant(&mut self, range: Range, is_renewal: bool, token: Option<Token>, clock: u8) -> bool {
        let mut state = self.lease_state();
        if is_renewal {
            state.renew(lease_of(range), no_name);
        } else {
            state.ask(no_name);
            state.hold(lease_of(range), no_name);
        }
        if let Some(token) = token {
            state.prove(token.text(), instant_us(clock));
        }
        self.held = state.held.as_ref().map(|held| range_of(&held.lease));
        self.token = state.evidence.first().and_then(Token::of);
        state.lease_at(instant_us(range.from)).is_some()
    }
}

fn to_product(numbers: Numbers) -> ProductRange {
    let Numbers { first, count } = numbers;
    ProductRange { first: first.into(), increment: 1, count: count.into(), ends_us: NEVER_ENDS }
}

fn numbers_of(range: ProductRange) -> Numbers {
    Numbers { first: range.first as u8, count: range.count as u8 }
}

impl Segment {
    /// Publishes a range, if there is one, and takes a number.
    pub fn draw(&mut self, granted: Option<Numbers>) -> Option<u8> {
        let segment = ProductSegment::default();
        let publish = |numbers| segment.publish(to_product(numbers), 1).expect("bug: no place for a range");
        self.current.into_iter().for_each(publish);
        if let Some(gone) = NonZeroU64::new(self.gone.into()) {
            segment.take(|| 0, gone).expect("bug: they were there before");
        }
        self.next.into_iter().chain(granted).for_each(publish);
        let number = segment.take(|| 0, NonZeroU64::MIN).ok()?.first;
        let standing = segment.standing();
        *self = match standing.left {
            0 => Segment::default(),
            _ => Segment {
                current: standing.current.map(numbers_of),
                gone: standing.offset as u8,
                next: standing.next.map(numbers_of),
            },
        };
        Some(number as u8)
    }
}
