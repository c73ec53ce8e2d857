//! The IDs that a server made from a copy would repeat if it trusted its clock.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::*;

/// How long clients take IDs before and after an event.
pub const A_WHILE: Duration = Duration::from_millis(700);

pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The time in an ID of layout `standard`, in seconds of Unix time.
pub fn time_of(id: i64) -> f64 {
    const EPOCH: f64 = 1_704_067_200.0;
    EPOCH + (id >> 22) as f64 / 1_000.0
}

/// How many of the IDs are also among the others.
pub fn repeats(ids: &[i64], others: &[i64]) -> usize {
    let mut others = others.to_vec();
    others.sort_unstable();
    ids.iter().filter(|id| others.binary_search(id).is_ok()).count()
}

/// Stops the server's clock at an instant, until [`at_stake`] lets it continue.
pub fn stop_clock(cluster: &Cluster, time: f64) {
    cluster.hold_clock((time * 1e6) as i64, 1);
}

/// Stops the server's clock 2 s before the time in the latest of the IDs, until [`at_stake`] lets it continue.
pub fn set_clock_behind(cluster: &Cluster, ids: &[i64]) {
    stop_clock(cluster, time_of(*ids.iter().max().unwrap()) - 2.0);
}

/// How many of the IDs have a later time than the server's clock, which was stopped and now continues. The server would
/// repeat these if it trusted its clock. There must be some.
#[track_caller]
pub fn at_stake(cluster: &Cluster, ids: &[i64]) -> usize {
    let clock: f64 = single(&mut cluster.connect(), "SELECT extract(epoch FROM clock_timestamp())::float8");
    cluster.set_clock(clock - now());
    let count = ids.iter().filter(|id| time_of(**id) > clock).count();
    assert!(count > 0, "no ID is later than {clock}");
    count
}

/// Waits until clients have inserted some more rows into table `orders`.
#[track_caller]
pub fn wait_for_rows(cluster: &Cluster) {
    let mut client = cluster.connect();
    let mut rows = || single::<i64>(&mut client, "SELECT count(*) FROM orders");
    let before = rows();
    eventually("more rows", || rows() > before + 50);
}

/// The IDs that four clients receive from a server as soon as it issues any.
pub fn take_a_while(cluster: &Cluster) -> Vec<i64> {
    let first = wait_for_first_id(&mut cluster.connect());
    let (all, ()) = once_taken(2_000, takers(cluster, 4), || thread::sleep(A_WHILE));
    all.iter().for_each(|mine| assert_increasing(mine));
    let all = [vec![first], all.concat()].concat();
    assert_distinct(&all);
    all
}

/// The ID of layout `standard` that another worker would have issued in place of `id`.
pub fn with_worker(id: i64, worker: i64) -> i64 {
    id & !(1_023 << 12) | worker << 12
}

/// A burst: inserts some IDs of each of 730 milliseconds into table `orders`, including the first IDs of each.
pub fn burst(cluster: &Cluster) {
    let insert = "INSERT INTO orders SELECT id FROM snowflake_batch(1000000) AS id WHERE id & 4095 < 50";
    for _ in 0..3 {
        cluster.connect().run(insert);
    }
}
