//! The procedures of docs/tables/reading-in-order.md for readers on a standby, and on a server that collects the rows of
//! several servers.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc;
use std::time::Duration;

use harness::book::of_test;
use harness::examples::block_at;
use harness::*;
use postgres::types::PgLsn;

use super::reading_in_order::*;
use super::several_writers::{NAMES, run_for};

static WRITERS: LazyLock<String> = LazyLock::new(|| of_test("several_writers"));

/// Reads on a standby, by the position in the WAL, and by watermarks that the primary stores.
#[test]
fn on_a_standby() {
    let primary = Cluster::builder()
        .worker(1)
        .settings(&[("max_prepared_transactions", "20"), ("cluster_name", "alpha")])
        .start();
    blocks_of("once").for_each(|block| primary.connect().run(block));
    let standby = primary.start_standby(&[("cluster_name", "standby")]);
    let [ask] = &steps("on the primary")[..] else { panic!() };
    let [wait] = &steps("on the standby, until the result is true")[..] else { panic!() };
    let [read] = &steps("on the standby, in a new transaction")[..] else { panic!() };
    let reader = |stop: &AtomicBool| {
        let (mut there, mut here) = (primary.connect(), standby.connect());
        let error = failure(&mut here, "SELECT snowflake_watermark()");
        assert_eq!(error.0, "55000");
        let mut position = 0_i64;
        repeat(stop, || {
            let row = there.query_one(ask, &[]).unwrap();
            let (watermark, lsn): (Option<i64>, PgLsn) = (row.get(0), row.get(1));
            let watermark = watermark?;
            eventually("the standby", || here.query_one(wait, &[&lsn]).unwrap().get::<_, bool>(0));
            let rows = first_column(here.query(read, &[&position, &watermark]).unwrap());
            position = rows.last().copied().unwrap_or(position);
            (!rows.is_empty() || is_read(&mut there, "outbox", position)).then_some(rows)
        })
    };
    let read = read_beside(&primary, "outbox", [reader]);
    assert_all_read(&read[0], &primary, "outbox");

    primary.connect().run(blocks_of("on each server").next().unwrap());
    let store = &steps("on each server, every second")[0];
    let read = &steps("the reader")[2];
    let reader = |stop: &AtomicBool| {
        let (mut there, mut here) = (primary.connect(), standby.connect());
        eventually("the tables", || here.batch_execute("SELECT FROM events, watermarks").ok());
        let mut position = 0_i64;
        repeat(stop, || {
            there.run(store);
            let rows = first_column(here.query(read, &[&"alpha", &position]).unwrap());
            position = rows.last().copied().unwrap_or(position);
            (!rows.is_empty() || is_read(&mut there, "events", position)).then_some(rows)
        })
    };
    let read = read_beside(&primary, "events", [reader]);
    assert_all_read(&read[0], &primary, "events");
}

/// Reads rows of a server up to the watermark that it has stored. Returns the position before it, and the rows.
fn read_stored(client: &mut Client, steps: &[String], name: &str) -> (i64, Vec<i64>) {
    let [begin, lock, read, advance, commit] = steps else { panic!("{steps:?}") };
    client.run(begin);
    let position: i64 = client.query_one(lock, &[&name]).unwrap().get(0);
    let rows = first_column(client.query(read, &[&name, &position]).unwrap());
    if let Some(last) = rows.last() {
        client.execute(advance, &[&name, last]).unwrap();
    }
    client.run(commit);
    (position, rows)
}

/// Rows of two servers are collected by logical replication.
#[test]
fn rows_of_several_servers() {
    let [alpha, beta] = ["alpha", "beta"].map(|name| {
        let server = Cluster::builder()
            .worker(if name == "alpha" { 1 } else { 2 })
            .settings(&[
                ("max_prepared_transactions", "20"),
                ("cluster_name", name),
                ("wal_level", "logical"),
            ])
            .start();
        server.connect().run(blocks_of("on each server").next().unwrap());
        server
    });
    let here = Cluster::builder().extensions(&[]).start();
    here.connect().run(blocks_of("on the server that collects").next().unwrap());
    let subscribe: BTreeMap<&str, String> = ["alpha", "beta"]
        .iter()
        .map(|name| {
            let line = format!(
                "CREATE SUBSCRIPTION {name} CONNECTION 'host={name} dbname=shop' PUBLICATION events;"
            );
            assert!(PAGE.contains(&line));
            let server = if *name == "alpha" { &alpha } else { &beta };
            let connection = server.connection_string("test");
            (*name, line.replace(&format!("host={name} dbname=shop"), &connection))
        })
        .collect();
    let store = &steps("on each server, every second")[0];
    let is_ready = &steps("on the server that collects, until the result is true")[0];
    let steps = &steps("the reader");

    let (begun, begins) = mpsc::channel();
    let readers = [("alpha", &alpha), ("beta", &beta)].map(|(name, server)| {
        let (here, subscribe, begun) = (&here, &subscribe, begun.clone());
        move |stop: &AtomicBool| {
            let (mut there, mut client) = (server.connect(), here.connect());
            // The rows that exist already are copied.
            there.run(INTO_EVENTS);
            client.run(&subscribe[name]);
            eventually("the first copies", || single::<bool>(&mut client, is_ready));
            begun.send(()).unwrap();
            repeat(stop, || {
                there.run(store);
                let (position, rows) = read_stored(&mut client, steps, name);
                (!rows.is_empty() || is_read(&mut there, "events", position)).then_some(rows)
            })
        }
    });
    let (read, ()) = beside(readers, || {
        let writers: Vec<_> = writers(&alpha, INTO_EVENTS).chain(writers(&beta, INTO_EVENTS)).collect();
        beside(writers, || {
            begins.iter().take(2).for_each(drop);
            wait_for_rows(&alpha, "events", SOME_ROWS);
            wait_for_rows(&beta, "events", SOME_ROWS);
        });
    });
    assert_all_read(&read[0], &alpha, "events");
    assert_all_read(&read[1], &beta, "events");
    assert!(read.iter().all(|rows| rows.len() > 100));
}

/// Three servers replicate to each other. Each of them reads the rows of all, with a position and a watermark for each
/// server.
#[test]
fn rows_of_several_writers() {
    if major(&pg_config()) < 16 {
        println!("there is no parameter origin");
        return;
    }
    let (mut servers, mut worker) = (vec![], 0);
    for name in NAMES {
        worker += 1;
        let server = Cluster::builder().worker(worker).settings(&[
            ("max_prepared_transactions", "20"),
            ("cluster_name", name),
            ("wal_level", "logical"),
            ("max_replication_slots", "20"),
            ("max_logical_replication_workers", "20"),
            ("max_worker_processes", "40"),
        ]);
        let server = server.start();
        let mut client = server.connect();
        client.run(blocks_of("on each server").next().unwrap());
        client.run(block_at(&WRITERS, "on each server that reads"));
        servers.push(server);
    }
    let all = || servers.iter().zip(NAMES);
    for server in all() {
        for publisher in all().filter(|(_, from)| *from != server.1) {
            run_for(block_at(&WRITERS, "on server alpha, for the rows of beta"), server, publisher);
        }
    }
    let store = &steps("on each server, every second")[0];
    let steps = &steps("the reader");
    let readers: Vec<_> = all().flat_map(|(reader, _)| all().map(move |origin| (reader, origin))).collect();
    let readers = readers.into_iter().map(|(reader, (origin, name))| {
        move |stop: &AtomicBool| {
            let (mut there, mut client) = (origin.connect(), reader.connect());
            let last = format!("SELECT max(id) FROM events WHERE origin = '{name}'");
            let rows = repeat(stop, || {
                there.run(store);
                let (position, rows) = read_stored(&mut client, steps, name);
                let has_read_all =
                    single::<Option<i64>>(&mut there, &last).is_none_or(|last| last <= position);
                (!rows.is_empty() || has_read_all).then_some(rows)
            });
            (name, rows)
        }
    });
    let (read, ()) = beside(readers, || {
        let writers: Vec<_> = servers.iter().flat_map(|server| writers(server, INTO_EVENTS)).collect();
        beside(writers, || {
            servers.iter().for_each(|server| while_issuing(server, SOME_ROWS, Duration::ZERO))
        });
    });
    assert_eq!(read.len(), 9);
    for (server, name) in all() {
        let query = format!("SELECT id FROM events WHERE origin = '{name}' ORDER BY id");
        let written = ids(&mut server.connect(), &query);
        assert!(written.len() > 100);
        for (_, rows) in read.iter().filter(|(origin, _)| *origin == name) {
            assert_eq!(rows, &written, "rows of {name}");
        }
    }
    for server in &servers {
        server.stop_server("immediate");
    }
}
