//! The initial state of a run and its possible actions. Both are determined by its seed.

use snowflake_id_core::Layout;

use crate::action::{Action, FAULTS, Kind, WORK};
use crate::disk::{SEGMENTS, StandbyKind};
use crate::random::Random;

/// 2026-01-01, in microseconds of Unix time.
pub const BEGAN_US: i64 = 1_767_225_600_000_000;

const LAYOUTS: [&str; 9] = [
    "standard",
    "wide",
    "rollback2",
    "rollback3",
    "sonyflake2",
    "js53",
    "twitter",
    // Few IDs in a tick, so that ticks are exhausted. The second layout shares slots with no other.
    "time:41 worker:10 sequence:2 unit=1ms epoch=2024-01-01T00:00:00Z",
    "time:38 clock_seq:1 worker:10 sequence:3 unit=10ms epoch=2024-01-01T00:00:00Z",
];

pub struct ServerSetup {
    pub is_leased: bool,
    pub layout_at: usize,
    pub standby: StandbyKind,
    pub max_ahead_us: i64,
    pub horizon_margin_us: i64,
    pub spread: u32,
}

pub struct Setup {
    pub seed: u64,
    pub layouts: Vec<Layout>,
    pub servers: Vec<ServerSetup>,
    pub lease_us: i64,
    /// The number of worker IDs that the registry grants.
    pub workers: u32,
    pub witnesses: bool,
    /// Whether the registry's clock may read anything. In this case no commit of the registry is lost.
    pub is_clock_wild: bool,
    pub schedule: Vec<Action>,
}

impl Setup {
    pub fn of(seed: u64) -> Setup {
        let mut random = Random::new(seed);
        let mut names: Vec<_> = LAYOUTS.to_vec();
        if random.one_in(3) {
            // Clocks that are set back matter most for layouts with a clock sequence.
            names.retain(|name| {
                name.contains("rollback") || name.contains("clock_seq") || *name == "standard"
            });
        }
        let mut layouts = vec![];
        for _ in 0..1 + random.below(3) {
            let name = names.swap_remove(random.below(names.len()));
            layouts.extend(name.parse::<Layout>());
        }
        let count = match random.below(10) {
            0 => random.between(13, 50),
            1 | 2 => random.between(6, 12),
            _ => random.between(3, 5),
        };
        let leased_in = random.pick(&[0, 1, 1, 2]); // All, half or none.
        let servers: Vec<_> = (0..count)
            .map(|_| ServerSetup {
                is_leased: leased_in == 0 || leased_in == 1 && random.one_in(2),
                layout_at: random.below(layouts.len()),
                standby: random.pick(&[
                    StandbyKind::None,
                    StandbyKind::None,
                    StandbyKind::Asynchronous,
                    StandbyKind::Synchronous,
                ]),
                max_ahead_us: random.pick(&[0, 1_000, 1_000_000, 1_000_000]),
                horizon_margin_us: random.pick(&[100_000, 3_000_000, 60_000_000]),
                spread: random.pick(&[0, 0, 3]),
            })
            .collect();
        let leased = servers.iter().filter(|server| server.is_leased).count() as i64;
        let workers = (leased + random.between(-1, 3)).max(1) as u32;
        let mut setup = Setup {
            seed,
            layouts,
            servers,
            lease_us: random.pick(&[10_000_000, 60_000_000, 600_000_000]),
            workers,
            witnesses: random.one_in(2),
            is_clock_wild: random.one_in(4),
            schedule: vec![],
        };
        setup.schedule = setup.draw(&mut random);
        setup
    }

    /// Draws the actions in their order. Each run has its own mixture of faults, because a frequent fault hides rare
    /// ones.
    fn draw(&self, random: &mut Random) -> Vec<Action> {
        let mut faults: Vec<_> = FAULTS.iter().copied().filter(|_| random.one_in(2)).collect();
        if self.layouts.iter().any(|layout| layout.max_clock_seq() > 0) {
            faults.extend([Kind::ClockBack; 4]);
        }
        let fault_every = random.pick(&[3, 6, 12, 30, 100]);
        let pace_us = random.pick(&[2_000, 100_000, 2_000_000, 30_000_000]);
        let length = random.pick(&[300, 1_000, 3_000]) + 30 * self.servers.len();
        let mut focus = 0;
        let mut schedule = Vec::with_capacity(length);
        for _ in 0..length {
            // Mostly the same server for a while, because events that are close together cause most problems.
            if random.one_in(12) {
                focus = random.below(self.servers.len());
            }
            let server = if random.one_in(4) { random.below(self.servers.len()) } else { focus };
            let is_fault = !faults.is_empty() && random.one_in(fault_every);
            let kind = if is_fault { random.pick(&faults) } else { random.pick(WORK) };
            let after_us = match random.below(16) {
                0 => random.between(0, 20 * pace_us),
                1 if random.one_in(8) => random.between(0, 3_600_000_000),
                2..=4 => random.between(0, pace_us),
                5..=7 => random.between(0, 1_500),
                _ => 0,
            };
            schedule.push(Action { kind, server, after_us, entropy: random.bits() });
        }
        schedule
    }

    pub fn segments(&self) -> usize {
        SEGMENTS
    }

    pub fn is_possible(&self, kind: Kind) -> bool {
        !(self.is_clock_wild && matches!(kind, Kind::RegistrySetBack | Kind::RegistryFailover))
    }
}
