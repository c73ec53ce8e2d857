//! The warning of `CREATE EXTENSION` about a server that cannot issue IDs yet. Without it, the first `INSERT` would fail.

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

/// How long to wait for a cycle of the keeper.
const TIME_TO_LOOK: Duration = Duration::from_millis(500);

/// Warns about a missing part of the configuration, except while a dump is restored: the server may be configured later. Also
/// records whether a dump is being restored, for the keeper.
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
            // The report may be outdated: perhaps the extension has just been created in the keeper's database. While the
            // keeper starts, there is no report.
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
