//! What our processes wait for, as `pg_stat_activity` shows it.

use crate::pg::wait::WaitEventName;

#[derive(Clone, Copy)]
pub enum WaitEvent {
    /// The clock has to come far enough.
    Clock,
    /// The keeper has to open the gate or to extend the horizon.
    Horizon,
    /// The registry has to answer.
    Registry,
}

impl WaitEvent {
    /// By which PostgreSQL knows it.
    pub fn number(self) -> u32 {
        static NAMES: [WaitEventName; 3] = [
            WaitEventName::new(c"SnowflakeClock"),
            WaitEventName::new(c"SnowflakeHorizon"),
            WaitEventName::new(c"SnowflakeRegistry"),
        ];
        NAMES[self as usize].number()
    }
}
