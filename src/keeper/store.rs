//! What outlives the server: its horizons, and under which identities it has made IDs.
//!
//! | materialized view | a row for |
//! | --- | --- |
//! | `snowflake_internal.horizon` | each track: its value and [`Horizon`] |
//! | `snowflake_internal.used_identity` | each kind of record of use: see [`Use`] |
//!
//! Rows are overwritten in place ([`crate::pg::rows`]). That is written to the WAL, and is not undone by
//! a rollback. It is durable once the transaction is committed, not before: a value that can be read may yet be lost by a
//! crash. But what was written first is never lost without what was written after it.
//!
//! Both are written to the WAL, replicated to physical standbys, and carried over by base backups and `pg_upgrade`.
//! Neither is part of a dump or of a publication, also one `FOR ALL TABLES` or `FOR ALL SEQUENCES`: they are facts about
//! one server, and another one must not receive them. That is why they are materialized views, and not a table and a
//! sequence. It also means that nobody can change them by SQL, as a tool does that copies sequences. Their query fails, so
//! that a script that refreshes all materialized views does not empty them. Only `REFRESH .. WITH NO DATA` does, which asks
//! no query. The keeper notices that what it has stored is gone.

use std::ffi::CStr;

use pgrx::IntoDatum;
use pgrx::prelude::*;
use snowflake_id_core::Identity;
use snowflake_id_core::track::{Begun, Horizon, TRACKS};
use snowflake_id_core::used::{Scope, Use, Uses};

use super::setup;
use crate::background::transaction::Problem;
use crate::config;
use crate::pg::relation::{self, Extension, Kind, Relation};
use crate::pg::server;
use crate::shared::history::HistoryWords;
use crate::shared::memory;

const HORIZON_COLUMNS: [(&CStr, pg_sys::Oid); 3] =
    [(c"track", pg_sys::INT4OID), (c"clock_seq", pg_sys::INT4OID), (c"horizon_us", pg_sys::INT8OID)];
const USED_COLUMNS: [(&CStr, pg_sys::Oid); 5] = [
    (c"datacenter_id", pg_sys::INT4OID),
    (c"worker_id", pg_sys::INT4OID),
    (c"clock_seq", pg_sys::INT4OID),
    (c"used_until_us", pg_sys::INT8OID),
    (c"noted_at", pg_sys::TIMESTAMPTZOID),
];
/// In the place of an identity, or of a value of the clock sequence: all that have no row of their own.
const OTHERS: i32 = -1;

/// The relations, locked until the end of the transaction.
pub struct Store {
    pub extension: Extension,
    pub horizon: Relation,
    used_identity: Relation,
}

/// What is stored.
pub struct Stored {
    pub horizons: [Horizon; TRACKS],
    pub uses: Uses,
    /// Where: the OIDs of the database and of the relation with the horizons.
    pub stored_at: (u32, u32),
    /// Whether that is elsewhere than where this server has stored them last.
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
    pub fn read(&self, history: &HistoryWords) -> Stored {
        let (horizons, uses) = (self.horizons(), self.uses());
        history.note_high(horizons.iter().map(Horizon::until_us).fold(uses.latest_us(), i64::max));
        let stored_at = (server::database_oid().to_u32(), self.horizon.oid().to_u32());
        let is_elsewhere = history.stored_at().is_some_and(|known| known != stored_at);
        Stored { horizons, uses, stored_at, is_elsewhere }
    }

    fn horizons(&self) -> [Horizon; TRACKS] {
        let mut horizons = [Horizon::NONE; TRACKS];
        self.horizon.for_each_row(HORIZON_COLUMNS, |row| {
            if let [Some(track), Some(value), Some(until_us)] = row
                && let Some(horizon) = horizons.get_mut(track.value())
            {
                *horizon = Horizon::new(value.value() as u8, until_us.value() as i64);
            }
        });
        horizons
    }

    fn uses(&self) -> Uses {
        let mut uses = Uses::default();
        self.used_identity.for_each_row(USED_COLUMNS, |row| {
            if let [Some(datacenter), Some(worker), Some(value), Some(until_us), _] = row {
                let part = |datum: pg_sys::Datum| u32::try_from(datum.value() as i32).ok();
                let identity = part(datacenter).zip(part(worker));
                uses.add([Use {
                    identity: identity.map(|(datacenter, worker)| Identity { datacenter, worker }),
                    scope: part(value).map_or(Scope::Others, |value| Scope::Value(value as u8)),
                    until_us: until_us.value() as i64,
                }]);
            }
        });
        uses
    }

    /// Writes records, then horizons: no crash leaves a horizon without the records that go with it.
    pub fn write(&self, records: &[Use], horizons: [Option<Horizon>; TRACKS]) {
        // What is stored is read again only if there is something to compare with it, which is rare.
        let new = if records.is_empty() { vec![] } else { self.uses().add(records.iter().copied()) };
        for record in new {
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
            let row = [datacenter, worker, value, record.until_us.into(), now];
            self.used_identity.overwrite(USED_COLUMNS, row, |row| {
                key.iter()
                    .zip(row)
                    .all(|(part, datum)| datum.is_some_and(|datum| datum.value() as i32 == *part))
            });
        }
        for (track, horizon) in horizons.into_iter().enumerate() {
            let Some(horizon) = horizon else { continue };
            let row = [track.into(), i32::from(horizon.value()).into(), horizon.until_us().into()];
            let is_it = |row: &[Option<pg_sys::Datum>; 3]| row[0].is_some_and(|datum| datum.value() == track);
            self.horizon.overwrite(HORIZON_COLUMNS, row, is_it);
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
#[pg_extern(sql = false)]
fn store_history() {
    setup::warn();
    let Ok(shared) = memory::state() else { return };
    let tracks = shared.tracks([Horizon::NONE; TRACKS]);
    let history = shared.server_status.history.snapshot();
    if history.highest_us == 0 || server::current_database() != Some(config::database()) {
        return;
    }
    if let Some(store) = Store::lock() {
        let begun = tracks.map(|track| match track.begun.unwrap_or_default() {
            // It was about to be opened.
            begun if ![0, begun.value].contains(&track.promised.value()) => {
                Begun { value: track.promised.value(), floor_us: track.promised.until_us() }
            }
            begun => begun,
        });
        let horizon = |at: usize| Some(Horizon::new(begun[at].value, tracks[at].used_us(begun[at])));
        store.write(&history.records(&tracks, &begun, &Uses::default()), [0, 1].map(horizon));
    }
}
