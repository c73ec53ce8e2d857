//! The file in which a server stores its lease: lost, damaged, not writable, and incomplete because the server was
//! killed while writing it. Also other accidents of a server with a lease. No ID is repeated, and no server is taken
//! for a copy of itself.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use harness::*;

fn assert_no_duplicate_rows(server: &Cluster) {
    assert!(!server.log().contains("duplicate key"), "{}", server.log());
}

/// Changes a file of a server in place, so that it stays the same file.
fn change_file(server: &Cluster, path: &Path, change: impl FnOnce(&Path)) {
    change(path);
    if path.exists() {
        server.own(path);
    }
}

/// Creates a named pipe. Opening it for reading blocks until a process opens it for writing.
fn make_pipe(path: &Path) {
    fs::remove_file(path).unwrap();
    successful(Command::new("mkfifo").arg(path));
}

#[test]
fn a_lost_or_damaged_lease_file() {
    type Damage = (&'static str, fn(&Path), Option<&'static str>);
    let damages: [Damage; 7] = [
        ("lost", |path| fs::remove_file(path).unwrap(), None),
        (
            "garbage",
            |path| fs::write(path, b"\0\xff{]").unwrap(),
            Some("could not read file \"snowflake_id.lease\""),
        ),
        ("empty", |path| fs::write(path, "").unwrap(), Some("could not read file \"snowflake_id.lease\"")),
        (
            "truncated",
            |path| {
                let text = fs::read(path).unwrap();
                fs::write(path, &text[..text.len() / 2]).unwrap();
            },
            Some("could not read file \"snowflake_id.lease\""),
        ),
        (
            "a later end",
            |path| {
                let text = fs::read_to_string(path).unwrap();
                let (before, end) = text.split_once("\"until_us\":").unwrap();
                let digit = end.find(|character: char| character.is_ascii_digit()).unwrap();
                let later = end[digit..].replacen('1', "2", 1);
                fs::write(path, format!("{before}\"until_us\":{}{later}", &end[..digit])).unwrap();
            },
            Some("could not read file \"snowflake_id.lease\": line 2 is damaged"),
        ),
        (
            "copied",
            |path| {
                let text = fs::read(path).unwrap();
                fs::remove_file(path).unwrap();
                fs::write(path, text).unwrap();
            },
            Some("the file is a copy"),
        ),
        ("a pipe", make_pipe, Some("could not read file \"snowflake_id.lease\"")),
    ];
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().short_horizon().start();
    let mut all = some_ids(&server);
    let mut workers = vec![leased_worker(&server)];
    for (what, damage, said) in damages {
        server.stop_server("fast");
        let logged = server.log().len();
        change_file(&server, &lease_path(&server), damage);
        server.start_server();
        all.extend(some_ids(&server));
        let worker = leased_worker(&server);
        assert!(!workers.contains(&worker), "{what}: {worker}");
        workers.push(worker);
        let log = &server.log()[logged..];
        assert!(said.is_none_or(|said| log.contains(said)), "{what}: {log}");
        // The server has replaced the file by a valid one.
        server.restart("immediate");
        assert_eq!(leased_worker(&server), worker, "{what}");
        all.extend(some_ids(&server));
    }
    assert_distinct(&all);
}

/// A lease that cannot be written to the file is not used. The worker survives the failure.
#[test]
fn a_lease_file_that_cannot_be_written() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().short_horizon().start();
    let mut all = some_ids(&server);
    let first = leased_worker(&server);
    server.stop_server("fast");
    for name in ["snowflake_id.lease", "snowflake_id.lease.tmp"] {
        let _ = fs::remove_file(lease_path(&server));
        let in_the_way = server.data_dir().join(name);
        change_file(&server, &in_the_way, |path| fs::create_dir(path).unwrap());
        server.start_server();
        let mut client = server.connect();
        let problem = eventually("the problem", || {
            shown(&mut client, "last_error").filter(|problem| problem.contains("could not write file"))
        });
        assert!(problem.contains("could not write file \"snowflake_id.lease\": "), "{problem}");
        let worker = background_pid(&server, "snowflake_id registry").unwrap();
        for _ in 0..4 {
            ask_now(&server, &fleet.connection_string());
            thread::sleep(Duration::from_millis(100));
            assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000", "{name}");
            assert_eq!(shown(&mut client, "lease_until"), None);
        }
        assert_eq!(background_pid(&server, "snowflake_id registry"), Some(worker), "{}", server.log());
        fs::remove_dir(&in_the_way).unwrap();
        ask_now(&server, &fleet.connection_string());
        all.extend(some_ids(&server));
        assert_ne!(leased_worker(&server), first);
        server.stop_server("fast");
    }
    assert_distinct(&all);
}

/// Renewals that cannot be written are not used, and a server that crashes after that still has its lease.
#[test]
fn a_lease_file_that_cannot_be_renewed() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server_with_clock().start();
    let mut all = some_ids(&server);
    let worker = leased_worker(&server);
    let in_the_way = server.data_dir().join("snowflake_id.lease.tmp");
    let mut client = server.connect();
    // The worker may be writing at this moment.
    eventually("room for the directory", || {
        let _ = fs::remove_file(&in_the_way);
        fs::create_dir(&in_the_way).ok()
    });
    server.own(&in_the_way);
    eventually("the problem", || {
        shown(&mut client, "last_error").filter(|problem| problem.contains("could not write file"))
    });
    let until: String = shown(&mut client, "lease_until").unwrap();
    // Several renewals fail.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(shown(&mut client, "lease_until").unwrap(), until);
    all.extend(ids(&mut client, "SELECT snowflake_batch(10000)"));
    // The registry has been told a nonce, which must be in the file.
    server.restart("immediate");
    all.extend(some_ids(&server));
    assert_eq!(leased_worker(&server), worker);
    assert!(!server.log().contains("has the same lease"), "{}", server.log());
    let mut client = server.connect();
    set_clocks([&server, &fleet.registry], LATE_IN_A_LEASE);
    eventually("the warning", || shown(&mut client, "warning")?.contains("was not renewed").then_some(()));
    set_clocks([&server, &fleet.registry], AFTER_THE_LEASE);
    wait_for_end_of_lease(&mut client);
    wait_for_refusal(&mut client);
    fs::remove_dir(&in_the_way).unwrap();
    all.extend(some_ids(&server));
    assert_eq!(leased_worker(&server), worker);
    assert_distinct(&all);
}

/// The registry is replaced by another one, by mistake or on purpose: their leases are not confused.
#[test]
fn another_registry() {
    let (fleet, other) = (Fleet::start(LASTING_LEASES), Fleet::start(LASTING_LEASES));
    let server = fleet.server_with_clock().start();
    create_orders(&server);
    let worker = leased_worker(&server);
    let of_other = other.server_with_clock().start();
    create_orders(&of_other);
    assert_eq!(leased_worker(&of_other), worker, "both give the same worker ID");
    let mut client = server.connect();
    let (handed_out, ()) = under_load(&server, || {
        server.change("snowflake_id.registry", &other.connection_string());
        wait_for_registry_state(&server, "another registry");
        assert_eq!(leased_worker(&server), worker);
        assert!(
            server.log().contains("and snowflake_id.registry names another registry"),
            "{}",
            server.log()
        );
        set_clocks([&server, &of_other, &other.registry], LATE_IN_A_LEASE);
        assert_renewed(&of_other);
        set_clocks([&server, &of_other, &other.registry], AFTER_THE_LEASE);
        wait_for_end_of_lease(&mut client);
    });
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("\"another registry\""), "{message}");
    // The same happens after a restart.
    server.restart("fast");
    wait_for_registry_state(&server, "another registry");
    assert_eq!(failure(&mut server.connect(), "SELECT snowflake_nextval()").0, "55000");
    // An administrator who replaces the registry on purpose does this.
    server.stop_server("fast");
    fs::remove_file(lease_path(&server)).unwrap();
    server.start_server();
    assert_ne!(leased_worker(&server), worker);
    let mut all = handed_out.all();
    all.extend(some_ids(&server));
    assert_distinct(&all);
}

/// The worker or the whole server is killed repeatedly, at random moments of renewals and exchanges.
#[test]
fn killed_while_the_file_is_written() {
    let fleet = Fleet::start("lease => '10min', renew_every => '100ms'");
    // Let restarts not wait for the clock.
    let server = fleet
        .server()
        .set("snowflake_id.horizon_margin", "200ms")
        .set("snowflake_id.max_ahead", "100ms")
        .start();
    let mut random = Random::seeded();
    let mut all = some_ids(&server);
    let rounds = rounds(8);
    for round in 0..rounds {
        if round % 5 == 0 {
            let worker = leased_worker(&server);
            fleet.revoke_lease(worker);
        }
        random.pause(120);
        if round % 3 == 0 {
            kill_server(&server);
            server.start_server();
        } else {
            let worker =
                eventually("the registry worker", || background_pid(&server, "snowflake_id registry"));
            random.pause(100);
            kill("KILL", worker);
            server.wait_until_up();
        }
        let batch = eventually("an ID", || {
            let mut client = server.try_connect("postgres").ok()?;
            client.query("SELECT snowflake_batch(1000)", &[]).ok()
        });
        all.extend(batch.iter().map(|row| row.get::<_, i64>(0)));
    }
    assert_distinct(&all);
    assert!(!server.log().contains("has the same lease"), "{}", server.log());
}

/// A backend crashes, so that shared memory is reinitialized, while identities are exchanged under load.
#[test]
fn crashes_of_backends() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().short_horizon().start();
    create_orders(&server);
    let mut all = some_ids(&server);
    let mut random = Random::seeded();
    for round in 0..rounds(4) {
        let (handed_out, ()) = under_load(&server, || {
            random.pause(300);
            if round % 2 == 0 {
                let worker = leased_worker(&server);
                fleet.revoke_lease(worker);
                random.pause(800);
            }
            server.crash_a_backend();
        });
        all.extend(handed_out.all());
        all.extend(some_ids(&server));
    }
    assert_distinct(&all);
    assert_no_duplicate_rows(&server);
    assert!(!server.log().contains("has the same lease"), "{}", server.log());
}

/// The records of a server are dropped while it has a lease.
#[test]
fn the_extension_is_created_again() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().short_horizon().start();
    let worker = leased_worker(&server);
    let mut all = some_ids(&server);
    for mode in [None, Some("immediate"), Some("fast")] {
        let mut client = server.connect();
        client.run("DROP EXTENSION snowflake_id");
        client.run("CREATE EXTENSION snowflake_id");
        if let Some(mode) = mode {
            server.restart(mode);
        }
        all.extend(some_ids(&server));
        all.extend(some_ids(&server));
    }
    println!("worker {worker}, then {}", leased_worker(&server));
    assert_distinct(&all);
}

/// The keeper and the registry worker are terminated repeatedly under load, including during exchanges.
#[test]
fn workers_are_terminated() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().short_horizon().start();
    create_orders(&server);
    leased_worker(&server);
    let mut random = Random::seeded();
    let (handed_out, ()) = under_load(&server, || {
        let mut client = server.connect();
        for _ in 0..rounds(8) {
            if random.below(4) == 0 {
                let mut registry = fleet.registry.connect();
                let revoke_lease = "SELECT snowflake_registry.revoke_lease(worker_id)
                                 FROM snowflake_registry.fleet WHERE state = 'held'";
                registry.execute(revoke_lease, &[]).unwrap();
            }
            let victim = ["snowflake_id keeper", "snowflake_id registry"][random.below(2) as usize];
            let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = $1";
            eventually("a worker to terminate", || client.execute(terminate, &[&victim]).unwrap() > 0);
            random.pause(300);
        }
    });
    let mut all = handed_out.all();
    println!("{} IDs", all.len());
    all.extend(some_ids(&server));
    assert_distinct(&all);
    assert_no_duplicate_rows(&server);
    assert!(!server.log().contains("has the same lease"), "{}", server.log());
}
