//! What outlives the server: its horizon, and under which identities it has made IDs.
//!
//! | relation | what is in it |
//! | --- | --- |
//! | sequence `snowflake_internal.horizon` | its last value is the horizon, in microseconds of Unix time |
//! | materialized view `snowflake_internal.used_identity` | records of use: see [`Use`] |
//!
//! A `setval()` is written to the WAL and is not undone by a rollback. It is durable once the transaction is
//! committed, not before: a value that can be read may yet be lost by a crash.
//!
//! Both are written to the WAL, replicated to physical standbys, and carried over by base backups and
//! `pg_upgrade`. Neither is part of a dump or of a publication, also one `FOR ALL TABLES`: they are facts
//! about one server, and another one must not receive them. That is why the records are a materialized view
//! rather than a table. It also means that nobody can change its rows by SQL. (To refresh it, which its owner
//! may, empties it. The keeper notices that records are gone.)

use pgrx::IntoDatum;
use pgrx::prelude::*;
use snowflake_id_core::Identity;
use snowflake_id_core::keeper_plan::{Use, Uses};

use super::transaction::Problem;
use crate::config;
use crate::pg::relation::{self, Extension, Kind, Relation};
use crate::pg::server;
use crate::shared::memory;
use crate::shared::memory::State;

/// The relations, locked until the end of the transaction.
pub struct Store {
    pub extension: Extension,
    pub horizon: Relation,
    used_identity: Relation,
}

impl Store {
    /// Finds and locks them; `None` if the extension is not in this database.
    pub fn lock() -> Option<Store> {
        let extension = Extension::find(c"snowflake_id")?;
        let schema = relation::schema(c"snowflake_internal")?;
        Some(Store {
            extension,
            horizon: extension.lock(schema, c"horizon", Kind::Sequence)?,
            used_identity: extension.lock(schema, c"used_identity", Kind::MaterializedView)?,
        })
    }

    /// The same, or the problem to report.
    pub fn lock_or_report() -> Result<Store, Problem> {
        Store::lock().ok_or_else(|| {
            Problem(format!(
                "extension snowflake_id is not in database \"{}\" (snowflake_id.database): run CREATE EXTENSION snowflake_id there",
                config::database().to_string_lossy()
            ))
        })
    }

    /// The OIDs of the database and of the sequence.
    pub fn place(&self) -> (u32, u32) {
        (server::database_oid().to_u32(), self.horizon.oid().to_u32())
    }

    /// The horizon; `None` if none was ever stored.
    pub fn horizon_us(&self) -> Option<i64> {
        self.horizon.last_value()
    }

    /// The records of use.
    pub fn uses(&self) -> Uses {
        let mut uses = Vec::new();
        let columns = [
            (c"datacenter_id", pg_sys::INT4OID),
            (c"worker_id", pg_sys::INT4OID),
            (c"used_until_us", pg_sys::INT8OID),
        ];
        self.used_identity.for_each_row(columns, |[datacenter, worker, until_us]| {
            let number = |value: pg_sys::Datum| value.value() as u32;
            let identity = datacenter.zip(worker).map(|(datacenter, worker)| Identity {
                datacenter: number(datacenter),
                worker: number(worker),
            });
            uses.push(Use { identity, until_us: until_us.map_or(0, |value| value.value() as i64) });
        });
        Uses(uses)
    }

    /// Adds records, then sets the horizon. Both are durable when the transaction has been committed; neither
    /// before.
    pub fn write(&self, records: &[Use], horizon_us: Option<i64>) {
        for record in records {
            // An identity has at most 31 bits.
            let part = |part: fn(Identity) -> u32| record.identity.map(|identity| part(identity) as i32);
            self.used_identity.append([
                part(|identity| identity.datacenter).into_datum(),
                part(|identity| identity.worker).into_datum(),
                record.until_us.into_datum(),
                pgrx::datum::datetime_support::now().into_datum(),
            ]);
        }
        if let Some(horizon_us) = horizon_us {
            self.horizon.set_value(horizon_us);
        }
    }
}

/// Run by the script of `CREATE EXTENSION`. What was stored goes with the extension when that is dropped,
/// while the server goes on under the horizon that it has promised. So what it knows of its past is stored
/// again with everything else. The keeper would do so at its next look only, and a crash before that would
/// leave a past that nobody knows.
///
/// No horizon can be promised between this and the commit: before that the keeper finds nothing to store it
/// in.
#[pg_extern(sql = "
CREATE FUNCTION snowflake_internal.store_past() RETURNS void LANGUAGE c AS 'MODULE_PATHNAME', '@FUNCTION_NAME@';
COMMENT ON FUNCTION snowflake_internal.store_past() IS 'for CREATE EXTENSION: stores again what the server knows of its past';
", requires = ["horizon"])]
fn store_past() {
    let Ok(shared) = memory::state() else { return };
    if server::current_database() == Some(config::database()) {
        store_past_of(shared);
    }
}

fn store_past_of(shared: &State) {
    let past = shared.board.past.snapshot();
    if let (Some(store), true) = (Store::lock(), past.highest_us > 0) {
        let records: Vec<Use> = past.records().collect();
        let floor_us = shared.board.keeper.floor_us().unwrap_or(0);
        store.write(&records, Some(past.promised_us.max(floor_us)));
    }
}
