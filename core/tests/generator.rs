//! The generator with a scripted clock.

use std::num::NonZeroU64;

use snowflake_id_core::{Gate, Generator, Identity, Layout, RangeError, Slot, SlotKey, Stall};

const ME: Identity = Identity { datacenter: 0, worker: 0 };
const MAX_AHEAD_US: u64 = 1_000_000;
const NO_LIMIT: u64 = u64::MAX;
/// 2024-01-01T00:00:00Z, the epoch of layouts without the option.
const EPOCH_US: i64 = 1_704_067_200_000_000;

/// The shared state of a server, in one process.
struct Server {
    gate: Gate,
    slot: Slot,
    generator: Generator,
}

impl Server {
    fn new(layout: &str, max_ahead_us: u64, spread: u32) -> Server {
        let server = Server {
            gate: Gate::default(),
            slot: Slot::new(0, NO_LIMIT),
            generator: generator(layout, max_ahead_us, spread),
        };
        server.gate.open(ME);
        server
    }

    /// Takes up to `n` IDs when the clock is `now_us` after the epoch.
    fn take(&self, now_us: i64, n: u64) -> Result<Vec<i64>, Stall> {
        let now_us = self.generator.layout().epoch_us() + now_us;
        let reservation = self.slot.reserve(&self.gate, &self.generator, || now_us, count(n))?;
        Ok(self.generator.ids(reservation).collect())
    }

    /// Takes a block of `n` IDs when the clock is `now_us` after the epoch. Returns the tick, and the first and the last
    /// sequence.
    fn block(&self, now_us: i64, n: u64) -> Result<(u64, u64, u64), Stall> {
        let now_us = self.generator.layout().epoch_us() + now_us;
        let reservation = self.slot.reserve_block(&self.gate, &self.generator, || now_us, count(n))?;
        let ids: Vec<i64> = self.generator.ids(reservation).collect();
        assert_eq!(ids.len() as u64, n);
        let [first, last] =
            [ids[0], ids[ids.len() - 1]].map(|id| self.generator.layout().unpack(id).unwrap());
        assert_eq!(first.tick, last.tick);
        Ok((first.tick, first.sequence, last.sequence))
    }

    /// Ticks and sequences of the IDs that `take` returns.
    fn parts(&self, now_us: i64, n: u64) -> Result<Vec<(u64, u64)>, Stall> {
        let parts = |id| self.generator.layout().unpack(id).unwrap();
        Ok(self.take(now_us, n)?.into_iter().map(|id| (parts(id).tick, parts(id).sequence)).collect())
    }
}

fn generator(layout: &str, max_ahead_us: u64, spread: u32) -> Generator {
    Generator::new(layout.parse().unwrap(), ME, max_ahead_us, spread).unwrap()
}

fn count(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap()
}

#[test]
fn ids_of_one_tick_count_on() {
    let server = Server::new("time:41 worker:10 sequence:12", MAX_AHEAD_US, 0);
    assert_eq!(server.parts(5_000, 1), Ok(vec![(5, 0)]));
    assert_eq!(server.parts(5_999, 2), Ok(vec![(5, 1), (5, 2)]));
    assert_eq!(server.parts(6_000, 1), Ok(vec![(6, 0)]));
}

#[test]
fn a_full_tick_carries_into_the_next() {
    let server = Server::new("time:41 sequence:2", MAX_AHEAD_US, 0);
    assert_eq!(server.parts(5_000, 3), Ok(vec![(5, 0), (5, 1), (5, 2)]));
    assert_eq!(server.parts(5_000, 3), Ok(vec![(5, 3), (6, 0), (6, 1)]));
    // The clock enters tick 6, which is already in use.
    assert_eq!(server.parts(6_500, 1), Ok(vec![(6, 2)]));
}

#[test]
fn a_block_is_in_one_tick() {
    let server = Server::new("time:41 sequence:3", 2_000, 0);
    assert_eq!(server.block(5_000, 3), Ok((5, 0, 2)));
    assert_eq!(server.block(5_000, 5), Ok((5, 3, 7)));
    assert_eq!(server.block(5_000, 5), Ok((6, 0, 4)));
    // The next tick starts early, because only three values are left.
    assert_eq!(server.block(5_000, 4), Ok((7, 0, 3)));
    assert_eq!(server.parts(5_000, 1), Ok(vec![(7, 4)]));
    assert_eq!(server.block(5_000, 8), Err(Stall::Ahead { wait_us: 1_000 }));
    assert_eq!(server.parts(5_000, 1), Ok(vec![(7, 5)]));
    assert_eq!(server.block(6_000, 8), Ok((8, 0, 7)));
    assert_eq!(server.block(9_000, 8), Ok((9, 0, 7)));
}

#[test]
fn a_block_stops_at_the_horizon_and_at_the_end() {
    let server = Server::new("time:20 sequence:2", MAX_AHEAD_US, 0);
    server.slot.set_horizon(6);
    assert_eq!(server.block(5_000, 3), Ok((5, 0, 2)));
    assert_eq!(server.block(5_000, 3), Err(Stall::Horizon));
    server.slot.set_horizon(NO_LIMIT);
    let last_tick = (1 << 20) - 1;
    assert_eq!(server.block(last_tick as i64 * 1_000, 3), Ok((last_tick, 0, 2)));
    assert_eq!(server.block(last_tick as i64 * 1_000, 3), Err(Stall::Exhausted));
    assert_eq!(server.block(last_tick as i64 * 1_000, 1), Ok((last_tick, 3, 3)));
    assert_eq!(server.block(-1, 1), Err(Stall::BeforeEpoch { wait_us: 1 }));
}

#[test]
fn a_block_starts_below_the_spread_if_necessary() {
    let server = Server::new("time:41 sequence:3", MAX_AHEAD_US, u32::MAX);
    let first = server.parts(6_000, 1).unwrap()[0];
    assert!(first.1 > 0, "this tick starts at sequence 0");
    let server = Server::new("time:41 sequence:3", MAX_AHEAD_US, u32::MAX);
    assert_eq!(server.block(6_000, 8), Ok((6, 0, 7)));
    let server = Server::new("time:41 sequence:3", 0, u32::MAX);
    assert_eq!(server.block(6_000, 7), Ok((6, 1, 7)));
    assert_eq!(server.block(6_000, 1), Err(Stall::Ahead { wait_us: 1_000 }));
}

#[test]
fn a_clock_set_back_is_not_followed() {
    let server = Server::new("time:41 sequence:12", MAX_AHEAD_US, 0);
    assert_eq!(server.parts(10_000_000, 1), Ok(vec![(10_000, 0)]));
    assert_eq!(server.parts(9_500_000, 1), Ok(vec![(10_000, 1)]));
    assert_eq!(server.parts(9_000_000, 1), Ok(vec![(10_000, 2)]));
    assert_eq!(server.parts(8_999_999, 1), Err(Stall::Ahead { wait_us: 1 }));
    assert_eq!(server.parts(1_000_000, 1), Err(Stall::Ahead { wait_us: 8_000_000 }));
    assert_eq!(server.parts(9_000_000, 1), Ok(vec![(10_000, 3)]));
}

#[test]
fn a_clock_far_ahead_is_followed_at_once() {
    let server = Server::new("time:41 sequence:12", MAX_AHEAD_US, 0);
    assert_eq!(server.parts(0, 1), Ok(vec![(0, 0)]));
    let ten_years_us = 315_576_000_000_000;
    assert_eq!(server.parts(ten_years_us, 1), Ok(vec![(315_576_000_000, 0)]));
}

#[test]
fn ids_run_ahead_up_to_the_limit() {
    let server = Server::new("time:41", 3_000, 0);
    // Without sequence bits every ID needs a tick: the current one and three ahead.
    assert_eq!(server.parts(0, 10), Ok(vec![(0, 0), (1, 0), (2, 0), (3, 0)]));
    assert_eq!(server.parts(0, 10), Err(Stall::Ahead { wait_us: 1_000 }));
    assert_eq!(server.parts(999, 10), Err(Stall::Ahead { wait_us: 1 }));
    assert_eq!(server.parts(1_000, 10), Ok(vec![(4, 0)]));
}

#[test]
fn with_max_ahead_0_a_tick_is_used_from_its_start() {
    let server = Server::new("time:41 sequence:1", 0, 0);
    assert_eq!(server.parts(7_999, 5), Ok(vec![(7, 0), (7, 1)]));
    assert_eq!(server.parts(7_999, 1), Err(Stall::Ahead { wait_us: 1 }));
    assert_eq!(server.parts(8_000, 1), Ok(vec![(8, 0)]));
}

#[test]
fn any_unit() {
    for unit_us in [1, 2, 10, 250, 1_000, 10_000, 999_999, 1_000_000, 10_000_000] {
        let server = Server::new(&format!("time:39 sequence:1 unit={unit_us}us"), 0, 0);
        let unit_us = unit_us as i64;
        assert_eq!(server.parts(3 * unit_us, 2), Ok(vec![(3, 0), (3, 1)]), "{unit_us}");
        let wait_us = unit_us as u64;
        assert_eq!(server.parts(3 * unit_us, 1), Err(Stall::Ahead { wait_us }), "{unit_us}");
        assert_eq!(server.parts(4 * unit_us - 1, 1), Err(Stall::Ahead { wait_us: 1 }), "{unit_us}");
        assert_eq!(server.parts(4 * unit_us, 1), Ok(vec![(4, 0)]), "{unit_us}");
    }
}

#[test]
fn the_last_tick_of_a_layout_is_exhausted() {
    let server = Server::new("time:3 sequence:1 unit=1s", MAX_AHEAD_US, 0);
    assert_eq!(server.parts(7_500_000, 9), Ok(vec![(7, 0), (7, 1)]));
    assert_eq!(server.parts(7_500_000, 1), Err(Stall::Exhausted));
    assert_eq!(server.parts(8_000_000, 1), Err(Stall::Exhausted));
    assert_eq!(server.parts(0, 1), Err(Stall::Exhausted));

    let late = Server::new("time:3 sequence:1 unit=1s", MAX_AHEAD_US, 0);
    assert_eq!(late.parts(8_000_000, 1), Err(Stall::Exhausted));
    assert_eq!(late.parts(i64::MAX - EPOCH_US, 1), Err(Stall::Exhausted));
    // Nothing was taken: the slot still works after a wrong clock is set right.
    assert_eq!(late.parts(7_000_000, 1), Ok(vec![(7, 0)]));
}

#[test]
fn the_largest_layout_ends_without_a_wrap() {
    for layout in ["time:63 unit=1us", "time:62 sequence:1 unit=1us", "time:1 sequence:62 unit=1us"] {
        let server = Server::new(&format!("{layout} epoch=1969-12-31T23:59:59Z"), u64::MAX, 0);
        let last = (1 << 63) - 1;
        let last_tick = (server.generator.layout().ticks() - 1) as i64;
        server.gate.fence([(&server.slot, |_| last)]);
        server.gate.open(ME);
        assert_eq!(server.take(last_tick, u64::MAX), Ok(vec![i64::MAX]), "{layout}");
        assert_eq!(server.take(0, 1), Err(Stall::Exhausted), "{layout}");
        assert_eq!(server.take(i64::MAX, u64::MAX), Err(Stall::Exhausted), "{layout}");
        assert_eq!(server.generator.wait_us(server.slot.word(), 0, count(1)), Err(Stall::Exhausted));
    }
}

#[test]
fn a_clock_before_the_epoch_is_an_error() {
    let server = Server::new("time:41 sequence:12", MAX_AHEAD_US, 0);
    assert_eq!(server.parts(-1, 1), Err(Stall::BeforeEpoch { wait_us: 1 }));
    let at = |now_us| server.generator.advance(0, now_us, NO_LIMIT, count(1));
    assert_eq!(at(0), Err(Stall::BeforeEpoch { wait_us: EPOCH_US as u64 }));
    assert!(matches!(at(i64::MIN), Err(Stall::BeforeEpoch { .. })));
    assert_eq!(server.parts(0, 1), Ok(vec![(0, 0)]));
}

#[test]
fn an_epoch_before_1970_works() {
    let server = Server::new("time:63 unit=1us epoch=0001-01-01T00:00:00Z", MAX_AHEAD_US, 0);
    assert_eq!(server.parts(1_234_567, 1), Ok(vec![(1_234_567, 0)]));
    let last_us = i64::MAX;
    assert_eq!(
        server.generator.advance(0, last_us, NO_LIMIT, count(1)).map(|r| r.count()),
        Err(Stall::Exhausted)
    );
}

#[test]
fn the_horizon_is_a_limit() {
    let server = Server::new("time:41 sequence:1", MAX_AHEAD_US, 0);
    server.slot.set_horizon(7);
    assert_eq!(server.parts(5_000, 9), Ok(vec![(5, 0), (5, 1), (6, 0), (6, 1)]));
    assert_eq!(server.parts(5_000, 1), Err(Stall::Horizon));
    assert_eq!(server.parts(9_000, 1), Err(Stall::Horizon));
    server.slot.set_horizon(8);
    assert_eq!(server.parts(5_000, 9), Ok(vec![(7, 0), (7, 1)]));
    server.slot.set_horizon(0);
    assert_eq!(server.parts(9_000, 1), Err(Stall::Horizon));
}

#[test]
fn a_stall_takes_nothing() {
    let server = Server::new("time:41 sequence:1", 0, 0);
    let before = server.slot.word();
    for stall in [server.take(-1, 1), {
        server.slot.set_horizon(0);
        server.take(0, 1)
    }] {
        assert!(stall.is_err());
        assert_eq!(server.slot.word(), before);
    }
}

#[test]
fn a_batch_is_one_exchange_and_takes_what_fits() {
    let server = Server::new("time:41 sequence:12", MAX_AHEAD_US, 0);
    // 1 s ahead and the current tick, 4096 IDs each.
    assert_eq!(server.take(0, 5_000_000).map(|ids| ids.len()), Ok(1001 * 4096));
    assert_eq!(server.slot.word(), 1001 * 4096);
    assert_eq!(server.take(1_000, 5_000).map(|ids| ids.len()), Ok(4096));
}

#[test]
fn a_hopeless_wait_is_known_beforehand() {
    let generator = generator("time:41 sequence:12", MAX_AHEAD_US, 0);
    let wait_us = |current, n| generator.wait_us(current, EPOCH_US, count(n));
    assert_eq!(wait_us(0, 1), Ok(0));
    assert_eq!(wait_us(0, 1001 * 4096), Ok(0));
    assert_eq!(wait_us(0, 1001 * 4096 + 1), Ok(1_000));
    assert_eq!(wait_us(5_000 << 12, 1), Ok(4_000_000));
    assert_eq!(wait_us(0, u64::MAX), Err(Stall::Exhausted));
    assert_eq!(generator.wait_us(0, 0, count(1)), Err(Stall::BeforeEpoch { wait_us: EPOCH_US as u64 }));
}

#[test]
fn the_gate_decides() {
    let server = Server::new("standard", MAX_AHEAD_US, 0);
    let other = Identity { datacenter: 0, worker: 1 };
    assert!(server.take(0, 1).is_ok());
    server.gate.open(other);
    assert_eq!(server.take(0, 1), Err(Stall::Identity(Some(other))));
    let before = server.slot.word();
    server.gate.fence([(&server.slot, |_| 0)]);
    assert_eq!(server.slot.word(), before + 1);
    assert_eq!(server.take(0, 1), Err(Stall::Identity(None)));
    server.gate.fence([(&server.slot, |_| 77 << 12)]);
    server.gate.open(ME);
    assert_eq!(server.parts(0, 1), Ok(vec![(77, 0)]));
}

#[test]
fn the_gate_keeps_every_identity() {
    let gate = Gate::default();
    assert_eq!(gate.identity(), None);
    let most = (1 << 31) - 1;
    for (datacenter, worker) in [(0, 0), (most, 0), (0, most), (most, most), (1, 2)] {
        let identity = Identity { datacenter, worker };
        gate.open(identity);
        assert_eq!(gate.identity(), Some(identity));
    }
}

#[test]
fn an_identity_has_to_fit() {
    let twitter: Layout = "twitter".parse().unwrap();
    let fits = |datacenter, worker| Generator::new(twitter, Identity { datacenter, worker }, 0, 0);
    assert!(fits(31, 31).is_ok());
    assert!(matches!(fits(32, 0), Err(RangeError::Field { value: 32, max: 31, .. })));
    assert!(matches!(fits(0, 1 << 30), Err(RangeError::Field { max: 31, .. })));
    let standard: Layout = "standard".parse().unwrap();
    let error = Generator::new(standard, Identity { datacenter: 1, worker: 0 }, 0, 0).unwrap_err();
    assert!(error.allowed().contains("no datacenter field"), "{}", error.allowed());
}

#[test]
fn ids_carry_the_identity_in_its_place() {
    for name in ["twitter", "sonyflake", "rollback3", "baidu"] {
        let layout: Layout = name.parse().unwrap();
        let datacenter = u32::from(name == "twitter");
        let generator = Generator::new(layout, Identity { datacenter, worker: 9 }, 0, 0).unwrap();
        let now_us = layout.epoch_us() + 3 * layout.unit_us() as i64;
        let reservation = generator.advance(0, now_us, NO_LIMIT, count(2)).unwrap();
        let ids: Vec<_> = generator.ids(reservation).collect();
        assert_eq!(ids[0], generator.first_id(reservation));
        for (sequence, id) in ids.into_iter().enumerate() {
            let parts = layout.unpack(id).unwrap();
            let found = (parts.tick, parts.datacenter, parts.worker, parts.clock_seq, parts.sequence);
            assert_eq!(found, (3, datacenter.into(), 9, 0, sequence as u64), "{name}");
        }
    }
}

#[test]
fn spread_moves_ticks_entered_by_the_clock() {
    let server = Server::new("standard", MAX_AHEAD_US, 15);
    let mut starts = [0; 16];
    for tick in 1..=16_000 {
        let parts = server.parts(tick * 1_000, 2).unwrap();
        let (at, start) = parts[0];
        assert_eq!(at, tick as u64);
        // Within the tick the sequence counts up.
        assert_eq!(parts[1], (at, start + 1));
        starts[start as usize] += 1;
    }
    // Evenly distributed, with a mean of 1000.
    assert!(starts.iter().all(|&ticks| (900..=1_100).contains(&ticks)), "{starts:?}");
}

#[test]
fn spread_leaves_ticks_alone_that_are_entered_by_counting() {
    let server = Server::new("time:41 sequence:4", MAX_AHEAD_US, 15);
    let first = server.parts(1_000, 1).unwrap()[0].1;
    let rest = server.parts(1_000, 32).unwrap();
    let expected: Vec<_> = (first + 1..first + 33).map(|value| (1 + value / 16, value % 16)).collect();
    assert_eq!(rest, expected);
}

#[test]
fn spread_is_cut_down_to_the_sequence() {
    for (layout, most) in [("time:41", 0), ("time:41 sequence:1", 1)] {
        let server = Server::new(layout, MAX_AHEAD_US, u32::MAX);
        let sequences: Vec<_> = (1..100).map(|tick| server.parts(tick * 1_000, 1).unwrap()[0]).collect();
        assert_eq!(sequences.iter().map(|&(_, sequence)| sequence).max(), Some(most));
        assert!(sequences.iter().zip(1..).all(|(&(tick, _), expected)| tick == expected));
    }
}

#[test]
fn layouts_that_give_the_same_numbers_share_a_slot() {
    let key = |layout: &str| SlotKey::of(&layout.parse().unwrap());
    let same = [
        ("twitter", "leaf"),
        ("time:41 worker:10 sequence:12", "time:41 datacenter:5 worker:5 sequence:12"),
        ("time:41 worker:10 sequence:12", "time:40 worker:10 sequence:12"),
        ("standard", "rollback3"),
    ];
    for (one, other) in same {
        assert_eq!(key(one), key(other), "{one}, {other}");
    }
    let different = [
        ("standard", "pgedge"),
        ("standard", "wide"),
        ("time:39 worker:16 sequence:8", "time:39 sequence:8 worker:16"),
        ("time:41 worker:9 sequence:12", "time:41 worker:10 sequence:12"),
        ("time:41 worker:10", "time:41 worker:10 unit=10ms"),
    ];
    for (one, other) in different {
        assert_ne!(key(one), key(other), "{one}, {other}");
    }
}
