//! Everything but new IDs works without shared memory, without a worker ID and during recovery.

use harness::*;

#[test]
fn not_preloaded() {
    // The file still contains our settings, as if the preload line had been commented out in a hurry.
    let cluster =
        Cluster::builder().set("snowflake_id.worker_id", "1").set("snowflake_id.layout", "twitter").start();
    let mut client = cluster.connect();
    for query in ["SELECT snowflake_nextval()", "SELECT snowflake_batch(1)"] {
        let (state, message) = failure(&mut client, query);
        assert_eq!(state, "55000", "{message}");
        assert!(message.contains("shared_preload_libraries"), "{message}");
    }
    assert_eq!(failure(&mut client, "SELECT snowflake_currval()").0, "55000");
    // Decoding works with the configured layout.
    let worker: i32 = single(&mut client, "SELECT worker_id FROM snowflake_decode(1541815603606036480)");
    assert_eq!(worker, 26);
    assert_eq!(single::<i32>(&mut client, "SELECT snowflake_worker(1541815603606036480, 'leaf')"), 378);
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM snowflake_presets"), 23);
    client.run("LOAD 'snowflake_id'; SET snowflake_id.max_wait = '1s'");
    // A table with the default can be created and restored, but rows cannot be inserted without an ID.
    client.run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n int)");
    assert_eq!(failure(&mut client, "INSERT INTO orders (n) VALUES (1)").0, "55000");
    client.run("INSERT INTO orders VALUES (1, 1); DROP TABLE orders; DROP EXTENSION snowflake_id");
}

/// The libpq that a process loads first serves all its libraries. If the preloaded library brought an older one, a
/// standby could not connect to its primary when its connection string has options that only the server's own libpq
/// knows.
#[test]
fn the_library_has_the_libpq_of_the_server() {
    let used = |builder: Builder| -> Vec<String> {
        let cluster = builder.extensions(&[]).start();
        let mut client = cluster.connect();
        client.run("LOAD 'libpqwalreceiver'");
        let pid: i32 = single(&mut client, "SELECT pg_backend_pid()");
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let mut paths: Vec<_> = maps
            .lines()
            .filter_map(|line| line.split_whitespace().nth(5))
            .filter(|path| path.contains("/libpq.so"))
            .map(String::from)
            .collect();
        paths.dedup();
        paths
    };
    let own = used(Cluster::builder());
    let preloaded = used(Cluster::builder().worker(1));
    println!("{own:?} {preloaded:?}");
    // The server's libpq may have another name, and is then not ours.
    assert!(own.is_empty() || own == preloaded, "{own:?} {preloaded:?}");
}

#[test]
fn no_worker_id() {
    let cluster = Cluster::builder().preload().start();
    let mut client = cluster.connect();
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("ALTER SYSTEM SET snowflake_id.worker_id = "), "{message}");
    // The advice in the hint works.
    client.run("ALTER SYSTEM SET snowflake_id.worker_id = 1");
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(single::<i32>(&mut client, "SELECT snowflake_worker(snowflake_nextval())"), 1);
}

#[test]
fn an_identity_that_does_not_fit_the_layout() {
    let cluster = Cluster::builder()
        .worker(40)
        .set("snowflake_id.datacenter_id", "3")
        .set("snowflake_id.layout", "twitter")
        .start();
    let mut client = cluster.connect();
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "22023", "{message}");
    assert!(message.contains("worker 40") && message.contains("between 0 and 31"), "{message}");
    let (state, message) =
        failure(&mut client, "SET snowflake_id.layout = 'standard'; SELECT snowflake_nextval()");
    assert_eq!(state, "22023", "{message}");
    assert!(message.contains("no datacenter field"), "{message}");
    let id =
        "SET snowflake_id.layout = 'time:41 datacenter:3 worker:7 sequence:12'; SELECT snowflake_nextval()";
    client.run(id);
    let row =
        client.query_one("SELECT datacenter_id, worker_id FROM snowflake_decode(snowflake_currval())", &[]);
    let row = row.unwrap();
    assert_eq!((row.get(0), row.get(1)), (3, 40));
}

/// A standby copied from its primary has the same worker ID, and must not use it.
#[test]
fn no_ids_during_recovery_until_promotion() {
    let cluster = Cluster::builder().worker(1).start();
    cluster.stop_server("fast");
    let signal = cluster.data_dir().join("standby.signal");
    std::fs::write(&signal, "").unwrap();
    successful(std::process::Command::new("chown").arg("--reference").arg(cluster.data_dir()).arg(&signal));
    cluster.start_server();
    let mut client = cluster.connect();
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("recovery"), "{message}");
    let _: i32 = single(&mut client, "SELECT snowflake_worker(1541815603606036480, 'twitter')");
    client.run("SELECT pg_promote()");
    assert!(single::<i64>(&mut client, "SELECT snowflake_nextval()") > 0);
}

/// Without preloading, an invalid layout in postgresql.conf is an error only where the session's layout is used: not in
/// a query that names another layout, nor in its parallel workers.
#[test]
fn a_bad_layout_without_preloading() {
    let cluster = Cluster::builder()
        .set("snowflake_id.layout", "twiter")
        .set("parallel_setup_cost", "0")
        .set("parallel_tuple_cost", "0")
        .set("min_parallel_table_scan_size", "0")
        .start();
    let mut client = cluster.connect();
    client.run("CREATE TABLE numbers AS SELECT generate_series(1::bigint, 100000) AS n; ANALYZE numbers");
    let count: i64 = single(&mut client, "SELECT count(snowflake_worker(n, 'twitter')) FROM numbers");
    assert_eq!(count, 100_000);
    let (state, message) = failure(&mut client, "SELECT count(snowflake_worker(n)) FROM numbers");
    assert_eq!(state, "22023", "{message}");
}

/// `CREATE EXTENSION` says what is missing, before the first INSERT fails. A restore is not disturbed.
#[test]
fn create_extension_warns_of_what_is_missing() {
    const CREATE: &str = "CREATE EXTENSION snowflake_id";
    const RESTORE: &str = "SET row_security = off; CREATE EXTENSION snowflake_id";
    const NO_WORKER: &str = "this server has no worker ID";
    let server = |builder: Builder| {
        let cluster = builder.extensions(&[]).start();
        cluster.connect().run("CREATE DATABASE shop");
        cluster.connect().run("CREATE DATABASE other");
        cluster
    };
    let warned = |cluster: &Cluster, database: &str, create: &str| -> Option<String> {
        let before = cluster.log_length();
        cluster.connect_to(database).run(create);
        let log = cluster.log_between(&(before..u64::MAX));
        // The keeper, whose warnings begin with the extension's name, may find at any time that its rows are gone.
        let mut warnings = log
            .lines()
            .filter_map(|line| Some(line.split_once("WARNING:  ")?.1.to_owned()))
            .filter(|warning| !warning.starts_with("snowflake_id: "));
        let warning = warnings.next();
        assert_eq!(warnings.next(), None, "{log}");
        warning
    };
    let without_library = server(Cluster::builder());
    let missing = "snowflake_id is not in shared_preload_libraries";
    assert_eq!(warned(&without_library, "postgres", CREATE).as_deref(), Some(missing));
    assert_eq!(warned(&without_library, "shop", RESTORE), None);

    let without_worker = server(Cluster::builder().preload());
    assert_eq!(warned(&without_worker, "postgres", RESTORE), None);
    without_worker.connect().run("DROP EXTENSION snowflake_id");
    assert_eq!(warned(&without_worker, "postgres", CREATE).as_deref(), Some(NO_WORKER));
    assert_eq!(warned(&without_worker, "shop", CREATE).as_deref(), Some(NO_WORKER));
    let row =
        "INSERT INTO snowflake_workers (node_name, worker_id) SELECT node_name, 1 FROM snowflake_status";
    without_worker.connect().run(row);
    assert_eq!(warned(&without_worker, "other", CREATE), None);

    let with_worker = server(Cluster::builder().worker(1));
    // The keeper works in another database, where the extension is missing.
    let not_yet = "cannot issue snowflake IDs yet";
    assert_eq!(warned(&with_worker, "shop", CREATE).as_deref(), Some(not_yet));
    assert_eq!(warned(&with_worker, "postgres", CREATE), None);
    assert_eq!(warned(&with_worker, "other", CREATE), None);

    let leased = server(Cluster::builder().preload().set("snowflake_id.registry", "host=/nowhere"));
    assert_eq!(warned(&leased, "postgres", CREATE), None);
}

/// What a new server logs: what to do next, and then good news.
#[test]
fn what_a_new_server_logs() {
    let cluster = Cluster::builder().worker(1).start();
    wait_for_first_id(&mut cluster.connect());
    cluster.stop_server("fast");
    let log = cluster.log();
    let lines: Vec<_> = log.lines().filter_map(|line| Some(line.split_once("  snowflake_id: ")?.1)).collect();
    let is_good = match lines[..] {
        [next, news] => {
            next.contains("run CREATE EXTENSION") && news.starts_with("no horizon was stored in database")
        }
        // The keeper had not looked yet when the extension was created.
        [news] => news.starts_with("no horizon was stored in database"),
        _ => false,
    };
    assert!(is_good, "{lines:#?}");

    // A restore is another matter.
    let cluster = Cluster::builder().worker(1).extensions(&[]).start();
    cluster.connect().run("SET row_security = off; CREATE EXTENSION snowflake_id");
    wait_for_first_id(&mut cluster.connect());
    assert!(cluster.log().contains("the history of this server is not known"), "{}", cluster.log());
}
