//! Adoptions keep the order of the actions of foreign keys, and the changes of other sessions between and during the steps.
//! Tables with properties that cannot be kept are refused.

use std::thread;

use harness::{adoption::*, *};

/// Foreign keys whose result depends on the order in which their actions are executed. PostgreSQL executes them in the order
/// of the names of triggers, which contain OIDs. As text, 100000 comes before 99999.
const ACTIONS: &str = "
    CREATE TABLE accounts (id int PRIMARY KEY, tenant int NOT NULL, code text UNIQUE, UNIQUE (id, tenant));
    INSERT INTO accounts SELECT n, 1, 'code ' || n FROM generate_series(1, 3) AS n;

    -- The row is deleted before the other foreign key, which is not adopted, can refuse that.
    CREATE TABLE files (n int, account_id int, code text);
    ALTER TABLE files ADD FOREIGN KEY (account_id) REFERENCES accounts ON DELETE CASCADE;
    ALTER TABLE files ADD FOREIGN KEY (code) REFERENCES accounts (code) ON DELETE RESTRICT;
    INSERT INTO files VALUES (1, 1, 'code 1');

    -- First the column becomes NULL, so the other foreign key does not delete the row.
    CREATE TABLE visits (n int, account_id int, tenant int);
    ALTER TABLE visits ADD FOREIGN KEY (account_id) REFERENCES accounts ON DELETE SET NULL;
    ALTER TABLE visits ADD FOREIGN KEY (account_id, tenant) REFERENCES accounts (id, tenant) ON DELETE CASCADE;
    INSERT INTO visits VALUES (1, 1, 1);

    -- The other way round, the row is deleted.
    CREATE TABLE notes (n int, account_id int, tenant int);
    ALTER TABLE notes ADD FOREIGN KEY (account_id, tenant) REFERENCES accounts (id, tenant) ON DELETE CASCADE;
    ALTER TABLE notes ADD FOREIGN KEY (account_id) REFERENCES accounts ON DELETE SET NULL;
    INSERT INTO notes VALUES (1, 1, 1);

    -- A part of a composite key becomes NULL before the other foreign key can refuse that.
    CREATE TABLE orders (n int, account_id int, tenant int NOT NULL);
    ALTER TABLE orders ADD CONSTRAINT zz FOREIGN KEY (account_id, tenant) REFERENCES accounts (id, tenant)
        ON DELETE SET NULL (account_id);
    ALTER TABLE orders ADD CONSTRAINT aa FOREIGN KEY (account_id) REFERENCES accounts ON DELETE RESTRICT;
    INSERT INTO orders VALUES (1, 1, 1);

    -- Both columns, or the default.
    CREATE TABLE parcels (n int, account_id int DEFAULT 2, tenant int DEFAULT 1);
    ALTER TABLE parcels ADD FOREIGN KEY (account_id, tenant) REFERENCES accounts (id, tenant) ON DELETE SET NULL;
    ALTER TABLE parcels ADD FOREIGN KEY (account_id) REFERENCES accounts ON DELETE SET DEFAULT;
    INSERT INTO parcels VALUES (1, 1, 1);
    CREATE TABLE letters (n int, account_id int DEFAULT 2, tenant int DEFAULT 1);
    ALTER TABLE letters ADD FOREIGN KEY (account_id) REFERENCES accounts ON DELETE SET DEFAULT;
    ALTER TABLE letters ADD FOREIGN KEY (account_id, tenant) REFERENCES accounts (id, tenant) ON DELETE SET NULL;
    INSERT INTO letters VALUES (1, 1, 1);
";

/// The rows of all tables after an account was deleted.
fn left_after_delete(client: &mut Client) -> Vec<String> {
    client.run("BEGIN; DELETE FROM accounts WHERE id = 1; SET CONSTRAINTS ALL IMMEDIATE");
    let tables = ["accounts", "files", "visits", "notes", "orders", "parcels", "letters"];
    let left = tables.map(|table| {
        let rows = "SELECT to_jsonb(t)::text";
        let rows = rows_of(client, &format!("{rows} FROM {table} AS t ORDER BY 1"));
        let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        format!("{table}: {}", rows.join(" "))
    });
    client.run("ROLLBACK");
    left.into()
}

#[test]
fn the_order_of_actions_is_kept() {
    for is_online in [true, false] {
        let cluster = Cluster::builder().worker(1).start();
        cluster.stop_server("fast");
        let mut reset = cluster.program("pg_resetwal");
        // The tables are created with the last OIDs of five digits.
        successful(reset.args(["--next-oid", "99880"]).arg(cluster.data_dir()));
        cluster.start_server();
        let mut client = cluster.connect();
        wait_for_first_id(&mut client);
        client.run(ACTIONS);
        let before = left_after_delete(&mut client);
        assert_eq!(
            before[2..],
            [
                r#"visits: {"n": 1, "tenant": 1, "account_id": null}"#,
                "notes: ",
                r#"orders: {"n": 1, "tenant": 1, "account_id": null}"#,
                r#"parcels: {"n": 1, "tenant": null, "account_id": null}"#,
                r#"letters: {"n": 1, "tenant": 1, "account_id": 2}"#
            ]
        );
        match is_online {
            true => adopt_online(&mut client, ACCOUNTS).unwrap(),
            false => client.run("SELECT snowflake_adopt('accounts', 'id', dry_run => false)"),
        }
        assert!(is_bigint(&mut client, "letters.account_id"));
        assert_eq!(before, left_after_delete(&mut client), "online: {is_online}");
        let newest: i64 = single(&mut client, "SELECT max(oid::bigint) FROM pg_constraint");
        assert!(newest > 100_000, "{newest}");
    }
}

/// The changes of other sessions between the calls, and while the last step waits for its locks, are not undone.
#[test]
fn changes_in_between_are_kept() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    create_tables(&mut client);
    client.run("ALTER TABLE bookings ADD CONSTRAINT positive CHECK (account_id > 0)");
    prepare(&mut client, ACCOUNTS, 3);
    client.run(
        "CREATE TABLE late (account_id smallint REFERENCES accounts ON UPDATE CASCADE);
         INSERT INTO late VALUES (7);
         ALTER TABLE bookings RENAME COLUMN account_id TO account;
         ALTER TABLE bookings ADD note text, ADD CONSTRAINT below CHECK (account < 1000000);
         CREATE INDEX late_index ON bookings (note, account DESC);
         ALTER TABLE bookings ALTER account SET STATISTICS 77;
         COMMENT ON TABLE bookings IS 'a comment'; COMMENT ON COLUMN bookings.account IS 'the account'",
    );
    // The trigger refers to the old name of the column.
    let (state, message) = refusal(&mut client, ACCOUNTS);
    assert_eq!(state, "0A000", "{message}");
    assert!(message.contains("trigger zz_snowflake_new_2 of table public.bookings was changed"), "{message}");
    client.run("ALTER TABLE bookings RENAME COLUMN account TO account_id");
    prepare(&mut client, ACCOUNTS, 4);
    let mut holder = cluster.connect();
    holder.run("BEGIN; SELECT FROM accounts LIMIT 1");
    let arguments = format!("{ACCOUNTS}, lock_wait => '500 ms'");
    thread::scope(|scope| {
        let adoption = scope.spawn(|| adopt_online(&mut cluster.connect(), &arguments).unwrap());
        eventually("the exchange to wait", || {
            single::<bool>(
                &mut client,
                "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'",
            )
        });
        // These need no lock of the tables.
        client.run(
            "ALTER INDEX bookings_account_id_idx RENAME TO \"renamed Index\";
             COMMENT ON INDEX \"renamed Index\" IS 'its comment'; COMMENT ON INDEX accounts_pkey IS 'the key'",
        );
        holder.run("COMMIT");
        adoption.join().unwrap();
    });
    check_tables(&mut client);
    let indexes = "SELECT string_agg(concat_ws(' ', indexrelid::regclass, indkey, obj_description(indexrelid, 'pg_class')), ', '
                                     ORDER BY indexrelid::regclass::text)
                   FROM pg_index WHERE indrelid IN ('accounts'::regclass, 'bookings'::regclass)";
    let indexes: String = single(&mut client, indexes);
    assert_eq!(
        indexes,
        "\"renamed Index\" 3 its comment, accounts_pkey 3 the key, bookings_pkey 1, late_index 4 3"
    );
    let late =
        "SELECT concat_ws(' ', (SELECT account_id FROM late), format_type(atttypid, NULL)) FROM pg_attribute
                WHERE attrelid = 'late'::regclass AND attname = 'account_id'";
    assert_eq!(single::<String>(&mut client, late), "7 bigint");
    let column = "SELECT concat_ws(' ', col_description(attrelid, attnum), attstattarget) FROM pg_attribute
                  WHERE attrelid = 'bookings'::regclass AND attname = 'account_id'";
    assert_eq!(single::<String>(&mut client, column), "the account 77");
    let checks = "SELECT string_agg(conname, ' ' ORDER BY conname)::text FROM pg_constraint
                  WHERE contype = 'c' AND convalidated AND conrelid = 'bookings'::regclass";
    assert_eq!(single::<String>(&mut client, checks), "below positive");
}

/// An event trigger forbids to drop columns. The call fails with its message, and changes nothing.
#[test]
fn an_event_trigger_forbids_it() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    create_tables(&mut client);
    client.run(
        "CREATE FUNCTION keep_columns() RETURNS event_trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF EXISTS (SELECT FROM pg_event_trigger_dropped_objects() WHERE object_type = 'table column'
                        AND NOT is_temporary) THEN
                 RAISE 'columns are kept here';
             END IF;
         END
         $$;
         CREATE EVENT TRIGGER keep_columns ON sql_drop EXECUTE FUNCTION keep_columns();
         SET log_min_messages = notice",
    );
    client.run("CALL snowflake_adopt_online('accounts', 'id')");
    assert!(
        cluster.log().contains("NOTICE:  event triggers may refuse commands: keep_columns"),
        "{}",
        cluster.log()
    );
    prepare(&mut client, ACCOUNTS, 3);
    let before = properties(&mut client);
    let (_, message) = refusal(&mut client, ACCOUNTS);
    assert!(message.starts_with("columns are kept here"), "{message}");
    assert_eq!(before, properties(&mut client));
    client.run("INSERT INTO bookings (account_id) VALUES (1); DELETE FROM bookings WHERE id > 1000");
    client.run("DROP EVENT TRIGGER keep_columns");
    adopt_online(&mut client, ACCOUNTS).unwrap();
    check_tables(&mut client);
}

/// Columns, constraints, indexes and triggers of all tables of schema `public`.
fn properties(client: &mut Client) -> String {
    single(
        client,
        "SELECT string_agg(line, E'\\n' ORDER BY line COLLATE \"C\")
         FROM (SELECT concat_ws(' ', attrelid::regclass, attname, atttypid::regtype, attnotnull) FROM pg_attribute
               JOIN pg_class AS class ON class.oid = attrelid AND relnamespace = 'public'::regnamespace
               WHERE NOT attisdropped
               UNION ALL
               SELECT concat_ws(' ', conname, pg_get_constraintdef(oid), convalidated) FROM pg_constraint
               UNION ALL
               SELECT pg_get_triggerdef(oid) FROM pg_trigger) AS properties (line)",
    )
}

/// A statement that creates an obstacle, a part of DETAIL, and a statement that removes the obstacle.
struct Obstacle {
    create: &'static str,
    says: &'static str,
    remove: &'static str,
}

const OBSTACLES: &[Obstacle] = &[
    Obstacle {
        create: "CREATE PUBLICATION a_few FOR TABLE bookings",
        says: "publication \"a_few\" would publish the new columns of table public.bookings",
        remove: "DROP PUBLICATION a_few",
    },
    Obstacle {
        create: "CREATE PUBLICATION everything FOR ALL TABLES",
        says: "publication \"everything\" would publish the new columns of table public.accounts",
        remove: "DROP PUBLICATION everything",
    },
    Obstacle {
        create: "CREATE PUBLICATION of_schema FOR TABLES IN SCHEMA public",
        says: "publication \"of_schema\" would publish the new columns of table public.bookings",
        remove: "DROP PUBLICATION of_schema",
    },
    Obstacle {
        create: "CREATE PUBLICATION of_column FOR TABLE bookings (id, account_id)",
        says: "depends on column account_id of table public.bookings",
        remove: "DROP PUBLICATION of_column",
    },
    Obstacle {
        create: "CREATE POLICY own ON bookings USING (account_id > 0)",
        says: "policy own on table public.bookings depends on column account_id of table public.bookings",
        remove: "DROP POLICY own ON bookings",
    },
    Obstacle {
        create: "ALTER TABLE bookings ENABLE ROW LEVEL SECURITY; ALTER TABLE bookings FORCE ROW LEVEL SECURITY",
        says: "table public.bookings has row-level security that applies to you",
        remove: "ALTER TABLE bookings NO FORCE ROW LEVEL SECURITY",
    },
    Obstacle {
        create: "CREATE TABLE child () INHERITS (bookings)",
        says: "table public.bookings is partitioned, or has parents or children",
        remove: "DROP TABLE child",
    },
    Obstacle {
        create: "CREATE MATERIALIZED VIEW totals AS SELECT account_id, count(*) FROM bookings GROUP BY 1",
        says: "materialized view public.totals depends on columns that are replaced",
        remove: "DROP MATERIALIZED VIEW totals",
    },
    Obstacle {
        create: "CREATE VIEW shown AS SELECT id AS booking, account_id FROM bookings",
        says: "view public.shown depends on columns that are replaced",
        remove: "DROP VIEW shown",
    },
    Obstacle {
        create: "CREATE STATISTICS both_columns ON id, account_id FROM bookings",
        says: "statistics object public.both_columns depends on column account_id of table public.bookings",
        remove: "DROP STATISTICS both_columns",
    },
    Obstacle {
        create: "CREATE RULE logged AS ON UPDATE TO bookings DO NOTHING",
        says: "table public.bookings has a rule for UPDATE",
        remove: "DROP RULE logged ON bookings",
    },
    Obstacle {
        create: "ALTER TABLE bookings ADD CONSTRAINT never_checked CHECK (id > 0) NOT VALID",
        says: "constraint never_checked on table public.bookings is not valid",
        remove: "ALTER TABLE bookings DROP CONSTRAINT never_checked",
    },
    Obstacle {
        create: "ALTER TABLE bookings DISABLE TRIGGER ALL",
        says: "not all triggers of constraint bookings_account_id_fkey on table public.bookings are enabled",
        remove: "ALTER TABLE bookings ENABLE TRIGGER ALL; ALTER TABLE bookings ENABLE ALWAYS TRIGGER zz_snowflake_new_2",
    },
    Obstacle {
        create: "CREATE FUNCTION change() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
                 CREATE TRIGGER zzz BEFORE UPDATE ON bookings FOR EACH ROW EXECUTE FUNCTION change()",
        says: "would fire for every row",
        remove: "DROP TRIGGER zzz ON bookings; DROP FUNCTION change()",
    },
    Obstacle {
        create: "ALTER TABLE bookings ADD twice int GENERATED ALWAYS AS (account_id * 2) STORED",
        says: "depends on column account_id of table public.bookings",
        remove: "ALTER TABLE bookings DROP twice",
    },
];

/// Each of them is refused by the owner's call, before the first step and after the last index, with all that is in the way.
/// Then nothing has changed, and when it has been removed, the adoption goes on.
#[test]
fn obstacles_at_the_beginning_and_in_the_middle() {
    let cluster = Cluster::builder().worker(1).set("wal_level", "logical").start();
    let mut superuser = cluster.connect();
    superuser.run("CREATE ROLE shopkeeper LOGIN; ALTER SCHEMA public OWNER TO shopkeeper");
    let mut client = cluster.try_connect_heard("shopkeeper", |_| {}).unwrap();
    create_tables(&mut client);
    for is_begun in [false, true] {
        if is_begun {
            prepare(&mut client, ACCOUNTS, 3);
        }
        let before = properties(&mut superuser);
        for Obstacle { create, says, remove } in OBSTACLES {
            // Only superusers may do these.
            let by_owner = !["PUBLICATION", "DISABLE TRIGGER ALL"].iter().any(|part| create.contains(part));
            superuser
                .run(&format!("{} {create}; RESET ROLE", if by_owner { "SET ROLE shopkeeper;" } else { "" }));
            let with = properties(&mut superuser);
            // The dry run makes the same checks.
            let call = format!("CALL snowflake_adopt_online({ACCOUNTS}, dry_run => {})", !is_begun);
            let (state, message) = failure(&mut client, &call);
            assert_eq!(state, "0A000", "{create}: {message}");
            let lines: Vec<&str> = message.lines().collect();
            assert!(lines[0] == "cannot adopt column \"id\" of table public.accounts", "{create}: {message}");
            assert!(lines[1..].iter().any(|line| line.contains(says)), "{create}: {message}");
            assert!(lines.len() >= 3, "{create}: {message}");
            assert_eq!(with, properties(&mut superuser), "{create}");
            let remove = match is_begun {
                true => remove,
                false => remove.split("; ALTER TABLE bookings ENABLE ALWAYS").next().unwrap(),
            };
            superuser.run(remove);
            assert_eq!(before, properties(&mut superuser), "{create}");
        }
    }
    // The owner's rows are not filtered.
    assert!(single::<bool>(&mut superuser, "SELECT relrowsecurity FROM pg_class WHERE relname = 'bookings'"));
    adopt_online(&mut client, ACCOUNTS).unwrap();
    check_tables(&mut superuser);
}
