//! Tables of other users with malicious code that runs when a superuser uses them.

use std::thread;

use harness::*;

/// `evil.rise()` makes mallory a superuser if it can. It is declared immutable, so the planner runs it.
const EVIL: &str = "
    CREATE ROLE mallory LOGIN;
    CREATE SCHEMA evil AUTHORIZATION mallory;
    GRANT CREATE ON SCHEMA public TO mallory;
    SET ROLE mallory;
    CREATE FUNCTION evil.command(command text) RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE command; END';
    CREATE FUNCTION evil.rise() RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM evil.command('ALTER ROLE mallory SUPERUSER');
        RETURN true;
    EXCEPTION WHEN insufficient_privilege THEN
        RETURN true;
    END
    $$;
    CREATE FUNCTION evil.is_fine(bigint) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT evil.rise()';
    RESET ROLE;
";

fn start() -> Cluster {
    let cluster = Cluster::builder().worker(1).start();
    cluster.connect().run(EVIL);
    cluster
}

fn has_risen(client: &mut Client) -> bool {
    single(client, "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'")
}

struct Attack {
    /// The statements that create the tables.
    tables: &'static str,
    /// The statement that a superuser would type. It runs with the privileges of a superuser, and so does the code that
    /// it triggers.
    by_hand: &'static str,
    call: &'static str,
    /// The table and owner that the DETAIL must name.
    detail: &'static str,
}

const ATTACKS: &[Attack] = &[
    // She owns the adopted table: with a constraint, with an index that the planner evaluates, and with a child.
    Attack {
        tables: "SET ROLE mallory; CREATE TABLE t (id int CHECK (evil.is_fine(id))); INSERT INTO t VALUES (1)",
        by_hand: "ALTER TABLE t ALTER id TYPE bigint",
        call: "snowflake_adopt('t', 'id', false)",
        detail: "table public.t (mallory)",
    },
    Attack {
        tables: "SET ROLE mallory; CREATE TABLE t (id bigint); CREATE INDEX ON t (id) WHERE evil.rise()",
        by_hand: "SELECT max(id) FROM t",
        call: "snowflake_adopt('t', 'id')",
        detail: "table public.t (mallory)",
    },
    Attack {
        tables: "CREATE TABLE t (id int); CREATE TABLE child () INHERITS (t); ALTER TABLE child OWNER TO mallory;
                 SET ROLE mallory; ALTER TABLE child ADD CHECK (evil.is_fine(id)); INSERT INTO child VALUES (1)",
        by_hand: "ALTER TABLE t ALTER id TYPE bigint",
        call: "snowflake_adopt('t', 'id', false)",
        detail: "table public.child (mallory)",
    },
    // Her table references it: with a column that is widened, and with one that already is a bigint.
    Attack {
        tables: "CREATE TABLE t (id serial PRIMARY KEY); GRANT REFERENCES ON t TO mallory; INSERT INTO t DEFAULT VALUES;
                 SET ROLE mallory; CREATE TABLE pointing (t_id int REFERENCES t CHECK (evil.is_fine(t_id)));
                 INSERT INTO pointing VALUES (1)",
        by_hand: "ALTER TABLE pointing ALTER t_id TYPE bigint",
        call: "snowflake_adopt('t', 'id', false)",
        detail: "table public.pointing (mallory)",
    },
    Attack {
        tables: "CREATE TABLE t (id serial PRIMARY KEY); GRANT REFERENCES ON t TO mallory;
                 SET ROLE mallory; CREATE TABLE pointing (t_id bigint REFERENCES t);
                 CREATE INDEX ON pointing (t_id) WHERE evil.rise()",
        by_hand: "ALTER TABLE t ALTER id TYPE bigint",
        call: "snowflake_adopt('t', 'id', false)",
        detail: "table public.pointing (mallory)",
    },
    // The table that references it also references hers.
    Attack {
        tables: "SET ROLE mallory; CREATE TABLE hers (id bigint PRIMARY KEY); CREATE INDEX ON hers (id) WHERE evil.rise();
                 RESET ROLE; CREATE TABLE t (id serial PRIMARY KEY); CREATE TABLE pointing (t_id int REFERENCES t);
                 ALTER TABLE pointing ADD FOREIGN KEY (t_id) REFERENCES hers NOT VALID",
        by_hand: "ALTER TABLE pointing VALIDATE CONSTRAINT pointing_t_id_fkey1",
        call: "snowflake_adopt('t', 'id', false)",
        detail: "table public.hers (mallory)",
    },
    // Partitions of her table, and of a table whose default partition is hers.
    Attack {
        tables: "SET ROLE mallory; CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
                 CREATE INDEX ON t ((id > 0 AND evil.rise()))",
        by_hand: "CREATE TABLE p PARTITION OF t FOR VALUES FROM (1) TO (2)",
        call: "snowflake_create_partitions('t', '2026-01-01Z', '2026-02-01Z', '1 month')",
        detail: "table public.t (mallory)",
    },
    Attack {
        tables: "CREATE TABLE t (id bigint) PARTITION BY RANGE (id); CREATE TABLE rest PARTITION OF t DEFAULT;
                 ALTER TABLE rest OWNER TO mallory; SET ROLE mallory; ALTER TABLE rest ADD CHECK (evil.rise())",
        by_hand: "CREATE TABLE p PARTITION OF t FOR VALUES FROM (1) TO (2)",
        call: "snowflake_create_partitions('t', '2026-01-01Z', '2026-02-01Z', '1 month')",
        detail: "table public.rest (mallory)",
    },
];

#[test]
fn a_superuser_touches_no_tables_of_others() {
    let cluster = start();
    for Attack { tables, by_hand, call, detail } in ATTACKS {
        let mut client = cluster.connect();
        run(&mut client, &format!("{tables}; RESET ROLE"));
        assert!(!has_risen(&mut client), "{tables}");
        let (state, message) = failure(&mut client, &format!("SELECT {call}"));
        assert_eq!(state, "0A000", "{call}\n{message}");
        assert!(message.contains(detail), "{message}");
        assert!(message.contains("with the privileges of test."), "{message}");
        assert!(!has_risen(&mut client), "{tables}\n{call}");
        // Without protection it is a successful attack.
        run(&mut client, &format!("BEGIN; {by_hand}"));
        assert!(has_risen(&mut client), "{tables}\n{by_hand}");
        run(&mut client, "ROLLBACK; DROP TABLE IF EXISTS pointing, hers, t CASCADE");
    }
}

/// Her table gets its foreign key while the call waits for locks.
#[test]
fn a_foreign_key_that_comes_late() {
    let cluster = start();
    let (mut client, mut mallory, mut observer) = (cluster.connect(), cluster.connect(), cluster.connect());
    run(
        &mut client,
        "CREATE TABLE t (id serial PRIMARY KEY); GRANT REFERENCES ON t TO mallory; INSERT INTO t DEFAULT VALUES",
    );
    run(
        &mut mallory,
        "SET SESSION AUTHORIZATION mallory; BEGIN;
         CREATE TABLE pointing (t_id int REFERENCES t CHECK (evil.is_fine(t_id))); INSERT INTO pointing VALUES (1)",
    );
    let (state, message) = thread::scope(|scope| {
        let adoption = scope.spawn(|| failure(&mut client, "SELECT snowflake_adopt('t', 'id', false)"));
        eventually("the lock to be waited for", || {
            single::<bool>(&mut observer, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
        });
        run(&mut mallory, "COMMIT");
        adoption.join().unwrap()
    });
    assert_eq!(state, "0A000", "{message}");
    assert!(message.contains("table public.pointing (mallory)"), "{message}");
    assert!(!has_risen(&mut observer));
}

/// Her table gets its foreign key between two steps of an adoption that does not lock the tables, and her trigger is on
/// a table of the superuser.
#[test]
fn between_two_steps() {
    let cluster = start();
    let mut client = cluster.connect();
    let call = "CALL snowflake_adopt_online('t', 'id', dry_run => false)";
    run(
        &mut client,
        "CREATE TABLE t (id serial PRIMARY KEY); GRANT REFERENCES, TRIGGER, SELECT ON t TO mallory;
         INSERT INTO t DEFAULT VALUES;
         CREATE FUNCTION evil.at_write() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM evil.rise(); RETURN NEW; END';
         ALTER FUNCTION evil.at_write() OWNER TO mallory;
         SET ROLE mallory;
         CREATE TRIGGER at_write BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION evil.at_write();
         RESET ROLE",
    );
    run(&mut client, call);
    assert!(!has_risen(&mut client));
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM t WHERE snowflake_new_1 = id"), 1);
    run(
        &mut client,
        "SET ROLE mallory;
         CREATE TABLE pointing (t_id int REFERENCES t CHECK (evil.is_fine(t_id)));
         INSERT INTO pointing VALUES (1);
         RESET ROLE; ALTER ROLE mallory NOSUPERUSER",
    );
    let (state, message) = failure(&mut client, call);
    assert_eq!(state, "0A000", "{message}");
    assert!(message.contains("table public.pointing (mallory)"), "{message}");
    assert!(!has_risen(&mut client));
    // Without protection the trigger is a successful attack.
    run(&mut client, "UPDATE t SET id = id");
    assert!(has_risen(&mut client));
}

fn run(client: &mut Client, commands: &str) {
    client.run(commands);
}

/// The owner of a schema can replace a superuser's table while the superuser's call waits for it. The call does not
/// wait.
#[test]
fn a_schema_of_somebody_else() {
    let cluster = start();
    let mut client = cluster.connect();
    client.run(
        "CREATE SCHEMA hers AUTHORIZATION mallory;
         CREATE TABLE hers.orders (id int PRIMARY KEY);
         CREATE TABLE hers.days (id bigint) PARTITION BY RANGE (id);",
    );
    for call in [
        "SELECT snowflake_adopt('hers.orders', 'id')",
        "SELECT snowflake_adopt('hers.orders', 'id', dry_run => false)",
        "SELECT * FROM snowflake_create_partitions('hers.days', '2026-01-01Z', '2026-03-01Z', '1 month')",
    ] {
        let (code, message) = failure(&mut client, call);
        assert_eq!(code, "0A000", "{message}");
        assert!(message.contains("mallory"), "{message}");
    }
    assert!(!has_risen(&mut client));
}
