//! Snapshots, the watermarks of slots, and watermarks as IDs.

use std::cell::RefCell;

use proptest::prelude::*;
use snowflake_id_core::marks::{MARKED_SLOTS, Mark};
use snowflake_id_core::watermark::{Blocked, Holder, LowWater, Snapshot, id_at, low_water};
use snowflake_id_core::{Field, Identity, Layout, Marks, Parts, Slot};

fn snapshot(running: impl IntoIterator<Item = u64>, xmax: u64) -> Snapshot {
    Snapshot { xmax, running: running.into_iter().collect() }
}

fn slot(counter: u64) -> Slot {
    Slot::new(counter, u64::MAX)
}

/// The marks of a transaction that has marked these slots when their counters had these values.
fn marks(of: impl IntoIterator<Item = (usize, u64)>) -> Marks {
    let marks = Marks::default();
    of.into_iter().for_each(|(index, counter)| {
        marks.set(index, &slot(counter));
    });
    marks
}

fn at(word: u64, holder: impl Into<Option<Holder>>) -> Option<LowWater> {
    Some(LowWater { word, holder: holder.into() })
}

/// The watermarks of three slots, of which the second one was retired.
fn low_of(
    processes: &[Marks],
    prepared: &[(u64, Marks)],
    running: impl IntoIterator<Item = u64>,
) -> Result<Vec<Option<LowWater>>, Blocked> {
    let slots = [Some(slot(50)), None, Some(slot(70))];
    let prepared = || prepared.iter().map(|(transaction, marks)| (*transaction, marks.read().collect()));
    let snapshot = || snapshot(running, 20);
    let low = low_water(slots.iter().map(Option::as_ref), processes, || prepared().collect(), snapshot, 10);
    low.map(|(low, _)| low)
}

#[test]
fn a_transaction_is_running_if_it_is_listed_or_not_below_xmax() {
    let snapshot = snapshot([3, 5], 7);
    let running: Vec<_> = (1..10).filter(|transaction| snapshot.is_running(*transaction)).collect();
    assert_eq!(running, [3, 5, 7, 8, 9]);
}

#[test]
fn a_snapshot_is_covered_if_what_has_ended_in_it_has_ended() {
    let sample = snapshot([3, 5], 7);
    assert!(sample.is_covered_by(&sample));
    assert!(sample.is_covered_by(&snapshot([5], 7)), "transaction 3 has ended since");
    assert!(sample.is_covered_by(&snapshot([3, 8], 9)), "transaction 8 began later");
    assert!(!sample.is_covered_by(&snapshot([3], 6)), "transaction 6 has ended in the sample");
    assert!(!sample.is_covered_by(&snapshot([4], 9)), "transaction 4 has ended in the sample");
    assert!(!sample.is_covered_by(&snapshot([], 6)), "an older xmax");
    assert!(Snapshot::default().is_covered_by(&snapshot([], 1)));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// PostgreSQL's xmax is above the latest transaction that has ended.
    #[test]
    fn coverage_says_exactly_that_what_has_ended_in_one_has_ended_in_the_other(
        one in prop::collection::btree_set(1_u64..11, 0..10),
        xmax in 1_u64..13,
        other in prop::collection::btree_set(1_u64..11, 0..10),
        other_xmax in 1_u64..13,
    ) {
        let is_possible = |transaction: &u64, xmax: u64| transaction + 1 < xmax;
        let one = snapshot(one.into_iter().filter(|it| is_possible(it, xmax)), xmax);
        let other = snapshot(other.into_iter().filter(|it| is_possible(it, other_xmax)), other_xmax);
        let has_ended = (1..13).all(|transaction| one.is_running(transaction) || !other.is_running(transaction));
        prop_assert_eq!(one.is_covered_by(&other), has_ended);
    }
}

#[test]
fn the_watermark_is_the_lowest_mark_or_the_counter() {
    assert_eq!(low_of(&[], &[], []), Ok(vec![at(50, None), None, at(70, None)]));
    let processes = [marks([]), marks([(0, 40)]), marks([(0, 30), (2, 60)]), marks([(0, 30)])];
    let low = vec![at(30, Holder::Process(2)), None, at(60, Holder::Process(2))];
    assert_eq!(low_of(&processes, &[], []), Ok(low));
}

#[test]
fn a_mark_at_the_counter_holds_nothing_back() {
    assert_eq!(low_of(&[marks([(0, 50)])], &[], []), Ok(vec![at(50, None), None, at(70, None)]));
}

#[test]
fn prepared_transactions_count_while_they_are_running() {
    let prepared = [(11, marks([(0, 40)])), (12, marks([(0, 45), (2, 65)])), (25, marks([(2, 69)]))];
    let low = |zero, two| Ok(vec![zero, None, two]);
    let [first, second, later] = [11, 12, 25].map(Holder::Transaction);
    assert_eq!(low_of(&[], &prepared, [11, 12]), low(at(40, first), at(65, second)));
    assert_eq!(low_of(&[], &prepared, [12]), low(at(45, second), at(65, second)));
    // The third transaction is not below xmax, and has therefore not ended.
    assert_eq!(low_of(&[], &prepared, []), low(at(50, None), at(69, later)));
}

#[test]
fn a_transaction_that_may_have_marked_any_slot_blocks_all() {
    let many = || marks((0..=MARKED_SLOTS).map(|index| (2 * index, 40)));
    assert_eq!(many().read().last(), Some(Mark::Any));
    let any = |holder| Err(Blocked::AnyLayout(holder));
    // Slots that do not exist would block for another reason. The last reason is returned.
    assert_eq!(low_of(&[marks([]), many()], &[], []), any(Holder::Process(1)));
    assert_eq!(low_of(&[], &[(12, many())], [12]), any(Holder::Transaction(12)));
    assert!(low_of(&[], &[(12, many())], []).is_ok(), "the transaction has ended");
}

#[test]
fn a_mark_on_a_retired_slot_blocks_all() {
    let retired = |holder| Err(Blocked::Retired(holder));
    assert_eq!(low_of(&[marks([(1, 40)])], &[], []), retired(Holder::Process(0)));
    assert_eq!(low_of(&[marks([(0, 40), (1, 900)])], &[], []), retired(Holder::Process(0)));
    assert_eq!(low_of(&[], &[(12, marks([(1, 40)]))], [12]), retired(Holder::Transaction(12)));
    assert!(low_of(&[], &[(12, marks([(1, 40)]))], []).is_ok(), "the transaction has ended");
    assert_eq!(low_of(&[marks([(3, 40)])], &[], []), retired(Holder::Process(0)), "there is no such slot");
}

#[test]
fn a_transaction_from_before_the_first_known_one_blocks_all() {
    let older = |transaction| Err(Blocked::Older(Holder::Transaction(transaction)));
    assert_eq!(low_of(&[], &[], [9]), older(9));
    assert_eq!(low_of(&[marks([(0, 40)])], &[], [3, 9, 15]), older(3));
    assert!(low_of(&[], &[], [10, 15]).is_ok());
}

/// Each mutation of this order makes a reader skip a row: see `docs/design/watermark.md`.
#[test]
fn the_parts_are_read_in_the_order_of_the_protocol() {
    let read = RefCell::new(Vec::new());
    let note = |part| read.borrow_mut().push(part);
    let (slots, processes) = ([slot(1), slot(2)], [marks([]), marks([])]);
    let slots = slots.iter().inspect(|_| note("counter")).map(Some);
    let processes = processes.iter().inspect(|_| note("marks"));
    let prepared = || {
        note("list");
        Vec::new()
    };
    let taken = || {
        note("snapshot");
        snapshot([], 1)
    };
    low_water(slots, processes, prepared, taken, 0).unwrap();
    assert_eq!(*read.borrow(), ["counter", "counter", "marks", "marks", "list", "snapshot"]);
}

#[test]
fn only_the_lowest_word_of_a_slot_is_marked() {
    let marks = marks([(4, 30), (2, 60), (4, 50), (2, 20)]);
    assert_eq!([4, 2, 0].map(|index| marks.of(index)), [Some(30), Some(20), None]);
    let copy = Marks::default();
    copy.copy_from(&marks);
    marks.clear();
    assert!(marks.is_empty() && marks.read().next().is_none());
    assert_eq!(copy.read().count(), 2);
}

/// Marks that are cleared can be set again, also after more slots than there are marks.
#[test]
fn cleared_marks_can_be_set_again() {
    let marks = marks((0..=MARKED_SLOTS).map(|index| (index, 40)));
    assert!(marks.set(0, &slot(50)) && !marks.set(MARKED_SLOTS, &slot(50)));
    let copy = Marks::default();
    copy.copy_from(&marks);
    assert_eq!(copy.read().last(), Some(Mark::Any));
    marks.clear();
    marks.set(7, &slot(90));
    assert_eq!(marks.read().collect::<Vec<_>>(), [Mark::Slot { index: 7, word: 90 }]);
}

const SMALL: &str = "time:4 worker:2 sequence:2 epoch=1970-01-01T00:00:00Z";

fn identity(worker: u32) -> Identity {
    Identity { datacenter: 0, worker }
}

/// An ID of the small layout.
fn id(tick: i64, worker: i64, sequence: i64) -> i64 {
    tick << 4 | worker << 2 | sequence
}

#[test]
fn a_watermark_contains_the_identity_from_its_first_counter_on() {
    let layout: Layout = SMALL.parse().unwrap();
    let at = |counter, from| id_at(&layout, counter, Some((identity(3), from)));
    assert_eq!(at(6, 6), id(1, 3, 2));
    assert_eq!(at(7, 6), id(1, 3, 3));
    assert_eq!(at(5, 6), id(1, 0, 1));
    assert_eq!(id_at(&layout, 6, None), id(1, 0, 2));
}

#[test]
fn a_watermark_without_room_for_the_identity_contains_none() {
    let layout: Layout = SMALL.parse().unwrap();
    assert_eq!(id_at(&layout, 6, Some((identity(4), 0))), id(1, 0, 2));
    let elsewhere = Identity { datacenter: 1, worker: 0 };
    assert_eq!(id_at(&layout, 6, Some((elsewhere, 0))), id(1, 0, 2));
}

#[test]
fn after_the_last_id_of_the_layout_the_watermark_is_the_largest_number() {
    let layout: Layout = SMALL.parse().unwrap();
    let from_start = Some((identity(3), 0));
    assert_eq!(id_at(&layout, 63, from_start), id(15, 3, 3));
    assert_eq!([from_start, None].map(|identity| id_at(&layout, 64, identity)), [i64::MAX; 2]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// An earlier identity has issued the IDs below the first counter. Its worker ID may be lower or higher.
    #[test]
    fn a_watermark_separates_the_ids_below_a_counter_from_the_others(
        fields in prop::sample::select(vec![
            "worker:2 sequence:2", "sequence:2 worker:2", "worker:3", "sequence:3", "worker:1 sequence:1 datacenter:1",
        ]),
        [near, from, other] in [0_u64..40, 0..40, 0..40],
        workers in any::<[u32; 2]>(),
    ) {
        let layout: Layout = format!("time:40 {fields}").parse().unwrap();
        let bits = layout.bits(Field::Sequence);
        // An identity begins with a whole tick.
        let from = from >> bits << bits;
        let [identity, earlier] = workers.map(|worker| Identity {
            datacenter: worker >> 31 & layout.max(Field::Datacenter) as u32,
            worker: worker & layout.max(Field::Worker) as u32,
        });
        let issued = |counter: u64| {
            let Identity { datacenter, worker } = if counter < from { earlier } else { identity };
            let (tick, sequence) = (counter >> bits, counter & layout.max(Field::Sequence));
            let (datacenter, worker) = (datacenter.into(), worker.into());
            layout.pack(&Parts { tick, sequence, datacenter, worker, ..Parts::default() }).unwrap()
        };
        let watermark = id_at(&layout, near, Some((identity, from)));
        if other >= near {
            prop_assert!(issued(other) >= watermark, "an ID at or after the counter is below the watermark");
        } else if near >= from && other >= from {
            prop_assert!(issued(other) < watermark, "an ID of the identity before the counter is not covered");
        }
    }
}
