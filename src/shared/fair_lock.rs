//! [`FairLock`]: a lock that makes later requests for the shared lock wait behind a request for the exclusive lock.
//!
//! An LWLock that is held in shared mode is granted to further shared requests, even if a process waits for the
//! exclusive lock. If many sessions keep asking for the watermark, their shared locks overlap, and the waiting process
//! does not get the exclusive lock. A wait for an LWLock has no time limit and cannot be canceled.
//!
//! A `FairLock` has a second lock, the entrance, which each process takes before it takes the main lock. A process that
//! waits for the exclusive lock holds the entrance, so later processes wait at the entrance. A process that requests
//! the shared lock holds the entrance only for an instant.

use std::ffi::CStr;

use pgrx::lwlock::{PgLwLockExclusiveGuard, PgLwLockShareGuard};
use pgrx::{PGRXSharedMemory, PgLwLock, PgSharedMemoryInitialization};

/// A value in shared memory with a lock. A process that holds the lock must not request it again, not even in shared
/// mode.
pub struct FairLock<T> {
    lock: PgLwLock<T>,
    /// The entrance. The value has no meaning.
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
