//! Who this server is: the settings say it, or else its row in table `snowflake_worker`.

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
