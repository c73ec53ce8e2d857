//! Requests of an administrator have been carried out when the call returns. Corrected problems are noticed without a
//! call.

use std::collections::BTreeSet;
use std::thread;

use harness::*;

const TEN_YEARS: f64 = 3_650.0 * 86_400.0;
/// The distance of the floor ahead of the clock, in seconds, once there is a floor.
fn floor_ahead(client: &mut Client) -> f64 {
    let query = "SELECT extract(epoch FROM floor - clock_timestamp())::float8 FROM snowflake_status";
    eventually("the floor", || single::<Option<f64>>(client, query))
}

/// As after a recovery: the floor is moved while the server has no worker ID, and the server is restarted after that.
#[test]
fn the_floor_is_moved_without_a_worker_id() {
    for mode in ["fast", "immediate"] {
        let cluster = Cluster::builder().preload().start();
        cluster.connect().run("SELECT snowflake_raise_floor(now() + '10 min')");
        cluster.stop_server(mode);
        cluster.configure(&[("snowflake_id.worker_id", "1")]);
        cluster.start_server();
        let mut client = cluster.connect();
        let ahead = floor_ahead(&mut client);
        assert!(ahead > 500.0, "{mode}: {ahead}");
        keeper_pid(&mut client);
        assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55P03", "{mode}");
    }
}

/// The keeper cannot store the floor: the call fails.
#[test]
fn the_floor_cannot_be_stored() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let (mut client, mut other) = (cluster.connect(), cluster.connect());
    keeper_pid(&mut client);
    other.run("BEGIN; ALTER MATERIALIZED VIEW snowflake_internal.horizon OWNER TO CURRENT_USER");
    let (code, message) = failure(&mut client, "SELECT snowflake_raise_floor(now() + '10 min')");
    assert_eq!(code, "55000", "{message}");
    assert!(message.contains("lock timeout"), "{message}");
    other.run("ROLLBACK");
    client.run("SELECT snowflake_raise_floor(now() + '10 min')");
    cluster.restart("immediate");
    let ahead = floor_ahead(&mut cluster.connect());
    assert!(ahead > 500.0, "{ahead}");
}

/// No IDs are taken while the clock is wrong, so the keeper has nothing to do.
#[test]
fn a_clock_that_jumped_is_set_right_while_nobody_asks() {
    let cluster = Cluster::builder().worker(1).set("snowflake_id.horizon_margin", "200ms").clock().start();
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    cluster.set_clock(TEN_YEARS);
    // This starts a cycle without an ID, which would cause more cycles.
    client.run("SELECT snowflake_raise_floor('2024-01-01Z')");
    eventually("the jump to be noticed", || server_state(&mut client) == "clock jumped");
    cluster.set_clock(0.0);
    eventually("the state", || server_state(&mut client) == "ready");
    client.run("SELECT snowflake_nextval()");
}

/// A call that does not wait for the keeper still wakes it, so that the next call succeeds.
#[test]
fn sessions_that_never_wait() {
    let server = Cluster::builder().worker(1).set("snowflake_id.horizon_margin", "100ms");
    let cluster = server.set("snowflake_id.max_ahead", "100ms").start();
    let mut client = cluster.connect();
    client.run("SET snowflake_id.max_wait = 0");
    keeper_pid(&mut client);
    // A successful call makes the keeper extend the horizon, which lapses again.
    let code = eventually("a call that fails", || {
        eventually("the horizon to lapse", || status::<bool>(&mut client, "horizon < now()"));
        let error = client.batch_execute("SELECT snowflake_nextval()").err()?;
        Some(error.code().unwrap().code().to_owned())
    });
    assert_eq!(code, "55P03");
    wait_for_first_id(&mut client);
    client.run("SELECT snowflake_raise_floor(now()), snowflake_accept_clock()");
}

/// The row with the worker ID is added later. The keeper notices it without a request for an ID.
#[test]
fn the_row_of_the_worker_comes_later() {
    let cluster = Cluster::builder().preload().start();
    let mut client = cluster.connect();
    eventually("the state", || server_state(&mut client) == "no worker id");
    let node_name: String = status(&mut client, "node_name");
    client
        .execute("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ($1, 7)", &[&node_name])
        .unwrap();
    eventually("the state", || server_state(&mut client) == "ready");
}

/// A worker ID that does not fit the layout is noticed without a call, and at once: no state is "ready" before.
#[test]
fn a_worker_id_that_does_not_fit() {
    let cluster = Cluster::builder().worker(5000).start();
    let mut client = cluster.connect();
    let too_large = |client: &mut Client, limit: &str| {
        let mut before = BTreeSet::new();
        eventually("the state", || {
            let state = server_state(client);
            let is_too_large = state.ends_with("too large");
            before.insert(state);
            is_too_large
        });
        assert!(!before.contains("ready") && !before.contains("horizon stalled"), "{before:?}");
        eventually("the report", || {
            single::<Option<String>>(client, "SELECT last_error FROM snowflake_status").as_deref()
                == Some(limit)
        });
        server_state(client)
    };
    let limit = "worker ID 5000 does not fit layout \"standard\", whose worker IDs end at 1023";
    assert_eq!(too_large(&mut client, limit), "worker id too large");
    // Other layouts may have room for it.
    client.run("SET snowflake_id.layout = 'time:41 worker:15'; SELECT snowflake_nextval()");
    assert_eq!(server_state(&mut client), "worker id too large");
    cluster.change("snowflake_id.worker_id", "1023");
    eventually("the state", || server_state(&mut client) == "ready");

    cluster.change("snowflake_id.datacenter_id", "2");
    let limit = "datacenter ID 2 does not fit layout \"standard\", which has no datacenter field";
    eventually("the state", || server_state(&mut client) == "datacenter id too large");
    assert_eq!(too_large(&mut client, limit), "datacenter id too large");
    // That of the table counts as well.
    cluster.configure(&[("snowflake_id.datacenter_id", "0"), ("snowflake_id.worker_id", "-1")]);
    cluster.reload();
    eventually("the state", || server_state(&mut client) == "no worker id");
    client.run(
        "INSERT INTO snowflake_workers (node_name, worker_id) SELECT node_name, 1024 FROM snowflake_status",
    );
    eventually("the state", || server_state(&mut client) == "worker id too large");
}

/// A layout whose time does not contain the clock is noticed without a call.
#[test]
fn a_layout_that_is_not_for_this_time() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    for (layout, state) in
        [("standard epoch=2100-01-01T00:00:00Z", "clock before epoch"), ("baidu", "layout exhausted")]
    {
        cluster.change("snowflake_id.layout", layout);
        eventually(state, || server_state(&mut cluster.connect()) == state);
        // Sessions with another layout get IDs, and the state stays.
        client.run("SET snowflake_id.layout = 'standard'; SELECT snowflake_nextval()");
        assert_eq!(server_state(&mut client), state);
    }
    cluster.change("snowflake_id.layout", "standard");
    eventually("the state", || server_state(&mut client) == "ready");
}

/// A call that was canceled while the keeper was stopped has no effect.
#[test]
fn a_reset_that_was_cancelled() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    {
        let _paused = Paused::new(vec![keeper_pid(&mut client)]);
        let call = "SET statement_timeout = '300ms'; SELECT snowflake_reset_horizon(77)";
        assert_eq!(failure(&mut client, call).0, "57014");
    }
    client.run("RESET statement_timeout; SELECT snowflake_raise_floor('2024-01-01Z')");
    assert!(!cluster.log().contains("was reset"), "{}", cluster.log());
    client.run("SELECT snowflake_nextval()");
}

/// The same for a floor, if the call was ended by a timeout of its own or with its backend.
#[test]
fn a_floor_that_was_cancelled() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run("SELECT snowflake_nextval()");
    let order = "SELECT snowflake_raise_floor(now() + '10 min')";
    {
        let _paused = Paused::new(vec![keeper_pid(&mut client)]);
        let cancelled = format!("SET statement_timeout = '300ms'; {order}");
        assert_eq!(failure(&mut client, &cancelled).0, "57014");
        client.run("RESET statement_timeout; SET snowflake_id.max_wait = '100ms'");
        assert_eq!(failure(&mut client, order).0, "55000");
        let mut victim = cluster.connect();
        let pid: i32 = single(&mut victim, "SELECT pg_backend_pid()");
        let ended = thread::spawn(move || victim.batch_execute(order).unwrap_err());
        let active = format!("SELECT state = 'active' FROM pg_stat_activity WHERE pid = {pid}");
        eventually("the order", || single::<bool>(&mut client, &active));
        client.execute("SELECT pg_terminate_backend($1)", &[&pid]).unwrap();
        ended.join().unwrap();
    }
    // These calls start two cycles, in which the keeper would have followed the clock.
    client.run("SELECT snowflake_accept_clock(); SELECT snowflake_accept_clock()");
    let ahead = floor_ahead(&mut client);
    assert!(ahead < 10.0, "{ahead}");
    client.run("RESET snowflake_id.max_wait; SELECT snowflake_nextval()");
}

/// The keeper waits for a lock in order to carry out a request. Meanwhile the call is canceled.
#[test]
fn a_reset_that_was_cancelled_while_the_keeper_waited() {
    let cluster = Cluster::builder().worker(1).start();
    let (mut client, mut other) = (cluster.connect(), cluster.connect());
    client.run("SELECT snowflake_nextval()");
    other.run("BEGIN; ALTER MATERIALIZED VIEW snowflake_internal.horizon OWNER TO CURRENT_USER");
    let call = "SET statement_timeout = '500ms'; SELECT snowflake_reset_horizon(77)";
    assert_eq!(failure(&mut client, call).0, "57014");
    other.run("ROLLBACK");
    client.run("RESET statement_timeout; SELECT snowflake_raise_floor('2024-01-01Z')");
    client.run("SELECT snowflake_raise_floor('2024-01-01Z')");
    assert!(!cluster.log().contains("was reset"), "{}", cluster.log());
    client.run("SELECT snowflake_nextval()");
}

/// Concurrent requests are canceled at any moment. The result of each call is what really happened.
#[test]
fn requests_that_are_cancelled_at_any_moment() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run("SELECT snowflake_nextval()");
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = cluster.connect();
            for _ in 0..100 {
                other.run("SELECT snowflake_accept_clock()");
            }
        });
        for round in 0..100 {
            let floor: f64 = floor_ahead(&mut client);
            let timeout = round % 20 + 1;
            let wanted = format!("SELECT now() + '{round} ms'");
            let wanted: std::time::SystemTime = single(&mut client, &wanted);
            client.run(&format!("SET statement_timeout = '{timeout}ms'"));
            let done = client.execute("SELECT snowflake_raise_floor($1)", &[&wanted]).is_ok();
            client.run("RESET statement_timeout");
            if done {
                let is_there =
                    client.query_one("SELECT floor >= $1 FROM snowflake_status", &[&wanted]).unwrap();
                assert!(is_there.get::<_, bool>(0), "round {round}");
            }
            assert!(floor_ahead(&mut client) < floor.max(0.0) + 1.0);
        }
    });
    client.run("SELECT snowflake_nextval()");
}

/// A clock that the keeper does not follow is still not followed after a backend crash, in which shared memory is
/// reinitialized. When the clock is right again, no call is needed.
#[test]
fn a_clock_that_jumped_before_a_crash() {
    let cluster = Cluster::builder().worker(1).short_horizon().clock().start();
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(1000)");
    cluster.set_clock(TEN_YEARS);
    eventually("the jump to be noticed", || {
        let failed = client.batch_execute("SELECT snowflake_nextval()").is_err();
        failed && server_state(&mut client) == "clock jumped"
    });
    for _ in 0..2 {
        cluster.crash_a_backend();
        client = cluster.connect();
        eventually("the state", || server_state(&mut client) == "clock jumped");
        assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000");
    }
    cluster.set_clock(0.0);
    eventually("the state", || server_state(&mut client) == "ready");
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    let ahead: f64 = status(&mut client, "extract(epoch FROM horizon - clock_timestamp())::float8");
    assert!(ahead < 10.0, "{ahead}");
    assert_distinct(&all);
    // A clock that was accepted stays accepted.
    cluster.set_clock(TEN_YEARS);
    eventually("the order", || client.batch_execute("SELECT snowflake_accept_clock()").ok());
    wait_for_first_id(&mut client);
    cluster.crash_a_backend();
    client = cluster.connect();
    wait_for_first_id(&mut client);
}

/// The clock is right again before the crash.
#[test]
fn a_clock_that_is_right_again_at_a_crash() {
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut client = cluster.connect();
    client.run("SELECT snowflake_nextval()");
    cluster.set_clock(TEN_YEARS);
    client.run("SELECT snowflake_raise_floor('2024-01-01Z')");
    assert_eq!(server_state(&mut client), "clock jumped");
    cluster.set_clock(0.0);
    let keeper = keeper_pid(&mut client);
    kill("KILL", keeper);
    cluster.wait_until_up();
    client = eventually("a connection", || cluster.try_connect("postgres"));
    wait_for_first_id(&mut client);
}

/// The same for an accepted clock: it jumps while the keeper is stopped, and is not followed afterwards.
#[test]
fn an_accepted_clock_that_was_cancelled() {
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut client = cluster.connect();
    {
        let _paused = Paused::new(vec![keeper_pid(&mut client)]);
        let call = "SET statement_timeout = '300ms'; SELECT snowflake_accept_clock()";
        assert_eq!(failure(&mut client, call).0, "57014");
        cluster.set_clock(TEN_YEARS);
    }
    client.run("RESET statement_timeout; SELECT snowflake_raise_floor('2024-01-01Z')");
    assert_eq!(server_state(&mut client), "clock jumped");
}
