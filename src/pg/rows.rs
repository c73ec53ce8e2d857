//! Reading and writing rows of locked relations without SQL. [`super::relation`] explains why this is necessary.
//!
//! A row is written **in place**: its bytes are replaced, the WAL records the change, and a rollback does not undo the
//! change. The relation therefore never loses a row, and VACUUM has nothing to do. The commit flushes the WAL and waits
//! for synchronous standbys, so a change is durable after the commit. Other sessions see the change before the commit.
//! A crash before the commit may undo the change together with all later writes.
//!
//! This is safe for the following reasons:
//!
//! - The only writer is a worker that holds a lock on the relation. The lock also excludes commands that would give the
//!   relation new files (VACUUM FULL, CLUSTER, REPACK, REFRESH, TRUNCATE).
//! - Nothing else updates or deletes rows, because SQL refuses to write into a materialized view. A row therefore keeps
//!   its line pointer. VACUUM may move the bytes within the page, but only while it has exclusive access to the page.
//! - The row is inserted frozen. A rollback does not hide the row. No process sets a hint bit in the row, freezes it,
//!   or looks up the transaction that inserted it. Every snapshot sees the latest contents of the row.
//! - A write does not change the length or the header of the row, or the layout of the page.
//! - The WAL record is one of PostgreSQL's generic records (`generic_xlog.h`). A standby replays it without this
//!   library, logical decoding ignores it, and backups, `pg_rewind` and checksums treat the page like any other page.
//!   The first write after a checkpoint logs the whole page without its unused space. In a page with few rows, most of
//!   the space is unused.
//! - A scan of a heap reads a row without holding a lock on the page. A query that reads the row during a write could
//!   therefore see old values in some columns. This does no harm, because only the writer depends on the values.

use std::ffi::CStr;
use std::mem::offset_of;
use std::slice;

use pgrx::itemptr::item_pointer_get_both;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use super::encoding::converted_to_utf8;
use super::relation::Relation;
use super::syscache::cached;
use super::varlena::bytes;

/// PostgreSQL's `FirstCommandId`.
const FIRST_COMMAND: pg_sys::CommandId = 0;

/// The location of a row in its relation. A row keeps its location as long as the relation keeps its [file](RowsFile).
#[derive(Clone, Copy, Debug)]
pub struct RowAt(pg_sys::ItemPointerData);

/// A relation, and the file that contains its rows. Commands that move rows give the relation another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsFile {
    relation: pg_sys::Oid,
    file: pg_sys::Oid,
}

impl Relation {
    /// Returns the file of the locked relation. Until the end of the transaction, the lock prevents a change of the
    /// file.
    pub fn rows_file(self) -> Option<RowsFile> {
        use pg_sys::SysCacheIdentifier::RELOID;
        // SAFETY: the cache entries are rows of the corresponding catalog.
        let file = unsafe { cached(RELOID, self.0, |row: &pg_sys::FormData_pg_class| row.relfilenode) };
        file.map(|file| RowsFile { relation: self.0, file })
    }

    /// For each row, calls the closure `action` with the values of these columns. If a column does not exist or does
    /// not have the given type, its value is NULL.
    pub fn for_each_row<const N: usize>(
        self,
        columns: [(&CStr, pg_sys::Oid); N],
        mut action: impl FnMut([Option<pg_sys::Datum>; N]),
    ) {
        self.for_each_row_at(columns, |_, values| action(values));
    }

    /// Works like `for_each_row`, but also passes the location of each row.
    pub fn for_each_row_at<const N: usize>(
        self,
        columns: [(&CStr, pg_sys::Oid); N],
        mut action: impl FnMut(RowAt, [Option<pg_sys::Datum>; N]),
    ) {
        // SAFETY: the relation stays open until after the last row. The values of a row are used before the next row is
        // read. Each of the two arrays has one element for each column. No snapshot is passed, so PostgreSQL reads the
        // rows with a new catalog snapshot, even in parallel workers.
        unsafe {
            let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
            let relation = pg_sys::relation_open(self.0, lock);
            let descriptor = (*relation).rd_att;
            let width = (*descriptor).natts as usize;
            let (mut values, mut nulls) = (vec![pg_sys::Datum::null(); width], vec![true; width]);
            let numbers = columns.map(|(name, type_oid)| {
                let number = pg_sys::get_attnum(self.0, name.as_ptr());
                if pg_sys::get_atttype(self.0, number) == type_oid { number } else { 0 }
            });
            let scan = pg_sys::systable_beginscan(
                relation,
                pg_sys::InvalidOid,
                false,
                std::ptr::null_mut(),
                0,
                std::ptr::null_mut(),
            );
            loop {
                let row = pg_sys::systable_getnext(scan);
                if row.is_null() {
                    break;
                }
                pg_sys::heap_deform_tuple(row, descriptor, values.as_mut_ptr(), nulls.as_mut_ptr());
                // Column numbers start at 1.
                let at = |number: i16| usize::try_from(number).ok()?.checked_sub(1).filter(|&at| !nulls[at]);
                action(RowAt((*row).t_self), numbers.map(|number| at(number).map(|at| values[at])));
            }
            pg_sys::systable_endscan(scan);
            pg_sys::relation_close(relation, lock);
        }
    }

    /// Overwrites the first row for which the closure `is_it` returns true, or inserts a row if there is no such row.
    /// The parameter `columns` must list all columns of the relation in order. A rollback does not undo the change. The
    /// change is durable after the commit.
    ///
    /// # Errors
    /// Raises a PostgreSQL error if the form of the stored row differs from the new row's, because this function cannot
    /// have written such a row.
    pub fn overwrite<const N: usize>(
        self,
        columns: [(&CStr, pg_sys::Oid); N],
        values: [pg_sys::Datum; N],
        is_it: impl Fn(&[Option<pg_sys::Datum>; N]) -> bool,
    ) {
        let mut found = None;
        self.for_each_row_at(columns, |at, stored| {
            if found.is_none() && is_it(&stored) {
                found = Some(at);
            }
        });
        match found {
            Some(at) => self.write(at, None, values),
            None => drop(self.insert(values)),
        }
    }

    /// Overwrites the row at a location, which must contain exactly the values `old`. Otherwise works like
    /// [`Relation::overwrite`]. The location must come from the current file of the relation.
    ///
    /// # Errors
    /// Raises a PostgreSQL error and changes nothing if the location contains anything else.
    pub fn replace<const N: usize>(self, at: RowAt, old: [pg_sys::Datum; N], new: [pg_sys::Datum; N]) {
        self.write(at, Some(old), new);
    }

    fn write<const N: usize>(self, at: RowAt, old: Option<[pg_sys::Datum; N]>, new: [pg_sys::Datum; N]) {
        self.change(|relation| {
            // SAFETY: the rows are formed for this relation, which is open. The relation is a heap, because this
            // module locks no other kind of relation.
            unsafe { write_over(relation, at.0, old.map(|old| form(relation, old)), form(relation, new)) }
        });
    }

    /// Inserts a row as [`Relation::overwrite`] does. Returns the location of the row.
    pub fn insert<const N: usize>(self, values: [pg_sys::Datum; N]) -> RowAt {
        // SAFETY: as in `write`.
        self.change(|relation| unsafe { insert(relation, form(relation, values)) })
    }

    /// Opens the relation and calls the closure `change`. The changes that the closure makes are durable after the
    /// commit.
    fn change<T>(self, change: impl FnOnce(pg_sys::Relation) -> T) -> T {
        // SAFETY: this transaction has locked the relation.
        unsafe {
            // Without a transaction ID, the commit would not flush the WAL to disk.
            pg_sys::GetTopTransactionId();
            let relation = pg_sys::relation_open(self.0, pg_sys::NoLock as pg_sys::LOCKMODE);
            let changed = change(relation);
            pg_sys::relation_close(relation, pg_sys::NoLock as pg_sys::LOCKMODE);
            changed
        }
    }
}

/// Forms a row from these values.
///
/// # Safety
/// The relation is open, and its columns have the types of these values. The extension defines the columns. A user who
/// can change the columns can do any other damage as well.
unsafe fn form<const N: usize>(
    relation: pg_sys::Relation,
    mut values: [pg_sys::Datum; N],
) -> pg_sys::HeapTuple {
    let mut nulls = [false; N];
    // SAFETY: by this function's contract. Each of the two arrays has one element for each column.
    unsafe {
        let descriptor = (*relation).rd_att;
        let count = (*descriptor).natts;
        if count as usize != N {
            let name = pgrx::name_data_to_str(&(*(*relation).rd_rel).relname);
            let message = format!(
                "relation \"{name}\" has {count} columns, and this version of snowflake_id writes {N}"
            );
            let code = PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
            ErrorReport::new(code, message, "snowflake_id")
                .set_hint("Install the version with which the extension was last updated.")
                .report(PgLogLevel::ERROR);
            unreachable!("bug: an error was not raised");
        }
        pg_sys::heap_form_tuple(descriptor, values.as_mut_ptr(), nulls.as_mut_ptr())
    }
}

/// Inserts a row that is frozen and invisible to logical decoding.
///
/// # Safety
/// The relation is open and locked, and is a heap without indexes. The row was formed for this relation.
unsafe fn insert(relation: pg_sys::Relation, row: pg_sys::HeapTuple) -> RowAt {
    // Up to PostgreSQL 18, the options are a signed integer.
    let options = (pg_sys::HEAP_INSERT_FROZEN | pg_sys::HEAP_INSERT_NO_LOGICAL) as _;
    // SAFETY: by this function's contract. No process reads the command ID of the row. A standby always stores the
    // first command ID, so using it here keeps the pages identical on all servers. PostgreSQL stores the location in
    // the row.
    unsafe {
        pg_sys::heap_insert(relation, row, FIRST_COMMAND, options, std::ptr::null_mut());
        RowAt((*row).t_self)
    }
}

/// Replaces the values of the row at `pointer` with the values of another row of the same form. If a row `expected` is
/// given, the stored values must be equal to its values, and the row must not have been deleted or updated.
///
/// # Safety
/// The relation is an open heap that has the block of `pointer`. A lock prevents commands from giving the relation new
/// files. The rows `expected` and `row` were formed for the same relation.
unsafe fn write_over(
    relation: pg_sys::Relation,
    pointer: pg_sys::ItemPointerData,
    expected: Option<pg_sys::HeapTuple>,
    row: pg_sys::HeapTuple,
) {
    let (block, number) = item_pointer_get_both(pointer);
    // SAFETY: by this function's contract the block exists. The change is made in the copy of the page that belongs
    // to the generic record. The buffer is locked from before the copy is made until the copy has been written back.
    unsafe {
        let buffer = LockedBuffer::read(relation, block);
        let record = pg_sys::GenericXLogStart(relation);
        let page = pg_sys::GenericXLogRegisterBuffer(record, buffer.0, 0);
        let length = (*row).t_len as usize;
        let new = (*row).t_data;
        // The values of a row with this length and form.
        let values_of = |row: pg_sys::HeapTupleHeader| {
            let start = usize::from((*new).t_hoff);
            slice::from_raw_parts_mut(row.cast::<u8>().add(start), length - start)
        };
        let is_expected = |old: &pg_sys::HeapTupleHeader| {
            expected.is_none_or(|row| {
                // A row that was only locked was not updated or deleted.
                let is_unchanged = pg_sys::HEAP_XMAX_INVALID | pg_sys::HEAP_XMAX_LOCK_ONLY;
                u32::from((**old).t_infomask) & is_unchanged != 0
                    && (*row).t_len as usize == length
                    && values_of(*old) == values_of((*row).t_data)
            })
        };
        let Some(old) = row_of_form(page, number, length, &*new).filter(is_expected) else {
            pg_sys::GenericXLogAbort(record);
            drop(buffer);
            ereport!(
                ERROR,
                PgSqlErrorCode::ERRCODE_DATA_CORRUPTED,
                format!("row of relation with OID {} has an unexpected format", (*relation).rd_id.to_u32())
            );
        };
        values_of(old).copy_from_slice(values_of(new));
        pg_sys::GenericXLogFinish(record);
    }
}

/// A buffer that is pinned and locked until this value is dropped, so that no other process reads or changes its page.
struct LockedBuffer(pg_sys::Buffer);

impl LockedBuffer {
    /// # Safety
    /// The relation is open and has this block. This process holds no lock on the buffer.
    unsafe fn read(relation: pg_sys::Relation, block: pg_sys::BlockNumber) -> LockedBuffer {
        // SAFETY: by this function's contract.
        unsafe {
            let buffer = LockedBuffer(pg_sys::ReadBuffer(relation, block));
            lock_exclusively(buffer.0);
            buffer
        }
    }
}

impl Drop for LockedBuffer {
    fn drop(&mut self) {
        // After an error, the rollback releases the buffer. PostgreSQL has already set `InterruptHoldoffCount` to 0,
        // and releasing the lock here would make the count negative.
        if !std::thread::panicking() {
            // SAFETY: this value has the pin and the lock.
            unsafe { pg_sys::UnlockReleaseBuffer(self.0) };
        }
    }
}

/// Locks a buffer, so that no other process reads or changes it.
///
/// # Safety
/// This process has pinned the buffer, and holds no lock on it.
unsafe fn lock_exclusively(buffer: pg_sys::Buffer) {
    // In PostgreSQL 19, `LockBuffer` is an inline function that calls `LockBufferInternal` for all modes except unlock.
    #[cfg(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18"))]
    use pg_sys::LockBuffer;
    #[cfg(not(any(feature = "pg15", feature = "pg16", feature = "pg17", feature = "pg18")))]
    use pg_sys::LockBufferInternal as LockBuffer;
    // SAFETY: by this function's contract. The mode is an `int` up to PostgreSQL 18.
    unsafe { LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as _) };
}

/// Returns the row with this number in a page. The row must have this length and the same form as the row `like`, and
/// neither row may contain NULLs. Otherwise, returns `None`.
///
/// # Safety
/// The page is a complete heap page.
unsafe fn row_of_form(
    page: pg_sys::Page,
    number: pg_sys::OffsetNumber,
    length: usize,
    like: &pg_sys::HeapTupleHeaderData,
) -> Option<pg_sys::HeapTupleHeader> {
    let header = page.cast::<pg_sys::PageHeaderData>();
    // SAFETY: a page begins with its header. The line pointers are between the header and `pd_lower`, so any line
    // pointer that ends at or before `pd_lower` is within the page. The location in the line pointer is checked
    // before the row is read.
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

/// Returns the non-NULL elements of a `text[]` value, in the encoding of the database.
pub fn texts_of(texts: pg_sys::Datum) -> Vec<Box<[u8]>> {
    let (mut elements, mut nulls, mut count) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    // SAFETY: the datum is a text[], by the type of its column. The properties of type text are constant. Each of the
    // two arrays has one element for each element of the value.
    unsafe {
        pg_sys::deconstruct_array(
            pg_sys::pg_detoast_datum(texts.cast_mut_ptr()).cast(),
            pg_sys::TEXTOID,
            -1,
            false,
            b'i' as _,
            &mut elements,
            &mut nulls,
            &mut count,
        );
        let is_present = |at: &usize| !*nulls.add(*at);
        let text = |at: usize| bytes((*elements.add(at)).cast_mut_ptr()).into();
        (0..count as usize).filter(is_present).map(text).collect()
    }
}

/// Returns the contents of a `bytea` value.
pub fn bytes_of(bytea: pg_sys::Datum) -> Vec<u8> {
    // SAFETY: the datum is a bytea, by the type of its column.
    unsafe { bytes(bytea.cast_mut_ptr()).to_vec() }
}

/// Returns the 16 bytes of a `uuid` value.
pub fn uuid_of(uuid: pg_sys::Datum) -> [u8; 16] {
    // SAFETY: the datum is a uuid of 16 bytes, by the type of its column.
    unsafe { *uuid.cast_mut_ptr::<[u8; 16]>() }
}

/// Returns whether a `text` value in the encoding of the database equals a UTF-8 string. If the value cannot be
/// converted to UTF-8, the function returns false and raises no error.
pub fn is_text(text: pg_sys::Datum, utf8: &str) -> bool {
    // SAFETY: the datum is a text, by the type of its column.
    let text = unsafe { bytes(text.cast_mut_ptr()) };
    if text == utf8.as_bytes() {
        return true;
    }
    // In any encoding, a character has at most four bytes, so a value that is more than four times as long as the
    // string cannot be equal. Such a value may be huge, so it is not converted.
    text.len() <= 4 * utf8.len() && converted_to_utf8(text).is_some_and(|text| text == utf8)
}
