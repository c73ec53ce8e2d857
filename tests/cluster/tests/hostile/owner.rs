//! The keeper's database has a malicious owner, who is not a superuser. None of her code runs with the keeper's
//! privileges, and a warning names her as a risk.

use std::thread;
use std::time::Duration;

use harness::*;

/// A server whose keeper works in a database that mallory owns. The extension is in its schema `public`, which she owns
/// too.
fn start() -> (Cluster, Client, Client) {
    let cluster = Cluster::builder()
        .preload()
        .home()
        .set("snowflake_id.node_name", "here")
        .short_horizon()
        .extensions(&[])
        .start();
    let mut client = cluster.connect();
    client.run("CREATE ROLE mallory LOGIN");
    client.run("CREATE DATABASE home OWNER mallory");
    client.run("CREATE EXTENSION snowflake_id");
    let mut home = cluster.connect_to("home");
    home.run("CREATE EXTENSION snowflake_id");
    home.run("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('here', 5)");
    keeper_pid(&mut client);
    home.run("SET SESSION AUTHORIZATION mallory");
    (cluster, client, home)
}

/// Code that mallory wants a superuser to run.
const TRAP: &str = "
    CREATE FUNCTION public.trap() RETURNS int LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE 'ALTER ROLE mallory SUPERUSER';
        RETURN 5;
    END
    $$;";

fn expect_no_superuser(cluster: &Cluster, client: &mut Client) {
    let superuser = "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'";
    assert!(!single::<bool>(client, superuser), "{}", cluster.log());
}

/// Starts a cycle of the keeper, and waits until the keeper waits for a lock.
fn wait_for_the_keeper_to_wait(client: &mut Client) {
    client.run("SET snowflake_id.max_wait = '10ms'");
    eventually("the keeper to wait for a lock", || {
        let _ = client.batch_execute("SELECT snowflake_nextval()");
        let waits = "SELECT count(*) > 0 FROM pg_stat_activity
                     WHERE backend_type = 'snowflake_id keeper' AND wait_event_type = 'Lock'";
        single::<bool>(client, waits)
    });
    client.run("RESET snowflake_id.max_wait");
}

/// While the keeper waits for a lock on a table in her schema, she replaces the table by a view.
#[test]
fn a_view_takes_the_place_of_the_workers() {
    let (cluster, mut client, mut home) = start();
    // She cannot lock the table, but she can rename or drop the schema.
    home.run("BEGIN; ALTER SCHEMA public RENAME TO elsewhere; CREATE SCHEMA public;");
    home.run(TRAP);
    home.run(
        "CREATE VIEW public.snowflake_workers AS
             SELECT 'here'::text AS node_name, 0 AS datacenter_id, public.trap() AS worker_id;
         GRANT ALL ON public.snowflake_workers, snowflake_workers TO PUBLIC;",
    );
    // A superuser blocks the keeper, as a VACUUM FULL would.
    let mut locker = cluster.connect_to("home");
    locker.run("BEGIN; LOCK TABLE snowflake_workers");
    wait_for_the_keeper_to_wait(&mut client);
    home.run("COMMIT");
    locker.run("ROLLBACK");
    // Each keeper reads the table when it starts.
    (0..2).for_each(|_| replace_keeper(&mut client));
    wait_for_first_id(&mut client);
    expect_no_superuser(&cluster, &mut client);
}

/// She drops the schema with the extension, and creates a view with the name of the horizon.
#[test]
fn a_view_takes_the_place_of_the_horizon() {
    let (cluster, mut client, mut home) = start();
    home.run("BEGIN; DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE SCHEMA snowflake_internal;");
    home.run(TRAP);
    home.run(
        "CREATE VIEW snowflake_internal.horizon AS
             SELECT 0 AS track, 0 AS clock_seq, public.trap()::bigint AS horizon_us;
         CREATE VIEW public.snowflake_workers AS
             SELECT 'here'::text AS node_name, 0 AS datacenter_id, public.trap() AS worker_id;
         GRANT ALL ON ALL TABLES IN SCHEMA public, snowflake_internal TO PUBLIC;
         GRANT ALL ON SCHEMA public, snowflake_internal TO PUBLIC",
    );
    wait_for_the_keeper_to_wait(&mut client);
    home.run("COMMIT");
    client.run("SET snowflake_id.max_wait = '500ms'");
    eventually("the report", || {
        let is_refused = client.batch_execute("SELECT snowflake_nextval()").is_err();
        let error: Option<String> = status(&mut client, "last_error");
        is_refused
            && error
                .is_some_and(|error| error.contains("extension \"snowflake_id\" does not exist in database"))
    });
    expect_no_superuser(&cluster, &mut client);
}

/// She renames the schema of the extension, and creates one of the old name. The functions that PL/pgSQL calls by name find
/// the renamed schema.
#[test]
fn a_schema_takes_the_place_of_the_extensions() {
    let (cluster, mut client, mut home) = start();
    wait_for_first_id(&mut client);
    let mut superuser = cluster.connect_to("home");
    superuser.run(
        "CREATE SCHEMA shop; CREATE TABLE shop.orders (id int PRIMARY KEY); INSERT INTO shop.orders VALUES (1);
         CREATE TABLE shop.visits (id int PRIMARY KEY);
         CREATE TABLE shop.clicks (id bigint) PARTITION BY RANGE (id);",
    );
    home.run("ALTER SCHEMA public RENAME TO elsewhere; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO PUBLIC;");
    home.run(TRAP);
    home.run(
        "CREATE DOMAIN public.snowflake AS bigint CHECK (public.trap() > 0);
         CREATE DOMAIN public.record AS text CHECK (public.trap() > 0);
         CREATE DOMAIN elsewhere.record AS text CHECK (public.trap() > 0);
         CREATE FUNCTION public.snowflake_next() RETURNS bigint LANGUAGE sql AS 'SELECT public.trap()::bigint';
         CREATE FUNCTION public.snowflake_nextval() RETURNS bigint LANGUAGE sql AS 'SELECT public.trap()::bigint';
         CREATE FUNCTION public.snowflake_encode(timestamptz, int, bigint, int, int) RETURNS bigint LANGUAGE sql
             AS 'SELECT public.trap()::bigint';
         CREATE FUNCTION public.snowflake_min_id(timestamptz, text DEFAULT '') RETURNS bigint LANGUAGE sql
             AS 'SELECT public.trap()::bigint';
         CREATE FUNCTION public.snowflake_describe_layout(text) RETURNS TABLE (epoch timestamptz, exhausted_at timestamptz)
             LANGUAGE sql AS 'SELECT now(), now() FROM public.trap()';",
    );
    superuser.run("SET search_path = elsewhere, pg_catalog; SET client_min_messages = warning;");
    for call in [
        "SELECT snowflake_adopt('shop.orders', 'id')",
        "SELECT snowflake_adopt('shop.orders', 'id', dry_run => false)",
        "CALL snowflake_adopt_online('shop.visits', 'id')",
        "SELECT snowflake_plan_partitions('shop.clicks', '2026-01-01Z', '2026-02-01Z', '1 month')",
        "SELECT snowflake_create_partitions('shop.clicks', '2026-01-01Z', '2026-02-01Z', '1 month')",
    ] {
        superuser.run(call);
    }
    let id = "INSERT INTO shop.orders DEFAULT VALUES RETURNING snowflake_worker(id)";
    assert_eq!(single::<i32>(&mut superuser, id), 5);
    expect_no_superuser(&cluster, &mut client);
}

/// She replaces the schema while an adoption waits for a lock.
#[test]
fn a_schema_is_replaced_during_an_adoption() {
    let (cluster, mut client, mut home) = start();
    wait_for_first_id(&mut client);
    let mut superuser = cluster.connect_to("home");
    superuser.run("CREATE SCHEMA shop; CREATE TABLE shop.orders (id int PRIMARY KEY)");
    let mut locker = cluster.connect_to("home");
    locker.run("BEGIN; LOCK TABLE shop.orders");
    let (state, message) = thread::scope(|scope| {
        let call = "SELECT public.snowflake_adopt('shop.orders', 'id', dry_run => false)";
        let adoption = scope.spawn(|| failure(&mut superuser, call));
        eventually("the lock to be waited for", || {
            single::<bool>(&mut client, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
        });
        home.run("ALTER SCHEMA public RENAME TO elsewhere; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO PUBLIC");
        home.run(
            "CREATE FUNCTION public.snowflake_next() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
             CREATE FUNCTION public.snowflake_nextval() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
        );
        locker.run("COMMIT");
        adoption.join().unwrap()
    });
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("does not call a function of the extension"), "{message}");
    superuser.run("SELECT elsewhere.snowflake_adopt('shop.orders', 'id', dry_run => false)");
    let id = "INSERT INTO shop.orders DEFAULT VALUES RETURNING elsewhere.snowflake_worker(id)";
    assert_eq!(single::<i32>(&mut superuser, id), 5);
}

/// She puts a view in the place of the table of keys. The functions that change and use keys find the table itself.
#[test]
fn a_view_takes_the_place_of_the_keys() {
    let (cluster, mut client, mut home) = start();
    let mut admin = cluster.connect_to("home");
    admin.run("INSERT INTO snowflake_mask_keys (name, key) VALUES ('orders', uuid_send(gen_random_uuid()))");
    home.run("ALTER SCHEMA public RENAME TO elsewhere; CREATE SCHEMA public");
    home.run(TRAP);
    home.run(
        "CREATE FUNCTION public.trigger_trap() RETURNS trigger LANGUAGE plpgsql
             AS $$ BEGIN PERFORM public.trap(); RETURN NEW; END $$;
         CREATE VIEW public.snowflake_mask_keys AS
             SELECT 'orders'::text AS name, '\\x00'::bytea AS key, '\\x00'::bytea AS next_key, NULL::bytea AS previous_key,
                    now() AS switched_at, public.trap() AS trap;
         CREATE TRIGGER trap INSTEAD OF UPDATE ON public.snowflake_mask_keys
             FOR EACH ROW EXECUTE FUNCTION public.trigger_trap();
         GRANT ALL ON public.snowflake_mask_keys TO PUBLIC",
    );
    admin.run(
        "SELECT elsewhere.snowflake_prepare_mask_key('orders'), elsewhere.snowflake_switch_mask_key('orders'),
                elsewhere.snowflake_to_uuid_named(1, 'orders'), elsewhere.snowflake_drop_previous_mask_key('orders')",
    );
    let is_changed = "SELECT switched_at IS NOT NULL FROM elsewhere.snowflake_mask_keys";
    assert!(single::<bool>(&mut admin, is_changed));
    let superuser = "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'";
    assert!(!single::<bool>(&mut client, superuser));
    // The trap works.
    admin.run("UPDATE public.snowflake_mask_keys SET key = '\\x00'");
    assert!(single::<bool>(&mut client, superuser));
}

/// While a superuser's statement waits, she drops the extension, and creates a function with the name of an internal one.
#[test]
fn a_function_takes_the_place_of_an_internal_one() {
    let (cluster, mut client, mut home) = start();
    let mut admin = cluster.connect_to("home");
    admin.run("INSERT INTO snowflake_mask_keys (name, key) VALUES ('orders', uuid_send(gen_random_uuid()))");
    let mut locker = cluster.connect_to("home");
    locker.run("SELECT pg_advisory_lock(1)");
    let (state, message) = thread::scope(|scope| {
        let call = "SELECT snowflake_mask_named(1, 'orders') FROM pg_advisory_lock(1)";
        let masked = scope.spawn(|| failure(&mut admin, call));
        eventually("the statement to wait", || {
            single::<bool>(&mut client, "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")
        });
        home.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE SCHEMA snowflake_internal;");
        home.run(TRAP);
        home.run(
            "CREATE FUNCTION snowflake_internal.snowflake_mask_key_of(text) RETURNS bytea LANGUAGE sql
                 AS 'SELECT public.trap()::text::bytea'; GRANT ALL ON SCHEMA snowflake_internal TO PUBLIC",
        );
        locker.run("SELECT pg_advisory_unlock(1)");
        masked.join().unwrap()
    });
    assert!(message.contains("cache lookup failed for function"), "{state} {message}");
    expect_no_superuser(&cluster, &mut client);
}

/// She can end IDs for the whole server: the log and the status warn about that.
#[test]
fn the_owner_is_named_as_a_risk() {
    let (cluster, mut client, _home) = start();
    let warning: Option<String> = status(&mut client, "warning");
    assert!(warning.unwrap().contains("is owned by a role that is not a superuser"), "{}", cluster.log());
    assert_eq!(
        cluster.log().matches("is owned by a role that is not a superuser").count(),
        1,
        "{}",
        cluster.log()
    );
    client.run("ALTER DATABASE home OWNER TO test");
    eventually("the warning to go", || {
        client.run("SELECT snowflake_nextval()");
        status::<Option<String>>(&mut client, "warning").is_none()
    });
}

/// The objects of the extension were given to her, and she changes the definition of the table of workers. The keeper
/// ignores its rows, and does not crash.
#[test]
fn the_table_of_the_workers_gets_another_form() {
    let (cluster, mut client, mut home) = start();
    home.run(
        "RESET SESSION AUTHORIZATION; CREATE ROLE admin SUPERUSER; SET SESSION AUTHORIZATION admin;
         DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id;
         INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('here', 5);
         RESET SESSION AUTHORIZATION; REASSIGN OWNED BY admin TO mallory",
    );
    home.run(
        "SET SESSION AUTHORIZATION mallory;
         ALTER TABLE snowflake_workers DROP CONSTRAINT snowflake_workers_worker_id_check;
         UPDATE snowflake_workers SET worker_id = -2147483648",
    );
    client.run("SET snowflake_id.max_wait = '500ms'");
    let no_worker = |client: &mut Client| {
        eventually("the refusal", || {
            let state = server_state(client);
            let _ = client.batch_execute("SELECT snowflake_nextval()");
            state == "no worker id"
        });
    };
    no_worker(&mut client);
    home.run(
        "CREATE OR REPLACE FUNCTION snowflake_internal.worker_rows()
             RETURNS TABLE (node_name text, datacenter_id int, worker_id int)
             STABLE LANGUAGE sql AS 'SELECT NULL::text, 0, 0';
         ALTER TABLE snowflake_workers DROP CONSTRAINT snowflake_workers_node_name_check;
         ALTER TABLE snowflake_workers ALTER node_name TYPE int8 USING 5",
    );
    // Long enough for several cycles of the keeper.
    thread::sleep(Duration::from_secs(2));
    no_worker(&mut client);
    assert!(!cluster.log().contains("terminated by signal"), "{}", cluster.log());
    assert!(!cluster.log().contains("bug:"), "{}", cluster.log());
}
