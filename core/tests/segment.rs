//! Numbers in ranges: what a caller gets, and when the next range is requested.

use std::cell::Cell;
use std::num::NonZeroU64;

use proptest::prelude::*;
use snowflake_id_core::segment::{Dry, Full, MOST_NUMBERS, NEVER_ENDS, Range, Segment, Taken};

fn range(first: i64, increment: i64, count: u64) -> Range {
    Range { first, increment, count, ends_us: NEVER_ENDS }
}

fn no_clock() -> i64 {
    panic!("the clock was read")
}

fn take(segment: &Segment, n: u64) -> Result<Taken, Dry> {
    segment.take(no_clock, NonZeroU64::new(n).unwrap())
}

fn numbers(segment: &Segment, n: u64) -> Vec<i64> {
    take(segment, n).unwrap().numbers().collect()
}

#[test]
fn a_new_segment_is_dry() {
    let segment = Segment::default();
    assert_eq!(take(&segment, 1), Err(Dry));
    let standing = segment.standing();
    assert_eq!((standing.current, standing.next, standing.left), (None, None, 0));
    assert!(standing.is_next_wanted);
}

#[test]
fn numbers_come_one_range_after_the_other() {
    let segment = Segment::default();
    segment.publish(range(10, 5, 3), 1).unwrap();
    segment.publish(range(100, 1, 2), 1).unwrap();
    assert_eq!(numbers(&segment, 2), [10, 15]);
    assert_eq!(numbers(&segment, 2), [20]);
    assert_eq!(numbers(&segment, 9), [100, 101]);
    assert_eq!(take(&segment, 1), Err(Dry));
    segment.publish(range(200, 1, 1), 1).unwrap();
    assert_eq!(numbers(&segment, 1), [200]);
}

#[test]
fn one_call_learns_that_the_next_range_is_wanted() {
    let segment = Segment::default();
    segment.publish(range(1, 1, 10), 3).unwrap();
    let wanted: Vec<_> = (0..10).map(|_| take(&segment, 1).unwrap().is_next_wanted).collect();
    assert_eq!(wanted, [false, false, true, false, false, false, false, false, false, false]);
    segment.publish(range(11, 1, 10), 3).unwrap();
    assert!(!segment.standing().is_next_wanted);
    assert!(take(&segment, 10).unwrap().is_next_wanted);
    assert!(segment.standing().is_next_wanted);
}

#[test]
fn a_drained_segment_is_dry() {
    let segment = Segment::default();
    assert_eq!(segment.drain(), []);
    for at in 1..4 {
        segment.publish(range(at * 10, 2, 3), 1).unwrap();
    }
    assert_eq!(numbers(&segment, 3), [10, 12, 14]);
    assert_eq!(numbers(&segment, 1), [20]);
    assert_eq!(segment.drain(), [range(22, 2, 2), range(30, 2, 3)]);
    assert_eq!(take(&segment, 1), Err(Dry));
    assert_eq!((segment.standing().issued, segment.standing().left), (4, 0));
    segment.publish(range(22, 2, 2), 1).unwrap();
    assert_eq!(numbers(&segment, 2), [22, 24]);
    assert_eq!(segment.standing().issued, 6);
}

/// Numbers that are skipped because their range has ended are not counted as issued.
#[test]
fn issued_numbers_are_counted() {
    let segment = Segment::default();
    segment.publish(Range { ends_us: 100, ..range(1, 1, 10) }, 1).unwrap();
    segment.publish(range(11, 1, 10), 1).unwrap();
    let take = |now, n| segment.take(|| now, NonZeroU64::new(n).unwrap()).unwrap().first;
    assert_eq!(take(99, 4), 1);
    assert_eq!(segment.standing().issued, 4);
    assert_eq!(take(100, 1), 11);
    assert_eq!(segment.standing().issued, 5);
}

#[test]
fn four_ranges_have_room() {
    let segment = Segment::default();
    // Before the first number, the entry of the range in use is empty.
    for at in 0..3 {
        segment.publish(range(at * 10, 1, 2), 1).unwrap();
    }
    assert_eq!(segment.publish(range(90, 1, 2), 1), Err(Full));
    assert_eq!(segment.standing().left, 6);
    assert_eq!(numbers(&segment, 1), [0]);
    segment.publish(range(90, 1, 2), 1).unwrap();
    assert_eq!(segment.publish(range(99, 1, 2), 1), Err(Full));
    let standing = segment.standing();
    assert_eq!((standing.current, standing.offset), (Some(range(0, 1, 2)), 1));
    assert_eq!((standing.next, standing.left), (Some(range(10, 1, 2)), 7));
}

#[test]
fn what_is_left_at_the_end_of_a_period_is_never_used() {
    let segment = Segment::default();
    let now = Cell::new(0);
    let take = || segment.take(|| now.get(), NonZeroU64::MIN).map(|taken| taken.first);
    segment.publish(Range { ends_us: 100, ..range(1, 1, 10) }, 1).unwrap();
    segment.publish(Range { ends_us: 100, ..range(11, 1, 10) }, 1).unwrap();
    assert_eq!(take(), Ok(1));
    now.set(99);
    assert_eq!(take(), Ok(2));
    now.set(100);
    assert_eq!(take(), Err(Dry));
    segment.publish(Range { ends_us: 200, ..range(1001, 1, 10) }, 1).unwrap();
    assert_eq!(take(), Ok(1001));
    // The clock is set back: the day does not change.
    now.set(50);
    assert_eq!(take(), Ok(1002));
}

#[test]
fn what_is_no_range() {
    let most = i64::MAX;
    assert_eq!(range(most - 4, 2, 3).last(), Some(most));
    assert_eq!(range(0, 1, MOST_NUMBERS).last(), Some(MOST_NUMBERS as i64 - 1));
    for none in [
        range(-1, 1, 1),
        range(1, 0, 1),
        range(1, -1, 1),
        range(1, 1, 0),
        range(most - 4, 2, 4),
        range(1, most, 3),
        range(1, 1, MOST_NUMBERS + 1),
    ] {
        assert_eq!(none.last(), None, "{none:?}");
    }
}

#[test]
fn the_highest_number_of_all_is_taken_like_any_other() {
    let segment = Segment::default();
    segment.publish(range(i64::MAX - 1, 1, 2), 1).unwrap();
    assert_eq!(numbers(&segment, 5), [i64::MAX - 1, i64::MAX]);
    assert_eq!(take(&segment, 1), Err(Dry));
}

#[test]
fn a_new_tenure_discards_what_is_left() {
    let segment = Segment::default();
    let take = |tenure| segment.take_in(tenure, no_clock, NonZeroU64::MIN).map(|taken| taken.first);
    segment.begin_tenure();
    segment.publish(range(10, 1, 3), 1).unwrap();
    segment.publish(Range { ends_us: 100, ..range(20, 1, 3) }, 1).unwrap();
    assert_eq!((segment.tenure(), take(1), take(2)), (1, Ok(10), Err(Dry)));
    segment.begin_tenure();
    let standing = segment.standing();
    assert_eq!((standing.left, standing.issued, standing.is_next_wanted), (0, 1, true));
    assert_eq!(standing.current.unwrap().ends_us, NEVER_ENDS);
    // The numbers of another name may be lower.
    segment.publish(range(5, 1, 3), 1).unwrap();
    assert_eq!((segment.tenure(), take(1), take(2)), (2, Err(Dry), Ok(5)));
    // A call that asks for a former tenure has taken nothing.
    assert_eq!(segment.standing().left, 2);
}

proptest! {
    /// However publishing and taking are interleaved, every number is given exactly once, in ascending order.
    #[test]
    fn every_number_comes_once(steps in prop::collection::vec((any::<bool>(), 1u64..20, 1i64..4), 1..200)) {
        let segment = Segment::default();
        let (mut published, mut taken, mut next) = (vec![], vec![], 0);
        for (is_taking, n, increment) in steps {
            if is_taking {
                if let Ok(some) = take(&segment, n) {
                    taken.extend(some.numbers());
                    prop_assert_eq!(taken.last(), Some(&some.last()));
                }
            } else if segment.publish(range(next, increment, n), 1).is_ok() {
                published.extend((0..n as i64).map(|at| next + at * increment));
                next = published.last().unwrap() + 3;
            }
            prop_assert_eq!(segment.standing().left as usize, published.len() - taken.len());
        }
        while let Ok(some) = take(&segment, 7) {
            taken.extend(some.numbers());
        }
        prop_assert_eq!(taken, published);
    }
}
