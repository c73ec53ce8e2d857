//! The right of a role to take numbers of a segment.
//!
//! A role that may execute the functions can take numbers of all segments, unless the role is limited. Table
//! `snowflake_internal.segment_grant` has one row for each limited role, with the names of the segments that the role
//! may use. A role inherits the limits and the names of all roles whose privileges it inherits. Superusers are not
//! limited.
//!
//! Each process reads the table once, and again after a change of the table or of a role. A trigger reports changes of
//! rows as if the definition of the table had changed. Therefore, a change takes effect like a `GRANT`. The next
//! command in the same session sees the change. Other sessions, including sessions on standbys, see it in their next
//! transaction at the latest. A rollback undoes the effect.
//!
//! The table must be a member of the extension ([`relation`]). If the extension does not have the table, no role was
//! ever limited. If the table exists but has other columns, only superusers can take numbers.

use std::cell::Cell;
use std::collections::HashSet;

use parking_lot::Mutex;
use pgrx::prelude::*;
use pgrx::trigger_support::called_as_trigger;
use snowflake_id_core::message::shown;

use super::checked::Checked;
use crate::error::{Error, OrReport};
use crate::pg::backend_local::BackendLocal;
use crate::pg::function::declare_c_function;
use crate::pg::relation::{self, Extension, Kind, Relation};
use crate::pg::role;
use crate::pg::rows::texts_of;

/// The type `text[]`.
const TEXTS: pg_sys::Oid = pg_sys::TEXTARRAYOID;

/// True if this process knows that no role is limited. In this case, a check takes only one load.
static IS_OPEN_TO_ALL: BackendLocal<Cell<bool>> = BackendLocal::new(Cell::new(false));

/// The number of changes that may affect the rights of roles, counted when this process learns of them. A change makes
/// cached rights outdated.
static CHANGES: BackendLocal<Cell<u64>> = BackendLocal::new(Cell::new(0));

/// The number of all changes, including changes of other relations.
static CHANGES_OF_ANYTHING: BackendLocal<Cell<u64>> = BackendLocal::new(Cell::new(0));

/// The OID of the table, or `InvalidOid` if this process has not found the table.
static TABLE: BackendLocal<Cell<pg_sys::Oid>> = BackendLocal::new(Cell::new(pg_sys::InvalidOid));

/// The rights of roles.
static RIGHTS: Mutex<Checked<(pg_sys::Oid, Segments)>> = Mutex::new(Checked::new());

/// The segments that a role may use, with names in the encoding of this database.
enum Segments {
    All,
    Only(HashSet<Box<[u8]>>),
}

impl Segments {
    fn contain(&self, name: &[u8]) -> bool {
        match self {
            Segments::All => true,
            Segments::Only(names) => names.contains(name),
        }
    }
}

/// Returns whether this process knows that the current user may take numbers of a segment. Calls no functions of
/// PostgreSQL that could fail.
#[inline]
pub fn is_known_to_be_allowed(name: &[u8]) -> bool {
    IS_OPEN_TO_ALL.get() || cached(role::current_user(), |segments| segments.contain(name)) == Some(true)
}

/// Returns an error unless the current user may take numbers of a segment. Must be called before anything else is done
/// with the name, so that the result does not reveal whether the segment exists.
pub fn check(name: &[u8]) -> Result<(), Error> {
    let user = role::current_user();
    if allows(user, name)? { Ok(()) } else { Err(denied(user, name)) }
}

/// Returns whether the current user may use all segments.
pub fn sees_all() -> bool {
    holds_for(role::current_user(), |segments| matches!(segments, Segments::All)).unwrap_or(false)
}

/// Returns the error for a role that may not use a segment.
pub fn denied(role: pg_sys::Oid, name: &[u8]) -> Error {
    Error::SegmentDenied { name: shown(name), role: role::identifier(role).unwrap_or_default() }
}

/// Returns whether a role may take numbers of a segment. The privilege on the function is not checked.
pub fn allows(role: pg_sys::Oid, name: &[u8]) -> Result<bool, Error> {
    holds_for(role, |segments| segments.contain(name))
}

/// Returns whether the condition `statement` is true for the segments that a role may use. The condition must be true
/// if the role may use all segments.
fn holds_for(role: pg_sys::Oid, statement: impl Fn(&Segments) -> bool) -> Result<bool, Error> {
    if IS_OPEN_TO_ALL.get() {
        return Ok(true);
    }
    if let Some(holds) = cached(role, &statement) {
        return Ok(holds);
    }
    let table = find_table();
    let as_of = CHANGES.get();
    let (is_open_to_all, segments) = read(table, role)?;
    let holds = statement(&segments);
    if as_of == CHANGES.get() {
        IS_OPEN_TO_ALL.set(is_open_to_all);
        RIGHTS.lock().remember(as_of, (role, segments));
    }
    Ok(holds)
}

fn cached(role: pg_sys::Oid, statement: impl Fn(&Segments) -> bool) -> Option<bool> {
    let rights = RIGHTS.lock();
    let (_, segments) = rights.find(CHANGES.get(), |(known, _)| *known == role)?;
    Some(statement(segments))
}

/// Returns the number of changes of relations, functions and roles since the process began to watch changes. If the
/// number is unchanged, the owners of these objects and the privileges on them are unchanged, too.
#[inline]
pub fn changes_of_anything() -> u64 {
    CHANGES_OF_ANYTHING.get()
}

/// Starts to watch changes. Only the first call has an effect.
pub fn watch_changes() {
    static IS_WATCHING: BackendLocal<Cell<bool>> = BackendLocal::new(Cell::new(false));
    if !IS_WATCHING.replace(true) {
        role::watch_changes(note_change);
    }
}

/// Finds and locks the table.
fn find_table() -> Option<Relation> {
    watch_changes();
    let schema = relation::internal_schema();
    let extension = Extension::find(c"snowflake_id");
    let table = schema
        .zip(extension)
        .and_then(|(schema, extension)| extension.lock(schema, c"segment_grant", Kind::Table));
    TABLE.set(table.map_or(pg_sys::InvalidOid, Relation::oid));
    table
}

/// Records a change of a relation, or of any object if the OID is invalid. While the process has not found the table,
/// any relation could be the table.
fn note_change(relation: pg_sys::Oid) {
    CHANGES_OF_ANYTHING.set(CHANGES_OF_ANYTHING.get() + 1);
    let table = TABLE.get();
    if [relation, table].contains(&pg_sys::InvalidOid) || relation == table {
        IS_OPEN_TO_ALL.set(false);
        CHANGES.set(CHANGES.get() + 1);
    }
}

/// Reads the table, and unlocks it. Returns true if no role is limited, and the segments that this role may use.
fn read(table: Option<Relation>, role: pg_sys::Oid) -> Result<(bool, Segments), Error> {
    let (mut is_open_to_all, mut is_valid, mut names) = (true, true, None);
    if let Some(table) = table {
        table.for_each_row([(c"role", pg_sys::REGROLEOID), (c"names", TEXTS)], |row| {
            is_open_to_all = false;
            let [Some(limited), Some(granted)] = row else {
                is_valid = false;
                return;
            };
            if role::has_privileges_of(role, pg_sys::Oid::from(limited.value() as u32)) {
                names.get_or_insert_with(HashSet::new).extend(texts_of(granted));
            }
        });
        table.unlock(Kind::Table); // A call that waits for numbers must hold no lock.
    }
    match names {
        _ if role::is_superuser(role) => Ok((is_open_to_all, Segments::All)),
        _ if !is_valid => Err(Error::SegmentGrants),
        None => Ok((is_open_to_all, Segments::All)),
        Some(names) => Ok((is_open_to_all, Segments::Only(names))),
    }
}

declare_c_function!(snowflake_segment_grant_changed);

/// The trigger function of table `segment_grant`. The commit of the transaction then informs all processes that the
/// rows have changed.
///
/// # Safety
/// Only PostgreSQL may call this function.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_segment_grant_changed(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: guaranteed by this function's contract. In a call as a trigger, the context has this type.
    unsafe {
        if !called_as_trigger(fcinfo) {
            Err(Error::NotCalledAsTrigger).or_report()
        }
        pg_sys::CacheInvalidateRelcache((*(*fcinfo).context.cast::<pg_sys::TriggerData>()).tg_relation);
    }
    pg_sys::Datum::null()
}
