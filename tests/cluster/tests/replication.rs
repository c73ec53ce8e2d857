//! Promise 1 over promotion, restore and upgrade: what a server hands out after it was made from a copy is
//! compared with what the copied one handed out, and with the rows that the copy has.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use snowflake_id_cluster_tests::load::{create_orders, orders, take_until, under_load};
use snowflake_id_cluster_tests::{
    Cluster, WORKER_1, ask_pg_config, assert_distinct, failure, ids, major, pg_config, poll, single,
    successful,
};

/// How long clients take IDs before something happens, and afterwards.
const A_WHILE: Duration = Duration::from_millis(700);

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The time in an ID of layout `standard`, in seconds of Unix time.
fn time_of(id: i64) -> f64 {
    const EPOCH: f64 = 1_704_067_200.0;
    EPOCH + (id >> 22) as f64 / 1_000.0
}

/// How many of the IDs are among the others as well.
fn repeats(ids: &[i64], others: &[i64]) -> usize {
    let mut others = others.to_vec();
    others.sort_unstable();
    ids.iter().filter(|id| others.binary_search(id).is_ok()).count()
}

/// How many of the IDs bear a later time than the server's clock has: those that it would repeat if it
/// believed its clock.
fn at_stake(cluster: &Cluster, ids: &[i64]) -> usize {
    let clock: f64 = single(&mut cluster.connect(), "SELECT extract(epoch FROM clock_timestamp())::float8");
    ids.iter().filter(|id| time_of(**id) > clock).count()
}

/// Sets the server's clock to 2 s before the time in the latest of the IDs.
fn set_clock_behind(cluster: &Cluster, ids: &[i64]) {
    cluster.set_clock(time_of(*ids.iter().max().unwrap()) - 2.0 - now());
}

/// What four clients get from a server as soon as it makes IDs.
fn take_a_while(cluster: &Cluster) -> Vec<i64> {
    let mut client = cluster.connect();
    let first = poll("an ID", || Some(client.query_one("SELECT snowflake_nextval()", &[]).ok()?.get(0)));
    let stop = AtomicBool::new(false);
    let all = Mutex::new(vec![first]);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| take_until(cluster, &stop, &all));
        }
        thread::sleep(A_WHILE);
        stop.store(true, Ordering::Relaxed);
    });
    let all = all.into_inner().unwrap();
    assert!(all.len() > 1_000, "only {} IDs", all.len());
    assert_distinct(&all);
    all
}

/// Every commit, those of the keeper too, has waited for the standby: it knows of all that was handed out,
/// rows or not.
#[test]
fn a_synchronous_standby_is_promoted_under_load() {
    let primary = Cluster::start(WORKER_1);
    create_orders(&primary);
    let standby = primary.start_standby(&[]);
    standby.set_clock(-2.0);
    primary.replicate_synchronously();
    let (before, ()) = under_load(&primary, || {
        thread::sleep(3 * A_WHILE);
        primary.stop_server("immediate");
    });
    let all = before.all();
    set_clock_behind(&standby, &all);
    standby.promote();
    let at_stake = at_stake(&standby, &all);
    let after = take_a_while(&standby);
    println!("{} IDs handed out, {at_stake} of them at stake, {} after promotion", all.len(), after.len());
    assert!(at_stake > 0);
    assert_eq!(repeats(&after, &all), 0);
    assert_eq!(repeats(&before.rows, &orders(&standby)), before.rows.len(), "a committed row is missing");
}

/// The standby has not received the last half second: rows that had arrived are safe.
#[test]
fn an_asynchronous_standby_is_promoted_under_load() {
    let primary = Cluster::start(WORKER_1);
    create_orders(&primary);
    let standby = primary.start_standby(&[]);
    standby.set_clock(-2.0);
    let (before, ()) = under_load(&primary, || {
        thread::sleep(3 * A_WHILE);
        standby.stop_receiving();
        thread::sleep(Duration::from_millis(500));
        primary.stop_server("immediate");
    });
    let arrived = orders(&standby);
    set_clock_behind(&standby, &arrived);
    standby.promote();
    let at_stake = at_stake(&standby, &arrived);
    let after = take_a_while(&standby);
    let lost = before.rows.len() - repeats(&before.rows, &arrived);
    println!(
        "{} rows committed, {lost} of them lost, {at_stake} that arrived at stake, {} IDs after promotion",
        before.rows.len(),
        after.len()
    );
    assert!(at_stake > 0 && lost > 0);
    assert_eq!(repeats(&after, &arrived), 0);
}

/// With a worker ID of its own, the standby cannot repeat what was lost either. The lease is so short that
/// with the same worker ID it would.
#[test]
fn a_standby_with_a_worker_id_of_its_own() {
    let primary = Cluster::start(&[
        WORKER_1[0],
        ("snowflake_id.node_name", "alpha"),
        ("snowflake_id.lease", "200ms"),
        ("snowflake_id.max_drift", "100ms"),
    ]);
    create_orders(&primary);
    let workers = "INSERT INTO snowflake_worker (node_name, worker_id) VALUES ('alpha', 1), ('beta', 2)";
    primary.connect().batch_execute(workers).unwrap();
    let standby = primary.start_standby(&[("snowflake_id.node_name", "beta")]);
    let (before, ()) = under_load(&primary, || {
        thread::sleep(A_WHILE);
        standby.stop_receiving();
        thread::sleep(2 * A_WHILE);
        primary.stop_server("immediate");
    });
    let all = before.all();
    set_clock_behind(&standby, &all);
    standby.promote();
    let after = take_a_while(&standby);
    let as_alpha: Vec<i64> = after.iter().map(|id| with_worker(*id, 1)).collect();
    println!(
        "{} IDs as alpha, {} as beta, which would repeat {} as alpha",
        all.len(),
        after.len(),
        repeats(&as_alpha, &all)
    );
    assert!(all.iter().all(|id| *id == with_worker(*id, 1)));
    assert!(after.iter().all(|id| *id == with_worker(*id, 2)));
    assert!(repeats(&as_alpha, &all) > 0);
    assert_eq!(repeats(&after, &all), 0);
}

/// An ID of layout `standard` as another worker would have made it.
fn with_worker(id: i64, worker: i64) -> i64 {
    id & !(1_023 << 12) | worker << 12
}

/// The floor cannot be moved during recovery; the attempt does not do away with the one that is stored.
#[test]
fn the_floor_is_moved_by_hand_during_recovery() {
    let primary = Cluster::start(WORKER_1);
    create_orders(&primary);
    let standby = primary.start_standby(&[]);
    primary.replicate_synchronously();
    burst(&primary);
    primary.stop_server("immediate");
    let (state, message) = failure(&mut standby.connect(), "SELECT snowflake_advance('2024-06-01')");
    assert_eq!(state, "55000", "{message}");
    let before = orders(&standby);
    standby.set_clock(time_of(*before.last().unwrap()) - 1.0 - now());
    standby.promote();
    let after = take_a_while(&standby);
    println!("{} rows, {} IDs after promotion", before.len(), after.len());
    assert_eq!(repeats(&after, &before), 0);
    assert!(message.contains("recovery") && message.contains("pg_promote()"), "{message}");
}

/// A server that archived its WAL, had clients, and was lost.
struct Lost {
    /// A base backup that was taken while the clients ran.
    backup: Cluster,
    /// When that was complete, and when the server was last up, in seconds of Unix time.
    backup_end: f64,
    end: f64,
    /// Three names of one instant between the two.
    targets: Vec<(&'static str, String)>,
    rows: Vec<i64>,
    all: Vec<i64>,
    /// The archive is in its directory.
    _server: Cluster,
}

/// The lease is so short that the horizon at the instant of the targets lies below much that came later.
fn lose_a_server() -> Lost {
    let server = Cluster::start(&[
        WORKER_1[0],
        WORKER_1[1],
        ("archive_mode", "on"),
        ("archive_command", "mkdir -p ../archive && cp %p ../archive/%f"),
        ("snowflake_id.lease", "200ms"),
        ("snowflake_id.max_drift", "100ms"),
    ]);
    create_orders(&server);
    let restore_command = format!("cp {}/archive/%f %p", server.host().display());
    let settings = [("archive_mode", "off"), ("restore_command", restore_command.as_str())];
    let (before, (backup, backup_end, targets)) = under_load(&server, || {
        let backup = server.base_backup(&settings);
        let backup_end = now();
        thread::sleep(A_WHILE);
        let targets = recovery_targets(&server);
        thread::sleep(2 * A_WHILE);
        (backup, backup_end, targets)
    });
    let end = now();
    let mut client = server.connect();
    let last: String = single(&mut client, "SELECT pg_walfile_name(pg_switch_wal())");
    let query = format!("SELECT coalesce(last_archived_wal >= '{last}', false) FROM pg_stat_archiver");
    poll("the archive", || single::<bool>(&mut client, &query).then_some(()));
    server.stop_server("immediate");
    Lost { backup, backup_end, end, targets, all: before.all(), rows: before.rows, _server: server }
}

/// This instant as a transaction, a time and a position in the WAL.
fn recovery_targets(server: &Cluster) -> Vec<(&'static str, String)> {
    let mut client = server.connect();
    let xid = "INSERT INTO orders (note) VALUES ('target') RETURNING pg_current_xact_id()::text";
    let xid = single(&mut client, xid);
    let time = single(&mut client, "SELECT clock_timestamp()::text");
    let lsn = single(&mut client, "SELECT pg_current_wal_lsn()::text");
    vec![("recovery_target_xid", xid), ("recovery_target_time", time), ("recovery_target_lsn", lsn)]
}

/// A copy of the backup that has recovered to the target and waits there, with a clock 2 s behind its rows;
/// these rows.
fn restore(lost: &Lost, target: usize) -> (Cluster, Vec<i64>) {
    let server = lost.backup.duplicate();
    let (name, value) = &lost.targets[target];
    server.configure(&[(name, value)]);
    server.recover_to_target();
    let restored = orders(&server);
    set_clock_behind(&server, &restored);
    (server, restored)
}

/// What a restored server makes, against the rows that it has. Returns what it made.
fn compare_with_restored(what: &str, server: &Cluster, restored: &[i64], lost: &Lost) -> Vec<i64> {
    let at_stake = at_stake(server, restored);
    let after = take_a_while(server);
    let missing = lost.rows.len() - repeats(&lost.rows, restored);
    println!(
        "{what}: {} rows restored, {at_stake} of them at stake, {missing} missing, {} IDs made",
        restored.len(),
        after.len()
    );
    assert!(at_stake > 0 && missing > 0);
    assert_eq!(repeats(&after, restored), 0, "{what}");
    after
}

/// Whatever names the target, and with a clock 2 s behind it, no ID repeats that of a row that was restored.
#[test]
fn a_server_is_restored_to_a_point_in_time() {
    let lost = lose_a_server();
    for (target, (name, _)) in lost.targets.iter().enumerate() {
        let (server, restored) = restore(&lost, target);
        server.promote();
        compare_with_restored(name, &server, &restored, &lost);
    }
    // The backup alone, up to where it was complete.
    let server = &lost.backup;
    server.set_clock(lost.backup_end - 30.0 - now());
    server.start_server().unwrap();
    let restored = orders(server);
    set_clock_behind(server, &restored);
    compare_with_restored("base backup", server, &restored, &lost);
}

/// What was handed out after the recovery target the restored server cannot know: with its clock behind, it
/// repeats that. `snowflake_advance()` prevents it, if it comes before the server has its worker ID.
#[test]
fn ids_handed_out_after_the_recovery_target() {
    let lost = lose_a_server();
    let (server, restored) = restore(&lost, 0);
    server.promote();
    let careless = repeats(&compare_with_restored("careless", &server, &restored, &lost), &lost.all);
    drop(server);

    let (server, restored) = restore(&lost, 0);
    server.configure(&[("snowflake_id.worker_id", "-1")]);
    server.reload();
    server.promote();
    // Up to when the server was lost, and as far as its IDs may have been ahead of that.
    let advance = format!("SELECT snowflake_advance(to_timestamp({}) + '100 ms')", lost.end);
    server.connect().batch_execute(&advance).unwrap();
    server.configure(&[("snowflake_id.worker_id", "1")]);
    server.reload();
    let careful = repeats(&compare_with_restored("careful", &server, &restored, &lost), &lost.all);
    println!("{} IDs handed out; careless, {careless} came again, careful, {careful}", lost.all.len());
    assert!(careless > 0);
    assert_eq!(careful, 0);
}

/// A burst: some IDs of each of 730 milliseconds, the first ones among them, go into table `orders`.
fn burst(cluster: &Cluster) {
    let insert = "INSERT INTO orders SELECT id FROM snowflake_batch(1000000) AS id WHERE id & 4095 < 50";
    for _ in 0..3 {
        cluster.connect().batch_execute(insert).unwrap();
    }
}

/// Runs something while the server's clock stands still.
fn as_if_at<T>(time: f64, cluster: &Cluster, run: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                cluster.set_clock(time - now());
                thread::sleep(Duration::from_millis(5));
            }
        });
        let result = run();
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// A dump does not hold the horizon: the IDs begin `max_drift` ahead of the clock, beyond any burst.
#[test]
fn a_dump_is_restored_under_the_same_worker_id() {
    let old = Cluster::start(WORKER_1);
    create_orders(&old);
    let workers = "INSERT INTO snowflake_worker (node_name, worker_id) VALUES ('alpha', 1), ('beta', 2)";
    old.connect().batch_execute(workers).unwrap();
    burst(&old);
    let before = orders(&old);
    // No ID is further ahead of the clock than a second, so that it cannot have been earlier than this.
    let end = time_of(*before.last().unwrap()) - 0.99;
    let dump = old.host().join("dump");
    let client_program = |cluster: &Cluster, name: &str| {
        let mut command = cluster.program(name);
        command.arg("--host").arg(cluster.host()).args(["--username=test", "--dbname=postgres"]);
        command
    };
    successful(client_program(&old, "pg_dump").args(["--format=custom", "--file"]).arg(&dump));

    let mut new = Cluster::stopped(&[]);
    new.give_clock();
    new.start_server().unwrap();
    successful(client_program(&new, "pg_restore").arg("--exit-on-error").arg(old.host().join("dump")));
    new.stop_server("fast");
    old.stop_server("fast");
    new.configure(WORKER_1);
    let at_stake = as_if_at(end, &new, || {
        new.start_server().unwrap();
        at_stake(&new, &before)
    });
    let after = take_a_while(&new);
    println!("{} rows restored, {at_stake} of them at stake, {} IDs made", before.len(), after.len());
    assert!(new.log().contains("the past of this server is not known"), "{}", new.log());
    assert_eq!(orders(&new), before);
    assert_eq!(single::<i64>(&mut new.connect(), "SELECT count(*) FROM snowflake_worker"), 2);
    assert!(at_stake > 0);
    assert_eq!(repeats(&after, &before), 0);
}

#[test]
fn pg_upgrade_within_a_major_version() {
    upgrade(&pg_config(), &pg_config());
}

#[test]
fn pg_upgrade_to_another_major_version() {
    match second_installation() {
        Ok((old, new)) => upgrade(&old, &new),
        Err(reason) if std::env::var_os(SECOND_PG_CONFIG).is_some() => panic!("{reason}"),
        Err(reason) => {
            // What println! prints is shown for tests that fail only.
            writeln!(std::io::stderr(), "skipped: pg_upgrade to another major version: {reason}").unwrap();
        }
    }
}

/// Names the `pg_config` of the other version. One that is named has to do; else whatever Debian has
/// installed is tried.
const SECOND_PG_CONFIG: &str = "SNOWFLAKE_ID_SECOND_PG_CONFIG";

/// The `pg_config` of the older and of the newer one of two major versions that have the extension, or why
/// there are none.
fn second_installation() -> Result<(PathBuf, PathBuf), String> {
    let candidates: Vec<PathBuf> = match std::env::var_os(SECOND_PG_CONFIG) {
        Some(path) => vec![path.into()],
        None => {
            let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
            versions
                .map(|version| version.path().join("bin/pg_config"))
                .filter(|path| path.exists())
                .collect()
        }
    };
    let others = candidates.into_iter().filter(|path| major(path) != major(&pg_config()));
    let other = others.max_by_key(|path| major(path)).ok_or("none is installed")?;
    let program = Path::new(&ask_pg_config(&other, "--bindir")).join("pg_upgrade");
    let control = Path::new(&ask_pg_config(&other, "--sharedir")).join("extension/snowflake_id.control");
    if let Some(missing) = [program, control].iter().find(|file| !file.exists()) {
        return Err(format!("there is no {}", missing.display()));
    }
    let mut pair = [pg_config(), other];
    pair.sort_by_key(|path| major(path));
    let [old, new] = pair;
    // A later minor release may store what an earlier one of a newer major version does not know.
    let empty = Cluster::stopped_of(&old, &[]);
    empty.start_server().unwrap();
    empty.connect().batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY)").unwrap();
    empty.stop_server("fast");
    match Cluster::stopped_of(&new, &[]).upgrade_from(&empty) {
        Ok(()) => Ok((old, new)),
        Err(said) => Err(format!(
            "it fails without the extension too, from {} to {}: {}",
            ask_pg_config(&old, "--version"),
            ask_pg_config(&new, "--version"),
            said.lines().find(|line| line.contains("ERROR")).unwrap_or(&said)
        )),
    }
}

/// The horizon, the tables and the settings are carried over, in each database.
fn upgrade(old: &Path, new: &Path) {
    println!("from {} to {}", ask_pg_config(old, "--version"), ask_pg_config(new, "--version"));
    let settings = [WORKER_1[0], ("snowflake_id.node_name", "alpha")];
    let old = Cluster::stopped_of(old, &settings);
    old.start_server().unwrap();
    let mut client = old.connect();
    let workers = "CREATE EXTENSION snowflake_id;
                   INSERT INTO snowflake_worker (node_name, worker_id) VALUES ('alpha', 7), ('beta', 8)";
    client.batch_execute(workers).unwrap();
    create_orders(&old);
    client.batch_execute("CREATE DATABASE shop").unwrap();
    client.batch_execute("ALTER DATABASE shop SET snowflake_id.layout = 'js53'").unwrap();
    let shop = "CREATE SCHEMA ids; CREATE EXTENSION snowflake_id SCHEMA ids;
                CREATE TABLE sales (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), note text)";
    let sell = "INSERT INTO sales (note) SELECT 'sale' FROM generate_series(1, 10000) RETURNING id";
    let mut shop_client = old.connect_to("shop");
    shop_client.batch_execute(shop).unwrap();
    let sold = ids(&mut shop_client, sell);
    for worker in ["3", "-1"] {
        old.configure(&[("snowflake_id.worker_id", worker)]);
        old.reload();
        poll("the worker ID", || {
            let query = "SELECT snowflake_worker(snowflake_nextval()) = $1";
            let expected = if worker == "3" { 3 } else { 7 };
            client.query_one(query, &[&expected]).ok()?.get::<_, bool>(0).then_some(())
        });
    }
    drop((client, shop_client));
    burst(&old);
    let before = orders(&old);
    old.stop_server("fast");

    let mut new = Cluster::stopped_of(new, &settings);
    new.give_clock();
    new.upgrade_from(&old).unwrap_or_else(|said| panic!("pg_upgrade failed:\n{said}"));
    set_clock_behind(&new, &before);
    new.start_server().unwrap();
    let at_stake = at_stake(&new, &before);
    let after = take_a_while(&new);
    println!("{} rows carried over, {at_stake} of them at stake, {} IDs made", before.len(), after.len());
    assert!(!new.log().contains("the past of this server is not known"), "{}", new.log());
    assert_eq!(orders(&new), before);
    assert!(at_stake > 0);
    assert_eq!(repeats(&after, &before), 0);
    assert!(after.iter().all(|id| *id == with_worker(*id, 7)));
    assert_eq!(single::<i64>(&mut new.connect(), "SELECT count(*) FROM snowflake_worker"), 2);
    // Which worker IDs were used is known still: beside the one in use, one that was used and is not any
    // more.
    let used = "SELECT string_agg(DISTINCT worker_id::text, ' ') FROM snowflake_internal.used_identity";
    assert_eq!(single::<String>(&mut new.connect(), used), "3 7");
    let mut client = new.connect_to("shop");
    assert_eq!(single::<String>(&mut client, "SHOW snowflake_id.layout"), "js53");
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM sales"), sold.len() as i64);
    assert_eq!(repeats(&ids(&mut client, sell), &sold), 0);
}

/// Publications FOR ALL TABLES in both directions: what belongs to one server alone does not travel. A reset
/// on one shuts out no worker ID of the other.
#[test]
fn publications_for_all_tables_in_both_directions() {
    let start = |worker| {
        let of_worker = [("snowflake_id.worker_id", worker), ("wal_level", "logical")];
        let settings: Vec<_> = WORKER_1.iter().copied().chain(of_worker).collect();
        Cluster::start(&settings)
    };
    // No server has ever had the other one's worker ID.
    let (one, two) = (start("1"), start("2"));
    let (mut first, mut second) = (one.connect(), two.connect());
    for client in [&mut first, &mut second] {
        poll("an ID", || client.batch_execute("SELECT snowflake_nextval()").ok());
    }
    for client in [&mut first, &mut second] {
        client
            .batch_execute(
                "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval());
                 CREATE PUBLICATION everything FOR ALL TABLES;",
            )
            .unwrap();
    }
    for (client, source) in [(&mut first, &two), (&mut second, &one)] {
        let host = source.host().display();
        // Without an origin 16 would send rows back; the test has none that could come back.
        client
            .batch_execute(&format!(
                "CREATE SUBSCRIPTION from_other CONNECTION 'host={host} user=test dbname=postgres'
                 PUBLICATION everything WITH (copy_data = false)"
            ))
            .unwrap();
    }
    let published = "SELECT string_agg(tablename, ', ' ORDER BY tablename) FROM pg_publication_tables
                     WHERE schemaname IN ('public', 'snowflake_internal')";
    assert_eq!(single::<String>(&mut first, published), "orders, snowflake_mask_key, snowflake_worker");
    first.batch_execute("SELECT snowflake_reset_horizon(9)").unwrap();
    one.configure(&[("snowflake_id.worker_id", "9")]);
    one.reload();
    poll("an ID", || first.batch_execute("INSERT INTO orders DEFAULT VALUES").ok());
    poll("the row to arrive", || {
        (single::<i64>(&mut second, "SELECT count(*) FROM orders") > 0).then_some(())
    });
    // Neither restart nor change of worker is hindered by what the other server did.
    for worker in ["3", "2"] {
        two.configure(&[("snowflake_id.worker_id", worker)]);
        two.stop_server("fast");
        two.start_server().unwrap();
        let mut second = two.connect();
        poll("an ID", || second.batch_execute("SELECT snowflake_nextval()").ok());
        assert_eq!(
            single::<i32>(&mut second, "SELECT snowflake_worker(snowflake_nextval())").to_string(),
            worker
        );
    }
    let known = "SELECT count(*) FROM snowflake_internal.used_identity WHERE worker_id IN (1, 9)";
    assert_eq!(single::<i64>(&mut two.connect(), known), 0);
    // Slots hold up a shutdown no longer than the subscriptions exist.
    for cluster in [&one, &two] {
        cluster.stop_server("immediate");
    }
}
