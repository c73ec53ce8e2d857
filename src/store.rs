//! The durable horizon: one sequence, whose last value is the horizon in microseconds of Unix time.
//!
//! `setval()` is written to the WAL, is not undone by a rollback, and is replicated to physical standbys. It is durable
//! once the transaction is committed, not before: a value that can be read may yet be lost by a crash.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

/// What is stored, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    pub sequence: pg_sys::Oid,
    /// `None` if the sequence is fresh.
    pub horizon_us: Option<i64>,
}

/// Reads the stored horizon; `None` if the extension is not in this database.
pub fn read() -> Result<Option<Stored>, spi::Error> {
    Spi::connect(|client| {
        // The extension's own sequence, whatever else has its name.
        let found = client.select(
            "SELECT s.oid, s.relname IS NOT NULL
             FROM pg_catalog.pg_extension AS e
             JOIN pg_catalog.pg_depend AS d ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
                 AND d.refobjid = e.oid AND d.deptype = 'e'
                 AND d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
             JOIN pg_catalog.pg_class AS s ON s.oid = d.objid AND s.relkind = 'S' AND s.relname = 'horizon'
             WHERE e.extname = 'snowflake_id'",
            Some(1),
            &[],
        )?;
        if found.is_empty() {
            return Ok(None);
        }
        let Some(sequence) = found.first().get_one::<pg_sys::Oid>()? else { return Ok(None) };
        let value =
            client.select("SELECT last_value, is_called FROM snowflake_internal.horizon", Some(1), &[])?;
        let (last_value, is_called) = value.first().get_two::<i64, bool>()?;
        let horizon_us = last_value.filter(|_| is_called == Some(true));
        Ok(Some(Stored { sequence, horizon_us }))
    })
}

/// Writes the horizon. It is durable when the transaction has been committed.
pub fn write(sequence: pg_sys::Oid, horizon_us: i64) -> Result<(), spi::Error> {
    // SAFETY: the values have the types that are given with them.
    let arguments = unsafe {
        [DatumWithOid::new(sequence, pg_sys::OIDOID), DatumWithOid::new(horizon_us, pg_sys::INT8OID)]
    };
    Spi::run_with_args("SELECT pg_catalog.setval($1::pg_catalog.regclass, $2)", &arguments)
}
