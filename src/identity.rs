//! Who this server is: the settings say it, or else its row in table `snowflake_worker`. And who it has been.

use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;
use snowflake_id_core::Identity;

use crate::config;

/// The identity of this server, if it has one. Runs in the keeper, in a transaction.
pub fn find() -> Result<Option<Identity>, spi::Error> {
    match config::identity() {
        Some(identity) => Ok(Some(identity)),
        None => find_row(&config::node_name()),
    }
}

fn find_row(node_name: &str) -> Result<Option<Identity>, spi::Error> {
    Spi::connect(|client| {
        // The schema is the one that the extension was created in.
        let schema = client
            .select(
                "SELECT pg_catalog.quote_ident(n.nspname)
                 FROM pg_catalog.pg_extension AS e JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
                 WHERE e.extname = 'snowflake_id'",
                Some(1),
                &[],
            )?
            .first()
            .get_one::<String>()?;
        let Some(schema) = schema else { return Ok(None) };
        let query =
            format!("SELECT datacenter_id, worker_id FROM {schema}.snowflake_worker WHERE node_name = $1");
        // SAFETY: the value has the type that is given with it.
        let name = unsafe { DatumWithOid::new(node_name, pg_sys::TEXTOID) };
        let row = client.select(query.as_str(), Some(1), &[name])?;
        if row.is_empty() {
            return Ok(None);
        }
        let (datacenter, worker) = row.first().get_two::<i32, i32>()?;
        // The table's constraints keep both from being negative.
        let number = |value: Option<i32>| value.map(i32::unsigned_abs);
        Ok(number(datacenter).zip(number(worker)).map(|(datacenter, worker)| Identity { datacenter, worker }))
    })
}

/// Notes that IDs are about to be made under an identity. Durable when the transaction has been committed.
pub fn note_use(identity: Identity) -> Result<(), spi::Error> {
    Spi::run_with_args(
        "INSERT INTO snowflake_internal.used_identity (datacenter_id, worker_id)
         SELECT $1, $2
         WHERE NOT EXISTS (SELECT FROM snowflake_internal.used_identity AS used
                           WHERE used.datacenter_id OPERATOR(pg_catalog.=) $1 AND used.worker_id OPERATOR(pg_catalog.=) $2)",
        &arguments(identity),
    )
}

/// Whether IDs may have been made under an identity.
pub fn is_used(identity: Identity) -> Result<bool, spi::Error> {
    Ok(used_until_us(identity)?.is_some())
}

/// Up to when IDs may have been made under an identity, in microseconds of Unix time, if that may lie beyond the
/// stored horizon, else 0; `None` if the identity was never used.
pub fn used_until_us(identity: Identity) -> Result<Option<i64>, spi::Error> {
    Spi::get_one_with_args(
        "SELECT pg_catalog.max(used.used_until_us) FROM snowflake_internal.used_identity AS used
         WHERE used.datacenter_id OPERATOR(pg_catalog.=) $1 AND used.worker_id OPERATOR(pg_catalog.=) $2",
        &arguments(identity),
    )
}

/// Notes of every identity that was used that it may have been used up to an instant, in microseconds of Unix time.
pub fn shut_out_until(unix_us: i64) -> Result<(), spi::Error> {
    // SAFETY: the value has the type that is given with it.
    let instant = unsafe { DatumWithOid::new(unix_us, pg_sys::INT8OID) };
    Spi::run_with_args(
        // A table without a key must not be updated if it is in a publication.
        "INSERT INTO snowflake_internal.used_identity (datacenter_id, worker_id, used_until_us)
         SELECT DISTINCT used.datacenter_id, used.worker_id, $1 FROM snowflake_internal.used_identity AS used",
        &[instant],
    )
}

fn arguments(identity: Identity) -> [DatumWithOid<'static>; 2] {
    // An identity has at most 31 bits.
    let (datacenter, worker) = (identity.datacenter as i32, identity.worker as i32);
    // SAFETY: the values have the types that are given with them.
    unsafe { [DatumWithOid::new(datacenter, pg_sys::INT4OID), DatumWithOid::new(worker, pg_sys::INT4OID)] }
}
