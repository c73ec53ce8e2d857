//! Promise 1 over promotion: the IDs that a standby issues are compared with the IDs that its primary issued, and with
//! its own rows. Also servers that publish to each other.

use std::thread;
use std::time::Duration;

use harness::*;

use super::stakes::{
    A_WHILE, at_stake, burst, repeats, set_clock_behind, take_a_while, wait_for_rows, with_worker,
};

/// Every commit, including the keeper's, has waited for the standby, so the standby knows about all issued IDs, whether
/// they are in rows or not.
#[test]
fn a_synchronous_standby_is_promoted_under_load() {
    let primary = Cluster::builder().worker(1).start();
    create_orders(&primary);
    let standby = primary.start_standby(&[]);
    standby.set_clock(-2.0);
    primary.replicate_synchronously();
    let (before, ()) = under_load(&primary, || {
        thread::sleep(3 * A_WHILE);
        primary.stop_server("immediate");
    });
    let all = before.all();
    set_clock_behind(&standby, &all);
    standby.promote();
    let at_stake = at_stake(&standby, &all);
    let after = take_a_while(&standby);
    println!("{} IDs handed out, {at_stake} of them at stake, {} after promotion", all.len(), after.len());
    assert_eq!(repeats(&after, &all), 0);
    assert_eq!(repeats(&before.rows, &orders(&standby)), before.rows.len(), "a committed row is missing");
}

/// The standby has not received the last half second. IDs of rows that had arrived are not repeated.
#[test]
fn an_asynchronous_standby_is_promoted_under_load() {
    let primary = Cluster::builder().worker(1).start();
    create_orders(&primary);
    let standby = primary.start_standby(&[]);
    standby.set_clock(-2.0);
    let (before, ()) = under_load(&primary, || {
        thread::sleep(3 * A_WHILE);
        standby.stop_receiving();
        wait_for_rows(&primary);
        thread::sleep(Duration::from_millis(500));
        primary.stop_server("immediate");
    });
    let arrived = orders(&standby);
    set_clock_behind(&standby, &arrived);
    standby.promote();
    let at_stake = at_stake(&standby, &arrived);
    let after = take_a_while(&standby);
    let lost = before.rows.len() - repeats(&before.rows, &arrived);
    println!(
        "{} rows committed, {lost} of them lost, {at_stake} that arrived at stake, {} IDs after promotion",
        before.rows.len(),
        after.len()
    );
    assert!(lost > 0);
    assert_eq!(repeats(&after, &arrived), 0);
}

/// With a worker ID of its own, the standby cannot repeat the lost IDs either. The horizon margin is so short that it
/// would repeat some with the same worker ID.
#[test]
fn a_standby_with_a_worker_id_of_its_own() {
    let primary = Cluster::builder()
        .preload()
        .set("snowflake_id.node_name", "alpha")
        .set("snowflake_id.horizon_margin", "200ms")
        .set("snowflake_id.max_ahead", "100ms")
        .start();
    create_orders(&primary);
    let workers = "INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('alpha', 1), ('beta', 2)";
    primary.connect().run(workers);
    let standby = primary.start_standby(&[("snowflake_id.node_name", "beta")]);
    let (before, ()) = under_load(&primary, || {
        thread::sleep(A_WHILE);
        standby.stop_receiving();
        thread::sleep(2 * A_WHILE);
        primary.stop_server("immediate");
    });
    let all = before.all();
    set_clock_behind(&standby, &all);
    standby.promote();
    at_stake(&standby, &all);
    let after = take_a_while(&standby);
    let as_alpha: Vec<i64> = after.iter().map(|id| with_worker(*id, 1)).collect();
    println!(
        "{} IDs as alpha, {} as beta, which would repeat {} as alpha",
        all.len(),
        after.len(),
        repeats(&as_alpha, &all)
    );
    assert!(all.iter().all(|id| *id == with_worker(*id, 1)));
    assert!(after.iter().all(|id| *id == with_worker(*id, 2)));
    assert!(repeats(&as_alpha, &all) > 0);
    assert_eq!(repeats(&after, &all), 0);
}

/// The floor cannot be moved during recovery. The attempt does not remove the stored floor.
#[test]
fn the_floor_is_moved_by_hand_during_recovery() {
    let primary = Cluster::builder().worker(1).start();
    create_orders(&primary);
    let standby = primary.start_standby(&[]);
    primary.replicate_synchronously();
    burst(&primary);
    primary.stop_server("immediate");
    let (state, message) = failure(&mut standby.connect(), "SELECT snowflake_raise_floor('2024-06-01')");
    assert_eq!(state, "55000", "{message}");
    let before = orders(&standby);
    set_clock_behind(&standby, &before);
    standby.promote();
    at_stake(&standby, &before);
    let after = take_a_while(&standby);
    println!("{} rows, {} IDs after promotion", before.len(), after.len());
    assert_eq!(repeats(&after, &before), 0);
    assert!(message.contains("recovery") && message.contains("pg_promote()"), "{message}");
}

/// Publications FOR ALL TABLES in both directions: data about one server is not replicated. A reset on one server does
/// not exclude a worker ID on the other.
#[test]
fn publications_for_all_tables_in_both_directions() {
    let start = |worker| Cluster::builder().worker(worker).set("wal_level", "logical").start();
    // Neither server has ever had the other's worker ID.
    let (one, two) = (start("1"), start("2"));
    let (mut first, mut second) = (one.connect(), two.connect());
    for client in [&mut first, &mut second] {
        wait_for_first_id(client);
    }
    for client in [&mut first, &mut second] {
        client.run(
            "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
             CREATE PUBLICATION everything FOR ALL TABLES;",
        );
    }
    for (client, source) in [(&mut first, &two), (&mut second, &one)] {
        let host = source.host().display();
        // Without an origin, version 16 would send rows back. The test has no rows that could come back.
        client.run(&format!(
            "CREATE SUBSCRIPTION from_other CONNECTION 'host={host} user=test dbname=postgres'
                 PUBLICATION everything WITH (copy_data = false)"
        ));
    }
    let published = "SELECT string_agg(tablename, ', ' ORDER BY tablename) FROM pg_publication_tables
                     WHERE schemaname IN ('public', 'snowflake_internal')";
    assert_eq!(
        single::<String>(&mut first, published),
        "orders, segment_grant, snowflake_mask_keys, snowflake_workers"
    );
    // What belongs to a server stays there.
    first.run(
        "CREATE ROLE shop; SELECT snowflake_segment_grant('orders', 'shop');
         INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('one', 9);
         INSERT INTO snowflake_mask_keys (name, key) VALUES ('orders', '\\x000102030405060708090a0b0c0d0e0f');
         INSERT INTO orders DEFAULT VALUES",
    );
    second.run("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('one', 4); CREATE ROLE shop");
    all_arrive("the row", || single::<i64>(&mut second, "SELECT count(*) FROM orders") > 0);
    let skipped = |server: &Cluster| server.log().matches("skipping row of another server").count();
    assert!(skipped(&two) >= 3, "{}", two.log());
    first.run("UPDATE snowflake_workers SET worker_id = 8; DELETE FROM snowflake_workers; INSERT INTO orders DEFAULT VALUES");
    all_arrive("the row", || single::<i64>(&mut second, "SELECT count(*) FROM orders") > 1);
    let stored =
        "SELECT (SELECT worker_id FROM snowflake_workers) || ' ' || (SELECT count(*) FROM snowflake_mask_keys)
                      || ' ' || (SELECT count(*) FROM snowflake_internal.segment_grant)";
    assert_eq!(single::<String>(&mut second, stored), "4 0 0");
    second.run("DELETE FROM snowflake_workers");
    // Neither do the rows that the first copy of a subscription contains, but a restore stores its rows.
    let three = start("3");
    let mut third = three.connect();
    first.run("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('one', 9)");
    third.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); CREATE ROLE shop;
         SET session_replication_role = replica;
         INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('one', 4);
         RESET session_replication_role",
    );
    third.run(&format!(
        "CREATE SUBSCRIPTION third CONNECTION 'host={} user=test dbname=postgres' PUBLICATION everything",
        one.host().display()
    ));
    let is_copied = "SELECT count(*) > 3 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel";
    eventually("the first copy", || single::<bool>(&mut third, is_copied));
    assert_eq!(single::<String>(&mut third, stored), "4 0 0");
    assert!(skipped(&three) >= 3, "{}", three.log());
    third.run("DROP SUBSCRIPTION third");
    first.run("DELETE FROM snowflake_workers");
    first.run("SELECT snowflake_reset_horizon(9)");
    one.change("snowflake_id.worker_id", "9");
    eventually("an ID", || first.batch_execute("INSERT INTO orders DEFAULT VALUES").ok());
    all_arrive("the row", || single::<i64>(&mut second, "SELECT count(*) FROM orders") > 0);
    // Actions of the other server prevent neither a restart nor a change of the worker ID.
    for worker in ["3", "2"] {
        two.configure(&[("snowflake_id.worker_id", worker)]);
        two.restart("fast");
        let mut second = two.connect();
        wait_for_first_id(&mut second);
        assert_eq!(
            single::<i32>(&mut second, "SELECT snowflake_worker(snowflake_nextval())").to_string(),
            worker
        );
    }
    let known = "SELECT count(*) FROM snowflake_internal.used_identity WHERE worker_id IN (1, 9)";
    assert_eq!(single::<i64>(&mut two.connect(), known), 0);
    // While the subscriptions exist, their slots would delay a fast shutdown.
    for cluster in [&one, &two] {
        cluster.stop_server("immediate");
    }
}
