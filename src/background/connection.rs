//! A connection to the registry, made for one round of questions and closed again.
//!
//! Nothing here waits for the network alone: each wait ends as well when the process is asked to stop, and at its
//! deadline. While a connection is being made libpq may block and compute, so that this is the work of a helper thread
//! ([`connecting`](super::connecting)). If that does not let go, the process has to end. The next one asks the other hosts first
//! ([`crate::shared::stuck`]).

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::connecting::{self, Progress};
use crate::pg::helper::Helper;
use crate::pg::libpq::{Connection, Row, StatementError};
use crate::pg::wait::{Interest, wait, wait_for_socket};
use crate::shared::stuck::{self, stuck};
use crate::wait_event::WaitEvent;

/// How long the registry has for an answer.
const TIME_FOR_AN_ANSWER: Duration = Duration::from_secs(15);
/// How long a wait is at most before [`KeepWaiting`] is called.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// How long the helper thread is given to come back after it should have. This process may not have run either.
const GRACE: Duration = Duration::from_secs(1);

/// Why there is no answer.
pub enum NoAnswer {
    /// The process has been asked to stop.
    Stopping,
    /// In words for the log.
    Failed(String),
    /// The same. The statement has failed, and changed nothing: another one may not.
    Refused(String),
    /// The statement has failed because the role of this server lacks a privilege.
    Denied(Denied),
    /// The same. The process has to tell it and to end: its helper thread does not let go.
    Stuck(String),
}

/// A privilege that is missing at the registry.
pub struct Denied {
    error: StatementError,
    role: String,
}

impl Denied {
    /// In words for the log, with the statements that grant the privileges to call these functions.
    pub fn text(self, functions: &[&str]) -> String {
        let Denied { error, role } = self;
        if error.has_hint {
            return error.message;
        }
        let role = quoted(&role);
        let functions: Vec<_> = functions.iter().map(|name| format!("snowflake_registry.{name}")).collect();
        format!(
            "{}; run in the database of the registry: GRANT USAGE ON SCHEMA snowflake_registry TO {role}; GRANT EXECUTE ON FUNCTION {} TO {role};",
            error.message,
            functions.join(", ")
        )
    }
}

/// A name as an identifier of SQL, between quotes if it needs them.
fn quoted(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit();
    match name.bytes().all(is_plain) && !name.starts_with(|first: char| first.is_ascii_digit()) {
        true => name.into(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

impl From<String> for NoAnswer {
    fn from(problem: String) -> NoAnswer {
        NoAnswer::Failed(problem)
    }
}

/// Called again and again during waits; false ends them.
pub type KeepWaiting<'a> = &'a mut dyn FnMut() -> bool;

/// Connects, to the first host of the list that can be had. When the process is stopping or stuck, it has to end.
pub fn connect(string: &CStr, keep_waiting: KeepWaiting) -> Result<Connection, NoAnswer> {
    // Not at once, if a process before this one got stuck.
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

/// Waits a little. Whatever has happened then, the connection is looked at.
fn wait_until(connection: &Connection, interest: Interest, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
    wait_for_socket(connection.socket(), interest, left, WaitEvent::Registry.number());
}

/// Asks a question, and returns the one row of the answer.
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

/// Asks a question, and returns all rows of the answer. One with a warning is none: what the registry says may not have
/// reached its standby.
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
        (Err(error), _) if !connection.is_good() => Err(error.message.into()),
        (Err(error), _) if error.is_denied => {
            Err(NoAnswer::Denied(Denied { error, role: connection.role() }))
        }
        (Err(error), _) if error.is_elsewhere => Err(NoAnswer::Refused(format!(
            "{}; check dbname in snowflake_id.registry, or run CREATE EXTENSION snowflake_id_registry in that database",
            error.message
        ))),
        (Err(error), _) => Err(NoAnswer::Refused(error.message)),
        (Ok(_), true) => Err("the registry has warned that its answer may not be durable".to_owned().into()),
        (Ok(rows), false) => Ok(rows),
    }
}
