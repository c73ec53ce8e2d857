//! The counters of views `snowflake_status` and `snowflake_layout_status`.

use harness::*;

#[test]
fn the_status_counts_ids_waits_and_steps_of_the_clock() {
    let cluster = Cluster::builder().worker(1).short_horizon().patient().clock().start();
    let mut observer = cluster.connect();
    let mut client = cluster.connect();
    client.run("SELECT count(snowflake_nextval()) FROM generate_series(1, 2345)");
    client.run("SELECT count(*) FROM snowflake_batch(1000)");
    // Counts are reported within the horizon margin, or when the session ends.
    drop(client);
    let issued = "SELECT ids_issued FROM snowflake_layout_status";
    all_arrive("the count", || single::<i64>(&mut observer, issued) == 3_345);

    // A layout with 10 IDs per second, none of them ahead of the clock: almost all calls wait.
    cluster.change_for(&mut observer, "snowflake_id.max_ahead", "0");
    let waits = "SELECT calls_waited FROM snowflake_status";
    let before: i64 = single(&mut observer, waits);
    observer.run(
        "SET snowflake_id.layout = 'time:38 worker:10 unit=100ms';
         SELECT count(snowflake_nextval()) FROM generate_series(1, 12)",
    );
    let waited = single::<i64>(&mut observer, waits) - before;
    assert!((9..=12).contains(&waited), "{waited}");
    let milliseconds: f64 = status(&mut observer, "extract(epoch FROM time_waited)::float8 * 1000");
    assert!(milliseconds > 600.0, "{milliseconds}");

    let steps = "SELECT clock_steps_back FROM snowflake_status";
    assert_eq!(single::<i64>(&mut observer, steps), 0);
    cluster.set_clock(-0.5);
    eventually("the step to be seen", || {
        observer.run("SELECT snowflake_nextval()");
        single::<i64>(&mut observer, steps) == 1
    });
    let largest: f64 = status(&mut observer, "extract(epoch FROM largest_clock_step_back)::float8");
    assert!((0.4..0.6).contains(&largest), "{largest}");
}
