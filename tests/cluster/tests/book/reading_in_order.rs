//! The procedures of docs/how-to/reading-in-order.md, run as they are while sessions write. Each block begins with a
//! comment that says where it is run. Afterwards, each committed row was read exactly once, and in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use harness::examples::{blocks, last_row, run_block, statements};
use harness::*;
use postgres::Row;
use postgres::types::PgLsn;

const PAGE: &str = include_str!("../../../../docs/how-to/reading-in-order.md");

const INTO_OUTBOX: &str =
    "INSERT INTO outbox (topic) SELECT 'topic ' || (100 * random())::int FROM generate_series(1, 3)";
const INTO_EVENTS: &str = "INSERT INTO events (what) SELECT 'x' FROM generate_series(1, 3)";

/// How long the sessions write.
const A_WHILE: Duration = Duration::from_secs(4);
/// How long a reader waits if there are no rows. The page says 100 ms.
const MOMENT: Duration = Duration::from_millis(1);

/// The blocks of the page that are run at a place.
fn blocks_of(place: &'static str) -> impl Iterator<Item = &'static str> {
    blocks(PAGE).filter_map(move |block| block.strip_prefix("-- ")?.strip_prefix(place)?.strip_prefix('\n'))
}

/// The statements of the only block that is run at a place.
fn steps(place: &'static str) -> Vec<String> {
    let [block] = blocks_of(place).collect::<Vec<_>>()[..] else { panic!("{place}") };
    statements(block).into_iter().map(|(statement, _)| statement).collect()
}

fn server() -> Cluster {
    Cluster::builder().worker(1).set("max_prepared_transactions", 20).start()
}

/// A server with the tables of the outbox.
fn server_with_outbox() -> Cluster {
    let server = server();
    blocks_of("once").for_each(|block| server.connect().run(block));
    server
}

/// Sessions that insert rows, with pauses, rollbacks, savepoints and prepared transactions, until they are told to stop.
fn writers<'a>(
    server: &'a Cluster,
    insert: &'a str,
) -> impl Iterator<Item = impl FnOnce(&AtomicBool) + Send> {
    let mut random = Random::seeded();
    (0..6).map(move |number| {
        let mut random = Random::of(random.below(u64::MAX));
        move |stop: &AtomicBool| {
            let mut client = server.connect();
            let gid = format!("writer {number}");
            while !stop.load(Ordering::Relaxed) {
                client.run("BEGIN");
                client.run(insert);
                random.pause(20);
                match random.below(6) {
                    0 => client.run(&format!("SAVEPOINT s; {insert}; ROLLBACK TO s; {insert}; COMMIT")),
                    1 => client.run("ROLLBACK"),
                    2 => {
                        client.run(&format!("PREPARE TRANSACTION '{gid}'"));
                        random.pause(20);
                        client.run(&format!("COMMIT PREPARED '{gid}'"));
                    }
                    _ => client.run("COMMIT"),
                }
            }
        }
    })
}

/// Runs readers while sessions write. Each reader gets a value that becomes true when nothing is written any more.
fn read_beside<R: Send>(
    server: &Cluster,
    insert: &str,
    readers: impl IntoIterator<Item = impl FnOnce(&AtomicBool) -> R + Send>,
) -> Vec<R> {
    let read = beside(readers, || {
        beside(writers(server, insert), || thread::sleep(A_WHILE));
    });
    read.0
}

/// The IDs of all committed rows.
fn written(server: &Cluster, table: &str) -> Vec<i64> {
    ids(&mut server.connect(), &format!("SELECT id FROM {table} ORDER BY id"))
}

/// Repeats a round of a reader, which returns the rows that it has read, until nothing is written any more and a round
/// returns no rows. A round that cannot tell whether it has read all rows returns `None` instead of no rows.
fn repeat(is_written: &AtomicBool, mut round: impl FnMut() -> Option<Vec<i64>>) -> Vec<i64> {
    let mut all = Vec::new();
    loop {
        // The order matters: a round that starts after the last commit reads everything.
        let is_last = is_written.load(Ordering::Relaxed);
        match round() {
            Some(rows) if rows.is_empty() && is_last => return all,
            Some(rows) if rows.is_empty() => thread::sleep(MOMENT),
            Some(rows) => all.extend(rows),
            None => thread::sleep(MOMENT),
        }
    }
}

/// Whether a reader has passed all rows of a table.
fn is_read(client: &mut Client, table: &str, position: i64) -> bool {
    let last: Option<i64> = single(client, &format!("SELECT max(id) FROM {table}"));
    last.is_none_or(|last| last <= position)
}

/// The first column of all rows.
fn first_column(rows: Vec<Row>) -> Vec<i64> {
    rows.iter().map(|row| row.get(0)).collect()
}

/// A round of the consumer's transaction. Returns the position before it, and the rows.
fn consume(client: &mut Client, steps: &[String], name: &str) -> (i64, Vec<i64>) {
    let [begin, lock, read, advance, commit] = steps else { panic!("{steps:?}") };
    client.run(begin);
    let position: i64 = client.query_one(lock, &[&name]).unwrap().get(0);
    let rows = first_column(client.query(read, &[&position]).unwrap());
    if let Some(last) = rows.last() {
        client.execute(advance, &[last, &name]).unwrap();
    }
    client.run(commit);
    (position, rows)
}

/// The example at the beginning. A query is repeated if the watermark is not known yet.
#[test]
fn the_problem_in_two_sessions() {
    let server = server();
    let mut sessions = [server.connect(), server.connect()];
    let mut checked = 0;
    for block in blocks(PAGE) {
        let Some((number, block)) = block.strip_prefix("-- session ").and_then(|rest| rest.split_once('\n'))
        else {
            continue;
        };
        let client = &mut sessions[number.parse::<usize>().unwrap() - 1];
        for (statement, expected) in statements(block) {
            match expected.is_empty() {
                true => client.run(&statement),
                false => eventually(&statement, || last_row(client, &statement) == expected),
            }
            checked += usize::from(!expected.is_empty());
        }
    }
    assert_eq!(checked, 5);
    let view = blocks(PAGE).find(|block| block.starts_with("SELECT layout, watermark_time")).unwrap();
    run_block(&mut sessions[0], view);
}

/// Two instances of a consumer, and one that does not use the watermark, which loses rows.
#[test]
fn an_outbox() {
    let server = server_with_outbox();
    server.connect().run("INSERT INTO consumer (name) VALUES ('careless')");
    let correct = steps("the consumer");
    let careless: Vec<String> =
        correct.iter().map(|step| step.replace("AND id < (SELECT snowflake_watermark())", "")).collect();
    assert_ne!(careless, correct);
    let consumer = |name: &'static str, steps: Vec<String>| {
        let server = &server;
        move |stop: &AtomicBool| {
            let mut client = server.connect();
            repeat(stop, || {
                let (position, rows) = consume(&mut client, &steps, name);
                (!rows.is_empty() || is_read(&mut client, "outbox", position)).then_some(rows)
            })
        }
    };
    let consumers =
        [consumer("mail", correct.clone()), consumer("mail", correct), consumer("careless", careless)];
    let read = read_beside(&server, INTO_OUTBOX, consumers);

    let written = written(&server, "outbox");
    for rows in &read {
        assert_increasing(rows);
    }
    let mut both = [&read[0][..], &read[1][..]].concat();
    both.sort_unstable();
    assert_eq!(both, written);
    println!(
        "{} rows, of which {} were skipped without the watermark",
        written.len(),
        written.len() - read[2].len()
    );
    assert!(read[2].len() < written.len());

    server.connect().run(blocks_of("now and then").next().unwrap());
    assert_eq!(
        single::<i64>(
            &mut server.connect(),
            "SELECT count(*) FROM outbox WHERE id < (SELECT min(position) FROM consumer)"
        ),
        0
    );
}

/// Four consumers share the rows by a hash.
#[test]
fn consumers_that_share_the_rows() {
    let server = server_with_outbox();
    let steps = steps("each of four consumers");
    let consumers = (0..4).map(|number: i64| {
        let (server, steps) = (&server, &steps);
        move |stop: &AtomicBool| {
            let [begin, lock, ask, read, advance, commit] = &steps[..] else { panic!("{steps:?}") };
            let name = format!("search {number}");
            let mut client = server.connect();
            repeat(stop, || {
                client.run(begin);
                let position: i64 = client.query_one(lock, &[&name]).unwrap().get(0);
                let watermark: Option<i64> = client.query_one(ask, &[]).unwrap().get(0);
                let Some(watermark) = watermark else {
                    client.run(commit);
                    return None;
                };
                let rows = first_column(client.query(read, &[&position, &watermark, &number]).unwrap());
                let advanced = if rows.len() == 1000 { rows[999] } else { watermark - 1 };
                client.execute(advance, &[&advanced, &name]).unwrap();
                client.run(commit);
                (!rows.is_empty() || is_read(&mut client, "outbox", advanced)).then_some(rows)
            })
        }
    });
    let read = read_beside(&server, INTO_OUTBOX, consumers);
    for rows in &read {
        assert!(!rows.is_empty());
        assert_increasing(rows);
    }
    let mut all = read.concat();
    all.sort_unstable();
    assert_eq!(all, written(&server, "outbox"));
}

/// The script is run with psql. The files together contain each row once, in order. A file that is written again is the
/// same.
#[test]
fn an_incremental_export() {
    let server = server_with_outbox();
    let script = server.host().join("export.sql");
    fs::write(&script, blocks_of("export.sql").next().unwrap()).unwrap();
    server.own(&script);
    let mut number = 0;
    let mut export = || {
        number += 1;
        let file = server.host().join(format!("{number}.tsv"));
        let mut psql = server.client_program("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-v"]);
        psql.arg(format!("file={}", file.display())).arg("-f").arg(&script);
        let output = psql.output().unwrap();
        assert_eq!(output.status.success(), file.exists(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(file).ok()?;
        Some(text.lines().map(|line| line.split('\t').next().unwrap().parse().unwrap()).collect::<Vec<i64>>())
    };
    let mut all = Vec::new();
    beside(writers(&server, INTO_OUTBOX), || {
        for _ in 0..20 {
            all.extend(export().unwrap_or_default());
            thread::sleep(A_WHILE / 20);
        }
    });
    let mut client = server.connect();
    eventually("all rows", || {
        all.extend(export().unwrap_or_default());
        is_read(&mut client, "outbox", all.last().copied().unwrap_or(0))
    });
    assert_eq!(all, written(&server, "outbox"));
    eventually("the last watermark", || export().is_none());
    let query =
        "SELECT o.id FROM export AS e JOIN outbox AS o ON o.id >= e.from_id AND o.id < e.below_id ORDER BY 1";
    assert_eq!(ids(&mut client, query), all);
}

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
    let read = read_beside(&primary, INTO_OUTBOX, [reader]);
    assert_eq!(read[0], written(&primary, "outbox"));

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
    let read = read_beside(&primary, INTO_EVENTS, [reader]);
    assert_eq!(read[0], written(&primary, "events"));
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
                "    CREATE SUBSCRIPTION {name} CONNECTION 'host={name} dbname=shop' PUBLICATION events;"
            );
            assert!(PAGE.contains(&line));
            let server = if *name == "alpha" { &alpha } else { &beta };
            let connection = server.connection_string("test");
            (*name, line.replace(&format!("host={name} dbname=shop"), &connection))
        })
        .collect();
    let store = &steps("on each server, every second")[0];
    let is_ready = &steps("on the server that collects, until the result is true")[0];
    let [begin, lock, read, advance, commit] = &steps("the reader")[..] else { panic!() };

    let readers = [("alpha", &alpha), ("beta", &beta)].map(|(name, server)| {
        let (here, subscribe) = (&here, &subscribe);
        move |stop: &AtomicBool| {
            let (mut there, mut client) = (server.connect(), here.connect());
            // The rows that exist already are copied.
            there.run(INTO_EVENTS);
            client.run(&subscribe[name]);
            eventually("the first copies", || single::<bool>(&mut client, is_ready));
            repeat(stop, || {
                there.run(store);
                client.run(begin);
                let position: i64 = client.query_one(lock, &[&name]).unwrap().get(0);
                let rows = first_column(client.query(read, &[&name, &position]).unwrap());
                if let Some(last) = rows.last() {
                    client.execute(advance, &[&name, last]).unwrap();
                }
                client.run(commit);
                (!rows.is_empty() || is_read(&mut there, "events", position)).then_some(rows)
            })
        }
    });
    let (read, ()) = beside(readers, || {
        let writers: Vec<_> = writers(&alpha, INTO_EVENTS).chain(writers(&beta, INTO_EVENTS)).collect();
        beside(writers, || thread::sleep(2 * A_WHILE));
    });
    assert_eq!(read[0], written(&alpha, "events"));
    assert_eq!(read[1], written(&beta, "events"));
    assert!(read.iter().all(|rows| rows.len() > 100));
}

/// The transcript of the trigger, which also accepts rows of the default.
#[test]
fn rows_with_ids_of_another_transaction_are_refused() {
    let server = server_with_outbox();
    let transcript = ["INSERT INTO outbox (id, topic) SELECT id, 'orders' FROM snowflake_batch(3) AS id;"];
    assert!(PAGE.contains(transcript[0]));
    let mut client = server.connect();
    client.run(transcript[0]);
    client.run("INSERT INTO outbox (topic) VALUES ('orders')");
    let id: i64 = single(&mut client, "SELECT snowflake_nextval() AS id");
    let (state, message) =
        failure(&mut client, &format!("INSERT INTO outbox (id, topic) VALUES ({id}, 'orders')"));
    assert_eq!(state, "23514");
    assert!(message.contains(&format!("ID {id} was not taken by this transaction")), "{message}");
}

/// The clock was a year ahead at the start. After the reset, a consumer that has read the rows reads the new ones.
#[test]
fn after_a_reset() {
    let server = Cluster::builder().worker(1).clock().start();
    blocks_of("once").for_each(|block| server.connect().run(block));
    server.stop_server("fast");
    server.set_clock(365.0 * 24.0 * 3_600.0);
    server.start_server();
    let consumer = steps("the consumer");
    let mut client = server.connect();
    wait_for_first_id(&mut client);
    client.run(INTO_OUTBOX);
    let mut rows = Vec::new();
    eventually("the rows", || {
        rows.extend(consume(&mut client, &consumer, "mail").1);
        rows.len() == 3
    });

    server.set_clock(0.0);
    client.run("SELECT snowflake_reset_horizon(9)");
    server.change_for(&mut client, "snowflake_id.worker_id", "9");
    wait_for_first_id(&mut client);
    client.run(INTO_OUTBOX);
    assert!(consume(&mut client, &consumer, "mail").1.is_empty());
    client.run(blocks_of("after a reset").next().unwrap());
    let mut after = Vec::new();
    eventually("the new rows", || {
        after.extend(consume(&mut client, &consumer, "mail").1);
        after.len() == 3
    });
    assert_eq!([after, rows].concat(), written(&server, "outbox"));
}
