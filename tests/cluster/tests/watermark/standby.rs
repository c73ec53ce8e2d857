//! Standbys have no watermark. The watermark of the primary holds on a standby that has replayed enough WAL.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::*;
use postgres::types::PgLsn;

use super::events::{insert, server, wait_until_passed, watermark};
use super::in_order::{counters, wait_for_counts};
use super::writers::{self, KINDS, Writer, finish_prepared};

#[test]
fn promotion_under_repeatable_read() {
    let primary = server(Cluster::builder().short_horizon());
    insert(&mut primary.connect());
    let standby = primary.start_standby(&[]);
    let mut client = standby.connect();
    let (state, message) = failure(&mut client, "SELECT snowflake_watermark()");
    assert_eq!(state, "55000");
    assert!(message.contains("recovery") && message.contains("pg_current_wal_insert_lsn()"), "{message}");
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM snowflake_watermark_status"), 0);

    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM events");
    primary.stop_server("immediate");
    standby.promote();
    let mut other = standby.connect();
    wait_for_first_id(&mut other);
    let id = insert(&mut other);
    wait_until_passed(&mut other, id);
    assert_eq!(watermark(&mut client), None, "the snapshot was taken during recovery");
    client.run("COMMIT");
    assert!(watermark(&mut client) > Some(id));
}

/// Reads on the standby by the recipe in the hint of the error, while transactions of all kinds run on the primary.
#[test]
fn the_recipe_for_standbys() {
    let primary = writers::server(Cluster::builder());
    let standby = primary.start_standby(&[]);
    let (ended, found) = (counters(KINDS.len()), counters(1));
    let writers = (0..6).map(|number| {
        let writer = Writer {
            server: &primary,
            number,
            seed: number as u64,
            kinds: &KINDS,
            ended: &ended,
            expects_errors: false,
        };
        move |stop: &AtomicBool| writer.run(stop)
    });
    let consume = |stop: &AtomicBool| {
        let (mut on_primary, mut on_standby) = (primary.connect(), standby.connect());
        let mut read: Vec<i64> = vec![];
        loop {
            let is_last = stop.load(Ordering::Relaxed);
            let query = "SELECT snowflake_watermark(), pg_current_wal_insert_lsn()";
            let row = on_primary.query_one(query, &[]).unwrap();
            let (watermark, position): (Option<i64>, PgLsn) = (row.get(0), row.get(1));
            let query = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'");
            eventually("the replay", || single::<bool>(&mut on_standby, &query));
            let cursor = read.last().copied().unwrap_or_default();
            let watermark = watermark.unwrap_or_default();
            let query = format!("SELECT id FROM events WHERE id > {cursor} AND id < {watermark} ORDER BY id");
            let rows = ids(&mut on_standby, &query);
            found[0].fetch_add(u64::from(!rows.is_empty()), Ordering::Relaxed);
            read.extend(rows);
            let last: i64 = single(&mut on_primary, "SELECT coalesce(max(id), 0) FROM events");
            if is_last && watermark > last {
                return read;
            }
            thread::sleep(Duration::from_millis(3));
        }
    };
    let (read, ()) = beside([consume], || {
        beside(writers, || {
            wait_for_counts(&ended, rounds(15).into());
            wait_for_counts(&found, rounds(15).into());
        });
        finish_prepared(&primary);
    });
    let rows = ids(&mut primary.connect(), "SELECT id FROM events ORDER BY id");
    assert!(read[0] == rows, "{} of {} rows", read[0].len(), rows.len());
}
