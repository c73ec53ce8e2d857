//! A condition variable in shared memory: processes sleep on it until another process signals a change.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use pgrx::pg_sys;

/// A condition variable of PostgreSQL. The variable must be initialized, because zeroed memory is not a valid
/// condition variable.
#[repr(transparent)]
pub struct Condition(UnsafeCell<pg_sys::ConditionVariable>);

// SAFETY: PostgreSQL protects the contents by a spinlock, which is part of the variable.
unsafe impl Sync for Condition {}

// The variable remains consistent after an error, because PostgreSQL removes this process from the list of
// waiters.
impl std::panic::RefUnwindSafe for Condition {}

impl Default for Condition {
    fn default() -> Condition {
        let mut variable = MaybeUninit::zeroed();
        // SAFETY: the call initializes the whole variable. The variable contains no pointer to itself, so the
        // variable may be moved while no process sleeps on it.
        unsafe {
            pg_sys::ConditionVariableInit(variable.as_mut_ptr());
            Condition(UnsafeCell::new(variable.assume_init()))
        }
    }
}

impl Condition {
    /// Wakes all processes that sleep on the variable. The caller must first make the change that the
    /// processes wait for.
    pub fn broadcast(&self) {
        // SAFETY: the variable is initialized and in shared memory, and the caller is a process of PostgreSQL.
        unsafe { pg_sys::ConditionVariableBroadcast(self.0.get()) };
    }

    /// Sleeps until `is_met` returns true, for at most `timeout`. Returns the last result of `is_met`. No
    /// broadcast is missed, because `is_met` is called at the start and after each broadcast. `event` is the
    /// wait event that `pg_stat_activity` shows. Raises an error if the statement is canceled.
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
            // PostgreSQL counts the timeout in whole milliseconds.
            let left_ms = left.as_micros().div_ceil(1_000).min(i32::MAX as u128);
            // SAFETY: as above. Waking up too early is harmless, because the condition is then checked again.
            unsafe { pg_sys::ConditionVariableTimedSleep(self.0.get(), left_ms as _, event) };
        }
    }
}

/// Keeps the process in the list of waiters of a condition variable until the value is dropped.
struct Asleep;

impl Asleep {
    fn on(condition: &Condition) -> Asleep {
        // SAFETY: as in [`Condition::broadcast`]. If this process is still in the list of another variable,
        // the call removes it from that list.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(condition.0.get()) };
        Asleep
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        // SAFETY: does nothing if an error has already removed this process from the list.
        unsafe {
            pg_sys::ConditionVariableCancelSleep();
        }
    }
}
