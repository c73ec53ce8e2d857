//! [`BackendLocal`]: process-local variables.

use std::ops::Deref;

/// A variable of this process. Access to a `static` is free, while each access to a `thread_local!` in a shared
/// library costs a call into the dynamic linker.
pub struct BackendLocal<T>(T);

// SAFETY: PostgreSQL runs the extension on the single thread of a backend. The only exception is the helper thread of
// a background worker. The helper thread calls only libpq and the C library, which do not use such variables.
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
