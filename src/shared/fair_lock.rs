//! [`FairLock`]: a lock whose exclusive lock is not delayed by processes that ask for the shared lock later.
//!
//! An LWLock is granted in shared mode while other processes hold the shared lock, even if a process waits for the
//! exclusive lock. A wait for an LWLock has no time limit and cannot be canceled. If some sessions ask for the watermark all
//! the time, their shared locks overlap, and the exclusive lock would not be granted until they stop.
//!
//! Here a process that waits for the exclusive lock first takes a second lock, which each process passes on its way to the
//! shared lock. Later processes therefore wait behind it. The second lock is held in shared mode only for an instant.

use std::ffi::CStr;

use pgrx::lwlock::{PgLwLockExclusiveGuard, PgLwLockShareGuard};
use pgrx::{PGRXSharedMemory, PgLwLock, PgSharedMemoryInitialization};

/// A value in shared memory with a lock. A process that holds the lock must not ask for it again, not even in shared mode.
pub struct FairLock<T> {
    lock: PgLwLock<T>,
    /// The lock that is passed on the way to the other one. The value means nothing.
    entrance: PgLwLock<bool>,
}

impl<T: PGRXSharedMemory> FairLock<T> {
    /// Declares a lock, with the names of both LWLocks.
    ///
    /// # Safety
    /// No other extension uses these names.
    pub const unsafe fn new(name: &'static CStr, entrance: &'static CStr) -> FairLock<T> {
        // SAFETY: by this function's contract.
        unsafe { FairLock { lock: PgLwLock::new(name), entrance: PgLwLock::new(entrance) } }
    }

    /// Takes the shared lock.
    pub fn share(&self) -> PgLwLockShareGuard<'_, T> {
        drop(self.entrance.share());
        self.lock.share()
    }

    /// Takes the exclusive lock.
    pub fn exclusive(&self) -> PgLwLockExclusiveGuard<'_, T> {
        let _entrance = self.entrance.exclusive();
        self.lock.exclusive()
    }
}

impl<T: PGRXSharedMemory + 'static> PgSharedMemoryInitialization for FairLock<T> {
    type Value = T;

    unsafe fn on_shmem_request(&'static self) {
        // SAFETY: by this function's contract.
        unsafe {
            self.lock.on_shmem_request();
            self.entrance.on_shmem_request();
        }
    }

    unsafe fn on_shmem_startup(&'static self, value: T) {
        // SAFETY: by this function's contract.
        unsafe {
            self.lock.on_shmem_startup(value);
            self.entrance.on_shmem_startup(false);
        }
    }
}
