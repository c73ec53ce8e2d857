//! The requests that an administrator can send to the keeper: `snowflake_accept_clock()`,
//! `snowflake_raise_floor()`, `snowflake_reset_horizon()`.
//!
//! All three functions follow the protocol described in [`crate::shared::command_slot`]. Each function reports whether
//! the request was carried out. If the call is canceled or times out before the keeper has claimed the request, the
//! request is withdrawn. After the keeper has claimed the request:
//!
//! - A call that timed out waits until the keeper has finished the request, which takes one or two commits.
//! - A call that was canceled returns at once, with a warning that the keeper will still carry out the request.

use std::cell::Cell;
use std::sync::Once;
use std::time::Duration;

use pgrx::prelude::*;
use snowflake_id_core::Identity;

use crate::config;
use crate::error::{Error, OrReport};
use crate::generate::wait::{no_lease, not_followed};
use crate::pg::backend_local::BackendLocal;
use crate::pg::timestamp::unix_us;
use crate::pg::{clock, process, server};
use crate::shared::command_slot::{Answer, Request, Ticket};
use crate::shared::keeper_words::Closed;
use crate::shared::memory::{self, State};
use crate::shared::wait::Deadline;
use crate::wait_event::WaitEvent;

/// The maximum time by which `snowflake_raise_floor` may move the floor ahead of the clock: one day. Later times are
/// probably a mistake, and are rejected.
const MOST_AHEAD: Duration = Duration::from_secs(86_400);
/// The minimum time that a call waits for the keeper, even if `max_wait` is shorter. An idle keeper answers a
/// request within one second.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// The maximum time that a call waits for the answer to a request that the keeper has claimed. Only a commit
/// that waits for a standby takes longer.
const MOST_TIME_FOR_THE_END: Duration = Duration::from_secs(10);

/// Tells the keeper to follow the clock after the clock has jumped ahead.
#[pg_extern(volatile, parallel_unsafe)]
fn snowflake_accept_clock() {
    carry_out(Request::AcceptClock).or_report();
}

/// Raises the floor, so that no IDs with earlier times will be issued. When the function returns, the new floor is
/// durable.
#[pg_extern(volatile, parallel_unsafe)]
fn snowflake_raise_floor(floor: TimestampWithTimeZone) {
    let floor_us = unix_us(floor.into_inner());
    if floor_us > clock::clock_us().saturating_add(MOST_AHEAD.as_micros() as i64) {
        Err(Error::FloorTooFar).or_report()
    }
    carry_out(Request::RaiseFloor(floor_us)).or_report();
}

/// Resets the horizon to the present, for an identity that this server has never used. If a registry is set, the
/// registry selects the identity, and `worker_id` must be NULL.
#[pg_extern(volatile, parallel_unsafe)]
fn snowflake_reset_horizon(
    worker_id: default!(Option<i32>, "NULL"),
    datacenter_id: default!(Option<i32>, 0),
) {
    let datacenter_id = datacenter_id.ok_or(Error::NullDatacenter).or_report();
    let identity = wanted_identity(worker_id, datacenter_id).or_report();
    if server::current_database() != Some(config::database()) {
        let database = config::database().to_string_lossy().into_owned();
        Err(Error::NotTheKeepersDatabase { database }).or_report()
    }
    carry_out(Request::Reset(identity)).or_report();
    if let Some(identity) = identity {
        notice!("snowflake IDs can be issued as soon as this server has {identity}");
    }
}

/// Returns the identity to use after the reset, or `None` if the registry will grant an identity. The returned identity
/// fits in the session's layout.
fn wanted_identity(worker_id: Option<i32>, datacenter_id: i32) -> Result<Option<Identity>, Error> {
    let worker_id = match (worker_id, config::registry()) {
        (None, Some(_)) => return Ok(None),
        (Some(_), Some(_)) => return Err(Error::IdentityIsLeased),
        (None, None) => return Err(Error::NoIdentityToReset),
        (Some(worker_id), None) => worker_id,
    };
    match (u32::try_from(worker_id), u32::try_from(datacenter_id)) {
        (Ok(worker), Ok(datacenter)) => {
            let (layout, identity) = (config::layout()?, Identity { datacenter, worker });
            let fits = layout.check_identity(identity);
            fits.map(|()| Some(identity)).map_err(|problem| Error::ResetDoesNotFit { layout, problem })
        }
        _ => Err(Error::NotAnIdentity { datacenter_id, worker_id }),
    }
}

/// Submits a request to the keeper, and waits for the answer.
fn carry_out(request: Request) -> Result<(), Error> {
    let shared = memory::state()?;
    // During recovery, there is no keeper. Do not keep the request until the server is promoted, because a restart
    // would lose the request.
    if server::is_in_recovery() {
        return Err(Error::NoKeeperInRecovery);
    }
    let deadline = Deadline::after(config::max_wait().max(MIN_WAIT));
    let submitted = Submitted::submit(shared, request, &deadline)?;
    let answer =
        submitted.wait(&deadline).ok_or_else(|| match (request, shared.server_status.keeper.closed()) {
            (Request::Reset(None), Closed::NoLease) => no_lease(),
            _ => not_followed(&shared.server_status),
        })?;
    match (answer, request) {
        (Answer::Done, _) => Ok(()),
        (Answer::NoJump, _) => {
            notice!("the clock has not jumped ahead");
            Ok(())
        }
        (Answer::IdentityInUse | Answer::IdentityUsed, Request::Reset(Some(identity))) => {
            Err(Error::IdentityUsed(identity))
        }
        (Answer::HistoryUnknown, Request::Reset(None)) => Err(Error::NothingIsReset),
        (Answer::HistoryUnknown, Request::Reset(Some(identity))) => Err(Error::HistoryUnknown(identity)),
        _ => Err(not_followed(&shared.server_status)),
    }
}

/// The request that this backend has put into the command slot. The request is removed when the call ends,
/// even if the call fails.
struct Submitted {
    shared: &'static State,
    ticket: Ticket,
}

/// The last request of this backend. When the backend is terminated, no destructor runs, so the request must be removed
/// explicitly. A ticket that is no longer in the slot has no effect.
static LAST_TICKET: BackendLocal<Cell<Option<Ticket>>> = BackendLocal::new(Cell::new(None));
static LEAVES_AT_EXIT: Once = Once::new();

/// Removes the last request of this backend from the slot.
fn leave() {
    if let (Some(ticket), Ok(shared)) = (LAST_TICKET.get(), memory::state()) {
        shared.server_status.commands.leave(ticket);
    }
}

impl Submitted {
    /// Submits the request as soon as the slot is free.
    fn submit(shared: &'static State, request: Request, deadline: &Deadline) -> Result<Submitted, Error> {
        LEAVES_AT_EXIT.call_once(|| process::at_exit(leave));
        let slot = &shared.server_status.commands;
        loop {
            let seen = slot.changes.count();
            if let Some(ticket) = slot.submit(request) {
                LAST_TICKET.set(Some(ticket));
                return Ok(Submitted { shared, ticket });
            }
            if deadline.is_over() {
                return Err(Error::AnotherRequest);
            }
            slot.changes.wait_beyond(seen, deadline.left(), WaitEvent::Horizon);
        }
    }

    /// Waits for the answer, and withdraws the request if no answer arrives in time. Returns `None` if the request was
    /// not carried out. If the outcome is unknown, raises a warning and returns `None`.
    fn wait(&self, deadline: &Deadline) -> Option<Answer> {
        let answer = PgTryBuilder::new(|| self.answer_before(deadline).or_else(|| self.withdraw_or_wait()))
            .catch_others(|cancel| {
                self.leave();
                cancel.rethrow()
            });
        answer.execute()
    }

    fn answer_before(&self, deadline: &Deadline) -> Option<Answer> {
        let slot = &self.shared.server_status.commands;
        loop {
            let seen = slot.changes.count();
            if let Some(answer) = slot.take_answer(self.ticket) {
                return Some(answer);
            }
            if deadline.is_over() {
                return None;
            }
            self.shared.server_status.wakeup.request();
            slot.changes.wait_beyond(seen, deadline.left(), WaitEvent::Horizon);
        }
    }

    /// Withdraws the request, or waits for the answer if the keeper has already claimed the request.
    fn withdraw_or_wait(&self) -> Option<Answer> {
        if self.shared.server_status.commands.withdraw(self.ticket) {
            return None;
        }
        let answer = self.answer_before(&Deadline::after(MOST_TIME_FOR_THE_END));
        if answer.is_none() {
            self.leave();
        }
        answer
    }

    /// Leaves the slot. Raises a warning if the keeper has already claimed the request.
    fn leave(&self) {
        let slot = &self.shared.server_status.commands;
        if slot.withdraw(self.ticket) {
            return;
        }
        if slot.give_up(self.ticket) {
            ereport!(
                PgLogLevel::WARNING,
                PgSqlErrorCode::ERRCODE_WARNING,
                "the keeper continues to process the request, whose commit may be waiting for a standby",
                "View snowflake_status shows the result."
            );
        } else if slot.take_answer(self.ticket) == Some(Answer::Done) {
            ereport!(
                PgLogLevel::WARNING,
                PgSqlErrorCode::ERRCODE_WARNING,
                "the request was processed before it could be canceled",
                "View snowflake_status shows the result."
            );
        }
    }
}

impl Drop for Submitted {
    /// Removes the request from the slot, unless the answer was already taken.
    fn drop(&mut self) {
        self.shared.server_status.commands.leave(self.ticket);
    }
}
