//! Faults while tables are adopted online: interrupted calls, locks and snapshots that other sessions hold, wrong rows, two
//! administrators, and copies of a database whose adoption has not ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use harness::{adoption::*, *};

fn server() -> Cluster {
    let cluster = Cluster::builder().worker(1).start();
    create_tables(&mut cluster.connect());
    cluster
}

/// Adds the new columns to all tables. The call is canceled in the pause after the first page.
fn add_columns(cluster: &Cluster) {
    let (mut client, mut other) = (cluster.connect(), cluster.connect());
    thread::scope(|scope| {
        let arguments = "'accounts', 'id', pause => '1 h', batch_pages => 1";
        let canceled = scope.spawn(move || adopt_once(&mut client, arguments).unwrap_err());
        let cancel =
            "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        eventually("the pause", || single::<i64>(&mut other, cancel) == 1);
        let error = canceled.join().unwrap();
        assert!(error.code().is_some_and(|code| code.code() == "57014"), "{}", text(&error));
    });
}

/// An event trigger ends the session at the first command, then after three more commands, then after five more, and so on.
/// Thus every transaction is interrupted between any two of its commands.
#[test]
fn killed_between_any_two_commands() {
    let cluster = server();
    cluster.connect().run(
        "CREATE SEQUENCE commands;
         CREATE FUNCTION end_session() RETURNS event_trigger LANGUAGE plpgsql AS $$
         BEGIN
             -- The checks before a step create indexes on temporary tables.
             IF NOT EXISTS (SELECT FROM pg_event_trigger_ddl_commands() WHERE schema_name LIKE 'pg\\_temp%')
                AND nextval('public.commands') IN (SELECT n * n FROM generate_series(1, 100) AS n) THEN
                 PERFORM pg_terminate_backend(pg_backend_pid());
                 PERFORM pg_sleep(10);
             END IF;
         END
         $$;
         CREATE EVENT TRIGGER end_session ON ddl_command_end EXECUTE FUNCTION end_session()",
    );
    let mut kills = 0;
    let adopt = |client: &mut Client| {
        adopt_online(client, ACCOUNTS)?;
        client.batch_execute("SELECT snowflake_adopt('accounts', 'id', dry_run => false)")
    };
    while let Err(error) = adopt(&mut cluster.connect()) {
        let is_killed = error.is_closed() || error.code().is_some_and(|code| code.code() == "57P01");
        assert!(is_killed, "{}", text(&error));
        kills += 1;
    }
    assert!(kills > 12, "only {kills} kills");
    check_tables(&mut cluster.connect());
}

/// A transaction that uses the tables delays the adoption, which blocks other sessions only for moments, and gives up in
/// the end. It goes on when the transaction has ended.
#[test]
fn long_transactions() {
    let cluster = server();
    let (mut client, mut other, mut writer) = (cluster.connect(), cluster.connect(), cluster.connect());
    let impatient = format!("{ACCOUNTS}, lock_wait => '2 ms'");
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
            || refusal(client, &impatient),
        );
        assert!(updates[0] > 2, "{} updates", updates[0]);
        assert_eq!(result.0, "55P03", "{}", result.1);
        assert!(result.1.starts_with(&format!("gave up after 60 attempts: {at}")), "{}", result.1);
    };
    other.run("BEGIN; SELECT FROM accounts LIMIT 1");
    gives_up(&mut client, "adding new columns to public.accounts");
    other.run("COMMIT");
    add_columns(&cluster);
    // A row that is locked is not waited for.
    other.run("BEGIN; UPDATE accounts SET n = 2 WHERE id = 900");
    gives_up(&mut client, "filling the new columns of public.accounts");
    other.run("COMMIT");
    adopt_online(&mut client, ACCOUNTS).unwrap();
    check_tables(&mut cluster.connect());
}

/// While another session keeps a row of the last pages locked, the row is not filled, and the adoption does not end. Its value
/// is not lost, even if the comment says that all pages are filled.
#[test]
fn a_locked_row_on_the_last_page() {
    let cluster = server();
    let (mut client, mut other) = (cluster.connect(), cluster.connect());
    add_columns(&cluster);
    other.run("BEGIN; SELECT FROM bookings WHERE id > 990 FOR UPDATE");
    // The call tries again and again.
    let impatient =
        format!("CALL snowflake_adopt_online({ACCOUNTS}, lock_wait => '30 ms', dry_run => false)");
    client.run("SET statement_timeout = '3s'");
    let (state, message) = failure(&mut client, &impatient);
    assert_eq!(state, "57014", "{message}");
    let progress =
        "SELECT pages_filled < pages FROM snowflake_adopt_progress WHERE table_name = 'bookings'::regclass";
    assert!(single::<bool>(&mut client, progress));
    let unfilled = "SELECT count(*) FROM bookings AS b WHERE to_jsonb(b) ->> 'snowflake_new_2' IS NULL";
    assert_eq!(single::<i64>(&mut client, unfilled), 10);
    // Then the constraint is checked, and the row is still locked.
    let comment =
        "COMMENT ON COLUMN bookings.snowflake_new_2 IS 'snowflake_adopt_online: 1000000 of 1000000 pages'";
    client.run(comment);
    let (state, message) = failure(&mut client, &impatient);
    assert_eq!(state, "57014", "{message}");
    assert_eq!(single::<i64>(&mut client, unfilled), 10);
    client.run("RESET statement_timeout");
    client.run(comment);
    other.run("COMMIT");
    adopt_online(&mut client, ACCOUNTS).unwrap();
    check_tables(&mut client);
}

/// The proofs are checked again when all tables are locked. A constraint that is valid but proves nothing is refused.
#[test]
fn proofs_that_prove_nothing() {
    let cluster = server();
    let mut client = cluster.connect();
    prepare(&mut client, ACCOUNTS, 3);
    client.run(
        "ALTER TABLE visits DISABLE TRIGGER zz_snowflake_new_1;
         ALTER TABLE visits DROP CONSTRAINT snowflake_new_1,
             ADD CONSTRAINT snowflake_new_1 CHECK (snowflake_new_1 > 0 OR account_id > 0);
         UPDATE visits SET snowflake_new_1 = 7 WHERE account_id = 8;
         ALTER TABLE visits ENABLE ALWAYS TRIGGER zz_snowflake_new_1",
    );
    let (_, message) = refusal(&mut client, ACCOUNTS);
    assert!(message.contains("constraint snowflake_new_1 of table public.visits was changed"), "{message}");
    assert!(!is_bigint(&mut client, "accounts.id"));
    adopt_online(&mut client, &format!("{ACCOUNTS}, abandon => true")).unwrap();
    assert_eq!(left_over(&mut client), 0);
    adopt_online(&mut client, ACCOUNTS).unwrap();
    check_tables(&mut client);
}

/// `lock_wait` is for all tables together. Idle transactions hold the tables, each of them until someone has waited for it for
/// most of that time.
#[test]
fn lock_wait_is_for_all_tables_together() {
    const LOCK_WAIT: Duration = Duration::from_millis(400);
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    let tables: Vec<String> = (1..=5).map(|n| format!("child{n}")).collect();
    client.run("CREATE TABLE accounts (id serial PRIMARY KEY)");
    for table in &tables {
        client.run(&format!("CREATE TABLE {table} (account_id int REFERENCES accounts)"));
    }
    let arguments = format!("{ACCOUNTS}, lock_wait => '{} ms'", LOCK_WAIT.as_millis());
    prepare(&mut client, &arguments, 1);
    let mut holders: Vec<(String, Client)> = tables
        .iter()
        .map(|table| {
            let mut holder = cluster.connect();
            holder.run(&format!("BEGIN; SELECT FROM {table}"));
            (table.clone(), holder)
        })
        .collect();
    // Every query of the tables waits while one of them is locked or about to be.
    let reads = format!("SELECT FROM accounts, {}", tables.join(", "));
    let read = |stop: &AtomicBool| {
        let mut client = cluster.connect();
        let mut slowest = Duration::ZERO;
        while !stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            client.run(&reads);
            slowest = slowest.max(start.elapsed());
            thread::sleep(Duration::from_millis(2));
        }
        slowest
    };
    let (slowest, ()) = beside([read], || {
        thread::scope(|scope| {
            let adoption = scope.spawn(|| adopt_online(&mut cluster.connect(), &arguments).unwrap());
            let mut observer = cluster.connect();
            let waited_for = "SELECT relation::regclass::text FROM pg_locks
                              WHERE NOT granted AND mode = 'AccessExclusiveLock' AND waitstart < clock_timestamp() - $1::text::interval";
            let most = format!("{} ms", LOCK_WAIT.as_millis() * 6 / 10);
            let start = Instant::now();
            let mut first: Option<Instant> = None;
            // Then the first attempt has ended.
            while first.is_none_or(|first| first.elapsed() < LOCK_WAIT * 3) {
                for row in observer.query(waited_for, &[&most]).unwrap() {
                    let table: String = row.get(0);
                    first.get_or_insert_with(Instant::now);
                    if let Some(at) = holders.iter().position(|holder| holder.0 == table) {
                        holders.remove(at).1.run("COMMIT");
                    }
                }
                if start.elapsed() > TIMEOUT {
                    too_slow("the first attempt");
                }
                thread::sleep(Duration::from_millis(10));
            }
            println!(
                "{} of 5 tables were released, {:?} after the begin",
                5 - holders.len(),
                start.elapsed()
            );
            holders.clear();
            adoption.join().unwrap();
        });
    });
    println!("the slowest query took {:?}", slowest[0]);
    assert!(slowest[0] > LOCK_WAIT / 2, "nobody waited");
    assert_within(LOCK_WAIT * 2, slowest[0], "a query of the tables");
}

/// A session that queries a view locks the view, and then waits for the tables.
#[test]
fn a_view_that_is_always_being_read() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run(
        "CREATE VIEW names AS SELECT id, note FROM accounts JOIN visits ON visits.account_id = accounts.id",
    );
    let stop = AtomicBool::new(false);
    let result = thread::scope(|scope| {
        for n in 1..=4 {
            let (cluster, stop) = (&cluster, &stop);
            scope.spawn(move || {
                let mut reader = cluster.connect();
                while !stop.load(Ordering::Relaxed) {
                    reader.run(&format!("SELECT * FROM names WHERE id = {n}"));
                    thread::sleep(Duration::from_millis(4));
                }
            });
        }
        let result = adopt_online(&mut client, &format!("{ACCOUNTS}, lock_wait => '50 ms', views => true"));
        stop.store(true, Ordering::Relaxed);
        result
    });
    result.unwrap_or_else(|error| panic!("{}", text(&error)));
    assert!(is_bigint(&mut client, "names.id"));
}

/// A row violates a foreign key that was valid: it was written while foreign keys were not enforced. The warning names it, and
/// the other foreign keys are checked.
#[test]
fn a_row_that_has_always_been_wrong() {
    let cluster = server();
    cluster.connect().run(
        "SET session_replication_role = replica;
         INSERT INTO bookings (id, account_id) VALUES (5000, 4711)",
    );
    let (sender, notices) = mpsc::channel::<String>();
    let mut client =
        cluster.try_connect_heard("test", move |notice| sender.send(notice.into()).unwrap()).unwrap();
    adopt_online(&mut client, ACCOUNTS).unwrap();
    drop(client);
    let notices: Vec<String> = notices.iter().collect();
    let named: Vec<_> =
        notices.iter().filter(|notice| notice.contains("\"bookings_account_id_fkey\"")).collect();
    assert_eq!(named.len(), 1, "{notices:#?}");
    let mut client = cluster.connect();
    let log = cluster.log();
    assert!(log.contains("WARNING:  insert or update on table \"bookings\" violates"), "{log}");
    assert!(
        log.contains("ALTER TABLE public.bookings VALIDATE CONSTRAINT bookings_account_id_fkey;"),
        "{log}"
    );
    let invalid = "SELECT string_agg(conname, ',')::text FROM pg_constraint WHERE NOT convalidated";
    assert_eq!(single::<String>(&mut client, invalid), "bookings_account_id_fkey");
    assert_eq!(left_over(&mut client), 0);
    assert_eq!(failure(&mut client, "INSERT INTO bookings (account_id) VALUES (-1)").0, "23503");
    // Another call has nothing to do.
    adopt_online(&mut client, ACCOUNTS).unwrap();
    client.run(
        "DELETE FROM bookings WHERE id = 5000;
         ALTER TABLE bookings VALIDATE CONSTRAINT bookings_account_id_fkey",
    );
    check_tables(&mut client);
}

/// A transaction with a snapshot from before the columns were filled would find NULL. So it is waited for.
#[test]
fn old_snapshots() {
    let cluster = Cluster::builder().worker(1).start();
    let (mut client, mut reader) = (cluster.connect(), cluster.connect());
    // Without an index, whose creation would wait as well.
    client.run(
        "CREATE TABLE events (id serial, n int); INSERT INTO events (n) SELECT generate_series(1, 1000)",
    );
    reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM pg_class LIMIT 1");
    let events = "'events', 'id', pause => '0'";
    thread::scope(|scope| {
        let (sender, notices) = mpsc::channel::<String>();
        let mut administrator =
            cluster.try_connect_heard("test", move |notice| sender.send(notice.into()).unwrap()).unwrap();
        let adoption = scope.spawn(move || adopt_online(&mut administrator, events).unwrap());
        let waits = |notice: &String| notice == "waiting for older snapshots";
        assert!(notices.iter().any(|notice| waits(&notice)), "it did not wait");
        assert!(!is_bigint(&mut client, "events.id"));
        assert_eq!(single::<i64>(&mut reader, "SELECT count(*) FROM events WHERE id IS DISTINCT FROM n"), 0);
        reader.run("COMMIT");
        adoption.join().unwrap();
    });
    assert!(is_bigint(&mut client, "events.id"));
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM events WHERE id IS DISTINCT FROM n"), 0);
    assert_eq!(left_over(&mut client), 0);
}

/// Two administrators call at once, and again when one of them is in the way of the other. Both come to the end.
#[test]
fn two_callers_at_once() {
    let cluster = server();
    let call = || {
        let mut client = cluster.connect();
        let mut others = vec![];
        while let Err(error) = adopt_online(&mut client, ACCOUNTS) {
            let state = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
            // In the call, only the index of the other one. In the statements that the calls have returned: the index exists,
            // does not exist any more, or both wait for each other.
            let is_expected =
                ["55006", "42P07", "42704", "40P01", "42703", "42P01"].contains(&state.as_str());
            assert!(is_expected, "{state} {}", text(&error));
            others.push(format!("{state} {}", text(&error)));
            assert!(others.len() < 100, "{others:#?}");
            thread::sleep(Duration::from_millis(20));
        }
        others
    };
    let others: Vec<Vec<String>> = thread::scope(|scope| {
        let callers: Vec<_> = (0..2).map(|_| scope.spawn(call)).collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    println!("{others:#?}");
    check_tables(&mut cluster.connect());
}

/// While a call computes its next step, another session makes the last check of the columns. The call goes on to the end.
#[test]
fn another_session_makes_the_last_check() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY);
         CREATE TABLE lines (order_id int REFERENCES orders);
         INSERT INTO orders VALUES (1);
         INSERT INTO lines VALUES (1)",
    );
    thread::scope(|scope| {
        let caller = scope.spawn(|| adopt_once(&mut cluster.connect(), "'orders', 'id', pause => '1 s'"));
        let filled = "SELECT coalesce(bool_and(pages_filled = pages), false) FROM snowflake_adopt_progress";
        eventually("filled rows", || single::<bool>(&mut client, filled));
        // The obstacles contain security labels. They are computed when it is known that the column is not checked.
        let mut other = cluster.connect();
        other.run("BEGIN; LOCK TABLE pg_seclabel");
        let waits =
            "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'pg_seclabel'::regclass AND NOT granted)";
        eventually("the caller", || single::<bool>(&mut client, waits));
        client.run("ALTER TABLE lines VALIDATE CONSTRAINT snowflake_new_1");
        other.run("COMMIT");
        let next = caller.join().unwrap().unwrap_or_else(|error| panic!("{}", text(&error)));
        assert_eq!(next, None);
    });
    assert!(is_bigint(&mut client, "lines.order_id"));
}

/// The database is dumped and restored between any two calls, with or without comments. All databases go on to the end.
#[test]
fn dumped_and_restored_in_the_middle() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run("COMMENT ON CONSTRAINT visits_account_id_fkey ON visits IS 'their own'");
    for (indexes, has_comments) in [(1, false), (2, true), (3, false)] {
        prepare(&mut client, ACCOUNTS, indexes);
        let dump = cluster.host().join(format!("dump{indexes}"));
        let database = format!("copy{indexes}");
        client.run(&format!("CREATE DATABASE {database}"));
        successful(
            cluster
                .client_program("pg_dump")
                .args(["--format=custom", "--dbname=postgres", "--file"])
                .arg(&dump)
                .args((!has_comments).then_some("--no-comments")),
        );
        cluster.restore(&dump, &database);
        let mut copy = cluster.connect_to(&database);
        copy.run(
            "INSERT INTO accounts (id) VALUES (2000); INSERT INTO visits (account_id) VALUES (2000);
             UPDATE visits SET note = note WHERE account_id < 10; ANALYZE",
        );
        adopt_online(&mut copy, ACCOUNTS).unwrap();
        check_tables(&mut copy);
        let comment = "SELECT obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE conname = 'visits_account_id_fkey'";
        let kept = has_comments.then(|| "their own".to_owned());
        assert_eq!(single::<Option<String>>(&mut copy, comment), kept);
    }
    adopt_online(&mut client, ACCOUNTS).unwrap();
    check_tables(&mut client);
}

/// The application goes on without the extension, and the adoption with it.
#[test]
fn the_extension_is_dropped_in_the_middle() {
    let cluster = server();
    let mut client = cluster.connect();
    for indexes in 0..=3 {
        prepare(&mut client, ACCOUNTS, indexes);
        client.run("DROP EXTENSION snowflake_id");
        client.run(
            "INSERT INTO accounts (id) VALUES (2000); INSERT INTO bookings (account_id) VALUES (2000);
             INSERT INTO visits (account_id, note) VALUES (2000, 'late'); UPDATE bookings SET account_id = account_id;
             DELETE FROM accounts WHERE id = 2000; DELETE FROM visits WHERE note = 'late'",
        );
        client.run("CREATE EXTENSION snowflake_id");
    }
    adopt_online(&mut client, ACCOUNTS).unwrap();
    check_tables(&mut client);
}

/// A table references two tables. The second adoption is refused until the first one has ended.
#[test]
fn two_adoptions_share_a_table() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run(
        "CREATE TABLE products (id serial PRIMARY KEY);
         INSERT INTO products SELECT FROM generate_series(1, 10);
         ALTER TABLE bookings ADD product_id int NOT NULL DEFAULT 1 REFERENCES products ON DELETE RESTRICT;
         CREATE INDEX both_keys ON bookings (account_id, product_id)",
    );
    let products = "'products', 'id', pause => '0'";
    prepare(&mut client, ACCOUNTS, 1);
    let (_, message) = refusal(&mut client, products);
    assert!(
        message.contains("column account_id of table public.bookings is being adopted by another call"),
        "{message}"
    );
    // At the same time.
    thread::scope(|scope| {
        let call = |arguments| {
            let cluster = &cluster;
            move || {
                let mut client = cluster.connect();
                loop {
                    match adopt_online(&mut client, arguments) {
                        Ok(()) => return,
                        Err(error) => {
                            let message = text(&error);
                            let is_busy = message.contains(
                                "column account_id of table public.bookings is being adopted by another call",
                            ) || ["55006", "40P01", "42P07"]
                                .contains(&error.code().unwrap().code());
                            assert!(is_busy, "{message}");
                            thread::sleep(Duration::from_millis(50));
                        }
                    }
                }
            }
        };
        scope.spawn(call(ACCOUNTS));
        scope.spawn(call(products));
    });
    check_tables(&mut client);
    for column in ["products.id", "bookings.product_id"] {
        assert!(is_bigint(&mut client, column), "{column}");
    }
    assert_eq!(failure(&mut client, "DELETE FROM products WHERE id = 1").0[..2], *"23");
}

/// An adoption goes on after a failover to the standby. A standby cannot adopt.
#[test]
fn a_standby_is_promoted_in_the_middle() {
    let cluster = server();
    let standby = cluster.start_standby(&[]);
    let mut client = cluster.connect();
    let (_, read_only) = refusal(&mut standby.connect(), ACCOUNTS);
    assert!(read_only.contains("read-only"), "{read_only}");
    prepare(&mut client, ACCOUNTS, 2);
    all_arrive("the indexes", || new_indexes(&mut standby.connect()) == 2);
    drop(client);
    cluster.stop_server("fast");
    standby.promote();
    let mut client = standby.connect();
    adopt_online(&mut client, ACCOUNTS).unwrap();
    check_tables(&mut client);
}
