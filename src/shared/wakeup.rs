//! How a background worker is woken.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use pgrx::pg_sys;

/// How a background worker is woken.
#[derive(Default)]
pub struct Wakeup {
    /// Set by whoever has asked for the worker, cleared by the worker: one waker is enough.
    is_wanted: AtomicBool,
    /// Written by the worker, as is its latch.
    pid: AtomicI32,
    latch: AtomicPtr<pg_sys::Latch>,
}

impl Wakeup {
    /// Called by the worker when it starts. False if there is one already.
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

    /// Called by the worker when it ends.
    pub fn detach(&self) {
        self.latch.store(std::ptr::null_mut(), Ordering::Release);
        self.pid.store(0, Ordering::Relaxed);
    }

    /// The process of the worker, if there is one.
    pub fn pid(&self) -> Option<i32> {
        Some(self.pid.load(Ordering::Relaxed)).filter(|&pid| pid != 0)
    }

    /// Asks for the worker.
    pub fn request(&self) {
        let latch = self.latch.load(Ordering::Acquire);
        if !latch.is_null() && !self.is_wanted.swap(true, Ordering::AcqRel) {
            // SAFETY: latches of processes live in shared memory as long as the server. If the worker has
            // ended in the meantime, somebody else may own this one, and is woken for nothing.
            unsafe { pg_sys::SetLatch(latch) };
        }
    }

    /// Whether somebody has asked, and the worker has not begun to look since.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// Whether somebody has asked since the last time.
    pub fn take_wanted(&self) -> bool {
        self.is_wanted.swap(false, Ordering::AcqRel)
    }
}
