//! Calls, fences and changes of identity on threads of this processor. The tests with loom visit interleavings of an
//! abstract machine. These tests run the code that the compiler makes, on the memory order of the processor.

use std::num::NonZeroU64;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use snowflake_id_core::{Gate, Generator, Identity, Layout, Slot};

const CALLERS: usize = 3;
/// The calls that a caller makes at most, so that a test on a busy machine ends.
const CALLS: usize = 100_000;
const SEQUENCE_BITS: u32 = 12;
static LAYOUT: LazyLock<Layout> =
    LazyLock::new(|| "time:41 worker:10 sequence:12 epoch=1970-01-01T00:00:00Z".parse().unwrap());

struct Server {
    gate: Gate,
    slot: Slot,
    /// The horizon that is on disk, as the keeper knows it.
    durable: AtomicU64,
    stopped: AtomicBool,
}

fn server(horizon: u64) -> Server {
    let server = Server {
        gate: Gate::default(),
        slot: Slot::new(0, horizon),
        durable: AtomicU64::new(horizon),
        stopped: AtomicBool::new(false),
    };
    server.gate.open(identity(0));
    server
}

fn identity(number: usize) -> Identity {
    Identity { datacenter: 0, worker: (number % 2) as u32 }
}

/// The clock stands still, so that the counter alone tells the order.
fn take(server: &Server, identity: Identity) -> Option<i64> {
    let generator = Generator::new(*LAYOUT, identity, 1_000_000_000, 0).unwrap();
    let reservation = server.slot.reserve(&server.gate, &generator, || 1_000, NonZeroU64::MIN).ok()?;
    generator.ids(reservation).next()
}

fn counter(id: i64) -> u64 {
    let parts = LAYOUT.unpack(id).unwrap();
    parts.tick << SEQUENCE_BITS | parts.sequence
}

/// Lets the callers take IDs until `change` has ended. Returns the IDs of each caller, in the order of its calls.
fn beside_callers(server: &Server, change: impl FnOnce()) -> Vec<Vec<i64>> {
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|_| {
                scope.spawn(|| {
                    let mut ids = Vec::new();
                    while !server.stopped.load(Ordering::Relaxed) && ids.len() < CALLS {
                        let Some(identity) = server.gate.identity() else { continue };
                        ids.extend(take(server, identity));
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                    ids
                })
            })
            .collect();
        while taken.load(Ordering::Relaxed) < 1_000 {
            thread::yield_now();
        }
        change();
        server.stopped.store(true, Ordering::Relaxed);
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    })
}

fn assert_distinct_and_in_order(callers: Vec<Vec<i64>>) {
    for ids in &callers {
        assert!(ids.iter().map(|id| counter(*id)).is_sorted_by(|a, b| a < b), "a caller went back");
    }
    let mut all = callers.concat();
    let total = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), total, "an ID was repeated");
}

#[test]
fn concurrent_calls_share_no_id_and_each_sees_its_own_grow() {
    let server = server(u64::MAX);
    // The callers can take more IDs than this, however late this thread looks.
    let end = server.slot.word() + CALLS as u64;
    let callers = beside_callers(&server, || {
        while server.slot.word() < end {
            thread::yield_now();
        }
    });
    assert_distinct_and_in_order(callers);
}

#[test]
fn no_attempt_succeeds_between_a_fence_and_the_next_identity() {
    let server = server(u64::MAX);
    let mut reigns = Vec::new();
    let callers = beside_callers(&server, || {
        for number in 1..100 {
            let (_, floor) = server.gate.fence([(&server.slot, |_| 0)])[0];
            for _ in 0..20 {
                assert_eq!(server.slot.word(), floor, "an attempt succeeded after the fence");
            }
            reigns.push(floor);
            server.gate.open(identity(number));
            // The callers have time to notice.
            thread::yield_now();
        }
    });
    for id in callers.concat() {
        let reign = reigns.partition_point(|floor| *floor <= counter(id));
        assert_eq!(
            LAYOUT.unpack(id).unwrap().worker,
            u64::from(identity(reign).worker),
            "an ID of another identity's time"
        );
    }
    assert_distinct_and_in_order(callers);
}

#[test]
fn no_call_passes_a_published_horizon() {
    let server = server(1);
    let callers = thread::scope(|scope| {
        // Reads the horizon on disk after the call: it may only be later than the one that the call used.
        let checks = scope.spawn(|| {
            while !server.stopped.load(Ordering::Relaxed) {
                if let Some(id) = take(&server, identity(0)) {
                    let tick = counter(id) >> SEQUENCE_BITS;
                    assert!(
                        tick < server.durable.load(Ordering::Relaxed),
                        "an ID beyond the durable horizon"
                    );
                }
            }
        });
        let callers = beside_callers(&server, || {
            for tick in 2..50 {
                server.durable.store(tick, Ordering::Relaxed);
                server.slot.set_horizon(tick);
                while server.slot.word() >> SEQUENCE_BITS < tick - 1 {
                    thread::yield_now();
                }
            }
        });
        checks.join().unwrap();
        callers
    });
    assert_distinct_and_in_order(callers);
}
