//! [`BackendLocal`]: process-local variables.

use std::ops::Deref;

/// A variable of this process. Access to a `static` is free, while each access to a `thread_local!` in a shared library
/// costs a call into the dynamic linker.
///
/// Only the main thread may use such a variable. The function that starts a helper thread ([`super::helper`]) is
/// `unsafe`, and its contract repeats this rule. Clippy rejects code that starts a thread in any other way
/// (`clippy.toml`).
pub struct BackendLocal<T>(T);

// SAFETY: PostgreSQL calls the extension in the main thread only. The extension starts no threads except helper
// threads, and the contract of `Helper::start` does not allow these threads to use such a variable.
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
