//! The choice between a worker ID that is set by hand and a leased one, and the records of identities that were left.

use crate::servers::*;
use snowflake_id_core::Lease;
use snowflake_id_core::left::{Candidates, Choice, Departure, Left, choose};
use uuid::Uuid;

const HERE: Uuid = Uuid::from_u128(1);
const THERE: Uuid = Uuid::from_u128(2);

fn leased() -> Lease {
    Lease { identity: worker(512), from_us: NOW_US, until_us: NOW_US + 100 }
}

/// A server that has left worker 1 for a registry, from which it leased worker 512.
fn left() -> Left {
    let mut left = Left::default();
    left.leave([worker(1)], worker(512), HERE, NOW_US);
    left
}

fn wanted(candidates: Candidates, left: &Left) -> Option<Lease> {
    let choice = choose(&candidates, left, NOW_US);
    assert_eq!(choice.refused, None);
    choice.wanted
}

/// A worker ID that is set by hand is used with a registry only by a server that continues.
#[test]
fn beside_a_registry() {
    let none = Left::default();
    let by_hand = Some(worker(1));
    let begins = Candidates { has_registry: true, by_hand, ..Candidates::default() };
    assert_eq!(wanted(begins, &none), None);
    let is_open = Candidates { open_for: Some(settled(1)), ..begins };
    assert_eq!(wanted(is_open, &none), Some(settled(1)));
    let after_a_crash = Candidates { used_before: by_hand, ..begins };
    assert_eq!(wanted(after_a_crash, &none), Some(settled(1)));
    for candidates in [is_open, after_a_crash] {
        // Another worker ID is not a continuation.
        assert_eq!(wanted(Candidates { by_hand: Some(worker(2)), ..candidates }, &none), None);
        assert_eq!(wanted(Candidates { by_hand: None, ..candidates }, &none), None);
        assert_eq!(wanted(candidates, &left()), None);
        assert_eq!(wanted(Candidates { leased: Some(leased()), ..candidates }, &none), Some(leased()));
    }
    // A lease of the same worker ID is no permission to use it by hand.
    let lease = Lease { identity: worker(1), ..leased() };
    let was_leased = Candidates { open_for: Some(lease), ..begins };
    assert_eq!(wanted(was_leased, &none), Some(lease));
    assert_eq!(choose(&was_leased, &none, lease.until_us).wanted, None);
}

#[test]
fn without_a_registry() {
    for hand in [1, 512] {
        let by_hand = Candidates { by_hand: Some(worker(hand)), ..Candidates::default() };
        assert_eq!(wanted(by_hand, &Left::default()), Some(settled(hand)));
        let refused = choose(&by_hand, &left(), NOW_US);
        let departure = Departure { registry_id: HERE, since_us: NOW_US };
        assert_eq!(refused, Choice { wanted: None, refused: Some((worker(hand), departure)) });
        // The former lease is used to its end, but a worker ID that was set by hand is not.
        let with_lease = Candidates { open_for: Some(leased()), ..by_hand };
        assert_eq!(choose(&with_lease, &left(), NOW_US + 99).wanted, Some(leased()));
        assert_eq!(choose(&with_lease, &left(), NOW_US + 100).wanted, None);
        let by_hand = Candidates { open_for: Some(settled(hand)), ..by_hand };
        assert_eq!(choose(&by_hand, &left(), NOW_US).wanted, None);
    }
    assert_eq!(
        wanted(Candidates { by_hand: Some(worker(2)), ..Candidates::default() }, &left()),
        Some(settled(2))
    );
}

/// The latest record is that of the last registry, even if the clock was set back.
#[test]
fn the_last_registry() {
    let mut left = left();
    assert_eq!(left.latest().map(|latest| latest.registry_id), Some(HERE));
    left.leave([worker(1), worker(512)], worker(600), THERE, NOW_US - 50);
    assert_eq!(left.latest(), Some(Departure { registry_id: THERE, since_us: NOW_US + 1 }));
    assert_eq!(left.get(worker(1)).map(|departure| departure.registry_id), Some(HERE));
    left.leave([], worker(512), HERE, NOW_US + 70);
    left.leave([worker(7)], worker(513), HERE, NOW_US + 80);
    assert_eq!(left.latest().map(|latest| latest.registry_id), Some(HERE));
    assert_eq!(left.moved_at_us(), Some(NOW_US + 70));
    assert!([7, 512, 513, 600].iter().all(|&hand| left.get(worker(hand)).is_some()));
}

/// A repetition changes nothing, and the records of two copies are merged.
#[test]
fn records_are_merged() {
    let mut one = left();
    let before = one.clone();
    one.leave([worker(1)], worker(512), HERE, NOW_US + 5);
    assert_eq!(one, before);
    let mut other = Left::default();
    assert_eq!(other.add(&one), one);
    assert!(other.add(&one).is_empty());
    other.leave([worker(3)], worker(512), THERE, NOW_US + 9);
    assert_eq!(one.add(&other).iter().count(), 2);
    assert_eq!(one, other);
    // An older record replaces nothing.
    assert!(one.add(&before).is_empty());
    assert_eq!(one, other);
}
