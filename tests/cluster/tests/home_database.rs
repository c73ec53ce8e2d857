//! What is done to the database in which the keeper stores the horizon: it is locked, made read-only, closed,
//! robbed of the extension. And what the keeper costs there.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::faults::{WalReceiver, keeper_pid, replace_keeper, set_clock_as_needed};
use snowflake_id_cluster_tests::load::{Random, StopAtEnd, take_in_database_until};
use snowflake_id_cluster_tests::{
    Cluster, IN_HOME, WORKER_1, assert_distinct, assert_increasing, failure, ids, poll, single, successful,
    text, wait_event,
};

/// A lock on what the keeper reads, and one on what it writes. Calls fail when the horizon is reached, each
/// within `max_wait` and with what is in the keeper's way, and go on by themselves when the lock is gone. The
/// log is not filled.
#[test]
fn the_keeper_waits_for_a_lock() {
    let cluster = Cluster::start(&[
        WORKER_1[0],
        ("snowflake_id.node_name", "here"),
        ("snowflake_id.lease", "500ms"),
        // Tells the keeper's lines from those of the calls that fail.
        ("log_line_prefix", "%b: "),
    ]);
    let mut client = cluster.connect();
    client.batch_execute("INSERT INTO snowflake_worker (node_name, worker_id) VALUES ('here', 5)").unwrap();
    let mut all = ids(&mut client, "SELECT snowflake_nextval()");
    for lock in [
        "LOCK TABLE snowflake_worker IN ACCESS EXCLUSIVE MODE",
        "ALTER SEQUENCE snowflake_internal.horizon CACHE 1",
    ] {
        let mut locker = cluster.connect();
        locker.batch_execute(&format!("BEGIN; {lock}")).unwrap();
        client.batch_execute("SET snowflake_id.max_wait = '300ms'").unwrap();
        let log_before = cluster.log().len();
        let locked = Instant::now();
        let mut failures = 0;
        // The keeper waits for a second each time.
        while failures < 5 || locked.elapsed() < Duration::from_secs(4) {
            let start = Instant::now();
            match client.query("SELECT snowflake_nextval()", &[]) {
                Ok(rows) => all.push(rows[0].get(0)),
                Err(error) => {
                    failures += 1;
                    let waited = start.elapsed();
                    assert!(waited < Duration::from_secs(2), "{waited:?}");
                    let message = text(&error);
                    assert_eq!(error.code().unwrap().code(), "55P03", "{message}");
                    if locked.elapsed() > Duration::from_secs(3) {
                        assert!(message.contains("due to lock timeout"), "{lock}: {message}");
                    }
                }
            }
        }
        let state: String = single(&mut client, "SELECT state FROM snowflake_status LIMIT 1");
        assert_eq!(state, "horizon stalled", "{lock}");
        let log = cluster.log().split_off(log_before);
        let lines: Vec<_> = log.lines().filter(|line| line.starts_with("snowflake_id keeper")).collect();
        assert!((1..=2).contains(&lines.len()), "{lock}: {lines:?}");

        locker.batch_execute("ROLLBACK").unwrap();
        client.batch_execute("SET snowflake_id.max_wait = '30s'").unwrap();
        all.extend(ids(&mut client, "SELECT snowflake_nextval()"));
        let (state, error): (String, Option<String>) = {
            let row =
                client.query_one("SELECT state, last_error FROM snowflake_status LIMIT 1", &[]).unwrap();
            (row.get(0), row.get(1))
        };
        assert_eq!((state.as_str(), error), ("ready", None), "{lock}");
    }
    assert_increasing(&all);
}

/// A call comes while the keeper's first commit waits for a synchronous standby. That wait uses up the call's
/// signal, and yet the keeper has to remember that it was asked: the horizon is extended later on, too.
#[test]
fn a_call_that_comes_while_a_commit_waits() {
    let cluster = Cluster::stopped(&[
        WORKER_1[0],
        WORKER_1[1],
        ("snowflake_id.lease", "500ms"),
        ("synchronous_standby_names", "late"),
    ]);
    cluster.start_server().unwrap();
    let mut client = cluster.connect();
    client.batch_execute("SET synchronous_commit = local; CREATE EXTENSION snowflake_id").unwrap();
    let waits = |client: &mut Client, who: &str, event: &str| {
        let query =
            format!("SELECT count(*) > 0 FROM pg_stat_activity WHERE {who} AND wait_event = '{event}'");
        poll(event, || single::<bool>(client, &query).then_some(()));
    };
    waits(&mut client, "backend_type = 'snowflake_id keeper'", "SyncRep");
    thread::scope(|scope| {
        let call = scope.spawn(|| {
            let call = "SET snowflake_id.max_wait = '1min'; SELECT snowflake_nextval()";
            cluster.connect().batch_execute(call).unwrap();
        });
        waits(
            &mut client,
            "query LIKE '%nextval%' AND pid <> pg_backend_pid()",
            wait_event("SnowflakeHorizon"),
        );
        let refused =
            failure(&mut cluster.connect(), "SET snowflake_id.max_wait = 0; SELECT snowflake_nextval()");
        assert!(refused.1.contains("A commit of the keeper has been under way"), "{refused:?}");
        // Until it has gone through a few of its short waits.
        thread::sleep(Duration::from_millis(100));
        let _standby = WalReceiver::start(&cluster, "late");
        call.join().unwrap();
        // Several times as long as what has been promised so far.
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(3) {
            client.batch_execute("SET snowflake_id.max_wait = '2s'; SELECT snowflake_nextval()").unwrap();
            thread::sleep(Duration::from_millis(100));
        }
    });
}

/// Calls wait and ask for the keeper every few milliseconds, and all that it can do is to find that the
/// extension is gone. It does not spend its time on that.
#[test]
fn calls_that_wait_do_not_keep_the_keeper_busy() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "500ms")]);
    let mut client = cluster.connect();
    client.batch_execute("CREATE DATABASE other").unwrap();
    let mut others: Vec<Client> = (0..3).map(|_| cluster.connect_to("other")).collect();
    others[0].batch_execute("CREATE EXTENSION snowflake_id; SELECT snowflake_nextval()").unwrap();
    let keeper = keeper_pid(&mut client);
    client.batch_execute("DROP EXTENSION snowflake_id").unwrap();
    poll("the horizon to be reached", || {
        others[0].batch_execute("SET snowflake_id.max_wait = 0; SELECT snowflake_nextval()").err()
    });
    let before = processor_time(keeper);
    thread::scope(|scope| {
        for client in &mut others {
            scope.spawn(|| {
                client.batch_execute("SET snowflake_id.max_wait = '3s'").unwrap();
                assert_eq!(failure(client, "SELECT snowflake_nextval()").0, "55P03");
            });
        }
    });
    let spent = processor_time(keeper) - before;
    assert!(spent < Duration::from_millis(300), "{spent:?} in 3 s");
}

/// The same without a worker ID, where each call fails at once and comes again.
#[test]
fn calls_without_a_worker_id_do_not_keep_the_keeper_busy() {
    let cluster = Cluster::start(&[WORKER_1[0]]);
    let mut client = cluster.connect();
    assert!(failure(&mut client, "SELECT snowflake_nextval()").1.contains("worker"));
    let keeper: i32 = single(&mut client, "SELECT keeper_pid FROM snowflake_status");
    let before = processor_time(keeper);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut client = cluster.connect();
                while start.elapsed() < Duration::from_secs(3) {
                    assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000");
                }
            });
        }
    });
    let spent = processor_time(keeper) - before;
    assert!(spent < Duration::from_millis(300), "{spent:?} in 3 s");
}

/// The processor time that a process has used, in steps of 10 ms.
fn processor_time(pid: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name, which is in parentheses, utime and stime are the fields 12 and 13.
    let (_, fields) = text.rsplit_once(')').unwrap();
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Takes IDs until the horizon has been extended three times.
fn expect_renewals(client: &mut Client) {
    keeper_pid(client);
    for _ in 0..3 {
        let query = "SELECT horizon FROM snowflake_status LIMIT 1";
        let before: std::time::SystemTime = single(client, query);
        poll("the horizon to be extended", || {
            ids(client, "SELECT snowflake_nextval()");
            (single::<std::time::SystemTime>(client, query) > before).then_some(())
        });
    }
    let error: Option<String> = single(client, "SELECT last_error FROM snowflake_status LIMIT 1");
    assert_eq!(error, None);
}

#[test]
fn the_keepers_database_is_read_only() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "500ms")]);
    let mut client = cluster.connect();
    // By the configuration, for the keeper that runs; by the database, for the next.
    cluster.configure(&[("default_transaction_read_only", "on")]);
    cluster.reload();
    poll("the reload", || {
        (single::<String>(&mut client, "SHOW default_transaction_read_only") == "on").then_some(())
    });
    expect_renewals(&mut client);
    client
        .batch_execute(
            "BEGIN READ WRITE; ALTER DATABASE postgres SET default_transaction_read_only = on; COMMIT",
        )
        .unwrap();
    replace_keeper(&mut client);
    expect_renewals(&mut client);
    cluster.stop_server("fast");
    assert!(!cluster.log().contains("read-only"), "{}", cluster.log());
    cluster.start_server().unwrap();
    expect_renewals(&mut cluster.connect());
}

#[test]
fn the_keepers_database_allows_no_connections() {
    let cluster = Cluster::stopped(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "500ms"), IN_HOME]);
    let mut client = cluster.start_with_home();
    client.batch_execute("ALTER DATABASE home ALLOW_CONNECTIONS false").unwrap();
    assert!(cluster.try_connect("home").is_err());
    expect_renewals(&mut client);
    replace_keeper(&mut client);
    expect_renewals(&mut client);
    cluster.stop_server("immediate");
    cluster.start_server().unwrap();
    expect_renewals(&mut cluster.connect());
}

/// What is stored goes with the extension, while sessions in another database go on. The server still knows
/// what it has promised, and a crash, right then or once the keeper has written it anew, repeats nothing.
#[test]
fn the_extension_is_dropped_and_created_again_under_load() {
    let mut random = Random::seeded();
    let cluster = Cluster::start_with_clock(WORKER_1);
    let other = "other";
    cluster.connect().batch_execute("CREATE DATABASE other").unwrap();
    cluster.connect_to(other).batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    keeper_pid(&mut cluster.connect());
    let all = Mutex::new(Vec::new());
    let mut shift = 0.0;
    for round in 0..4 {
        let stop = AtomicBool::new(false);
        let (in_one, at_once) = (round % 2 == 0, round < 2);
        println!("round {round}: in one transaction {in_one}, crash at once {at_once}");
        thread::scope(|scope| {
            let _end = StopAtEnd(&stop);
            for _ in 0..3 {
                scope.spawn(|| take_in_database_until(&cluster, other, &stop, &all));
            }
            // More than the 2 s by which the clock then goes back, less the drift.
            thread::sleep(Duration::from_millis(1_200) + random.milliseconds(600));
            let mut client = cluster.connect();
            let log_before = cluster.log().len();
            if in_one {
                client.batch_execute("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id").unwrap();
            } else {
                client.batch_execute("DROP EXTENSION snowflake_id").unwrap();
                thread::sleep(random.milliseconds(200));
                client.batch_execute("CREATE EXTENSION snowflake_id").unwrap();
            }
            if !at_once {
                let stored = "SELECT last_value FROM snowflake_internal.horizon";
                let promised: i64 = single(&mut client, stored);
                poll("the horizon to be written again", || {
                    (single::<i64>(&mut client, stored) > promised).then_some(())
                });
                // It warns that somebody else changed the horizon, or of the error that it met while that was
                // under way.
                let log = &cluster.log()[log_before..];
                assert!(log.contains("snowflake_id: "), "{log}");
            }
            cluster.stop_server("immediate");
        });
        shift -= 2.0;
        cluster.set_clock(shift);
        cluster.start_server().unwrap();
        keeper_pid(&mut cluster.connect());
        shift = set_clock_as_needed(&cluster);
    }
    let mut client = cluster.connect_to(other);
    all.lock().unwrap().extend(ids(&mut client, "SELECT snowflake_batch(1000000)"));
    let all = all.into_inner().unwrap();
    println!("{} IDs", all.len());
    assert_distinct(&all);
}

/// The WAL records between two places: the name of the resource manager and the length in bytes.
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
        // rmgr: Sequence    len (rec/tot):     99/    99, tx:        735, lsn: ...
        let (head, _) = line.split_once(", tx:")?;
        let (manager, lengths) = head.strip_prefix("rmgr: ")?.split_once("len (rec/tot):")?;
        let (_, total) = lengths.split_once('/')?;
        Some((manager.trim().to_owned(), total.trim().parse().ok()?))
    };
    text.lines().map(|line| record(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// The end of the WAL, up to which it is on disk.
fn end_of_wal(client: &mut Client) -> String {
    client.batch_execute("SELECT pg_logical_emit_message(true, 'test', 'here')").unwrap();
    single(client, "SELECT pg_current_wal_flush_lsn()::text")
}

/// In bytes, as `pg_waldump` counts them: nothing before the first ID, and little for an ID every half
/// second.
#[test]
fn what_the_keeper_writes_to_the_wal() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1], ("autovacuum", "off")]);
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    let start = end_of_wal(&mut client);
    // Two leases.
    thread::sleep(Duration::from_secs(6));
    let idle = end_of_wal(&mut client);
    let records = wal_records(&cluster, &start, &idle);
    assert!(!records.iter().any(|(manager, _)| manager == "Sequence"), "{records:?}");

    client.batch_execute("SELECT snowflake_nextval()").unwrap();
    let (start, began) = (end_of_wal(&mut client), Instant::now());
    for _ in 0..20 {
        thread::sleep(Duration::from_millis(500));
        client.batch_execute("SELECT snowflake_nextval()").unwrap();
    }
    let seconds = began.elapsed().as_secs_f64();
    let end = end_of_wal(&mut client);
    let records = wal_records(&cluster, &start, &end);
    let renewals = records.iter().filter(|(manager, _)| manager == "Sequence").count();
    // Everything is counted, what the test itself and PostgreSQL's own processes write as well.
    let bytes: u64 = records.iter().map(|(_, length)| length).sum();
    println!("{renewals} renewals, {bytes} bytes in {seconds:.1} s");
    assert!(renewals > 0);
    assert!((bytes as f64) < 1_000.0 * seconds, "{bytes} bytes in {seconds:.1} s");
}

/// Whatever ends the keeper's session, or makes it somebody else's, does not end IDs.
#[test]
fn settings_of_the_keepers_database_that_would_end_or_change_its_session() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "500ms")]);
    let mut client = cluster.connect();
    client.batch_execute("CREATE ROLE mallory").unwrap();
    for setting in [
        "exit_on_error = on",
        "role = 'mallory'",
        "session_authorization = 'mallory'",
        "transaction_timeout = '700ms'",
        "statement_timeout = '1ms'",
        "lock_timeout = '1ms'",
        "default_transaction_isolation = 'serializable'",
        "default_transaction_deferrable = on",
    ] {
        match client.batch_execute(&format!("ALTER DATABASE postgres SET {setting}")) {
            Ok(()) => {}
            // Before version 17 there is no such setting.
            Err(error) if setting.starts_with("transaction_timeout") => {
                assert!(text(&error).contains("unrecognized"), "{}", text(&error));
                continue;
            }
            Err(error) => panic!("{setting}: {}", text(&error)),
        }
        println!("{setting}");
        replace_keeper(&mut client);
        expect_renewals(&mut client);
        // With a lock on what it has to write, it waits and reports, and goes on.
        let mut other = cluster.connect_to("template1");
        other.batch_execute("SELECT 1").unwrap();
        client.batch_execute("BEGIN; ALTER SEQUENCE snowflake_internal.horizon MINVALUE 0").unwrap();
        let mut keeper = || -> i32 {
            single(&mut other, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_id keeper'")
        };
        let before = keeper();
        thread::sleep(Duration::from_secs(4));
        assert_eq!(before, keeper(), "{setting}");
        client.batch_execute("ROLLBACK; ALTER DATABASE postgres RESET ALL").unwrap();
        client
            .batch_execute(
                "SET snowflake_id.max_wait = '20s'; SELECT snowflake_nextval(); RESET snowflake_id.max_wait",
            )
            .unwrap();
    }
    cluster.stop_server("fast");
}

/// The keeper ends over each look: the status does not say that all is well.
#[test]
fn a_keeper_that_ends_again_and_again() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "500ms")]);
    let mut client = cluster.connect();
    keeper_pid(&mut client);
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
    let locked = AtomicBool::new(true);
    thread::scope(|scope| {
        // Ends each keeper while that waits for a lock.
        let mut locker = cluster.connect();
        locker.batch_execute("BEGIN; ALTER SEQUENCE snowflake_internal.horizon MINVALUE 0").unwrap();
        let locked = &locked;
        let cluster = &cluster;
        scope.spawn(move || {
            let mut killer = cluster.connect();
            while locked.load(std::sync::atomic::Ordering::Relaxed) {
                let waiting = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                               WHERE backend_type = 'snowflake_id keeper' AND wait_event_type = 'Lock'";
                killer.batch_execute(waiting).unwrap();
                thread::sleep(Duration::from_millis(10));
            }
        });
        client.batch_execute("SET snowflake_id.max_wait = '100ms'").unwrap();
        poll("the horizon to be reached", || client.batch_execute("SELECT snowflake_nextval()").err());
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(4) {
            let failed = client.batch_execute("SELECT snowflake_nextval()").is_err();
            let state: String = single(&mut client, "SELECT state FROM snowflake_status LIMIT 1");
            assert!(!(failed && state == "ready"));
            thread::sleep(Duration::from_millis(5));
        }
        locked.store(false, std::sync::atomic::Ordering::Relaxed);
        locker.batch_execute("ROLLBACK").unwrap();
    });
    poll("an ID", || client.batch_execute("SELECT snowflake_nextval()").ok());
    poll("the state", || {
        (single::<String>(&mut client, "SELECT state FROM snowflake_status LIMIT 1") == "ready").then_some(())
    });
}

/// Its name in `snowflake_worker` is not ASCII, and the database has another encoding than the configuration.
#[test]
fn the_keepers_database_is_not_in_utf8() {
    let cluster = Cluster::stopped(&[
        ("shared_preload_libraries", "snowflake_id"),
        IN_HOME,
        ("snowflake_id.node_name", "köln"),
    ]);
    cluster.start_server().unwrap();
    let mut client = cluster.connect();
    client.batch_execute("CREATE DATABASE home ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0").unwrap();
    let mut home = cluster.connect_to("home");
    home.batch_execute("CREATE SCHEMA \"grün\"; CREATE EXTENSION snowflake_id SCHEMA \"grün\"").unwrap();
    home.batch_execute("INSERT INTO \"grün\".snowflake_worker (node_name, worker_id) VALUES ('köln', 5)")
        .unwrap();
    poll("an ID", || home.batch_execute("SELECT \"grün\".snowflake_nextval()").ok());
    assert_eq!(single::<i32>(&mut home, "SELECT \"grün\".snowflake_worker(\"grün\".snowflake_currval())"), 5);
}

/// By force the keeper's database can be dropped. IDs end when the horizon is reached, on the whole server,
/// and go on when there is such a database again.
#[test]
fn the_keepers_database_is_dropped_by_force() {
    let cluster = Cluster::stopped(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "500ms"), IN_HOME]);
    let mut client = cluster.start_with_home();
    let mut all = ids(&mut client, "SELECT snowflake_batch(100000)");
    client.batch_execute("DROP DATABASE home WITH (FORCE)").unwrap();
    client.batch_execute("SET snowflake_id.max_wait = '100ms'").unwrap();
    let message =
        poll("the refusal", || Some(text(&client.batch_execute("SELECT snowflake_nextval()").err()?)));
    println!("{message}");
    poll("the state", || {
        let state: String = single(&mut client, "SELECT state FROM snowflake_status LIMIT 1");
        assert_ne!(state, "ready");
        let error: Option<String> = single(&mut client, "SELECT last_error FROM snowflake_status LIMIT 1");
        error?.contains("cannot connect to database \"home\"").then_some(())
    });
    client.batch_execute("CREATE DATABASE home").unwrap();
    cluster.connect_to("home").batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    poll("an ID", || client.batch_execute("SELECT snowflake_nextval()").ok());
    client.batch_execute("SET snowflake_id.max_wait = '20s'").unwrap();
    all.extend(ids(&mut client, "SELECT snowflake_batch(100000)"));
    assert_increasing(&all);
}
