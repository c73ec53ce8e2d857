//! Waiting for the clock and for the keeper. A wait never exceeds `max_wait`, and the call holds no lock
//! while it waits. Each wait can be canceled, and is visible in `pg_stat_activity`.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use snowflake_id_core::Layout;
use snowflake_id_core::clock_sequence::FAR_AHEAD_US;

use crate::config;
use crate::error::{Error, Obstacle, duration};
use crate::pg::relation::Extension;
use crate::pg::{clock, server};
use crate::shared::keeper_words::Closed;
use crate::shared::lease::{self, RegistryState};
use crate::shared::memory;
use crate::shared::report;
use crate::shared::server_status::ServerStatus;
use crate::shared::wait::{Deadline, Watch};
use crate::{pg::wait, wait_event::WaitEvent};

/// The interval at which a long wait reads the clock again, because the clock may have been set.
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// Returns the problem that the keeper last reported. If there is no report, returns a message that says so,
/// or that the keeper is not running.
fn what_is_reported(server_status: &ServerStatus) -> (Obstacle, String) {
    if let Some(error) = report::report().error() {
        return (Obstacle::Failure, format!("The keeper reported: {error}."));
    }
    let report = match server_status.wakeup.pid() {
        None if server::is_single_user() => "Background workers do not run in single-user mode.".into(),
        None => "Background worker \"snowflake_id keeper\" is not running. It needs one of max_worker_processes. If the clock was set back after the worker exited, PostgreSQL restarts the worker when the clock has passed the time of the exit, or when the server is restarted.".into(),
        Some(_) => "The keeper has not reported anything.".into(),
    };
    (Obstacle::Unknown, report)
}

/// Returns the reason why a wait for the keeper failed: a commit in progress, or the reported problem.
fn obstacle(server_status: &ServerStatus) -> (Obstacle, String) {
    match server_status.keeper.committing_for_us(clock::clock_us()) {
        Some(time_us) => {
            let time = Duration::from_micros(time_us);
            (Obstacle::Commit, format!("A commit of the keeper has been in progress for {}.", duration(time)))
        }
        None => what_is_reported(server_status),
    }
}

/// Returns the error for a request that the keeper has not completed.
pub fn not_followed(server_status: &ServerStatus) -> Error {
    not_ready(obstacle(server_status).1)
}

/// Returns the error for the problem in a report. Returns a different error if the current transaction has
/// created or altered the extension, because the keeper cannot see the change before the commit.
fn not_ready(report: String) -> Error {
    let is_keepers = server::current_database() == Some(config::database());
    if is_keepers && Extension::find(c"snowflake_id").is_some_and(Extension::is_uncommitted) {
        return Error::ExtensionUncommitted;
    }
    Error::KeeperNotReady { report }
}

/// Returns whether the keeper may receive a lease soon. This is the case if the server has a lease that the
/// keeper has not read yet, or if the registry has not sent its first answer.
fn is_lease_coming() -> bool {
    let lease_status = lease::lease_status();
    lease_status.lease.is_some() || lease_status.state == RegistryState::Starting
}

pub fn no_lease() -> Error {
    let lease_status = lease::lease_status();
    Error::NoLease { state: lease_status.state.name(), free_from_us: lease_status.free_from_us }
}

/// Returns the end of the lease for which the gate is open, if the horizon has reached this end. Returns
/// `None` if the lease has been renewed.
fn ended_lease(server_status: &ServerStatus, published_us: i64) -> Option<i64> {
    let until_us = server_status.keeper.until_us();
    let has_ended = until_us <= published_us;
    let is_renewed = || lease::lease_status().lease.is_some_and(|lease| lease.until_us > until_us);
    (has_ended && !is_renewed()).then_some(until_us)
}

/// Returns whether a wait for the clock is too long to be caused by a crash. If the wait is too long, a
/// layout with a clock sequence does not wait, but switches to another value.
pub fn is_far_ahead(wait_us: i64) -> bool {
    wait_us > config::horizon_margin().as_micros() as i64 + FAR_AHEAD_US
}

/// The maximum total time that one call may wait. The actual waiting time is added to the statistics when the
/// call ends, even if the call fails.
pub struct WaitBudget {
    deadline: Deadline,
    cycles: OnceCell<Watch<'static>>,
    waited: Cell<Duration>,
}

impl WaitBudget {
    /// Creates the waiting budget of a new call.
    pub fn new() -> WaitBudget {
        let deadline = Deadline::after(config::max_wait());
        WaitBudget { deadline, cycles: OnceCell::new(), waited: Cell::default() }
    }

    /// Waits for the clock, but not longer than `wait_us`. Returns an error immediately if `wait_us` exceeds
    /// the remaining waiting time of the call.
    pub fn wait_for_clock(&self, layout: &Layout, wait_us: u64) -> Result<(), Error> {
        self.check(layout, wait_us)?;
        let _timer = self.timer();
        wait::wait(Duration::from_micros(wait_us).min(LONGEST_NAP), WaitEvent::Clock.number());
        Ok(())
    }

    /// Returns an error if the expected wait exceeds the remaining waiting time of the call.
    pub fn check(&self, layout: &Layout, wait_us: u64) -> Result<(), Error> {
        let (wait, left) = (Duration::from_micros(wait_us), self.deadline.left());
        if wait > left {
            return Err(Error::WaitTooLong { layout: *layout, wait, left, max_wait: self.deadline.max_wait });
        }
        Ok(())
    }

    /// Asks the keeper to open the gate, and waits until the gate is open. Returns an error if the keeper
    /// completes a cycle and reports why the gate remains closed, or if the call has waited for too long.
    pub fn wait_for_gate(&self) -> Result<(), Error> {
        let shared = memory::state()?;
        let server_status = &shared.server_status;
        let cycle = CycleRequest::ask(server_status);
        loop {
            // Read this first. If the gate were read first, the keeper could then open the gate and complete
            // the cycle, and the call would fail although the gate is open.
            let is_over = cycle.is_over() || server_status.wakeup.pid().is_none();
            if shared.gate.identity().is_some() {
                return Ok(());
            }
            match server_status.keeper.closed() {
                Closed::NoWorkerId if is_over => {
                    let database = config::database().to_string_lossy().into_owned();
                    return Err(Error::NoWorkerId { database, node_name: config::node_name() });
                }
                Closed::NoLease if is_over && !is_lease_coming() => return Err(no_lease()),
                Closed::Problem | Closed::Refused if is_over => {
                    return Err(not_ready(what_is_reported(server_status).1));
                }
                _ if self.deadline.is_over() => return Err(not_followed(server_status)),
                _ => self.wait_for_keeper(server_status),
            }
        }
    }

    /// Returns whether a layout can use another value of the clock sequence instead of waiting for the clock.
    /// If necessary, asks the keeper to switch to another value, and waits until the keeper has completed a
    /// cycle.
    pub fn has_another_value(&self, layout: &Layout, wait_us: u64) -> Result<bool, Error> {
        let server_status = &memory::state()?.server_status;
        let free_from_us = server_status.another_value_from_us(layout.max_clock_seq());
        if !is_far_ahead(wait_us as i64) || free_from_us.is_none_or(|free_us| free_us > clock::clock_us()) {
            return Ok(false);
        }
        let before = server_status.value();
        server_status.values.ask(layout);
        let cycle = CycleRequest::ask(server_status);
        loop {
            // Read this first. If the value were read first, the keeper could then switch to another value
            // and complete the cycle, and the call would miss the new value.
            let is_over = cycle.is_over() || server_status.wakeup.pid().is_none();
            if server_status.value() != before {
                return Ok(true);
            }
            if self.deadline.is_over() && server_status.keeper.committing_for_us(clock::clock_us()).is_some()
            {
                return Err(self.horizon_stalled(server_status));
            }
            if is_over || self.deadline.is_over() {
                return Ok(false);
            }
            self.wait_for_keeper(server_status);
        }
    }

    /// Asks the keeper to extend the horizon of a track, and waits until the keeper has completed a cycle.
    pub fn wait_for_horizon(&self, track: usize) -> Result<(), Error> {
        let shared = memory::state()?;
        let server_status = &shared.server_status;
        if let Some(until_us) = ended_lease(server_status, shared.published_us(track)) {
            return Err(Error::LeaseEnded { until_us, state: lease::lease_status().state.name() });
        }
        server_status.wakeup.request(); // The request may let the next call succeed even if this call fails.
        let jump_us = server_status.keeper.clock_jump_us.load(Ordering::Relaxed);
        if jump_us > 0 {
            return Err(Error::ClockJumped { jump: Duration::from_micros(jump_us as u64) });
        }
        if self.deadline.is_over() {
            return Err(self.horizon_stalled(server_status));
        }
        self.wait_for_keeper(server_status);
        Ok(())
    }

    /// Wakes the keeper if it is running, and sleeps until the end of its cycle.
    fn wait_for_keeper(&self, server_status: &'static ServerStatus) {
        server_status.wakeup.request();
        let _timer = self.timer();
        let cycles = self.cycles.get_or_init(|| Watch::of(&server_status.cycles));
        cycles.wait(self.deadline.left(), WaitEvent::Horizon);
    }

    fn horizon_stalled(&self, server_status: &ServerStatus) -> Error {
        let (obstacle, report) = obstacle(server_status);
        Error::HorizonStalled { obstacle, report, max_wait: self.deadline.max_wait }
    }

    fn timer(&self) -> Timer<'_> {
        Timer { since: Instant::now(), total: &self.waited }
    }
}

impl Drop for WaitBudget {
    fn drop(&mut self) {
        let waited = self.waited.get();
        if let (false, Ok(shared)) = (waited.is_zero(), memory::state()) {
            shared.statistics.calls_waited.fetch_add(1, Ordering::Relaxed);
            shared.statistics.waited_us.fetch_add(waited.as_micros() as u64, Ordering::Relaxed);
        }
    }
}

/// Adds the length of a wait to `total`. The wait lasts until the timer is dropped, which also happens if the
/// wait ends with an error or is canceled.
struct Timer<'a> {
    since: Instant,
    total: &'a Cell<Duration>,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        self.total.set(self.total.get() + self.since.elapsed());
    }
}

/// A request for a new cycle of the keeper.
struct CycleRequest<'a> {
    server_status: &'a ServerStatus,
    last: u64,
}

impl CycleRequest<'_> {
    fn ask(server_status: &ServerStatus) -> CycleRequest<'_> {
        server_status.wakeup.request();
        // The current cycle may have started before a change on which the caller relies, such as CREATE
        // EXTENSION. The caller must therefore wait until two more cycles are complete.
        CycleRequest { server_status, last: server_status.cycles.count() + 2 }
    }

    fn is_over(&self) -> bool {
        self.server_status.cycles.count() >= self.last
    }
}
