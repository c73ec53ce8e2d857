//! The connection of a background worker to the keeper's database, `snowflake_id.database`.

use std::ffi::CStr;

use crate::pg::process;

/// Settings on which the workers' transactions depend. They override those of the database and the role.
const PINNED: &[(&CStr, &CStr)] = &[
    (c"default_transaction_read_only", c"off"),
    (c"default_transaction_isolation", c"read committed"),
    // This value is less than deadlock_timeout. In a deadlock, the worker therefore gives up before
    // PostgreSQL cancels another process.
    (c"lock_timeout", c"500ms"),
    (c"search_path", c""),
];

/// Connects this worker, even if the database allows no connections. Does not return if the database does not
/// exist.
pub fn connect(database: &CStr) {
    process::connect(database, PINNED);
}
