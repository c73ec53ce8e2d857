//! Wrong clocks, floors that are moved by hand, and layouts with long ticks.

use harness::*;

const HOUR: f64 = 3_600.0;

#[test]
fn a_clock_set_back_by_an_hour() {
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut client = cluster.connect();
    let before: i64 = single(&mut client, "SELECT snowflake_nextval()");
    cluster.set_clock(-HOUR);
    let (state, message) =
        failure_at_once(&mut client, "SET snowflake_id.max_wait = '1min'; SELECT snowflake_nextval()");
    assert_eq!(state, "55P03", "{message}");
    assert_eq!(server_state(&mut client), "clock behind");
    // A wait within max_wait can be canceled.
    let waiting =
        "SET snowflake_id.max_wait = '2h'; SET statement_timeout = '200ms'; SELECT snowflake_nextval()";
    assert_eq!(failure(&mut client, waiting).0, "57014");
    client.run("SET snowflake_id.max_wait = '1min'; RESET statement_timeout");
    // When the clock has caught up, the server resumes by itself.
    cluster.set_clock(0.0);
    assert!(single::<i64>(&mut client, "SELECT snowflake_nextval()") > before);
}

#[test]
fn a_clock_that_jumps_ten_years_ahead() {
    const TEN_YEARS: f64 = 3_650.0 * 24.0 * HOUR;
    let cluster = Cluster::builder().worker(1).patient().clock().start();
    let mut client = cluster.connect();
    let before: i64 = single(&mut client, "SELECT snowflake_nextval()");
    cluster.set_clock(TEN_YEARS);
    let (state, message) = wait_for_refusal(&mut client);
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("jumped") && message.contains("snowflake_accept_clock"), "{message}");
    assert_eq!(server_state(&mut client), "clock jumped");
    // No time was lost: when the clock is right again, the server continues from where it was.
    cluster.set_clock(0.0);
    wait_for_first_id(&mut client);
    let after: i64 = single(&mut client, "SELECT snowflake_nextval()");
    let apart: f64 = single(
        &mut client,
        &format!(
            "SELECT extract(epoch FROM snowflake_timestamp({after}) - snowflake_timestamp({before}))::float8"
        ),
    );
    assert!((0.0..60.0).contains(&apart), "{apart}");
    // On request the jump is followed.
    cluster.set_clock(TEN_YEARS);
    wait_for_refusal(&mut client);
    client.run("SELECT snowflake_accept_clock()");
    let id: i64 = single(&mut client, "SELECT snowflake_nextval()");
    let year: f64 =
        single(&mut client, &format!("SELECT extract(epoch FROM snowflake_timestamp({id}) - now())::float8"));
    assert!(year.abs() < 60.0, "{year}");
}

#[test]
fn the_floor_is_moved_by_hand() {
    let cluster = Cluster::builder().worker(1).patient().start();
    let mut client = cluster.connect();
    client.run("SELECT snowflake_nextval(); SELECT snowflake_raise_floor(now() + '2 s')");
    let floor: f64 = status(&mut client, "extract(epoch FROM floor)::float8");
    let id: i64 = single(&mut client, "SELECT snowflake_nextval()");
    let time: f64 =
        single(&mut client, &format!("SELECT extract(epoch FROM snowflake_timestamp({id}))::float8"));
    assert!(time >= floor, "{time} {floor}");
    // A layout that is used later starts there too.
    client.run("SET snowflake_id.layout = 'wide'");
    let time: f64 =
        single(&mut client, "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()))::float8");
    assert!(time >= floor, "{time} {floor}");
    assert_eq!(failure(&mut client, "SELECT snowflake_raise_floor(now() + '2 days')").0, "22003");
}

/// A request that arrives before the keeper has read the stored horizon does not replace it.
#[test]
fn the_floor_is_moved_by_hand_too_early() {
    let cluster = Cluster::builder().worker(1).home().stopped();
    cluster.start_server();
    let mut client = cluster.connect();
    client.run("CREATE DATABASE home");
    client.run("CREATE EXTENSION snowflake_id");
    // The floor cannot be stored yet, so the call fails.
    client.run("SET snowflake_id.max_wait = '300ms'");
    assert_eq!(failure(&mut client, "SELECT snowflake_raise_floor('2024-06-01')").0, "55000");
    let mut home = cluster.connect_to("home");
    home.run("CREATE EXTENSION snowflake_id");
    wait_for_first_id(&mut home);
    let is_unknown: bool = single(&mut home, "SELECT floor > now() - interval '1 min' FROM snowflake_status");
    assert!(is_unknown, "{}", cluster.log());
}

/// Quick restarts with a failing call each, in a layout with long ticks: unused ticks are not lost, and no layout waits
/// for the ticks of another.
#[test]
fn long_ticks_that_are_not_used_move_no_floor() {
    let cluster = Cluster::builder().worker(1).patient().start();
    let mut all = ids(&mut cluster.connect(), "SELECT snowflake_batch(1000)");
    for _ in 0..5 {
        cluster.restart("fast");
        let mut client = cluster.connect();
        keeper_pid(&mut client);
        // This fails, unless the next tick is about to begin.
        let _ = client.batch_execute(
            "SET snowflake_id.layout = 'time:30 worker:10 unit=10s'; SET snowflake_id.max_wait = 0;
             SELECT snowflake_nextval()",
        );
        let ahead: f64 = status(&mut client, "extract(epoch FROM floor - clock_timestamp())::float8");
        assert!(ahead < 1.0, "{ahead}");
    }
    all.extend(ids(&mut cluster.connect(), "SELECT snowflake_nextval()"));
    assert_increasing(&all);
}

/// A used tick is never used again, even if the floor lies within it.
#[test]
fn long_ticks_that_are_used_do_not_repeat() {
    let cluster = Cluster::builder().worker(1).short_horizon().clock().start();
    let mut all = Vec::new();
    let take = "SELECT snowflake_nextval() FROM generate_series(1, 3)";
    wait_for_first_id(&mut cluster.connect());
    cluster.set_clock_to_next(10.0);
    for mode in ["fast", "fast", "immediate", "fast"] {
        let mut client = cluster.connect();
        client.run("SET snowflake_id.layout = 'time:30 worker:10 sequence:2 unit=10s'");
        // The tick that was used before the restart has no more IDs. It may be over by now.
        match client.query(take, &[]) {
            Ok(rows) => all.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
            Err(error) => assert_eq!(error.code().unwrap().code(), "55P03", "{}", text(&error)),
        }
        cluster.set_clock_to_next(10.0);
        client.run("SET snowflake_id.max_wait = '1min'");
        all.extend(ids(&mut client, take));
        client.run("RESET snowflake_id.layout; SELECT snowflake_nextval()");
        cluster.restart(mode);
        // The layout with short ticks must not wait for the long ones, which would take longer than max_wait.
        client = cluster.connect();
        keeper_pid(&mut client);
        client.run("SELECT snowflake_nextval()");
    }
    assert_increasing(&all);
}
