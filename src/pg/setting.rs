//! Functions for the hooks that check and assign the values of settings.

use std::ffi::{CStr, CString, c_char, c_void};

use pgrx::prelude::*;

use super::list::elements;

/// Sets the error message, DETAIL and HINT that PostgreSQL reports when a check hook rejects a value. The hook must
/// then return false. Without a message, PostgreSQL would quote the whole value, which may contain a password.
pub fn explain_rejection(message: &str, detail: &str, hint: &str) {
    // SAFETY: PostgreSQL clears these pointers before it calls a check hook, and reads them right after the hook. The
    // strings are in ErrorContext, which is not reset until PostgreSQL has read them.
    unsafe {
        pg_sys::GUC_check_errmsg_string = error_string(message);
        pg_sys::GUC_check_errdetail_string = error_string(detail);
        pg_sys::GUC_check_errhint_string = error_string(hint);
    }
}

/// Copies a string into ErrorContext.
fn error_string(text: &str) -> *mut c_char {
    // The string comes from a setting, so it cannot contain a NUL.
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: ErrorContext exists from the start of the process, and `text` is NUL-terminated.
    unsafe { pg_sys::MemoryContextStrdup(pg_sys::ErrorContext, text.as_ptr()) }
}

/// Splits a list of names that are separated by commas, as in `local_preload_libraries`. A name can be enclosed in
/// double quotes. Returns `None` if the syntax is invalid.
pub fn split_list(text: &CStr) -> Option<Vec<CString>> {
    let mut names = std::ptr::null_mut();
    // SAFETY: the function changes a copy of the string, which stays valid while the names are copied. All elements of
    // the list are C strings within this copy. The copy and the list are freed.
    unsafe {
        let copy = pg_sys::pstrdup(text.as_ptr());
        let is_list = pg_sys::SplitGUCList(copy, b',' as c_char, &mut names);
        let all = elements::<c_char>(names).map(|name| CStr::from_ptr(name).to_owned()).collect();
        pg_sys::list_free(names);
        pg_sys::pfree(copy.cast());
        is_list.then_some(all)
    }
}

/// Returns the stored value of a setting. It can be in any encoding.
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

/// Passes a value from a check hook to the assign hook. PostgreSQL keeps the value as long as the setting has the
/// checked string or can return to it, and then frees the value. If memory is exhausted, this function returns false,
/// and the hook must also return false.
///
/// # Safety
/// `extra` is the pointer that PostgreSQL passed to the check hook.
pub unsafe fn hand_over<T: Copy>(extra: *mut *mut c_void, value: T) -> bool {
    const { assert!(align_of::<T>() <= align_of::<u64>(), "PostgreSQL aligns memory to 8 bytes") }
    let memory = allocate(size_of::<T>()).cast::<T>();
    if memory.is_null() {
        return false;
    }
    // SAFETY: the memory has this size and no other user. By the contract of this function, `extra` is a valid
    // pointer.
    unsafe {
        memory.write(value);
        *extra = memory.cast();
    }
    true
}

/// Returns the value, if any, that the check hook has passed to the assign hook.
///
/// # Safety
/// `extra` is the pointer that PostgreSQL passed to the assign hook. The check hook of the setting passes a
/// value of type `T`.
pub unsafe fn handed_over<T: Copy>(extra: *mut c_void) -> Option<T> {
    // SAFETY: by this function's contract.
    unsafe { extra.cast::<T>().as_ref() }.copied()
}

/// Allocates memory for a value of a setting. PostgreSQL frees the memory together with the value. Returns
/// null if memory is exhausted. PostgreSQL 15 frees the memory with `free()`.
#[cfg(feature = "pg15")]
fn allocate(size: usize) -> *mut c_void {
    // SAFETY: may always be called.
    unsafe { libc::malloc(size) }
}

#[cfg(not(feature = "pg15"))]
fn allocate(size: usize) -> *mut c_void {
    // SAFETY: raises no error at this level.
    unsafe { pg_sys::guc_malloc(PgLogLevel::LOG as i32, size) }
}
