//! What a server answers, as far as it is taken in.

use std::collections::TryReserveError;
use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use pq_sys::*;

use super::text::message;

/// The longest value of an answer that is taken in, in bytes.
const LONGEST_VALUE: c_int = 8_192;

/// One row of an answer, NULL as `None`.
pub type Row = Vec<Option<String>>;

/// A result that libpq gave us. It is freed when it is dropped.
pub struct ResultOfQuery(pub NonNull<PGresult>);

/// Why a result is not taken in.
pub enum Refusal {
    /// The statement has failed.
    Failed,
    NoQuery,
    LongValue,
    LongAnswer,
    NoMemory,
}

impl From<TryReserveError> for Refusal {
    fn from(_: TryReserveError) -> Refusal {
        Refusal::NoMemory
    }
}

impl ResultOfQuery {
    /// The rows, unless this is nothing that a query returns: COPY, for one, is returned again and again until it is
    /// served. How much others send is not known, so that each allocation may fail.
    pub fn rows(&self) -> Result<Vec<Row>, Refusal> {
        use ExecStatusType::*;
        let result = self.0.as_ptr();
        // SAFETY: a result of ours.
        match unsafe { PQresultStatus(result) } {
            PGRES_TUPLES_OK | PGRES_SINGLE_TUPLE | PGRES_COMMAND_OK => {}
            PGRES_FATAL_ERROR => return Err(Refusal::Failed),
            _ => return Err(Refusal::NoQuery),
        }
        // SAFETY: as above.
        let (count, columns) = unsafe { (PQntuples(result), PQnfields(result)) };
        let mut rows = Vec::new();
        rows.try_reserve_exact(count as usize)?;
        for at in 0..count {
            let mut row = Row::new();
            row.try_reserve_exact(columns as usize)?;
            for column in 0..columns {
                row.push(self.value(at, column)?);
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// A value in a row and a column that it has.
    fn value(&self, row: c_int, column: c_int) -> Result<Option<String>, Refusal> {
        let result = self.0.as_ptr();
        // SAFETY: a result of ours; each value is a C string, which lives as long.
        let bytes = unsafe {
            if PQgetisnull(result, row, column) != 0 {
                return Ok(None);
            } else if PQgetlength(result, row, column) > LONGEST_VALUE {
                return Err(Refusal::LongValue);
            }
            CStr::from_ptr(PQgetvalue(result, row, column)).to_bytes()
        };
        let text = String::from_utf8_lossy(bytes);
        let mut copy = String::new();
        copy.try_reserve_exact(text.len())?;
        copy.push_str(&text);
        Ok(Some(copy))
    }

    /// Why the statement has failed.
    pub fn error(&self) -> StatementError {
        let result = self.0.as_ptr();
        // SAFETY: a result of ours; a C string or null, which lives as long.
        let field = |code: u8| unsafe { message(PQresultErrorField(result, code.into())) };
        let (hint, state) = (field(PG_DIAG_MESSAGE_HINT), field(PG_DIAG_SQLSTATE));
        let mut text = field(PG_DIAG_MESSAGE_PRIMARY);
        if text.is_empty() {
            // Libpq itself has noticed something.
            // SAFETY: as above.
            text = unsafe { message(PQresultErrorMessage(result)) };
        }
        for (label, more) in [("DETAIL", &field(PG_DIAG_MESSAGE_DETAIL)), ("HINT", &hint)] {
            if !more.is_empty() {
                text.push_str(&format!("; {label}: {more}"));
            }
        }
        StatementError {
            message: text,
            is_denied: state == "42501",
            is_elsewhere: ["3F000", "42883"].contains(&state.as_str()),
            has_hint: !hint.is_empty(),
        }
    }
}

/// Why a statement has failed.
#[derive(Clone, Debug, Default)]
pub struct StatementError {
    /// The server's message with its DETAIL and HINT, in one line.
    pub message: String,
    /// Whether a privilege is missing.
    pub is_denied: bool,
    /// Whether there is no such schema or function.
    pub is_elsewhere: bool,
    /// Whether there is a HINT in the message.
    pub has_hint: bool,
}

impl Drop for ResultOfQuery {
    fn drop(&mut self) {
        // SAFETY: a result of ours, which nobody uses any more.
        unsafe { PQclear(self.0.as_ptr()) };
    }
}
