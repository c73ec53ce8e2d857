//! The row that a trigger receives before it is stored. Columns are found by their names in the encoding of the
//! database.

use std::ffi::CStr;

use pgrx::prelude::*;
use pgrx::trigger_support::{
    called_as_trigger, trigger_fired_before, trigger_fired_by_delete, trigger_fired_for_row,
};

/// A column of the row, with its type.
#[derive(Clone, Copy)]
pub struct Column {
    number: i32,
    pub type_oid: pg_sys::Oid,
}

/// The new row in a trigger `BEFORE INSERT OR UPDATE .. FOR EACH ROW`.
pub struct NewRow<'a> {
    trigger: &'a pg_sys::Trigger,
    row: pg_sys::HeapTuple,
    descriptor: pg_sys::TupleDesc,
}

impl NewRow<'_> {
    /// Returns `None` if the function was not called by such a trigger.
    ///
    /// # Safety
    /// PostgreSQL has passed `fcinfo` to the running function.
    pub unsafe fn of<'a>(fcinfo: pg_sys::FunctionCallInfo) -> Option<NewRow<'a>> {
        // SAFETY: by this function's contract. In a call as a trigger, the context has this type, and a trigger for each
        // row has a row. The row and its descriptor remain valid until the function returns.
        unsafe {
            if !called_as_trigger(fcinfo) {
                return None;
            }
            let data = &*(*fcinfo).context.cast::<pg_sys::TriggerData>();
            let event = data.tg_event;
            if !trigger_fired_for_row(event) || !trigger_fired_before(event) || trigger_fired_by_delete(event)
            {
                return None;
            }
            // An INSERT has only one row.
            let row = if data.tg_newtuple.is_null() { data.tg_trigtuple } else { data.tg_newtuple };
            Some(NewRow { trigger: &*data.tg_trigger, row, descriptor: (*data.tg_relation).rd_att })
        }
    }

    /// Returns the arguments in the definition of the trigger.
    pub fn arguments(&self) -> Vec<&CStr> {
        let count = usize::try_from(self.trigger.tgnargs).unwrap_or(0);
        // SAFETY: the array has this many elements. Each element is a C string.
        unsafe { (0..count).map(|at| CStr::from_ptr(*self.trigger.tgargs.add(at))).collect() }
    }

    /// Returns the column with this name, if it exists.
    pub fn column(&self, name: &CStr) -> Option<Column> {
        // SAFETY: the descriptor is that of the row. System columns have negative numbers.
        unsafe {
            let number = pg_sys::SPI_fnumber(self.descriptor, name.as_ptr());
            (number > 0).then(|| Column { number, type_oid: pg_sys::SPI_gettypeid(self.descriptor, number) })
        }
    }

    /// Returns the value of a column; `None` is NULL.
    pub fn value(&self, column: Column) -> Option<pg_sys::Datum> {
        let mut is_null = false;
        // SAFETY: the column is one of this row.
        let value = unsafe { pg_sys::SPI_getbinval(self.row, self.descriptor, column.number, &mut is_null) };
        (!is_null).then_some(value)
    }

    /// Changes the value of a column of type bigint.
    pub fn set(&mut self, column: Column, value: Option<i64>) {
        assert_eq!(column.type_oid, pg_sys::INT8OID, "bug: the column has another type");
        let (mut number, mut is_null) = (column.number, value.is_none());
        let mut datum = value.into_datum().unwrap_or(pg_sys::Datum::null());
        // SAFETY: the column is one of this row, and the value is of its type.
        unsafe {
            self.row = pg_sys::heap_modify_tuple_by_cols(
                self.row,
                self.descriptor,
                1,
                &raw mut number,
                &raw mut datum,
                &raw mut is_null,
            );
        }
    }

    /// Returns the row as the result of the trigger function.
    pub fn into_datum(self) -> pg_sys::Datum {
        pg_sys::Datum::from(self.row)
    }
}
