//! The connection of a background worker to the keeper's database, `snowflake_id.database`.

use std::ffi::CStr;

use crate::pg::process;

/// What the transactions of workers depend on, whatever is set for the database or the role.
const PINNED: &[(&CStr, &CStr)] = &[
    (c"default_transaction_read_only", c"off"),
    (c"default_transaction_isolation", c"read committed"),
    // Less than deadlock_timeout: it is not the others whom PostgreSQL is to end.
    (c"lock_timeout", c"500ms"),
    (c"search_path", c""),
];

/// Connects this worker, also if the database allows no connections. Does not return if there is no such database.
pub fn connect(database: &CStr) {
    process::connect(database, PINNED);
}
