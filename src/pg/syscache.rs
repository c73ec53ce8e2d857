//! Rows of PostgreSQL's system caches.

use pgrx::prelude::*;

/// Calls `read` with the catalog row that has this OID. Returns `None` if no such row exists.
///
/// # Safety
/// The cache must contain rows of type `Row`, and its key must be a single OID.
pub unsafe fn cached<Row, T>(
    cache: pg_sys::SysCacheIdentifier::Type,
    oid: pg_sys::Oid,
    read: impl FnOnce(&Row) -> T,
) -> Option<T> {
    // SAFETY: by this function's contract. The cache entry remains valid until it is released.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache as i32, pg_sys::Datum::from(oid));
        if row.is_null() {
            return None;
        }
        let value = read(&*pg_sys::GETSTRUCT(row).cast::<Row>());
        pg_sys::ReleaseSysCache(row);
        Some(value)
    }
}
