//! What outlives the server: its horizon, and under which identities it has made IDs.
//!
//! | materialized view | what is in it |
//! | --- | --- |
//! | `snowflake_internal.horizon` | one row: the horizon, and the value of the clock sequence in use with its horizon (see [`ValueHorizon`]) |
//! | `snowflake_internal.used_identity` | records of use: see [`Use`] and [`ValueUse`] |
//!
//! The row of the horizon is overwritten in place ([`crate::pg::rows`]). That is written to the WAL, and is not undone by
//! a rollback. It is durable once the transaction is committed, not before: a value that can be read may yet be lost by a
//! crash. Records are added, and come and go with the transaction.
//!
//! Both are written to the WAL, replicated to physical standbys, and carried over by base backups and `pg_upgrade`.
//! Neither is part of a dump or of a publication, also one `FOR ALL TABLES` or `FOR ALL SEQUENCES`: they are facts about
//! one server, and another one must not receive them. That is why they are materialized views, and not a table and a
//! sequence. It also means that nobody can change them by SQL, as a tool does that copies sequences. Their query fails, so
//! that a script that refreshes all materialized views does not empty them. Only `REFRESH .. WITH NO DATA` does, which asks
//! no query. The keeper notices that what it has stored is gone.

use std::collections::BTreeMap;
use std::ffi::CStr;

use pgrx::IntoDatum;
use pgrx::prelude::*;
use snowflake_id_core::Identity;
use snowflake_id_core::clock_sequence::{ValueHorizon, ValueUse, ValueUses};
use snowflake_id_core::keeper_plan::{Use, Uses};

use crate::background::transaction::Problem;
use crate::config;
use crate::pg::relation::{self, Extension, Kind, Relation};
use crate::pg::server;
use crate::shared::board::PastWords;
use crate::shared::memory;

/// Those of `snowflake_internal.horizon`. A horizon of 0: none was ever stored.
const HORIZON_COLUMNS: [(&CStr, pg_sys::Oid); 2] =
    [(c"horizon_us", pg_sys::INT8OID), (c"clock_sequence", pg_sys::INT8OID)];

/// The relations, locked until the end of the transaction.
pub struct Store {
    pub extension: Extension,
    pub horizon: Relation,
    used_identity: Relation,
}

/// What is stored.
pub struct Stored {
    /// The horizon; `None` if none was ever stored.
    pub horizon_us: Option<i64>,
    /// The records of use.
    pub uses: Uses,
    /// The value of the clock sequence with its horizon, and the records of use of values.
    pub value: ValueHorizon,
    pub value_uses: ValueUses,
    /// Where: the OIDs of the database and of the relation with the horizon.
    pub place: (u32, u32),
    /// Whether that is elsewhere than where this server has stored it last.
    pub is_elsewhere: bool,
}

impl Store {
    /// Finds and locks them; `None` if the extension is not in this database.
    pub fn lock() -> Option<Store> {
        let extension = Extension::find(c"snowflake_id")?;
        let schema = relation::schema(c"snowflake_internal")?;
        Some(Store {
            extension,
            horizon: extension.lock(schema, c"horizon", Kind::MaterializedView)?,
            used_identity: extension.lock(schema, c"used_identity", Kind::MaterializedView)?,
        })
    }

    /// The same, or the problem to report.
    pub fn lock_or_report() -> Result<Store, Problem> {
        Store::lock().ok_or_else(Problem::no_extension)
    }

    /// Reads what is stored. Also lets the server know how far IDs may have come that were made before its
    /// shared memory was.
    pub fn read(&self, past: &PastWords) -> Stored {
        let (uses, value_uses) = self.uses();
        let (horizon_us, value) = self.horizons();
        let ends_us = [horizon_us.unwrap_or(0), uses.latest_us(), value.until_us(), value_uses.latest_us()];
        past.note_high(ends_us.into_iter().fold(0, i64::max));
        let place = (server::database_oid().to_u32(), self.horizon.oid().to_u32());
        let is_elsewhere = past.place().is_some_and(|known| known != place);
        Stored { horizon_us, uses, value, value_uses, place, is_elsewhere }
    }

    fn horizons(&self) -> (Option<i64>, ValueHorizon) {
        let mut stored = None;
        self.horizon.for_each_row(HORIZON_COLUMNS, |[horizon_us, value]| {
            let number = |datum: Option<pg_sys::Datum>| datum.map_or(0, |datum| datum.value() as i64);
            stored.get_or_insert((number(horizon_us), number(value)));
        });
        let (horizon_us, value) = stored.unwrap_or_default();
        (Some(horizon_us).filter(|&us| us > 0), ValueHorizon::from_word(value))
    }

    fn uses(&self) -> (Uses, ValueUses) {
        // Of several records the latest instant counts. There may be many: one for each step back of the clock.
        let mut latest = BTreeMap::new();
        let columns = [
            (c"datacenter_id", pg_sys::INT4OID),
            (c"worker_id", pg_sys::INT4OID),
            (c"clock_seq", pg_sys::INT4OID),
            (c"used_until_us", pg_sys::INT8OID),
        ];
        self.used_identity.for_each_row(columns, |[datacenter, worker, value, until_us]| {
            let number = |value: pg_sys::Datum| value.value() as u32;
            let identity = datacenter.zip(worker).map(|(datacenter, worker)| Identity {
                datacenter: number(datacenter),
                worker: number(worker),
            });
            let until_us = until_us.map_or(0, |value| value.value() as i64);
            let value = value.map(|value| value.value() as u8);
            let known = latest.entry((identity, value)).or_insert(until_us);
            *known = until_us.max(*known);
        });
        let (mut uses, mut value_uses) = (Vec::new(), Vec::new());
        for ((identity, value), until_us) in latest {
            match value {
                None => uses.push(Use { identity, until_us }),
                Some(value) => {
                    let value = Some(value).filter(|&value| value > 0);
                    value_uses.push(ValueUse { identity, value, until_us });
                }
            }
        }
        (Uses(uses), ValueUses(value_uses))
    }

    /// Adds records, then writes the horizons. All are durable when the transaction has been committed. Before, the
    /// records are not; the horizons may be.
    pub fn write(&self, new: &New) {
        for record in new.records {
            self.append(record.identity, None, record.until_us);
        }
        for record in new.value_records {
            self.append(record.identity, Some(record.value.unwrap_or(0)), record.until_us);
        }
        if new.horizon_us.is_some() || new.value.is_some() {
            let stored = self.horizons();
            let horizon_us = new.horizon_us.or(stored.0).unwrap_or(0);
            let value = new.value.unwrap_or(stored.1).to_word();
            self.horizon.overwrite(HORIZON_COLUMNS, [horizon_us.into(), value.into()], |_| true);
        }
    }

    fn append(&self, identity: Option<Identity>, value: Option<u8>, until_us: i64) {
        // An identity has at most 31 bits.
        let part = |part: fn(Identity) -> u32| identity.map(|identity| part(identity) as i32);
        self.used_identity.append([
            part(|identity| identity.datacenter).into_datum(),
            part(|identity| identity.worker).into_datum(),
            value.map(i32::from).into_datum(),
            until_us.into_datum(),
            pgrx::datum::datetime_support::now().into_datum(),
        ]);
    }
}

/// What is to be stored.
#[derive(Default)]
pub struct New<'a> {
    pub records: &'a [Use],
    pub value_records: &'a [ValueUse],
    pub horizon_us: Option<i64>,
    pub value: Option<ValueHorizon>,
}

/// Run by the script of `CREATE EXTENSION`. What was stored goes with the extension when that is dropped,
/// while the server goes on under the horizon that it has promised. So what it knows of its past is stored
/// again with everything else. The keeper would do so at its next look only, and a crash before that would
/// leave a past that nobody knows.
///
/// No horizon can be promised between this and the commit: before that the keeper finds nothing to store it
/// in.
#[pg_extern(sql = false)]
fn store_past() {
    let Ok(shared) = memory::state() else { return };
    let past = shared.board.past.snapshot();
    if past.highest_us == 0 || server::current_database() != Some(config::database()) {
        return;
    }
    if let Some(store) = Store::lock() {
        let records: Vec<Use> = past.records().collect();
        let floor_us = shared.board.keeper.floor_us().unwrap_or(0);
        let (begun, promised) = (shared.board.values.begun(), shared.board.past.values().promised);
        let value = match promised.value() {
            // What was found at the start was not promised again yet.
            0 => ValueHorizon::new(begun.value, begun.floor_us),
            value if value == begun.value => {
                ValueHorizon::new(value, promised.until_us().max(begun.floor_us))
            }
            _ => promised,
        };
        store.write(&New {
            records: &records,
            value_records: &ValueUses::default().after_loss(past.last_identity, value, past.highest_us),
            horizon_us: Some(past.promised_us.max(floor_us)),
            value: Some(value),
        });
    }
}
