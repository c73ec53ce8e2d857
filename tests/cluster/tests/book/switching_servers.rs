//! The procedure of docs/run/replication.md, typed as it is while the old server is written to.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use harness::book::of_test;
use harness::examples::{block_at, query_at, run_block};
use harness::*;
use postgres::types::PgLsn;

use crate::horizon::stakes::{now, repeats, time_of};

/// How far the clock of the new server is behind the last IDs of the old one, in seconds.
const BEHIND: f64 = 5.0;

fn run(page: &str, server: &Cluster, place: &str, blue: &Cluster) {
    let block = block_at(page, place)
        .replace("host=blue dbname=shop", &blue.connection_string("test"))
        .replace("ALTER DATABASE shop", "ALTER DATABASE postgres");
    run_block(&mut server.connect(), &block);
}

/// Clients that insert rows until the server refuses them, or until they are told to stop. Each returns the IDs, including
/// those of transactions that were not committed.
fn writers(server: &Cluster) -> impl Iterator<Item = impl FnOnce(&AtomicBool) -> Vec<i64> + Send> {
    [1, 10].into_iter().map(move |rows| {
        move |stop: &AtomicBool| {
            let insert = format!("INSERT INTO orders SELECT FROM generate_series(1, {rows}) RETURNING id");
            let mut mine = vec![];
            // The sessions may be ended while this one begins.
            let Ok(mut client) = server.try_connect("postgres") else { return mine };
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
    })
}

/// Inserts rows. Returns their IDs.
fn insert_some(server: &Cluster) -> Vec<i64> {
    eventually("an ID", || server.try_run("BEGIN; INSERT INTO orders DEFAULT VALUES; ROLLBACK"));
    beside(writers(server), || wait_for_rows(server, "orders", 100)).0.concat()
}

/// Takes all IDs of some dozens of ticks in a row.
fn take_many(server: &Cluster) -> Vec<i64> {
    ids(&mut server.connect(), "SELECT snowflake_batch(200000)")
}

/// Takes IDs from a server while its clock, which stands still in between, moves over the time of the latest IDs of
/// another server. If the server `is_open`, it issues IDs at each time.
fn take_over_time_of(many: &[i64], server: &Cluster, nextval: &str, is_open: bool) -> Vec<i64> {
    let mut client = server.connect();
    client.run("SET snowflake_id.max_wait = 0");
    let start = time_of(many[0]);
    let query = format!("SELECT {nextval} FROM generate_series(1, 1000)");
    let mut taken = vec![];
    for time in [start - BEHIND, start - 1.0, start + 0.01, start + 0.02, start + 0.03] {
        server.hold_clock((time * 1e6) as i64, 1);
        let mut take = || client.query(&query, &[]).ok();
        let rows = if is_open { Some(eventually("IDs", take)) } else { take() };
        taken.extend(rows.iter().flatten().map(|row| row.get::<_, i64>(0)));
    }
    // The clock goes right again.
    server.hold_clock(0, 0);
    let rows = eventually("IDs at the end", || client.query(&query, &[]));
    taken.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    taken
}

/// Ends the writes on the old server while rows are inserted, waits for the new one, and ends the replication. Returns
/// the IDs of the old server. `begins` names the block of the page that ends the writes.
fn switch_writes(page: &str, blue: &Cluster, green: &Cluster, begins: &str) -> Vec<i64> {
    let (written, ()) = beside(writers(blue), || {
        wait_for_rows(blue, "orders", 100);
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
    let mut old = insert_some(&blue);
    run(page, &blue, "on blue", &blue);
    run(page, &green, "on green", &blue);
    let ready = query_at(page, "on green, until the result is true");
    eventually("the copy", || single::<bool>(&mut green.connect(), ready));
    old.extend(switch_writes(page, &blue, &green, "on blue, the switch begins"));

    // Until it is stopped, a server that is read-only issues IDs.
    let many = take_many(&blue);
    blue.stop_server("fast");
    old.extend(&many);
    let last = now() + 1.0;
    // A server that runs would notice that its clock was set back. It knows no history, so its first ID is `max_ahead`
    // after its clock.
    green.stop_server("fast");
    green.hold_clock(((time_of(many[0]) - BEHIND) * 1e6) as i64, 1);
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
    let is_open = green_worker == "-1" && !advances;
    (old, take_over_time_of(&many, &green, "snowflake_nextval()", is_open))
}

#[test]
fn a_new_server_with_its_own_worker_id() {
    let (old, new) = switch(&of_test("switching_servers"), "2", false);
    assert_eq!(repeats(&new, &old), 0);
}

/// The new server gets the worker ID of the old one. Its clock is behind. Without the call of snowflake_raise_floor(), IDs
/// are repeated, so the test can fail.
#[test]
fn a_new_server_with_the_worker_id_of_the_old_one() {
    let page = of_test("switching_servers");
    let (old, new) = switch(&page, "-1", true);
    assert_eq!(repeats(&new, &old), 0);
    assert!(new.iter().min() > old.iter().max());
    let (old, new) = switch(&page, "-1", false);
    assert!(repeats(&new, &old) > 0);
}

/// Takes IDs from both servers, beginning at the same time, which is after that of all IDs before. Returns how many came
/// twice.
fn repeats_beside(blue: &Cluster, green: &Cluster) -> usize {
    let mut clients = [blue.connect(), green.connect()];
    let mut last = |client: &mut Client| {
        wait_for_first_id(client);
        time_of(single(client, "SELECT snowflake_nextval()"))
    };
    let [one, other] = clients.each_mut().map(&mut last);
    let floor = one.max(other) + 0.01;
    let [blue, green] = clients.map(|mut client| {
        client.run(&format!("SELECT snowflake_raise_floor(to_timestamp({floor}))"));
        ids(&mut client, "SELECT snowflake_batch(20000)")
    });
    repeats(&green, &blue)
}

/// Converts a standby to a subscriber, upgrades it, and moves to it. Returns how many IDs both servers issued while both
/// were running.
fn convert(page: &str, has_own_worker_id: bool) -> usize {
    let preserved =
        [("wal_level", "logical"), ("max_replication_slots", "10"), ("snowflake_id.max_ahead", "10min")];
    let blue = Cluster::builder().worker(1).settings(&preserved).start();
    blue.connect().run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
    let mut old = insert_some(&blue);
    let green = blue.start_standby(&[]);
    let worker = if has_own_worker_id { "2" } else { "1" };
    if has_own_worker_id {
        assert!(page.contains("\nsnowflake_id.worker_id = 2\n"));
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
    if repeated > 0 {
        return repeated;
    }
    old.extend(switch_writes(page, &blue, &green, "on blue, the switch begins"));
    let mut client = green.connect();
    let rows: i64 = single(&mut client, "SELECT count(*) FROM orders");
    assert!(rows > 10 && rows <= old.len() as i64, "{rows} of {}", old.len());
    client.run("INSERT INTO orders DEFAULT VALUES");
    0
}

/// Without a worker ID of its own, the converted server repeats IDs of the old one, so the test can fail.
#[test]
fn a_standby_is_converted_and_upgraded() {
    if major(&pg_config()) < 17 {
        println!("there is no pg_createsubscriber");
        return;
    }
    let page = of_test("switching_servers");
    assert_eq!(convert(&page, true), 0);
    assert!(convert(&page, false) > 0);
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
    let mut old = insert_some(&blue);
    let replicate = |from: &Cluster, to: &Cluster| {
        run(page, from, "on blue", from);
        run(page, to, "on green", from);
        let ready = query_at(page, "on green, until the result is true");
        eventually("the copy", || single::<bool>(&mut to.connect(), ready));
    };
    replicate(&blue, &managed);
    old.extend(switch_writes(page, &blue, &managed, "on blue, the switch begins"));
    let many = take_many(&blue);
    old.extend(&many);
    blue.stop_server("fast");

    // The clock of the managed server is behind.
    let mut new = take_over_time_of(&many, &managed, "ids.snowflake_nextval()", worker == 1);
    let repeated = repeats(&new, &old);
    if repeated > 0 {
        return repeated;
    }
    new.extend(insert_some(&managed));

    let green = Cluster::builder().worker(3).start();
    green.connect().run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
    replicate(&managed, &green);
    new.extend(switch_writes(page, &managed, &green, "on a managed server, the switch begins"));
    let rows: i64 = single(&mut green.connect(), "SELECT count(*) FROM orders");
    assert!(rows > 20, "{rows}");
    let last = insert_some(&green);
    assert_distinct(&[old, new, last].concat());
    0
}

/// With the worker ID of the old server in the script, IDs are repeated, so the test can fail.
#[test]
fn a_managed_server_and_back() {
    let page = of_test("switching_servers");
    assert_eq!(to_a_managed_server_and_back(&page, 2), 0);
    assert!(to_a_managed_server_and_back(&page, 1) > 0);
}
