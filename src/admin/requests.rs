//! What an administrator can order the keeper to do: `snowflake_accept_clock()`, `snowflake_advance()`,
//! `snowflake_reset_horizon()`.
//!
//! All three follow one protocol: see [`crate::shared::command_slot`]. Whoever calls learns that the order was
//! carried out, or that it was not. A call that is cancelled or that has waited for too long takes its order
//! back. If the keeper has begun with it by then, one that has waited for too long waits for the end of that, which is the
//! time of a commit or two. One that is cancelled leaves at once, and says that the keeper goes on.

use std::cell::Cell;
use std::sync::Once;
use std::time::Duration;

use pgrx::prelude::*;
use snowflake_id_core::Identity;

use crate::config;
use crate::error::{Error, OrReport};
use crate::generate::wait::not_followed;
use crate::pg::backend_local::BackendLocal;
use crate::pg::timestamp::unix_us;
use crate::pg::{clock, process, server};
use crate::shared::command_slot::{Answer, Request, Ticket};
use crate::shared::memory::{self, State};
use crate::shared::wait::Deadline;
use crate::wait_event::WaitEvent;

/// How far ahead of the clock `snowflake_advance` goes at most: a day. Further is a slip of the pen.
const MOST_ADVANCE: Duration = Duration::from_secs(86_400);
/// For how long a call waits for the keeper at least, also with a shorter `max_wait`: long enough for one
/// that has nothing else to do.
const MIN_WAIT: Duration = Duration::from_secs(1);
/// For how long a call waits for the end of what the keeper has begun. Only a commit that waits for a standby
/// takes longer.
const MOST_TIME_FOR_THE_END: Duration = Duration::from_secs(10);

/// Follows a clock that jumped ahead.
#[pg_extern(volatile, parallel_unsafe)]
fn snowflake_accept_clock() {
    carry_out(Request::AcceptClock).or_report();
}

/// Moves the floor up: no ID whose time is earlier will be made. When it returns, that is durable.
#[pg_extern(volatile, parallel_unsafe)]
fn snowflake_advance(floor: TimestampWithTimeZone) {
    let floor_us = unix_us(floor.into_inner());
    if floor_us > clock::clock_us().saturating_add(MOST_ADVANCE.as_micros() as i64) {
        Err(Error::AdvanceTooFar).or_report()
    }
    carry_out(Request::Advance(floor_us)).or_report();
}

/// Begins anew at the present, for an identity that this server has never used. Where identities are leased, the
/// registry gives it, and no worker ID is passed.
#[pg_extern(volatile, parallel_unsafe)]
fn snowflake_reset_horizon(worker_id: default!(Option<i32>, "NULL"), datacenter_id: default!(i32, 0)) {
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

/// The identity that is to be the next one; `None` if the registry gives it.
fn wanted_identity(worker_id: Option<i32>, datacenter_id: i32) -> Result<Option<Identity>, Error> {
    let worker_id = match (worker_id, config::registry()) {
        (None, Some(_)) => return Ok(None),
        (Some(_), Some(_)) => return Err(Error::IdentityIsLeased),
        (None, None) => return Err(Error::NoIdentityToReset),
        (Some(worker_id), None) => worker_id,
    };
    match (u32::try_from(worker_id), u32::try_from(datacenter_id)) {
        (Ok(worker), Ok(datacenter)) => Ok(Some(Identity { datacenter, worker })),
        _ => Err(Error::NotAnIdentity { datacenter_id, worker_id }),
    }
}

/// Has the keeper carry out an order.
fn carry_out(request: Request) -> Result<(), Error> {
    let shared = memory::state()?;
    // During recovery there is no keeper: an order would be forgotten at the next restart.
    if server::is_in_recovery() {
        return Err(Error::NoKeeperInRecovery);
    }
    let deadline = Deadline::after(config::max_wait().max(MIN_WAIT));
    let submitted = Submitted::submit(shared, request, &deadline)?;
    let answer = submitted.wait(&deadline).ok_or_else(|| not_followed(&shared.server_status))?;
    match (answer, request) {
        (Answer::Done, _) => Ok(()),
        (Answer::IdentityInUse | Answer::IdentityUsed, Request::Reset(Some(identity))) => {
            Err(Error::IdentityUsed(identity))
        }
        (Answer::HistoryUnknown, Request::Reset(None)) => Err(Error::NothingIsReset),
        (Answer::HistoryUnknown, Request::Reset(Some(identity))) => Err(Error::HistoryUnknown(identity)),
        _ => Err(not_followed(&shared.server_status)),
    }
}

/// An order of this backend that is on the desk. It leaves the desk when the call ends, in whichever way.
struct Submitted {
    shared: &'static State,
    ticket: Ticket,
}

/// The last order of this backend, for when it is terminated: then nothing is dropped. A ticket that is no longer
/// on the desk does nothing.
static LAST_TICKET: BackendLocal<Cell<Option<Ticket>>> = BackendLocal::new(Cell::new(None));
static LEAVES_AT_EXIT: Once = Once::new();

/// Takes what this backend has ordered off the desk.
fn leave() {
    if let (Some(ticket), Ok(shared)) = (LAST_TICKET.get(), memory::state()) {
        shared.server_status.commands.leave(ticket);
    }
}

impl Submitted {
    /// Waits for its turn.
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

    /// Waits for the answer; if it does not come in time, takes the order back. `None`: nothing was done, or, after a
    /// warning, nothing is known.
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

    /// Takes the order back; if the keeper has begun with it, waits for the answer.
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

    /// Leaves the desk, and says so if the keeper has begun.
    fn leave(&self) {
        let slot = &self.shared.server_status.commands;
        if slot.withdraw(self.ticket) {
            return;
        }
        if slot.give_up(self.ticket) {
            warning!(
                "the keeper has started the request and continues with it; its commit may be waiting for a standby"
            );
        } else if slot.take_answer(self.ticket) == Some(Answer::Done) {
            warning!("the request was carried out before it could be withdrawn");
        }
    }
}

impl Drop for Submitted {
    /// Does nothing if the answer was taken.
    fn drop(&mut self) {
        self.shared.server_status.commands.leave(self.ticket);
    }
}
