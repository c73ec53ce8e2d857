//! Rows of relations that are locked, read and written without SQL: see [`super::relation`] for why.
//!
//! A row is written **in place**: its bytes are replaced, the WAL says so, and
//! a rollback does not undo it. So there is one row however often it is written, and nothing for VACUUM to do. It is
//! durable once the transaction has been committed, as that flushes the WAL and waits for synchronous standbys. Before, it
//! can be read, and a crash may take it back, with all that was written after it.
//!
//! What makes that safe:
//!
//! - There is one writer: a worker that holds the relation's lock. That lock also keeps out who would give the relation
//!   other files (VACUUM FULL, CLUSTER, REFRESH, TRUNCATE).
//! - The row is never updated or deleted by anything else, as SQL refuses to write into a materialized view. So it keeps
//!   its line pointer. VACUUM may move the bytes within the page, but for that it needs the page for itself.
//! - The row is inserted frozen. A rollback does not hide it, and nobody ever sets a hint bit in it, freezes it, or asks
//!   who has inserted it. Who reads it reads what was written last, with any snapshot.
//! - Length and header stay as they are, so that the page's layout does.
//! - The WAL record is a generic one of PostgreSQL's own (`generic_xlog.h`). A standby replays it without the library,
//!   logical decoding passes it over, and backups, `pg_rewind` and checksums treat the page as any other. The first
//!   write after a checkpoint logs the whole page, less the hole in it, which in a page of few rows is nearly all.
//! - Readers of a heap look at a row without a lock on the page. Who looks at the row through SQL at that very instant
//!   could see some columns of before. The writer itself is the only one for whom it matters.

use std::ffi::CStr;
use std::mem::offset_of;

use pgrx::itemptr::item_pointer_get_both;
use pgrx::prelude::*;

use super::encoding::converted_to_utf8;
use super::relation::Relation;
use super::varlena::bytes;

/// PostgreSQL's `FirstCommandId`.
const FIRST_COMMAND: pg_sys::CommandId = 0;

impl Relation {
    /// Calls `action` with the values of these columns in each row. A column that does not exist, or has another
    /// type, is always NULL.
    pub fn for_each_row<const N: usize>(
        self,
        columns: [(&CStr, pg_sys::Oid); N],
        mut action: impl FnMut([Option<pg_sys::Datum>; N]),
    ) {
        self.scan(columns, |_, values| action(values));
    }

    /// The same, and where each row is.
    fn scan<const N: usize>(
        self,
        columns: [(&CStr, pg_sys::Oid); N],
        mut action: impl FnMut(pg_sys::ItemPointerData, [Option<pg_sys::Datum>; N]),
    ) {
        // SAFETY: the relation stays open, and the snapshot registered, until after the last row; what is
        // read of a row is used before the next one. The two arrays have an element for each column.
        unsafe {
            let relation = pg_sys::relation_open(self.0, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
            let descriptor = (*relation).rd_att;
            let width = (*descriptor).natts as usize;
            let (mut values, mut nulls) = (vec![pg_sys::Datum::null(); width], vec![true; width]);
            let numbers = columns.map(|(name, type_oid)| {
                let number = pg_sys::get_attnum(self.0, name.as_ptr());
                if pg_sys::get_atttype(self.0, number) == type_oid { number } else { 0 }
            });
            let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
            let scan = pg_sys::systable_beginscan(
                relation,
                pg_sys::InvalidOid,
                false,
                snapshot,
                0,
                std::ptr::null_mut(),
            );
            loop {
                let row = pg_sys::systable_getnext(scan);
                if row.is_null() {
                    break;
                }
                pg_sys::heap_deform_tuple(row, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
                // Columns are counted from 1.
                let at = |number: i16| usize::try_from(number).ok()?.checked_sub(1).filter(|&at| !nulls[at]);
                action((*row).t_self, numbers.map(|number| at(number).map(|at| values[at])));
            }
            pg_sys::systable_endscan(scan);
            pg_sys::UnregisterSnapshot(snapshot);
            pg_sys::relation_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
        }
    }

    /// Writes a row in place: the first one for which `is_it` holds of these columns, which have to be those of the
    /// relation in its order. It is added if there is none. Not undone by a rollback, and durable with the commit.
    ///
    /// # Errors
    /// Of PostgreSQL, if the row that is there has another form: what is in it was not written by this.
    pub fn overwrite<const N: usize>(
        self,
        columns: [(&CStr, pg_sys::Oid); N],
        values: [pg_sys::Datum; N],
        is_it: impl Fn(&[Option<pg_sys::Datum>; N]) -> bool,
    ) {
        let mut found = None;
        self.scan(columns, |pointer, stored| {
            if found.is_none() && is_it(&stored) {
                found = Some(pointer);
            }
        });
        // SAFETY: the row was formed for this relation, which is open until the row is in it, and a heap, which its lock was
        // given for.
        unsafe {
            // Without a transaction ID the commit would not flush the WAL.
            pg_sys::GetTopTransactionId();
            let relation = pg_sys::relation_open(self.0, pg_sys::NoLock as pg_sys::LOCKMODE);
            let row = form(relation, values);
            match found {
                Some(pointer) => write_over(relation, pointer, row),
                None => insert(relation, row),
            }
            pg_sys::relation_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
        }
    }
}

/// A row of these values.
///
/// # Safety
/// The relation is open. The types of its columns are those of these values: its definition is ours, and who may
/// change it could do anything else as well.
unsafe fn form<const N: usize>(
    relation: pg_sys::Relation,
    mut values: [pg_sys::Datum; N],
) -> pg_sys::HeapTuple {
    let mut nulls = [false; N];
    // SAFETY: by this function's contract; both arrays have an element for each column.
    unsafe {
        let descriptor = (*relation).rd_att;
        assert_eq!((*descriptor).natts as usize, N, "bug: the relation has other columns");
        pg_sys::heap_form_tuple(descriptor, values.as_mut_ptr(), nulls.as_mut_ptr())
    }
}

/// Adds a row, frozen. Logical decoding does not show it.
///
/// # Safety
/// The relation is open, locked, and a heap without indexes, and the row is one of it.
unsafe fn insert(relation: pg_sys::Relation, row: pg_sys::HeapTuple) {
    // Up to version 18 they are signed.
    let options = (pg_sys::HEAP_INSERT_FROZEN | pg_sys::HEAP_INSERT_NO_LOGICAL) as _;
    // SAFETY: by this function's contract. Nobody asks which command has inserted the row. A standby notes the first one,
    // whichever it was, and its page is to be the same.
    unsafe { pg_sys::heap_insert(relation, row, FIRST_COMMAND, options, std::ptr::null_mut()) };
}

/// Replaces the values of the row at `place` by those of another one of the same form.
///
/// # Safety
/// The relation is open, locked against who would give it other files, and a heap, which has a row at `place`. The row
/// was formed for this relation.
unsafe fn write_over(relation: pg_sys::Relation, pointer: pg_sys::ItemPointerData, row: pg_sys::HeapTuple) {
    let (block, number) = item_pointer_get_both(pointer);
    // SAFETY: by this function's contract the block exists. What is changed is the copy of its page that the generic
    // record holds; the buffer is locked from before that copy is made until after it is put back.
    unsafe {
        let buffer = pg_sys::ReadBuffer(relation, block);
        // Up to version 18 a mode is an int.
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as _);
        let record = pg_sys::GenericXLogStart(relation);
        let page = pg_sys::GenericXLogRegisterBuffer(record, buffer, 0);
        let length = (*row).t_len as usize;
        let new = (*row).t_data;
        let Some(old) = row_of_form(page, number, length, &*new) else {
            pg_sys::GenericXLogAbort(record);
            pg_sys::UnlockReleaseBuffer(buffer);
            error!(
                "row of relation with OID {} does not have the format in which it was stored",
                (*relation).rd_id.to_u32()
            );
        };
        let header = usize::from((*new).t_hoff);
        let values = new.cast::<u8>().add(header);
        old.cast::<u8>().add(header).copy_from_nonoverlapping(values, length - header);
        pg_sys::GenericXLogFinish(record);
        pg_sys::UnlockReleaseBuffer(buffer);
    }
}

/// The row with this number in a page, if it has this length, and the form of another one without NULLs.
///
/// # Safety
/// The page is one of a heap, all of it.
unsafe fn row_of_form(
    page: pg_sys::Page,
    number: pg_sys::OffsetNumber,
    length: usize,
    like: &pg_sys::HeapTupleHeaderData,
) -> Option<pg_sys::HeapTupleHeader> {
    let header = page.cast::<pg_sys::PageHeaderData>();
    // SAFETY: a page begins with its header. Line pointers follow, up to `pd_lower`: one that ends there or before is in
    // the page. A row lies where its line pointer says, which is looked at before it is believed.
    unsafe {
        let number = usize::from(number);
        let end = offset_of!(pg_sys::PageHeaderData, pd_linp) + number * size_of::<pg_sys::ItemIdData>();
        if number == 0 || end > usize::from((*header).pd_lower) {
            return None;
        }
        let line = &*(&raw const (*header).pd_linp).cast::<pg_sys::ItemIdData>().add(number - 1);
        let start = line.lp_off() as usize;
        let is_there = line.lp_flags() == pg_sys::LP_NORMAL
            && line.lp_len() as usize == length
            && start >= usize::from((*header).pd_upper)
            && start + length <= pg_sys::BLCKSZ as usize;
        if !is_there {
            return None;
        }
        let row = page.add(start).cast::<pg_sys::HeapTupleHeaderData>();
        let columns =
            |row: &pg_sys::HeapTupleHeaderData| u32::from(row.t_infomask2) & pg_sys::HEAP_NATTS_MASK;
        let is_of_form = (*row).t_hoff == like.t_hoff
            && columns(&*row) == columns(like)
            && u32::from((*row).t_infomask | like.t_infomask) & pg_sys::HEAP_HASNULL == 0;
        is_of_form.then_some(row)
    }
}

/// The bytes of a bytea of a row.
pub fn bytes_of(bytea: pg_sys::Datum) -> Vec<u8> {
    // SAFETY: the datum is a bytea, by the type of its column.
    unsafe { bytes(bytea.cast_mut_ptr()).to_vec() }
}

/// The bytes of a UUID of a row.
pub fn uuid_of(uuid: pg_sys::Datum) -> [u8; 16] {
    // SAFETY: the datum is a UUID, by the type of its column: 16 bytes.
    unsafe { *uuid.cast_mut_ptr::<[u8; 16]>() }
}

/// Whether a text of a row, in whatever encoding the database has, says the same as one in UTF-8. One that cannot be
/// written in UTF-8 does not, and is no error.
pub fn is_text(text: pg_sys::Datum, utf8: &str) -> bool {
    // SAFETY: the datum is a text, by the type of its column.
    let text = unsafe { bytes(text.cast_mut_ptr()) };
    if text == utf8.as_bytes() {
        return true;
    }
    // No character takes more than four bytes, in any encoding. A row may have anything.
    text.len() <= 4 * utf8.len() && converted_to_utf8(text).is_some_and(|text| text == utf8)
}
