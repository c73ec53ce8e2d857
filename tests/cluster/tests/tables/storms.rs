//! Tables are adopted beside clients that never stop writing: the referenced row first, the referencing rows first, or a number
//! of the sequence first. The session of the administrator is killed at random moments and at every step, and the server
//! crashes.
//!
//! Clients sleep inside of their transactions. So each table is locked by someone for much of the time, on a machine that has
//! time for other tests.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use harness::{adoption::*, *};

/// A bound between numbers from a sequence, which are smaller, and snowflake IDs.
const SMALLEST_ID: i64 = 1 << 40;

/// While the procedure waits for locks, clients wait behind it. So it must not wait for long, and leaves them alone for ten
/// times as long.
const ARGUMENTS: &str = "'accounts', 'id', pause => '1 ms', lock_wait => '60 ms'";

const SWITCH: &str = "SELECT snowflake_adopt('accounts', 'id', dry_run => false)";

/// What a client does in its transactions.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// Inserts an account, then the rows that reference it.
    AccountFirst,
    /// Updates rows that reference an account, then the account.
    AccountLast,
    /// Takes a number of the sequence, and then inserts rows with it, as Hibernate does. The transaction keeps the sequence
    /// locked.
    NumberFirst,
}
use Order::*;

const EVERY_ORDER: [Order; 3] = [AccountFirst, AccountLast, NumberFirst];

/// `copy` contains the text of the key that the client has stored.
fn create_tables(cluster: &Cluster, rows: i64) {
    cluster.connect().run(&format!(
        "CREATE TABLE accounts (
             id serial PRIMARY KEY, invited_by int REFERENCES accounts ON DELETE SET NULL, note text, copy text
         );
         CREATE TABLE bookings (
             id serial PRIMARY KEY, account_id int NOT NULL REFERENCES accounts ON DELETE CASCADE ON UPDATE CASCADE,
             n int NOT NULL, copy text
         );
         CREATE TABLE visits (
             account_id int CHECK (account_id > 0) REFERENCES accounts ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
             n int NOT NULL, copy text
         );
         CREATE INDEX ON bookings (account_id);
         CREATE INDEX ON bookings (account_id, n DESC) WHERE n > 2;
         CREATE INDEX ON visits (account_id);
         INSERT INTO accounts (copy) SELECT n FROM generate_series(1, {rows}) AS n;
         INSERT INTO bookings (account_id, n, copy) SELECT n, n % 7, n FROM generate_series(1, {rows}) AS n;
         INSERT INTO visits (account_id, n, copy) SELECT n, n % 7, n FROM generate_series(1, {rows}) AS n;
         ANALYZE"
    ));
}

/// A client with rows of its own, so that no transaction waits for a row of another one.
struct Writer {
    order: Order,
    may_deadlock: bool,
    random: Random,
    /// The longest time between two transactions, in milliseconds.
    pause: u64,
    /// The longest time between the account and the rows that reference it.
    window: u64,
    /// Accounts of the first rows that belong to this client and were not deleted.
    old: Vec<i64>,
    inserted: HashSet<i64>,
    deleted: HashSet<i64>,
    /// The connection was lost during the commit.
    unknown: HashSet<i64>,
    transactions: u64,
    slowest: Duration,
}

impl Writer {
    fn new(orders: &[Order], at: usize, may_deadlock: bool, random: &mut Random, rows: i64) -> Writer {
        let is_mixed = orders.iter().any(|order| matches!(order, AccountLast));
        Writer {
            order: orders[at],
            may_deadlock,
            random: Random::of(random.below(u64::MAX)),
            // If all three orders were always under way, no attempt could succeed. If all clients write accounts first, only
            // an attempt that locks accounts first can succeed.
            pause: if is_mixed { 40 } else { 1 },
            window: if is_mixed { 4 } else { 20 },
            old: (1..=rows).filter(|id| *id as usize % orders.len() == at).collect(),
            inserted: HashSet::new(),
            deleted: HashSet::new(),
            unknown: HashSet::new(),
            transactions: 0,
            slowest: Duration::ZERO,
        }
    }

    /// Writes until it is told to stop. Connects again after the server was restarted. No error of another kind may occur.
    fn run(mut self, cluster: &Cluster, stop: &AtomicBool) -> Writer {
        while !stop.load(Ordering::Relaxed) {
            let Ok(mut client) = cluster.try_connect("postgres") else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                match self.write(&mut client) {
                    Ok(()) => {
                        self.transactions += 1;
                        self.slowest = self.slowest.max(start.elapsed());
                        self.random.pause(self.pause);
                    }
                    Err(error) if self.may_deadlock && is_deadlock(&error) => {}
                    Err(error) if is_lost(&client, &error) => break,
                    Err(error) => panic!("{:?}: {}", self.order, text(&error)),
                }
            }
        }
        self
    }

    fn write(&mut self, client: &mut Client) -> Result<(), postgres::Error> {
        let at = self.random.below(self.old.len() as u64) as usize;
        let old = self.old[at];
        let mut transaction = client.transaction()?;
        let mut new = None;
        let mut victim = None;
        match self.order {
            AccountFirst | NumberFirst => {
                let id: i64 = match self.order {
                    AccountFirst => {
                        let insert = "INSERT INTO accounts (note) VALUES ('new') RETURNING id::bigint";
                        transaction.query_one(insert, &[])?.get(0)
                    }
                    _ => {
                        let id = transaction.query_one("SELECT nextval('accounts_id_seq')", &[])?.get(0);
                        self.random.pause(4);
                        transaction.batch_execute(&format!("INSERT INTO accounts (id) VALUES ({id})"))?;
                        id
                    }
                };
                new = Some(id);
                transaction.batch_execute(&format!("UPDATE accounts SET copy = id WHERE id = {id}"))?;
                self.random.pause(self.window);
                transaction.batch_execute(&format!(
                    "INSERT INTO bookings (account_id, n, copy) VALUES ({id}, {}, {id});
                     INSERT INTO visits (account_id, n, copy) VALUES ({id}, 1, {id})",
                    self.random.below(9)
                ))?;
                self.random.pause(4);
                match self.random.below(4) {
                    0 if self.old.len() > 10 => {
                        victim = Some(old);
                        transaction.batch_execute(&format!("DELETE FROM accounts WHERE id = {old}"))?;
                    }
                    1 => transaction
                        .batch_execute(&format!("UPDATE accounts SET invited_by = {old} WHERE id = {id}"))?,
                    2 => transaction
                        .batch_execute(&format!("UPDATE bookings SET n = n + 1 WHERE account_id = {old}"))?,
                    _ => {}
                }
            }
            AccountLast => {
                transaction
                    .batch_execute(&format!("UPDATE visits SET n = n + 1 WHERE account_id = {old}"))?;
                self.random.pause(4);
                transaction
                    .batch_execute(&format!("UPDATE bookings SET n = n + 1 WHERE account_id = {old}"))?;
                self.random.pause(4);
                transaction
                    .batch_execute(&format!("UPDATE accounts SET note = 'changed' WHERE id = {old}"))?;
            }
        }
        self.unknown.extend(new.iter().chain(&victim));
        if victim.is_some() {
            self.old.swap_remove(at);
        }
        transaction.commit()?;
        for id in new.iter().chain(&victim) {
            self.unknown.remove(id);
        }
        self.inserted.extend(new);
        self.deleted.extend(victim);
        Ok(())
    }
}

/// Whether the connection was lost, because the session or the server was killed.
fn is_lost(client: &Client, error: &postgres::Error) -> bool {
    client.is_closed() || error.code().is_some_and(|code| code.code().starts_with("57P"))
}

fn is_deadlock(error: &postgres::Error) -> bool {
    error.code().is_some_and(|code| code.code() == "40P01")
}

/// Runs `adopt`, which adopts the tables, beside these clients. Returns the longest time of a transaction of a client.
fn storm(orders: &[Order], may_deadlock: bool, adopt: impl FnOnce(&Cluster, &mut Random)) -> Duration {
    let rows = if is_soak() { 2_000_000 } else { 5_000 };
    let cluster =
        Cluster::builder().worker(1).set("max_wal_size", "8GB").set("statement_timeout", "15min").start();
    create_tables(&cluster, rows);
    let mut random = Random::seeded();
    let writers: Vec<Writer> =
        (0..orders.len()).map(|at| Writer::new(orders, at, may_deadlock, &mut random, rows)).collect();
    let clients = writers.into_iter().map(|writer| |stop: &AtomicBool| writer.run(&cluster, stop));
    let (writers, ()) = beside(clients.collect::<Vec<_>>(), || {
        wait_for_activity(&cluster);
        let start = Instant::now();
        adopt(&cluster, &mut random);
        println!("{rows} rows: took {:?}", start.elapsed());
        // Writers that leave the ID to the default get IDs, beside those that go on with the sequence.
        wait_for_rows(&cluster, &format!("accounts WHERE id >= {SMALLEST_ID}"), 3);
    });
    for writer in &writers {
        println!(
            "{:?}: {} transactions, the slowest took {:?}",
            writer.order, writer.transactions, writer.slowest
        );
        assert!(writer.transactions > 10, "{:?} has done nothing", writer.order);
    }
    check(&cluster, rows, &writers);
    writers.iter().map(|writer| writer.slowest).max().unwrap()
}

/// Waits until the clients have written.
fn wait_for_activity(cluster: &Cluster) {
    let mut client = cluster.connect();
    let next = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    let before: i64 = single(&mut client, next);
    eventually("writers", || single::<i64>(&mut client, next) > before + 20);
}

/// Lets an administrator adopt the tables, while `accidents` runs with the process ID of the administrator's session and the
/// steps that begin. Returns what `accidents` returns, which is the number of accidents.
fn run(cluster: &Cluster, accidents: impl FnOnce(&Mutex<i32>, mpsc::Receiver<String>) -> usize) -> usize {
    let (sender, steps) = mpsc::channel();
    let pid = Mutex::new(0);
    thread::scope(|scope| {
        let administrator = scope.spawn(|| administer(cluster, &pid, sender));
        let count = accidents(&pid, steps);
        let (exchange, sessions) = administrator.join().unwrap();
        println!("from the exchange on {exchange:?}, {sessions} sessions, {count} accidents");
        count
    })
}

/// Repeats the call until it has succeeded, whatever happens to the session and the server, and then switches the default.
/// Returns the time from the beginning of the exchange, and the number of sessions.
fn administer(cluster: &Cluster, pid: &Mutex<i32>, steps: mpsc::Sender<String>) -> (Duration, usize) {
    let mut sessions = 0;
    let exchange = Arc::new(OnceLock::new());
    loop {
        let (steps, begin) = (steps.clone(), exchange.clone());
        let hear = move |notice: &str| {
            if notice.starts_with("replacing the columns") {
                begin.get_or_init(Instant::now);
            }
            // The accidents may be over.
            let _ = steps.send(notice.to_owned());
        };
        let Ok(mut client) = cluster.try_connect_heard("test", hear) else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        sessions += 1;
        let result = client.query_one("SELECT pg_backend_pid()", &[]).and_then(|row| {
            *pid.lock().unwrap() = row.get(0);
            adopt_online(&mut client, ARGUMENTS)?;
            client.batch_execute(&format!("SET snowflake_id.max_wait = '30s'; {SWITCH}"))
        });
        *pid.lock().unwrap() = 0;
        match result {
            Ok(()) => {
                let took = exchange.get().map_or(Duration::ZERO, Instant::elapsed);
                // The last signal may have come after the last step. If it was SIGKILL, all sessions are restarted.
                if client.batch_execute("SELECT 1").is_err() {
                    eventually("the server", || cluster.try_connect_heard("test", |_| {}).ok());
                }
                return (took, sessions);
            }
            Err(error) if is_lost(&client, &error) => {}
            Err(error) => {
                // The session that was killed has not ended yet.
                let is_building = error.code().is_some_and(|code| code.code() == "55006");
                assert!(is_building, "{}", text(&error));
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Signals the administrator's session. Returns false if there is none.
fn signal(name: &str, pid: &Mutex<i32>) -> bool {
    // Holds the lock until the signal is sent, so that none is sent after the administrator has read the result.
    let pid = pid.lock().unwrap();
    if *pid != 0 {
        kill(name, *pid);
    }
    *pid != 0
}

/// Terminates the administrator's session at random moments.
fn kill_at_random(
    pid: &Mutex<i32>,
    steps: mpsc::Receiver<String>,
    most: usize,
    random: &mut Random,
) -> usize {
    let mut kills = 0;
    loop {
        let end = Instant::now() + random.milliseconds(if is_soak() { 30_000 } else { 700 });
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            match steps.recv_timeout(left) {
                Err(mpsc::RecvTimeoutError::Disconnected) => return kills,
                Ok(_) | Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
        if kills < most && signal("TERM", pid) {
            kills += 1;
        }
    }
}

/// Runs `accident` soon after the beginning of one in `one_in` steps, with the number of accidents so far. It returns
/// whether there was one.
fn at_steps(
    steps: mpsc::Receiver<String>,
    one_in: u64,
    random: &mut Random,
    accident: impl Fn(usize) -> bool,
) -> usize {
    let (mut seen, mut count) = (HashSet::new(), 0);
    let first = random.below(one_in) as usize;
    for step in steps {
        if seen.insert(step) && (seen.len() + first).is_multiple_of(one_in as usize) {
            random.pause(40);
            count += accident(count) as usize;
        }
    }
    count
}

/// No row is lost or wrong, all foreign keys are valid and enforced, and nothing is left over.
fn check(cluster: &Cluster, rows: i64, writers: &[Writer]) {
    let mut client = cluster.connect();
    let accounts: HashSet<i64> = ids(&mut client, "SELECT id FROM accounts").into_iter().collect();
    for writer in writers {
        assert!(writer.inserted.is_subset(&accounts), "a new row is missing");
        assert!(writer.deleted.is_disjoint(&accounts), "a deleted row is there");
        assert!(
            writer.old.iter().all(|id| accounts.contains(id) || writer.unknown.contains(id)),
            "an old row is missing"
        );
    }
    let mut is = |what: &str, expected: i64| {
        assert_eq!(single::<i64>(&mut client, &format!("SELECT {what}")), expected, "{what}");
    };
    is("count(*) FROM accounts WHERE id::text IS DISTINCT FROM copy", 0);
    is("count(*) FROM bookings WHERE account_id::text IS DISTINCT FROM copy", 0);
    // NULL only if the account was deleted.
    is(
        "count(*) FROM visits LEFT JOIN accounts ON id::text = visits.copy
         WHERE account_id::text IS DISTINCT FROM accounts.id::text",
        0,
    );
    is("count(*) FROM bookings LEFT JOIN accounts ON accounts.id = account_id WHERE accounts.id IS NULL", 0);
    is(
        "count(*) FROM accounts LEFT JOIN accounts AS inviting ON inviting.id = accounts.invited_by
         WHERE accounts.invited_by IS NOT NULL AND inviting.id IS NULL",
        0,
    );
    // Each account has one of each.
    is("count(*) - (SELECT count(*) FROM bookings) FROM accounts", 0);
    is("count(*) - (SELECT count(*) FROM visits WHERE account_id IS NOT NULL) FROM accounts", 0);
    is("count(DISTINCT copy) - count(*) FROM visits", 0);
    let inserted: usize = writers.iter().map(|writer| writer.inserted.len()).sum();
    let unknown: usize = writers.iter().map(|writer| writer.unknown.len()).sum();
    let visits: i64 = single(&mut client, "SELECT count(*) FROM visits");
    let least = rows + inserted as i64;
    assert!((least..=least + unknown as i64).contains(&visits), "{visits} visits instead of {least}");
    let mut is = |what: &str, expected: i64| {
        assert_eq!(single::<i64>(&mut client, &format!("SELECT {what}")), expected, "{what}");
    };
    is(
        "count(*) FROM pg_constraint WHERE contype = 'f' AND convalidated AND confrelid = 'accounts'::regclass",
        3,
    );
    is("count(*) FROM pg_constraint WHERE NOT convalidated", 0);
    is(
        "count(*) FROM pg_index WHERE indrelid IN ('accounts'::regclass, 'bookings'::regclass, 'visits'::regclass)",
        5,
    );
    is(
        "count(*) FROM pg_attribute WHERE attname IN ('id', 'account_id', 'invited_by') AND atttypid = 'bigint'::regtype
         AND attrelid IN ('accounts'::regclass, 'bookings'::regclass, 'visits'::regclass)",
        4,
    );
    assert_eq!(left_over(&mut client), 0);
    for orphan in [
        "INSERT INTO bookings (account_id, n) VALUES (-1, 1)",
        "INSERT INTO accounts (invited_by) VALUES (-1)",
        "INSERT INTO visits (account_id, n) VALUES (1234567890123, 1)",
    ] {
        assert_eq!(failure(&mut client, orphan).0, "23503", "{orphan}");
    }
    let id: i64 = single(&mut client, "INSERT INTO accounts DEFAULT VALUES RETURNING id");
    assert!(id > SMALLEST_ID, "{id}");
    client.run(&format!(
        "INSERT INTO bookings (account_id, n) VALUES ({id}, 1); INSERT INTO visits (account_id, n, copy) VALUES ({id}, 1, 'last');
         DELETE FROM accounts WHERE id = {id}"
    ));
    assert_eq!(
        single::<i64>(&mut client, &format!("SELECT count(*) FROM bookings WHERE account_id = {id}")),
        0
    );
    assert!(single::<bool>(&mut client, "SELECT account_id IS NULL FROM visits WHERE copy = 'last'"));
}

/// No order of locks suits all of them.
#[test]
fn every_order() {
    storm(&EVERY_ORDER, false, |cluster, _| {
        run(cluster, |_, _| 0);
    });
}

#[test]
fn killed_at_random_moments() {
    let most = if is_soak() { usize::MAX } else { 10 };
    storm(&EVERY_ORDER, false, |cluster, random| {
        let kills = run(cluster, |pid, steps| kill_at_random(pid, steps, most, random));
        assert!(kills > 0, "no kill");
    });
}

/// Also while an index is created. Every third time, SIGKILL makes the server restart all sessions.
#[test]
fn killed_at_every_step() {
    storm(&[AccountFirst; 3], false, |cluster, random| {
        let kills = run(cluster, |pid, steps| {
            at_steps(steps, 1, random, |count| signal(if count % 3 == 2 { "KILL" } else { "TERM" }, pid))
        });
        assert!(kills >= 15, "only {kills} kills");
    });
}

#[test]
fn the_server_crashes_at_steps() {
    let one_in = if is_soak() { 1 } else { 4 };
    storm(&EVERY_ORDER, false, |cluster, random| {
        let crashes = run(cluster, |_, steps| {
            at_steps(steps, one_in, random, |_| {
                cluster.restart("immediate");
                true
            })
        });
        assert!(crashes > 0, "no crash");
    });
}

/// snowflake_adopt() keeps all rows, too, although it locks the tables in another order than the writers. With many rows, under
/// "make soak", the longest times that a writer waits beside the two are compared.
#[test]
fn how_long_writers_wait() {
    let at_once = storm(&[AccountFirst; 3], true, |cluster, _| {
        while let Err(error) = cluster.connect().batch_execute(SWITCH) {
            assert!(is_deadlock(&error), "{}", text(&error));
        }
    });
    if is_soak() {
        let online = storm(&[AccountFirst; 3], false, |cluster, _| {
            run(cluster, |_, _| 0);
        });
        assert!(online * 5 < at_once, "{online:?}, {at_once:?}");
    }
}
