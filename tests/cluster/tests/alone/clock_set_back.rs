//! The clock is set back under a layout with a clock sequence: calls continue within a second.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use harness::*;

use crate::clock_sequence::values::{HOUR, server, start_with_history, value_of};

/// Under load: calls in flight wait for less than a second, and none fails.
#[test]
fn a_clock_set_back_by_an_hour_under_load() {
    let cluster = start_with_history(server("rollback3"));
    let load = |stop: &AtomicBool| take_one_by_one(&cluster, stop);
    let (taken, ()) = beside([load; 6], || {
        let mut client = cluster.connect();
        wait_for_first_id(&mut client);
        for value in 1..=3 {
            cluster.set_clock(-HOUR * f64::from(value));
            eventually("the next value", || {
                let id: i64 = single(&mut client, "SELECT snowflake_nextval()");
                value_of(&mut client, id) == value
            });
            // Calls are in progress while the clock changes.
            thread::sleep(Duration::from_millis(300));
        }
    });
    let all: Vec<i64> = taken.iter().flat_map(|(mine, _)| mine.iter().copied()).collect();
    let longest = taken.iter().map(|(_, slowest)| *slowest).max().unwrap();
    println!("{} IDs, the slowest call took {longest:?}", all.len());
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert_distinct(&all);
    let mut client = cluster.connect();
    let used = "SELECT count(*) FROM snowflake_clock_sequence WHERE used_until > now() + interval '50 min'";
    eventually("the status", || single::<i64>(&mut client, used) == 2);
    assert_eq!(server_state(&mut client), "ready");
    assert_eq!(single::<i32>(&mut client, "SELECT clock_seq FROM snowflake_layout_status"), 3);
}
