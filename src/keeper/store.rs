//! The state that survives a restart of the server: the server's horizons, and the identities under which it has issued
//! IDs.
//!
//! | materialized view | one row for |
//! | --- | --- |
//! | `snowflake_internal.horizon` | each track, with its [`Horizon`] |
//! | `snowflake_internal.used_identity` | each combination of identity and scope: see [`Use`] |
//!
//! Rows are overwritten in place ([`crate::pg::rows`]). A write is WAL-logged, and a rollback does not undo it. A write
//! is certain to be durable only after the commit, but other processes can read it earlier. A crash before the commit
//! may lose the write. If a crash loses a write, it also loses all later writes.
//!
//! Both views are WAL-logged, replicated to physical standbys, included in base backups, and kept by `pg_upgrade`. The
//! rows are facts about one server and must not be copied to other servers. Therefore, the state is stored in
//! materialized views rather than in a table and a sequence. The rows of materialized views are not included in dumps
//! or publications, not even in a publication `FOR ALL TABLES` or `FOR ALL SEQUENCES`. In addition, neither SQL
//! statements nor tools that copy sequences can change the rows of materialized views.
//!
//! The query of each view raises an error, so a script that refreshes all materialized views does not empty them. Only
//! a refresh `WITH NO DATA` empties a view, because it does not run the query. The keeper then detects that the stored
//! state was lost.

use std::ffi::CStr;

use pgrx::IntoDatum;
use pgrx::prelude::*;
use snowflake_id_core::Identity;
use snowflake_id_core::left::{Departure, Left};
use snowflake_id_core::track::{Horizon, TRACKS};
use snowflake_id_core::used::{Scope, Use, Uses};
use uuid::Uuid;

use super::identity_file::IdentityFile;
use super::setup;
use crate::background::transaction::Problem;
use crate::background::versions::{FORMAT_COLUMN, check_rows};
use crate::config;
use crate::pg::relation::{self, Extension, Kind, Relation};
use crate::pg::rows::uuid_of;
use crate::pg::server;
use crate::shared::history::HistoryWords;
use crate::shared::memory;

/// The format of the rows of both views. A version that changes the meaning of the rows raises the number.
const FORMAT: i32 = 1;
const HORIZON_COLUMNS: [(&CStr, pg_sys::Oid); 5] = [
    FORMAT_COLUMN,
    (c"database_oid", pg_sys::OIDOID),
    (c"track", pg_sys::INT4OID),
    (c"clock_seq", pg_sys::INT4OID),
    (c"horizon_us", pg_sys::INT8OID),
];
const USED_COLUMNS: [(&CStr, pg_sys::Oid); 8] = [
    FORMAT_COLUMN,
    (c"datacenter_id", pg_sys::INT4OID),
    (c"worker_id", pg_sys::INT4OID),
    (c"clock_seq", pg_sys::INT4OID),
    (c"used_until_us", pg_sys::INT8OID),
    (c"noted_at", pg_sys::TIMESTAMPTZOID),
    (c"registry_id", pg_sys::UUIDOID),
    (c"registry_since_us", pg_sys::INT8OID),
];
/// A placeholder for all identities or clock sequence values that do not have a row of their own.
const OTHERS: i32 = -1;

/// The two materialized views, locked until the end of the transaction.
pub struct Store {
    pub extension: Extension,
    pub horizon: Relation,
    used_identity: Relation,
}

/// The contents of the two views.
pub struct Stored {
    pub horizons: [Horizon; TRACKS],
    pub uses: Uses,
    pub left: Left,
    /// The highest horizon that another database had stored when this database was copied from it, or 0.
    pub copied_us: i64,
    /// The OIDs of the database and of the view that contains the horizons.
    pub stored_at: (u32, u32),
    /// True if the server last stored its horizons in a different database or view.
    pub is_elsewhere: bool,
}

impl Store {
    /// Finds and locks the views. Returns `None` if the extension is not in this database.
    fn lock() -> Option<Store> {
        let extension = Extension::find(c"snowflake_id")?;
        let schema = relation::internal_schema()?;
        Some(Store {
            extension,
            horizon: extension.lock(schema, c"horizon", Kind::MaterializedView)?,
            used_identity: extension.lock(schema, c"used_identity", Kind::MaterializedView)?,
        })
    }

    /// Works like [`Store::lock`], but returns the problem to report if the extension is missing or if a newer version
    /// has written the rows.
    pub fn lock_or_report() -> Result<Store, Problem> {
        let store = Store::lock().ok_or_else(Problem::no_extension)?;
        check_rows(store.horizon, "horizon", FORMAT)?;
        check_rows(store.used_identity, "used_identity", FORMAT)?;
        Ok(store)
    }

    /// Reads the stored state, and raises the high-water mark in `history` to the stored horizons. IDs up to these
    /// horizons may have been issued before the shared memory was created.
    pub fn read(&self, history: &HistoryWords) -> Stored {
        let ((horizons, copied_us), (uses, left)) = (self.horizons(), identities_in(self.used_identity));
        history.note_high(
            horizons.iter().map(Horizon::until_us).fold(uses.latest_us().max(copied_us), i64::max),
        );
        let stored_at = (server::database_oid().to_u32(), self.horizon.oid().to_u32());
        let is_elsewhere = history.stored_at().is_some_and(|known| known != stored_at);
        Stored { horizons, uses, left, copied_us, stored_at, is_elsewhere }
    }

    /// Returns the horizons that were stored in this database, and the highest horizon that was copied from another
    /// database. The server may have continued in the other database after the copy was made.
    fn horizons(&self) -> ([Horizon; TRACKS], i64) {
        let (mut horizons, mut copied_us) = ([Horizon::NONE; TRACKS], 0);
        self.horizon.for_each_row(HORIZON_COLUMNS, |row| {
            if let [_, database, Some(track), Some(value), Some(until_us)] = row
                && let Some(horizon) = horizons.get_mut(track.value())
            {
                let until_us = until_us.value() as i64;
                // An earlier version did not store the database.
                if database.is_none_or(|oid| oid.value() as u32 == server::database_oid().to_u32()) {
                    *horizon = Horizon::new(value.value() as u8, until_us);
                } else {
                    copied_us = copied_us.max(until_us);
                }
            }
        });
        (horizons, copied_us)
    }

    /// Returns the identities that were left to registries, or `None` if another session has locked the view. This
    /// function releases its own lock before it returns, because a lock on a standby can delay the replay of WAL.
    pub fn left_if_free(extension: Extension) -> Option<Left> {
        let kind = Kind::MaterializedView;
        let view = extension.lock_if_free(relation::internal_schema()?, c"used_identity", kind)?;
        let left = check_rows(view, "used_identity", FORMAT).is_ok().then(|| identities_in(view).1);
        view.unlock(kind);
        left
    }

    /// Writes the records of use and the new records in `left`, and then the horizons. A crash therefore never leaves a
    /// horizon without its records.
    pub fn write(&self, records: &[Use], left: &Left, horizons: [Option<Horizon>; TRACKS]) {
        // Read the stored records only if there are new records to compare, which is rare.
        let is_needed = !records.is_empty() || !left.is_empty();
        let (mut uses, mut stored_left) =
            if is_needed { identities_in(self.used_identity) } else { Default::default() };
        let mut rows = uses.add(records.iter().copied());
        // A departure creates the row of its identity if the row is missing. After a loss, a row of the last identity
        // means that all other records have been restored. Therefore, the departures must follow all records.
        for (identity, _) in stored_left.add(left).iter() {
            let until_us = uses.until_us(identity, 0).unwrap_or(0);
            let row = Use { identity: Some(identity), scope: Scope::ZERO, until_us };
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        for record in rows {
            let departure = record.identity.filter(|_| record.scope == Scope::ZERO);
            let departure = departure.and_then(|identity| stored_left.get(identity));
            let registry_id = departure.map_or(Uuid::nil(), |departure| departure.registry_id);
            let since_us = departure.map_or(0, |departure| departure.since_us);
            // An identity has at most 31 bits.
            let part =
                |part: fn(Identity) -> u32| record.identity.map_or(OTHERS, |identity| part(identity) as i32);
            let value = match record.scope {
                Scope::Value(value) => value.into(),
                Scope::Others => OTHERS,
            };
            let key = [part(|identity| identity.datacenter), part(|identity| identity.worker), value];
            let [datacenter, worker, value] = key.map(pg_sys::Datum::from);
            let now = pgrx::datum::datetime_support::now().into_datum().unwrap_or(pg_sys::Datum::null());
            let registry_id = pg_sys::Datum::from(registry_id.as_bytes().as_ptr());
            let until_us = record.until_us.into();
            let row = [FORMAT.into(), datacenter, worker, value, until_us, now, registry_id, since_us.into()];
            self.used_identity.overwrite(USED_COLUMNS, row, |row| {
                key.iter()
                    .zip(&row[1..])
                    .all(|(part, datum)| datum.is_some_and(|datum| datum.value() as i32 == *part))
            });
        }
        for (track, horizon) in horizons.into_iter().enumerate() {
            let Some(horizon) = horizon else { continue };
            let value = i32::from(horizon.value()).into();
            let database = server::database_oid().into();
            let row = [FORMAT.into(), database, track.into(), value, horizon.until_us().into()];
            let is_it = |row: &[Option<pg_sys::Datum>; 5]| row[2].is_some_and(|datum| datum.value() == track);
            self.horizon.overwrite(HORIZON_COLUMNS, row, is_it);
        }
    }
}

/// Returns the records of use, and the identities that were left to registries.
fn identities_in(used_identity: Relation) -> (Uses, Left) {
    let (mut uses, mut left) = (Uses::default(), vec![]);
    used_identity.for_each_row(USED_COLUMNS, |row| {
        let [_, datacenter, worker, value, until_us, _, registry_id, since_us] = row;
        if let [Some(datacenter), Some(worker), Some(value), Some(until_us)] =
            [datacenter, worker, value, until_us]
        {
            let part = |datum: pg_sys::Datum| u32::try_from(datum.value() as i32).ok();
            let identity = part(datacenter).zip(part(worker));
            let identity = identity.map(|(datacenter, worker)| Identity { datacenter, worker });
            uses.add([Use {
                identity,
                scope: part(value).map_or(Scope::Others, |value| Scope::Value(value as u8)),
                until_us: until_us.value() as i64,
            }]);
            if let (Some(identity), Some(id), Some(since_us)) = (identity, registry_id, since_us) {
                let registry_id = Uuid::from_bytes(uuid_of(id));
                let departure = Departure { registry_id, since_us: since_us.value() as i64 };
                left.extend((!registry_id.is_nil()).then_some((identity, departure)));
            }
        }
    });
    (uses, left.into_iter().collect())
}

/// Stores the history from shared memory when the extension is created. `DROP EXTENSION` also drops the stored state,
/// but the server continues to issue IDs up to its promised horizon. Without this function, a crash before the keeper's
/// next cycle would lose the history.
///
/// Between this call and the commit, the keeper cannot promise a horizon, because it does not see the new views before
/// the commit.
#[pg_extern(sql = false)]
fn store_history() {
    setup::warn();
    let Ok(shared) = memory::state() else { return };
    let tracks = shared.tracks([Horizon::NONE; TRACKS]);
    let history = shared.server_status.history.snapshot();
    if history.highest_us == 0 || server::current_database() != Some(config::database()) {
        return;
    }
    // Do not change rows of a newer version.
    if let Ok(store) = Store::lock_or_report() {
        let (records, horizons) = history.stored_anew(&tracks);
        match IdentityFile::read(&Left::default(), &Uses::default()) {
            Ok(file) => store.write(&records, &file.left, horizons.map(Some)),
            // The keeper would fail in the same way.
            Err(problem) => error!("snowflake_id: {problem}"),
        }
    }
}
