//! Interleavings of calls and fences, checked by loom. Built only with `--cfg loom`.
#![cfg(loom)]

use std::num::NonZeroU64;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use snowflake_id_core::segment::{NEVER_ENDS, Range, Segment};
use snowflake_id_core::{Gate, Generator, Identity, Layout, Slot, SlotKey, Stall};

const OLD: Identity = Identity { datacenter: 0, worker: 1 };
const NEW: Identity = Identity { datacenter: 0, worker: 2 };

/// The maximum number of times that a thread is interrupted. All interleavings would take too long.
const PREEMPTIONS: usize = 3;

struct Server {
    gate: Gate,
    slot: Slot,
}

fn check(run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(run);
}

fn server() -> Arc<Server> {
    let server = Server { gate: Gate::default(), slot: Slot::new(0, u64::MAX) };
    server.gate.open(OLD);
    Arc::new(server)
}

/// Two sequence bits, a clock that stays in tick 1, and room to run ahead.
fn generator(identity: Identity) -> Generator {
    let layout = "time:40 worker:2 sequence:2 epoch=1970-01-01T00:00:00Z".parse().unwrap();
    Generator::new(layout, identity, 1_000_000, 0).unwrap()
}

fn take(server: &Server, identity: Identity, n: u64) -> Result<Vec<i64>, Stall> {
    let generator = generator(identity);
    let n = NonZeroU64::new(n).unwrap();
    let reservation = server.slot.reserve(&server.gate, &generator, || 1_000, n)?;
    Ok(generator.ids(reservation).collect())
}

fn assert_distinct(mut ids: Vec<i64>) {
    let total = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), total, "an ID came twice");
}

#[test]
fn concurrent_calls_share_no_id_and_each_sees_its_own_grow() {
    check(|| {
        let server = server();
        let other = {
            let server = server.clone();
            thread::spawn(move || {
                let first = take(&server, OLD, 3).unwrap();
                let second = take(&server, OLD, 1).unwrap();
                assert!(first.iter().max() < second.iter().min());
                [first, second].concat()
            })
        };
        let mine = take(&server, OLD, 2).unwrap();
        assert_distinct([mine, other.join().unwrap()].concat());
    });
}

#[test]
fn an_id_returned_before_a_call_is_smaller_than_what_the_call_returns() {
    check(|| {
        let server = server();
        let returned = Arc::new(AtomicBool::new(false));
        let other = {
            let (server, returned) = (server.clone(), returned.clone());
            thread::spawn(move || {
                let id = take(&server, OLD, 1).unwrap()[0];
                returned.store(true, Ordering::Release);
                id
            })
        };
        let before = returned.load(Ordering::Acquire);
        let mine = take(&server, OLD, 1).unwrap()[0];
        let theirs = other.join().unwrap();
        assert!(!before || theirs < mine);
    });
}

/// After a fence no ID below the raised counter is issued any more, and no ID at all until the gate opens: the counter
/// that the fencing process reads after the fence is final.
#[test]
fn an_attempt_that_began_before_a_fence_never_succeeds_after_it() {
    check(|| {
        let server = server();
        let fenced = Arc::new(AtomicBool::new(false));
        let caller = {
            let (server, fenced) = (server.clone(), fenced.clone());
            thread::spawn(move || {
                let known_fenced = fenced.load(Ordering::Acquire);
                let ids = take(&server, OLD, 1);
                assert!(!known_fenced || ids.is_err(), "an ID although the gate was known to be closed");
                ids
            })
        };
        server.gate.fence([(&server.slot, |_| 0)]);
        fenced.store(true, Ordering::Release);
        let end = server.slot.word();
        let ids = caller.join().unwrap();
        // If the caller had succeeded after the fence, the counter would have changed.
        assert_eq!(server.slot.word(), end, "an attempt succeeded after the fence");
        if let Ok(ids) = ids {
            let layout = *generator(OLD).layout();
            let parts = layout.unpack(ids[0]).unwrap();
            assert!(parts.tick << 2 | parts.sequence < end);
        }
    });
}

/// A change of identity: no ID with the old identity is above the floor, and none with the new one below it.
#[test]
fn a_change_of_identity_keeps_the_order() {
    const FLOOR: u64 = 2 << 2;
    check(|| {
        let server = server();
        let caller = {
            let server = server.clone();
            thread::spawn(move || match take(&server, OLD, 1) {
                Err(Stall::Identity(Some(identity))) => take(&server, identity, 1).ok(),
                ids => ids.ok(),
            })
        };
        server.gate.fence([(&server.slot, |_| FLOOR)]);
        server.gate.open(NEW);
        let mine = take(&server, NEW, 1).unwrap();
        let theirs = caller.join().unwrap();
        assert_distinct([mine.clone(), theirs.clone().unwrap_or_default()].concat());
        let layout = *generator(OLD).layout();
        for id in mine.into_iter().chain(theirs.into_iter().flatten()) {
            let parts = layout.unpack(id).unwrap();
            let counter = parts.tick << 2 | parts.sequence;
            assert_eq!(counter >= FLOOR, parts.worker == u64::from(NEW.worker), "counter {counter}");
        }
    });
}

/// The horizon is published after it is durable. A call never exceeds the horizon that it can see.
#[test]
fn no_call_passes_a_published_horizon() {
    check(|| {
        let server = server();
        server.slot.set_horizon(1);
        let durable = Arc::new(loom::sync::atomic::AtomicU64::new(1));
        let caller = {
            let (server, durable) = (server.clone(), durable.clone());
            thread::spawn(move || {
                if let Ok(ids) = take(&server, OLD, 1) {
                    let tick = generator(OLD).layout().unpack(ids[0]).unwrap().tick;
                    assert!(tick < durable.load(Ordering::Relaxed), "an ID beyond the durable horizon");
                }
            })
        };
        durable.store(3, Ordering::Relaxed);
        server.slot.set_horizon(3);
        caller.join().unwrap();
    });
}

/// Numbers in ranges: a caller takes a number while an exhausted range is replaced. It never mixes values from the two.
#[test]
fn concurrent_calls_share_no_number_of_a_segment() {
    check(|| {
        let segment = Arc::new(Segment::default());
        segment.publish(numbers_from(0, 2), 1).unwrap();
        assert_eq!(take_numbers(&segment, 1), [0]);
        for at in 1..4 {
            segment.publish(numbers_from(at * 10, 1), 1).unwrap();
        }
        assert!(segment.publish(numbers_from(40, 1), 1).is_err(), "there was room");
        let other = {
            let segment = segment.clone();
            thread::spawn(move || take_numbers(&segment, 1))
        };
        let mut all = take_numbers(&segment, 2);
        // This replaces the first range.
        segment.publish(numbers_from(40, 3), 1).unwrap();
        assert!(all.is_sorted(), "{all:?}");
        all.extend(other.join().unwrap());
        all.sort();
        assert_eq!(all, [1, 10, 20]);
    });
}

/// The writer drains a segment while a caller takes numbers: each number is taken by one of them. The drained numbers are
/// above the caller's, because they may be published again.
#[test]
fn a_drained_number_is_not_taken() {
    check(|| {
        let segment = Arc::new(Segment::default());
        segment.publish(numbers_from(0, 2), 1).unwrap();
        segment.publish(numbers_from(10, 1), 1).unwrap();
        let caller = {
            let segment = segment.clone();
            thread::spawn(move || take_numbers(&segment, 2))
        };
        let drained = segment.drain();
        let taken = caller.join().unwrap();
        assert_eq!(segment.standing().issued, taken.len() as u64);
        let mut all: Vec<i64> =
            drained.iter().flat_map(|range| range.first..range.first + range.count as i64).collect();
        assert!(taken.iter().max() < all.iter().min() || all.is_empty(), "{taken:?} {all:?}");
        all.extend(taken);
        all.sort();
        assert_eq!(all, [0, 1, 10]);
        assert_eq!(take_numbers(&segment, 1), Vec::<i64>::new());
    });
}

/// A segment is assigned to another name while a caller takes numbers of the former name. The caller gets no number of the
/// new name.
#[test]
fn a_new_tenure_gives_no_number_of_another() {
    check(|| {
        let segment = Arc::new(Segment::default());
        segment.begin_tenure();
        segment.publish(numbers_from(10, 2), 1).unwrap();
        let former = {
            let segment = segment.clone();
            thread::spawn(move || {
                let taken = segment.take_in(1, || 0, NonZeroU64::MIN);
                taken.ok().map(|taken| taken.first)
            })
        };
        // On a server, a lock orders the two.
        segment.begin_tenure();
        segment.publish(numbers_from(20, 1), 1).unwrap();
        let former = former.join().unwrap();
        assert!(former.is_none_or(|number| number == 10), "{former:?}");
    });
}

fn numbers_from(first: i64, count: u64) -> Range {
    Range { first, increment: 1, count, ends_us: NEVER_ENDS }
}

fn take_numbers(segment: &Segment, calls: usize) -> Vec<i64> {
    let take = |_| segment.take(|| 0, NonZeroU64::MIN).ok().map(|taken| taken.first);
    (0..calls).filter_map(take).collect()
}

/// A slot changes to another value of the clock sequence, at a lower counter, while a call with the former value is in
/// progress. There is no fence: no call with the new value sees the horizon of the former one, and no call with the
/// former value takes the first IDs of the new one.
#[test]
fn a_slot_that_goes_over_to_another_value_gives_nothing_twice() {
    let layout: Layout =
        "time:40 worker:2 clock_seq:2 sequence:2 epoch=1970-01-01T00:00:00Z".parse().unwrap();
    let [former, new] =
        [1, 2].map(|value| Generator::new(layout, OLD, 1_000_000, 0).unwrap().with_clock_seq(value));
    let [word, new_word] =
        [(1, 8), (2, 4)].map(|(value, counter)| SlotKey::at(&layout, 1).word(value, counter));
    let take = |server: &Server, generator: &Generator| {
        let reservation = server.slot.reserve(&server.gate, generator, || 1_000, NonZeroU64::MIN);
        reservation.map(|reservation| generator.first_id(reservation))
    };
    for generator in [former, new] {
        check(move || {
            let (gate, slot) = (Gate::default(), Slot::new(word, 3));
            gate.open(OLD);
            let server = Arc::new(Server { gate, slot });
            let caller = {
                let server = server.clone();
                thread::spawn(move || take(&server, &generator))
            };
            server.slot.change_value(new_word);
            server.slot.set_horizon(2);
            let mut ids = vec![take(&server, &new).unwrap()];
            assert_eq!(take(&server, &former), Err(Stall::Exhausted));
            ids.extend(caller.join().unwrap());
            for &id in &ids {
                let parts = layout.unpack(id).unwrap();
                assert!(parts.tick < if parts.clock_seq == 2 { 2 } else { 3 }, "{parts:?}");
            }
            assert_distinct(ids);
        });
    }
}

/// A value of the clock sequence is opened again, at or after the end of its use. No fence is needed, because the slot
/// is raised before it has a horizon again.
#[test]
fn a_value_that_is_opened_again_gives_nothing_below_its_floor() {
    const FLOOR: u64 = 2 << 2;
    check(|| {
        let server = server();
        server.slot.set_horizon(0); // The value was closed.
        let caller = {
            let server = server.clone();
            thread::spawn(move || take(&server, OLD, 1).unwrap_or_default())
        };
        server.slot.raise(|counter| counter.max(FLOOR));
        server.slot.set_horizon(4);
        let mine = take(&server, OLD, 1).unwrap();
        let layout = *generator(OLD).layout();
        for id in [mine, caller.join().unwrap()].concat() {
            let parts = layout.unpack(id).unwrap();
            assert!(parts.tick << 2 | parts.sequence >= FLOOR, "tick {}", parts.tick);
        }
    });
}
