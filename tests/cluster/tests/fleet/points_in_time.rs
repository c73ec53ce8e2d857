//! The table "Restored to a point in time" of docs/run/replication.md: servers and registries that are recovered to a
//! time and to a transaction. The texts in the table are those that the servers show.

use std::fs;
use std::sync::atomic::AtomicBool;

use harness::book::{quoted, read, rows};
use harness::*;

use crate::horizon::stakes::repeats;

const TARGETS: [&str; 2] = ["recovery_target_time", "recovery_target_xid"];

/// Makes a server archive its WAL.
fn archiving(server: Builder) -> Builder {
    server
        .short_horizon()
        .set("archive_mode", "on")
        .set("archive_command", "mkdir -p ../archive && cp %p ../archive/%f")
}

/// Takes a base backup of a server that archives its WAL.
fn back_up(server: &Cluster) -> Cluster {
    let restore_command = format!("cp {}/archive/%f %p", server.host().display());
    server.connect().run("CREATE TABLE IF NOT EXISTS point (at timestamptz DEFAULT now())");
    server.base_backup(&[("archive_mode", "off"), ("restore_command", &restore_command)])
}

/// Makes this instant the recovery target of a base backup.
fn aim(backup: &Cluster, server: &Cluster, target: &str) {
    let mut client = server.connect();
    let insert = "INSERT INTO point DEFAULT VALUES RETURNING pg_current_xact_id()::text";
    let transaction: String = single(&mut client, insert);
    let time: String = single(&mut client, "SELECT clock_timestamp()::text");
    backup.configure(&[(target, if target == TARGETS[0] { &time } else { &transaction })]);
    client.run("INSERT INTO point DEFAULT VALUES");
}

/// Recovers a base backup to its target.
fn restore(backup: &Cluster, server: &Cluster) {
    server.archive_all();
    backup.recover_to_target();
    backup.promote();
}

/// IDs of committed rows and others, taken for a while.
fn take(server: &Cluster) -> Vec<i64> {
    leased_worker(server);
    under_load(server, || while_inserting(server)).0.all()
}

/// What a server shows: its state, the answer to a call, and its log.
fn shows(server: &Cluster) -> String {
    let mut client = server.connect();
    let state = "concat_ws(' ', state, registry_state, last_error, warning)";
    let state: String = status(&mut client, state);
    let call = client.query_one("SELECT snowflake_nextval()", &[]);
    let call = call.err().map_or_else(String::new, |error| text(&error));
    [state, call, server.log()].join("\n")
}

/// Checks that what the servers show contains the texts in the row of the table that begins so.
#[track_caller]
fn assert_told(row: &str, shown: &str) {
    let page = read("docs/run/replication.md");
    let cells = rows(&page).find(|cells| cells[0] == row).unwrap_or_else(|| panic!("no row {row}"));
    let mut told = 0;
    for said in quoted(cells[2]) {
        assert!(shown.contains(said), "not {said:?}:\n{shown}");
        told += 1;
    }
    assert!(told > 0, "{row}");
}

/// The old server is gone. Its clock and that of the restored server are right.
#[test]
fn in_place_with_a_fixed_worker_id() {
    for target in TARGETS {
        let server = archiving(Cluster::builder().worker(1)).start();
        create_orders(&server);
        let mut old = take(&server);
        let copy = back_up(&server);
        old.extend(take(&server));
        aim(&copy, &server, target);
        old.extend(take(&server));
        restore(&copy, &server);
        server.stop_server("immediate");
        let restored = orders(&copy);
        let new = take(&copy);
        let shown = shows(&copy);
        println!("{target}: {} rows of {} IDs restored", restored.len(), old.len());
        assert!(!restored.is_empty() && repeats(&restored, &old) == restored.len());
        assert_eq!(repeats(&new, &old), 0);
        assert_told("a server in place, with a fixed worker ID", &shown);
        assert!(!shown.contains("WARNING:  snowflake_id"), "{shown}");
    }
}

/// The steps for a server whose clock may be wrong. The worker ID was set with `ALTER SYSTEM`, as the HINT of the error says.
#[test]
fn in_place_with_a_clock_that_is_behind() {
    let server = archiving(Cluster::builder().preload()).start();
    server.connect().run("ALTER SYSTEM SET snowflake_id.worker_id = 1");
    server.reload();
    create_orders(&server);
    let mut old = take(&server);
    let copy = back_up(&server);
    aim(&copy, &server, TARGETS[0]);
    old.extend(take(&server));
    let last = "SELECT (clock_timestamp() + current_setting('snowflake_id.max_ahead')::interval)::text";
    let last: String = single(&mut server.connect(), last);
    server.archive_all();
    server.stop_server("immediate");

    // 1. The server gets no worker ID.
    let page = read("docs/run/replication.md");
    let check = "postgres -C snowflake_id.worker_id -D DIRECTORY";
    assert!(page.contains(
        "Remove `snowflake_id.worker_id` and `snowflake_id.node_name` from `postgresql.auto.conf`"
    ));
    assert!(page.contains(check));
    let auto = copy.data_dir().join("postgresql.auto.conf");
    let text = fs::read_to_string(&auto).unwrap();
    let kept = text.split_inclusive('\n').filter(|line| !line.starts_with("snowflake_id."));
    fs::write(&auto, kept.collect::<String>()).unwrap();
    copy.configure(&[("snowflake_id.worker_id", "-1"), ("snowflake_id.node_name", "recovering")]);
    let mut shown = copy.program("postgres");
    let arguments = check.split_whitespace().skip(1).filter(|word| *word != "DIRECTORY");
    let shown = shown.args(arguments).arg(copy.data_dir()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout).trim(), "-1", "{shown:?}");
    // 2. It is recovered and promoted.
    copy.set_clock(-50.0);
    copy.recover_to_target();
    copy.promote();
    let mut client = copy.connect();
    eventually("the state", || server_state(&mut client) == "no worker id");
    // 3. and 4.
    client.run(&format!("SELECT snowflake_raise_floor('{last}')"));
    copy.change("snowflake_id.worker_id", "1");
    // The clock is behind.
    let (code, message) =
        failure(&mut client, "SET snowflake_id.max_wait = '100ms'; SELECT snowflake_nextval()");
    assert_eq!(code, "55P03", "{message}");
    copy.set_clock(0.0);
    let new = take(&copy);
    assert_eq!(repeats(&new, &old), 0);
    assert!(new.iter().min() > old.iter().max());
}

/// The old server still runs. Both issue the same IDs, and neither notices.
#[test]
fn beside_the_old_server_with_a_fixed_worker_id() {
    let server = archiving(Cluster::builder().worker(1)).start();
    create_orders(&server);
    let copy = back_up(&server);
    aim(&copy, &server, TARGETS[1]);
    take(&server);
    restore(&copy, &server);
    let repeated = eventually("repeated IDs", || {
        let both = [&server, &copy].map(|server| move |_: &AtomicBool| take(server));
        let (taken, ()) = beside(both, || ());
        Some(repeats(&taken[1], &taken[0])).filter(|&repeated| repeated > 0)
    });
    println!("{repeated} IDs came twice");
    assert_told("a server beside the old one, with a fixed worker ID", &shows(&copy));
}

#[test]
fn with_a_lease() {
    let fleet = Fleet::start(LONG_LEASES);
    let server = archiving(fleet.server()).start();
    create_orders(&server);
    let mut all = take(&server);
    let copy = back_up(&server);
    all.extend(take(&server));
    aim(&copy, &server, TARGETS[1]);
    all.extend(take(&server));
    restore(&copy, &server);
    let both = [&server, &copy].map(|server| move |_: &AtomicBool| take(server));
    all.extend(beside(both, || ()).0.concat());
    assert_ne!(leased_worker(&server), leased_worker(&copy));
    assert_distinct(&all);
    assert_told("a server with a leased worker ID", &shows(&copy));
}

/// The registry forgets a lease that was granted after the target. Its holder continues. New servers wait.
#[test]
fn the_registry() {
    let (registry, copy, servers, all) = forgetful_registry(TARGETS[0]);
    restore(&copy, &registry);
    registry.stop_server("immediate");
    for server in &servers {
        server.change("snowflake_id.registry", &copy.connection_string("fleet"));
        eventually("a renewal", || {
            copy_knows(&copy, server).then_some(()).ok_or_else(|| {
                let fleet: Option<String> = single(
                    &mut copy.connect(),
                    "SELECT string_agg(f::text, chr(10)) FROM snowflake_registry.fleet AS f",
                );
                std::io::Error::other(format!("{fleet:?}\n{}\n{}", shows(server), copy.log()))
            })
        });
        assert_renewed(server);
    }
    let new =
        Cluster::builder().preload().set("snowflake_id.registry", copy.connection_string("fleet")).start();
    let refused = wait_for_error(&new, "quarantine");
    let state: String = single(
        &mut copy.connect(),
        "SELECT concat_ws(' ', state, quarantine_reason) FROM snowflake_registry.status",
    );
    println!("{state}; {refused}");
    let shown = [shows(&servers[1]), shows(&new), state, copy.log()].join("\n");
    assert_told("the registry", &shown);
    // All holders have presented what they hold.
    copy.connect().run("SELECT snowflake_registry.end_quarantine()");
    let workers: Vec<i64> = servers.iter().chain([&new]).map(|server| leased_worker(server).into()).collect();
    assert_distinct(&workers);
    create_orders(&new);
    let more = servers.iter().chain([&new]).flat_map(take);
    assert_distinct(&all.into_iter().chain(more).collect::<Vec<_>>());
}

/// Whether the registry has a lease of the server's worker ID.
fn copy_knows(registry: &Cluster, server: &Cluster) -> bool {
    let worker: i32 = status(&mut server.connect(), "worker_id");
    let query = format!(
        "SELECT count(*) = 1 FROM snowflake_registry.fleet WHERE worker_id = {worker} AND state = 'held'"
    );
    single(&mut registry.connect(), &query)
}

/// A registry and a base backup of it with a target. One of the two servers got its lease before the target, and the
/// other one after it. Returns the IDs of both, too.
fn forgetful_registry(target: &str) -> (Cluster, Cluster, Vec<Cluster>, Vec<i64>) {
    let fleet = Fleet::of(archiving(Cluster::builder().set("max_connections", 100)), LASTING_LEASES);
    let server = || {
        let server = archiving(fleet.server_with_clock()).start();
        create_orders(&server);
        server
    };
    let first = server();
    let mut all = take(&first);
    let copy = back_up(&fleet.registry);
    aim(&copy, &fleet.registry, target);
    let second = server();
    all.extend(take(&second));
    (fleet.registry, copy, vec![first, second], all)
}

/// Both are restored, and the old ones are gone.
#[test]
fn the_registry_and_a_server() {
    let (registry, copy, servers, mut all) = forgetful_registry(TARGETS[1]);
    let server_copy = back_up(&servers[0]);
    aim(&server_copy, &servers[0], TARGETS[1]);
    all.extend(take(&servers[0]));
    servers[0].archive_all();
    restore(&copy, &registry);
    registry.stop_server("immediate");
    servers.iter().for_each(|server| server.stop_server("immediate"));
    server_copy.configure(&[("snowflake_id.registry", &copy.connection_string("fleet"))]);
    server_copy.recover_to_target();
    server_copy.promote();
    wait_for_error(&server_copy, "quarantine");
    let shown = shows(&server_copy);
    assert_told("the registry and a server", &shown);
    assert!(shown.contains("is not used: the file is a copy, or the host was rebooted"), "{shown}");
    // The leases of the old servers have ended.
    set_clocks([&copy, &server_copy], AFTER_THE_LEASE);
    copy.connect().run("SELECT snowflake_registry.end_quarantine()");
    all.extend(take(&server_copy));
    assert_distinct(&all);
}
