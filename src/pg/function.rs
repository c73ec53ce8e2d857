//! Functions in PostgreSQL's catalog.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::encoding::utf8;
use super::syscache::cached;

/// Declares that a function uses PostgreSQL's version 1 calling convention. PostgreSQL determines the convention by
/// calling the info function, which returns a constant and therefore needs no guard.
macro_rules! declare_c_function {
    ($name:ident) => {
        const _: () = {
            #[unsafe(export_name = concat!("pg_finfo_", stringify!($name)))]
            extern "C-unwind" fn info() -> &'static ::pgrx::pg_sys::Pg_finfo_record {
                static VERSION_1: ::pgrx::pg_sys::Pg_finfo_record =
                    ::pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &VERSION_1
            }
        };
    };
}
pub(crate) use declare_c_function;

/// Returns the function with this schema, name and argument types, or `Oid::INVALID` if no such function exists.
pub fn function_in(schema: pg_sys::Oid, name: &CStr, arguments: &[pg_sys::Oid]) -> pg_sys::Oid {
    // SAFETY: a lookup in the catalog, inside a transaction. The name is a C string.
    unsafe {
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP as i32,
            pg_sys::Anum_pg_proc_oid as pg_sys::AttrNumber,
            pg_sys::Datum::from(name.as_ptr()),
            pg_sys::Datum::from(pg_sys::buildoidvector(arguments.as_ptr(), arguments.len() as i32)),
            pg_sys::Datum::from(schema),
            pg_sys::Datum::null(),
        )
    }
}

/// Returns the owner of a function, if the function exists.
pub fn owner(function: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: the cache contains rows of pg_proc, and its key is the OID of the function.
    unsafe {
        cached(pg_sys::SysCacheIdentifier::PROCOID, function, |row: &pg_sys::FormData_pg_proc| row.proowner)
    }
}

/// Returns the name of a function as an SQL identifier, if the function exists.
pub fn name(function: pg_sys::Oid) -> Option<String> {
    // SAFETY: the first function returns a C string, or a null pointer if the function does not exist. The second
    // function returns a C string.
    unsafe {
        let name = pg_sys::get_func_name(function);
        (!name.is_null()).then(|| utf8(CStr::from_ptr(pg_sys::quote_identifier(name)).to_bytes()))?
    }
}

/// Returns whether a role may execute a function.
pub fn may_execute(role: pg_sys::Oid, function: pg_sys::Oid) -> bool {
    // SAFETY: a lookup in the catalog, inside a transaction. The OID refers to a function.
    let result = unsafe {
        let mode = pg_sys::ACL_EXECUTE as pg_sys::AclMode;
        #[cfg(feature = "pg15")]
        let result = pg_sys::pg_proc_aclcheck(function, role, mode);
        #[cfg(not(feature = "pg15"))]
        let result = pg_sys::object_aclcheck(pg_sys::ProcedureRelationId, function, role, mode);
        result
    };
    result == pg_sys::AclResult::ACLCHECK_OK
}
