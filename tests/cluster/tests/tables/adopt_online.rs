//! Big tables are changed to snowflake IDs while they are used. The procedure is killed at every step, and goes on.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use harness::*;
use postgres::{Config, NoTls};

/// A bound between numbers from a sequence, which are smaller, and snowflake IDs.
const SMALLEST_ID: i64 = 1 << 40;

const CALL: &str = "CALL snowflake_adopt_online('accounts', 'id', dry_run => false, pause => '1 ms')";

/// The number of rows of each table under "make soak".
const MANY_ROWS: i64 = 2_000_000;

/// A table, and two tables that reference it.
fn create_tables(cluster: &Cluster, rows: i64) {
    cluster.connect().run(&format!(
        "CREATE TABLE accounts (id serial PRIMARY KEY, n int NOT NULL);
         CREATE TABLE bookings (
             id serial PRIMARY KEY, account_id int NOT NULL REFERENCES accounts ON DELETE CASCADE
         );
         CREATE TABLE visits (account_id int REFERENCES accounts ON DELETE SET NULL, note text);
         CREATE INDEX ON bookings (account_id);
         CREATE INDEX ON visits (account_id);
         INSERT INTO accounts (n) SELECT 0 FROM generate_series(1, {rows});
         INSERT INTO bookings (account_id) SELECT n FROM generate_series(1, {rows}) AS n;
         INSERT INTO visits SELECT n, 'a note' FROM generate_series(1, {rows}) AS n;
         ANALYZE"
    ));
}

/// Calls the procedure and creates the indexes, until nothing is left to do. Then switches the default.
fn adopt(client: &mut Client) -> Result<(), postgres::Error> {
    loop {
        let row = client.query_one(CALL, &[])?;
        let Some(command) = row.get::<_, Option<String>>(0) else { break };
        client.batch_execute(&command)?;
    }
    client.batch_execute("SELECT snowflake_adopt('accounts', 'id', dry_run => false)")
}

/// The rows that a client has written.
#[derive(Default)]
struct Written {
    inserted: HashSet<i64>,
    deleted: HashSet<i64>,
    /// The connection was lost during the commit.
    unknown: HashSet<i64>,
    slowest: Duration,
}

/// Inserts an account with its booking and visit, updates an old account, and sometimes deletes an account.
fn write(
    client: &mut Client,
    random: &mut Random,
    rows: i64,
    mine: &mut Written,
) -> Result<(), postgres::Error> {
    let start = Instant::now();
    let mut transaction = client.transaction()?;
    let insert = "INSERT INTO accounts (n) VALUES (0) RETURNING id::bigint";
    let account: i64 = transaction.query_one(insert, &[])?.get(0);
    let victim = mine.inserted.iter().copied().next().filter(|_| random.below(4) == 0);
    let mut statements = format!(
        "INSERT INTO bookings (account_id) VALUES ({account}); INSERT INTO visits (account_id, note) VALUES ({account}, 'new');
         UPDATE accounts SET n = n + 1 WHERE id = {};",
        1 + random.below(rows as u64)
    );
    if let Some(victim) = victim {
        statements += &format!("DELETE FROM accounts WHERE id = {victim}");
    }
    transaction.batch_execute(&statements)?;
    mine.unknown.insert(account);
    mine.unknown.extend(victim);
    if let Some(victim) = victim {
        mine.inserted.remove(&victim);
    }
    transaction.commit()?;
    mine.unknown.remove(&account);
    mine.inserted.insert(account);
    if let Some(victim) = victim {
        mine.unknown.remove(&victim);
        mine.deleted.insert(victim);
    }
    mine.slowest = mine.slowest.max(start.elapsed());
    Ok(())
}

/// Whether the connection was lost, because the session or the server was killed.
fn is_lost(client: &Client, error: &postgres::Error) -> bool {
    client.is_closed() || error.code().is_some_and(|code| code.code().starts_with("57P"))
}

fn is_deadlock(error: &postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == "40P01")
}

/// Writes until it is told to stop. Reconnects after the server was restarted. No error other than a deadlock may occur,
/// and that only if it is allowed.
fn write_until(cluster: &Cluster, stop: &AtomicBool, seed: u64, rows: i64, may_deadlock: bool) -> Written {
    let (mut random, mut mine) = (Random::of(seed), Written::default());
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = cluster.try_connect("postgres") else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            match write(&mut client, &mut random, rows, &mut mine) {
                Ok(()) => random.pause(20),
                Err(error) if may_deadlock && is_deadlock(&error) => {}
                Err(error) if is_lost(&client, &error) => break,
                Err(error) => panic!("{}", text(&error)),
            }
        }
    }
    mine
}

/// Runs `event` while clients write.
fn under_writers<T>(
    cluster: &Cluster,
    rows: i64,
    may_deadlock: bool,
    event: impl FnOnce() -> T,
) -> (Vec<Written>, T) {
    let mut random = Random::seeded();
    let writers = (0..3).map(|_| {
        let seed = random.below(u64::MAX);
        move |stop: &AtomicBool| write_until(cluster, stop, seed, rows, may_deadlock)
    });
    beside(writers.collect::<Vec<_>>(), event)
}

/// All rows are there, the keys are wide, all foreign keys are valid, and nothing is left over.
fn check(cluster: &Cluster, rows: i64, written: &[Written]) {
    let mut client = cluster.connect();
    let accounts = ids(&mut client, "SELECT id FROM accounts");
    assert_distinct(&accounts);
    let accounts: HashSet<i64> = accounts.into_iter().collect();
    assert!((1..=rows).all(|id| accounts.contains(&id)), "an old row is missing");
    for mine in written {
        assert!(mine.inserted.is_subset(&accounts), "a new row is missing");
        assert!(mine.deleted.is_disjoint(&accounts), "a deleted row is there");
    }
    let mut is = |what: &str, expected: i64| {
        assert_eq!(single::<i64>(&mut client, &format!("SELECT {what}")), expected, "{what}")
    };
    is("count(*) FROM accounts WHERE (SELECT count(*) FROM bookings WHERE account_id = accounts.id) <> 1", 0);
    is("count(*) FROM accounts WHERE (SELECT count(*) FROM visits WHERE account_id = accounts.id) <> 1", 0);
    is("count(*) FROM bookings WHERE NOT EXISTS (SELECT FROM accounts WHERE id = account_id)", 0);
    is(
        "count(*) FROM visits WHERE account_id IS NOT NULL AND NOT EXISTS (SELECT FROM accounts WHERE id = account_id)",
        0,
    );
    is(
        "count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated AND confrelid = 'accounts'::regclass",
        2,
    );
    is(
        "count(*) FROM pg_attribute WHERE attname ~ '^(id|account_id)$' AND atttypid = 'bigint'::regtype
        AND attrelid IN ('accounts'::regclass, 'bookings'::regclass, 'visits'::regclass)",
        3,
    );
    is(
        "count(*) FROM pg_class WHERE relname ~ '^snowflake_new' OR relkind = 'i' AND NOT (SELECT indisvalid FROM pg_index WHERE indexrelid = oid)",
        0,
    );
    is("count(*) FROM snowflake_adopt_progress", 0);
    let id: i64 = single(&mut client, "INSERT INTO accounts (n) VALUES (0) RETURNING id");
    assert!(id > SMALLEST_ID, "{id}");
}

/// The procedure is killed at the beginning of each step, and while an index is created. Every third time, the whole
/// server crashes.
#[test]
fn killed_at_every_step_while_clients_write() {
    let cluster =
        Cluster::builder().worker(1).set("max_wal_size", "8GB").set("statement_timeout", "15min").start();
    let rows = if is_soak() { MANY_ROWS } else { 20_000 };
    create_tables(&cluster, rows);
    let (sender, steps) = mpsc::channel::<String>();
    let pid = AtomicI32::new(0);
    let (written, kills) = under_writers(&cluster, rows, false, || {
        wait_for_rows(&cluster, "accounts", 30);
        thread::scope(|scope| {
            let (cluster, pid) = (&cluster, &pid);
            let administrator = scope.spawn(move || administer(cluster, pid, sender));
            let mut killed = HashSet::new();
            let mut random = Random::of(7);
            for step in steps {
                if !killed.insert(step) {
                    continue;
                }
                random.pause(30);
                let signal = if killed.len() % 3 == 0 { "KILL" } else { "TERM" };
                kill(signal, pid.load(Ordering::Relaxed));
            }
            administrator.join().unwrap();
            killed
        })
    });
    println!("{} kills, at: {kills:#?}", kills.len());
    assert!(kills.len() >= 15, "only {} kills", kills.len());
    check(&cluster, rows, &written);
    assert!(written.iter().any(|mine| mine.inserted.iter().any(|&id| id < SMALLEST_ID)));
}

/// Repeats the call until it has succeeded, whatever happens to the server. Reports each step to `steps`.
fn administer(cluster: &Cluster, pid: &AtomicI32, steps: mpsc::Sender<String>) {
    let connect = || {
        let steps = steps.clone();
        let mut client = Config::new()
            .host_path(cluster.host())
            .user("test")
            .dbname("postgres")
            .notice_callback(move |notice| {
                let _ = steps.send(notice.message().to_owned());
            })
            .connect(NoTls)?;
        client.batch_execute("SET snowflake_id.max_wait = '30s'")?;
        pid.store(client.query_one("SELECT pg_backend_pid()", &[])?.get(0), Ordering::Relaxed);
        Ok::<Client, postgres::Error>(client)
    };
    loop {
        let Ok(mut client) = connect() else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        match adopt(&mut client) {
            Ok(()) => return,
            Err(error) => assert!(is_lost(&client, &error), "{}", text(&error)),
        }
    }
}

/// An event trigger ends the session at the first command, then after one more command, then after two more, and so on.
/// Thus every transaction is interrupted between any two of its commands.
#[test]
fn killed_between_any_two_commands() {
    let cluster = Cluster::builder().worker(1).start();
    create_tables(&cluster, 1000);
    cluster.connect().run(
        "CREATE SEQUENCE commands;
         CREATE FUNCTION end_session() RETURNS event_trigger LANGUAGE plpgsql AS $$
         BEGIN
             -- The checks before a step create indexes on temporary tables.
             IF NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name LIKE 'pg\\_temp%')
                AND nextval('public.commands') IN (SELECT n * (n + 1) / 2 FROM generate_series(1, 100) AS n) THEN
                 PERFORM pg_terminate_backend(pg_backend_pid());
                 PERFORM pg_sleep(10);
             END IF;
         END
         $$;
         CREATE EVENT TRIGGER end_session ON ddl_command_end EXECUTE FUNCTION end_session()",
    );
    let mut kills = 0;
    while let Err(error) = adopt(&mut cluster.connect()) {
        let is_killed = error.is_closed() || error.code().is_some_and(|code| code.code() == "57P01");
        assert!(is_killed, "{}", text(&error));
        kills += 1;
    }
    assert!(kills > 20, "only {kills} kills");
    check(&cluster, 1000, &[]);
}

/// A transaction that uses the tables delays the adoption, which blocks other sessions only for moments, and gives up in
/// the end. It goes on when the transaction has ended.
#[test]
fn long_transactions() {
    let cluster = Cluster::builder().worker(1).start();
    create_tables(&cluster, 1000);
    let (mut client, mut other, mut writer) = (cluster.connect(), cluster.connect(), cluster.connect());
    let impatient = CALL.replace(')', ", lock_wait => '2 ms')");
    let mut gives_up = |client: &mut Client, at: &str| {
        let (updates, result) = beside(
            [|stop: &AtomicBool| {
                let mut updates = 0;
                while !stop.load(Ordering::Relaxed) {
                    writer.run("UPDATE accounts SET n = n + 1 WHERE id = 3");
                    updates += 1;
                    thread::sleep(Duration::from_millis(2));
                }
                updates
            }],
            || failure(client, &impatient),
        );
        assert!(updates[0] > 2, "{} updates", updates[0]);
        assert_eq!(result.0, "55P03", "{}", result.1);
        assert!(result.1.starts_with(&format!("gave up after 60 attempts: {at}")), "{}", result.1);
    };
    other.run("BEGIN; SELECT FROM accounts LIMIT 1");
    gives_up(&mut client, "adding new columns to public.accounts");
    other.run("COMMIT");
    // Canceled in the pause after the first page.
    thread::scope(|scope| {
        let slow = CALL.replace("'1 ms'", "'1 h', batch_pages => 1");
        let client = &mut client;
        let canceled = scope.spawn(move || failure(client, &slow));
        let cancel =
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        eventually("the pause", || single::<i64>(&mut other, cancel) == 1);
        assert_eq!(canceled.join().unwrap().0, "57014");
    });
    // A row that is locked is not waited for.
    other.run("BEGIN; UPDATE accounts SET n = 2 WHERE id = 900");
    gives_up(&mut client, "filling the new columns of public.accounts");
    other.run("COMMIT");
    adopt(&mut client).unwrap();
    check(&cluster, 1000, &[]);
}

/// Both procedures leave all rows of clients that write meanwhile. With many rows, under "make soak", the longest times that
/// a writer waited are compared.
#[test]
fn how_long_writers_wait() {
    let rows = if is_soak() { MANY_ROWS } else { 5_000 };
    let mut slowest = vec![];
    for is_online in [true, false] {
        let cluster =
            Cluster::builder().worker(1).set("max_wal_size", "8GB").set("statement_timeout", "15min").start();
        create_tables(&cluster, rows);
        // snowflake_adopt() locks the tables in another order than the writers.
        let (written, took) = under_writers(&cluster, rows, !is_online, || {
            let mut client = cluster.connect();
            eventually("writers", || single::<bool>(&mut client, "SELECT max(n) > 0 FROM accounts"));
            let start = Instant::now();
            let mut adopt = || match is_online {
                true => adopt(&mut client),
                false => client.batch_execute("SELECT snowflake_adopt('accounts', 'id', dry_run => false)"),
            };
            while let Err(error) = adopt() {
                assert!(!is_online && is_deadlock(&error), "{}", text(&error));
            }
            start.elapsed()
        });
        check(&cluster, rows, &written);
        let wait = written.iter().map(|mine| mine.slowest).max().unwrap();
        let name = if is_online { "snowflake_adopt_online()" } else { "snowflake_adopt()" };
        println!("{name}, {rows} rows: took {took:?}, the slowest transaction of a writer took {wait:?}");
        slowest.push(wait);
    }
    assert!(!is_soak() || slowest[0] * 5 < slowest[1], "{slowest:?}");
}
