//! A connection to the registry, which is opened for one round of requests and then closed.
//!
//! Every wait here also ends at its deadline, or when the process is asked to stop. While libpq makes a
//! connection it may block or compute, so a helper thread does this work ([`connecting`](super::connecting)).
//! If the thread gets stuck, the process has to exit. The next process tries the other hosts first
//! ([`crate::shared::stuck`]).

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connecting::{self, Progress};
use crate::pg::helper::Helper;
use crate::pg::libpq::{Connection, Row};
use crate::pg::wait::{Interest, wait, wait_for_socket};
use crate::shared::stuck::{self, stuck};
use crate::wait_event::WaitEvent;

/// How long to wait for the registry's answer.
const TIME_FOR_AN_ANSWER: Duration = Duration::from_secs(15);
/// The longest time between two calls of [`KeepWaiting`].
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// The additional time that an overdue helper thread is given. Like the thread, this process may not have
/// been scheduled for a while.
const GRACE: Duration = Duration::from_secs(1);

/// The reason why there is no answer.
pub enum NoAnswer {
    /// The process was asked to stop.
    Stopping,
    /// The connection failed, for this reason.
    Failed(String),
    /// The statement failed for this reason, and had no effect. Another statement may succeed.
    Refused(String),
    /// The helper thread is stuck for this reason. The process has to report it and exit.
    Stuck(String),
}

impl From<String> for NoAnswer {
    fn from(problem: String) -> NoAnswer {
        NoAnswer::Failed(problem)
    }
}

/// A function that is called repeatedly during a wait. The wait ends when the function returns false.
pub type KeepWaiting<'a> = &'a mut dyn FnMut() -> bool;

/// Connects to the first host of the list that accepts the connection.
///
/// # Errors
/// After [`NoAnswer::Stopping`] and [`NoAnswer::Stuck`] the process has to exit.
pub fn connect(string: &CStr, keep_waiting: KeepWaiting) -> Result<Connection, NoAnswer> {
    // If a previous process got stuck, wait before connecting.
    loop {
        if !keep_waiting() {
            return Err(NoAnswer::Stopping);
        }
        let pause = stuck().pause();
        if pause.is_zero() {
            break;
        }
        wait(pause.min(LONGEST_WAIT), WaitEvent::Registry.number());
    }
    let progress = Arc::new(Progress::new());
    let (of_thread, string, known) = (progress.clone(), string.to_owned(), stuck());
    let helper = Helper::start(move || connecting::connect(&string, |host| known.order_of(host), &of_thread))
        .map_err(|problem| format!("cannot start a thread that connects: {problem}"))?;
    let mut overdue_since = None;
    while !helper.wait(LONGEST_WAIT, WaitEvent::Registry.number()) {
        if !keep_waiting() {
            return Err(NoAnswer::Stopping);
        }
        let Some(step) = progress.overdue() else {
            overdue_since = None;
            continue;
        };
        if overdue_since.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            stuck::note(&step.hosts, true);
            return Err(NoAnswer::Stuck(step.problem));
        }
    }
    let attempt = helper.result().ok_or_else(|| "bug: the thread that connects has panicked".to_owned())?;
    stuck::note(&attempt.late, false);
    if attempt.connection.is_ok() {
        stuck::note_connection();
    }
    Ok(attempt.connection?)
}

/// Waits for the socket, for at most [`LONGEST_WAIT`]. The caller then checks the connection in any case.
fn wait_until(connection: &Connection, interest: Interest, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
    wait_for_socket(connection.socket(), interest, left, WaitEvent::Registry.number());
}

/// Sends a query, and returns the single row of its result.
pub fn ask(
    connection: &mut Connection,
    query: &CStr,
    parameters: &[Option<CString>],
    keep_waiting: KeepWaiting,
) -> Result<Row, NoAnswer> {
    let mut rows = ask_for_rows(connection, query, parameters, keep_waiting)?;
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        _ => Err("the registry has not answered with one row".to_owned().into()),
    }
}

/// Sends a query, and returns all rows of its result. A result with a warning is treated as an error, because
/// the registry's commit may not have reached its standby.
pub fn ask_for_rows(
    connection: &mut Connection,
    query: &CStr,
    parameters: &[Option<CString>],
    keep_waiting: KeepWaiting,
) -> Result<Vec<Row>, NoAnswer> {
    let deadline = Instant::now() + TIME_FOR_AN_ANSWER;
    connection.send(query, parameters)?;
    let mut is_sent = false;
    loop {
        if !is_sent {
            is_sent = connection.flush()?.is_none();
        }
        let interest = match connection.receive()? {
            None => break,
            Some(_) if !is_sent => Interest::Write,
            Some(interest) => interest,
        };
        if !keep_waiting() {
            return Err(NoAnswer::Stopping);
        }
        if Instant::now() >= deadline {
            return Err(format!("no answer in {} s", TIME_FOR_AN_ANSWER.as_secs()).into());
        }
        wait_until(connection, interest, deadline);
    }
    match connection.answer() {
        (Err(problem), _) if connection.is_good() => Err(NoAnswer::Refused(problem)),
        (Err(problem), _) => Err(problem.into()),
        (Ok(_), true) => Err("the registry has warned that its answer may not be durable".to_owned().into()),
        (Ok(rows), false) => Ok(rows),
    }
}
