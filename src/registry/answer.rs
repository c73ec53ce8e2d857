//! Parsing of the registry's answers.

use snowflake_id_core::lease_state::Outcome;
use snowflake_id_core::{Identity, Lease};
use uuid::Uuid;

use crate::pg::libpq::Row;

/// The columns of an answer. Instants and durations are in microseconds.
pub const COLUMNS: &str = "outcome, datacenter_id, worker_id, granted_from, granted_until, registry_id, registry_clock, lease, renew_every, free_from, detail, token";

/// The registry's answer to a request.
pub struct Answer {
    pub outcome: Outcome,
    pub registry_clock_us: i64,
    /// The registry's ID and settings, or `None` if the registry has not been started yet.
    pub registry: Option<Registry>,
    /// Details for administrators.
    pub detail: Option<String>,
    /// A signed token that proves the lease that was current before this answer.
    pub token: Option<String>,
}

/// The maximum length of a token, in bytes. A longer token is ignored.
const LONGEST_TOKEN: usize = 400;

/// The registry's ID and settings.
pub struct Registry {
    pub id: Uuid,
    /// The duration of a lease.
    pub lease_us: i64,
    /// The interval at which a server should renew its lease.
    pub renew_every_us: i64,
}

impl Answer {
    /// Reads an answer from a row, or returns the reason why the row is invalid.
    pub fn read(row: &Row) -> Result<Answer, String> {
        let text = |at: usize| row.get(at)?.as_deref();
        let number = |at: usize| text(at)?.parse::<i64>().ok();
        let lease = || {
            let part = |at| u32::try_from(number(at)?).ok();
            let identity = Identity { datacenter: part(1)?, worker: part(2)? };
            let lease = Lease { identity, from_us: number(3)?, until_us: number(4)? };
            (identity.is_possible() && lease.from_us > 0 && !lease.is_for_good()).then_some(lease)
        };
        let outcome = match text(0) {
            Some("granted") => lease().map(Outcome::Granted),
            Some("unknown") => Some(Outcome::Unknown),
            Some("twin") => Some(Outcome::Twin),
            Some("taken") => Some(Outcome::Taken { free_from_us: number(9).unwrap_or(0) }),
            Some("not started") => Some(Outcome::NotStarted),
            Some("quarantine") => Some(Outcome::Quarantine),
            Some("clock") => Some(Outcome::ClockDiffers),
            Some("foreign") => Some(Outcome::Foreign),
            _ => None,
        };
        let registry = || {
            Some(Registry { id: text(5)?.parse().ok()?, lease_us: number(7)?, renew_every_us: number(8)? })
        };
        let read = || {
            Some(Answer {
                outcome: outcome?,
                registry_clock_us: number(6)?,
                registry: registry(),
                detail: text(10).map(str::to_owned),
                token: text(11).filter(|token| token.len() <= LONGEST_TOKEN).map(str::to_owned),
            })
        };
        read()
            .ok_or_else(|| "the registry's reply is not valid: the registry may have a newer version".into())
    }
}
