//! The IDs that a server made from a copy would repeat if it trusted its clock.

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

/// How many of the IDs have a later time than the server's clock. The server would repeat these if it trusted its
/// clock.
pub fn at_stake(cluster: &Cluster, ids: &[i64]) -> usize {
    let clock: f64 = single(&mut cluster.connect(), "SELECT extract(epoch FROM clock_timestamp())::float8");
    ids.iter().filter(|id| time_of(**id) > clock).count()
}

/// Sets the server's clock to 2 s before the time in the latest of the IDs.
pub fn set_clock_behind(cluster: &Cluster, ids: &[i64]) {
    cluster.set_clock(time_of(*ids.iter().max().unwrap()) - 2.0 - now());
}

/// The IDs that four clients receive from a server as soon as it issues any.
pub fn take_a_while(cluster: &Cluster) -> Vec<i64> {
    let first = wait_for_first_id(&mut cluster.connect());
    let (mut all, ()) = while_taking(takers(cluster, 4), || while_issuing(cluster, 2_000, A_WHILE));
    all.push(first);
    assert!(all.len() > 1_000, "only {} IDs", all.len());
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
