//! Functions that read the clock and the time since boot.

/// Returns the current time of the server's clock, in microseconds of Unix time.
#[inline]
pub fn clock_us() -> i64 {
    let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
    // SAFETY: the first pointer is to a variable for the result. The second one may be null.
    unsafe { libc::gettimeofday(&mut now, std::ptr::null_mut()) };
    now.tv_sec * 1_000_000 + now.tv_usec
}

/// Returns the time of the clock and the time since boot, in microseconds. The two times are read within 100
/// microseconds, unless the process is interrupted during each of several attempts.
pub fn clocks_us() -> (i64, i64) {
    const TRIES: u32 = 10;
    let mut before_us = since_boot_us();
    for _ in 1..TRIES {
        let now_us = clock_us();
        let after_us = since_boot_us();
        if after_us - before_us < 100 {
            return (now_us, after_us);
        }
        before_us = after_us;
    }
    (clock_us(), since_boot_us())
}

/// Returns the time since the machine was started, in microseconds. The result includes the time during which
/// the machine was suspended. No program can set the time since boot.
#[inline]
pub fn since_boot_us() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a variable for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}
