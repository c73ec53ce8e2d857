//! A server was started with a clock that was far ahead, so its horizon is too high. How to restore it to service.

use std::time::Instant;

use harness::*;

use super::max_wait::cancelled_during_commit;

const HOUR: f64 = 3_600.0;
const TEN_YEARS: f64 = 3_650.0 * 24.0 * HOUR;

const TAKE: &str = "SELECT snowflake_nextval() FROM generate_series(1, 1000)";

#[test]
fn a_horizon_burnt_into_the_far_future() {
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut client = cluster.connect();
    let mut all = ids(&mut client, TAKE);
    cluster.stop_server("fast");
    // At a start the clock is accepted as it is.
    cluster.set_clock(TEN_YEARS);
    cluster.start_server();
    let mut client = cluster.connect();
    client.run("SELECT snowflake_raise_floor(now() + '1 s')");
    all.extend(ids(&mut client, TAKE));
    cluster.set_clock(0.0);
    assert_eq!(failure(&mut client, TAKE).0, "55P03");

    // A reset is refused for a worker ID that was used or is invalid, and from another database.
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon(1)");
    assert_eq!(state, "22023", "{message}");
    assert!(message.contains("this server has already used worker ID 1"), "{message}");
    assert_eq!(failure(&mut client, "SELECT snowflake_reset_horizon(-1)").0, "22023");
    client.run("CREATE DATABASE elsewhere");
    let mut elsewhere = cluster.connect_to("elsewhere");
    elsewhere.run("CREATE EXTENSION snowflake_id");
    let (state, message) = failure(&mut elsewhere, "SELECT snowflake_reset_horizon(9)");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("Connect to database \"postgres\" and call the function there."), "{message}");

    // The used worker ID is excluded, even in sessions that were connected before.
    client.run("SELECT snowflake_reset_horizon(9)");
    let (state, message) = failure(&mut client, &format!("SET snowflake_id.max_wait = '2s'; {TAKE}"));
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("set snowflake_id.worker_id"), "{message}");

    // The new worker ID continues at the present time, whatever the wrong clock had caused.
    let set_worker = |client: &mut Client, worker: &str| {
        cluster.change_for(client, "snowflake_id.worker_id", worker);
    };
    set_worker(&mut client, "9");
    wait_for_first_id(&mut client);
    all.extend(ids(&mut client, TAKE));
    let ahead: f64 = single(
        &mut client,
        "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - clock_timestamp())::float8",
    );
    assert!(ahead.abs() < 10.0, "{ahead}");

    // All of that is durable.
    for mode in ["immediate", "fast"] {
        cluster.restart(mode);
        client = cluster.connect();
        client.run("SET snowflake_id.max_wait = '1min'");
        all.extend(ids(&mut client, TAKE));
        set_worker(&mut client, "1");
        let message = wait_for_refusal(&mut client).1;
        assert!(message.contains("this server may have used worker ID 1"), "{message}");
        set_worker(&mut client, "9");
    }

    // When the clock has reached the old horizon, the old worker ID can be used again, above all its IDs.
    cluster.set_clock(TEN_YEARS);
    eventually("the clock to be accepted", || client.batch_execute("SELECT snowflake_accept_clock()").ok());
    wait_for_first_id(&mut client);
    set_worker(&mut client, "1");
    eventually("an ID of the old worker", || {
        let row =
            client.query_one("SELECT snowflake_nextval() AS id, snowflake_worker(snowflake_currval())", &[]);
        row.is_ok_and(|row| row.get::<_, i32>(1) == 1)
    });
    all.extend(ids(&mut client, TAKE));
    assert_distinct(&all);
}

/// A layout with so few values per second that IDs run ahead of the clock. They may be up to a second ahead.
const SMALL: &str =
    "SET snowflake_id.layout = 'time:41 worker:18 sequence:4'; SET snowflake_id.max_wait = '1min'";

/// An unnecessary reset after which the server keeps its worker ID: it continues where its IDs ended, even in sessions
/// that were connected before.
#[test]
fn a_reset_on_a_healthy_server() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let (mut client, mut session) = (cluster.connect(), cluster.connect());
    client.run(SMALL);
    session.run(SMALL);
    let mut all = ids(&mut client, "SELECT snowflake_batch(100)");
    all.extend(ids(&mut session, "SELECT snowflake_batch(15000)"));
    client.run("SELECT snowflake_reset_horizon(13)");
    let start = Instant::now();
    all.extend(ids(&mut session, "SELECT snowflake_batch(15000)"));
    assert_within(SLACK, start.elapsed(), "the first IDs");
    all.extend(ids(&mut client, "SELECT snowflake_batch(15000)"));
    assert_distinct(&all);
    assert_increasing(&all);
}

/// The records are emptied right after a reset, and the server is stopped before the next cycle of the keeper. The worker
/// ID that was used in the future is still excluded.
#[test]
fn the_records_are_emptied_after_a_reset() {
    emptied_after_a_reset(&["used_identity"]);
}

/// The same for the records and the horizon.
#[test]
fn all_views_are_emptied_after_a_reset() {
    emptied_after_a_reset(&["used_identity", "horizon"]);
}

fn emptied_after_a_reset(views: &[&str]) {
    let cluster = Cluster::builder().worker(1).clock().start();
    cluster.stop_server("fast");
    cluster.set_clock(TEN_YEARS);
    cluster.start_server();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    cluster.stop_server("fast");
    cluster.set_clock(0.0);
    cluster.start_server();
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    client.run("SELECT snowflake_reset_horizon(9)");
    for view in views {
        client.run(&format!("REFRESH MATERIALIZED VIEW snowflake_internal.{view} WITH NO DATA"));
    }
    cluster.restart("fast");
    let message = wait_for_refusal(&mut cluster.connect()).1;
    assert!(message.contains("this server may have used worker ID 1"), "{message}");
}

/// The view shows where IDs began again, even after a crash of a backend. After a restart it does not know.
#[test]
fn the_time_of_a_reset_is_shown() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    let shown = "SELECT lowered_at IS NOT NULL FROM snowflake_watermark_status";
    client.run("SELECT snowflake_nextval()");
    assert!(!single::<bool>(&mut client, shown));
    let clock = "SELECT extract(epoch FROM clock_timestamp())::float8";
    let before: f64 = single(&mut client, clock);
    client.run("SELECT snowflake_reset_horizon(13)");
    wait_for_first_id(&mut client);
    let lowered_at: f64 =
        single(&mut client, "SELECT extract(epoch FROM lowered_at)::float8 FROM snowflake_watermark_status");
    assert!((before - 0.001..=single(&mut client, clock)).contains(&lowered_at));

    cluster.crash_a_backend();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    let same = format!(
        "SELECT extract(epoch FROM lowered_at)::float8 = {lowered_at} FROM snowflake_watermark_status"
    );
    assert!(single::<bool>(&mut client, &same));

    cluster.restart("fast");
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    assert!(!single::<bool>(&mut client, shown));
}

/// When the extension is created again, it knows under which worker ID the server issues IDs.
#[test]
fn a_reset_after_the_extension_was_created_again() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run("SELECT snowflake_nextval()");
    client.run("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
    let known = "SELECT count(*) > 0 FROM snowflake_internal.used_identity WHERE worker_id = 1";
    assert!(single::<bool>(&mut client, known));
    assert_eq!(failure(&mut client, "SELECT snowflake_reset_horizon(1)").0, "22023");
    // The records cannot be changed by hand. If they are emptied, they are written again.
    assert_eq!(failure(&mut client, "DELETE FROM snowflake_internal.used_identity").0, "42809");
    assert_eq!(failure(&mut client, "TRUNCATE snowflake_internal.used_identity").0, "42809");
    client.run("REFRESH MATERIALIZED VIEW snowflake_internal.used_identity WITH NO DATA");
    assert_eq!(failure(&mut client, "SELECT snowflake_reset_horizon(1)").0, "22023");
    eventually("the keeper to note it", || {
        client.run("SELECT snowflake_nextval()");
        is_stored(&mut client, "used_identity")
    });
}

/// The commit of a reset waits for a standby that is gone. Meanwhile the keeper exits, or shared memory is
/// reinitialized. The reset can then be requested again.
#[test]
fn a_reset_that_was_cut_short() {
    for end in ["the keeper", "a backend", "the server"] {
        let cluster = Cluster::builder().worker(1).short_horizon().patient().clock().start();
        let mut all = ids(&mut cluster.connect(), TAKE);
        cluster.stop_server("fast");
        cluster.set_clock(TEN_YEARS);
        cluster.start_server();
        let mut client = cluster.connect();
        all.extend(ids(&mut client, TAKE));
        cluster.set_clock(0.0);
        cluster.change_for(&mut client, "snowflake_id.worker_id", "-1");
        eventually("the gate to be closed", || server_state(&mut client) == "no worker id");

        cluster.lose_the_standby();
        let call = "SELECT snowflake_reset_horizon(9)";
        assert_eq!(cancelled_during_commit(&cluster, &mut client, call).0, "57014");
        let pid = background_pid(&cluster, "snowflake_id keeper").unwrap();
        match end {
            "the keeper" => drop(client.execute("SELECT pg_terminate_backend($1)", &[&pid]).unwrap()),
            "a backend" => {
                cluster.crash_a_backend();
                client = cluster.connect();
            }
            _ => {
                cluster.restart("fast");
                client = cluster.connect();
            }
        }
        assert!(cluster.log().contains("resetting the horizon to the current time for worker ID 9"));
        assert!(!cluster.log().contains("the horizon was reset"));
        cluster.change_for(&mut client, "synchronous_standby_names", "");
        eventually("the next keeper", || {
            let next = background_pid(&cluster, "snowflake_id keeper");
            next.is_some_and(|next| next != pid) && server_state(&mut client) == "no worker id"
        });
        client.run("SELECT snowflake_reset_horizon(9)");
        cluster.change_for(&mut client, "snowflake_id.worker_id", "9");
        wait_for_first_id(&mut client);
        all.extend(ids(&mut client, TAKE));
        assert_distinct(&all);
    }
}
