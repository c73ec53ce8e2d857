//! Waking background workers.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use pgrx::pg_sys;

/// Wakes a background worker by setting its latch.
#[derive(Default)]
pub struct Wakeup {
    /// True if the worker was requested. A process that requests the worker sets this flag, and the worker
    /// clears it. Only the process that sets the flag wakes the worker.
    is_wanted: AtomicBool,
    /// The process ID of the worker, or 0 if no worker is registered. The worker writes `pid` and `latch`.
    pid: AtomicI32,
    latch: AtomicPtr<pg_sys::Latch>,
}

impl Wakeup {
    /// Registers the calling process as the worker. Returns false if another worker is registered.
    pub fn attach(&self) -> bool {
        // SAFETY: reads plain variables of this process. The latch is in shared memory and is never freed.
        let (pid, latch) = unsafe { (pg_sys::MyProcPid, pg_sys::MyLatch) };
        let is_first = self.pid.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_first {
            self.latch.store(latch, Ordering::Release);
            self.is_wanted.store(false, Ordering::Relaxed);
        }
        is_first
    }

    /// Removes the registration of the worker. The worker calls this function when it exits.
    pub fn detach(&self) {
        self.latch.store(std::ptr::null_mut(), Ordering::Release);
        self.pid.store(0, Ordering::Relaxed);
    }

    /// Returns the process ID of the worker, if it is running.
    pub fn pid(&self) -> Option<i32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0)
    }

    /// Requests the worker. The worker is woken unless a request is already pending.
    pub fn request(&self) {
        let latch = self.latch.load(Ordering::Acquire);
        if !latch.is_null() && !self.is_wanted.swap(true, Ordering::AcqRel) {
            // SAFETY: latches of processes are in shared memory for as long as the server runs. If the worker
            // has exited, another process may own this latch. Waking that process is harmless.
            unsafe { pg_sys::SetLatch(latch) };
        }
    }

    /// Returns whether the worker was requested since the last call of [`Wakeup::take_wanted`].
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Returns whether the worker was requested since the last call of this function, and clears the request.
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::AcqRel)
    }
}
