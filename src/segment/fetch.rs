//! Sends requests to the registry through libpq.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::lease_call::Call;
use snowflake_id_core::segment_answer::Answer;

use crate::background::connection::{self, KeepWaiting, NoAnswer};
use crate::pg::clock;
use crate::pg::libpq::Connection;

/// The idle time after which a connection is closed. Ranges are usually fetched every quarter of an hour, so a
/// connection is not kept open between them. Only the first ranges are fetched in quick succession.
const KEPT: Duration = Duration::from_secs(5);

/// An answer with the registry's clock.
pub struct Answered {
    pub answer: Answer,
    pub registry_clock: ClockOffset,
}

/// A connection to the registry that stays open between requests.
#[derive(Default)]
pub struct RegistryConnection {
    open: Option<(Connection, Instant)>,
}

impl RegistryConnection {
    /// Sends a request to the registry and returns the answer. Connects first if no usable connection is open.
    pub fn ask(
        &mut self,
        string: &CStr,
        call: &Call,
        keep_waiting: KeepWaiting,
    ) -> Result<Answered, NoAnswer> {
        if let Some((mut connection, _)) = self.open.take_if(|(_, used)| used.elapsed() < KEPT) {
            match ask(&mut connection, call, keep_waiting) {
                Ok(answered) => {
                    self.open = Some((connection, Instant::now()));
                    return Ok(answered);
                }
                // The old connection may have failed because the registry was restarted. If the registry granted a
                // range for the failed request, the numbers of that range are lost.
                Err(
                    NoAnswer::Failed(_)
                    | NoAnswer::Rejected { .. }
                    | NoAnswer::Refused(_)
                    | NoAnswer::Denied(_),
                ) => {}
                Err(end) => return Err(end),
            }
        }
        let mut connection = connection::connect(string, keep_waiting)?;
        let answered = ask(&mut connection, call, keep_waiting);
        if let Ok(_) | Err(NoAnswer::Refused(_) | NoAnswer::Denied(_)) = answered {
            self.open = Some((connection, Instant::now()));
        }
        answered
    }

    /// Closes the connection if it has been idle for too long.
    pub fn rest(&mut self) {
        self.open.take_if(|(_, used)| used.elapsed() >= KEPT);
    }

    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }
}

fn ask(connection: &mut Connection, call: &Call, keep_waiting: KeepWaiting) -> Result<Answered, NoAnswer> {
    let sent = clock::since_boot();
    let rows = connection::ask_for_rows(connection, call, keep_waiting)?;
    let received = clock::since_boot();
    let answer = Answer::read(&rows)?;
    let registry_clock = ClockOffset::of(answer.clock_us, sent.midpoint(received));
    Ok(Answered { answer, registry_clock })
}
