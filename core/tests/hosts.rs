//! Which host is tried next, and for how long.

use std::time::Duration;

use snowflake_id_core::hosts::{Attempts, Step, listed};

type Named = Step<&'static str, u8>;

const LOOK_UP: Duration = Duration::from_secs(10);
const CONNECT: Duration = Duration::from_secs(5);

/// A name with two addresses and a host with one. Each step has a time limit of its own.
#[test]
fn each_address_has_a_time_of_its_own() {
    let list: Vec<Named> = vec![Step::LookUp("registry1"), Step::Connect(3)];
    let mut attempts = Attempts::new(list, LOOK_UP, CONNECT, |_| 0);
    let mut next = |expected: Named, limit| {
        assert_eq!(attempts.next_step(), Some((expected, limit)));
        if limit == LOOK_UP {
            attempts.found([1, 2]);
        }
        attempts.has_more()
    };
    assert!(next(Step::LookUp("registry1"), LOOK_UP));
    assert!(next(Step::Connect(1), CONNECT));
    assert!(next(Step::Connect(2), CONNECT));
    assert!(!next(Step::Connect(3), CONNECT));
    assert_eq!(attempts.next_step(), None);
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
    let mut steps = vec![];
    while let Some((step, _)) = attempts.next_step() {
        if step == Step::LookUp("a") {
            attempts.found([200, 50]);
        }
        steps.push(step);
    }
    let (names, found) = ([Step::LookUp("b"), Step::LookUp("a")], [Step::Connect(50), Step::Connect(200)]);
    assert_eq!(steps[0], Step::Connect(9));
    assert_eq!((&steps[1..3], &steps[3..5]), (&names[..], &found[..]));
    assert_eq!(steps[5..], [Step::LookUp("late")]);
}

#[test]
fn lists_that_belong_together() {
    let (names, addresses, ports) = (["a", "b"], [1, 2], [10, 20, 30]);
    let hosts = |names, addresses, ports| listed::<&str, i32, i32>(names, addresses, ports);
    let both = vec![(Some(&"a"), Some(&1), Some(&10)), (Some(&"b"), Some(&2), Some(&20))];
    assert_eq!(hosts(&names, &addresses, &ports[..2]), Ok(both));
    let one_port = vec![(Some(&"a"), None, Some(&10)), (Some(&"b"), None, Some(&10))];
    assert_eq!(hosts(&names, &[], &ports[..1]), Ok(one_port));
    assert_eq!(hosts(&[], &addresses, &[]), Ok(vec![(None, Some(&1), None), (None, Some(&2), None)]));
    assert_eq!(hosts(&[], &[], &[]), Ok(vec![]));
    let problem = "could not match 2 host names to 1 hostaddr values";
    assert_eq!(hosts(&names, &addresses[..1], &ports[..1]), Err(problem.into()));
    assert_eq!(hosts(&names, &[], &ports), Err("could not match 3 port numbers to 2 hosts".into()));
}
