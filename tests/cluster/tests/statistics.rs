//! What view `snowflake_status` counts.

use snowflake_id_cluster_tests::{Cluster, WORKER_1, poll, single};

#[test]
fn the_status_counts_ids_waits_and_steps_of_the_clock() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let mut observer = cluster.connect();
    let mut client = cluster.connect();
    client.batch_execute("SELECT count(snowflake_nextval()) FROM generate_series(1, 2345)").unwrap();
    client.batch_execute("SELECT count(*) FROM snowflake_batch(1000)").unwrap();
    // Within a lease, or when the session ends.
    drop(client);
    let issued = "SELECT ids_issued FROM snowflake_status";
    poll("the count", || (single::<i64>(&mut observer, issued) == 3_345).then_some(()));

    // A layout that gives 200 IDs per second, and no drift: some calls wait.
    cluster.configure(&[("snowflake_id.max_drift", "0")]);
    cluster.reload();
    poll("the reload", || {
        (single::<String>(&mut observer, "SHOW snowflake_id.max_drift") == "0").then_some(())
    });
    let waits = "SELECT calls_waited FROM snowflake_status LIMIT 1";
    let before: i64 = single(&mut observer, waits);
    observer
        .batch_execute(
            "SET snowflake_id.layout = 'time:38 worker:10 unit=5ms';
             SELECT count(snowflake_nextval()) FROM generate_series(1, 20)",
        )
        .unwrap();
    let waited = single::<i64>(&mut observer, waits) - before;
    assert!((15..=20).contains(&waited), "{waited}");
    let milliseconds: f64 = single(
        &mut observer,
        "SELECT extract(epoch FROM time_waited)::float8 * 1000 FROM snowflake_status LIMIT 1",
    );
    assert!(milliseconds > 50.0, "{milliseconds}");

    let steps = "SELECT clock_steps_back FROM snowflake_status LIMIT 1";
    assert_eq!(single::<i64>(&mut observer, steps), 0);
    cluster.set_clock(-0.5);
    poll("the step to be seen", || {
        observer.batch_execute("SELECT snowflake_nextval()").unwrap();
        (single::<i64>(&mut observer, steps) == 1).then_some(())
    });
    let largest: f64 = single(
        &mut observer,
        "SELECT extract(epoch FROM largest_clock_step_back)::float8 FROM snowflake_status LIMIT 1",
    );
    assert!((0.4..0.6).contains(&largest), "{largest}");
}
