//! Values that PostgreSQL converts to `bigint` without a function.

use pgrx::datum::{Datum, UnboxDatum};
use pgrx::prelude::*;

/// A value of type `bigint` or `snowflake`, or of a domain over one of them.
pub struct AsBigint(pub i64);

impl FromDatum for AsBigint {
    unsafe fn from_polymorphic_datum(
        datum: pg_sys::Datum,
        is_null: bool,
        typoid: pg_sys::Oid,
    ) -> Option<AsBigint> {
        // SAFETY: by this function's contract. All these types are stored in the same way as bigint.
        unsafe { i64::from_polymorphic_datum(datum, is_null, typoid) }.map(AsBigint)
    }
}

impl IntoDatum for AsBigint {
    fn into_datum(self) -> Option<pg_sys::Datum> {
        self.0.into_datum()
    }

    fn type_oid() -> pg_sys::Oid {
        pg_sys::INT8OID
    }

    fn is_compatible_with(other: pg_sys::Oid) -> bool {
        // SAFETY: this function looks the types up in the catalogs, and accepts all OIDs.
        unsafe { pg_sys::IsBinaryCoercible(other, pg_sys::INT8OID) }
    }
}

// SAFETY: all these types are stored in the same way as bigint.
unsafe impl UnboxDatum for AsBigint {
    type As<'src> = AsBigint;

    unsafe fn unbox<'src>(datum: Datum<'src>) -> AsBigint
    where
        Self: 'src,
    {
        // SAFETY: by this function's contract.
        AsBigint(unsafe { i64::unbox(datum) })
    }
}
