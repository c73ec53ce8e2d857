//! Stores the high-water marks of segments in materialized view `snowflake_internal.segment_taken` in the keeper's
//! database, and so in the WAL. The view contains exactly one row for each name.
//!
//! The worker stores and commits the mark of a range before any call gets a number of the range. The commit flushes the
//! WAL, and waits for synchronous standbys. In the WAL, the mark therefore precedes every row that contains one of the
//! numbers. A server with such a row also has the mark. This remains true after a promotion, a restore or `pg_upgrade`,
//! and for numbers from any registry.
//!
//! Only the worker writes the rows, so it remembers each row and its location ([`Taken`]). It reads the view only when
//! it starts, and after a command has given the view another file.
//!
//! Rows are overwritten in place ([`crate::pg::rows`]). Like the horizon, the rows are excluded from dumps and
//! publications, and protected from changes in SQL (see [`crate::keeper`]). The database may have a malicious owner,
//! and the worker is a superuser. [`crate::pg::relation`] describes the precautions.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem;

use pgrx::{IntoDatum, pg_sys};
use snowflake_id_core::had::{End, Had};
use snowflake_id_core::segment_answer::Period;
use uuid::Uuid;

use crate::background::transaction::{Problem, transaction};
use crate::background::versions::{FORMAT_COLUMN, check_rows};
use crate::pg::relation::{self, Extension, Kind, Relation};
use crate::pg::rows::{RowAt, RowsFile, bytes_of, uuid_of};

/// The format of the rows. A version that changes the meaning of the rows must raise this number. Such a version must
/// also remember the format of each row, because a row is replaced only if it equals the result of [`values`].
const FORMAT: i32 = 1;

/// Names are stored in UTF-8, whatever the encoding of the database. The columns are never NULL, so the length of a
/// row never changes.
const COLUMNS: [(&CStr, pg_sys::Oid); 10] = [
    FORMAT_COLUMN,
    (c"name", pg_sys::BYTEAOID),
    (c"until_value", pg_sys::INT8OID),
    (c"registry_id", pg_sys::UUIDOID),
    (c"period_key", pg_sys::INT8OID),
    (c"period_starts_us", pg_sys::INT8OID),
    (c"next_until_value", pg_sys::INT8OID),
    (c"next_registry_id", pg_sys::UUIDOID),
    (c"next_period_key", pg_sys::INT8OID),
    (c"next_period_starts_us", pg_sys::INT8OID),
];

/// Stands for a missing number. Numbers of segments are not negative.
const NONE: i64 = -1;

/// The stored marks, by name.
pub type Noted = BTreeMap<String, Had>;

/// The rows of the view, as this process has read and written them. No other process writes rows of the file. If a row
/// has changed nevertheless, this process raises an error instead of overwriting the row. A rollback does not undo the
/// changes that this process has made, so all rows are read again after any error.
#[derive(Debug, Default)]
pub struct Taken {
    file: Option<RowsFile>,
    rows: BTreeMap<String, (RowAt, Had)>,
    /// True if this process has committed a row since it read the rows. The commit has also flushed all earlier writes,
    /// including writes in transactions that failed.
    are_durable: bool,
}

impl Taken {
    /// Reads all stored marks.
    pub fn read() -> Result<(Taken, Noted), String> {
        transaction(|| scan(lock()?), || ()).map_err(|Problem(text)| text)
    }

    /// Stores the marks that are not stored yet. The marks are durable when this function returns. However, if the
    /// process [is stopping](crate::background::stop::is_stopping), a synchronous standby may not have received the
    /// marks.
    pub fn write(&mut self, wanted: &Noted) -> Result<(), String> {
        let known = mem::take(self);
        let write = || {
            let relation = lock()?;
            let is_current = known.file.is_some() && known.file == relation.rows_file();
            let mut known = if is_current { known } else { scan(relation)?.0 };
            for (name, had) in wanted.iter().filter(|(_, had)| **had != Had::default()) {
                known.store(relation, name, had);
            }
            Ok(known)
        };
        *self = transaction(write, || ()).map_err(|Problem(text)| text)?;
        Ok(())
    }

    fn store(&mut self, relation: Relation, name: &str, had: &Had) {
        let Some((at, stored)) = self.rows.get_mut(name) else {
            let at = relation.insert(values(name, had));
            self.rows.insert(name.into(), (at, had.clone()));
            self.are_durable = true;
            return;
        };
        let mut merged = stored.clone();
        merged.merge(had.clone());
        if merged != *stored || !self.are_durable {
            relation.replace(*at, values(name, stored), values(name, &merged));
            *stored = merged;
            self.are_durable = true;
        }
    }
}

fn scan(relation: Relation) -> Result<(Taken, Noted), Problem> {
    check_rows(relation, "segment_taken", FORMAT)?;
    let mut taken = Taken { file: relation.rows_file(), ..Taken::default() };
    let mut noted = Noted::new();
    relation.for_each_row_at(COLUMNS, |at, row| {
        if let Some((name, had)) = mark(row) {
            // Each name should have one row. If it has several rows, use the higher marks.
            noted.entry(name.clone()).or_default().merge(had.clone());
            taken.rows.entry(name).or_insert((at, had));
        }
    });
    Ok((taken, noted))
}

/// Returns whether this database contains any marks. The caller must have started a transaction.
pub fn is_there(extension: Extension) -> bool {
    let mut is_there = false;
    if let Some(relation) = find(extension) {
        relation.for_each_row(COLUMNS, |row| is_there |= mark(row).is_some());
    }
    is_there
}

fn find(extension: Extension) -> Option<Relation> {
    extension.lock(relation::internal_schema()?, c"segment_taken", Kind::MaterializedView)
}

fn lock() -> Result<Relation, Problem> {
    Extension::find(c"snowflake_id").and_then(find).ok_or_else(Problem::no_extension)
}

/// Returns the name and the marks in a row, or `None` if the row has no valid name.
fn mark(row: [Option<pg_sys::Datum>; 10]) -> Option<(String, Had)> {
    let name = String::from_utf8(bytes_of(row[1]?)).ok()?;
    let number = |at: usize| row[at].map_or(NONE, |datum| datum.value() as i64);
    let end = |at: usize| {
        let key = number(at + 2);
        Some(End {
            until: Some(number(at)).filter(|&until| until != NONE)?,
            registry_id: row[at + 1].map(|id| Uuid::from_bytes(uuid_of(id))).filter(|id| !id.is_nil()),
            period: (key != NONE).then(|| Period { key, starts_us: number(at + 3) }),
        })
    };
    Some((name, Had { now: end(2), next: end(6) }))
}

fn values(name: &str, had: &Had) -> [pg_sys::Datum; 10] {
    let [a, b, c, d] = values_of(had.now.as_ref());
    let [e, f, g, h] = values_of(had.next.as_ref());
    [datum(FORMAT), datum(name.as_bytes()), a, b, c, d, e, f, g, h]
}

fn values_of(end: Option<&End>) -> [pg_sys::Datum; 4] {
    let id = end.and_then(|end| end.registry_id).unwrap_or_default();
    let period = end.and_then(|end| end.period);
    [
        datum(end.map_or(NONE, |end| end.until)),
        datum(pgrx::Uuid::from_bytes(id.into_bytes())),
        datum(period.map_or(NONE, |period| period.key)),
        datum(period.map_or(NONE, |period| period.starts_us)),
    ]
}

fn datum(value: impl IntoDatum) -> pg_sys::Datum {
    value.into_datum().expect("bug: a value without a datum")
}
