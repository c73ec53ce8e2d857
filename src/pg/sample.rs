//! Reads a few rows of a table that belongs to another role, without SQL.
//!
//! The planner evaluates constant expressions in indexes and constraints of a table, so a query could run functions of
//! the table's owner. A scan of the heap runs no functions.

use pgrx::prelude::*;

/// The number of pages that are read at each end of a table.
const PAGES: pg_sys::BlockNumber = 8;
/// The maximum number of values that are returned from each end.
const MOST_VALUES: usize = 500;

/// Returns values of a column from the first and the last pages of a table. Returns no values if a conflicting lock is
/// held on the table, if the table is not an ordinary table, or if the type of the column is not an 8-byte type such
/// as `bigint`.
pub fn ends_of_column(table: pg_sys::Oid, column: i16) -> Vec<i64> {
    let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: the relation is used only while it is locked and open. After an error, the end of the transaction closes
    // and unlocks the relation.
    unsafe {
        if !pg_sys::ConditionalLockRelationOid(table, lock) {
            return vec![];
        }
        let relation = pg_sys::try_relation_open(table, pg_sys::NoLock as pg_sys::LOCKMODE);
        let mut values = vec![];
        if !relation.is_null() {
            if let Some(at) = position(relation, column) {
                let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
                let pages = pg_sys::RelationGetNumberOfBlocksInFork(relation, fork);
                // Ensure that the two ranges do not overlap.
                let last = pages.saturating_sub(PAGES).max(PAGES.min(pages));
                read(relation, at, 0..PAGES.min(pages), &mut values);
                read(relation, at, last..pages, &mut values);
            }
            pg_sys::relation_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
        }
        pg_sys::UnlockRelationOid(table, lock);
        values
    }
}

/// Returns the position of the column in a row, or `None` if its values cannot be read.
///
/// # Safety
/// The relation is open.
unsafe fn position(relation: pg_sys::Relation, column: i16) -> Option<usize> {
    // SAFETY: by this function's contract. The columns have the numbers 1 to `natts`.
    unsafe {
        let row = &*(*relation).rd_rel;
        let is_table =
            row.relkind as u8 == pg_sys::RELKIND_RELATION && row.relam == pg_sys::HEAP_TABLE_AM_OID;
        // Rows of a temporary table are in the memory of another session. Rows of an unlogged table are missing on a
        // standby.
        let is_permanent = row.relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT;
        let at = usize::try_from(column).ok()?.checked_sub(1)?;
        let attributes = (*(*relation).rd_att).natts as usize;
        if !is_table || !is_permanent || at >= attributes {
            return None;
        }
        // The type of a dropped column is 0.
        let type_oid = pg_sys::get_atttype((*relation).rd_id, column);
        (type_oid != pg_sys::InvalidOid
            && pg_sys::get_typlen(type_oid) == 8
            && pg_sys::get_typbyval(type_oid))
        .then_some(at)
    }
}

/// Reads the values of a column on some pages. Only rows that the current snapshot sees are included.
///
/// # Safety
/// The relation is open, locked and a heap. The values at this position have 8 bytes and are passed by value.
unsafe fn read(
    relation: pg_sys::Relation,
    at: usize,
    pages: std::ops::Range<pg_sys::BlockNumber>,
    values: &mut Vec<i64>,
) {
    use pg_sys::ScanOptions::{SO_ALLOW_PAGEMODE, SO_ALLOW_STRAT, SO_TYPE_SEQSCAN};
    if pages.is_empty() {
        return;
    }
    let most = values.len() + MOST_VALUES;
    // SAFETY: by this function's contract. Each of the two arrays has an element for each column.
    unsafe {
        let descriptor = (*relation).rd_att;
        let width = (*descriptor).natts as usize;
        let (mut row_values, mut nulls) = (vec![pg_sys::Datum::null(); width], vec![true; width]);
        let scan = pg_sys::heap_beginscan(
            relation,
            pg_sys::GetActiveSnapshot(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            SO_TYPE_SEQSCAN | SO_ALLOW_STRAT | SO_ALLOW_PAGEMODE,
        );
        pg_sys::heap_setscanlimits(scan, pages.start, pages.end - pages.start);
        while values.len() < most {
            let row = pg_sys::heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
            if row.is_null() {
                break;
            }
            pg_sys::heap_deform_tuple(row, descriptor, row_values.as_mut_ptr(), nulls.as_mut_ptr());
            if !nulls[at] {
                values.push(row_values[at].value() as i64);
            }
        }
        pg_sys::heap_endscan(scan);
    }
}
