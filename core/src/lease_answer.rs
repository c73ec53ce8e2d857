//! [`Answer`]: the registry's answer to a request for a lease, and [`Terms`]: what the answers say about the
//! registry.
//!
//! An answer may come from a server that is not a registry, so every value is checked.
//!
//! All times are in microseconds of Unix time.

use std::ops::RangeInclusive;
use std::time::Duration;

use uuid::Uuid;

use crate::identity::Identity;
use crate::lease::Lease;
use crate::lease_state::Outcome;
use crate::message::instant;
use crate::protocol::{Mismatch, Protocol};
use crate::reply::{NOT_VALID, Reply};

/// The maximum length of a token, in bytes. A longer token is ignored.
pub const LONGEST_TOKEN: usize = 400;
/// The maximum difference between the clocks of a server and the registry. If the difference is larger, the
/// registry grants no lease. Therefore, the start of a lease is never ahead of the server's clock by more
/// than this difference.
pub const MOST_CLOCK_DIFFERENCE_US: i64 = 60_000_000;
/// The minimum duration of a lease. The registry enforces this limit and the next two limits for its
/// settings.
const SHORTEST_LEASE_US: i64 = 1_000_000;
const LONGEST_LEASE_US: i64 = 24 * 60 * 60 * 1_000_000;
const SHORTEST_RENEWAL_US: i64 = 100_000;
/// The interval between renewals until the registry specifies one.
const RENEW_EVERY: Duration = Duration::from_secs(30);

/// The registry's answer to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whether the request was granted.
    pub outcome: Outcome,
    /// The lowest and the highest protocol of the registry, or `None` if the registry does not specify them.
    pub protocols: Option<RangeInclusive<u32>>,
    /// The registry's clock.
    pub registry_clock_us: i64,
    /// The registry's ID and settings, or `None` if the registry has not been started yet.
    pub registry: Option<Registry>,
    /// Details for administrators.
    pub detail: Option<String>,
    /// A signed token that proves the lease that was current before this answer.
    pub token: Option<String>,
}

/// The registry's ID and settings. The settings are within the limits that the registry enforces.
#[derive(Clone, Copy, Debug)]
pub struct Registry {
    /// The ID of the registry.
    pub id: Uuid,
    /// The duration of a lease.
    pub lease_us: i64,
    /// The interval at which a server should renew its lease.
    pub renew_every_us: i64,
}

impl Answer {
    /// Reads an answer that was received at `now_us`.
    ///
    /// # Errors
    /// Returns the reason why the answer is invalid, or the reason why no registry can have granted the
    /// range.
    pub fn read(reply: &Reply, now_us: i64) -> Result<Answer, String> {
        let lease = || {
            let part = |column| u32::try_from(reply.number(column)?).ok();
            let identity = Identity { datacenter: part("datacenter_id")?, worker: part("worker_id")? };
            let (from_us, until_us) = (reply.number("granted_from")?, reply.number("granted_until")?);
            let lease = Lease { identity, from_us, until_us };
            (identity.is_possible() && lease.from_us > 0 && !lease.is_for_good()).then_some(lease)
        };
        let outcome = match reply.text("outcome") {
            Some("granted") => lease().map(Outcome::Granted),
            Some("unknown") => Some(Outcome::Unknown),
            Some("twin") => Some(Outcome::Twin),
            Some("taken") => Some(Outcome::Taken { free_from_us: reply.number("free_from").unwrap_or(0) }),
            Some("not started") => Some(Outcome::NotStarted),
            Some("quarantine") => Some(Outcome::Quarantine),
            Some("clock") => Some(Outcome::ClockDiffers),
            Some("foreign") => Some(Outcome::Foreign),
            Some("released") => Some(Outcome::Released),
            other => other.and_then(Mismatch::read).map(Outcome::Mismatch),
        };
        let registry = || {
            let lease_us = reply.number("lease")?.clamp(SHORTEST_LEASE_US, LONGEST_LEASE_US);
            let renew_every_us = reply.number("renew_every")?.clamp(SHORTEST_RENEWAL_US, lease_us / 2);
            Some(Registry { id: reply.text("registry_id")?.parse().ok()?, lease_us, renew_every_us })
        };
        let read = || {
            Some(Answer {
                outcome: outcome?,
                protocols: reply.protocols(),
                registry_clock_us: reply.number("registry_clock")?,
                registry: registry(),
                detail: reply.text("detail").map(str::to_owned),
                token: reply.token(LONGEST_TOKEN),
            })
        };
        let answer = read().ok_or(NOT_VALID)?;
        match answer.outcome {
            Outcome::Granted(lease) if !is_credible(&lease, now_us) => {
                let until = instant(lease.until_us);
                Err(format!("the registry granted an invalid range, which ends at {until}"))
            }
            _ => Ok(answer),
        }
    }
}

fn is_credible(lease: &Lease, now_us: i64) -> bool {
    let latest_us = now_us.saturating_add(LONGEST_LEASE_US + MOST_CLOCK_DIFFERENCE_US);
    lease.from_us < lease.until_us && lease.until_us <= latest_us
}

/// The facts about the registry that a server has learned from its answers.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// The protocol of the next request. [`Protocol::note`] chooses it after each answer.
    pub protocol: Protocol,
    /// The duration of a lease, or 0 if the duration is unknown.
    pub lease_us: i64,
    /// The interval between renewals.
    pub renew_every: Duration,
    /// The difference between this server's clock and the registry's clock. A positive offset means that this
    /// server's clock is ahead.
    pub clock_offset_us: Option<i64>,
    /// The round-trip time of the last query.
    pub round_trip_us: i64,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms {
            protocol: Protocol::default(),
            lease_us: 0,
            renew_every: RENEW_EVERY,
            clock_offset_us: None,
            round_trip_us: 0,
        }
    }
}

impl Terms {
    /// Returns the absolute difference between the clocks of the holder and the registry, or 0 if the
    /// difference is unknown.
    pub fn clock_offset(&self) -> Duration {
        Duration::from_micros(self.clock_offset_us.unwrap_or(0).unsigned_abs())
    }

    /// Records the terms in an answer. `sent_us` is the time at which this server sent the query. Returns
    /// whether the query has to be sent once more (see [`Protocol::note`]).
    pub fn note(&mut self, answer: &Answer, sent_us: i64, round_trip_us: i64) -> bool {
        self.round_trip_us = round_trip_us;
        if let (Some(registry), true) = (&answer.registry, answer.outcome != Outcome::Foreign) {
            self.lease_us = registry.lease_us;
            self.renew_every = Duration::from_micros(registry.renew_every_us.unsigned_abs());
        }
        let offset_us = (sent_us + round_trip_us / 2).saturating_sub(answer.registry_clock_us);
        self.clock_offset_us = Some(offset_us);
        self.protocol.note(matches!(answer.outcome, Outcome::Mismatch(_)), answer.protocols.clone())
    }
}
