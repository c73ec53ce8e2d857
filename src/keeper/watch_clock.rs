//! The keeper's clock check, which uses a [`ClockWatch`].

use std::sync::atomic::Ordering;

use snowflake_id_core::clock_watch::ClockWatch;
use snowflake_id_core::clocks::ClockOffset;

use crate::config;
use crate::shared::memory::State;

/// Compares the clock with the time since boot. Returns the size of a jump ahead, in microseconds, if the
/// jump exceeds `snowflake_id.max_clock_jump`.
pub fn watch(shared: &State, now_us: i64, offset: ClockOffset) -> Option<i64> {
    let (history, words) = (&shared.server_status.history, &shared.server_status.keeper);
    note_step_back(shared, offset);
    let mut watch = ClockWatch::new(history.clock_offset().unwrap_or(offset));
    let max_jump_us = config::max_clock_jump().as_micros() as i64;
    let jump_us = watch.observe(now_us, offset, max_jump_us, history.published(0).until_us());
    history.set_clock_offset(watch.offset());
    words.clock_jump_us.store(jump_us.unwrap_or(0), Ordering::Relaxed);
    jump_us
}

/// Updates the statistics if the clock was set back between two cycles.
fn note_step_back(shared: &State, offset: ClockOffset) {
    let last_us = shared.server_status.keeper.last_clock_offset_us.swap(offset.as_us(), Ordering::Relaxed);
    let step_back_us = ClockWatch::step_back_us(ClockOffset::from_us(last_us), offset);
    if let (true, Some(step_us)) = (last_us != 0, step_back_us) {
        shared.statistics.clock_steps_back.fetch_add(1, Ordering::Relaxed);
        shared.statistics.largest_step_back_us.fetch_max(step_us, Ordering::Relaxed);
    }
}
