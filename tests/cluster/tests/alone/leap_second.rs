//! A leap second that the kernel inserts by setting the clock back by a second: calls continue.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use harness::*;

/// With a leased worker ID and without one. The IDs of each session increase, no call fails, and none waits for the
/// second.
#[test]
fn a_second_is_repeated_under_load() {
    let fleet = Fleet::start(HALF_MINUTE_LEASES);
    for server in [Cluster::builder().worker(1), fleet.server()] {
        let cluster = server.clock().start();
        wait_for_first_id(&mut cluster.connect());
        let load = |stop: &AtomicBool| take_one_by_one(&cluster, stop);
        let (taken, ()) = beside([load; 2], || {
            let mut client = cluster.connect();
            let ahead = "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - clock_timestamp())::float8";
            // The IDs of a new server start ahead of the clock.
            eventually("the clock", || single::<f64>(&mut client, ahead) < 0.001);
            cluster.set_clock(-1.0);
            let after: f64 = single(&mut client, ahead);
            println!("IDs are {after} s ahead of the clock after the step");
            assert!((0.5..=1.0).contains(&after), "{after}");
            eventually("the clock", || single::<f64>(&mut client, ahead) < 0.1);
        });
        let slowest = taken.iter().map(|(_, slowest)| *slowest).max().unwrap();
        let all: Vec<i64> = taken
            .into_iter()
            .flat_map(|(mine, _)| {
                assert_increasing(&mine);
                mine
            })
            .collect();
        println!("{} IDs, the slowest call took {slowest:?}", all.len());
        assert!(slowest < Duration::from_millis(500), "{slowest:?}");
        assert_distinct(&all);
    }
}
