//! The connection of a background worker to the keeper's database (setting `snowflake_id.database`).

use std::ffi::CStr;

use crate::pg::process;

/// Settings for the transactions of background workers. These values override the settings of the database
/// and the role.
const PINNED: &[(&CStr, &CStr)] = &[
    (c"default_transaction_read_only", c"off"),
    (c"default_transaction_isolation", c"read committed"),
    // This value is less than deadlock_timeout. In a deadlock, the worker therefore stops waiting before
    // PostgreSQL cancels another process.
    (c"lock_timeout", c"500ms"),
    (c"search_path", c""),
];

/// Connects this worker to the database, even if the database does not allow connections. If the database
/// does not exist, the process exits.
pub fn connect(database: &CStr) {
    process::connect(database, PINNED);
}
