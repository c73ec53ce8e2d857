//! Reports the keeper's problems and warnings to administrators, in the log and in view `snowflake_status`.

use std::num::NonZeroU64;
use std::sync::atomic::Ordering;

use pgrx::prelude::*;
use snowflake_id_core::keeper_plan::GatePlan;
use snowflake_id_core::left::Departure;
use snowflake_id_core::message::instant;
use snowflake_id_core::{Field, Generator, Identity, Lease, RangeError};

use super::identity;
use super::store::Store;
use crate::config;
use crate::error::Error;
use crate::pg::relation::Extension;
use crate::pg::{clock, relation, server};
use crate::shared::keeper_words::{Closed, Misfit};
use crate::shared::lease::LeaseStatus;
use crate::shared::memory::State;
use crate::shared::report;

/// Records a problem, and logs it if it is new.
fn note(text: &str) {
    if report::report().error().as_deref() != Some(text) {
        log!("snowflake_id: {text}");
    }
    report::report_error(Some(text), clock::clock_us());
}

/// If the gate is closed, records the problem that keeps it closed.
pub fn complain(shared: &State, text: &str) {
    note(text);
    if shared.gate.identity().is_none() {
        shared.server_status.keeper.set_closed(Closed::Problem);
    }
}

/// Records a warning, and logs it if it is new.
fn warn(text: Option<&str>) {
    if report::report().warning().as_deref() != text {
        report::report_warning(text);
        if let Some(text) = text {
            ereport!(PgLogLevel::WARNING, PgSqlErrorCode::ERRCODE_WARNING, format!("snowflake_id: {text}"));
        }
    }
}

/// Publishes the problem and the warning of the server after a cycle.
pub fn tell(
    shared: &State,
    gate: GatePlan,
    warning: Option<&str>,
    jump_us: Option<i64>,
    refusal: Option<String>,
    registry_problem: Option<String>,
) {
    warn(warning);
    let is_refused = matches!(gate, GatePlan::Refuse { .. }) || refusal.is_some();
    let problem = match (jump_us, gate) {
        // Check for a clock jump first. A clock jump that the keeper does not follow can be the only reason for
        // refusing the identity.
        (Some(jump_us), _) => Some(format!("the clock has jumped ahead by {} s", jump_us / 1_000_000)),
        (None, GatePlan::Refuse { identity, until_us }) => {
            let until = instant(until_us);
            Some(match config::registry() {
                Some(_) => format!(
                    "this server may have used {identity} for times up to {until}, and waits until then, or until the registry leases another worker ID to it"
                ),
                None => format!(
                    "this server may have used {identity} for times up to {until}: set snowflake_id.worker_id (or the row in table snowflake_workers) to a worker ID that no server has had and no registry may lease"
                ),
            })
        }
        _ => refusal.or(registry_problem).or_else(|| shared.gate.identity().and_then(misfit)),
    };
    shared.server_status.keeper.has_succeeded.store(true, Ordering::Relaxed);
    match problem {
        // The state already says that the identity is refused.
        Some(text) if is_refused => note(&text),
        Some(text) => complain(shared, &text),
        None => report::report_error(None, 0),
    }
}

/// Returns the reason why an identity that is set by hand is refused. `lease` is the former lease, which the server may
/// use until the lease ends.
pub fn refusal(identity: Identity, departure: Departure, lease: Option<Lease>) -> String {
    let until = lease.map_or_else(String::new, |lease| {
        format!(
            "; until {}, this server uses its former lease of {}",
            instant(lease.until_us),
            lease.identity
        )
    });
    format!(
        "{identity} belongs to registry {} since {}: this server, or the server of which it is a copy, has leased it there or left it for that registry; set snowflake_id.registry, or set snowflake_id.worker_id (or the row in table snowflake_workers) to a worker ID that no server has had and no registry may lease{until}",
        departure.registry_id,
        instant(departure.since_us)
    )
}

/// Returns a warning to show on a standby if `snowflake_id.registry` is empty on the standby although the primary uses
/// leased identities. There is no warning if an identity is set by hand that was not left to a registry.
pub fn standby_warning() -> Option<String> {
    if config::registry().is_some() || server::current_database() != Some(config::database()) {
        return None;
    }
    let extension = Extension::find(c"snowflake_id")?;
    let left = Store::left_if_free(extension)?;
    let Departure { registry_id, .. } = left.latest()?;
    let by_hand = match config::identity() {
        None => identity::row_if_free(extension)?,
        setting => setting,
    };
    by_hand.is_none_or(|identity| left.get(identity).is_some()).then(|| {
        format!(
            "this standby cannot issue IDs after a promotion: its primary leases worker IDs from registry {registry_id}, but snowflake_id.registry is empty on the standby"
        )
    })
}

/// Returns a warning if the registry has leased an identity that differs from the identity that is set by hand. A
/// warning about the lease takes precedence.
pub fn unused_by_hand(by_hand: Option<Identity>, lease_status: &LeaseStatus) -> Option<String> {
    let (by_hand, leased) = by_hand.zip(lease_status.lease)?;
    (by_hand != leased.identity && lease_status.warning().is_none()).then(|| {
        format!(
            "this server does not use {by_hand}, which snowflake_id.worker_id or table snowflake_workers specifies, because the registry has leased {} to it",
            leased.identity
        )
    })
}

/// Publishes whether the identity and the clock fit the server's default layout. Must be called before the gate is
/// opened. Otherwise, the state of the server would be "ready" for a moment. If a registry is set but the server has no
/// identity to use, the datacenter ID in the settings is checked instead of an identity, because the server requests no
/// lease for a datacenter ID that does not fit.
pub fn note_misfit(shared: &State, wanted: Option<Lease>) {
    let asked_for = || Identity { datacenter: config::datacenter_id(), worker: 0 };
    let is_leased = config::registry().is_some();
    let identity = wanted.map(|lease| lease.identity).or_else(|| is_leased.then(asked_for));
    let check = |identity: Identity| {
        let layout = config::valid_layout()?;
        layout.check_identity(identity).and_then(|()| layout.tick_at(clock::clock_us()).map(drop)).err()
    };
    shared.server_status.keeper.set_misfit(identity.and_then(check).map(|problem| match problem {
        RangeError::Field { field: Field::Datacenter, .. } => Misfit::Datacenter,
        RangeError::Time { unix_us, from_us, .. } if unix_us < from_us => Misfit::Epoch,
        RangeError::Time { .. } => Misfit::End,
        _ => Misfit::Worker,
    }));
}

/// Returns a warning about a condition that an administrator should fix although IDs can be issued.
pub fn risk(store: &Store) -> Option<String> {
    let schema = store.extension.schema()?;
    (!relation::belongs_to_superusers(schema, store.horizon)).then(|| {
        format!(
            "database \"{}\" (snowflake_id.database), the schema of the extension, or a relation of the extension is owned by a role that is not a superuser; that role can stop IDs on the whole server",
            config::database().to_string_lossy()
        )
    })
}

/// Returns the reason why `identity` does not fit the server's default layout, or `None` if the identity
/// fits. The keeper opens the gate even if the identity does not fit, because the identity may fit other
/// layouts.
fn misfit(identity: Identity) -> Option<String> {
    let layout = config::valid_layout()?;
    let generator = match Generator::new(layout, identity, 0, 0) {
        Ok(generator) => generator,
        Err(problem) => return Some(layout.explain_misfit(&problem)),
    };
    let stall = generator.wait_us(0, clock::clock_us(), NonZeroU64::MIN).err()?;
    let problem = Error::unless_it_passes(&layout, stall).err()?;
    Some(format!("{}: snowflake_id.layout \"{}\"", problem.texts().message, layout.label()))
}
