//! [`BackendLocal`]: variables of one process.

use std::ops::Deref;

/// A variable of this process. A `static` costs nothing to reach, while a `thread_local!` in a shared library
/// costs a call into the dynamic linker each time.
pub struct BackendLocal<T>(T);

// SAFETY: PostgreSQL calls us on the one thread of a backend. The helper thread of a background worker, the only one that
// we start, calls libpq, the C library and nothing that has such a variable.
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
