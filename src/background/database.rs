//! The connection of a background worker to the keeper's database, `snowflake_id.database`.

use std::ffi::CStr;

use crate::pg::process;

/// Settings on which the workers' transactions depend. They override those of the database and the role.
const PINNED: &[(&CStr, &CStr)] = &[
    (c"default_transaction_read_only", c"off"),
    (c"default_transaction_isolation", c"read committed"),
    // Less than deadlock_timeout, so that in a deadlock the worker gives up and PostgreSQL cancels no other
    // process.
    (c"lock_timeout", c"500ms"),
    (c"search_path", c""),
];

/// Connects this worker, even if the database allows no connections. Does not return if the database does not
/// exist.
pub fn connect(database: &CStr) {
    process::connect(database, PINNED);
}
