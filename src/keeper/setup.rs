//! What `CREATE EXTENSION` says of a server that cannot make IDs yet, before the first `INSERT` fails.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::config;
use crate::error::Error;
use crate::pg::server;
use crate::shared::memory;
use crate::shared::report;
use crate::wait_event::WaitEvent;

/// How long the keeper has to find out what has changed.
const TIME_TO_LOOK: Duration = Duration::from_millis(500);

/// Warns about what is missing. A script that restores a dump is not warned, because the settings are made after it. The
/// keeper learns that there is one.
pub fn warn() {
    let is_restoring = server::is_restoring();
    if let Ok(shared) = memory::state() {
        shared.server_status.keeper.is_restored.store(is_restoring, Ordering::Relaxed);
    }
    if server::is_binary_upgrade() || is_restoring {
        return;
    }
    let missing = match memory::state() {
        Err(error) => Some(error),
        Ok(shared) if shared.gate.identity().is_some() => None,
        Ok(_) if config::registry().is_none() && config::identity().is_none() => Some(Error::NoWorkerId {
            database: config::database().to_string_lossy().into_owned(),
            node_name: config::node_name(),
        }),
        Ok(shared) if server::current_database() != Some(config::database()) => {
            // The extension may have been created there just now. The keeper reports nothing while it starts.
            let server_status = &shared.server_status;
            let seen = server_status.cycles.count();
            server_status.wakeup.request();
            server_status.cycles.wait_beyond(seen, TIME_TO_LOOK, WaitEvent::Horizon);
            report::report().error().map(|report| Error::KeeperNotReady { report })
        }
        Ok(_) => None,
    };
    if let Some(error) = missing {
        ErrorReport::from(error).report(PgLogLevel::WARNING);
    }
}
