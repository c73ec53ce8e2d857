//! Existing tables are changed to snowflake IDs: under load, with a subscriber, and on a server that cannot issue IDs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::{adoption::adopt_online, *};

/// A bound between numbers from a sequence, which are smaller, and snowflake IDs.
const SMALLEST_ID: i64 = 1 << 40;

fn server() -> Cluster {
    let server = Cluster::builder().worker(1).start();
    wait_for_first_id(&mut server.connect());
    server
}

/// Runs `snowflake_adopt` and returns its result.
fn adopt(client: &mut Client, arguments: &str) -> Vec<String> {
    let rows = client.query(&format!("SELECT snowflake_adopt({arguments})"), &[]);
    let rows = rows.unwrap_or_else(|error| panic!("{arguments}: {}", text(&error)));
    rows.iter().map(|row| row.get(0)).collect()
}

/// Clients that insert rows into a table, and rows that reference them, wait while it is adopted. None of them fails.
#[test]
fn writers_only_wait() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run(
        "CREATE TABLE accounts (id serial PRIMARY KEY);
         CREATE TABLE bookings (id serial PRIMARY KEY, account_id int NOT NULL REFERENCES accounts)",
    );
    let write = |stop: &AtomicBool| {
        let mut client = cluster.connect();
        let mut ids = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let id: i64 = single(&mut client, "INSERT INTO accounts DEFAULT VALUES RETURNING id::bigint");
            let booking = format!("INSERT INTO bookings (account_id) VALUES ({id})");
            client.run(&booking);
            ids.push(id);
            thread::sleep(Duration::from_millis(1));
        }
        ids
    };
    let (ids, ()) = beside([write; 4], || {
        // Rows with numbers from a sequence, then rows with snowflake IDs.
        wait_for_rows(&cluster, "bookings", 300);
        assert_eq!(adopt(&mut cluster.connect(), "'accounts', 'id', false").len(), 4);
        wait_for_rows(&cluster, &format!("bookings WHERE account_id >= {SMALLEST_ID}"), 300);
    });
    let ids = ids.concat();
    assert_distinct(&ids);
    let stored: i64 =
        single(&mut client, "SELECT count(*) FROM accounts JOIN bookings ON account_id = accounts.id");
    assert_eq!(stored, ids.len() as i64);
}

/// An `INSERT` that has locked its table, and is about to read the table that its foreign key references, does not
/// cause a deadlock.
#[test]
fn referencing_tables_are_locked_first() {
    let cluster = server();
    let mut writer = cluster.connect();
    writer.run(
        "CREATE TABLE accounts (id serial PRIMARY KEY);
         CREATE TABLE bookings (account_id int REFERENCES accounts);
         INSERT INTO accounts DEFAULT VALUES",
    );
    writer.run("BEGIN; LOCK TABLE bookings IN ROW EXCLUSIVE MODE");
    thread::scope(|scope| {
        let adoption = scope.spawn(|| adopt(&mut cluster.connect(), "'accounts', 'id', false"));
        let mut observer = cluster.connect();
        eventually("the lock to be waited for", || {
            single::<bool>(&mut observer, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
        });
        writer.run("INSERT INTO bookings VALUES (1); COMMIT");
        assert_eq!(adoption.join().unwrap().len(), 4);
    });
}

/// A publisher of table `orders`, and a subscriber in another database of the server.
fn publisher_and_subscriber() -> (Cluster, Client, Client) {
    let cluster = Cluster::builder().worker(1).set("wal_level", "logical").start();
    let mut publisher = cluster.connect();
    publisher.run("CREATE DATABASE copy");
    let mut subscriber = cluster.connect_to("copy");
    let table = "CREATE TABLE orders (id serial PRIMARY KEY, n int)";
    publisher.run(&format!(
        "{table}; CREATE PUBLICATION orders FOR TABLE orders; INSERT INTO orders (n) VALUES (1)"
    ));
    subscriber.run(&format!("CREATE EXTENSION snowflake_id; {table}"));
    // If both are on one server, the slot must be created beforehand.
    publisher.execute("SELECT pg_create_logical_replication_slot('orders', 'pgoutput')", &[]).unwrap();
    subscriber.run(&format!(
        "CREATE SUBSCRIPTION orders CONNECTION 'host={} user=test dbname=postgres' PUBLICATION orders
         WITH (create_slot = false, binary = true)",
        cluster.host().display()
    ));
    (cluster, publisher, subscriber)
}

/// Replication continues if the subscriber is widened first, as the warnings say.
#[test]
fn the_subscriber_is_widened_first() {
    let (cluster, mut publisher, mut subscriber) = publisher_and_subscriber();
    let mut arrives = |subscriber: &mut Client, n: i32| {
        publisher.execute("INSERT INTO orders (n) VALUES ($1) ON CONFLICT DO NOTHING", &[&n]).unwrap();
        let id: i64 = single(&mut publisher, &format!("SELECT id::bigint FROM orders WHERE n = {n}"));
        all_arrive("the row at the subscriber", || {
            let query = "SELECT FROM orders WHERE id = $1::bigint AND n = $2";
            subscriber.query(query, &[&id, &n]).unwrap().len() == 1
        });
        id
    };
    arrives(&mut subscriber, 2);

    adopt(&mut subscriber, "'orders', 'id', false");
    assert!(
        cluster.log().contains("WARNING:  subscription \"orders\" writes to tables"),
        "{}",
        cluster.log()
    );
    subscriber.run("ALTER SUBSCRIPTION orders SET (binary = false)");
    assert!(arrives(&mut subscriber, 3) < SMALLEST_ID);

    adopt(&mut cluster.connect(), "'orders', 'id', false");
    assert!(cluster.log().contains("WARNING:  publication \"orders\" contains tables"), "{}", cluster.log());
    assert!(arrives(&mut subscriber, 4) > SMALLEST_ID);
    subscriber.run("DROP SUBSCRIPTION orders");
}

/// The steps of "Subscribers" on the page about converting tables, while rows are inserted, updated and deleted.
#[test]
fn a_published_table_is_converted_online() {
    let (cluster, mut publisher, mut subscriber) = publisher_and_subscriber();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writes = scope.spawn(|| {
            let mut writer = cluster.connect();
            let mut n = 1;
            while !is_done.load(Ordering::Relaxed) {
                n += 1;
                writer.execute("INSERT INTO orders (n) VALUES ($1)", &[&n]).unwrap();
                writer.execute("UPDATE orders SET n = -n WHERE n = $1", &[&(n - 3)]).unwrap();
                writer.execute("DELETE FROM orders WHERE n = $1 AND id % 2 = 0", &[&(5 - n)]).unwrap();
            }
            n
        });
        let arrives = |subscriber: &mut Client| {
            let last: i64 = single(&mut cluster.connect(), "SELECT max(id::bigint) FROM orders");
            all_arrive("the newest row at the subscriber", || {
                single::<i64>(subscriber, "SELECT coalesce(max(id::bigint), 0) FROM orders") >= last
            });
        };
        arrives(&mut subscriber);

        adopt(&mut subscriber, "'orders', 'id', false");
        subscriber.run("ALTER SUBSCRIPTION orders SET (binary = false)");
        publisher.run("ALTER PUBLICATION orders DROP TABLE orders");
        subscriber.run("ALTER SUBSCRIPTION orders REFRESH PUBLICATION");
        adopt_online(&mut publisher, "'orders', 'id', pause => '0'").unwrap();
        adopt(&mut publisher, "'orders', 'id', false");
        publisher.run("ALTER PUBLICATION orders ADD TABLE orders");
        subscriber.run("TRUNCATE orders");
        subscriber.run("ALTER SUBSCRIPTION orders REFRESH PUBLICATION");

        arrives(&mut subscriber);
        is_done.store(true, Ordering::Relaxed);
        let written = writes.join().unwrap();
        assert!(written > 100, "only {written} rows");
    });
    let rows = "SELECT coalesce(string_agg(concat(id, ' ', n), ',' ORDER BY id), '') FROM orders";
    let expected: String = single(&mut publisher, rows);
    all_arrive("equal rows at the subscriber", || single::<String>(&mut subscriber, rows) == expected);
    assert!(single::<i64>(&mut publisher, "SELECT count(*) FROM orders WHERE id < 2147483648") > 0);
    assert!(single::<i64>(&mut publisher, "SELECT count(*) FROM orders WHERE id > 2147483647") > 0);
    subscriber.run("DROP SUBSCRIPTION orders");
}

/// A notice gives the name and size of each table before it is rewritten.
#[test]
fn the_table_that_is_being_rewritten_is_named() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run(
        "CREATE FUNCTION is_checked_slowly(bigint) RETURNS boolean LANGUAGE sql
             AS 'SELECT pg_advisory_lock_shared(1); SELECT true';
         CREATE TABLE accounts (id serial PRIMARY KEY);
         CREATE TABLE bookings (account_id int REFERENCES accounts CHECK (is_checked_slowly(account_id)));
         INSERT INTO accounts DEFAULT VALUES;
         INSERT INTO bookings VALUES (1);
         SELECT pg_advisory_unlock_all()",
    );
    let mut holder = cluster.connect();
    holder.run("SELECT pg_advisory_lock(1)");
    thread::scope(|scope| {
        scope.spawn(move || {
            client.run("SET log_min_messages = notice");
            adopt(&mut client, "'accounts', 'id', false")
        });
        eventually("the second table", || {
            cluster
                .log()
                .contains("NOTICE:  table 2 of 2: rewriting public.bookings, 8192 bytes with its indexes")
        });
        assert!(
            cluster
                .log()
                .contains("NOTICE:  table 1 of 2: rewriting public.accounts, 24 kB with its indexes")
        );
        eventually("the rewriting to wait", || {
            single::<bool>(&mut holder, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
        });
        holder.run("SELECT pg_advisory_unlock(1)");
    });
}

/// A table is not given a default that would fail. The dry run warns about it, and its statements can be used later.
#[test]
fn not_preloaded() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client.run("CREATE TABLE orders (id serial PRIMARY KEY, n int)");
    let statements = adopt(&mut client, "'orders', 'id'");
    assert!(
        cluster.log().contains("WARNING:  snowflake_id is not in shared_preload_libraries"),
        "{}",
        cluster.log()
    );
    let (state, message) = failure(&mut client, "SELECT snowflake_adopt('orders', 'id', false)");
    assert_eq!(state, "55000", "{message}");
    client.run("INSERT INTO orders (n) VALUES (1)");

    client.run(&statements.join("\n"));
    cluster.stop_server("fast");
    cluster.configure(&[("shared_preload_libraries", "snowflake_id"), ("snowflake_id.worker_id", "1")]);
    cluster.start_server();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    assert!(single::<i64>(&mut client, "INSERT INTO orders (n) VALUES (2) RETURNING id") > SMALLEST_ID);
}

/// A wait for a lock ends with lock_timeout, without any change.
#[test]
fn a_table_in_use() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run("CREATE TABLE orders (id serial PRIMARY KEY, n int)");
    let mut reader = cluster.connect();
    reader.run("BEGIN; SELECT FROM orders");
    client.run("SET lock_timeout = '50ms'");
    // The dry run does not wait for the lock of the other session.
    assert_eq!(adopt(&mut client, "'orders', 'id'").len(), 3);
    let (state, message) = failure(&mut client, "SELECT snowflake_adopt('orders', 'id', false)");
    assert_eq!(state, "55P03", "{message}");
    reader.run("COMMIT");
    client.run("RESET lock_timeout");
    assert_eq!(adopt(&mut client, "'orders', 'id', false").len(), 3);
}
