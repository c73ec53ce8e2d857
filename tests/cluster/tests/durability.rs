//! Promise 1 over restarts, crashes and a clock that is set: every ID that a client was ever given, committed
//! or not, is compared with all others.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use snowflake_id_cluster_tests::faults::{keeper_pid, postmaster, set_clock_as_needed};
use snowflake_id_cluster_tests::load::{Random, StopAtEnd, take_until};
use snowflake_id_cluster_tests::{
    Cluster, IN_HOME, WORKER_1, assert_distinct, assert_increasing, failure, ids, kill, poll, single,
};

const HOUR: f64 = 3_600.0;
/// The default of `snowflake_id.lease`, and of `max_drift`.
const LEASE: Duration = Duration::from_secs(3);
const MAX_DRIFT: Duration = Duration::from_secs(1);

/// Thirty rounds: eight clients run, the clock steps by -1 h to +30 s, and a backend, the keeper or the
/// postmaster is killed or the server is stopped, in any order. After each round the clock is set to what the
/// status view asks for, and generation has to go on within a lease, without other help.
#[test]
fn crashes_and_clock_steps() {
    let mut random = Random::seeded();
    let rounds = std::env::var("SNOWFLAKE_ID_ROUNDS").map_or(30, |rounds| rounds.parse().unwrap());
    let cluster = Cluster::start_with_clock(WORKER_1);
    let all = Mutex::new(Vec::new());
    let mut shift = 0.0;
    for round in 0..rounds {
        let stop = AtomicBool::new(false);
        // Half of the steps lead back into the last two seconds, where each millisecond has been used.
        let step = match random.below(2) {
            0 => random.below(2_000) as f64 / 1_000.0 - 2.0,
            _ => random.below(3_630_000) as f64 / 1_000.0 - HOUR,
        };
        let (fault, first, second) = (random.below(5), random.milliseconds(400), random.milliseconds(400));
        let clock_first = random.below(2) == 0;
        println!("round {round}: fault {fault}, clock {step:+.3} s, first {clock_first}");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| take_until(&cluster, &stop, &all));
            }
            thread::sleep(first);
            if clock_first {
                cluster.set_clock(shift + step);
                thread::sleep(second);
            }
            inflict(&cluster, fault, &mut random);
            if !clock_first {
                thread::sleep(second);
                cluster.set_clock(shift + step);
            }
            stop.store(true, Ordering::Relaxed);
        });
        // Orphans of a killed postmaster may hold the shared memory for a while; a server that restarts by
        // itself is up.
        poll("the server", || {
            let _ = cluster.start_server();
            cluster.try_connect("postgres").ok()?.batch_execute("SELECT 1").ok()
        });
        poll("the keeper", || {
            let query = "SELECT keeper_pid IS NOT NULL AND floor IS NOT NULL FROM snowflake_status LIMIT 1";
            let row = cluster.try_connect("postgres").ok()?.query_one(query, &[]).ok()?;
            row.get::<_, bool>(0).then_some(())
        });
        shift = set_clock_as_needed(&cluster);
        let start = Instant::now();
        let id = poll("an ID", || {
            let mut client = cluster.try_connect("postgres").ok()?;
            Some(client.query_one("SELECT snowflake_nextval()", &[]).ok()?.get::<_, i64>(0))
        });
        let waited = start.elapsed();
        assert!(waited < LEASE + Duration::from_secs(2), "generation went on only after {waited:?}");
        all.lock().unwrap().push(id);
    }
    let all = all.into_inner().unwrap();
    println!("{} IDs in {rounds} rounds", all.len());
    assert!(all.len() > 1_000 * rounds);
    assert_distinct(&all);
}

fn inflict(cluster: &Cluster, fault: u64, random: &mut Random) {
    let pids = |condition: &str| {
        let query = format!("SELECT pid FROM pg_stat_activity WHERE {condition} AND pid <> pg_backend_pid()");
        let mut client = cluster.try_connect("postgres").ok()?;
        Some(client.query(&query, &[]).ok()?.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>())
    };
    match fault {
        0 => {
            let pids = pids("backend_type = 'client backend'").unwrap_or_default();
            if !pids.is_empty() {
                kill("KILL", pids[random.below(pids.len() as u64) as usize]);
            }
        }
        1 => pids("backend_type = 'snowflake_id keeper'")
            .unwrap_or_default()
            .iter()
            .for_each(|&pid| kill("KILL", pid)),
        2 => kill("KILL", postmaster(cluster).unwrap()),
        3 => cluster.stop_server("immediate"),
        _ => {
            cluster.stop_server("fast");
            cluster.start_server().unwrap();
        }
    }
}

#[test]
fn clean_restarts_need_no_wait_and_do_not_pile_up() {
    let cluster = Cluster::start(WORKER_1);
    let mut all = ids(&mut cluster.connect(), "SELECT snowflake_batch(1000)");
    for _ in 0..10 {
        cluster.stop_server("fast");
        cluster.start_server().unwrap();
        let mut client = cluster.connect();
        let start = Instant::now();
        all.extend(ids(&mut client, "SELECT snowflake_nextval()"));
        assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
        all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    }
    assert_increasing(&all);
    let drift: f64 =
        single(&mut cluster.connect(), "SELECT extract(epoch FROM max(drift))::float8 FROM snowflake_status");
    assert!(drift < (MAX_DRIFT + LEASE).as_secs_f64(), "{drift}");
}

/// A burst runs ahead of the clock by the whole `max_drift`; then the server crashes at once.
#[test]
fn a_crash_after_a_burst() {
    let cluster = Cluster::start(WORKER_1);
    let mut all = Vec::new();
    for _ in 0..3 {
        // 4.096 million are a second of drift.
        for _ in 0..4 {
            all.extend(ids(&mut cluster.connect(), "SELECT snowflake_batch(1000000)"));
        }
        cluster.stop_server("immediate");
        cluster.start_server().unwrap();
        all.extend(ids(&mut cluster.connect(), "SELECT snowflake_nextval()"));
    }
    assert_increasing(&all);
}

/// The clock is set back while the server is down, after a crash and after a clean stop.
#[test]
fn a_clock_set_back_while_the_server_is_down() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let mut all = Vec::new();
    let mut shift = 0.0;
    for mode in ["immediate", "fast", "immediate"] {
        all.extend(ids(&mut cluster.connect(), "SELECT snowflake_nextval() FROM generate_series(1, 100000)"));
        cluster.stop_server(mode);
        shift -= 2.0;
        cluster.set_clock(shift);
        cluster.start_server().unwrap();
        let mut client = cluster.connect();
        client.batch_execute("SET snowflake_id.max_wait = '20s'").unwrap();
        all.extend(ids(&mut client, "SELECT snowflake_nextval() FROM generate_series(1, 100000)"));
    }
    assert_increasing(&all);
}

#[test]
fn the_keeper_is_terminated_under_load() {
    let cluster = Cluster::start(WORKER_1);
    let stop = AtomicBool::new(false);
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        for _ in 0..4 {
            scope.spawn(|| take_until(&cluster, &stop, &all));
        }
        let mut client = cluster.connect();
        for _ in 0..3 {
            let terminate = "SELECT pid FROM pg_stat_activity, pg_terminate_backend(pid)
                             WHERE backend_type = 'snowflake_id keeper'";
            let old: i32 = poll("a keeper", || Some(client.query_opt(terminate, &[]).unwrap()?.get(0)));
            let start = Instant::now();
            let query = format!("SELECT state FROM snowflake_status WHERE keeper_pid <> {old} LIMIT 1");
            poll("the next keeper", || {
                let state: String = client.query_opt(&query, &[]).unwrap()?.get(0);
                (state == "ready").then_some(())
            });
            client.batch_execute("SELECT snowflake_nextval()").unwrap();
            assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        }
    });
    assert_distinct(&all.into_inner().unwrap());
}

#[test]
fn the_extension_is_missing_in_the_keepers_database() {
    let cluster = Cluster::stopped(&[WORKER_1[0], WORKER_1[1], IN_HOME]);
    cluster.start_server().unwrap();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("\"home\""), "{message}");
    client.batch_execute("CREATE DATABASE home").unwrap();
    cluster.connect_to("home").batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());

    // Dropped there, generation ends within the lease, and goes on, above, once it is back.
    let before: i64 = single(&mut client, "SELECT snowflake_nextval()");
    cluster.connect_to("home").batch_execute("DROP EXTENSION snowflake_id").unwrap();
    client.batch_execute("SET snowflake_id.max_wait = '100ms'").unwrap();
    let (state, message) = poll("the horizon to be reached", || {
        let error = client.batch_execute("SELECT snowflake_nextval()").err()?;
        Some((error.code().unwrap().code().to_owned(), snowflake_id_cluster_tests::text(&error)))
    });
    assert_eq!(state, "55P03", "{message}");
    assert!(message.contains("CREATE EXTENSION snowflake_id"), "{message}");
    cluster.connect_to("home").batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    client.batch_execute("SET snowflake_id.max_wait = '5s'").unwrap();
    assert!(single::<i64>(&mut client, "SELECT snowflake_nextval()") > before);
}

/// Commits wait for a synchronous standby that is gone: so does the horizon, with an error that says it, and
/// the server can be stopped all the same.
#[test]
fn a_synchronous_standby_that_is_gone() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_nextval()");
    cluster.configure(&[("synchronous_standby_names", "gone")]);
    cluster.reload();
    client.batch_execute("SET snowflake_id.max_wait = '100ms'").unwrap();
    let message =
        poll("the horizon to be reached", || match client.query_one("SELECT snowflake_nextval()", &[]) {
            Ok(row) => {
                all.push(row.get(0));
                None
            }
            Err(error) => Some(snowflake_id_cluster_tests::text(&error)),
        });
    assert!(message.contains("A commit of the keeper has been under way"), "{message}");
    let state: String = single(&mut client, "SELECT state FROM snowflake_status LIMIT 1");
    assert_eq!(state, "horizon stalled");
    drop(client);
    let start = Instant::now();
    cluster.stop_server("fast");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    cluster.configure(&[("synchronous_standby_names", "")]);
    cluster.start_server().unwrap();
    all.extend(ids(&mut cluster.connect(), "SELECT snowflake_batch(1000)"));
    assert_increasing(&all);
}

#[test]
fn a_clock_set_back_by_an_hour() {
    let cluster = Cluster::start_with_clock(WORKER_1);
    let mut client = cluster.connect();
    let before: i64 = single(&mut client, "SELECT snowflake_nextval()");
    cluster.set_clock(-HOUR);
    let start = Instant::now();
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55P03", "{message}");
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let state: String = single(&mut client, "SELECT state FROM snowflake_status LIMIT 1");
    assert_eq!(state, "clock behind");
    // A wait that is allowed can be cancelled.
    let waiting =
        "SET snowflake_id.max_wait = '2h'; SET statement_timeout = '200ms'; SELECT snowflake_nextval()";
    assert_eq!(failure(&mut client, waiting).0, "57014");
    client.batch_execute("RESET snowflake_id.max_wait; RESET statement_timeout").unwrap();
    // When the clock has caught up, it goes on by itself.
    cluster.set_clock(0.0);
    assert!(single::<i64>(&mut client, "SELECT snowflake_nextval()") > before);
}

#[test]
fn a_clock_that_jumps_ten_years_ahead() {
    const TEN_YEARS: f64 = 3_650.0 * 24.0 * HOUR;
    let cluster = Cluster::start_with_clock(WORKER_1);
    let mut client = cluster.connect();
    let before: i64 = single(&mut client, "SELECT snowflake_nextval()");
    cluster.set_clock(TEN_YEARS);
    let (state, message) = poll("the refusal", || {
        let error = client.batch_execute("SELECT snowflake_nextval()").err()?;
        Some((error.code().unwrap().code().to_owned(), snowflake_id_cluster_tests::text(&error)))
    });
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("jumped") && message.contains("snowflake_accept_clock"), "{message}");
    let state: String = single(&mut client, "SELECT state FROM snowflake_status LIMIT 1");
    assert_eq!(state, "clock jumped");
    // Nothing is burnt: set right, it goes on from where it was.
    cluster.set_clock(0.0);
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    let after: i64 = single(&mut client, "SELECT snowflake_nextval()");
    let apart: f64 = single(
        &mut client,
        &format!(
            "SELECT extract(epoch FROM snowflake_timestamp({after}) - snowflake_timestamp({before}))::float8"
        ),
    );
    assert!((0.0..60.0).contains(&apart), "{apart}");
    // On request the jump is followed.
    cluster.set_clock(TEN_YEARS);
    poll("the refusal", || client.batch_execute("SELECT snowflake_nextval()").err());
    client.batch_execute("SELECT snowflake_accept_clock()").unwrap();
    let id: i64 = single(&mut client, "SELECT snowflake_nextval()");
    let year: f64 =
        single(&mut client, &format!("SELECT extract(epoch FROM snowflake_timestamp({id}) - now())::float8"));
    assert!(year.abs() < 60.0, "{year}");
}

#[test]
fn the_floor_is_moved_by_hand() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("SELECT snowflake_nextval(); SELECT snowflake_advance(now() + '2 s')").unwrap();
    let floor: f64 =
        single(&mut client, "SELECT extract(epoch FROM floor)::float8 FROM snowflake_status LIMIT 1");
    let id: i64 = single(&mut client, "SELECT snowflake_nextval()");
    let time: f64 =
        single(&mut client, &format!("SELECT extract(epoch FROM snowflake_timestamp({id}))::float8"));
    assert!(time >= floor, "{time} {floor}");
    // A layout that comes later begins there as well.
    client.batch_execute("SET snowflake_id.layout = 'wide'").unwrap();
    let time: f64 =
        single(&mut client, "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()))::float8");
    assert!(time >= floor, "{time} {floor}");
    assert_eq!(failure(&mut client, "SELECT snowflake_advance(now() + '2 days')").0, "22003");
}

/// An order that comes before the keeper has found out what is stored is no substitute for that.
#[test]
fn the_floor_is_moved_by_hand_too_early() {
    let cluster = Cluster::stopped(&[WORKER_1[0], WORKER_1[1], IN_HOME]);
    cluster.start_server().unwrap();
    let mut client = cluster.connect();
    client.batch_execute("CREATE DATABASE home").unwrap();
    client.batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    // It cannot be stored yet; nor is it forgotten.
    assert_eq!(failure(&mut client, "SELECT snowflake_advance('2024-06-01')").0, "55000");
    let mut home = cluster.connect_to("home");
    home.batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    poll("an ID", || home.batch_execute("SELECT snowflake_nextval()").ok());
    let is_unknown: bool = single(&mut home, "SELECT floor > now() - interval '1 min' FROM snowflake_status");
    assert!(is_unknown, "{}", cluster.log());
}

/// Changed under load, the worker ID changes from one tick to the next: IDs stay distinct and in order.
#[test]
fn the_worker_id_changes_while_clients_run() {
    let cluster = Cluster::start(&[WORKER_1[0], ("snowflake_id.node_name", "here")]);
    let mut client = cluster.connect();
    client
        .batch_execute("INSERT INTO snowflake_worker (node_name, worker_id) VALUES ('here', 5), ('there', 6)")
        .unwrap();
    let stop = AtomicBool::new(false);
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| take_until(&cluster, &stop, &all));
        }
        let mut expect = |worker: i32| {
            poll("the worker ID", || {
                (single::<i32>(&mut client, "SELECT snowflake_worker(snowflake_nextval())") == worker)
                    .then_some(())
            });
        };
        expect(5);
        cluster.configure(&[("snowflake_id.node_name", "there")]);
        cluster.reload();
        expect(6);
        cluster.configure(&[("snowflake_id.worker_id", "7")]);
        cluster.reload();
        expect(7);
        stop.store(true, Ordering::Relaxed);
    });
    let all = all.into_inner().unwrap();
    assert_distinct(&all);
    // With the row deleted and no setting, generation ends.
    cluster.configure(&[("snowflake_id.worker_id", "-1")]);
    cluster.reload();
    client.batch_execute("DELETE FROM snowflake_worker").unwrap();
    let message = poll("the refusal", || {
        Some(snowflake_id_cluster_tests::text(&client.batch_execute("SELECT snowflake_nextval()").err()?))
    });
    assert!(
        message.contains("no worker ID") && message.contains("INSERT INTO snowflake_worker"),
        "{message}"
    );
}

/// The sequence is lowered behind the keeper's back: it is written anew, and a crash repeats nothing.
#[test]
fn the_stored_horizon_is_lowered_by_hand() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(1000000)");
    client.batch_execute("SELECT setval('snowflake_internal.horizon', 1)").unwrap();
    poll("the horizon to be written anew", || {
        all.extend(ids(&mut client, "SELECT snowflake_nextval()"));
        (single::<i64>(&mut client, "SELECT last_value FROM snowflake_internal.horizon") > 1).then_some(())
    });
    cluster.stop_server("immediate");
    cluster.start_server().unwrap();
    all.extend(ids(&mut cluster.connect(), "SELECT snowflake_nextval()"));
    assert_increasing(&all);
}

/// An idle server writes no WAL for the horizon, and the first call after that waits only for one commit.
#[test]
fn idleness_costs_nothing() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1]]);
    let mut client = cluster.connect();
    poll("the keeper", || {
        (single::<String>(&mut client, "SELECT state FROM snowflake_status LIMIT 1") == "ready").then_some(())
    });
    let horizon = "SELECT last_value FROM snowflake_internal.horizon";
    let before: i64 = single(&mut client, horizon);
    // No ID has been taken: nothing is renewed.
    thread::sleep(LEASE * 2);
    assert_eq!(single::<i64>(&mut client, horizon), before);
    let start = Instant::now();
    client.batch_execute("SELECT snowflake_nextval()").unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert!(single::<i64>(&mut client, horizon) > before);
}

/// Quick restarts with a failing call each, in a layout with long ticks: what was not used is not burnt, and
/// no layout waits for another one's ticks.
#[test]
fn long_ticks_that_are_not_used_move_no_floor() {
    let cluster = Cluster::start(WORKER_1);
    let mut all = ids(&mut cluster.connect(), "SELECT snowflake_batch(1000)");
    for _ in 0..8 {
        cluster.stop_server("fast");
        cluster.start_server().unwrap();
        let mut client = cluster.connect();
        keeper_pid(&mut client);
        // Fails, unless the next tick is about to begin.
        let _ = client.batch_execute(
            "SET snowflake_id.layout = 'time:30 worker:10 unit=10s'; SET snowflake_id.max_wait = 0;
             SELECT snowflake_nextval()",
        );
        let ahead: f64 = single(
            &mut client,
            "SELECT extract(epoch FROM floor - clock_timestamp())::float8 FROM snowflake_status LIMIT 1",
        );
        assert!(ahead < 1.0, "{ahead}");
    }
    let mut client = cluster.connect();
    client.batch_execute("SET snowflake_id.max_wait = '1s'").unwrap();
    all.extend(ids(&mut client, "SELECT snowflake_nextval()"));
    assert_increasing(&all);
}

/// A tick that was used is not used again, though the floor lies within it.
#[test]
fn long_ticks_that_are_used_do_not_repeat() {
    let cluster = Cluster::start(WORKER_1);
    let mut all = Vec::new();
    for mode in ["fast", "fast", "immediate", "fast"] {
        let mut client = cluster.connect();
        client
            .batch_execute(
                "SET snowflake_id.layout = 'time:30 worker:10 sequence:2 unit=3s'; SET snowflake_id.max_wait = '20s'",
            )
            .unwrap();
        all.extend(ids(&mut client, "SELECT snowflake_nextval() FROM generate_series(1, 3)"));
        client.batch_execute("RESET snowflake_id.layout; SET snowflake_id.max_wait = '20s'").unwrap();
        client.batch_execute("SELECT snowflake_nextval()").unwrap();
        cluster.stop_server(mode);
        cluster.start_server().unwrap();
        if mode == "fast" {
            // The layout with short ticks need not wait for the long ones.
            let start = Instant::now();
            let mut client = cluster.connect();
            client.batch_execute("SELECT snowflake_nextval()").unwrap();
            assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        }
    }
    assert_increasing(&all);
}

/// A lowered lease counts at once: what was stored under the higher one is given back.
#[test]
fn a_lease_that_is_lowered() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "10min")]);
    let mut client = cluster.connect();
    let mut all = ids(&mut client, "SELECT snowflake_batch(100000)");
    cluster.configure(&[("snowflake_id.lease", "500ms")]);
    cluster.reload();
    poll("the horizon to come nearer", || {
        all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
        let near = "SELECT horizon < now() + interval '5 s' FROM snowflake_status LIMIT 1";
        single::<bool>(&mut client, near).then_some(())
    });
    cluster.stop_server("immediate");
    cluster.start_server().unwrap();
    let mut client = cluster.connect();
    let start = Instant::now();
    client.batch_execute("SET snowflake_id.max_wait = '30s'").unwrap();
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_increasing(&all);
}
