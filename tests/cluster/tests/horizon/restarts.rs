//! IDs are available at once after a clean restart.

use harness::*;

/// A clean stop lowers the stored horizon. Otherwise a call after the restart would fail, because it would have to wait
/// for longer than `max_wait`.
#[test]
fn clean_restarts_need_no_wait_and_do_not_pile_up() {
    let cluster = Cluster::builder()
        .worker(1)
        .settings(&[("snowflake_id.horizon_margin", "10min"), ("snowflake_id.max_wait", "1min")])
        .start();
    let mut all = ids(&mut cluster.connect(), "SELECT snowflake_batch(1000)");
    for _ in 0..8 {
        cluster.restart("fast");
        all.extend(ids(&mut cluster.connect(), "SELECT snowflake_batch(1000)"));
    }
    assert_increasing(&all);
    let ahead: f64 = single(
        &mut cluster.connect(),
        "SELECT extract(epoch FROM max(ahead))::float8 FROM snowflake_layout_status",
    );
    // The default of `max_ahead` is 1 s.
    assert!(ahead < 4.0, "{ahead}");
}
