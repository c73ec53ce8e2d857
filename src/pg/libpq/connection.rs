//! A connection that goes on whenever its socket is ready.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{NonNull, null};

use pq_sys::*;

use super::answer::{Refusal, ResultOfQuery, Row, StatementError};
use super::start::start;
use super::text::{message, text_of};
use crate::pg::wait::Interest;

/// How long all values of an answer may be, in bytes.
const LONGEST_ANSWER: usize = 1 << 20;

/// How much memory libpq may take for an answer, in bytes.
const MOST_MEMORY: usize = 16 << 20;

/// A connection. It is closed when it is dropped.
pub struct Connection {
    handle: NonNull<PGconn>,
    /// Whether the server has sent a warning since the last query. On the heap, where libpq finds it.
    has_warned: NonNull<Cell<bool>>,
    answer: Result<Vec<Row>, StatementError>,
    /// How long the values of the answer are up to now, in bytes; and how much memory was in use before.
    length: usize,
    memory_before: usize,
}

// SAFETY: libpq lets any thread use a connection, one at a time, and so does this type: nothing of it is shared. What
// `has_warned` points to is reached by its calls alone.
unsafe impl Send for Connection {}

impl Connection {
    /// Begins to connect. Later parameters win over earlier ones, unless they are empty; the connection string is the
    /// value of `dbname`.
    ///
    /// This and [`Connection::connect`] may block and compute for as long as a name service or a server likes.
    pub fn start(parameters: &[(&CStr, &CStr)]) -> Result<Connection, String> {
        let memory_before = memory_in_use();
        let handle = start(parameters).ok_or("out of memory")?;
        let has_warned = NonNull::from(Box::leak(Box::default()));
        let connection = Connection { handle, has_warned, answer: Ok(vec![]), length: 0, memory_before };
        // SAFETY: a connection of ours. What it is to hand to the function lives as long as it does.
        unsafe {
            PQsetNoticeReceiver(handle.as_ptr(), Some(on_notice), has_warned.as_ptr().cast());
            if PQstatus(handle.as_ptr()) == ConnStatusType::CONNECTION_BAD {
                return Err(connection.problem());
            }
        }
        Ok(connection)
    }

    /// Goes on connecting. `None` when it is done.
    pub fn connect(&mut self) -> Result<Option<Interest>, String> {
        // Parameters of the session are kept, however many there are.
        if memory_in_use() > self.memory_before.saturating_add(MOST_MEMORY) {
            return Err("its greeting is too long".into());
        }
        // SAFETY: a connection of ours that is being made.
        match unsafe { PQconnectPoll(self.handle.as_ptr()) } {
            PostgresPollingStatusType::PGRES_POLLING_OK => {
                // SAFETY: a connection of ours.
                unsafe { PQsetnonblocking(self.handle.as_ptr(), 1) };
                Ok(None)
            }
            PostgresPollingStatusType::PGRES_POLLING_READING => Ok(Some(Interest::Read)),
            PostgresPollingStatusType::PGRES_POLLING_WRITING => Ok(Some(Interest::Write)),
            _ => Err(self.problem()),
        }
    }

    /// The socket to wait for. It may be another one after each step of connecting.
    pub fn socket(&self) -> c_int {
        // SAFETY: a connection of ours.
        unsafe { PQsocket(self.handle.as_ptr()) }
    }

    /// Sends a query with its parameters.
    pub fn send(&mut self, query: &CStr, parameters: &[Option<CString>]) -> Result<(), String> {
        let values: Vec<_> =
            parameters.iter().map(|value| value.as_ref().map_or(null(), |value| value.as_ptr())).collect();
        self.has_warned().set(false);
        self.answer = Ok(vec![]);
        (self.length, self.memory_before) = (0, memory_in_use());
        // SAFETY: a connection of ours, C strings and a list of them of the length that is said; all is text.
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
        // Row by row: else libpq collects them all, however many there are.
        // SAFETY: a connection of ours, on which a query was just sent.
        let is_sent = is_sent == 1 && unsafe { PQsetSingleRowMode(self.handle.as_ptr()) } == 1;
        if is_sent { Ok(()) } else { Err(self.problem()) }
    }

    /// Goes on sending. `None` when everything is sent.
    pub fn flush(&mut self) -> Result<Option<Interest>, String> {
        // SAFETY: a connection of ours.
        match unsafe { PQflush(self.handle.as_ptr()) } {
            0 => Ok(None),
            1 => Ok(Some(Interest::Write)),
            _ => Err(self.problem()),
        }
    }

    /// Goes on receiving the answer. `None` when it is there: see [`Connection::answer`]. After an error the connection is
    /// of no use: what comes may be from anybody, and is not taken in without limits.
    pub fn receive(&mut self) -> Result<Option<Interest>, String> {
        // SAFETY: a connection of ours, on which a query was sent; here and below.
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
            // SAFETY: libpq has given it to us.
            unsafe { PQfreemem(notification.as_ptr().cast()) };
            return Err("it sends notifications that nobody has asked for".into());
        }
        // Libpq takes the memory for a message when it has read its length, and before it reads on.
        if memory_in_use() > self.memory_before.saturating_add(MOST_MEMORY) {
            return Err("its answer is too long".into());
        }
        Ok(Some(Interest::Read))
    }

    fn take_in(&mut self, result: &ResultOfQuery) -> Result<(), String> {
        let Err(refusal) = result.rows().and_then(|rows| self.add(rows)) else { return Ok(()) };
        // First what was taken in goes: words take memory, too, and an allocation that fails ends the process.
        self.answer = Ok(vec![]);
        match refusal {
            Refusal::Failed => self.answer = Err(result.error()),
            Refusal::NoQuery => return Err("its answer is not that of a query".into()),
            Refusal::LongValue => return Err("a value is too long".into()),
            Refusal::LongAnswer => return Err("its answer is too long".into()),
            Refusal::NoMemory => return Err("out of memory for its answer".into()),
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

    /// The rows of the answer, or what the server says is wrong. Beside it, whether the server has warned, which it
    /// does when a commit may not have reached its standby.
    pub fn answer(&mut self) -> (Result<Vec<Row>, StatementError>, bool) {
        (std::mem::replace(&mut self.answer, Ok(vec![])), self.has_warned().get())
    }

    /// The role that is connected.
    pub fn role(&self) -> String {
        // SAFETY: a connection of ours; a C string that lives until the next call.
        unsafe { text_of(PQuser(self.handle.as_ptr())) }
    }

    /// Whether the server is still there, as far as is known.
    pub fn is_good(&self) -> bool {
        // SAFETY: a connection of ours.
        unsafe { PQstatus(self.handle.as_ptr()) == ConnStatusType::CONNECTION_OK }
    }

    fn has_warned(&self) -> &Cell<bool> {
        // SAFETY: it lives as long as the connection, on whose calls alone libpq reaches it.
        unsafe { self.has_warned.as_ref() }
    }

    fn problem(&self) -> String {
        // SAFETY: a connection of ours; a C string that lives until the next call.
        unsafe { message(PQerrorMessage(self.handle.as_ptr())) }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: a connection of ours, which nobody uses any more; after that nobody knows the other pointer, which
        // came from a box.
        unsafe {
            PQfinish(self.handle.as_ptr());
            drop(Box::from_raw(self.has_warned.as_ptr()));
        }
    }
}

/// How much memory this process has from the C library, in bytes, as far as that tells.
fn memory_in_use() -> usize {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: reads the library's own figures.
        let info = unsafe { libc::mallinfo2() };
        info.uordblks + info.hblkhd
    }
    #[cfg(not(target_env = "gnu"))]
    0
}

/// Called by libpq for each notice: notes warnings. It calls nothing of PostgreSQL's server, so that it needs no guard. A
/// panic would not unwind into libpq: it ends the process, as this is no `extern "C-unwind"`.
unsafe extern "C" fn on_notice(has_warned: *mut c_void, notice: *const PGresult) {
    // SAFETY: what was given to PQsetNoticeReceiver, and a notice; its severity is a C string or null.
    unsafe {
        let severity = message(PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED.into()));
        if severity == "WARNING" {
            (*has_warned.cast::<Cell<bool>>()).set(true);
        }
    }
}
