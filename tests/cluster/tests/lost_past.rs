//! What the server has stored of its past is lost while it runs: dropped and created again, emptied, replaced
//! by an older copy. It still knows up to when IDs may have been made, and takes that for every worker ID.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use postgres::Client;
use snowflake_id_cluster_tests::faults::keeper_pid;
use snowflake_id_cluster_tests::{
    Cluster, IN_HOME, WORKER_1, assert_distinct, crash_a_backend, failure, ids, poll, single, text,
};

const ANEW: &str = "DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id";

fn set_worker(cluster: &Cluster, client: &mut Client, worker: &str) {
    cluster.configure(&[("snowflake_id.worker_id", worker)]);
    cluster.reload();
    poll("the reload", || (single::<String>(client, "SHOW snowflake_id.worker_id") == worker).then_some(()));
}

/// The first IDs under this worker ID that can be had within this time, or why there are none.
fn try_to_take(client: &mut Client, worker: i32, time: Duration) -> Result<Vec<i64>, String> {
    let start = Instant::now();
    client.batch_execute("SET snowflake_id.max_wait = '300ms'").unwrap();
    loop {
        let taken = client
            .query_one("SELECT snowflake_worker(snowflake_nextval())", &[])
            .map_err(|error| text(&error))
            .and_then(|row| match row.get::<_, i32>(0) == worker {
                true => Ok(()),
                false => Err("IDs of another worker".into()),
            });
        match taken {
            Ok(()) => return Ok(ids(client, "SELECT snowflake_batch(300000)")),
            Err(problem) if start.elapsed() > time => return Err(problem),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A burst by worker 1 with a clock that is 40 s ahead; the clock is set right, and everything begins anew
/// for worker 9.
fn reset_after_a_wrong_clock(cluster: &Cluster) -> Vec<i64> {
    cluster.set_clock(40.0);
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(900000)");
    cluster.set_clock(0.0);
    client.batch_execute("SELECT snowflake_reset_horizon(9)").unwrap();
    set_worker(cluster, &mut client, "9");
    all.extend(try_to_take(&mut client, 9, Duration::from_secs(20)).unwrap());
    all
}

/// Sets the clock to where it was when worker 1 made its IDs, the first ones of all, and takes what worker 1
/// gives then. It must not give one twice.
fn expect_no_repeat_of_worker_1(cluster: &Cluster, mut all: Vec<i64>) {
    let mut client = cluster.connect();
    set_worker(cluster, &mut client, "1");
    match try_to_take(&mut client, 1, Duration::from_secs(6)) {
        Ok(_) => {
            let made: f64 = single(
                &mut client,
                &format!("SELECT extract(epoch FROM snowflake_timestamp({}))::float8", all[0]),
            );
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
            cluster.set_clock(made - now);
            for _ in 0..3 {
                all.extend(try_to_take(&mut client, 1, Duration::from_secs(5)).unwrap_or_default());
            }
        }
        Err(message) => {
            assert!(message.contains("worker ID 1 may have been used by this server"), "{message}")
        }
    }
    assert_distinct(&all);
}

#[test]
fn created_again_after_a_reset() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let mut all = reset_after_a_wrong_clock(&cluster);
    let mut client = cluster.connect();
    client.batch_execute(ANEW).unwrap();
    all.extend(try_to_take(&mut client, 9, Duration::from_secs(10)).unwrap());
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// Everything began anew for worker 9, but worker 1 is still set: it was the last one, and must not go on
/// where worker 9 would have begun.
#[test]
fn created_again_after_a_reset_before_the_worker_is_set() {
    for loss in [ANEW, "REFRESH MATERIALIZED VIEW snowflake_internal.used_identity"] {
        let cluster = Cluster::start_with_clock(WORKER_1);
        cluster.set_clock(40.0);
        let mut client = cluster.connect();
        let all = ids(&mut client, "SELECT snowflake_batch(900000)");
        cluster.set_clock(0.0);
        client.batch_execute("SELECT snowflake_reset_horizon(9)").unwrap();
        client.batch_execute(loss).unwrap();
        expect_no_repeat_of_worker_1(&cluster, all);
    }
}

/// The records are emptied, and the server is stopped before the keeper has noticed.
#[test]
fn emptied_and_stopped() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let all = reset_after_a_wrong_clock(&cluster);
    cluster.connect().batch_execute("REFRESH MATERIALIZED VIEW snowflake_internal.used_identity").unwrap();
    cluster.stop_server("fast");
    cluster.start_server().unwrap();
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// The same, and the server crashes right then: what CREATE EXTENSION itself has stored has to do.
#[test]
fn created_again_after_a_reset_and_crashed() {
    let cluster = Cluster::start_with_clock(&[WORKER_1[0], WORKER_1[1], ("fsync", "on")]);
    let all = reset_after_a_wrong_clock(&cluster);
    cluster.connect().batch_execute(ANEW).unwrap();
    cluster.stop_server("immediate");
    cluster.start_server().unwrap();
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// A backend crashes between DROP and CREATE EXTENSION, so that shared memory is made anew.
#[test]
fn created_again_after_a_crash_of_a_backend() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let all = reset_after_a_wrong_clock(&cluster);
    cluster.connect().batch_execute("DROP EXTENSION snowflake_id").unwrap();
    crash_a_backend(&cluster);
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// Worker 1 was used with a clock that was ahead, then worker 2: it is not forgotten together with the
/// extension.
#[test]
fn created_again_after_another_worker() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    cluster.set_clock(40.0);
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(600000)");
    set_worker(&cluster, &mut client, "2");
    all.extend(try_to_take(&mut client, 2, Duration::from_secs(10)).unwrap());
    client.batch_execute(ANEW).unwrap();
    cluster.set_clock(0.0);
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon(1)");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("cannot tell whether worker ID 1 has been used"), "{message}");
    assert_distinct(&all);
}

/// The rows are gone, and nothing else: by the only statement that can do it.
#[test]
fn emptied() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let all = reset_after_a_wrong_clock(&cluster);
    let mut client = cluster.connect();
    client.batch_execute("REFRESH MATERIALIZED VIEW snowflake_internal.used_identity").unwrap();
    expect_no_repeat_of_worker_1(&cluster, all);
    assert!(cluster.log().contains("what was stored was changed by somebody else"), "{}", cluster.log());
}

/// Copies the keeper's database. A template must not be in use: the keeper is made to leave for a moment.
fn copy_home(client: &mut Client) {
    poll("the copy", || {
        let keeper = keeper_pid(client);
        client.execute("SELECT pg_terminate_backend($1)", &[&keeper]).unwrap();
        client.batch_execute("CREATE DATABASE older TEMPLATE home").ok()
    });
}

fn replace_home_by_copy(client: &mut Client) {
    client.batch_execute("DROP DATABASE home WITH (FORCE)").unwrap();
    client.batch_execute("ALTER DATABASE older RENAME TO home").unwrap();
}

/// The keeper's database is dropped, and an older copy of it takes its name: the sequence in it has the same
/// OID.
#[test]
fn an_older_copy_of_the_database() {
    let cluster = Cluster::stopped(&[WORKER_1[0], WORKER_1[1], IN_HOME]);
    let mut client = cluster.start_with_home();
    copy_home(&mut client);
    let highest: i64 = ids(&mut client, "SELECT snowflake_batch(1000000)").into_iter().max().unwrap();
    replace_home_by_copy(&mut client);
    // Noticed and written anew, before a crash could make it the truth.
    let mut home = cluster.connect_to("home");
    let stored = "SELECT last_value FROM snowflake_internal.horizon";
    let covered: i64 = single(
        &mut client,
        &format!("SELECT (extract(epoch FROM snowflake_timestamp({highest})) * 1000000)::bigint"),
    );
    poll("the horizon to be written again", || (single::<i64>(&mut home, stored) > covered).then_some(()));
    assert!(cluster.log().contains("what was stored was changed by somebody else"), "{}", cluster.log());
}

/// The same after everything began anew: the records in the copy are out of date, too.
#[test]
fn an_older_copy_after_a_reset() {
    let mut cluster = Cluster::stopped(&[WORKER_1[0], WORKER_1[1], IN_HOME]);
    cluster.give_clock();
    let mut client = cluster.start_with_home();
    copy_home(&mut client);
    keeper_pid(&mut client);
    cluster.set_clock(40.0);
    let mut all = ids(&mut client, "SELECT snowflake_batch(900000)");
    cluster.set_clock(0.0);
    cluster.connect_to("home").batch_execute("SELECT snowflake_reset_horizon(9)").unwrap();
    set_worker(&cluster, &mut client, "9");
    all.extend(try_to_take(&mut client, 9, Duration::from_secs(20)).unwrap());
    replace_home_by_copy(&mut client);
    all.extend(try_to_take(&mut client, 9, Duration::from_secs(20)).unwrap());
    expect_no_repeat_of_worker_1(&cluster, all);
}

/// Nobody takes IDs: what is stored is watched all the same.
#[test]
fn the_horizon_is_lowered_while_the_server_is_idle() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    // For a minute after an ID the horizon is renewed anyway: none is taken.
    keeper_pid(&mut client);
    client.batch_execute("SELECT setval('snowflake_internal.horizon', 1)").unwrap();
    let stored = "SELECT last_value FROM snowflake_internal.horizon";
    poll("the horizon to be written again", || (single::<i64>(&mut client, stored) > 1).then_some(()));
}
