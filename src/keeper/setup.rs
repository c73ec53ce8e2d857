//! The warning of `CREATE EXTENSION` about a server that cannot issue IDs yet. Without this warning, users
//! would notice the problem only when the first `INSERT` fails.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

use crate::config;
use crate::error::Error;
use crate::pg::server;
use crate::shared::keeper_words::Closed;
use crate::shared::memory::{self, State};
use crate::shared::report;
use crate::wait_event::WaitEvent;

/// The maximum time to wait for a cycle of the keeper.
const TIME_TO_LOOK: Duration = Duration::from_millis(500);

/// Raises a warning if the configuration is incomplete. While a dump is restored, no warning is raised,
/// because the server may be configured later. Also records for the keeper whether a dump is being restored.
pub fn warn() {
    let is_restoring = server::is_restoring();
    if let Ok(shared) = memory::state()
        && server::current_database() == Some(config::database())
    {
        shared.server_status.keeper.is_restored.store(is_restoring, Ordering::Relaxed);
    }
    if server::is_binary_upgrade() || is_restoring {
        return;
    }
    let missing = match memory::state() {
        Err(error) => Some(error),
        Ok(shared) if shared.gate.identity().is_some() => None,
        // Table snowflake_workers is new and empty.
        Ok(_) if server::current_database() == Some(config::database()) => {
            (config::registry().is_none() && config::identity().is_none()).then(no_worker_id)
        }
        Ok(shared) => missing_elsewhere(shared),
    };
    if let Some(error) = missing {
        ErrorReport::from(error).report(PgLogLevel::WARNING);
    }
}

fn no_worker_id() -> Error {
    let database = config::database().to_string_lossy().into_owned();
    Error::NoWorkerId { database, node_name: config::node_name() }
}

/// Called in databases other than that of the keeper. Returns the reason why the server cannot issue IDs, if
/// any. The reason is not known while the keeper is starting.
fn missing_elsewhere(shared: &State) -> Option<Error> {
    // Wait for a new cycle. The extension may have been created in the keeper's database since the last
    // cycle.
    let server_status = &shared.server_status;
    let seen = server_status.cycles.count();
    server_status.wakeup.request();
    server_status.cycles.wait_beyond(seen, TIME_TO_LOOK, WaitEvent::Horizon);
    match (report::report().error(), server_status.keeper.closed()) {
        _ if shared.gate.identity().is_some() => None,
        (Some(report), _) => Some(Error::KeeperNotReady { report }),
        (None, Closed::NoWorkerId) => Some(no_worker_id()),
        (None, _) => None,
    }
}
