//! The current `COPY FROM`.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::list::elements;

/// Returns whether `COPY FROM` is planning the defaults of columns. The caller must know that no query is being
/// planned.
pub fn is_planning_defaults() -> bool {
    // SAFETY: PostgreSQL always has a current memory context, and every context has a name.
    unsafe { CStr::from_ptr((*pg_sys::CurrentMemoryContext).name) == c"COPY" }
}

/// Returns the relation of the client's current statement, if the statement is a `COPY FROM` and `user` may insert rows
/// into the relation.
///
/// Rows may be copied into a relation other than the returned one, because the relation is looked up by its name, and
/// because another `COPY` may run inside of the statement. In any case, `user` may insert rows into the returned
/// relation.
pub fn relation(user: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: the portal of the current statement contains planned statements. A node has the type that its tag says.
    unsafe {
        let portal = pg_sys::ActivePortal.as_ref()?;
        let statement = elements::<pg_sys::PlannedStmt>(portal.stmts).next()?;
        let utility = (*statement).utilityStmt;
        if !pgrx::is_a(utility, pg_sys::NodeTag::T_CopyStmt) {
            return None;
        }
        let copy = utility.cast::<pg_sys::CopyStmt>();
        if !(*copy).is_from || (*copy).relation.is_null() {
            return None;
        }
        let relation = pg_sys::RangeVarGetRelidExtended(
            (*copy).relation,
            pg_sys::NoLock as pg_sys::LOCKMODE,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        );
        (relation != pg_sys::InvalidOid && may_insert(user, relation)).then_some(relation)
    }
}

/// Returns whether a role may insert rows into a relation, at least with values for some columns.
fn may_insert(role: pg_sys::Oid, relation: pg_sys::Oid) -> bool {
    let mode = pg_sys::ACL_INSERT as pg_sys::AclMode;
    // SAFETY: lookups in the catalog, inside a transaction.
    unsafe {
        let of_table = pg_sys::pg_class_aclcheck(relation, role, mode);
        let of_columns =
            || pg_sys::pg_attribute_aclcheck_all(relation, role, mode, pg_sys::AclMaskHow::ACLMASK_ANY);
        of_table == pg_sys::AclResult::ACLCHECK_OK || of_columns() == pg_sys::AclResult::ACLCHECK_OK
    }
}
