//! The identity that is set by hand. It comes from the settings. If the settings contain no worker ID, the identity comes
//! from the server's row in table `snowflake_workers`.

use pgrx::pg_sys;
use snowflake_id_core::Identity;

use crate::background::transaction::Problem;
use crate::config;
use crate::pg::relation::{Extension, Kind};
use crate::pg::rows::is_text;

/// Returns the identity that is set by hand, or `None` if there is none.
pub fn by_hand(extension: Extension) -> Result<Option<Identity>, Problem> {
    match config::identity() {
        Some(identity) => Ok(Some(identity)),
        None => find_row(extension, &config::node_name()),
    }
}

fn find_row(extension: Extension, node_name: &str) -> Result<Option<Identity>, Problem> {
    let schema = extension.schema();
    let table = schema.and_then(|schema| extension.lock(schema, c"snowflake_workers", Kind::Table));
    let table =
        table.ok_or_else(|| Problem("table snowflake_workers does not belong to the extension".into()))?;
    let mut found = None;
    let columns = [
        (c"node_name", pg_sys::TEXTOID),
        (c"datacenter_id", pg_sys::INT4OID),
        (c"worker_id", pg_sys::INT4OID),
    ];
    table.for_each_row(columns, |[name, datacenter, worker]| {
        // The constraints that forbid negative numbers in the table may have been dropped.
        let number = |value: Option<pg_sys::Datum>| u32::try_from(value?.value() as i32).ok();
        if let (Some(name), Some(datacenter), Some(worker)) = (name, number(datacenter), number(worker))
            && is_text(name, node_name)
        {
            found = Some(Identity { datacenter, worker });
        }
    });
    Ok(found)
}
