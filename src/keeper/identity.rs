//! Who this server is: the settings say it, or else its row in table `snowflake_worker`.

use snowflake_id_core::Identity;

use super::transaction::Problem;
use crate::config;
use crate::pg::relation::{Extension, Kind, is_text};

/// The identity of this server, if it has one.
pub fn find(extension: Extension) -> Result<Option<Identity>, Problem> {
    match config::identity() {
        Some(identity) => Ok(Some(identity)),
        None => find_row(extension, &config::node_name()),
    }
}

fn find_row(extension: Extension, node_name: &str) -> Result<Option<Identity>, Problem> {
    let schema = extension.schema();
    let table = schema.and_then(|schema| extension.lock(schema, c"snowflake_worker", Kind::Table));
    let table = table.ok_or_else(|| Problem("table snowflake_worker is not that of the extension".into()))?;
    let mut found = None;
    table.for_each_row([c"node_name", c"datacenter_id", c"worker_id"], |[name, datacenter, worker]| {
        if let (Some(name), Some(datacenter), Some(worker)) = (name, datacenter, worker)
            && is_text(name, node_name)
        {
            // The table's constraints keep both from being negative.
            let number = |value: pgrx::pg_sys::Datum| (value.value() as i32).unsigned_abs();
            found = Some(Identity { datacenter: number(datacenter), worker: number(worker) });
        }
    });
    Ok(found)
}
