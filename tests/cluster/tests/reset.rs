//! A server whose clock was far ahead when it was started, so that its horizon is burnt, and how it is put
//! back to work.

use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::{
    Cluster, WORKER_1, assert_distinct, assert_increasing, failure, ids, poll, single, text,
};

const HOUR: f64 = 3_600.0;
const TEN_YEARS: f64 = 3_650.0 * 24.0 * HOUR;

const TAKE: &str = "SELECT snowflake_nextval() FROM generate_series(1, 1000)";

#[test]
fn a_horizon_burnt_into_the_far_future() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let mut client = cluster.connect();
    let mut all = ids(&mut client, TAKE);
    cluster.stop_server("fast");
    // At a start the clock is taken as it is.
    cluster.set_clock(TEN_YEARS);
    cluster.start_server().unwrap();
    let mut client = cluster.connect();
    client.batch_execute("SELECT snowflake_advance(now() + '1 s')").unwrap();
    all.extend(ids(&mut client, TAKE));
    cluster.set_clock(0.0);
    assert_eq!(failure(&mut client, TAKE).0, "55P03");

    // Not under an identity that was used, not from elsewhere, not under what is none.
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon(1)");
    assert_eq!(state, "22023", "{message}");
    assert!(message.contains("worker ID 1 has been used by this server"), "{message}");
    assert_eq!(failure(&mut client, "SELECT snowflake_reset_horizon(-1)").0, "22023");
    client.batch_execute("CREATE DATABASE elsewhere").unwrap();
    let mut elsewhere = cluster.connect_to("elsewhere");
    elsewhere.batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    let (state, message) = failure(&mut elsewhere, "SELECT snowflake_reset_horizon(9)");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("Connect to database \"postgres\"."), "{message}");

    // The worker ID that was used is shut out, in sessions that were there before as well.
    client.batch_execute("SELECT snowflake_reset_horizon(9)").unwrap();
    let (state, message) = failure(&mut client, &format!("SET snowflake_id.max_wait = '2s'; {TAKE}"));
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("set snowflake_id.worker_id"), "{message}");

    // The new one goes on in the present, whatever a wrong clock had ordered.
    let set_worker = |client: &mut Client, worker: &str| {
        cluster.configure(&[("snowflake_id.worker_id", worker)]);
        cluster.reload();
        poll("the reload", || {
            (single::<String>(client, "SHOW snowflake_id.worker_id") == worker).then_some(())
        });
    };
    set_worker(&mut client, "9");
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    all.extend(ids(&mut client, TAKE));
    let ahead: f64 = single(
        &mut client,
        "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()) - clock_timestamp())::float8",
    );
    assert!(ahead.abs() < 10.0, "{ahead}");

    // All that is durable.
    for mode in ["immediate", "fast"] {
        cluster.stop_server(mode);
        cluster.start_server().unwrap();
        client = cluster.connect();
        client.batch_execute("SET snowflake_id.max_wait = '20s'").unwrap();
        all.extend(ids(&mut client, TAKE));
        set_worker(&mut client, "1");
        let start = Instant::now();
        let message =
            poll("the refusal", || Some(text(&client.batch_execute("SELECT snowflake_nextval()").err()?)));
        assert!(message.contains("worker ID 1 may have been used by this server"), "{message}");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        set_worker(&mut client, "9");
    }

    // When the horizon has come back to where it was, the old one can be used again, above all that it has
    // made.
    cluster.set_clock(TEN_YEARS);
    poll("the clock to be accepted", || client.batch_execute("SELECT snowflake_accept_clock()").ok());
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    set_worker(&mut client, "1");
    poll("an ID of the old worker", || {
        let row =
            client.query_one("SELECT snowflake_nextval() AS id, snowflake_worker(snowflake_currval())", &[]);
        (row.ok()?.get::<_, i32>(1) == 1).then_some(())
    });
    all.extend(ids(&mut client, TAKE));
    assert_distinct(&all);
}

/// More values per second than this layout has are ahead of the clock; a second's worth may be.
const SMALL: &str =
    "SET snowflake_id.layout = 'time:41 worker:18 sequence:4'; SET snowflake_id.max_wait = '10s'";

/// A reset where there was no need for one, and the server keeps its worker ID: that one begins again where
/// its IDs ended, in sessions that were there before as well.
#[test]
fn a_reset_on_a_healthy_server() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "500ms")]);
    let (mut client, mut session) = (cluster.connect(), cluster.connect());
    client.batch_execute(SMALL).unwrap();
    session.batch_execute(SMALL).unwrap();
    let mut all = ids(&mut client, "SELECT snowflake_batch(100)");
    all.extend(ids(&mut session, "SELECT snowflake_batch(15000)"));
    client.batch_execute("SELECT snowflake_reset_horizon(13)").unwrap();
    let start = Instant::now();
    all.extend(ids(&mut session, "SELECT snowflake_batch(15000)"));
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    all.extend(ids(&mut client, "SELECT snowflake_batch(15000)"));
    assert_distinct(&all);
    assert_increasing(&all);
}

/// The extension, created anew, knows under which worker ID the server makes IDs.
#[test]
fn a_reset_after_the_extension_was_created_again() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
    client.batch_execute("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id").unwrap();
    let known = "SELECT count(*) > 0 FROM snowflake_internal.used_identity WHERE worker_id = 1";
    assert!(single::<bool>(&mut client, known));
    assert_eq!(failure(&mut client, "SELECT snowflake_reset_horizon(1)").0, "22023");
    // Nobody can change the records by hand; emptied, they are written again.
    assert_eq!(failure(&mut client, "DELETE FROM snowflake_internal.used_identity").0, "42809");
    assert_eq!(failure(&mut client, "TRUNCATE snowflake_internal.used_identity").0, "42809");
    client.batch_execute("REFRESH MATERIALIZED VIEW snowflake_internal.used_identity").unwrap();
    assert_eq!(failure(&mut client, "SELECT snowflake_reset_horizon(1)").0, "22023");
    poll("the keeper to note it", || {
        client.batch_execute("SELECT snowflake_nextval()").unwrap();
        single::<bool>(&mut client, known).then_some(())
    });
}
