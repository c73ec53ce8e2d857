//! Conversion of strings that libpq or a server returns.

use std::ffi::{CStr, c_char};

use snowflake_id_core::message::without_controls;

/// The maximum length of a message, in bytes. Longer messages are truncated.
const LONGEST_MESSAGE: usize = 400;

/// Converts a message of libpq or of a server to [one line](one_line).
///
/// # Safety
/// `text` is null or a C string.
pub unsafe fn message(text: *const c_char) -> String {
    // SAFETY: by this function's contract.
    one_line(&unsafe { text_of(text) })
}

/// Converts a message to one line of limited length, such as `line 1; line 2`. Other control characters become spaces,
/// because the message is shown in logs and on terminals.
pub fn one_line(text: &str) -> String {
    let start = &text[..text.floor_char_boundary(LONGEST_MESSAGE)];
    let lines: Vec<_> = start.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    without_controls(&lines.join("; "))
}

/// Converts a string of libpq.
///
/// # Safety
/// `text` is null or a C string.
pub unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
