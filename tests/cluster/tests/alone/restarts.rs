//! IDs are available at once after a clean restart, and after an idle time.

use std::thread;
use std::time::{Duration, Instant};

use harness::*;

/// A clean stop lowers the stored horizon.
#[test]
fn clean_restarts_need_no_wait_and_do_not_pile_up() {
    // The defaults of `snowflake_id.horizon_margin` and of `max_ahead`.
    const MARGIN_AND_AHEAD: f64 = 3.0 + 1.0;
    let cluster = Cluster::builder().worker(1).start();
    let mut all = ids(&mut cluster.connect(), "SELECT snowflake_batch(1000)");
    for _ in 0..10 {
        cluster.restart("fast");
        let mut client = cluster.connect();
        let start = Instant::now();
        all.extend(ids(&mut client, "SELECT snowflake_nextval()"));
        assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
        all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    }
    assert_increasing(&all);
    let ahead: f64 = single(
        &mut cluster.connect(),
        "SELECT extract(epoch FROM max(ahead))::float8 FROM snowflake_layout_status",
    );
    assert!(ahead < MARGIN_AND_AHEAD, "{ahead}");
}

/// An idle server writes no WAL for the horizon. The next call waits for only one commit.
#[test]
fn idleness_costs_nothing() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    eventually("the keeper", || server_state(&mut client) == "ready");
    let horizon = "SELECT horizon_us FROM snowflake_internal.horizon WHERE track = 0";
    let before: i64 = single(&mut client, horizon);
    // No ID has been taken, so the horizon is not extended, for several times the horizon margin.
    thread::sleep(Duration::from_secs(2));
    assert_eq!(single::<i64>(&mut client, horizon), before);
    let start = Instant::now();
    client.run("SELECT snowflake_nextval()");
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(single::<i64>(&mut client, horizon) > before);
}

/// In a fleet the server continues under the lease in its file.
#[test]
fn the_first_id_after_a_restart() {
    let fleet = Fleet::start(LONG_LEASES);
    let server = fleet.server().start();
    let mut all = some_ids(&server);
    // Take the fastest of three restarts, because the machine may be busy during some of them.
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let start_of_stop = Instant::now();
        server.restart("fast");
        leased_worker(&server);
        let took = start_of_stop.elapsed();
        println!("first ID {took:?} after the beginning of the stop");
        assert!(took < SLACK, "{took:?}");
        fastest = fastest.min(took);
        all.extend(some_ids(&server));
    }
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
    assert_distinct(&all);
}
