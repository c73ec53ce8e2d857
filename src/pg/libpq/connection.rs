//! Connects to a server without blocking. The caller waits for the socket between calls.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::ptr::{NonNull, null};

use pq_sys::*;
use snowflake_id_core::protocol::may_be_about_commit;

use super::answer::{Refusal, ResultOfQuery, Row, StatementError};
use super::problem::{Problem, Rejection};
use super::start::start;
use super::text::{message, text_of};
use crate::pg::wait::Interest;

/// Limit for the total length of all values in an answer, in bytes.
const LONGEST_ANSWER: usize = 1 << 20;

/// The maximum memory that libpq may allocate for an answer, in bytes.
const MOST_MEMORY: usize = 16 << 20;

/// A connection, which is closed when the value is dropped.
pub struct Connection {
    handle: NonNull<PGconn>,
    /// Whether the server has sent a warning that may be about the commit of the last query. The flag is on the heap,
    /// because libpq stores a pointer to it.
    has_warned: NonNull<Cell<bool>>,
    answer: Result<Vec<Row>, StatementError>,
    /// The total length of all values received so far, in bytes.
    length: usize,
    /// The memory in use before the query was sent, in bytes.
    memory_before: usize,
}

// SAFETY: libpq allows any thread to use a connection, one thread at a time. This type has no shared references. Only
// calls that use this connection access `has_warned`.
unsafe impl Send for Connection {}

impl Connection {
    /// Starts to connect. A later parameter overrides an earlier parameter of the same name, unless the later one is
    /// empty. The parameter `dbname` contains the connection string. Returns an error only if memory cannot be
    /// allocated. For other failures, see [`Connection::failure`].
    ///
    /// A name service or a server can make this function and [`Connection::connect`] block or run indefinitely.
    pub fn start(parameters: &[(&CStr, &CStr)]) -> Result<Connection, Problem> {
        let memory_before = memory_in_use();
        let handle = start(parameters).ok_or("out of memory")?;
        let has_warned = NonNull::from(Box::leak(Box::default()));
        let connection = Connection { handle, has_warned, answer: Ok(vec![]), length: 0, memory_before };
        // SAFETY: `handle` is valid. The flag that libpq passes to the function lives as long as the connection.
        unsafe {
            PQsetNoticeReceiver(handle.as_ptr(), Some(on_notice), has_warned.as_ptr().cast());
            PQsetErrorVerbosity(handle.as_ptr(), PGVerbosity::PQERRORS_VERBOSE);
        }
        Ok(connection)
    }

    /// Returns the problem if the attempt to connect has failed.
    pub fn failure(&self) -> Option<Problem> {
        // SAFETY: `handle` is valid until `self` is dropped.
        let status = unsafe { PQstatus(self.handle.as_ptr()) };
        (status == ConnStatusType::CONNECTION_BAD).then(|| self.problem_of_connecting())
    }

    /// Returns whether the connection uses a Unix-domain socket, and a server listens on the socket. May block if the
    /// server accepts no connections.
    pub fn has_listener(&self) -> bool {
        // SAFETY: `handle` is valid until `self` is dropped, and libpq returns null or C strings.
        let (directory, port) =
            unsafe { (text_of(PQhost(self.handle.as_ptr())), text_of(PQport(self.handle.as_ptr()))) };
        let path = format!("{directory}/.s.PGSQL.{port}");
        let address = match path.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name),
            None if path.starts_with('/') => SocketAddr::from_pathname(path),
            None => return false,
        };
        address.and_then(|address| UnixStream::connect_addr(&address)).is_ok()
    }

    /// Continues to connect. Returns `None` when the connection is established. Otherwise, returns the socket
    /// condition to wait for.
    pub fn connect(&mut self) -> Result<Option<Interest>, Problem> {
        // libpq keeps all parameters that the server reports, no matter how many.
        if memory_in_use() > self.memory_before.saturating_add(MOST_MEMORY) {
            return Err("the registry's greeting is too long".into());
        }
        // SAFETY: `handle` is valid, and the connection attempt is in progress.
        match unsafe { PQconnectPoll(self.handle.as_ptr()) } {
            PostgresPollingStatusType::PGRES_POLLING_OK => {
                // SAFETY: `handle` is valid until `self` is dropped.
                unsafe {
                    PQsetErrorVerbosity(self.handle.as_ptr(), PGVerbosity::PQERRORS_DEFAULT);
                    PQsetnonblocking(self.handle.as_ptr(), 1);
                }
                Ok(None)
            }
            PostgresPollingStatusType::PGRES_POLLING_READING => Ok(Some(Interest::Read)),
            PostgresPollingStatusType::PGRES_POLLING_WRITING => Ok(Some(Interest::Write)),
            _ => Err(self.problem_of_connecting()),
        }
    }

    /// Returns whether the server has sent data that libpq has not read yet. (Calling `recv` for this purpose could
    /// consume the reason of a failure, and libpq could then not report that reason.)
    pub fn has_input(&self) -> bool {
        let mut length: c_int = 0;
        // SAFETY: the call writes an `int`. If libpq has no socket, the call fails.
        unsafe { libc::ioctl(self.socket(), libc::FIONREAD, &raw mut length) == 0 && length > 0 }
    }

    /// Returns whether a server has accepted the connection, and libpq has sent nothing yet.
    pub fn is_just_accepted(&self) -> bool {
        // SAFETY: `handle` is valid until `self` is dropped.
        unsafe { PQstatus(self.handle.as_ptr()) == ConnStatusType::CONNECTION_MADE }
    }

    /// Returns the socket to wait for. A call of [`Connection::connect`] may change the socket.
    pub fn socket(&self) -> c_int {
        // SAFETY: `handle` is valid until `self` is dropped.
        unsafe { PQsocket(self.handle.as_ptr()) }
    }

    /// Starts to send a query with its parameters.
    pub fn send(&mut self, query: &CStr, parameters: &[Option<CString>]) -> Result<(), String> {
        let values: Vec<_> =
            parameters.iter().map(|value| value.as_ref().map_or(null(), |value| value.as_ptr())).collect();
        self.has_warned().set(false);
        self.answer = Ok(vec![]);
        (self.length, self.memory_before) = (0, memory_in_use());
        // SAFETY: `handle` is valid. The query and the values are C strings, and the list of values has the stated
        // length. All parameters are in text format.
        let is_sent = unsafe {
            PQsendQueryParams(
                self.handle.as_ptr(),
                query.as_ptr(),
                values.len() as c_int,
                null(),
                values.as_ptr(),
                null(),
                null(),
                0,
            )
        };
        // Request single-row mode. Otherwise, libpq would collect all rows in memory. SAFETY: `handle` is valid, and
        // the preceding call sent a query.
        let is_sent = is_sent == 1 && unsafe { PQsetSingleRowMode(self.handle.as_ptr()) } == 1;
        if is_sent { Ok(()) } else { Err(self.problem()) }
    }

    /// Continues to send. Returns `None` when everything has been sent.
    pub fn flush(&mut self) -> Result<Option<Interest>, String> {
        // SAFETY: `handle` is valid until `self` is dropped.
        match unsafe { PQflush(self.handle.as_ptr()) } {
            0 => Ok(None),
            1 => Ok(Some(Interest::Write)),
            _ => Err(self.problem()),
        }
    }

    /// Continues to receive the answer. Returns `None` when the answer is complete and available from
    /// [`Connection::answer`]. The connection is unusable after an error. The amount of received data is limited,
    /// because the server is not trusted.
    pub fn receive(&mut self) -> Result<Option<Interest>, String> {
        // SAFETY: here and below, `handle` is valid, and a query was sent.
        if unsafe { PQconsumeInput(self.handle.as_ptr()) } != 1 {
            self.answer = Ok(vec![]);
            return Err(self.problem());
        }
        // SAFETY: as above.
        while unsafe { PQisBusy(self.handle.as_ptr()) } == 0 {
            // SAFETY: as above.
            match NonNull::new(unsafe { PQgetResult(self.handle.as_ptr()) }) {
                Some(result) => self.take_in(&ResultOfQuery(result))?,
                None => return Ok(None),
            }
        }
        // SAFETY: as above.
        if let Some(notification) = NonNull::new(unsafe { PQnotifies(self.handle.as_ptr()) }) {
            // SAFETY: libpq has transferred ownership of the notification to the caller.
            unsafe { PQfreemem(notification.as_ptr().cast()) };
            return Err("the registry sent unexpected notifications".into());
        }
        // libpq allocates memory for a whole message as soon as it has received the length of the message.
        if memory_in_use() > self.memory_before.saturating_add(MOST_MEMORY) {
            return Err("the registry's reply is too long".into());
        }
        Ok(Some(Interest::Read))
    }

    fn take_in(&mut self, result: &ResultOfQuery) -> Result<(), String> {
        let Err(refusal) = result.rows().and_then(|rows| self.add(rows)) else { return Ok(()) };
        // Free the rows before creating the error message. The message needs memory, and a failed allocation aborts the
        // process.
        self.answer = Ok(vec![]);
        match refusal {
            Refusal::Failed => self.answer = Err(result.error()),
            Refusal::NoQuery => return Err("the registry's reply is not a query result".into()),
            Refusal::LongValue => return Err("a value is too long".into()),
            Refusal::LongAnswer => return Err("the registry's reply is too long".into()),
            Refusal::NoMemory => return Err("out of memory for the registry's reply".into()),
        }
        Ok(())
    }

    fn add(&mut self, rows: Vec<Row>) -> Result<(), Refusal> {
        self.length +=
            rows.iter().flatten().map(|value| 1 + value.as_ref().map_or(0, String::len)).sum::<usize>();
        if self.length > LONGEST_ANSWER {
            return Err(Refusal::LongAnswer);
        }
        if let Ok(all) = &mut self.answer {
            all.try_reserve(rows.len())?;
            all.extend(rows);
        }
        Ok(())
    }

    /// Returns the rows of the answer, or the server's error message. The second value is true if the server has sent a
    /// warning that its commit may not have reached the standby, or any other warning that [may be about the
    /// commit](may_be_about_commit).
    pub fn answer(&mut self) -> (Result<Vec<Row>, StatementError>, bool) {
        (std::mem::replace(&mut self.answer, Ok(vec![])), self.has_warned().get())
    }

    /// Returns the name of the role that has connected.
    pub fn role(&self) -> String {
        // SAFETY: the handle is valid until `self` is dropped, and so is the C string.
        unsafe { text_of(PQuser(self.handle.as_ptr())) }
    }

    /// Returns whether libpq considers the connection established.
    pub fn is_good(&self) -> bool {
        // SAFETY: `handle` is valid until `self` is dropped.
        unsafe { PQstatus(self.handle.as_ptr()) == ConnStatusType::CONNECTION_OK }
    }

    fn has_warned(&self) -> &Cell<bool> {
        // SAFETY: the flag lives as long as the connection. libpq accesses it only during calls that use this
        // connection.
        unsafe { self.has_warned.as_ref() }
    }

    fn problem_of_connecting(&self) -> Problem {
        // SAFETY: `handle` is valid. The message is a C string that is valid until the next call.
        let mut problem = Problem::of_verbose(&unsafe { text_of(PQerrorMessage(self.handle.as_ptr())) });
        // SAFETY: `handle` is valid until `self` is dropped.
        if unsafe { PQconnectionNeedsPassword(self.handle.as_ptr()) } == 1 {
            problem.rejection = Some(Rejection::Login);
        }
        problem
    }

    fn problem(&self) -> String {
        // SAFETY: `handle` is valid. The message is a C string that is valid until the next call.
        unsafe { message(PQerrorMessage(self.handle.as_ptr())) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: `handle` is valid, and this is its last use. After PQfinish, libpq no longer uses `has_warned`. The
        // pointer was created from a box.
        unsafe {
            PQfinish(self.handle.as_ptr());
            drop(Box::from_raw(self.has_warned.as_ptr()));
        }
    }
}

/// Returns the memory that this process has allocated from the C library, in bytes. Returns 0 if the library does not
/// report the amount.
fn memory_in_use() -> usize {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: reads the statistics of the library.
        let info = unsafe { libc::mallinfo2() };
        info.uordblks + info.hblkhd
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Records warnings that may be about a commit. libpq calls this function for each notice. The function needs no guard,
/// because it calls no functions of the PostgreSQL server. It is not `extern "C-unwind"`, so a panic would abort the
/// process instead of unwinding into libpq.
unsafe extern "C" fn on_notice(has_warned: *mut c_void, notice: *const PGresult) {
    // SAFETY: the first pointer was given to PQsetNoticeReceiver, and the second one points to a notice. The fields of
    // the notice are C strings or null.
    unsafe {
        let field = |code: u8| message(PQresultErrorField(notice, code.into()));
        if field(PG_DIAG_SEVERITY_NONLOCALIZED) == "WARNING"
            && may_be_about_commit(&field(PG_DIAG_SOURCE_FUNCTION))
        {
            (*has_warned.cast::<Cell<bool>>()).set(true);
        }
    }
}
