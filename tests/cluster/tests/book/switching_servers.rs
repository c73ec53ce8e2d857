//! The procedure of docs/how-to/switching-servers.md, typed as it is while the old server is written to.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::book::read;
use harness::examples::{block_at, query_at, run_block};
use harness::*;
use postgres::types::PgLsn;

use crate::horizon::stakes::{now, repeats, time_of};

const A_WHILE: Duration = Duration::from_secs(1);
/// How far the clock of the new server is behind the last ID of the old one, in seconds.
const BEHIND: f64 = 5.0;

fn run(page: &str, server: &Cluster, place: &str, blue: &Cluster) {
    let block = block_at(page, place)
        .replace("host=blue dbname=shop", &blue.connection_string("test"))
        .replace("ALTER DATABASE shop", "ALTER DATABASE postgres");
    run_block(&mut server.connect(), &block);
}

/// Inserts rows until the server refuses them. Returns their IDs, and those of transactions that were not committed.
fn insert_until_refused(server: &Cluster) -> Vec<i64> {
    let writers = [1, 10].map(|rows| {
        move |stop: &AtomicBool| {
            let insert = format!("INSERT INTO orders SELECT FROM generate_series(1, {rows}) RETURNING id");
            let mut mine = vec![];
            let mut client = server.connect();
            while !stop.load(Ordering::Relaxed) {
                let Ok(mut transaction) = client.transaction() else { break };
                let Ok(inserted) = transaction.query(&insert, &[]) else { break };
                mine.extend(inserted.iter().map(|row| row.get::<_, i64>(0)));
                if transaction.commit().is_err() {
                    break;
                }
            }
            mine
        }
    });
    beside(writers, || thread::sleep(A_WHILE)).0.concat()
}

/// Takes IDs in read-only transactions until the server is stopped. Each batch has all IDs of a hundred ticks, so that IDs
/// are at stake on a busy machine, too.
fn take_until_stopped(server: &Cluster) -> Vec<i64> {
    let mut client = server.connect();
    let mut mine = vec![];
    while let Ok(rows) = client.query("SELECT snowflake_batch(50000)", &[]) {
        mine.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    mine
}

/// Ends the writes on the old server while rows are inserted, waits for the new one, and ends the replication. Returns
/// the IDs of the old server. `begins` names the block of the page that ends the writes.
fn switch_writes(page: &str, blue: &Cluster, green: &Cluster, begins: &str) -> Vec<i64> {
    let (written, ()) = beside([|_: &AtomicBool| insert_until_refused(blue)], || {
        thread::sleep(A_WHILE / 2);
        run(page, blue, begins, blue);
    });
    let idle = query_at(page, "on blue, until no transaction is running");
    eventually("the last transactions", || single::<bool>(&mut blue.connect(), idle));
    let mut client = blue.connect();
    let position: PgLsn =
        single(&mut client, query_at(page, "on blue, the position that green has to reach"));
    let reached = query_at(page, "on blue, until the result is true");
    eventually("green", || client.query_one(reached, &[&position]).unwrap().get::<_, bool>(0));
    run(page, green, "on green, the switch ends", blue);
    written.concat()
}

/// Moves from one server to another. Returns the IDs of the old server and of the new one.
fn switch(page: &str, green_worker: &str, advances: bool) -> (Vec<i64>, Vec<i64>) {
    let blue = Cluster::builder().worker(1).set("wal_level", "logical").start();
    let green = Cluster::builder().worker(green_worker).clock().start();
    for server in [&blue, &green] {
        server.connect().run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
    }
    let mut old = insert_until_refused(&blue);
    run(page, &blue, "on blue", &blue);
    run(page, &green, "on green", &blue);
    let ready = query_at(page, "on green, until the result is true");
    eventually("the copy", || single::<bool>(&mut green.connect(), ready));
    old.extend(switch_writes(page, &blue, &green, "on blue, the switch begins"));

    // Until it is stopped, a server that is read-only issues IDs.
    let (read_only, ()) = beside([|_: &AtomicBool| take_until_stopped(&blue)], || {
        thread::sleep(A_WHILE / 2);
        blue.stop_server("fast");
    });
    old.extend(read_only.concat());
    let last = now() + 1.0;
    // A server that runs would notice that its clock was set back. It knows no history, so its first ID is `max_ahead`
    // after its clock.
    green.stop_server("fast");
    green.set_clock(time_of(*old.iter().max().unwrap()) - BEHIND - now());
    green.start_server();
    if advances {
        let advance = query_at(page, "on green, before it gets the worker ID of blue");
        green.connect().run(&advance.replace("$1", &format!("to_timestamp({last})")));
    }
    if green_worker == "-1" {
        green.change("snowflake_id.worker_id", "1");
    }
    let mut client = green.connect();
    let rows: i64 = single(&mut client, "SELECT count(*) FROM orders");
    assert!(rows > 10 && rows <= old.len() as i64, "{rows} of {}", old.len());
    wait_for_first_id(&mut client);
    // Until the clock of the new server has passed the last ID of the old one.
    let mut new = vec![];
    while new.last() <= old.iter().max() {
        new.extend(ids(&mut client, "SELECT id FROM snowflake_batch(10000) AS id"));
        thread::sleep(Duration::from_millis(20));
    }
    (old, new)
}

#[test]
fn a_new_server_with_its_own_worker_id() {
    let (old, new) = switch(&read("docs/how-to/switching-servers.md"), "2", false);
    assert_eq!(repeats(&new, &old), 0);
}

/// The new server gets the worker ID of the old one. Its clock is behind. Without the call of snowflake_advance(), IDs
/// are repeated, so the test can fail.
#[test]
fn a_new_server_with_the_worker_id_of_the_old_one() {
    let page = read("docs/how-to/switching-servers.md");
    let (old, new) = switch(&page, "-1", true);
    assert_eq!(repeats(&new, &old), 0);
    assert!(new.iter().min() > old.iter().max());
    // On a busy machine, the old server may issue too few IDs at the end.
    let repeated = (0..5).map(|_| switch(&page, "-1", false)).find_map(|(old, new)| {
        println!("without the call, {} of {} IDs are repeated", repeats(&new, &old), old.len());
        (repeats(&new, &old) > 0).then_some(())
    });
    assert!(repeated.is_some());
}

/// Takes IDs from both servers at the same time. Returns how many came twice.
fn repeats_beside(blue: &Cluster, green: &Cluster) -> usize {
    let takers = [blue, green].map(|server| {
        move |stop: &AtomicBool| {
            let mut client = server.connect();
            wait_for_first_id(&mut client);
            let mut mine = vec![];
            while !stop.load(Ordering::Relaxed) {
                mine.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
            }
            mine
        }
    });
    let (taken, ()) = beside(takers, || thread::sleep(A_WHILE));
    assert!(taken.iter().all(|ids| ids.len() > 1_000));
    repeats(&taken[1], &taken[0])
}

/// Converts a standby to a subscriber, upgrades it, and moves to it. Returns how many IDs both servers issued while both
/// were running.
fn convert(page: &str, has_own_worker_id: bool) -> usize {
    let preserved = [("wal_level", "logical"), ("max_replication_slots", "10")];
    let blue = Cluster::builder().worker(1).settings(&preserved).start();
    blue.connect().run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
    let mut old = insert_until_refused(&blue);
    let green = blue.start_standby(&[]);
    let worker = if has_own_worker_id { "2" } else { "1" };
    if has_own_worker_id {
        assert!(page.contains("\n       snowflake_id.worker_id = 2\n"));
        green.configure(&[("snowflake_id.worker_id", worker)]);
    }
    green.stop_server("fast");
    let (_, command) = page.split_once("```sh\n# on green, stopped\n").unwrap();
    let (command, _) = command.split_once("```").unwrap();
    let socket = green.host().display();
    let command = command
        .replace("host=blue dbname=shop", &blue.connection_string("test"))
        .replace(
            "--database shop",
            &format!("--database postgres --subscriber-username test --socketdir {socket}"),
        )
        .replace("/var/lib/postgresql/18/green", green.data_dir().to_str().unwrap());
    let programs = ask_pg_config(&pg_config(), "--bindir");
    let mut shell = as_server_user(Path::new("/bin/sh"));
    successful(
        shell
            .args(["-c", &format!("PATH='{programs}':\"$PATH\"; {command}")])
            .env("LC_ALL", "C")
            .current_dir(green.host()),
    );
    let upgraded = Cluster::builder().worker(worker).settings(&preserved).extensions(&[]).stopped();
    upgraded.upgrade_from(&green).unwrap_or_else(|said| panic!("pg_upgrade failed:\n{said}"));
    let green = upgraded;
    green.start_server();
    let repeated = repeats_beside(&blue, &green);
    old.extend(switch_writes(page, &blue, &green, "on blue, the switch begins"));
    let mut client = green.connect();
    let rows: i64 = single(&mut client, "SELECT count(*) FROM orders");
    assert!(rows > 10 && rows <= old.len() as i64, "{rows} of {}", old.len());
    client.run("INSERT INTO orders DEFAULT VALUES");
    repeated
}

/// Without a worker ID of its own, the converted server repeats IDs of the old one, so the test can fail.
#[test]
fn a_standby_is_converted_and_upgraded() {
    if major(&pg_config()) < 17 {
        println!("there is no pg_createsubscriber");
        return;
    }
    let page = read("docs/how-to/switching-servers.md");
    assert_eq!(convert(&page, true), 0);
    // On a busy machine, the two servers may happen to use different parts of each millisecond.
    let repeated = (0..5).map(|_| convert(&page, false)).find(|&repeated| repeated > 0);
    println!("with the same worker ID, {repeated:?} IDs came twice");
    assert!(repeated.is_some());
}

/// Creates the functions of the script, and the table, on a server without the library.
fn managed_server(worker: i32, author: &Cluster) -> Cluster {
    let server = Cluster::builder().set("wal_level", "logical").clock().extensions(&[]).start();
    let query = format!("SELECT snowflake_generator_sql('standard', {worker})");
    let script: String = single(&mut author.connect(), &query);
    server.connect().run(&format!("CREATE SCHEMA ids; SET search_path = ids; {script}"));
    server.connect().run(MANAGED_TABLE);
    server
}

const MANAGED_TABLE: &str = "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval())";

/// Moves to a managed server and back to a server with the library. Returns how many IDs of the first server the managed
/// one repeats.
fn to_a_managed_server_and_back(page: &str, worker: i32) -> usize {
    let blue = Cluster::builder().worker(1).set("wal_level", "logical").start();
    blue.connect().run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
    let managed = managed_server(worker, &blue);
    let mut old = insert_until_refused(&blue);
    let replicate = |from: &Cluster, to: &Cluster| {
        run(page, from, "on blue", from);
        run(page, to, "on green", from);
        let ready = query_at(page, "on green, until the result is true");
        eventually("the copy", || single::<bool>(&mut to.connect(), ready));
    };
    replicate(&blue, &managed);
    old.extend(switch_writes(page, &blue, &managed, "on blue, the switch begins"));
    old.extend(ids(&mut blue.connect(), "SELECT snowflake_batch(10000)"));
    blue.stop_server("fast");

    // The clock of the managed server is behind.
    managed.set_clock(time_of(*old.iter().max().unwrap()) - 1.0 - now());
    let mut new = vec![];
    let mut client = managed.connect();
    while new.last() <= old.iter().max() {
        if let Ok(rows) = client.query("SELECT ids.snowflake_batch(10000)", &[]) {
            new.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        }
    }
    let repeated = repeats(&new, &old);
    if repeated > 0 {
        return repeated;
    }
    new.extend(insert_until_refused(&managed));

    let green = Cluster::builder().worker(3).start();
    green.connect().run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
    replicate(&managed, &green);
    new.extend(switch_writes(page, &managed, &green, "on a managed server, the switch begins"));
    let rows: i64 = single(&mut green.connect(), "SELECT count(*) FROM orders");
    assert!(rows > 20, "{rows}");
    let last = insert_until_refused(&green);
    assert_distinct(&[old, new, last].concat());
    0
}

/// With the worker ID of the old server in the script, IDs are repeated, so the test can fail.
#[test]
fn a_managed_server_and_back() {
    let page = read("docs/how-to/switching-servers.md");
    assert_eq!(to_a_managed_server_and_back(&page, 2), 0);
    // On a busy machine, the two servers may happen to use different parts of each millisecond.
    let repeated = (0..5).map(|_| to_a_managed_server_and_back(&page, 1)).find(|&repeated| repeated > 0);
    println!("with the same worker ID, {repeated:?} IDs came twice");
    assert!(repeated.is_some());
}
