//! What an administrator orders, sets right or forgets: it is done when the call says so, and what is set
//! right is noticed without a call.

use std::thread;
use std::time::Duration;

use postgres::Client;
use snowflake_id_cluster_tests::faults::{Paused, keeper_pid};
use snowflake_id_cluster_tests::{
    Cluster, Settings, WORKER_1, crash_a_backend, failure, ids, kill, poll, single,
};

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

/// As after a recovery: the floor is moved while the server has no worker ID, and it is started again in
/// between.
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

/// The same of a floor: also if the call was ended by a timeout of its own, or with its backend.
#[test]
fn a_floor_that_was_cancelled() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
    let order = "SELECT snowflake_advance(now() + '10 min')";
    {
        let _paused = Paused::new(vec![keeper_pid(&mut client)]);
        let cancelled = format!("SET statement_timeout = '300ms'; {order}");
        assert_eq!(failure(&mut client, &cancelled).0, "57014");
        client.batch_execute("RESET statement_timeout; SET snowflake_id.max_wait = '100ms'").unwrap();
        assert_eq!(failure(&mut client, order).0, "55000");
        let mut victim = cluster.connect();
        let pid: i32 = single(&mut victim, "SELECT pg_backend_pid()");
        let ended = thread::spawn(move || victim.batch_execute(order).unwrap_err());
        let active = format!("SELECT state = 'active' FROM pg_stat_activity WHERE pid = {pid}");
        poll("the order", || single::<bool>(&mut client, &active).then_some(()));
        client.execute("SELECT pg_terminate_backend($1)", &[&pid]).unwrap();
        ended.join().unwrap();
    }
    // Has the keeper look twice, after which it would have followed.
    client.batch_execute("SELECT snowflake_accept_clock(); SELECT snowflake_accept_clock()").unwrap();
    let ahead = floor_ahead(&mut client);
    assert!(ahead < 10.0, "{ahead}");
    client.batch_execute("RESET snowflake_id.max_wait; SELECT snowflake_nextval()").unwrap();
}

/// The keeper waits for a lock, for the sake of the order: the call that ordered it is cancelled meanwhile.
#[test]
fn a_reset_that_was_cancelled_while_the_keeper_waited() {
    let cluster = Cluster::start(WORKER_1);
    let (mut client, mut other) = (cluster.connect(), cluster.connect());
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
    other.batch_execute("BEGIN; ALTER SEQUENCE snowflake_internal.horizon MINVALUE 0").unwrap();
    let call = "SET statement_timeout = '500ms'; SELECT snowflake_reset_horizon(77)";
    assert_eq!(failure(&mut client, call).0, "57014");
    other.batch_execute("ROLLBACK").unwrap();
    client.batch_execute("RESET statement_timeout; SELECT snowflake_advance('2024-01-01Z')").unwrap();
    client.batch_execute("SELECT snowflake_advance('2024-01-01Z')").unwrap();
    assert!(!cluster.log().contains("was reset"), "{}", cluster.log());
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
}

/// Orders come at the same time, and are cancelled at any moment: what a call says is what happened.
#[test]
fn orders_that_are_cancelled_at_any_moment() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = cluster.connect();
            for _ in 0..100 {
                other.batch_execute("SELECT snowflake_accept_clock()").unwrap();
            }
        });
        for round in 0..100 {
            let floor: f64 = floor_ahead(&mut client);
            let timeout = round % 20 + 1;
            let wanted = format!("SELECT now() + '{round} ms'");
            let wanted: std::time::SystemTime = single(&mut client, &wanted);
            client.batch_execute(&format!("SET statement_timeout = '{timeout}ms'")).unwrap();
            let done = client.execute("SELECT snowflake_advance($1)", &[&wanted]).is_ok();
            client.batch_execute("RESET statement_timeout").unwrap();
            if done {
                let is_there = client
                    .query_one("SELECT bool_and(floor >= $1) FROM snowflake_status", &[&wanted])
                    .unwrap();
                assert!(is_there.get::<_, bool>(0), "round {round}");
            }
            assert!(floor_ahead(&mut client) < floor.max(0.0) + 1.0);
        }
    });
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
}

/// A clock that is not followed is not followed either after a crash of a backend, for which the server makes
/// its shared memory anew. When it is right again, nobody has to say so.
#[test]
fn a_clock_that_jumped_before_a_crash() {
    let cluster = Cluster::start_with_clock(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "500ms")]);
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(1000)");
    cluster.set_clock(TEN_YEARS);
    poll("the jump to be noticed", || {
        let failed = client.batch_execute("SELECT snowflake_nextval()").is_err();
        (failed && state(&mut client) == "clock jumped").then_some(())
    });
    for _ in 0..2 {
        crash_a_backend(&cluster);
        client = cluster.connect();
        poll("the state", || (state(&mut client) == "clock jumped").then_some(()));
        assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000");
    }
    cluster.set_clock(0.0);
    poll("the state", || (state(&mut client) == "ready").then_some(()));
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    let ahead: f64 = single(
        &mut client,
        "SELECT extract(epoch FROM horizon - clock_timestamp())::float8 FROM snowflake_status LIMIT 1",
    );
    assert!(ahead < 10.0, "{ahead}");
    snowflake_id_cluster_tests::assert_distinct(&all);
    // One that was accepted stays accepted.
    cluster.set_clock(TEN_YEARS);
    poll("the order", || client.batch_execute("SELECT snowflake_accept_clock()").ok());
    poll("an ID", || client.batch_execute("SELECT snowflake_nextval()").ok());
    crash_a_backend(&cluster);
    client = cluster.connect();
    poll("an ID", || client.batch_execute("SELECT snowflake_nextval()").ok());
}

/// The clock is right again by the time of the crash.
#[test]
fn a_clock_that_is_right_again_at_a_crash() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
    cluster.set_clock(TEN_YEARS);
    client.batch_execute("SELECT snowflake_advance('2024-01-01Z')").unwrap();
    assert_eq!(state(&mut client), "clock jumped");
    cluster.set_clock(0.0);
    let keeper = keeper_pid(&mut client);
    kill("KILL", keeper);
    poll("the server", || cluster.try_connect("postgres").ok()?.batch_execute("SELECT 1").ok());
    client = poll("a connection", || cluster.try_connect("postgres").ok());
    poll("an ID", || client.batch_execute("SELECT snowflake_nextval()").ok());
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
