//! How every connection begins.

use std::ffi::CStr;
use std::ptr::{NonNull, null};

use pq_sys::*;

/// Begins to connect. Later parameters win over earlier ones, unless they are empty; the connection string is the value
/// of `dbname`. `None` if there is no memory.
pub fn start(parameters: &[(&CStr, &CStr)]) -> Option<NonNull<PGconn>> {
    let mut keywords: Vec<_> = parameters.iter().map(|(keyword, _)| keyword.as_ptr()).collect();
    let mut values: Vec<_> = parameters.iter().map(|(_, value)| value.as_ptr()).collect();
    keywords.push(null());
    values.push(null());
    // SAFETY: two lists of C strings of the same length, each with a null pointer at its end.
    NonNull::new(unsafe { PQconnectStartParams(keywords.as_ptr(), values.as_ptr(), 1) })
}
