//! The options in a connection string.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use pq_sys::*;

use super::start::start;
use super::text::{message, text_of};

/// The nonempty options of a connection string. The values may contain passwords, so the options must not be shown.
pub struct Options(Vec<(String, String)>);

impl Options {
    /// Parses a connection string.
    ///
    /// # Errors
    /// Returns the message of libpq if the string is invalid.
    pub fn parse(text: &CStr) -> Result<Options, String> {
        let mut problem: *mut c_char = null_mut();
        // SAFETY: the text is a C string, and `problem` is a variable for a message.
        let list = unsafe { PQconninfoParse(text.as_ptr(), &mut problem) };
        if !problem.is_null() {
            // SAFETY: libpq has stored a C string in `problem`, which the caller has to free.
            return Err(unsafe {
                let text = message(problem);
                PQfreemem(problem.cast());
                text
            });
        }
        // SAFETY: the list comes from libpq, and belongs to the caller.
        unsafe { Options::take(list) }.ok_or_else(|| "out of memory".into())
    }

    /// Returns the options that libpq would use for a connection with these parameters, except that the value of
    /// `sslmode` is wrong. The result includes options from a service file and from the environment.
    pub fn in_effect(parameters: &[(&CStr, &CStr)]) -> Options {
        // libpq reports options only for a connection object. The invalid `sslmode` makes libpq read all options and
        // then fail without connecting.
        let refused = (c"sslmode", c"none: this is no connection");
        let parameters: Vec<_> = parameters.iter().copied().chain([refused]).collect();
        let none = Options(vec![]);
        let Some(handle) = start(&parameters) else { return none };
        // SAFETY: `handle` is valid, and the list belongs to the caller.
        let options = unsafe { Options::take(PQconninfo(handle.as_ptr())) };
        // SAFETY: `handle` is valid, and is not used after this.
        unsafe { PQfinish(handle.as_ptr()) };
        options.unwrap_or(none)
    }

    /// Returns the value of an option, unless it is empty.
    pub fn get(&self, keyword: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == keyword).map(|(_, value)| value.as_str())
    }

    /// Copies a list of options, and frees the list. Returns `None` if the pointer is null.
    ///
    /// # Safety
    /// `list` must be null, or must be a list from libpq that belongs to the caller.
    unsafe fn take(list: *mut PQconninfoOption) -> Option<Options> {
        if list.is_null() {
            return None;
        }
        let mut options = Vec::new();
        // SAFETY: the list ends with an option without a keyword. The values are C strings or null.
        unsafe {
            let mut option = list;
            while !(*option).keyword.is_null() {
                if !(*option).val.is_null() && *(*option).val != 0 {
                    options.push((text_of((*option).keyword), text_of((*option).val)));
                }
                option = option.add(1);
            }
            PQconninfoFree(list);
        }
        Some(Options(options))
    }
}
