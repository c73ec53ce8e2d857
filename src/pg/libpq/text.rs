//! Texts of libpq and of a server.

use std::ffi::{CStr, c_char};

/// How much of a message is taken in, in bytes.
const LONGEST_MESSAGE: usize = 400;

/// A message of libpq or of a server, in one line, `line 1; line 2`, and of bounded length.
///
/// # Safety
/// Null or a C string.
pub unsafe fn message(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by this function's contract.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    let start = String::from_utf8_lossy(&text[..text.len().min(LONGEST_MESSAGE)]);
    start.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// A text of libpq as it is.
///
/// # Safety
/// Null or a C string.
pub unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
