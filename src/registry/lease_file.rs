//! The file in which a server stores the state of its leases: `snowflake_id.lease` in the data directory.
//!
//! A lease in a copy of the file must not be used, because two servers would then issue IDs under one lease. A server
//! with a [copied file](crate::background::own_file) is unrecognized, and requests a new identity. A damaged file is
//! not used either, because its lease could seem to end later than it does.

use snowflake_id_core::lease_state::LeaseState;

use crate::background::own_file::{Found, OwnFile};

const FILE: OwnFile = OwnFile {
    name: "snowflake_id.lease",
    header: "# format 1: the lease of this server's worker ID, written by extension snowflake_id; a copy of this file cannot be used",
};

/// Reads the state in the file. If the state cannot be used completely, also returns the reason, which the caller logs.
///
/// # Errors
/// Returns the problem if another version has written the file. The server must not overwrite the file, because only
/// the evidence in the file shows which leases the other version has used.
pub fn read() -> Result<(Found<LeaseState>, Option<String>), String> {
    let found = FILE.read()?;
    let problem = match &found {
        Found::Nothing | Found::Own(_) => None,
        Found::Copy(_) => Some(format!(
            "the lease in file \"{}\" is not used: the file is a copy, or the host was rebooted",
            FILE.name
        )),
        Found::Damaged(problem) => Some(problem.clone()),
    };
    Ok((found, problem))
}

/// Writes the file. The new contents are durable when this function returns.
pub fn write(state: &LeaseState) -> Result<(), String> {
    FILE.write(state)
}
