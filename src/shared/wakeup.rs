//! How background workers are woken.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use pgrx::pg_sys;

/// Wakes a background worker by its latch.
#[derive(Default)]
pub struct Wakeup {
    /// Whether the worker was requested. The process that requests the worker sets this flag, and the worker
    /// clears it. Only the process that sets the flag wakes the worker.
    is_wanted: AtomicBool,
    /// The worker writes its process ID and its latch.
    pid: AtomicI32,
    latch: AtomicPtr<pg_sys::Latch>,
}

impl Wakeup {
    /// Registers the worker. Called by the worker when it starts. Returns false if another worker is
    /// registered.
    pub fn attach(&self) -> bool {
        // SAFETY: plain variables of this process; the latch is in shared memory and is never freed.
        let (pid, latch) = unsafe { (pg_sys::MyProcPid, pg_sys::MyLatch) };
        let is_first = self.pid.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_first {
            self.latch.store(latch, Ordering::Release);
            self.is_wanted.store(false, Ordering::Relaxed);
        }
        is_first
    }

    /// Removes the registration. Called by the worker when it exits.
    pub fn detach(&self) {
        self.latch.store(std::ptr::null_mut(), Ordering::Release);
        self.pid.store(0, Ordering::Relaxed);
    }

    /// Returns the process ID of the worker, if it is running.
    pub fn pid(&self) -> Option<i32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0)
    }

    /// Wakes the worker, unless it was already requested.
    pub fn request(&self) {
        let latch = self.latch.load(Ordering::Acquire);
        if !latch.is_null() && !self.is_wanted.swap(true, Ordering::AcqRel) {
            // SAFETY: latches of processes are in shared memory for as long as the server runs. If the worker
            // has exited meanwhile, another process may own this latch, and is woken in vain.
            unsafe { pg_sys::SetLatch(latch) };
        }
    }

    /// Whether the worker was requested since it last called [`Wakeup::take_wanted`].
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Returns whether the worker was requested since the last call, and clears the request.
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::AcqRel)
    }
}
