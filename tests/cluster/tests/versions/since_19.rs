//! Commands that PostgreSQL has since version 19. scripts/test.sh runs these tests on version 19 and later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::*;

use crate::watermark::consumers::{self, WAYS, Way};
use crate::watermark::in_order::while_consuming;
use crate::watermark::writers::{self, KINDS};

/// A table is repacked in each way while rows are inserted, and the server crashes.
#[test]
fn a_table_is_repacked_under_load() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    create_orders(&cluster);
    let mut all = HandedOut::default();
    for _ in 0..3 {
        let (handed_out, ()) = under_load(&cluster, || {
            let mut client = cluster.connect();
            for statement in ["REPACK (CONCURRENTLY) orders", "REPACK orders", "REPACK"] {
                while_inserting(&cluster);
                client.run(statement);
            }
            while_inserting(&cluster);
        });
        all.extend(&handed_out);
        cluster.restart("immediate");
        wait_for_first_id(&mut cluster.connect());
    }
    assert_distinct(&all.all());
    let rows = orders(&cluster);
    assert!(all.rows.iter().all(|id| rows.binary_search(id).is_ok()), "rows are missing");
}

/// `REPACK (CONCURRENTLY)` collects changes from the WAL, which does not describe those of the keeper. PostgreSQL refuses
/// it for materialized views.
#[test]
fn what_the_keeper_stores_is_not_repacked_concurrently() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    for view in ["horizon", "used_identity", "segment_taken"] {
        let (state, message) =
            failure(&mut client, &format!("REPACK (CONCURRENTLY) snowflake_internal.{view}"));
        assert_eq!(state, "0A000", "{message}");
        assert!(message.contains("materialized views"), "{message}");
    }
}

/// The tables of a registry are repacked while a server renews its lease. After `REPACK (CONCURRENTLY)`, the row of
/// `settings` looks like one of a restored dump, and the registry grants nothing new before its administrator says so.
#[test]
fn a_registry_is_repacked() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().start();
    leased_worker(&server);
    let mut registry = fleet.registry.connect();
    for table in ["lease", "segment", "segment_privilege", "signing_key", "settings"] {
        for command in ["REPACK", "REPACK (CONCURRENTLY)"] {
            assert_eq!(
                single::<String>(&mut registry, "SELECT state FROM snowflake_registry.status"),
                "ready"
            );
            registry.run(&format!("{command} snowflake_registry.{table}"));
            assert_renewed(&server);
        }
    }
    let newcomer = fleet.server().start();
    wait_for_error(&newcomer, "restored from a dump");
    registry.run("SELECT snowflake_registry.end_quarantine()");
    leased_worker(&newcomer);
}

/// Consumers that read each time under a new snapshot lose no row.
#[test]
fn a_table_is_repacked_beside_its_readers() {
    let server = writers::server(Cluster::builder());
    consumers::prepare(&server);
    let ways: Vec<Way> =
        WAYS.into_iter().filter(|way| ![Way::RepeatableRead, Way::Serializable].contains(way)).collect();
    let consumed = while_consuming(&server, &KINDS, &ways, false, 2, |random| {
        let mut client = server.connect();
        for _ in 0..rounds(5) {
            for table in ["events", "small", "parted_rest"] {
                random.pause(100);
                client.run(&format!("REPACK (CONCURRENTLY) {table}"));
            }
        }
    });
    consumers::check(&server, &consumed);
}

/// A snapshot from before the end of `REPACK (CONCURRENTLY)` shows the table empty, unless the reader has locked it.
#[test]
fn a_reader_with_an_older_snapshot() {
    let server = Cluster::builder().worker(1).start();
    let (mut reader, mut other) = (server.connect(), server.connect());
    wait_for_first_id(&mut other);
    other.run(
        "CREATE TABLE outbox (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
         INSERT INTO outbox DEFAULT VALUES",
    );
    let read = "SELECT id FROM outbox WHERE id < (SELECT snowflake_watermark()) ORDER BY id";
    eventually("the watermark", || !ids(&mut other, read).is_empty());
    reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    other.run("REPACK (CONCURRENTLY) outbox");
    assert_eq!(ids(&mut reader, read).len(), 0);
    other.run("SET lock_timeout = '10s'");
    reader.run("COMMIT; BEGIN ISOLATION LEVEL REPEATABLE READ; LOCK TABLE outbox IN ACCESS SHARE MODE");
    thread::scope(|scope| {
        scope.spawn(|| other.run("REPACK (CONCURRENTLY) outbox"));
        let mut third = server.connect();
        let waits =
            "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'outbox'::regclass)";
        eventually("the lock", || single::<bool>(&mut third, waits));
        assert_eq!(ids(&mut reader, read).len(), 1);
        reader.run("COMMIT");
    });
}

/// The statement returns the ID of the row that exists. `snowflake_currval()` is the ID that was not used.
#[test]
fn an_insert_selects_the_row_that_exists() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    client.run(
        "CREATE TABLE members (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text UNIQUE);
         CREATE TRIGGER own_id BEFORE INSERT ON members
             FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id')",
    );
    let insert =
        "INSERT INTO members (name) VALUES ('Ada') ON CONFLICT (name) DO SELECT FOR UPDATE RETURNING id";
    let current = "SELECT snowflake_currval()";
    let stored: i64 = single(&mut client, insert);
    assert_eq!(single::<i64>(&mut client, current), stored);
    assert_eq!(single::<i64>(&mut client, insert), stored);
    assert!(single::<i64>(&mut client, current) > stored);
}

/// A subscriber copies all sequences of its publisher again and again, while it takes IDs from the generator script and
/// the library. None of ours is copied, and no ID is repeated.
#[test]
fn sequences_are_synchronized() {
    let [publisher, subscriber] =
        [1, 2].map(|worker| Cluster::builder().worker(worker).set("wal_level", "logical").start());
    let mut source = publisher.connect();
    let script: String = single(&mut source, "SELECT snowflake_generator_sql('standard', 5)");
    let other: String = single(&mut source, "SELECT snowflake_generator_sql('standard', 6)");
    let mut target = subscriber.connect();
    for client in [&mut source, &mut target] {
        wait_for_first_id(client);
        client.run("CREATE SCHEMA ids; CREATE SEQUENCE numbers; SET search_path = ids, public");
        client.run(&script);
    }
    // A subscriber begins as a copy, and then gets a worker ID of its own.
    target.run(&other);
    source.run("SELECT ids.snowflake_nextval(), setval('numbers', 1000); CREATE PUBLICATION all_sequences FOR ALL SEQUENCES");
    let published =
        "SELECT string_agg(sequencename, ' ' ORDER BY sequencename) FROM pg_publication_sequences";
    assert_eq!(
        single::<String>(&mut source, published),
        "numbers snowflake_generator_base snowflake_generator_counter"
    );
    target.run(&format!(
        "CREATE SUBSCRIPTION copies CONNECTION '{}' PUBLICATION all_sequences",
        publisher.connection_string("test")
    ));
    let server = &subscriber;
    let take = |query: &'static str| {
        move |stop: &AtomicBool| {
            let mut client = server.connect();
            let mut taken = vec![];
            while !stop.load(Ordering::Relaxed) {
                taken.extend(ids(&mut client, query));
            }
            taken
        }
    };
    let queries = ["SELECT ids.snowflake_batch(100)", "SELECT public.snowflake_batch(100)"];
    let (taken, ()) = beside(queries.map(take), || {
        for round in 1..=3 {
            source.run(&format!("SELECT setval('numbers', {round}000)"));
            let before = subscriber.log_length();
            target.run("ALTER SUBSCRIPTION copies REFRESH SEQUENCES");
            let is_copied = format!("SELECT last_value = {round}000 FROM numbers");
            eventually("the value", || single::<bool>(&mut target, &is_copied));
            let log = || subscriber.log_between(&(before..u64::MAX));
            eventually("the refusal", || log().contains("mismatched or renamed sequences on subscriber"));
        }
    });
    taken.iter().for_each(|taken| assert_increasing(taken));
    assert_distinct(&taken.concat());
}
