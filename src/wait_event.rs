//! The wait events of the extension in view `pg_stat_activity`.

use crate::pg::wait::WaitEventName;

#[derive(Clone, Copy)]
pub enum WaitEvent {
    /// Waiting until the time of the next ID is no longer too far ahead of the clock.
    Clock,
    /// Waiting for the keeper to open the gate or to extend the horizon.
    Horizon,
    /// Waiting for the registry's answer.
    Registry,
}

impl WaitEvent {
    /// Returns the number that PostgreSQL has assigned to the wait event.
    pub fn number(self) -> u32 {
        static NAMES: [WaitEventName; 3] = [
            WaitEventName::new(c"SnowflakeClock"),
            WaitEventName::new(c"SnowflakeHorizon"),
            WaitEventName::new(c"SnowflakeRegistry"),
        ];
        NAMES[self as usize].number()
    }
}
