//! Starting a connection.

use std::ffi::CStr;
use std::ptr::{NonNull, null};

use pq_sys::*;

/// Starts to connect. A later nonempty parameter overrides an earlier parameter with the same name. The parameter
/// `dbname` contains the connection string. Returns `None` if memory cannot be allocated.
pub fn start(parameters: &[(&CStr, &CStr)]) -> Option<NonNull<PGconn>> {
    let mut keywords: Vec<_> = parameters.iter().map(|(keyword, _)| keyword.as_ptr()).collect();
    let mut values: Vec<_> = parameters.iter().map(|(_, value)| value.as_ptr()).collect();
    keywords.push(null());
    values.push(null());
    // SAFETY: both lists contain C strings, have the same length, and end with a null pointer.
    NonNull::new(unsafe { PQconnectStartParams(keywords.as_ptr(), values.as_ptr(), 1) })
}
