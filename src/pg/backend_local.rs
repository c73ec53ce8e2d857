//! [`BackendLocal`]: process-local variables.

use std::ops::Deref;

/// A variable of this process. Accessing a `static` is free, while a `thread_local!` in a shared library costs a call
/// into the dynamic linker each time.
pub struct BackendLocal<T>(T);

// SAFETY: PostgreSQL runs our code on the single thread of a backend. The only other thread is the helper thread of a
// background worker. The helper thread calls only libpq and the C library, which use no variable of this type.
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
