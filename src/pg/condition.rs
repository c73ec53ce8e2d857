//! A condition variable in shared memory: processes sleep until one of them says that something has changed.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use pgrx::pg_sys;

/// Where processes sleep. Zeros would be none that PostgreSQL could use.
#[repr(transparent)]
pub struct Condition(UnsafeCell<pg_sys::ConditionVariable>);

// SAFETY: PostgreSQL guards what is in it by a spinlock that is a part of it.
unsafe impl Sync for Condition {}

// What is in it is whole after an error: PostgreSQL takes this process off the list.
impl std::panic::RefUnwindSafe for Condition {}

impl Default for Condition {
    fn default() -> Condition {
        let mut variable = MaybeUninit::zeroed();
        // SAFETY: fills it. It holds no pointer to itself, and may be moved until somebody sleeps.
        unsafe {
            pg_sys::ConditionVariableInit(variable.as_mut_ptr());
            Condition(UnsafeCell::new(variable.assume_init()))
        }
    }
}

impl Condition {
    /// Wakes all who sleep. What they are to see is written before.
    pub fn broadcast(&self) {
        // SAFETY: initialised, in shared memory; called by processes that PostgreSQL knows.
        unsafe { pg_sys::ConditionVariableBroadcast(self.0.get()) };
    }

    /// Sleeps until `is_met`, at most for `timeout`; returns whether it is. It is asked again after each broadcast that begins
    /// after it was asked. `event` is what `pg_stat_activity` shows. A cancelled statement ends here.
    pub fn wait_until(&self, timeout: Duration, event: u32, is_met: impl Fn() -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let _asleep = Asleep::on(self);
        loop {
            if is_met() {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            // It sleeps for whole milliseconds.
            let left_ms = left.as_micros().div_ceil(1_000).min(i32::MAX as u128);
            // SAFETY: as above. One that is too early is no harm, as the condition is asked.
            unsafe { pg_sys::ConditionVariableTimedSleep(self.0.get(), left_ms as _, event) };
        }
    }
}

/// This process is among those who sleep, until this goes out of scope.
struct Asleep;

impl Asleep {
    fn on(condition: &Condition) -> Asleep {
        // SAFETY: as in [`Condition::broadcast`]. A process sleeps in one place at a time, and leaves it before it comes
        // to another one.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(condition.0.get()) };
        Asleep
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        // SAFETY: does nothing if an error has woken it already.
        unsafe {
            pg_sys::ConditionVariableCancelSleep();
        }
    }
}
