//! Connects to a registry in the helper thread. The thread may block or compute for an unlimited time. For example, a
//! name lookup may not return, or a server may make libpq hash a password for hours.
//!
//! This code calls no functions of the PostgreSQL server, because only the main thread may call them. Before each step,
//! the thread publishes what it is about to do and how long that should take. From this, the waiting process can detect
//! that the thread is stuck, and at which host.

use std::ffi::{CStr, CString};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use snowflake_id_core::hosts::Attempts;

use super::hosts::{Host, Hosts, Step};
use crate::pg::helper::poll;
use crate::pg::libpq::{Connection, Options, Problem};
use crate::pg::wait::Interest;

/// The time limit for reading the options, which may come from a service file that refers to a directory service.
const TIME_FOR_OPTIONS: Duration = Duration::from_secs(30);
/// The time limit for one name lookup. An unresponsive name server costs 10 s, and up to three may be configured.
const TIME_FOR_A_LOOKUP: Duration = Duration::from_secs(30);

/// The current task of the thread.
#[derive(Clone)]
pub struct Task {
    /// The time at which the task should be complete.
    pub deadline: Instant,
    /// The problem to report if the task misses its deadline.
    pub problem: String,
    /// The keys of the hosts to which the task connects.
    pub hosts: Vec<u64>,
}

/// The progress of the helper thread, shared with the waiting process.
pub struct Progress {
    task: Mutex<Task>,
    /// Whether any server has answered.
    has_answer: AtomicBool,
}

impl Progress {
    pub fn new() -> Progress {
        let seconds = TIME_FOR_OPTIONS.as_secs();
        let problem = format!("could not read the options of the connection string within {seconds} s");
        let task = Task { deadline: Instant::now() + TIME_FOR_OPTIONS, problem, hosts: vec![] };
        Progress { task: Mutex::new(task), has_answer: AtomicBool::new(false) }
    }

    fn tell(&self, limit: Duration, problem: String, hosts: &[&Host]) {
        let (deadline, hosts) = (Instant::now() + limit, hosts.iter().map(|host| host.key()).collect());
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Task { deadline, problem, hosts };
    }

    fn note_answer(&self) {
        self.has_answer.store(true, Ordering::Release);
    }

    /// Returns whether any server has answered, even if no connection was established. libpq can also give up after an
    /// answer, for example if the server asks for a password that the connection string does not contain.
    pub fn has_answer(&self) -> bool {
        self.has_answer.load(Ordering::Acquire)
    }

    /// Returns the current task if it has missed its deadline.
    pub fn overdue(&self) -> Option<Task> {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        (Instant::now() >= task.deadline).then(|| task.clone())
    }
}

/// Connects to the first host of the list that accepts the connection. Hosts with a lower `order_of` value
/// are tried first. Hosts with equal values are tried in the order of the list, or in random order if the
/// connection string requests a random order. `late` receives the keys of the hosts whose name lookup took
/// longer than the time for one address.
pub fn connect(
    string: &CStr,
    order_of: impl Fn(u64) -> i64,
    progress: &Progress,
    late: &mut Vec<u64>,
) -> Result<Connection, Problem> {
    // The list of hosts may come from a service file.
    let hosts = Hosts::of(&Options::in_effect(&parameters(string, &[])))?;
    let order = |step: &Step| {
        let host = match step {
            Step::LookUp(host) => host,
            Step::Connect((_, found)) => found,
        };
        (order_of(host.key()), hosts.random.as_ref().map(|random| random.hash_one(host)))
    };
    let mut attempts = Attempts::new(hosts.steps(), TIME_FOR_A_LOOKUP, hosts.time, order);
    let mut problems = vec![];
    // The reasons why addresses rejected the connection, each with the key of its host.
    let mut rejections = vec![];
    while let Some((step, limit)) = attempts.next_step() {
        let seconds = limit.as_secs();
        match step {
            Step::LookUp(host) => {
                let start = Instant::now();
                let of_name = format!("could not translate host name \"{}\" to address", host.name);
                let problem = format!("{of_name}: no reply from the name service within {seconds} s");
                progress.tell(limit, problem, &[host]);
                match host.look_up() {
                    Ok(found) => attempts.found(found.map(|found| (host, found))),
                    Err(problem) => problems.push(format!("{of_name}: {problem}")),
                }
                if start.elapsed() > hosts.time {
                    late.push(host.key());
                }
            }
            Step::Connect((host, found)) => {
                let problem = format!(
                    "could not connect to {found}: libpq has been processing data from the host for more than {seconds} s, possibly because of too many SCRAM iterations"
                );
                progress.tell(limit, problem, &[host, &found]);
                match connect_to(string, &hosts, &found, limit, progress) {
                    Ok(connection) => return Ok(connection),
                    Err(problem) => {
                        problems.push(problem.text);
                        rejections.extend(problem.rejection.map(|rejection| (host.key(), rejection)));
                    }
                }
            }
        }
    }
    // Report a rejection only if all hosts have rejected the connection, because any other host may be the registry.
    let has_rejected = |host: &Host| rejections.iter().any(|&(key, _)| key == host.key());
    let rejection = rejections.first().filter(|_| hosts.list.iter().all(has_rejected));
    Err(Problem { text: problems.join("; "), rejection: rejection.map(|&(_, rejection)| rejection) })
}

/// Connects to one address. Returns when the connection is established or refused, or when the time limit has passed.
/// The time limit is enforced here, because libpq ignores its `connect_timeout` parameter when it connects in steps.
fn connect_to(
    string: &CStr,
    hosts: &Hosts,
    found: &Host,
    limit: Duration,
    progress: &Progress,
) -> Result<Connection, Problem> {
    let deadline = Instant::now() + limit;
    let mut connection = Connection::start(&parameters(string, &hosts.parameters(found)))?;
    if let Some(problem) = connection.failure() {
        // Since version 17, libpq checks `requirepeer` in this step. Therefore, libpq may have rejected a server that
        // has accepted the connection.
        if hosts.checks_peer && connection.has_listener() {
            progress.note_answer();
        }
        return Err(problem);
    }
    let mut interest = Interest::Write;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("no reply from {found} within {} s", limit.as_secs()).into());
        }
        if poll(connection.socket(), interest, left) {
            // Note an answer before the call below, because the call may block.
            if connection.has_input() {
                progress.note_answer();
            }
            let is_just_accepted = connection.is_just_accepted();
            interest = match connection.connect() {
                Ok(Some(interest)) => interest,
                Ok(None) => return Ok(connection),
                Err(problem) => {
                    // The server has accepted the connection, so libpq itself has rejected the server. Versions before
                    // 17 check `requirepeer` here.
                    if is_just_accepted {
                        progress.note_answer();
                    }
                    return Err(problem);
                }
            };
        }
    }
}

/// Returns the connection string with default parameters before it and overriding parameters after it. By default, a
/// standby counts as an unusable host.
fn parameters<'a>(string: &'a CStr, instead: &'a [(&'a CStr, CString)]) -> Vec<(&'a CStr, &'a CStr)> {
    let usual = [
        (c"fallback_application_name", c"snowflake_id"),
        (c"target_session_attrs", c"read-write"),
        (c"dbname", string),
        (c"client_encoding", c"UTF8"),
    ];
    usual.into_iter().chain(instead.iter().map(|(keyword, value)| (*keyword, value.as_c_str()))).collect()
}
