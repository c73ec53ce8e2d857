//! Promise 1 over restores from an archive, dumps and upgrades: the IDs that a server issues afterwards are compared
//! with those of its predecessor, and with its own rows.

use std::path::{Path, PathBuf};
use std::thread;

use harness::check::problems;
use harness::*;

use super::stakes::{
    A_WHILE, at_stake, burst, now, repeats, set_clock_behind, stop_clock, take_a_while, time_of,
    wait_for_rows, with_worker,
};

/// A server that archived its WAL and had clients, and was then lost.
struct Lost {
    /// A base backup that was taken while the clients ran.
    backup: Cluster,
    /// The end of the base backup and the end of the server, in seconds of Unix time.
    backup_end: f64,
    end: f64,
    /// The same instant between the two, as three kinds of recovery targets.
    targets: Vec<(&'static str, String)>,
    rows: Vec<i64>,
    all: Vec<i64>,
    /// Kept because the archive is in its directory.
    _server: Cluster,
}

/// The horizon margin is so short that the horizon at the instant of the targets is below many later IDs.
fn lose_a_server() -> Lost {
    let server = Cluster::builder()
        .worker(1)
        .set("archive_mode", "on")
        .set("archive_command", "mkdir -p ../archive && cp %p ../archive/%f")
        .set("snowflake_id.horizon_margin", "200ms")
        .set("snowflake_id.max_ahead", "100ms")
        .start();
    create_orders(&server);
    let restore_command = format!("cp {}/archive/%f %p", server.host().display());
    let settings = [("archive_mode", "off"), ("restore_command", restore_command.as_str())];
    let (before, (backup, backup_end, targets)) = under_load(&server, || {
        // The backup alone is restored as well, and must contain rows.
        let rows = "SELECT count(*) FROM orders";
        eventually("rows", || (single::<i64>(&mut server.connect(), rows) > 1_000).then_some(()));
        let backup = server.base_backup(&settings);
        let backup_end = now();
        thread::sleep(A_WHILE);
        let targets = recovery_targets(&server);
        wait_for_rows(&server);
        thread::sleep(2 * A_WHILE);
        (backup, backup_end, targets)
    });
    let end = now();
    server.archive_all();
    server.stop_server("immediate");
    Lost { backup, backup_end, end, targets, all: before.all(), rows: before.rows, _server: server }
}

/// The current instant as a transaction, a time and a position in the WAL.
fn recovery_targets(server: &Cluster) -> Vec<(&'static str, String)> {
    let mut client = server.connect();
    let xid = "INSERT INTO orders (note) VALUES ('target') RETURNING pg_current_xact_id()::text";
    let xid = single(&mut client, xid);
    let time = single(&mut client, "SELECT clock_timestamp()::text");
    let lsn = single(&mut client, "SELECT pg_current_wal_lsn()::text");
    vec![("recovery_target_xid", xid), ("recovery_target_time", time), ("recovery_target_lsn", lsn)]
}

/// Recovers a copy of the backup to the target, where it waits with a clock 2 s behind its rows. Returns the copy and
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

/// Compares the IDs of a restored server with its rows. Returns the IDs.
fn compare_with_restored(what: &str, server: &Cluster, restored: &[i64], lost: &Lost) -> Vec<i64> {
    let at_stake = at_stake(server, restored);
    let after = take_a_while(server);
    let missing = lost.rows.len() - repeats(&lost.rows, restored);
    println!(
        "{what}: {} rows restored, {at_stake} of them at stake, {missing} missing, {} IDs made",
        restored.len(),
        after.len()
    );
    assert!(missing > 0);
    assert_eq!(repeats(&after, restored), 0, "{what}");
    after
}

/// For each kind of target, and with a clock 2 s behind it, no ID of a restored row is repeated.
#[test]
fn a_server_is_restored_to_a_point_in_time() {
    let lost = lose_a_server();
    for (target, (name, _)) in lost.targets.iter().enumerate() {
        let (server, restored) = restore(&lost, target);
        server.promote();
        compare_with_restored(name, &server, &restored, &lost);
    }
    // The backup alone, recovered to its end.
    let server = &lost.backup;
    stop_clock(server, lost.backup_end - 30.0);
    server.start_server();
    let restored = orders(server);
    set_clock_behind(server, &restored);
    compare_with_restored("base backup", server, &restored, &lost);
}

/// A restored server cannot know which IDs were issued after the recovery target. With its clock behind, it repeats
/// some of them. `snowflake_raise_floor()` prevents that if it is called before the server has its worker ID.
#[test]
fn ids_handed_out_after_the_recovery_target() {
    let lost = lose_a_server();
    let (server, restored) = restore(&lost, 0);
    server.promote();
    let careless = repeats(&compare_with_restored("careless", &server, &restored, &lost), &lost.all);
    drop(server);

    let (server, restored) = restore(&lost, 0);
    server.change("snowflake_id.worker_id", "-1");
    server.promote();
    // The time at which the server was lost, plus the time by which its IDs may have been ahead.
    let raise = format!("SELECT snowflake_raise_floor(to_timestamp({}) + '100 ms')", lost.end);
    server.connect().run(&raise);
    server.change("snowflake_id.worker_id", "1");
    let careful = repeats(&compare_with_restored("careful", &server, &restored, &lost), &lost.all);
    println!("{} IDs handed out; careless, {careless} came again, careful, {careful}", lost.all.len());
    assert!(careless > 0);
    assert_eq!(careful, 0);
}

/// A dump does not contain the horizon: the IDs begin `max_ahead` ahead of the clock, beyond any burst.
#[test]
fn a_dump_is_restored_under_the_same_worker_id() {
    let old = Cluster::builder().worker(1).start();
    create_orders(&old);
    let workers = "INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('alpha', 1), ('beta', 2)";
    old.connect().run(workers);
    burst(&old);
    let before = orders(&old);
    // No ID is more than a second ahead of the clock, so the end was no earlier than this.
    let end = time_of(*before.last().unwrap()) - 0.99;
    let dump = old.dump();

    let new = Cluster::builder().clock().extensions(&[]).start();
    new.restore(&dump, "postgres");
    new.stop_server("fast");
    old.stop_server("fast");
    new.configure(&[("shared_preload_libraries", "snowflake_id"), ("snowflake_id.worker_id", "1")]);
    stop_clock(&new, end);
    new.start_server();
    let at_stake = at_stake(&new, &before);
    let after = take_a_while(&new);
    println!("{} rows restored, {at_stake} of them at stake, {} IDs made", before.len(), after.len());
    assert!(new.log().contains("no horizon was stored in database"), "{}", new.log());
    assert_eq!(orders(&new), before);
    assert_eq!(single::<i64>(&mut new.connect(), "SELECT count(*) FROM snowflake_workers"), 2);
    assert_eq!(repeats(&after, &before), 0);
}

#[test]
fn pg_upgrade_within_a_major_version() {
    upgrade(&pg_config(), &pg_config());
}

#[test]
#[ignore = "needs another major version in SNOWFLAKE_ID_SECOND_PG_CONFIG: make test-all"]
fn pg_upgrade_to_another_major_version() {
    let other = std::env::var_os("SNOWFLAKE_ID_SECOND_PG_CONFIG").expect("SNOWFLAKE_ID_SECOND_PG_CONFIG");
    let mut pair = [pg_config(), PathBuf::from(other)];
    pair.sort_by_key(|path| major(path));
    let [old, new] = pair;
    assert_ne!(major(&old), major(&new), "both are of one major version");
    // A later minor release may store data that an earlier minor release of a newer major version cannot read.
    let empty = Cluster::builder().of(&old).extensions(&[]).start();
    empty.connect().run("CREATE TABLE orders (id bigint PRIMARY KEY)");
    empty.stop_server("fast");
    let upgraded = Cluster::builder().of(&new).stopped().upgrade_from(&empty);
    upgraded.unwrap_or_else(|said| panic!("it fails without the extension too:\n{said}"));
    upgrade(&old, &new);
}

/// The horizon, the tables and the settings are preserved in each database.
fn upgrade(old: &Path, new: &Path) {
    println!("from {} to {}", ask_pg_config(old, "--version"), ask_pg_config(new, "--version"));
    let server = Cluster::builder().preload().set("snowflake_id.node_name", "alpha");
    let old = server.clone().of(old).stopped();
    old.start_server();
    let mut client = old.connect();
    let workers = "CREATE EXTENSION snowflake_id;
                   INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('alpha', 7), ('beta', 8)";
    client.run(workers);
    create_orders(&old);
    client.run("CREATE DATABASE shop");
    client.run("ALTER DATABASE shop SET snowflake_id.layout = 'js53'");
    let shop = "CREATE SCHEMA ids; CREATE EXTENSION snowflake_id SCHEMA ids;
                CREATE TABLE sales (id bigint PRIMARY KEY DEFAULT ids.snowflake_nextval(), note text)";
    let sell = "INSERT INTO sales (note) SELECT 'sale' FROM generate_series(1, 10000) RETURNING id";
    let mut shop_client = old.connect_to("shop");
    shop_client.run(shop);
    let sold = ids(&mut shop_client, sell);
    shop_client.run(COLUMNS_OF_TYPE);
    shop_client.run(TYPES_THAT_PREVENT_PG_UPGRADE);
    let prevent = problems(&mut shop_client);
    let prevent: Vec<_> =
        prevent.iter().filter(|found| found.problem.ends_with("prevents pg_upgrade")).collect();
    assert_eq!(prevent.len(), 4, "{prevent:#?}");
    prevent.iter().for_each(|found| found.follow_hint(&mut shop_client));
    for worker in ["3", "-1"] {
        old.change("snowflake_id.worker_id", worker);
        eventually("the worker ID", || {
            let query = "SELECT snowflake_worker(snowflake_nextval()) = $1";
            let expected = if worker == "3" { 3 } else { 7 };
            client.query_one(query, &[&expected]).is_ok_and(|row| row.get(0))
        });
    }
    drop((client, shop_client));
    burst(&old);
    let before = orders(&old);
    old.stop_server("fast");

    let new = server.of(new).clock().stopped();
    new.upgrade_from(&old).unwrap_or_else(|said| panic!("pg_upgrade failed:\n{said}"));
    set_clock_behind(&new, &before);
    new.start_server();
    let at_stake = at_stake(&new, &before);
    let after = take_a_while(&new);
    println!("{} rows carried over, {at_stake} of them at stake, {} IDs made", before.len(), after.len());
    assert!(!new.log().contains("no horizon was stored in database"), "{}", new.log());
    assert_eq!(orders(&new), before);
    assert_eq!(repeats(&after, &before), 0);
    assert!(after.iter().all(|id| *id == with_worker(*id, 7)));
    assert_eq!(single::<i64>(&mut new.connect(), "SELECT count(*) FROM snowflake_workers"), 2);
    // The record of used worker IDs is preserved: the one in use, and one that was used before.
    let used = "SELECT string_agg(DISTINCT worker_id::text, ' ') FROM snowflake_internal.used_identity";
    assert_eq!(single::<String>(&mut new.connect(), used), "3 7");
    let mut client = new.connect_to("shop");
    assert_eq!(single::<String>(&mut client, "SHOW snowflake_id.layout"), "js53");
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM sales"), sold.len() as i64);
    assert_eq!(repeats(&ids(&mut client, sell), &sold), 0);
    client.run("SET search_path = public, ids; INSERT INTO parts (sale) SELECT id FROM sales LIMIT 1");
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM parts WHERE next = sale + 1"), 1);
    client.run("INSERT INTO bills DEFAULT VALUES");
    assert!(single::<bool>(&mut client, "SELECT id > 0 AND number = 7 FROM bills"));
    assert_eq!(failure(&mut client, "INSERT INTO bills (id) VALUES (-1)").0, "23514");
}

/// What pg_upgrade creates after the casts of type `snowflake`, so that it can use them.
const COLUMNS_OF_TYPE: &str = "SET search_path = public, ids;
    CREATE DOMAIN plain AS snowflake NOT NULL DEFAULT '7';
    CREATE TABLE parts (id snowflake PRIMARY KEY DEFAULT snowflake_nextval(), sale snowflake CHECK (sale > 5), plain plain,
                        next bigint GENERATED ALWAYS AS (sale + 1) STORED) PARTITION BY RANGE (id);
    CREATE TABLE parts_0 PARTITION OF parts FOR VALUES FROM (0) TO (9000000000000000000);
    CREATE INDEX ON parts ((id + 1)) WHERE id > 5;
    CREATE VIEW newest AS SELECT max(id) + 1 FROM parts;
    CREATE FUNCTION after(snowflake DEFAULT 7) RETURNS bigint BEGIN ATOMIC SELECT $1 + 1; END";

/// What pg_upgrade creates before the casts.
const TYPES_THAT_PREVENT_PG_UPGRADE: &str = "
    CREATE DOMAIN bill_id AS snowflake DEFAULT snowflake_nextval() CHECK (VALUE > 0);
    CREATE DOMAIN number AS snowflake DEFAULT 7;
    CREATE FUNCTION is_new(snowflake) RETURNS boolean RETURN $1 > 5;
    CREATE DOMAIN new_id AS snowflake CHECK (is_new(VALUE));
    CREATE TYPE span AS RANGE (subtype = snowflake);
    CREATE TABLE bills (id bill_id, number number, span span)";
