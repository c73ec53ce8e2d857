//! Scripts that change every object of a kind in a database, such as a tool that copies sequences or a job that
//! refreshes materialized views. They run as superuser. They cannot change what the keeper has stored, or the keeper
//! stores it again.

use harness::*;

use super::stakes::{now, time_of};

/// The effect of tools that copy sequences from another server: tools for logical replication, for migrations, and from
/// version 19 on `ALTER SUBSCRIPTION .. REFRESH SEQUENCES`.
const COPY_SEQUENCES: &str =
    "SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, 1) FROM pg_sequences";

/// The other server's values are lower. The server crashes before the next cycle of the keeper, and is restarted with
/// the clock at which it issued its first IDs.
#[test]
fn a_tool_copies_all_sequences_and_the_server_crashes() {
    let cluster = Cluster::builder().worker(1).set("snowflake_id.horizon_margin", "20s").clock().start();
    let mut client = cluster.connect();
    client.run("CREATE TABLE customers (id bigserial)");
    let mut all = ids(&mut client, "SELECT snowflake_batch(100000)");
    client.run(COPY_SEQUENCES);
    drop(client);
    cluster.stop_server("immediate");
    cluster.set_clock(time_of(all[0]) - now());
    cluster.start_server();
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    client.run("SET snowflake_id.max_wait = '100ms'");
    if let Ok(rows) = client.query("SELECT snowflake_batch(100000)", &[]) {
        all.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    assert_increasing(&all);
    set_clock_as_needed(&cluster);
    client.run("SET snowflake_id.max_wait = '1min'");
    all.extend(ids(&mut client, "SELECT snowflake_batch(100000)"));
    assert_increasing(&all);
}

/// A script refreshes all materialized views. It fails on ours by every method, and nothing is lost.
#[test]
fn all_materialized_views_are_refreshed() {
    let cluster = Cluster::builder().worker(1).short_horizon().patient().start();
    let mut client = cluster.connect();
    client.run("CREATE MATERIALIZED VIEW daily AS SELECT now() AS at");
    let mut all = ids(&mut client, "SELECT snowflake_batch(1000)");
    let views = "SELECT format('%I.%I', schemaname, matviewname) AS id FROM pg_matviews ORDER BY 1";
    let views: Vec<String> = client.query(views, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(views.len() >= 3, "{views:?}");
    for view in views.iter().filter(|view| *view != "public.daily") {
        for concurrently in ["", "CONCURRENTLY"] {
            let refresh = format!("REFRESH MATERIALIZED VIEW {concurrently} {view}");
            let (state, message) = failure(&mut client, &refresh);
            assert_eq!(state, "55000", "{view}: {message}");
            if concurrently.is_empty() {
                assert!(message.contains("cannot refresh materialized views of schema"), "{view}: {message}");
                assert!(message.contains("Exclude schema snowflake_internal"), "{view}: {message}");
            }
        }
    }
    client.run("REFRESH MATERIALIZED VIEW daily");
    for statement in ["VACUUM FULL", "VACUUM FREEZE"] {
        client.run(statement);
        all.extend(ids(&mut client, "SELECT snowflake_batch(100000)"));
    }
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM snowflake_internal.horizon"), 1);
    cluster.restart("immediate");
    all.extend(ids(&mut cluster.connect(), "SELECT snowflake_nextval()"));
    assert_increasing(&all);
    assert!(!cluster.log().contains("the stored horizons were changed"), "{}", cluster.log());
}

/// The stored horizon is emptied while the server has no worker ID, and the server is stopped before the next cycle of the
/// keeper. Then its clock is set back.
#[test]
fn the_stored_horizon_is_emptied_before_a_stop_without_a_worker_id() {
    empty_before_a_stop_without_a_worker_id(|_| ());
}

/// As before, but the keeper has refused a reset in the meantime.
#[test]
fn the_stored_horizon_is_emptied_before_a_stop_after_a_refused_reset() {
    empty_before_a_stop_without_a_worker_id(|client| {
        let (state, message) = failure(client, "SELECT snowflake_reset_horizon(1)");
        assert_eq!(state, "22023", "{message}");
    });
}

fn empty_before_a_stop_without_a_worker_id(before: impl FnOnce(&mut Client)) {
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(1000)");
    cluster.change("snowflake_id.worker_id", "-1");
    let is_closed = "SELECT state = 'no worker id' FROM snowflake_status";
    eventually("the gate to be closed", || single::<bool>(&mut client, is_closed));
    before(&mut client);
    client.run("REFRESH MATERIALIZED VIEW snowflake_internal.horizon WITH NO DATA");
    drop(client);
    cluster.stop_server("fast");
    cluster.set_clock(time_of(all[0]) - 10.0 - now());
    cluster.configure(&[("snowflake_id.worker_id", "1")]);
    cluster.start_server();
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    client.run("SET snowflake_id.max_wait = '20s'");
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_increasing(&all);
}

/// The stored horizon is emptied by the only statement that can do it. The keeper stores it again, and a crash repeats
/// nothing.
#[test]
fn the_stored_horizon_is_emptied() {
    let cluster = Cluster::builder().worker(1).short_horizon().patient().start();
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(100000)");
    client.run("REFRESH MATERIALIZED VIEW snowflake_internal.horizon WITH NO DATA");
    eventually("the horizon to be written again", || {
        all.extend(ids(&mut client, "SELECT snowflake_nextval()"));
        is_stored(&mut client, "horizon")
    });
    cluster.restart("immediate");
    all.extend(ids(&mut cluster.connect(), "SELECT snowflake_nextval()"));
    assert_increasing(&all);
}

/// The same, but the server crashes before the next cycle of the keeper. The history is lost, and the log says so.
#[test]
fn the_stored_horizon_is_emptied_and_the_server_crashes() {
    let cluster = Cluster::builder().worker(1).set("snowflake_id.horizon_margin", "10min").start();
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(100000)");
    client.run("REFRESH MATERIALIZED VIEW snowflake_internal.horizon WITH NO DATA");
    cluster.restart("immediate");
    all.push(wait_for_first_id(&mut cluster.connect()));
    assert!(cluster.log().contains("the history of this server is not known"), "{}", cluster.log());
    assert_increasing(&all);
}

/// VACUUM FULL, and REPACK since PostgreSQL 19, repeatedly move the row of the horizon to another file, while the keeper
/// writes it and clients take IDs. No update of it is lost in a crash.
#[test]
fn the_horizon_is_rewritten_under_load() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut commands = vec!["VACUUM FULL", "VACUUM FREEZE"];
    if major(&pg_config()) >= 19 {
        commands.push("REPACK");
    }
    let mut all = vec![];
    for _ in 0..3 {
        let (taken, ()) = while_taking(takers(&cluster, 2), || {
            let mut client = cluster.connect();
            for _ in 0..20 {
                for command in &commands {
                    client.run(&format!("{command} snowflake_internal.horizon"));
                }
            }
        });
        all.extend(taken);
        cluster.restart("immediate");
        let first = wait_for_first_id(&mut cluster.connect());
        assert!(all.iter().all(|id| *id < first), "{first} came before another one");
        all.push(first);
    }
    assert_distinct(&all);
}

/// Pages are written in the format of a heap. A relation with another access method is not written.
#[test]
fn what_is_stored_is_no_heap_any_more() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(1000)");
    client.run("CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler");
    for view in ["horizon", "used_identity"] {
        client.run(&format!("ALTER MATERIALIZED VIEW snowflake_internal.{view} SET ACCESS METHOD other"));
        client.run("SET snowflake_id.max_wait = '100ms'");
        assert_eq!(wait_for_refusal(&mut client).0, "55P03");
        client.run(&format!("ALTER MATERIALIZED VIEW snowflake_internal.{view} SET ACCESS METHOD heap"));
        client.run("SET snowflake_id.max_wait = '1min'");
        all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    }
    assert_increasing(&all);
}

/// In-place writes reach a standby, whose pages are compared with the primary's after each record.
#[test]
fn a_standby_replays_what_is_written_in_place() {
    let primary = Cluster::builder().worker(1).short_horizon().patient();
    let primary = primary.set("wal_consistency_checking", "all").start();
    let mut client = primary.connect();
    wait_for_first_id(&mut client);
    let standby = primary.start_standby(&[]);
    let stored = "SELECT horizon_us FROM snowflake_internal.horizon WHERE track = 0";
    // The last statement stores the known history in the transaction that creates the views.
    let again = "DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id";
    for statement in ["CHECKPOINT", "VACUUM FULL snowflake_internal.horizon", "VACUUM FREEZE", again] {
        client.run(statement);
        let before: i64 = single(&mut client, stored);
        let mut replayed = standby.connect();
        eventually("the horizon on the standby", || {
            client.run("SELECT snowflake_nextval()");
            let row = replayed.query_opt(stored, &[]).ok().flatten();
            row.is_some_and(|row| row.get::<_, i64>(0) > before)
        });
    }
    primary.stop_server("immediate");
    standby.promote();
    wait_for_first_id(&mut standby.connect());
    assert!(!standby.log().contains("inconsistent page"), "{}", standby.log());
}

/// A dump contains neither the rows nor a REFRESH, which would fail.
#[test]
fn a_dump_has_nothing_of_what_is_stored() {
    let cluster = Cluster::builder().worker(1).start();
    wait_for_first_id(&mut cluster.connect());
    let dump = successful(cluster.client_program("pg_dump").arg("--dbname=postgres"));
    let dump = String::from_utf8(dump.stdout).unwrap();
    assert!(dump.contains("CREATE EXTENSION IF NOT EXISTS snowflake_id"), "{dump}");
    // The segments of roles are dumped. They are in the same schema, but users define them.
    let dump = dump.replace("snowflake_internal.segment_grant", "").replace("Schema: snowflake_internal", "");
    assert!(!dump.contains("snowflake_internal") && !dump.contains("REFRESH"), "{dump}");
}
