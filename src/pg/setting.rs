//! The texts of settings, and why one is rejected.

use std::ffi::{CStr, c_char};

use pgrx::prelude::*;

/// Gives a check hook's message, DETAIL and HINT; the hook then returns false. Without a message PostgreSQL would quote
/// the whole value, which may hold a password.
pub fn explain_rejection(message: &str, detail: &str, hint: &str) {
    // SAFETY: the GUC machinery clears these pointers before it calls a check hook and reads them right after,
    // before ErrorContext, in which the strings live, is reset.
    unsafe {
        pg_sys::GUC_check_errmsg_string = error_string(message);
        pg_sys::GUC_check_errdetail_string = error_string(detail);
        pg_sys::GUC_check_errhint_string = error_string(hint);
    }
}

/// Copies a text into ErrorContext.
fn error_string(text: &str) -> *mut c_char {
    // A NUL cannot come from a setting's text, which is a C string itself.
    let text = std::ffi::CString::new(text).unwrap_or_default();
    // SAFETY: ErrorContext exists from the start of the process, and text is NUL-terminated.
    unsafe { pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, text.as_ptr()) }
}

/// A setting's text as it is, in whatever encoding.
///
/// # Safety
/// `value` is null or points to a C string that outlives the returned reference.
pub unsafe fn setting_text<'a>(value: *const c_char) -> &'a [u8] {
    if value.is_null() {
        return b"";
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(value) }.to_bytes()
}
