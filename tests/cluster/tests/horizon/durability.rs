//! Promise 1 over restarts, crashes and clock changes: every ID that a client was given, committed or not, is compared
//! with all others.

use std::time::{Duration, Instant};

use harness::*;

const HOUR: f64 = 3_600.0;

/// How many IDs clients take before the fault of a round.
const IDS_OF_A_ROUND: usize = 1_000;

/// The default of `snowflake_id.horizon_margin`.
const LEASE: Duration = Duration::from_secs(3);

/// In each round eight clients run, the clock steps by -1 h to +30 s, and a backend, the keeper or the postmaster is
/// killed or the server is stopped, in any order. After each round the clock is set to the time that the status view
/// gives, and generation must resume within the horizon margin without other help.
#[test]
fn crashes_and_clock_steps() {
    let mut random = Random::seeded();
    let rounds = rounds(12);
    let slack = if is_soak() { Duration::from_secs(2) } else { SLACK };
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut all = Vec::new();
    let mut shift = 0.0;
    for round in 0..rounds {
        // Half of the steps lead back into the last two seconds, in which every millisecond has been used.
        let step = match random.below(2) {
            0 => random.below(2_000) as f64 / 1_000.0 - 2.0,
            _ => random.below(3_630_000) as f64 / 1_000.0 - HOUR,
        };
        let (fault, clock_first) = (random.below(5), random.below(2) == 0);
        println!("round {round}: fault {fault}, clock {step:+.3} s, first {clock_first}");
        let (taken, ()) = once_taken(IDS_OF_A_ROUND, takers(&cluster, 8), || {
            random.pause(400);
            if clock_first {
                cluster.set_clock(shift + step);
                random.pause(400);
            }
            inflict(&cluster, fault, &mut random);
            if !clock_first {
                random.pause(400);
                cluster.set_clock(shift + step);
            }
        });
        taken.iter().for_each(|mine| assert_increasing(mine));
        all.extend(taken.concat());
        // Orphans of a killed postmaster may keep the shared memory in use for a while. A server that restarts by
        // itself is up.
        cluster.bring_up();
        eventually("the keeper", || {
            let query = "SELECT keeper_pid IS NOT NULL AND floor IS NOT NULL FROM snowflake_status";
            cluster
                .try_connect("postgres")
                .is_ok_and(|mut client| client.query_one(query, &[]).is_ok_and(|row| row.get::<_, bool>(0)))
        });
        shift = set_clock_as_needed(&cluster);
        let start = Instant::now();
        let id = eventually("an ID", || {
            let mut client = cluster.try_connect("postgres").ok()?;
            Some(client.query_one("SELECT snowflake_nextval()", &[]).ok()?.get::<_, i64>(0))
        });
        assert_within(LEASE + slack, start.elapsed(), "the first ID");
        all.push(id);
    }
    println!("{} IDs in {rounds} rounds", all.len());
    assert!(all.len() > IDS_OF_A_ROUND * rounds as usize);
    assert_distinct(&all);
}

fn inflict(cluster: &Cluster, fault: u64, random: &mut Random) {
    match fault {
        0 => signal_one(cluster, "KILL", "backend_type = 'client backend'", random),
        1 => signal_one(cluster, "KILL", "backend_type = 'snowflake_id keeper'", random),
        2 => cut_power(cluster),
        3 => cluster.stop_server("immediate"),
        _ => cluster.restart("fast"),
    }
}

/// A burst runs ahead of the clock by the whole `max_ahead`. Then the server crashes at once.
#[test]
fn a_crash_after_a_burst() {
    // One second holds 256,000 IDs.
    let layout = "time:41 worker:14 sequence:8";
    let server = Cluster::builder().worker(1).short_horizon().patient();
    let cluster = server.set("snowflake_id.layout", layout).start();
    let mut all = vec![];
    for _ in 0..3 {
        for _ in 0..4 {
            all.extend(ids(&mut cluster.connect(), "SELECT snowflake_batch(64000)"));
        }
        cluster.restart("immediate");
        all.extend(ids(&mut cluster.connect(), "SELECT snowflake_nextval()"));
    }
    assert_increasing(&all);
}

/// The clock is set back while the server is down, after a crash and after a clean stop.
#[test]
fn a_clock_set_back_while_the_server_is_down() {
    let cluster = Cluster::builder().worker(1).short_horizon().patient().clock().start();
    let mut all = Vec::new();
    let mut shift = 0.0;
    let take = "SELECT snowflake_nextval() FROM generate_series(1, 10000)";
    for mode in ["immediate", "fast"] {
        all.extend(ids(&mut cluster.connect(), take));
        cluster.stop_server(mode);
        shift -= 2.0;
        cluster.set_clock(shift);
        cluster.start_server();
        all.extend(ids(&mut cluster.connect(), take));
    }
    assert_increasing(&all);
}

#[test]
fn the_keeper_is_terminated_under_load() {
    let cluster = Cluster::builder().worker(1).patient().start();
    let (all, ()) = while_taking(takers(&cluster, 4), || {
        let mut client = cluster.connect();
        for _ in 0..2 {
            replace_keeper(&mut client);
            eventually("the state", || server_state(&mut client) == "ready");
            client.run("SELECT snowflake_nextval()");
        }
    });
    assert_distinct(&all);
}

#[test]
fn the_extension_is_missing_in_the_keepers_database() {
    let cluster = Cluster::builder().worker(1).short_horizon().home().stopped();
    cluster.start_server();
    let mut client = cluster.connect();
    client.run("CREATE EXTENSION snowflake_id");
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("\"home\""), "{message}");
    client.run("CREATE DATABASE home");
    cluster.connect_to("home").run("CREATE EXTENSION snowflake_id");
    wait_for_first_id(&mut client);

    // After DROP EXTENSION, generation ends within the horizon margin. After CREATE EXTENSION it continues above the
    // earlier IDs.
    let before: i64 = single(&mut client, "SELECT snowflake_nextval()");
    cluster.connect_to("home").run("DROP EXTENSION snowflake_id");
    client.run("SET snowflake_id.max_wait = '100ms'");
    let (state, message) = wait_for_refusal(&mut client);
    assert_eq!(state, "55P03", "{message}");
    assert!(message.contains("CREATE EXTENSION snowflake_id"), "{message}");
    cluster.connect_to("home").run("CREATE EXTENSION snowflake_id");
    client.run("SET snowflake_id.max_wait = '1min'");
    assert!(single::<i64>(&mut client, "SELECT snowflake_nextval()") > before);
}

/// Commits wait for a synchronous standby that is gone, including those of the horizon. The error says so, and the
/// server can still be stopped.
#[test]
fn a_synchronous_standby_that_is_gone() {
    let cluster = Cluster::builder().worker(1).short_horizon().patient().start();
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_nextval()");
    cluster.change("synchronous_standby_names", "gone");
    client.run("SET snowflake_id.max_wait = '100ms'");
    let message = eventually("the horizon to be reached", || {
        match client.query_one("SELECT snowflake_nextval()", &[]) {
            Ok(row) => {
                all.push(row.get(0));
                None
            }
            Err(error) => Some(text(&error)),
        }
    });
    assert!(message.contains("A commit of the keeper has been in progress"), "{message}");
    assert_eq!(server_state(&mut client), "horizon stalled");
    drop(client);
    assert_within(SLACK, time_to_stop(&cluster), "a stop");
    cluster.configure(&[("synchronous_standby_names", "")]);
    cluster.start_server();
    all.extend(ids(&mut cluster.connect(), "SELECT snowflake_batch(1000)"));
    assert_increasing(&all);
}

/// When the worker ID is changed under load, it changes between two ticks: IDs stay distinct and in order.
#[test]
fn the_worker_id_changes_while_clients_run() {
    let cluster = Cluster::builder().preload().patient().set("snowflake_id.node_name", "here").start();
    let mut client = cluster.connect();
    client.run("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('here', 5), ('there', 6)");
    let (all, ()) = while_taking(takers(&cluster, 4), || {
        let mut expect = |worker: i32| {
            let query = "SELECT snowflake_worker(snowflake_nextval())";
            eventually("the worker ID", || single::<i32>(&mut client, query) == worker);
        };
        expect(5);
        cluster.change("snowflake_id.node_name", "there");
        expect(6);
        cluster.change("snowflake_id.worker_id", "7");
        expect(7);
    });
    assert_distinct(&all);
    // Without the row and the setting, generation ends.
    cluster.change("snowflake_id.worker_id", "-1");
    client.run("DELETE FROM snowflake_workers");
    let message = wait_for_refusal(&mut client).1;
    assert!(
        message.contains("no worker ID") && message.contains("INSERT INTO snowflake_workers"),
        "{message}"
    );
}

/// A lower horizon margin takes effect at once: the stored horizon is lowered.
#[test]
fn a_lease_that_is_lowered() {
    let cluster = Cluster::builder().worker(1).set("snowflake_id.horizon_margin", "10min").start();
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(100000)");
    cluster.change("snowflake_id.horizon_margin", "500ms");
    eventually("the horizon to come nearer", || {
        all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
        let near = "SELECT horizon < now() + interval '5 s' FROM snowflake_status";
        single::<bool>(&mut client, near)
    });
    cluster.restart("immediate");
    let mut client = cluster.connect();
    let start = Instant::now();
    client.run("SET snowflake_id.max_wait = '1min'");
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_within(SLACK, start.elapsed(), "the first IDs");
    assert_increasing(&all);
}
