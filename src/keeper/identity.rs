//! The identity that is set by hand. It comes from the settings or, if they contain no worker ID, from the server's row
//! in table `snowflake_workers`.

use pgrx::pg_sys;
use snowflake_id_core::Identity;

use crate::background::transaction::Problem;
use crate::config;
use crate::pg::relation::{Extension, Kind, Relation};
use crate::pg::rows::is_text;

/// Returns the identity in the settings and the identity in the server's row. The first one that exists is the identity
/// that is set by hand. `last_row` is the identity in the row as of the last read. If the server does not need its row,
/// this function does not wait for a lock on the table, and may return `last_row` instead.
pub fn by_hand(extension: Extension, last_row: Option<Identity>) -> Result<[Option<Identity>; 2], Problem> {
    let setting = config::identity();
    if config::registry().is_some() {
        return Ok([setting, row_if_free(extension).unwrap_or(last_row)]);
    }
    if setting.is_some() {
        return Ok([setting, last_row]);
    }
    let schema = extension.schema();
    let table = schema.and_then(|schema| extension.lock(schema, c"snowflake_workers", Kind::Table));
    let problem = || Problem("table snowflake_workers does not belong to the extension".into());
    Ok([None, find_row(table.ok_or_else(problem)?)])
}

/// Returns the identity in the server's row, or `Some(None)` if the server has no row. Returns `None` if the table does
/// not exist or is locked by another session.
pub fn row_if_free(extension: Extension) -> Option<Option<Identity>> {
    let table = extension.lock_if_free(extension.schema()?, c"snowflake_workers", Kind::Table)?;
    let row = find_row(table);
    table.unlock(Kind::Table);
    Some(row)
}

fn find_row(table: Relation) -> Option<Identity> {
    let node_name = config::node_name();
    let mut found = None;
    let columns = [
        (c"node_name", pg_sys::TEXTOID),
        (c"datacenter_id", pg_sys::INT4OID),
        (c"worker_id", pg_sys::INT4OID),
    ];
    table.for_each_row(columns, |[name, datacenter, worker]| {
        // The table's constraints that forbid negative numbers may have been dropped.
        let number = |value: Option<pg_sys::Datum>| u32::try_from(value?.value() as i32).ok();
        if let (Some(name), Some(datacenter), Some(worker)) = (name, number(datacenter), number(worker))
            && is_text(name, &node_name)
        {
            found = Some(Identity { datacenter, worker });
        }
    });
    found
}
