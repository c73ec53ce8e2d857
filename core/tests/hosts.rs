//! Which host is tried next, and for how long.

use std::time::{Duration, Instant};

use snowflake_id_core::hosts::{Attempts, Step, count, deadline};

type Named = Step<&'static str, u8>;

const LOOK_UP: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);

/// A name with two addresses and a host with one. Each step has all of its time, however long the ones before it took.
#[test]
fn each_address_has_a_time_of_its_own() {
    let mut now = Instant::now();
    let list: Vec<Named> = vec![Step::LookUp("registry1"), Step::Connect(3)];
    let mut attempts = Attempts::new(list, LOOK_UP, CONNECT, |_| 0);
    let mut next = |expected: Named, limit| {
        let attempt = attempts.next(now).unwrap();
        assert_eq!((attempt.step, attempt.limit, attempt.deadline), (expected, limit, now + limit));
        now = attempt.deadline;
        if limit == LOOK_UP {
            attempts.found([1, 2]);
        }
        attempts.has_more()
    };
    assert!(next(Step::LookUp("registry1"), LOOK_UP));
    assert!(next(Step::Connect(1), CONNECT));
    assert!(next(Step::Connect(2), CONNECT));
    assert!(!next(Step::Connect(3), CONNECT));
    assert_eq!(attempts.next(now), None);
}

/// A name without an address is passed over, and the addresses of a name are ordered among themselves.
#[test]
fn hosts_are_tried_in_order() {
    let list: Vec<Named> = vec![Step::LookUp("late"), Step::Connect(9), Step::LookUp("b"), Step::LookUp("a")];
    let order = |step: &Named| match step {
        Step::LookUp("late") => 100,
        Step::LookUp(_) => 10,
        Step::Connect(address) => *address,
    };
    let mut attempts = Attempts::new(list, LOOK_UP, CONNECT, order);
    let now = Instant::now();
    let mut steps = vec![];
    while let Some(attempt) = attempts.next(now) {
        if attempt.step == Step::LookUp("a") {
            attempts.found([200, 50]);
        }
        steps.push(attempt.step);
    }
    let (names, found) = ([Step::LookUp("b"), Step::LookUp("a")], [Step::Connect(50), Step::Connect(200)]);
    assert_eq!(steps[0], Step::Connect(9));
    assert_eq!((&steps[1..3], &steps[3..5]), (&names[..], &found[..]));
    assert_eq!(steps[5..], [Step::LookUp("late")]);
}

#[test]
fn a_wait_without_end_has_a_deadline() {
    let now = Instant::now();
    assert!(deadline(now, Duration::MAX) > now + Duration::from_secs(1 << 30));
    assert_eq!(deadline(now, CONNECT), now + CONNECT);
    let mut attempts = Attempts::new(vec![Named::Connect(1)], LOOK_UP, Duration::MAX, |_| 0);
    assert!(attempts.next(deadline(now, Duration::MAX)).unwrap().deadline > now);
}

#[test]
fn lists_that_belong_together() {
    for (lists, hosts) in [((2, 2, 2), 2), ((3, 0, 1), 3), ((0, 2, 0), 2), ((0, 0, 0), 0)] {
        assert_eq!(count(lists.0, lists.1, lists.2), Ok(hosts));
    }
    let problem = "could not match 2 host names to 1 hostaddr values";
    assert_eq!(count(2, 1, 1), Err(problem.into()));
    assert_eq!(count(2, 0, 3), Err("could not match 3 port numbers to 2 hosts".into()));
}
