//! The stored history of the server is lost while it runs: dropped and created again, emptied, or replaced by an older
//! copy. The server still knows up to when IDs may have been issued, and applies that to every worker ID.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::*;

const RESET: &str = "DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id";

fn set_worker(cluster: &Cluster, client: &mut Client, worker: &str) {
    cluster.change_for(client, "snowflake_id.worker_id", worker);
}

/// A server whose layout has 256 IDs in a millisecond, so that few IDs cover much time.
fn server() -> Builder {
    let layout = "time:41 worker:14 sequence:8";
    Cluster::builder().worker(1).short_horizon().clock().set("snowflake_id.layout", layout)
}

/// Waits until IDs under this worker ID are available, and returns some, or until they are refused because the server
/// may have used the worker ID before.
fn try_to_take(client: &mut Client, worker: i32) -> Option<Vec<i64>> {
    let refusal = format!("this server may have used worker ID {worker}");
    client.run("SET snowflake_id.max_wait = '300ms'");
    eventually("IDs of the worker, or a refusal", || {
        let row = client.query_one("SELECT snowflake_worker(snowflake_nextval())", &[]);
        match row.map_err(|error| text(&error)) {
            Ok(row) => (row.get::<_, i32>(0) == worker).then_some(true),
            Err(message) => message.contains(&refusal).then_some(false),
        }
    })
    .then(|| ids(client, BURST))
}

#[track_caller]
fn take(client: &mut Client, worker: i32) -> Vec<i64> {
    try_to_take(client, worker).unwrap_or_else(|| panic!("worker ID {worker} is refused"))
}

/// The IDs of a fifth of a second.
const BURST: &str = "SELECT snowflake_batch(50000)";

/// Worker 1 issues a burst with a clock that is 40 s ahead. Then the clock is set right, and the horizon is reset for
/// worker 9.
fn reset_after_a_wrong_clock(cluster: &Cluster) -> Vec<i64> {
    cluster.set_clock(40.0);
    let mut client = cluster.connect();
    let mut all = ids(&mut client, BURST);
    cluster.set_clock(0.0);
    client.run("SELECT snowflake_reset_horizon(9)");
    set_worker(cluster, &mut client, "9");
    all.extend(take(&mut client, 9));
    all
}

/// Sets the clock to the time at which worker 1 issued the first of all IDs, and takes IDs from worker 1 again. None
/// may be repeated.
fn expect_no_repeat_of_worker_1(cluster: &Cluster, mut all: Vec<i64>) {
    let mut client = cluster.connect();
    set_worker(cluster, &mut client, "1");
    if try_to_take(&mut client, 1).is_some() {
        let first = format!("SELECT extract(epoch FROM snowflake_timestamp({}))::float8", all[0]);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        cluster.set_clock(single::<f64>(&mut client, &first) - now);
        for _ in 0..10 {
            if let Ok(rows) = client.query(BURST, &[]) {
                all.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
            }
        }
    }
    assert_distinct(&all);
}

#[test]
fn created_again_after_a_reset() {
    let cluster = server().start();
    let mut all = reset_after_a_wrong_clock(&cluster);
    let mut client = cluster.connect();
    client.run(RESET);
    all.extend(take(&mut client, 9));
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// The horizon was reset for worker 9, but the setting still names worker 1. It was the last worker, and must not
/// continue where worker 9 would have started.
#[test]
fn created_again_after_a_reset_before_the_worker_is_set() {
    for loss in [RESET, "REFRESH MATERIALIZED VIEW snowflake_internal.used_identity WITH NO DATA"] {
        let cluster = server().start();
        cluster.set_clock(40.0);
        let mut client = cluster.connect();
        let all = ids(&mut client, BURST);
        cluster.set_clock(0.0);
        client.run("SELECT snowflake_reset_horizon(9)");
        client.run(loss);
        expect_no_repeat_of_worker_1(&cluster, all);
    }
}

/// The records are emptied, and the server is stopped before the keeper has noticed.
#[test]
fn emptied_and_stopped() {
    let cluster = server().start();
    let all = reset_after_a_wrong_clock(&cluster);
    cluster.connect().run("REFRESH MATERIALIZED VIEW snowflake_internal.used_identity WITH NO DATA");
    cluster.restart("fast");
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// As above, but the server crashes at once, so only the records that CREATE EXTENSION itself stored are available.
#[test]
fn created_again_after_a_reset_and_crashed() {
    let cluster = server().start();
    let all = reset_after_a_wrong_clock(&cluster);
    cluster.connect().run(RESET);
    cluster.restart("immediate");
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// A backend crashes between DROP and CREATE EXTENSION, so that shared memory is reinitialized.
#[test]
fn created_again_after_a_crash_of_a_backend() {
    let cluster = server().start();
    let all = reset_after_a_wrong_clock(&cluster);
    cluster.connect().run("DROP EXTENSION snowflake_id");
    cluster.crash_a_backend();
    cluster.connect().run("CREATE EXTENSION snowflake_id");
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// Worker 1 was used with a clock that was ahead, then worker 2. Worker 1 is not forgotten when the extension is
/// dropped.
#[test]
fn created_again_after_another_worker() {
    let cluster = server().start();
    cluster.set_clock(40.0);
    let mut client = cluster.connect();
    let mut all = ids(&mut client, BURST);
    set_worker(&cluster, &mut client, "2");
    all.extend(take(&mut client, 2));
    client.run(RESET);
    cluster.set_clock(0.0);
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon(1)");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("cannot determine whether this server has used worker ID 1"), "{message}");
    assert_distinct(&all);
}

/// Only the rows are removed, by the only statement that can do that.
#[test]
fn emptied() {
    let cluster = server().start();
    let all = reset_after_a_wrong_clock(&cluster);
    let mut client = cluster.connect();
    client.run("REFRESH MATERIALIZED VIEW snowflake_internal.used_identity WITH NO DATA");
    expect_no_repeat_of_worker_1(&cluster, all);
    assert!(
        cluster.log().contains("the stored horizons were changed by another session"),
        "{}",
        cluster.log()
    );
}

/// Copies the keeper's database. A template must not be in use, so the keeper is made to leave for a moment.
fn copy_home(client: &mut Client) {
    eventually("the copy", || {
        let keeper = keeper_pid(client);
        client.execute("SELECT pg_terminate_backend($1)", &[&keeper]).unwrap();
        client.batch_execute("CREATE DATABASE older TEMPLATE home").ok()
    });
}

fn replace_home_by_copy(client: &mut Client) {
    client.run("DROP DATABASE home WITH (FORCE)");
    client.run("ALTER DATABASE older RENAME TO home");
}

/// The keeper's database is dropped, and an older copy takes its name. The relations in the copy have the same OIDs.
#[test]
fn an_older_copy_of_the_database() {
    let cluster = Cluster::builder().worker(1).home().stopped();
    let mut client = cluster.start_with_home();
    copy_home(&mut client);
    let highest: i64 = ids(&mut client, "SELECT snowflake_batch(100000)").into_iter().max().unwrap();
    replace_home_by_copy(&mut client);
    // The loss is noticed and the history stored again, before a crash could make the old copy valid. The horizon
    // in the copy may cover the IDs too, so it does not show that the keeper has been there.
    eventually("the keeper to notice the loss", || {
        cluster.log().contains("the stored horizons were changed by another session")
    });
    let mut home = cluster.connect_to("home");
    let stored = "SELECT horizon_us FROM snowflake_internal.horizon WHERE track = 0";
    let covered: i64 = single(
        &mut client,
        &format!("SELECT (extract(epoch FROM snowflake_timestamp({highest})) * 1000000)::bigint"),
    );
    eventually("the horizon to be written again", || single::<i64>(&mut home, stored) > covered);
}

/// The same after a reset, so that the records in the copy are out of date too.
#[test]
fn an_older_copy_after_a_reset() {
    let cluster = server().home().stopped();
    let mut client = cluster.start_with_home();
    copy_home(&mut client);
    keeper_pid(&mut client);
    cluster.set_clock(40.0);
    let mut all = ids(&mut client, BURST);
    cluster.set_clock(0.0);
    cluster.connect_to("home").run("SELECT snowflake_reset_horizon(9)");
    set_worker(&cluster, &mut client, "9");
    all.extend(take(&mut client, 9));
    replace_home_by_copy(&mut client);
    all.extend(take(&mut client, 9));
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// The stored horizon is checked even while no IDs are taken.
#[test]
fn the_horizon_is_emptied_while_the_server_is_idle() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    // The horizon is renewed for a minute after an ID, so the test takes none.
    keeper_pid(&mut client);
    client.run("REFRESH MATERIALIZED VIEW snowflake_internal.horizon WITH NO DATA");
    eventually("the horizon to be written again", || is_stored(&mut client, "horizon"));
}
