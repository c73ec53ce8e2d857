//! Functions that read the clock and the time since boot.

use snowflake_id_core::clocks::{ClockOffset, SinceBoot};

/// Returns the current time of the server's clock, in microseconds of Unix time.
#[inline]
pub fn clock_us() -> i64 {
    let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: the first pointer is to a variable for the result. The second one may be null.
    unsafe { libc::gettimeofday(&mut now, std::ptr::null_mut()) };
    now.tv_sec * 1_000_000 + now.tv_usec
}

/// Returns the current time of the server's clock, in microseconds of Unix time, and the offset of the clock. The clock
/// and the time since boot are read within 100 microseconds of each other, unless all of several attempts take longer.
pub fn clock_and_offset() -> (i64, ClockOffset) {
    const TRIES: u32 = 10;
    let mut before = since_boot();
    let mut tries = 1;
    loop {
        let now_us = clock_us();
        let after = since_boot();
        if after.us_since(before) < 100 || tries == TRIES {
            return (now_us, ClockOffset::of(now_us, after));
        }
        before = after;
        tries += 1;
    }
}

/// Returns the offset of the server's clock.
pub fn offset() -> ClockOffset {
    clock_and_offset().1
}

/// Returns the time since boot.
#[inline]
pub fn since_boot() -> SinceBoot {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a variable for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    SinceBoot::from_us(now.tv_sec * 1_000_000 + now.tv_nsec / 1_000)
}
