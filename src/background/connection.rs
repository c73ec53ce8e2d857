//! A connection to the registry. It is opened for one round of requests and then closed.
//!
//! All waits in this module end at a deadline, or when the process is asked to stop. libpq can block while it connects,
//! so a helper thread opens the connection ([`connecting`](super::connecting)). If the thread gets stuck, a background
//! process must exit, and a session asks its user to close the session. The next process tries the other hosts first
//! ([`crate::shared::stuck`]).

use std::ffi::{CStr, CString};
use std::sync::Arc;
use std::time::{Duration, Instant};

use snowflake_id_core::lease_call::Call;
use snowflake_id_core::reply::Reply;

use super::connecting::{self, Progress};
use crate::pg::helper::Helper;
use crate::pg::libpq::{Connection, Problem, Rejection, StatementError};
use crate::pg::wait::{Interest, wait, wait_for_socket};
use crate::shared::stuck::{self, stuck};
use crate::wait_event::WaitEvent;

/// The maximum time to wait for the registry's answer.
const TIME_FOR_AN_ANSWER: Duration = Duration::from_secs(15);
/// The maximum time between two calls of [`KeepWaiting`].
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// The maximum length of a message about a missing privilege, in bytes. The GRANT statements follow the message.
const LONGEST_DENIAL: usize = 100;
/// The additional time for a helper thread that has not finished by its deadline. On a busy machine, both the
/// thread and this process can be delayed.
const GRACE: Duration = Duration::from_secs(1);

/// The reason why the registry has not answered.
pub enum NoAnswer {
    /// The process was asked to stop.
    Stopping,
    /// No server has answered. The text contains the reason.
    Unreachable(String),
    /// The connection failed after an answer. The text contains the reason.
    Failed(String),
    /// The registry's server rejected the connection.
    Rejected { problem: String, rejection: Rejection },
    /// The statement failed and had no effect. Another statement may succeed.
    Refused(Refused),
    /// The statement failed because the role of this server lacks a privilege.
    Denied(Denied),
    /// The helper thread is stuck. A background process must report the reason and exit.
    Stuck { problem: String, has_answer: bool },
}

/// A statement that failed.
pub struct Refused {
    pub problem: String,
    /// Whether the registry's database cannot process a value of the statement (SQLSTATE class 22). For example, the
    /// encoding of the database may lack a character of a name.
    pub is_of_data: bool,
    /// Whether the database contains no registry, or an old registry without the function.
    pub is_elsewhere: bool,
}

/// An error about a privilege that the role of this server lacks in the registry.
pub struct Denied {
    error: StatementError,
    role: String,
}

impl Denied {
    /// Returns the error message, followed by the statements that grant the privilege to call these functions.
    pub fn text(self, functions: &[&str]) -> String {
        let Denied { error, role } = self;
        if error.has_hint || error.is_from_inside {
            return error.message;
        }
        let role = quoted(&role);
        let functions: Vec<_> = functions.iter().map(|name| format!("snowflake_registry.{name}")).collect();
        // Truncate only this message, not the statements that follow.
        let message = &error.message[..error.message.floor_char_boundary(LONGEST_DENIAL)];
        format!(
            "{message}; run in the database of the registry: GRANT USAGE ON SCHEMA snowflake_registry TO {role}; GRANT EXECUTE ON FUNCTION {} TO {role};",
            functions.join(", ")
        )
    }
}

/// Returns a name as a quoted SQL identifier. Unquoted, a name such as `user` would be a keyword.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
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
/// If the error is [`NoAnswer::Stopping`] or [`NoAnswer::Stuck`], or if a query is canceled, the helper thread may
/// still be running. A background process must then exit. In a session, the user must be asked to close the session.
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
    let work = move || {
        let mut late = vec![];
        (connecting::connect(&string, |host| known.order_of(host), &of_thread, &mut late), late)
    };
    // SAFETY: `connecting` and `order_of` call only libpq and the C library. The thread owns what it uses, or shares it
    // through `Progress`, which is `Sync`.
    let helper = unsafe { Helper::start(work) }
        .map_err(|problem| format!("could not start a thread for connecting: {problem}"))?;
    let mut overdue_since = None;
    while !helper.wait(LONGEST_WAIT, WaitEvent::Registry.number()) {
        if !keep_waiting() {
            return Err(NoAnswer::Stopping);
        }
        let Some(task) = progress.overdue() else {
            overdue_since = None;
            continue;
        };
        if overdue_since.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            stuck::note(&task.hosts, true);
            return Err(NoAnswer::Stuck { problem: task.problem, has_answer: progress.has_answer() });
        }
    }
    let (connection, late) = helper.result().ok_or("bug: the connecting thread panicked".to_owned())?;
    stuck::note(&late, false);
    if connection.is_ok() {
        stuck::note_connection();
    }
    connection.map_err(|Problem { text: problem, rejection }| match rejection {
        Some(rejection) => NoAnswer::Rejected { problem, rejection },
        None if progress.has_answer() => NoAnswer::Failed(problem),
        None => NoAnswer::Unreachable(problem),
    })
}

/// Waits until the socket is ready, for at most [`LONGEST_WAIT`]. The caller must check the connection after
/// every wait.
fn wait_until(connection: &Connection, interest: Interest, deadline: Instant) {
    let left = deadline.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
    wait_for_socket(connection.socket(), interest, left, WaitEvent::Registry.number());
}

/// Calls a function of the registry, and returns the single row of its result.
pub fn ask(connection: &mut Connection, call: &Call, keep_waiting: KeepWaiting) -> Result<Reply, NoAnswer> {
    let mut rows = ask_for_rows(connection, call, keep_waiting)?;
    match (rows.pop(), rows.is_empty()) {
        (Some(row), true) => Ok(row),
        _ => Err("the registry did not reply with exactly one row".to_owned().into()),
    }
}

/// Calls a function of the registry, and returns all rows of its result. A result with a warning is treated as an error,
/// because the registry's commit may not have reached its standby.
pub fn ask_for_rows(
    connection: &mut Connection,
    call: &Call,
    keep_waiting: KeepWaiting,
) -> Result<Vec<Reply>, NoAnswer> {
    let deadline = Instant::now() + TIME_FOR_AN_ANSWER;
    // The request contains no NUL, because JSON escapes NULs.
    let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
    connection.send(&text(&call.query)?, &[Some(text(&call.request)?)])?;
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
            return Err(format!("no reply within {} s", TIME_FOR_AN_ANSWER.as_secs()).into());
        }
        wait_until(connection, interest, deadline);
    }
    match connection.answer() {
        (Err(error), _) if !connection.is_good() => Err(error.message.into()),
        (Err(error), _) if error.is_denied => {
            Err(NoAnswer::Denied(Denied { error, role: connection.role() }))
        }
        (Err(error), _) => {
            let StatementError { is_of_data, is_elsewhere, .. } = error;
            let problem = match is_elsewhere {
                true => format!(
                    "{}; check dbname in snowflake_id.registry, or run there: CREATE EXTENSION snowflake_id_registry; for an old version: ALTER EXTENSION snowflake_id_registry UPDATE;",
                    error.message
                ),
                false => error.message,
            };
            Err(NoAnswer::Refused(Refused { problem, is_of_data, is_elsewhere }))
        }
        (Ok(_), true) => Err("the registry warned that its reply may not be durable".to_owned().into()),
        (Ok(rows), false) => rows
            .iter()
            .map(|row| Ok(Reply::read(row.first().and_then(Option::as_deref).unwrap_or_default())?))
            .collect(),
    }
}
