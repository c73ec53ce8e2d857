//! Connects to a registry in the helper thread. The thread may block or compute for an unlimited time. For
//! example, a name lookup may not return, or a server may make libpq hash a password for hours.
//!
//! The code calls no functions of the PostgreSQL server, because only the main thread may call them. Before
//! each step, the thread publishes what it is about to do and how long that should take. The waiting process
//! can then detect that the thread is stuck, and at which host.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::hosts::{Host, Hosts};
use crate::pg::helper::poll;
use crate::pg::libpq::{Connection, Options, Problem};
use crate::pg::wait::Interest;

/// Time limit for reading the options. A service file may refer to a directory service.
const TIME_FOR_OPTIONS: Duration = Duration::from_secs(30);
/// Time limit for one name lookup. A name server that does not answer costs 10 s, and up to three may be
/// configured.
const TIME_FOR_A_LOOKUP: Duration = Duration::from_secs(30);

/// The current step of the thread.
#[derive(Clone)]
pub struct Step {
    /// The time at which the step should be complete.
    pub deadline: Instant,
    /// The problem to report if the step misses its deadline.
    pub problem: String,
    /// The keys of the hosts to which the current step connects.
    pub hosts: Vec<u64>,
}

/// The progress of the helper thread, shared with the waiting process.
pub struct Progress {
    step: Mutex<Step>,
    /// Whether any server has answered.
    has_answer: AtomicBool,
}

impl Progress {
    pub fn new() -> Progress {
        let seconds = TIME_FOR_OPTIONS.as_secs();
        let problem = format!("could not read the options of the connection string within {seconds} s");
        let step = Step { deadline: Instant::now() + TIME_FOR_OPTIONS, problem, hosts: vec![] };
        Progress { step: Mutex::new(step), has_answer: AtomicBool::new(false) }
    }

    fn tell(&self, time: Duration, problem: String, hosts: &[&Host]) {
        let hosts = hosts.iter().map(|host| host.key()).collect();
        let step = Step { deadline: Instant::now() + time, problem, hosts };
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    fn note_answer(&self) {
        self.has_answer.store(true, Ordering::Release);
    }

    /// Returns whether any server has answered, even if no connection was established. libpq gives up after answers,
    /// too, for example if the server asks for a password that the connection string does not contain.
    pub fn has_answer(&self) -> bool {
        self.has_answer.load(Ordering::Acquire)
    }

    /// Returns the current step if the step has missed its deadline.
    pub fn overdue(&self) -> Option<Step> {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        (Instant::now() >= step.deadline).then(|| step.clone())
    }
}

/// The result of the helper thread.
pub struct Attempt {
    pub connection: Result<Connection, Problem>,
    /// The keys of the hosts whose name lookup exceeded the time limit of a host.
    pub late: Vec<u64>,
}

/// Connects to the first host of the list that accepts the connection. Hosts with a lower `order_of` value
/// are tried first, and hosts with equal values in the order of the list.
pub fn connect(string: &CStr, order_of: impl Fn(u64) -> i64, progress: &Progress) -> Attempt {
    let mut late = vec![];
    let connection = connect_to_any(string, order_of, progress, &mut late);
    Attempt { connection, late }
}

fn connect_to_any(
    string: &CStr,
    order_of: impl Fn(u64) -> i64,
    progress: &Progress,
    late: &mut Vec<u64>,
) -> Result<Connection, Problem> {
    // The list of hosts may come from a service file.
    let mut hosts = Hosts::of(&Options::in_effect(&parameters(string, &[])))?;
    hosts.list.sort_by_key(|host| order_of(host.key()));
    let mut problems = vec![];
    // For each host, why one of its addresses has rejected the connection.
    let mut rejections = vec![];
    for host in &hosts.list {
        let start = Instant::now();
        if let Some(name) = host.unknown_name() {
            let seconds = TIME_FOR_A_LOOKUP.as_secs();
            let problem = format!(
                "could not translate host name \"{name}\" to address: no reply from the name service within {seconds} s"
            );
            progress.tell(TIME_FOR_A_LOOKUP, problem, &[host]);
        }
        let found = host.look_up();
        if start.elapsed() > hosts.time {
            late.push(host.key());
        }
        let mut hosts_found = found.unwrap_or_else(|problem| {
            problems.push(problem);
            vec![]
        });
        let mut rejection = None;
        hosts_found.sort_by_key(|host_found| order_of(host_found.key()));
        for host_found in &hosts_found {
            let problem = format!(
                "could not connect to {host_found}: libpq has been processing data from the host for more than {} s, possibly because of too many SCRAM iterations",
                hosts.time.as_secs()
            );
            progress.tell(hosts.time, problem, &[host, host_found]);
            match connect_to(string, &hosts, host_found, progress) {
                Ok(connection) => return Ok(connection),
                Err(problem) => {
                    problems.push(problem.text);
                    rejection = rejection.or(problem.rejection);
                }
            }
        }
        rejections.push(rejection);
    }
    // A host that has not answered may be the registry.
    let is_rejected = rejections.iter().all(Option::is_some);
    let rejection = rejections.into_iter().next().flatten().filter(|_| is_rejected);
    Err(Problem { text: problems.join("; "), rejection })
}

/// Connects to one host. Returns when the connection is established or refused, or when the time limit of a
/// host has passed. libpq ignores its `connect_timeout` parameter when a connection is made in steps.
fn connect_to(
    string: &CStr,
    hosts: &Hosts,
    host_found: &Host,
    progress: &Progress,
) -> Result<Connection, Problem> {
    let deadline = Instant::now() + hosts.time;
    let mut connection = Connection::start(&parameters(string, &hosts.parameters(host_found)))?;
    if let Some(problem) = connection.failure() {
        // Since version 17, libpq checks `requirepeer` this early, so it may have rejected a server that has accepted.
        if hosts.checks_peer && connection.has_listener() {
            progress.note_answer();
        }
        return Err(problem);
    }
    let mut interest = Interest::Write;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("no reply from {host_found} within {} s", hosts.time.as_secs()).into());
        }
        if poll(connection.socket(), interest, left) {
            // The call below may block.
            if connection.has_input() {
                progress.note_answer();
            }
            let is_just_accepted = connection.is_just_accepted();
            interest = match connection.connect() {
                Ok(Some(interest)) => interest,
                Ok(None) => return Ok(connection),
                Err(problem) => {
                    // libpq itself rejects the server. Before version 17, it checks `requirepeer` now.
                    if is_just_accepted {
                        progress.note_answer();
                    }
                    return Err(problem);
                }
            };
        }
    }
}

/// Returns the connection string with default parameters before it and overriding parameters after it. Unless
/// the connection string says otherwise, a host on which the registry is a standby counts as one that cannot be used.
fn parameters<'a>(string: &'a CStr, instead: &'a [(&'a CStr, CString)]) -> Vec<(&'a CStr, &'a CStr)> {
    let usual = [
        (c"fallback_application_name", c"snowflake_id"),
        (c"target_session_attrs", c"read-write"),
        (c"dbname", string),
        (c"client_encoding", c"UTF8"),
    ];
    usual.into_iter().chain(instead.iter().map(|(keyword, value)| (*keyword, value.as_c_str()))).collect()
}
