//! What a connection string says.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use pq_sys::*;

use super::start::start;
use super::text::{message, text_of};

/// The options of a connection string that say something. Passwords are among them: nothing may be shown.
pub struct Options(Vec<(String, String)>);

impl Options {
    /// Reads a connection string, or says what is wrong with it.
    pub fn parse(text: &CStr) -> Result<Options, String> {
        let mut problem: *mut c_char = null_mut();
        // SAFETY: a C string, and a place for a message.
        let list = unsafe { PQconninfoParse(text.as_ptr(), &mut problem) };
        if !problem.is_null() {
            // SAFETY: libpq has put a C string there, which is ours to free.
            return Err(unsafe {
                let text = message(problem);
                PQfreemem(problem.cast());
                text
            });
        }
        // SAFETY: a list as libpq makes it, which is ours.
        unsafe { Options::take(list) }.ok_or_else(|| "out of memory".into())
    }

    /// The options that are in effect with these parameters, with those of a service file and of the environment; but not
    /// `sslmode`. Connects to nobody.
    pub fn in_effect(parameters: &[(&CStr, &CStr)]) -> Options {
        // Libpq tells them for a connection alone. To this one it says no, once it has read everything.
        let refused = (c"sslmode", c"none: this is no connection");
        let parameters: Vec<_> = parameters.iter().copied().chain([refused]).collect();
        let none = Options(vec![]);
        let Some(handle) = start(&parameters) else { return none };
        // SAFETY: a connection of ours; the list is the caller's.
        let options = unsafe { Options::take(PQconninfo(handle.as_ptr())) };
        // SAFETY: as above, and nobody uses it any more.
        unsafe { PQfinish(handle.as_ptr()) };
        options.unwrap_or(none)
    }

    /// What an option is set to.
    pub fn get(&self, keyword: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == keyword).map(|(_, value)| value.as_str())
    }

    /// # Safety
    /// Null, or a list that libpq has given to the caller.
    unsafe fn take(list: *mut PQconninfoOption) -> Option<Options> {
        if list.is_null() {
            return None;
        }
        let mut options = Vec::new();
        // SAFETY: the list ends with an option without a keyword; the values are C strings or null.
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
