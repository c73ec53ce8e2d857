//! Rights of roles to take numbers, in other sessions, on standbys, after crashes and in dumps. All other cases are in
//! tests/regress/sql/segment_privileges.sql and segment_defaults.sql.

use harness::segments::*;
use harness::*;

const ROLES: &str = "
    CREATE ROLE clerk LOGIN;
    CREATE ROLE team;
    GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text) TO clerk";

/// A session as role `clerk`.
fn clerk_of(server: &Cluster) -> Client {
    let mut client = server.connect();
    client.run("SET ROLE clerk");
    client
}

/// The SQLSTATE with which a call fails, or `None` if the call returns a number.
fn outcome(client: &mut Client, query: &str) -> Option<String> {
    client
        .query_one(query, &[])
        .err()
        .map(|error| error.code().expect("an error of the server").code().into())
}

const NEXT: &str = "SELECT snowflake_segment_nextval('orders')";
const DENIED: Option<&str> = Some("42501");

/// A session that has cached its rights, and has prepared its statement, learns of all changes.
#[test]
fn other_sessions_learn_of_changes() {
    let server = single_server().start();
    administer(&server, "create_segment('orders')");
    let mut admin = server.connect();
    admin.run(ROLES);
    let (mut clerk, mut in_transaction) = (clerk_of(&server), clerk_of(&server));
    let prepared = clerk.prepare(NEXT).unwrap();
    let mut take =
        || clerk.query_one(&prepared, &[]).err().map(|error| error.code().unwrap().code().to_owned());
    assert_eq!(take(), None);

    for (change, denied) in [
        ("SELECT snowflake_segment_grant('items', 'clerk')", true),
        ("SELECT snowflake_segment_grant('orders', 'clerk')", false),
        ("SELECT snowflake_segment_revoke('orders', 'clerk')", true),
        ("SELECT snowflake_segment_grant('orders', 'team')", true),
        ("GRANT team TO clerk", false),
        ("REVOKE team FROM clerk", true),
        ("ALTER ROLE clerk SUPERUSER", false),
        ("ALTER ROLE clerk NOSUPERUSER", true),
        ("SELECT snowflake_segment_grant_all('clerk')", false),
        ("INSERT INTO snowflake_internal.segment_grant VALUES ('clerk', '{}')", true),
        ("UPDATE snowflake_internal.segment_grant SET names = '{orders}'", false),
        ("DELETE FROM snowflake_internal.segment_grant", false),
        ("COPY snowflake_internal.segment_grant FROM PROGRAM 'printf ''clerk\\t{}\\n'''", true),
        ("TRUNCATE snowflake_internal.segment_grant", false),
        // As a restore does it.
        (
            "SET LOCAL session_replication_role = replica;
             INSERT INTO snowflake_internal.segment_grant VALUES ('clerk', '{}')",
            true,
        ),
        ("SELECT snowflake_segment_grant_all('clerk')", false),
    ] {
        let before = take();
        admin.run("BEGIN");
        admin.run(change);
        assert_eq!(take(), before, "before the commit of: {change}");
        admin.run("COMMIT");
        assert_eq!(take().as_deref(), if denied { DENIED } else { None }, "{change}");
    }

    // A change that is rolled back, and one that is prepared.
    admin.run("BEGIN; SELECT snowflake_segment_grant('items', 'clerk'); ROLLBACK");
    assert_eq!(take(), None);
    // In a transaction, no later than at the next lock of a relation.
    in_transaction.run("BEGIN");
    assert_eq!(outcome(&mut in_transaction, NEXT), None);
    admin.run("SELECT snowflake_segment_grant('items', 'clerk')");
    in_transaction.run("CREATE TEMPORARY TABLE locked (id int)");
    assert_eq!(outcome(&mut in_transaction, NEXT).as_deref(), DENIED);
}

/// A session that inserts rows by a prepared statement, and has cached that the table's owner has the privileges,
/// learns of all changes.
#[test]
fn other_sessions_learn_of_changes_of_defaults() {
    let server = single_server().start();
    administer(&server, "create_segment('orders')");
    let mut admin = server.connect();
    admin.run(
        "CREATE ROLE clerk LOGIN; CREATE ROLE owner; CREATE ROLE another; CREATE ROLE team;
         GRANT EXECUTE ON FUNCTION snowflake_segment_nextval(text) TO owner;
         CREATE TABLE orders (id bigint DEFAULT snowflake_segment_nextval('orders'));
         GRANT INSERT ON orders TO clerk;
         ALTER TABLE orders OWNER TO owner",
    );
    let mut clerk = clerk_of(&server);
    let prepared = clerk.prepare("INSERT INTO orders DEFAULT VALUES").unwrap();
    let mut insert =
        || clerk.execute(&prepared, &[]).err().map(|error| error.code().unwrap().code().to_owned());
    assert_eq!(insert(), None);
    let function = "EXECUTE ON FUNCTION snowflake_segment_nextval(text)";
    for (change, denied) in [
        (&*format!("REVOKE {function} FROM owner"), true),
        (&format!("GRANT {function} TO team"), true),
        ("GRANT team TO owner", false),
        ("ALTER TABLE orders OWNER TO another", true),
        ("ALTER TABLE orders OWNER TO owner", false),
        ("SELECT snowflake_segment_grant('items', 'team')", true),
        ("SELECT snowflake_segment_grant('orders', 'owner')", false),
        ("ALTER TABLE orders ALTER id SET DEFAULT snowflake_segment_nextval('bills')", true),
        ("ALTER TABLE orders ALTER id SET DEFAULT snowflake_segment_nextval('orders')", false),
        ("REVOKE INSERT ON orders FROM clerk", true),
        ("GRANT INSERT ON orders TO clerk", false),
        ("DROP OWNED BY team", true),
        (&format!("GRANT {function} TO clerk"), false),
        ("SELECT snowflake_segment_grant('items', 'clerk')", true),
        ("SELECT snowflake_segment_grant_all('clerk')", false),
    ] {
        admin.run(change);
        assert_eq!(insert().as_deref(), if denied { DENIED } else { None }, "{change}");
    }
}

/// The rights are those of the WAL: on a standby, after a promotion, and after a crash.
#[test]
fn standbys_and_crashes() {
    let primary = single_server().start();
    administer(&primary, "create_segment('orders')");
    let mut admin = primary.connect();
    admin.run(ROLES);
    let standby = primary.start_standby(&[]);
    let mut reader = clerk_of(&standby);
    // A standby gives no numbers.
    assert_eq!(outcome(&mut reader, NEXT).as_deref(), Some("55000"));
    admin.run("SELECT snowflake_segment_grant('items', 'clerk')");
    eventually("the standby to know", || outcome(&mut reader, NEXT).as_deref() == DENIED);
    admin.run("SELECT snowflake_segment_grant('orders', 'clerk')");
    eventually("the standby to know", || outcome(&mut reader, NEXT).as_deref() == Some("55000"));
    admin.run("SELECT snowflake_segment_revoke('orders', 'clerk')");
    eventually("the standby to know", || outcome(&mut reader, NEXT).as_deref() == DENIED);
    drop(admin);

    primary.crash_a_backend();
    primary.wait_until_up();
    assert_eq!(outcome(&mut clerk_of(&primary), NEXT).as_deref(), DENIED);
    primary.restart("immediate");
    assert_eq!(outcome(&mut clerk_of(&primary), NEXT).as_deref(), DENIED);
    assert!(next(&mut primary.connect(), "orders") > 0);

    primary.stop_server("immediate");
    standby.promote();
    assert_eq!(outcome(&mut reader, NEXT).as_deref(), DENIED);
    standby.connect().run("SELECT snowflake_segment_grant('orders', 'clerk')");
    assert_eq!(outcome(&mut reader, NEXT), None);
}

/// A dump names the roles, so that it can be restored where they have other OIDs. A session that is connected while the
/// dump is restored learns of the limits.
#[test]
fn a_dump_contains_the_limits() {
    let old = Cluster::builder().worker(1).start();
    let mut admin = old.connect();
    admin.run(ROLES);
    admin.run(
        "CREATE ROLE \"a Team\";
         SELECT snowflake_segment_grant('orders', 'clerk'), snowflake_segment_grant('items', '\"a Team\"');
         SELECT snowflake_segment_revoke('items', '\"a Team\"')",
    );
    let dump = old.dump();

    let new = single_server().start();
    administer(&new, "create_segment('orders')");
    let mut admin = new.connect();
    admin.run(
        "CREATE ROLE \"a Team\"; CREATE ROLE another; CREATE ROLE clerk LOGIN;
         CREATE ROLE dumper LOGIN",
    );
    admin.run("CREATE DATABASE restored OWNER dumper");
    new.restore(&dump, "restored");
    let mut restored = new.connect_to("restored");
    let rows = restored
        .query("SELECT role::text, names::text FROM snowflake_internal.segment_grant ORDER BY 1", &[]);
    let rows: Vec<(String, String)> = rows.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect();
    let expected = [("\"a Team\"", "{}"), ("clerk", "{orders}")];
    assert_eq!(rows, expected.map(|(role, names)| (role.to_owned(), names.to_owned())));
    restored.run("SET ROLE clerk");
    assert_eq!(outcome(&mut restored, NEXT), None);
    assert_eq!(outcome(&mut restored, "SELECT snowflake_segment_nextval('items')").as_deref(), DENIED);

    // A role that is not a superuser excludes the tables that only superusers can read, as the book says.
    let page = harness::book::read("docs/run/replication.md").replace('\n', " ");
    let options: Vec<&str> =
        page.split_whitespace().filter_map(|word| word.strip_prefix("--exclude-table=")).collect();
    let is_dumped = |database: &str, options: &[&str]| {
        let excluded =
            options.iter().map(|table| format!("--exclude-table={}", table.trim_matches(['`', '.', '\''])));
        let mut pg_dump = new.client_program("pg_dump");
        pg_dump
            .args([&format!("--dbname={database}"), "--username=dumper"])
            .args(excluded)
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(is_dumped("restored", &options), "{options:?}");
    assert!(!is_dumped("restored", &options[..options.len() - 1]), "{options:?}");
    // A name without a schema would only match tables in search_path.
    admin.run("CREATE DATABASE elsewhere OWNER dumper");
    new.connect_to("elsewhere").run("CREATE SCHEMA ids; CREATE EXTENSION snowflake_id SCHEMA ids");
    assert!(is_dumped("elsewhere", &options), "{options:?}");
}

/// Where the table of a `COPY` is not known, rows are still inserted in bulk.
#[test]
fn a_subscription_takes_numbers_in_bulk() {
    let publisher = Cluster::builder().set("wal_level", "logical").start();
    let mut publishing = publisher.connect();
    publishing.run(
        "CREATE TABLE orders (place int PRIMARY KEY);
         INSERT INTO orders SELECT generate_series(1, 1000);
         CREATE PUBLICATION orders FOR TABLE orders",
    );
    let subscriber = single_server().start();
    administer(&subscriber, "create_segment('orders')");
    let mut subscribing = subscriber.connect();
    subscribing.run(
        "CREATE FUNCTION none_is_in(relation oid) RETURNS boolean LANGUAGE sql
             AS 'SELECT pg_catalog.pg_stat_get_xact_tuples_inserted(relation) OPERATOR(pg_catalog.=) 0';
         CREATE TABLE orders (
             id bigint NOT NULL DEFAULT public.snowflake_segment_nextval('orders'),
             place int PRIMARY KEY,
             CONSTRAINT in_bulk CHECK (public.none_is_in(tableoid))
         )",
    );
    subscribing.run(&format!(
        "CREATE SUBSCRIPTION orders CONNECTION 'host={} user=test dbname=postgres' PUBLICATION orders",
        publisher.host().display()
    ));
    let mut arrived = |rows: usize| {
        all_arrive("the rows", || {
            let taken = ids(&mut subscribing, "SELECT id FROM orders ORDER BY place");
            (taken.len() == rows).then_some(taken)
        })
    };
    assert_increasing(&arrived(1_000));
    subscriber.connect().run("ALTER TABLE orders DROP CONSTRAINT in_bulk");
    publishing.run("INSERT INTO orders SELECT generate_series(1001, 2000)");
    assert_increasing(&arrived(2_000));
}
