//! A connection to the registry, made for one round of questions and closed again.
//!
//! Nothing here waits for the network alone: each wait ends as well when the process is asked to stop, and at its
//! deadline. libpq's own `connect_timeout` does not count when a connection is made in steps, so that each host has a
//! deadline of ours. When that is over, the attempt goes on with the next host of the list.

use std::ffi::{CStr, CString};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use crate::pg::libpq::{Connection, Interest, Options, Row};
use crate::pg::wait::{WaitEvent, wait_for_socket};

/// The port of a host without one.
const USUAL_PORT: &str = "5432";
/// How long one host has, unless `connect_timeout` says otherwise.
const TIME_FOR_A_HOST: Duration = Duration::from_secs(5);
/// How long it has at most, whatever that says.
const MOST_TIME_FOR_A_HOST: Duration = Duration::from_secs(60);
/// How long the registry has for an answer.
const TIME_FOR_AN_ANSWER: Duration = Duration::from_secs(15);
/// How long a wait is at most before [`Link::look_around`] is called.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Why there is no answer.
pub enum NoAnswer {
    /// The process has been asked to stop.
    Stopping,
    /// In words for the log.
    Failed(String),
    /// The same. The statement has failed, and changed nothing: another one may not.
    Refused(String),
}

impl From<String> for NoAnswer {
    fn from(problem: String) -> NoAnswer {
        NoAnswer::Failed(problem)
    }
}

/// Called again and again during waits; false ends them.
pub type LookAround<'a> = &'a mut dyn FnMut() -> bool;

/// Connects, to the first host of the list that can be had.
pub fn connect(string: &CStr, look_around: LookAround) -> Result<Connection, NoAnswer> {
    let mut connection = start(string, &[])?;
    // The list may come from a service file: only a connection knows it.
    let mut hosts = Hosts::of(&connection.options());
    let mut silent = Vec::new();
    let mut last_problem = None;
    loop {
        match finish(&mut connection, &hosts, look_around)? {
            Connecting::Done => return Ok(connection),
            Connecting::Refused(problem) => {
                // libpq has tried all that were left.
                return Err(last_problem.map_or(problem.clone(), |last| format!("{last}; {problem}")).into());
            }
            Connecting::TimedOut { place } => {
                let problem = format!("no answer from {}:{} in {} s", place.0, place.2, hosts.time.as_secs());
                silent.push(place.1.clone());
                hosts.leave_out(&place, &silent);
                if hosts.list.is_empty() {
                    return Err(problem.into());
                }
                last_problem = Some(problem);
                connection = start(string, &hosts.parameters())?;
            }
        }
    }
}

/// How an attempt has ended.
enum Connecting {
    Done,
    Refused(String),
    TimedOut { place: (String, String, String) },
}

/// Begins to connect. Some parameters win over those in the connection string.
fn start(string: &CStr, instead: &[(&CStr, CString)]) -> Result<Connection, String> {
    let mut parameters = vec![
        (c"fallback_application_name", c"snowflake_id"),
        (c"dbname", string),
        (c"client_encoding", c"UTF8"),
    ];
    parameters.extend(instead.iter().map(|(keyword, value)| (*keyword, value.as_c_str())));
    Connection::start(&parameters)
}

/// Goes on until the connection is made, refused, or the time for a host is over.
fn finish(
    connection: &mut Connection,
    hosts: &Hosts,
    look_around: LookAround,
) -> Result<Connecting, NoAnswer> {
    let mut interest = Interest::Write;
    let mut place = connection.place();
    let mut deadline = Instant::now() + hosts.time;
    loop {
        if !look_around() {
            return Err(NoAnswer::Stopping);
        }
        if wait_until(connection, interest, deadline) {
            interest = match connection.connect() {
                Ok(Some(interest)) => interest,
                Ok(None) => return Ok(Connecting::Done),
                Err(problem) => return Ok(Connecting::Refused(problem)),
            };
        }
        let now = connection.place();
        if now != place {
            (place, deadline) = (now, Instant::now() + hosts.time);
        } else if Instant::now() >= deadline {
            return Ok(Connecting::TimedOut { place });
        }
    }
}

/// Waits a little. Returns whether to go on with the connection, as something may be there.
fn wait_until(connection: &Connection, interest: Interest, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now()).min(LONGEST_WAIT);
    wait_for_socket(connection.socket(), interest, left, WaitEvent::Registry)
}

/// The hosts that a connection string lists.
struct Hosts {
    list: Vec<Host>,
    /// How long each has.
    time: Duration,
}

/// One of them. Name and address are empty where they are not given.
struct Host {
    name: String,
    address: String,
    port: String,
}

impl Hosts {
    fn of(options: &Options) -> Hosts {
        let all =
            |keyword| -> Vec<&str> { options.get(keyword).map_or(vec![], |text| text.split(',').collect()) };
        let (names, addresses, ports) = (all("host"), all("hostaddr"), all("port"));
        let list = (0..names.len().max(addresses.len()).max(1))
            .map(|at| {
                let text = |list: &[&str]| list.get(at).copied().unwrap_or_default().to_owned();
                // One port stands for all hosts.
                let port = if ports.len() == 1 { ports[0].to_owned() } else { text(&ports) };
                let port = if port.is_empty() { USUAL_PORT.to_owned() } else { port };
                Host { name: text(&names), address: text(&addresses), port }
            })
            .collect();
        let time = options.get("connect_timeout").and_then(|text| text.trim().parse::<i32>().ok());
        let time = time.and_then(|seconds| u64::try_from(seconds).ok()).filter(|&seconds| seconds > 0);
        Hosts { list, time: time.map_or(TIME_FOR_A_HOST, Duration::from_secs).min(MOST_TIME_FOR_A_HOST) }
    }

    /// Leaves out a host that says nothing, but for its other addresses, if those do not say nothing either. The hosts
    /// before it are tried again: libpq may go through the list in any order.
    fn leave_out(&mut self, place: &(String, String, String), silent: &[String]) {
        let Some(at) = self.list.iter().position(|host| host.is_at(place)) else {
            return self.list.clear();
        };
        let host = self.list.remove(at);
        let others = host.addresses().into_iter().filter(|address| !silent.contains(address));
        let others = others.map(|address| Host { name: host.name.clone(), address, port: place.2.clone() });
        self.list.splice(at..at, others);
    }

    /// The parameters that say where to connect to.
    fn parameters(&self) -> Vec<(&'static CStr, CString)> {
        let list = |part: fn(&Host) -> &str| {
            let parts: Vec<_> = self.list.iter().map(part).collect();
            // No text of libpq's has a NUL in it.
            CString::new(parts.join(",")).unwrap_or_default()
        };
        vec![
            (c"host", list(|host| &host.name)),
            (c"hostaddr", list(|host| &host.address)),
            (c"port", list(|host| &host.port)),
        ]
    }
}

impl Host {
    /// Whether a connection is being made to it.
    fn is_at(&self, (name, address, port): &(String, String, String)) -> bool {
        let is = |known: &str| known.is_empty() || known == name || known == address;
        is(&self.name) && is(&self.address) && &self.port == port
    }

    /// The addresses behind its name, if that is all there is. libpq goes on to the next one when one refuses, but
    /// cannot be told to when it says nothing.
    fn addresses(&self) -> Vec<String> {
        if self.name.is_empty() || self.name.starts_with(['/', '@']) || !self.address.is_empty() {
            return vec![];
        }
        let addresses = (self.name.as_str(), 0).to_socket_addrs();
        addresses.map_or(vec![], |all| all.map(|address| address.ip().to_string()).collect())
    }
}

/// Asks a question, and returns the one row of the answer.
pub fn ask(
    connection: &mut Connection,
    query: &CStr,
    parameters: &[Option<CString>],
    look_around: LookAround,
) -> Result<Row, NoAnswer> {
    let mut rows = ask_for_rows(connection, query, parameters, look_around)?;
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
    look_around: LookAround,
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
        if !look_around() {
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
