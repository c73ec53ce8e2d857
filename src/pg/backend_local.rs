//! [`BackendLocal`]: process-local variables.

use std::ops::Deref;

/// A variable of this process. Access to a `static` is free, while each access to a `thread_local!` in a shared library
/// costs a call into the dynamic linker.
///
/// Only the main thread may use such a variable. Starting a helper thread is `unsafe` ([`super::helper`]), and Clippy
/// rejects safe code of this crate that starts other threads (`clippy.toml`).
pub struct BackendLocal<T>(T);

// SAFETY: PostgreSQL calls the extension in the main thread only. The extension starts no threads except helper
// threads, and code that starts one ensures that it uses no such variable.
unsafe impl<T> Sync for BackendLocal<T> {}

impl<T> BackendLocal<T> {
    pub const fn new(value: T) -> BackendLocal<T> {
        BackendLocal(value)
    }
}

impl<T: Default> Default for BackendLocal<T> {
    fn default() -> BackendLocal<T> {
        BackendLocal(T::default())
    }
}

impl<T> Deref for BackendLocal<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
