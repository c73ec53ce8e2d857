//! The procedures of docs/apps/public-ids.md and of docs/examples/public-ids, run as they are, and the reasons for their steps:
//! other sessions, standbys and databases read each link that is made meanwhile.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::SystemTime;

use harness::book::of_test;
use harness::examples::{block_at, blocks, run_block};
use harness::*;

static PAGE: LazyLock<String> = LazyLock::new(|| of_test("changing_keys"));
const DROP: &str = "when old links are no longer in use";
const HAS_SWITCHED: &str = "until the switch has taken effect";
const OLDER: &str = "until no older transaction is running";
/// Blocks that replace others.
const INSTEAD: [&str; 3] =
    ["instead of the switch", "instead of the steps for masked numbers", "if the key is known"];
const LINK_OF_BOB: &str = "SELECT snowflake_to_public_named(1541815603606036481, 'cus', 'customers')";
const READ: &str = "SELECT snowflake_from_public_named($1, 'cus', 'customers')";

fn read(client: &mut Client, link: &str) -> Result<i64, postgres::Error> {
    client.query_one(READ, &[&link]).map(|row| row.get(0))
}

fn is_refused(client: &mut Client, link: &str) -> bool {
    read(client, link).is_err_and(|error| error.code().unwrap().code() == "22P02")
}

fn create_customers(client: &mut Client) {
    client.run(
        "INSERT INTO snowflake_mask_keys (name, key) VALUES ('customers', uuid_send(gen_random_uuid()))",
    );
}

/// Waits until one session waits for a lock.
fn wait_until_one_waits(client: &mut Client) {
    let waits = "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    eventually("a session to wait for a lock", || single::<bool>(client, waits));
}

fn step(name: &str) -> String {
    format!("SELECT snowflake_{name}_mask_key('customers')")
}

/// From top to bottom, but old links are read until the end, as the page says.
#[test]
fn the_page() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    let is_at = |block: &str, place: &str| block.starts_with(&format!("-- {place}\n"));
    let mut checked = 0;
    let mut old_link = String::new();
    for block in blocks(&PAGE).filter(|block| {
        !is_at(block, DROP) && !INSTEAD.iter().any(|at| is_at(block, at)) && !block.contains("$1")
    }) {
        if block.contains("snowflake_switch_mask_key") {
            old_link = single(&mut client, LINK_OF_BOB);
        }
        checked += run_block(&mut client, block);
    }
    // More rows than the command of a file changes in a transaction.
    client.run(
        "INSERT INTO customers (id, public_id)
         SELECT id, snowflake_to_public(id, 'cus', '\\x0123456712345678234567893456789a') FROM generate_series(1, 2500) AS id",
    );
    for file in ["old_links", "reissue", "masked_numbers", "both_keys"] {
        checked +=
            run_block(&mut client, &harness::book::read(&format!("docs/examples/public-ids/{file}.sql")));
    }
    assert_eq!(checked, 15);
    assert_eq!(single::<i64>(&mut client, "SELECT count(DISTINCT public_id) FROM customers"), 2502);

    let new_link: String = single(&mut client, LINK_OF_BOB);
    assert_eq!(read(&mut client, &old_link).unwrap(), read(&mut client, &new_link).unwrap());
    run_block(&mut client, block_at(&PAGE, DROP));
    assert!(is_refused(&mut client, &old_link));
    assert_eq!(read(&mut client, &new_link).unwrap(), 1541815603606036481);
    // Masked numbers keep the keys to which they were given.
    assert_eq!(failure(&mut client, "SELECT snowflake_unmask_named(1, 'orders')").0, "42704");
    let kept = "SELECT snowflake_unmask_named(221274310923782015, 'old masks')";
    assert_eq!(single::<i64>(&mut client, kept), 1541815603606036480);

    client.run("SELECT snowflake_prepare_mask_key('customers')");
    client.run(block_at(&PAGE, INSTEAD[0]));
    assert_eq!(failure(&mut client, &step("switch")).0, "55000");
    client.run(block_at(&PAGE, INSTEAD[1]));
    run_block(&mut client, block_at(&PAGE, INSTEAD[2]));
    assert!(is_refused(&mut client, &new_link));
}

/// The second database reads the links of the first as soon as it is prepared, and makes the same links after the switch.
#[test]
fn two_databases_with_the_same_key() {
    let cluster = Cluster::builder().worker(1).set("log_statement", "all").start();
    let key: String = single(&mut cluster.connect(), "SELECT gen_random_uuid()::text");
    let mut shops = ["shop1", "shop2"].map(|name| {
        cluster.connect().run(&format!("CREATE DATABASE {name}"));
        let mut shop = cluster.connect_to(name);
        shop.run("CREATE EXTENSION snowflake_id");
        shop.run(&format!(
            "INSERT INTO snowflake_mask_keys (name, key) VALUES ('customers', uuid_send('{key}'))"
        ));
        shop
    });
    shops[0].run(&step("prepare"));
    let key: String = single(&mut shops[0], "SELECT encode(next_key, 'hex') FROM snowflake_mask_keys");

    let start = PAGE.find("set -o pipefail").unwrap();
    let command = PAGE[start..].split("```").next().unwrap();
    let programs: String = single(&mut shops[0], "SELECT setting FROM pg_config WHERE name = 'BINDIR'");
    let environment =
        format!("export PATH=\"{programs}:$PATH\" PGHOST='{}' PGUSER=test", cluster.host().display());
    successful(cluster.program("/bin/bash").args(["-ec", &format!("{environment}\n{command}")]));
    let [one, two] = &mut shops;
    one.run(&step("switch"));
    let link: String = single(one, LINK_OF_BOB);
    assert_eq!(read(two, &link).unwrap(), 1541815603606036481);
    two.run(&step("switch"));
    assert_eq!(single::<String>(two, LINK_OF_BOB), link);
    assert!(!cluster.log().contains(&key), "the log shows the key");
    assert!(cluster.log().contains("COPY received FROM STDIN"));
}

/// Waits until a standby has the next key, as the page does.
fn wait_for_next_key(standby: &mut Client) {
    let is_prepared = block_at(&PAGE, "on each standby");
    eventually("the next key to arrive", || {
        standby.query_opt(is_prepared, &[]).unwrap().is_some_and(|row| row.get(0))
    });
}

/// A standby that knows the next key reads the links of its primary. A standby that does not would refuse them.
#[test]
fn a_standby_reads_the_links_of_its_primary() {
    let primary = Cluster::builder().worker(1).start();
    let standby = primary.start_standby(&[]);
    let (mut client, mut reader) = (primary.connect(), standby.connect());
    create_customers(&mut client);
    client.run(&step("prepare"));
    wait_for_next_key(&mut reader);
    standby.pause_replay();
    client.run(&step("switch"));
    let link: String = single(&mut client, LINK_OF_BOB);
    assert_eq!(read(&mut reader, &link).unwrap(), 1541815603606036481);

    client.run(&step("drop_previous"));
    reader.run("SELECT pg_wal_replay_resume()");
    let has_one_key = "SELECT next_key IS NULL AND previous_key IS NULL FROM snowflake_mask_keys";
    eventually("the drop to arrive", || single::<bool>(&mut reader, has_one_key));
    standby.pause_replay();
    // Without waiting.
    client.run(&step("prepare"));
    client.run(&step("switch"));
    let link: String = single(&mut client, LINK_OF_BOB);
    assert!(is_refused(&mut reader, &link));
    reader.run("SELECT pg_wal_replay_resume()");
    eventually("the switch to arrive", || read(&mut reader, &link).is_ok());
    assert_eq!(failure(&mut reader, &step("drop_previous")).0, "25006");
}

/// The transactions that can still make links with the old key, as the page finds them.
fn older(server: &Cluster, seen_at: SystemTime) -> usize {
    server.connect().query(block_at(&PAGE, OLDER), &[&seen_at]).unwrap().len()
}

/// The switch waits for a lock, and another transaction begins meanwhile. It makes links with the old key, and began after
/// `switched_at`. On a standby, the same can happen until the switch arrives.
#[test]
fn transactions_that_are_older_than_the_switch() {
    let primary = Cluster::builder().worker(1).start();
    let standby = primary.start_standby(&[]);
    let (mut admin, mut eve, mut other) = (primary.connect(), primary.connect(), primary.connect());
    create_customers(&mut admin);
    admin.run("CREATE TABLE shown (link text)");
    admin.run(&step("prepare"));
    wait_for_next_key(&mut standby.connect());
    let seen_at = |server: &Cluster| -> Option<SystemTime> {
        server.connect().query_opt(block_at(&PAGE, HAS_SWITCHED), &[]).unwrap().map(|row| row.get(0))
    };
    other.run("BEGIN; SELECT FROM snowflake_mask_keys FOR UPDATE");
    std::thread::scope(|scope| {
        let switch = scope.spawn(|| primary.connect().run(&step("switch")));
        wait_until_one_waits(&mut admin);
        eve.run("BEGIN");
        eve.run(&format!("INSERT INTO shown {LINK_OF_BOB}"));
        assert_eq!(seen_at(&primary), None);
        standby.pause_replay();
        other.run("COMMIT");
        switch.join().unwrap();
    });
    let at_primary = eventually("the switch", || seen_at(&primary));
    let began_later: bool = single(
        &mut admin,
        "SELECT switched_at < (SELECT xact_start FROM pg_stat_activity WHERE state = 'idle in transaction') FROM snowflake_mask_keys",
    );
    assert!(began_later);
    assert_eq!(older(&primary, at_primary), 1);
    eve.run("COMMIT");
    assert_eq!(older(&primary, at_primary), 0);
    let link = "SELECT link FROM shown";
    let link: String = single(&mut admin, link);
    assert_ne!(link, single::<String>(&mut admin, LINK_OF_BOB));

    assert_eq!(seen_at(&standby), None);
    let mut reader = standby.connect();
    reader.run("BEGIN");
    assert_eq!(single::<String>(&mut reader, LINK_OF_BOB), link);
    standby.connect().run("SELECT pg_wal_replay_resume()");
    let at_standby = eventually("the switch to arrive", || seen_at(&standby));
    assert_eq!(older(&standby, at_standby), 1);
    reader.run("COMMIT");
    assert_eq!(older(&standby, at_standby), 0);
    admin.run(&step("drop_previous"));
    assert!(is_refused(&mut admin, &link), "the page re-issues stored texts before the drop");
}

/// Makes links in one session, and reads each in another one, whose snapshot is older than the link. Counts the links.
fn use_links(server: &Cluster, count: &AtomicUsize, stop: &AtomicBool) {
    let (mut maker, mut reader) = (server.connect(), server.connect());
    while !stop.load(Ordering::Relaxed) {
        let mut transaction = reader
            .build_transaction()
            .isolation_level(postgres::IsolationLevel::RepeatableRead)
            .start()
            .unwrap();
        transaction.query_one("SELECT 1", &[]).unwrap();
        let made = maker.query_one(
            "SELECT id, snowflake_to_public_named(id, 'cus', 'customers'), snowflake_to_uuid_named(id, 'customers')::text
             FROM snowflake_nextval() AS id",
            &[],
        );
        let made = made.unwrap();
        let (link, uuid): (String, String) = (made.get(1), made.get(2));
        let read = "SELECT snowflake_from_public_named($1, 'cus', 'customers'),
                           snowflake_from_uuid_named($2::text::uuid, 'customers')";
        let read = transaction.query_one(read, &[&link, &uuid]).unwrap();
        assert_eq!([read.get::<_, i64>(0), read.get(1)], [made.get::<_, i64>(0); 2]);
        transaction.commit().unwrap();
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Each link is read, if the administrator waits for older transactions. No key is ever in the log.
#[test]
fn keys_change_while_links_are_used() {
    let server = Cluster::builder().worker(1).set("log_statement", "all").start();
    let mut client = server.connect();
    create_customers(&mut client);
    let counts: [AtomicUsize; 3] = Default::default();
    // After two more links, the transaction of each session is younger.
    let wait = || {
        let now = counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        eventually("all sessions to go on", || {
            counts.iter().zip(now).all(|(count, before)| count.load(Ordering::Relaxed) >= before + 2)
        });
    };
    let used = &server;
    let users = counts.iter().map(|count| move |stop: &AtomicBool| use_links(used, count, stop));
    let (_, mut keys) = beside(users, || {
        let mut keys = Vec::new();
        for _ in 0..5 {
            for name in ["prepare", "switch", "drop_previous"] {
                client.run(&step(name));
                assert_eq!(failure(&mut client, &step(name)).0, "55000");
                wait();
            }
            keys.push(single::<String>(&mut client, "SELECT encode(key, 'hex') FROM snowflake_mask_keys"));
        }
        keys
    });
    let log = server.log();
    assert!(log.contains("snowflake_prepare_mask_key"));
    assert!(keys.iter().all(|key| !log.contains(key)), "the log shows a key");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 5);
}

/// Of two administrators who take the same step at the same time, one does, and the other gets the error of a step that was
/// taken.
#[test]
fn two_administrators() {
    let server = Cluster::builder().worker(1).start();
    let (mut first, mut client) = (server.connect(), server.connect());
    create_customers(&mut client);
    for name in ["prepare", "switch", "drop_previous"] {
        first.run("BEGIN");
        first.run(&step(name));
        let second = std::thread::spawn({
            let (mut second, step) = (server.connect(), step(name));
            move || failure(&mut second, &step)
        });
        wait_until_one_waits(&mut client);
        first.run("COMMIT");
        assert_eq!(second.join().unwrap().0, "55000", "{name}");
    }
}
