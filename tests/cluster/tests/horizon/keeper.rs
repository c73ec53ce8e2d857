//! The keeper waits for locks and commits, is woken in vain, and exits repeatedly. Also its cost.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::*;

/// A lock on a relation that the keeper reads, and one on a relation that it writes. Calls fail when the horizon is
/// reached, each within `max_wait` and with an error that says what blocks the keeper. They resume by themselves when
/// the lock is released. The log is not flooded.
#[test]
fn the_keeper_waits_for_a_lock() {
    let cluster = Cluster::builder()
        .preload()
        .set("snowflake_id.node_name", "here")
        .short_horizon()
        .set("log_line_prefix", "%b: ")
        .start();
    let mut client = cluster.connect();
    client.run("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('here', 5)");
    let mut all = ids(&mut client, "SELECT snowflake_nextval()");
    for lock in [
        "LOCK TABLE snowflake_workers IN ACCESS EXCLUSIVE MODE",
        "ALTER MATERIALIZED VIEW snowflake_internal.horizon OWNER TO CURRENT_USER",
    ] {
        let mut locker = cluster.connect();
        locker.run(&format!("BEGIN; {lock}"));
        client.run("SET snowflake_id.max_wait = '300ms'");
        let log_before = cluster.log().len();
        // The keeper waits for a second in each cycle.
        eventually("the cause", || match client.query("SELECT snowflake_nextval()", &[]) {
            Ok(rows) => {
                all.push(rows[0].get(0));
                false
            }
            Err(error) => {
                assert_eq!(error.code().unwrap().code(), "55P03", "{}", text(&error));
                text(&error).contains("due to lock timeout")
            }
        });
        for _ in 0..5 {
            let (state, message) = failure_at_once(&mut client, "SELECT snowflake_nextval()");
            assert_eq!(state, "55P03", "{message}");
            assert!(message.contains("due to lock timeout"), "{lock}: {message}");
        }
        assert_eq!(server_state(&mut client), "horizon stalled", "{lock}");
        let log = cluster.log().split_off(log_before);
        let lines: Vec<_> = log.lines().filter(|line| line.starts_with("snowflake_id keeper")).collect();
        assert!((1..=2).contains(&lines.len()), "{lock}: {lines:?}");

        locker.run("ROLLBACK");
        client.run("SET snowflake_id.max_wait = '1min'");
        all.extend(ids(&mut client, "SELECT snowflake_nextval()"));
        let (state, error): (String, Option<String>) = {
            let row = client.query_one("SELECT state, last_error FROM snowflake_status", &[]).unwrap();
            (row.get(0), row.get(1))
        };
        assert_eq!((state.as_str(), error), ("ready", None), "{lock}");
    }
    assert_increasing(&all);
}

/// A call arrives while the keeper's first commit waits for a synchronous standby. That wait consumes the call's
/// signal. The keeper must still remember the call, and extend the horizon later.
#[test]
fn a_call_that_comes_while_a_commit_waits() {
    let cluster =
        Cluster::builder().worker(1).short_horizon().set("synchronous_standby_names", "late").stopped();
    cluster.start_server();
    let mut client = cluster.connect();
    client.run("SET synchronous_commit = local; CREATE EXTENSION snowflake_id");
    let waits = |client: &mut Client, who: &str, event: &str| {
        let query =
            format!("SELECT count(*) > 0 FROM pg_stat_activity WHERE {who} AND wait_event = '{event}'");
        eventually(event, || single::<bool>(client, &query));
    };
    waits(&mut client, "backend_type = 'snowflake_id keeper'", "SyncRep");
    thread::scope(|scope| {
        let call = scope.spawn(|| {
            let call = "SET snowflake_id.max_wait = '1min'; SELECT snowflake_nextval()";
            cluster.connect().run(call);
        });
        waits(
            &mut client,
            "query LIKE '%nextval%' AND pid <> pg_backend_pid()",
            wait_event("SnowflakeHorizon"),
        );
        let refused =
            failure(&mut cluster.connect(), "SET snowflake_id.max_wait = 0; SELECT snowflake_nextval()");
        assert!(refused.1.contains("A commit of the keeper has been in progress"), "{refused:?}");
        // Long enough for several of its short waits.
        thread::sleep(Duration::from_millis(100));
        let _standby = WalReceiver::start(&cluster, "late");
        call.join().unwrap();
        // Several times the time that the published horizon covers.
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            client.run("SET snowflake_id.max_wait = '1min'; SELECT snowflake_nextval()");
            thread::sleep(Duration::from_millis(100));
        }
    });
}

/// Calls wait and wake the keeper every few milliseconds, but the keeper can only find that the extension is gone. It
/// does not waste processor time on that.
#[test]
fn calls_that_wait_do_not_keep_the_keeper_busy() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    client.run("CREATE DATABASE other");
    let mut others: Vec<Client> = (0..3).map(|_| cluster.connect_to("other")).collect();
    others[0].run("CREATE EXTENSION snowflake_id; SELECT snowflake_nextval()");
    let keeper = keeper_pid(&mut client);
    client.run("DROP EXTENSION snowflake_id");
    eventually("the horizon to be reached", || {
        others[0].batch_execute("SET snowflake_id.max_wait = 0; SELECT snowflake_nextval()").err()
    });
    assert_lazy(keeper, || {
        thread::scope(|scope| {
            for client in &mut others {
                scope.spawn(|| {
                    client.run("SET snowflake_id.max_wait = '2s'");
                    assert_eq!(failure(client, "SELECT snowflake_nextval()").0, "55P03");
                });
            }
        });
    });
}

/// The same without a worker ID, where each call fails at once and is repeated.
#[test]
fn calls_without_a_worker_id_do_not_keep_the_keeper_busy() {
    let cluster = Cluster::builder().preload().start();
    let mut client = cluster.connect();
    assert!(failure(&mut client, "SELECT snowflake_nextval()").1.contains("worker"));
    let keeper: i32 = single(&mut client, "SELECT keeper_pid FROM snowflake_status");
    let mut others: Vec<Client> = (0..3).map(|_| cluster.connect()).collect();
    assert_lazy(keeper, || {
        let start = Instant::now();
        thread::scope(|scope| {
            for client in &mut others {
                scope.spawn(|| {
                    while start.elapsed() < Duration::from_secs(2) {
                        assert_eq!(failure(client, "SELECT snowflake_nextval()").0, "55000");
                        thread::sleep(Duration::from_millis(1));
                    }
                });
            }
        });
    });
}

/// Panics if the keeper uses a tenth of a processor or more meanwhile.
fn assert_lazy(keeper: i32, meanwhile: impl FnOnce()) {
    let (before, start) = (processor_time(keeper), Instant::now());
    meanwhile();
    let (spent, time) = (processor_time(keeper) - before, start.elapsed());
    assert!(spent < time / 10, "{spent:?} in {time:?}");
}

/// The processor time that a process has used, in units of 10 ms.
fn processor_time(pid: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name, which is in parentheses, utime and stime are fields 12 and 13.
    let (_, fields) = text.rsplit_once(')').unwrap();
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// The WAL records between two positions: the name of the resource manager and the length in bytes.
fn wal_records(cluster: &Cluster, start: &str, end: &str) -> Vec<(String, u64)> {
    let output = successful(
        cluster
            .program("pg_waldump")
            .arg("--path")
            .arg(cluster.data_dir().join("pg_wal"))
            .args(["--start", start, "--end", end]),
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let record = |line: &str| {
        // rmgr: Generic     len (rec/tot):     61/    61, tx:        735, lsn: ...
        let (head, _) = line.split_once(", tx:")?;
        let (manager, lengths) = head.strip_prefix("rmgr: ")?.split_once("len (rec/tot):")?;
        let (_, total) = lengths.split_once('/')?;
        Some((manager.trim().to_owned(), total.trim().parse().ok()?))
    };
    text.lines()
        // What has been flushed may end within a record, which belongs to what was before.
        .filter(|line| !line.starts_with("first record is after"))
        .map(|line| record(line).unwrap_or_else(|| panic!("{line}")))
        .collect()
}

/// The position up to which WAL has been flushed.
fn end_of_wal(client: &mut Client) -> String {
    client.run("SELECT pg_logical_emit_message(true, 'test', 'here')");
    single(client, "SELECT pg_current_wal_flush_lsn()::text")
}

/// An idle server writes no WAL for the horizon. The next call waits for only one commit.
#[test]
fn idleness_costs_nothing() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    let horizon = "SELECT horizon_us FROM snowflake_internal.horizon WHERE track = 0";
    let before: i64 = single(&mut client, horizon);
    let start = end_of_wal(&mut client);
    // Several times the horizon margin.
    thread::sleep(Duration::from_millis(1_500));
    let records = wal_records(&cluster, &start, &end_of_wal(&mut client));
    assert!(!records.iter().any(|(manager, _)| manager == "Generic"), "{records:?}");
    assert_eq!(single::<i64>(&mut client, horizon), before);
    client.run("SELECT snowflake_nextval()");
    assert!(single::<i64>(&mut client, horizon) > before);
}

/// In bytes, as `pg_waldump` counts them: little for an ID every half second.
#[test]
fn what_the_keeper_writes_to_the_wal() {
    // Whole pages are written once after each checkpoint.
    let quiet = [("autovacuum", "off"), ("full_page_writes", "off")];
    let cluster = Cluster::builder().worker(1).settings(&quiet).start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    let (start, began) = (end_of_wal(&mut client), Instant::now());
    for _ in 0..8 {
        thread::sleep(Duration::from_millis(500));
        client.run("SELECT snowflake_nextval()");
    }
    let seconds = began.elapsed().as_secs_f64();
    let records = wal_records(&cluster, &start, &end_of_wal(&mut client));
    let renewals = records.iter().filter(|(manager, _)| manager == "Generic").count();
    // Everything is counted, including the WAL of the test itself and of PostgreSQL's own processes.
    let bytes: u64 = records.iter().map(|(_, length)| length).sum();
    println!("{renewals} renewals, {bytes} bytes in {seconds:.1} s");
    assert!(renewals > 0);
    assert!((bytes as f64) < 1_000.0 * seconds, "{bytes} bytes in {seconds:.1} s");
}

/// The keeper exits in each cycle: the status does not say that all is well.
#[test]
fn a_keeper_that_ends_again_and_again() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    client.run("SELECT snowflake_nextval()");
    let mut locker = cluster.connect();
    locker.run("BEGIN; ALTER MATERIALIZED VIEW snowflake_internal.horizon OWNER TO CURRENT_USER");
    let ended = AtomicUsize::new(0);
    // Terminates each keeper while it waits for a lock.
    let killer = |stop: &AtomicBool| {
        let mut killer = cluster.connect();
        let waiting = "SELECT DISTINCT pid FROM pg_stat_activity
                       WHERE backend_type = 'snowflake_id keeper' AND wait_event_type = 'Lock'";
        let mut last = 0;
        while !stop.load(Ordering::Relaxed) {
            if let Some(row) =
                killer.query_opt(waiting, &[]).unwrap().filter(|row| row.get::<_, i32>(0) != last)
            {
                last = row.get(0);
                killer.execute("SELECT pg_terminate_backend($1)", &[&last]).unwrap();
                ended.fetch_add(1, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_millis(10));
        }
    };
    beside([killer], || {
        client.run("SET snowflake_id.max_wait = '100ms'");
        wait_for_refusal(&mut client);
        eventually("three keepers to be terminated", || {
            let failed = client.batch_execute("SELECT snowflake_nextval()").is_err();
            let state = server_state(&mut client);
            assert!(!(failed && state == "ready"));
            ended.load(Ordering::Relaxed) >= 3
        });
    });
    locker.run("ROLLBACK");
    wait_for_first_id(&mut client);
    eventually("the state", || server_state(&mut client) == "ready");
}

/// The statistics views count the transactions of the keeper while it runs. Nothing else scans this view.
#[test]
fn the_statistics_count_what_the_keeper_does() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    let keeper = background_pid(&cluster, "snowflake_id keeper");
    let scans = "SELECT coalesce(seq_scan, 0) FROM pg_stat_all_tables
        WHERE schemaname = 'snowflake_internal' AND relname = 'horizon'";
    let before: i64 = single(&mut client, scans);
    eventually("the scans", || {
        client.run("SELECT snowflake_nextval()");
        single::<i64>(&mut client, scans) > before
    });
    assert_eq!(background_pid(&cluster, "snowflake_id keeper"), keeper);
}
