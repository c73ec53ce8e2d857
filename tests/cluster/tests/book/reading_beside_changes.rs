//! Changes of a table beside its readers: cases of docs/tables/reading-in-order.md that the watermark does not cover,
//! and what the page advises. Each test first shows that rows are skipped without the advice.

use std::thread;

use harness::*;

use super::reading_in_order::{INTO_OUTBOX, PAGE, assert_all_read, exporter, server_with_outbox};

const READ: &str = "id < (SELECT snowflake_watermark()) ORDER BY id";

fn server() -> Cluster {
    let server = Cluster::builder().worker(1).start();
    wait_for_first_id(&mut server.connect());
    server
}

/// Creates a table anew, which has a partition for each topic of the list.
fn create_events(client: &mut Client, topics: &[&str]) {
    client.run(
        "DROP TABLE IF EXISTS events CASCADE;
         CREATE TABLE events (id bigint NOT NULL DEFAULT snowflake_nextval(), topic text NOT NULL)
             PARTITION BY LIST (topic)",
    );
    for topic in topics {
        client.run(&partition_of(topic));
    }
}

fn partition_of(topic: &str) -> String {
    format!("CREATE TABLE events_{topic} PARTITION OF events FOR VALUES IN ('{topic}')")
}

/// Waits until a session of a test waits for this event.
fn wait_for_event(client: &mut Client, event: &str) {
    let query = format!("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = '{event}')");
    eventually(event, || single::<bool>(client, &query));
}

/// Waits until the watermark has passed all rows of the table.
fn wait_for_watermark(client: &mut Client, table: &str) {
    let query = format!("SELECT max(id) < snowflake_watermark() FROM {table}");
    eventually("the watermark", || single::<Option<bool>>(client, &query) == Some(true));
}

/// Adds a partition while the query of a reader is planned, and inserts rows into the new partition and then into the
/// old one. The query goes on when that is done, or waits for the reader. Returns the number of rows that the reader
/// skips.
fn skipped_beside(server: &Cluster, add_partition: &str) -> usize {
    let (mut reader, mut other, mut writer) = (server.connect(), server.connect(), server.connect());
    create_events(&mut other, &["a"]);
    // The planner calls a stable function to estimate how many rows are selected, if there are statistics.
    other.run(
        "INSERT INTO events (topic) SELECT 'a' FROM generate_series(1, 100);
         ANALYZE events;
         DELETE FROM events;
         CREATE OR REPLACE FUNCTION plan_slowly() RETURNS bigint STABLE LANGUAGE plpgsql
             AS 'BEGIN PERFORM pg_advisory_lock_shared(1); PERFORM pg_advisory_unlock_shared(1); RETURN 0; END';
         SELECT pg_advisory_lock(1)",
    );
    let mut read = thread::scope(|scope| {
        let first = scope.spawn(|| {
            ids(&mut reader, &format!("SELECT id FROM events WHERE id > plan_slowly() AND {READ}"))
        });
        wait_for_event(&mut other, "advisory");
        let writes = scope.spawn(|| {
            writer.run(add_partition);
            writer.run("INSERT INTO events (topic) VALUES ('b'); INSERT INTO events (topic) VALUES ('a')");
        });
        let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation')";
        eventually("the writer", || writes.is_finished() || single::<bool>(&mut other, waits));
        if writes.is_finished() {
            wait_for_watermark(&mut other, "events");
        }
        other.run("SELECT pg_advisory_unlock(1)");
        first.join().unwrap()
    });
    let written = ids(&mut other, "SELECT id FROM events ORDER BY id");
    all_arrive("the last row", || {
        let position = read.last().copied().unwrap_or(0);
        read.extend(ids(&mut other, &format!("SELECT id FROM events WHERE id > {position} AND {READ}")));
        read.last() == written.last()
    });
    written.len() - read.len()
}

/// Readers do not wait for `ATTACH PARTITION`, and a query that is planned before it does not read the new partition.
#[test]
fn a_partition_is_added() {
    let attach = "CREATE TABLE events_b (LIKE events INCLUDING ALL);
                  ALTER TABLE events ATTACH PARTITION events_b FOR VALUES IN ('b')";
    assert!(PAGE.contains("`LOCK TABLE events`") && PAGE.contains("`CREATE TABLE .. PARTITION OF`"));
    let server = server();
    assert_eq!(skipped_beside(&server, attach), 1);
    assert_eq!(skipped_beside(&server, &format!("BEGIN; LOCK TABLE events; {attach}; COMMIT")), 0);
    assert_eq!(skipped_beside(&server, &partition_of("b")), 0);
}

/// Runs statements of a reader beside a command that rewrites a partition. Returns how many of two rows the last one
/// returns.
fn read_beside_rewrite(server: &Cluster, prepare: &str, statements: &[&str]) -> usize {
    let (mut reader, mut other, mut writer) = (server.connect(), server.connect(), server.connect());
    create_events(&mut other, &["a", "b"]);
    reader.run(prepare);
    other.run("INSERT INTO events (topic) VALUES ('b'); INSERT INTO events (topic) VALUES ('a')");
    wait_for_watermark(&mut other, "events");
    writer.run("BEGIN; ALTER TABLE events_b SET UNLOGGED");
    thread::scope(|scope| {
        let read = scope.spawn(|| {
            let (last, before) = statements.split_last().unwrap();
            before.iter().for_each(|statement| reader.run(statement));
            ids(&mut reader, last).len()
        });
        wait_for_event(&mut other, "relation");
        writer.run("COMMIT");
        read.join().unwrap()
    })
}

/// `EXECUTE` and `REFRESH MATERIALIZED VIEW` take their snapshots before they lock the table.
#[test]
fn a_partition_is_rewritten() {
    const LOCK: &str = "BEGIN; LOCK TABLE events IN ACCESS SHARE MODE";
    assert!(PAGE.contains("LOCK TABLE outbox IN ACCESS SHARE MODE"));
    let server = server();
    let prepare = format!("PREPARE read AS SELECT id FROM events WHERE {READ}");
    assert_eq!(read_beside_rewrite(&server, &prepare, &["EXECUTE read"]), 1);
    assert_eq!(read_beside_rewrite(&server, &prepare, &[LOCK, "EXECUTE read"]), 2);

    let view = format!("CREATE MATERIALIZED VIEW copy AS SELECT id FROM events WHERE {READ} WITH NO DATA");
    let (refresh, read) = ("REFRESH MATERIALIZED VIEW copy", "SELECT id FROM copy");
    assert_eq!(read_beside_rewrite(&server, &view, &[refresh, read]), 1);
    assert_eq!(read_beside_rewrite(&server, &view, &[LOCK, refresh, read]), 2);
}

/// The export waits for a command that rewrites the table. It must not find the table empty.
#[test]
fn an_export_while_the_table_is_rewritten() {
    let server = server_with_outbox();
    let mut client = server.connect();
    client.run(INTO_OUTBOX);
    wait_for_watermark(&mut client, "outbox");
    let mut other = server.connect();
    other.run("BEGIN; ALTER TABLE outbox ALTER topic TYPE varchar(50)");
    let mut export = exporter(&server);
    let exported = thread::scope(|scope| {
        let exported = scope.spawn(&mut export);
        let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'psql' AND wait_event_type = 'Lock')";
        eventually("the lock", || single::<bool>(&mut client, waits));
        other.run("COMMIT");
        exported.join().unwrap()
    });
    assert_all_read(&exported.unwrap(), &server, "outbox");
}
