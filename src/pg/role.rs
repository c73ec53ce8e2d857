//! Roles, and notifications that cached facts about privileges are outdated.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::encoding::utf8;

mod raw {
    use pgrx::pg_sys;

    unsafe extern "C" {
        /// PostgreSQL's function in `miscadmin.h`, without pgrx's guard. The function only reads a variable and raises
        /// no error. The guard would take longer than the function.
        pub fn GetUserId() -> pg_sys::Oid;
    }
}

/// Returns the effective role, whose privileges apply to the running code.
#[inline]
pub fn current_user() -> pg_sys::Oid {
    // SAFETY: reads a variable of this process, which is set in every backend.
    unsafe { raw::GetUserId() }
}

pub fn is_superuser(role: pg_sys::Oid) -> bool {
    // SAFETY: a lookup in the catalog, inside a transaction. Any OID is accepted.
    unsafe { pg_sys::superuser_arg(role) }
}

/// Returns whether a role has the privileges of another role. A role has its own privileges and the privileges that it
/// inherits. A superuser has the privileges of every role.
pub fn has_privileges_of(member: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: as above.
    unsafe { pg_sys::has_privs_of_role(member, role) }
}

/// Returns the name of a role as an SQL identifier, quoted if necessary. Returns `None` if the role does not exist, or
/// if its name cannot be converted to UTF-8.
pub fn identifier(role: pg_sys::Oid) -> Option<String> {
    // SAFETY: the first function returns a C string, or a null pointer if the role does not exist. The second function
    // returns a C string.
    unsafe {
        let name = pg_sys::GetUserNameFromId(role, true);
        (!name.is_null()).then(|| utf8(CStr::from_ptr(pg_sys::quote_identifier(name)).to_bytes()))?
    }
}

/// The type of the identifier of a cache of catalog rows.
#[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
type CacheId = std::ffi::c_int;
#[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
type CacheId = pg_sys::SysCacheIdentifier::Type;

/// Calls `on_change` with the OID of each relation that changes. Calls `on_change` with `InvalidOid` if a role, a role
/// membership, a database or a function changes, or if any relation may have changed.
///
/// PostgreSQL reports a change when this process learns of it. Changes of the current transaction are reported as well,
/// and so is their rollback. `on_change` may only set variables, because PostgreSQL can call it while it reads a
/// catalog. A process can register only a few functions, and cannot remove them.
pub fn watch_changes(on_change: fn(pg_sys::Oid)) {
    unsafe extern "C-unwind" fn object_changed(on_change: pg_sys::Datum, _: CacheId, _: pg_sys::uint32) {
        // SAFETY: the datum is the function that is passed below.
        let on_change = unsafe { std::mem::transmute::<usize, fn(pg_sys::Oid)>(on_change.value()) };
        on_change(pg_sys::InvalidOid);
    }
    unsafe extern "C-unwind" fn relation_changed(on_change: pg_sys::Datum, relation: pg_sys::Oid) {
        // SAFETY: as above.
        let on_change = unsafe { std::mem::transmute::<usize, fn(pg_sys::Oid)>(on_change.value()) };
        on_change(relation);
    }
    use pg_sys::SysCacheIdentifier::{AUTHMEMROLEMEM, AUTHOID, DATABASEOID, PROCOID};
    let argument = pg_sys::Datum::from(on_change as usize);
    // SAFETY: the lists have room for the few callbacks of a backend. PostgreSQL raises FATAL if a list is full.
    // Neither callback raises an error.
    unsafe {
        for cache in [AUTHOID, AUTHMEMROLEMEM, DATABASEOID, PROCOID] {
            pg_sys::CacheRegisterSyscacheCallback(cache as _, Some(object_changed), argument);
        }
        pg_sys::CacheRegisterRelcacheCallback(Some(relation_changed), argument);
    }
}
