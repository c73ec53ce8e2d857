//! The texts of settings, what is made of them, and why one is rejected.

use std::ffi::{CStr, c_char, c_void};

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

/// In a check hook: hands a value over to the assign hook. PostgreSQL keeps it as long as the setting may come back to the
/// text, and frees it then. Returns false if there is no memory for it, as the hook has to do then.
///
/// # Safety
/// `extra` is what PostgreSQL has passed to the check hook.
pub unsafe fn hand_over<T: Copy>(extra: *mut *mut c_void, value: T) -> bool {
    const { assert!(align_of::<T>() <= align_of::<u64>(), "PostgreSQL aligns memory to 8 bytes") }
    let memory = allocate(size_of::<T>()).cast::<T>();
    if memory.is_null() {
        return false;
    }
    // SAFETY: memory of that size, which is nobody else's; and by this function's contract.
    unsafe {
        memory.write(value);
        *extra = memory.cast();
    }
    true
}

/// In an assign hook: what the check hook has handed over, if anything.
///
/// # Safety
/// `extra` is what PostgreSQL has passed to the assign hook, and the check hook of the setting hands over a `T`.
pub unsafe fn handed_over<T: Copy>(extra: *mut c_void) -> Option<T> {
    // SAFETY: by this function's contract.
    unsafe { extra.cast::<T>().as_ref() }.copied()
}

/// Memory that PostgreSQL frees with the value of a setting; null if there is none. Version 15 frees it by `free()`.
#[cfg(feature = "pg15")]
fn allocate(size: usize) -> *mut c_void {
    // SAFETY: has no conditions.
    unsafe { libc::malloc(size) }
}

#[cfg(not(feature = "pg15"))]
fn allocate(size: usize) -> *mut c_void {
    // SAFETY: at this level it raises no error.
    unsafe { pg_sys::guc_malloc(PgLogLevel::LOG as i32, size) }
}
