//! Results of queries. Their size is limited.

use std::collections::TryReserveError;
use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use pq_sys::*;

use super::text::message;

/// The maximum length of a value in an answer, in bytes.
const LONGEST_VALUE: c_int = 8_192;

/// One row of an answer. NULL is `None`.
pub type Row = Vec<Option<String>>;

/// A query result from libpq, which is freed when this value is dropped.
pub struct ResultOfQuery(pub NonNull<PGresult>);

/// The reason why a result is rejected.
pub enum Refusal {
    /// The statement failed.
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
    /// Returns the rows, or an error if the result does not come from a query. During COPY, for example, libpq returns
    /// the same result repeatedly until the copy is complete. Also returns an error if memory is exhausted, because the
    /// server may send any amount of data.
    pub fn rows(&self) -> Result<Vec<Row>, Refusal> {
        use ExecStatusType::*;
        let result = self.0.as_ptr();
        // SAFETY: the result is valid until `self` is dropped.
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

    /// Returns a value. The row and the column must exist.
    fn value(&self, row: c_int, column: c_int) -> Result<Option<String>, Refusal> {
        let result = self.0.as_ptr();
        // SAFETY: the result is valid until `self` is dropped, and so are its values, which are C strings.
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

    /// Returns why the statement failed.
    pub fn error(&self) -> StatementError {
        let result = self.0.as_ptr();
        // SAFETY: the result is valid until `self` is dropped, and so are its fields, which are C strings or null.
        let field = |code: u8| unsafe { message(PQresultErrorField(result, code.into())) };
        let (hint, state) = (field(PG_DIAG_MESSAGE_HINT), field(PG_DIAG_SQLSTATE));
        let mut text = field(PG_DIAG_MESSAGE_PRIMARY);
        if text.is_empty() {
            // The error comes from libpq itself.
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
            is_from_inside: !field(PG_DIAG_CONTEXT).is_empty(),
            is_elsewhere: ["3F000", "42883"].contains(&state.as_str()),
            is_of_data: state.starts_with("22"),
            has_hint: !hint.is_empty(),
        }
    }
}

/// The error of a statement.
#[derive(Clone, Debug, Default)]
pub struct StatementError {
    /// The server's message with DETAIL and HINT, in one line.
    pub message: String,
    /// True if a privilege is missing.
    pub is_denied: bool,
    /// Whether the error was raised by a function that the statement called.
    pub is_from_inside: bool,
    /// Whether the schema or the function is missing.
    pub is_elsewhere: bool,
    /// Whether the server cannot process a value of the statement (SQLSTATE class 22).
    pub is_of_data: bool,
    /// True if the message contains a HINT.
    pub has_hint: bool,
}

impl Drop for ResultOfQuery {
    fn drop(&mut self) {
        // SAFETY: the result is valid, and is not used after this.
        unsafe { PQclear(self.0.as_ptr()) };
    }
}
