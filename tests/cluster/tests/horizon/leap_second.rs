//! A leap second that the kernel inserts by setting the clock back by a second: calls continue, because IDs may be up
//! to `max_ahead` ahead of the clock. The step and the setting are a hundred times as long here, so that a call that
//! waits is noticed on a busy machine too.

use std::sync::atomic::AtomicBool;

use harness::*;

const STEP: f64 = 100.0;

/// With a leased worker ID and without one. The IDs of each session increase, no call fails, and none waits.
#[test]
fn a_second_is_repeated_under_load() {
    let fleet = Fleet::start(LONG_LEASES);
    for server in [Cluster::builder().worker(1), fleet.server()] {
        let settings = [("snowflake_id.max_ahead", "2min"), ("snowflake_id.max_clock_jump", "1h")];
        let cluster = server.settings(&settings).set("snowflake_id.max_wait", "1min").clock().start();
        wait_for_first_id(&mut cluster.connect());
        // The IDs of a new server start ahead of the clock.
        let before = 120.0 + STEP;
        cluster.set_clock(before);
        let load = |stop: &AtomicBool| take_one_by_one(&cluster, stop);
        let (taken, ()) = beside([load; 2], || {
            let mut client = cluster.connect();
            let ahead = "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - clock_timestamp())::float8";
            eventually("the clock", || single::<f64>(&mut client, ahead) < 0.001);
            cluster.set_clock(before - STEP);
            for _ in 0..200 {
                let after: f64 = single(&mut client, ahead);
                assert!((STEP / 2.0..=STEP).contains(&after), "{after}");
            }
            cluster.set_clock(before);
            eventually("the clock", || single::<f64>(&mut client, ahead) < 0.1);
        });
        let slowest = taken.iter().map(|(_, slowest)| *slowest).max().unwrap();
        let all: Vec<Vec<i64>> = taken.into_iter().map(|(mine, _)| mine).collect();
        all.iter().for_each(|mine| assert_increasing(mine));
        assert_distinct(&all.concat());
        assert_within(SLACK, slowest, "a call");
    }
}
