//! What `CREATE EXTENSION` says of a server that cannot make IDs yet, before the first `INSERT` fails.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::config;
use crate::error::Error;
use crate::pg::server;
use crate::shared::memory;
use crate::shared::report;

/// Warns about what is missing. A script that restores a dump is not warned, because the settings are made after it.
pub fn warn() {
    if server::is_binary_upgrade() || server::is_restoring() {
        return;
    }
    let missing = match memory::state() {
        Err(error) => Some(error),
        Ok(shared) if shared.gate.identity().is_some() => None,
        Ok(_) if config::registry().is_none() && config::identity().is_none() => Some(Error::NoWorkerId {
            database: config::database().to_string_lossy().into_owned(),
            node_name: config::node_name(),
        }),
        // The keeper reports nothing while it starts.
        Ok(_) if server::current_database() != Some(config::database()) => {
            report::report().error().map(|report| Error::KeeperNotReady { report })
        }
        Ok(_) => None,
    };
    if let Some(error) = missing {
        ErrorReport::from(error).report(PgLogLevel::WARNING);
    }
}
