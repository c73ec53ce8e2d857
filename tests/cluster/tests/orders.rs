//! What an administrator orders, sets right or forgets: it is done when the call says so, and what is set right is noticed without a
//! call.

use std::thread;
use std::time::Duration;

use postgres::Client;
use snowflake_id_cluster_tests::faults::{Paused, keeper_pid};
use snowflake_id_cluster_tests::{Cluster, Settings, WORKER_1, failure, poll, single};

const TEN_YEARS: f64 = 3_650.0 * 86_400.0;
const NO_WORKER: Settings = &[("shared_preload_libraries", "snowflake_id")];

fn state(client: &mut Client) -> String {
    single(client, "SELECT state FROM snowflake_status LIMIT 1")
}

/// By how many seconds the floor lies ahead of the clock, once there is one.
fn floor_ahead(client: &mut Client) -> f64 {
    let query = "SELECT extract(epoch FROM floor - clock_timestamp())::float8 FROM snowflake_status LIMIT 1";
    poll("the floor", || single::<Option<f64>>(client, query))
}

/// As after a recovery: the floor is moved while the server has no worker ID, and it is started again in between.
#[test]
fn the_floor_is_moved_without_a_worker_id() {
    for mode in ["fast", "immediate"] {
        let cluster = Cluster::start(NO_WORKER);
        cluster.connect().batch_execute("SELECT snowflake_advance(now() + '10 min')").unwrap();
        cluster.stop_server(mode);
        cluster.configure(WORKER_1);
        cluster.start_server().unwrap();
        let mut client = cluster.connect();
        let ahead = floor_ahead(&mut client);
        assert!(ahead > 500.0, "{mode}: {ahead}");
        keeper_pid(&mut client);
        assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55P03", "{mode}");
    }
}

/// The keeper cannot write the floor: the call does not say that it is done.
#[test]
fn the_floor_cannot_be_stored() {
    let cluster = Cluster::start(WORKER_1);
    let (mut client, mut other) = (cluster.connect(), cluster.connect());
    keeper_pid(&mut client);
    other.batch_execute("BEGIN; ALTER SEQUENCE snowflake_internal.horizon MINVALUE 0").unwrap();
    let (code, message) = failure(&mut client, "SELECT snowflake_advance(now() + '10 min')");
    assert_eq!(code, "55000", "{message}");
    assert!(message.contains("lock timeout"), "{message}");
    other.batch_execute("ROLLBACK").unwrap();
    client.batch_execute("SELECT snowflake_advance(now() + '10 min')").unwrap();
    cluster.stop_server("immediate");
    cluster.start_server().unwrap();
    let ahead = floor_ahead(&mut cluster.connect());
    assert!(ahead > 500.0, "{ahead}");
}

/// Nobody takes IDs, so that the keeper has nothing to do, while the clock is wrong.
#[test]
fn a_clock_that_jumped_is_set_right_while_nobody_asks() {
    let cluster = Cluster::start_with_clock(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "200ms")]);
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    cluster.set_clock(TEN_YEARS);
    // Has it look, without an ID that would keep it looking.
    client.batch_execute("SELECT snowflake_advance('2024-01-01Z')").unwrap();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(state(&mut client), "clock jumped");
    cluster.set_clock(0.0);
    poll("the state", || (state(&mut client) == "ready").then_some(()));
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
}

/// Also the call that does not wait for the keeper wakes it, for the next one.
#[test]
fn sessions_that_never_wait() {
    let settings =
        [WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "100ms"), ("snowflake_id.max_drift", "100ms")];
    let cluster = Cluster::start(&settings);
    let mut client = cluster.connect();
    client.batch_execute("SET snowflake_id.max_wait = 0").unwrap();
    keeper_pid(&mut client);
    poll("the horizon to lapse", || {
        single::<bool>(&mut client, "SELECT horizon < now() FROM snowflake_status LIMIT 1").then_some(())
    });
    assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55P03");
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    client.batch_execute("SELECT snowflake_advance(now()), snowflake_accept_clock()").unwrap();
}

/// The row with the worker ID is there at last: nobody has to ask for an ID first.
#[test]
fn the_row_of_the_worker_comes_later() {
    let cluster = Cluster::start(NO_WORKER);
    let mut client = cluster.connect();
    poll("the state", || (state(&mut client) == "no worker id").then_some(()));
    let node_name: String = single(&mut client, "SELECT node_name FROM snowflake_status LIMIT 1");
    client
        .execute("INSERT INTO snowflake_worker (node_name, worker_id) VALUES ($1, 7)", &[&node_name])
        .unwrap();
    poll("the state", || (state(&mut client) == "ready").then_some(()));
}

/// A worker ID for which the layout has no room is seen without a call.
#[test]
fn a_worker_id_that_does_not_fit() {
    let cluster = Cluster::start(&[WORKER_1[0], ("snowflake_id.worker_id", "5000")]);
    let mut client = cluster.connect();
    let error = "SELECT last_error FROM snowflake_status LIMIT 1";
    poll("the report", || {
        let error = single::<Option<String>>(&mut client, error)?;
        error.contains("worker ID 5000 does not fit snowflake_id.layout").then_some(())
    });
    // There may be other layouts.
    client
        .batch_execute("SET snowflake_id.layout = 'time:41 worker:15'; SELECT snowflake_nextval()")
        .unwrap();
}

/// A call that was cancelled while the keeper stood still orders nothing.
#[test]
fn a_reset_that_was_cancelled() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    {
        let _paused = Paused::new(vec![keeper_pid(&mut client)]);
        let call = "SET statement_timeout = '300ms'; SELECT snowflake_reset_horizon(77)";
        assert_eq!(failure(&mut client, call).0, "57014");
    }
    client.batch_execute("RESET statement_timeout; SELECT snowflake_advance('2024-01-01Z')").unwrap();
    assert!(!cluster.log().contains("was reset"), "{}", cluster.log());
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
}

/// The same of an accepted clock: it jumps while the keeper stands still, and is not followed afterwards.
#[test]
fn an_accepted_clock_that_was_cancelled() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let mut client = cluster.connect();
    {
        let _paused = Paused::new(vec![keeper_pid(&mut client)]);
        let call = "SET statement_timeout = '300ms'; SELECT snowflake_accept_clock()";
        assert_eq!(failure(&mut client, call).0, "57014");
        cluster.set_clock(TEN_YEARS);
    }
    client.batch_execute("RESET statement_timeout; SELECT snowflake_advance('2024-01-01Z')").unwrap();
    assert_eq!(state(&mut client), "clock jumped");
}
