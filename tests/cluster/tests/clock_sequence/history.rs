//! The record of which values of a clock sequence were used up to when: after crashes and promotion, after its loss,
//! and under a lease.

use harness::*;

use super::values::{BATCH, HOUR, expect_value, server, start_again, start_with_history, take};

/// Crashes and clean stops do not exhaust any value.
#[test]
fn four_crashes_in_a_row_use_up_no_value() {
    let cluster = start_with_history(server("rollback3").short_horizon());
    let mut client = cluster.connect();
    let mut all = Vec::new();
    let modes = ["power", "immediate", "power", "immediate", "fast"];
    for (value, modes) in [(0, &modes[3..]), (1, &modes)] {
        if value > 0 {
            cluster.set_clock(-HOUR * f64::from(value));
        }
        expect_value(&mut client, &mut all, value);
        for mode in modes {
            client = start_again(&cluster, mode);
            let (time, found) = take(&mut client, &mut all);
            assert_eq!(found, value, "{mode}");
            println!("{mode}: {time:?}");
        }
        cluster.crash_a_backend();
        client = cluster.connect();
        assert_eq!(take(&mut client, &mut all).1, value);
    }
    assert_distinct(&all);
}

/// DROP EXTENSION removes the stored records. Every value that was used before counts as used.
#[test]
fn dropped_and_created_again() {
    let cluster = start_with_history(server("rollback3"));
    let mut client = cluster.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    cluster.set_clock(-HOUR);
    expect_value(&mut client, &mut all, 1);
    cluster.set_clock(-2.0 * HOUR);
    expect_value(&mut client, &mut all, 2);
    client.run("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
    // The server continues with the value in use.
    wait_for_first_id(&mut client);
    assert_eq!(take(&mut client, &mut all).1, 2);
    // No other value is available before the latest time that was ever reached.
    cluster.set_clock(-3.0 * HOUR);
    eventually("the refusal", || client.batch_execute(BATCH).is_err());
    assert_eq!(failure(&mut client, BATCH).0, "55P03");
    cluster.set_clock(-2.0 * HOUR);
    client = start_again(&cluster, "immediate");
    assert_eq!(take(&mut client, &mut all).1, 2);
    client.run("REFRESH MATERIALIZED VIEW snowflake_internal.used_identity WITH NO DATA");
    eventually("the records", || {
        client.batch_execute("SELECT snowflake_nextval()").is_ok() && is_stored(&mut client, "used_identity")
    });
    assert_eq!(take(&mut client, &mut all).1, 2);
    cluster.set_clock(60.0);
    client.run("SELECT snowflake_accept_clock()");
    wait_for_first_id(&mut client);
    assert_eq!(take(&mut client, &mut all).1, 2);
    cluster.set_clock(30.0);
    eventually("another value", || take(&mut client, &mut all).1 == 1);
    assert_distinct(&all);
}

/// A promoted standby continues with the value of its primary.
#[test]
fn promotion_between_two_steps() {
    let primary = start_with_history(server("rollback3"));
    let mut client = primary.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    primary.set_clock(-HOUR);
    expect_value(&mut client, &mut all, 1);
    let standby = primary.start_standby(&[]);
    primary.set_clock(-2.0 * HOUR);
    expect_value(&mut client, &mut all, 2);
    let reached: String = single(&mut client, "SELECT pg_current_wal_flush_lsn()::text");
    let mut on_standby = standby.connect();
    eventually("the standby", || {
        let query = format!("SELECT pg_last_wal_replay_lsn() >= '{reached}'::pg_lsn");
        single::<bool>(&mut on_standby, &query)
    });
    kill_server(&primary);
    standby.set_clock(-2.0 * HOUR);
    standby.promote();
    wait_for_first_id(&mut on_standby);
    assert_eq!(take(&mut on_standby, &mut all).1, 2);
    standby.set_clock(-3.0 * HOUR);
    expect_value(&mut on_standby, &mut all, 3);
    assert_distinct(&all);
}

/// A new server under a worker ID that another server had, for example after restoring a dump. It has no record of the
/// values that the other server used.
#[test]
fn a_history_that_is_not_known() {
    let mut all = Vec::new();
    {
        let cluster = start_with_history(server("rollback3"));
        let mut client = cluster.connect();
        expect_value(&mut client, &mut all, 0);
        cluster.set_clock(-HOUR / 2.0);
        expect_value(&mut client, &mut all, 1);
    }
    let cluster = server("rollback3").start();
    let mut client = cluster.connect();
    expect_value(&mut client, &mut all, 0);
    for restart in [false, true] {
        cluster.set_clock(-HOUR / 2.0);
        if restart {
            client = start_again(&cluster, "immediate");
        }
        eventually("the gate", || failure(&mut client, BATCH).0 == "55P03");
    }
    cluster.set_clock(0.0);
    wait_for_first_id(&mut client);
    take(&mut client, &mut all);
    // The same for a worker ID that this server takes over once it has a history of its own.
    cluster.stop_server("fast");
    cluster.set_clock(24.0 * HOUR);
    cluster.configure(&[("snowflake_id.worker_id", "2")]);
    cluster.start_server();
    client = cluster.connect();
    wait_for_first_id(&mut client);
    cluster.set_clock(23.0 * HOUR);
    eventually("the gate", || failure(&mut client, BATCH).0 == "55P03");
    assert_distinct(&all);
}

/// The server resets for an identity that was never used, with value 0 and all other values free.
#[test]
fn everything_is_reset() {
    let cluster = start_with_history(server("rollback2"));
    let mut client = cluster.connect();
    let mut all = Vec::new();
    let worker = |cluster: &Cluster, client: &mut Client, worker: &str| {
        cluster.change("snowflake_id.worker_id", worker);
        eventually("the worker", || {
            let query = "SELECT snowflake_worker(snowflake_nextval())";
            client.query_one(query, &[]).is_ok_and(|row| row.get::<_, i32>(0).to_string() == worker)
        });
    };
    for value in 0..=3 {
        cluster.set_clock(-HOUR * f64::from(value));
        expect_value(&mut client, &mut all, value);
    }
    cluster.set_clock(-4.0 * HOUR);
    assert_eq!(failure(&mut client, BATCH).0, "55P03");
    client.run("SELECT snowflake_reset_horizon(9)");
    worker(&cluster, &mut client, "9");
    expect_value(&mut client, &mut all, 0);
    cluster.set_clock(-5.0 * HOUR);
    expect_value(&mut client, &mut all, 1);
    client = start_again(&cluster, "immediate");
    assert_eq!(take(&mut client, &mut all).1, 1);
    // The old identity, as soon as it may be used again: its values count as used up to that time.
    cluster.set_clock(10.0);
    client.run("SELECT snowflake_accept_clock()");
    worker(&cluster, &mut client, "1");
    take(&mut client, &mut all);
    cluster.set_clock(-2.0 * HOUR);
    assert_eq!(failure(&mut client, BATCH).0, "55P03");
    assert_distinct(&all);
}

/// A leased identity: another value is opened while the clock is within the range of the lease, but not before it.
#[test]
fn a_value_begins_in_the_range_of_the_lease() {
    let registry = Cluster::builder().clock().stopped();
    // Identities have been free since an hour ago.
    registry.set_clock(-HOUR);
    registry.start_server();
    let fleet = Fleet::on(registry, "lease => '2h', renew_every => '500ms'");
    fleet.registry.set_clock(0.0);
    let server = fleet.server().set("snowflake_id.layout", "rollback3").clock().start();
    let mut all = some_ids(&server);
    let worker = leased_worker(&server);
    let mut client = server.connect();
    server.set_clock(-HOUR / 2.0);
    expect_value(&mut client, &mut all, 1);
    assert_eq!(leased_worker(&server), worker);
    // Before the lease, IDs wait as they do without the field. No value is used.
    server.set_clock(-2.0 * HOUR);
    wait_for_registry_state(&server, "clock differs");
    let (state, message) = failure(&mut client, BATCH);
    assert_eq!(state, "55P03", "{message}");
    server.set_clock(-HOUR / 2.0 + 10.0);
    wait_for_first_id(&mut client);
    assert_eq!(take(&mut client, &mut all).1, 1);
    assert_eq!(leased_worker(&server), worker);
    assert_distinct(&all);
    // When the registry finds the clock right, the identity is exchanged for the sake of layouts without the field, and
    // the server resets.
    fleet.registry.set_clock(-HOUR / 2.0 + 10.0);
    eventually("another worker ID", || leased_worker(&server) != worker);
    eventually("value 0", || take(&mut client, &mut all).1 == 0);
    server.restart("immediate");
    all.extend(some_ids(&server));
    assert_distinct(&all);
}
