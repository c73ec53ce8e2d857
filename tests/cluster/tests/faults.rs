//! Processes that stand still, are missing or find no room for the WAL: nothing repeats, and no call waits
//! longer than `max_wait`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::faults::{LONGEST_PAUSE, Paused, SmallDisk, keeper_pid, set_clock_as_needed};
use snowflake_id_cluster_tests::load::{Random, StopAtEnd, take_until};
use snowflake_id_cluster_tests::{
    Cluster, WORKER_1, assert_distinct, assert_increasing, failure, ids, poll, single, text,
};

/// The worker ID of the first round; it falls by one where it changes.
const FIRST_WORKER: i64 = 1_000;

/// A client that does nothing but take IDs, in statements of many calls: a signal finds it in the middle of
/// one.
#[derive(Default)]
struct Taker {
    pid: AtomicI32,
    statements: AtomicU64,
}

impl Taker {
    fn run(&self, cluster: &Cluster, stop: &AtomicBool, all: &Mutex<Vec<i64>>) {
        let mut client = cluster.connect();
        self.pid.store(single(&mut client, "SELECT pg_backend_pid()"), Ordering::Relaxed);
        let mut mine = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            match client.query("SELECT snowflake_nextval() FROM generate_series(1, 10000)", &[]) {
                Ok(rows) => mine.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
                // It waited too long.
                Err(error) => {
                    assert_eq!(error.code().map(|code| code.code()), Some("55P03"), "{}", text(&error))
                }
            }
            self.statements.fetch_add(1, Ordering::Relaxed);
        }
        assert_increasing(&mine);
        all.lock().unwrap().extend(mine);
    }

    /// Waits until it has begun a statement and ended it.
    fn wait_for_progress(&self) {
        let before = self.statements.load(Ordering::Relaxed);
        poll("a client to go on", || (self.statements.load(Ordering::Relaxed) > before + 1).then_some(()));
    }
}

/// Some of the sessions, or all, are stopped in the middle of their calls. Meanwhile the keeper is
/// terminated, the worker ID changes or the floor is moved, and the clock goes back by 2 s; then they go on.
/// What they had begun before comes to nothing: no ID repeats, each session's increase, and all IDs of a
/// worker lie below all of the next one.
#[test]
fn sessions_stopped_in_the_middle_of_calls() {
    const ROUNDS: u64 = 6;
    let mut random = Random::seeded();
    let worker = FIRST_WORKER.to_string();
    let cluster = Cluster::start_with_clock(&[WORKER_1[0], ("snowflake_id.worker_id", &worker)]);
    let (stop, all) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let takers: [Taker; 4] = Default::default();
    let mut in_time = 0;
    thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        for taker in &takers {
            scope.spawn(|| taker.run(&cluster, &stop, &all));
        }
        let mut control = cluster.connect();
        keeper_pid(&mut control);
        for round in 0..ROUNDS {
            takers.iter().for_each(Taker::wait_for_progress);
            thread::sleep(random.milliseconds(200));
            let everybody = random.below(2) == 0;
            // A floor that is set by a clock that is behind may not take a counter back.
            let clock_first = round % 3 == 2 || random.below(2) == 0;
            let stopped = if everybody { takers.len() } else { 2 };
            println!("round {round}: {stopped} sessions stopped, clock first {clock_first}");
            let pids = takers[..stopped].iter().map(|taker| taker.pid.load(Ordering::Relaxed));
            let paused = Paused::new(pids.collect());
            if clock_first {
                cluster.set_clock(-2.0);
            }
            in_time += u64::from(interfere(&cluster, &mut control, round));
            cluster.set_clock(-2.0);
            thread::sleep(random.milliseconds(50));
            drop(paused);
            // With the clock still behind, the counters go on just where they were.
            takers.iter().for_each(Taker::wait_for_progress);
            cluster.set_clock(0.0);
        }
    });
    println!("{in_time} of {ROUNDS} took effect during the pause");
    assert!(in_time > ROUNDS / 2);
    let mut all = all.into_inner().unwrap();
    println!("{} IDs", all.len());
    assert!(all.len() > 100_000);
    all.sort_unstable();
    assert_increasing(&all);
    let worker = |id: i64| id >> 12 & 1_023;
    for pair in all.windows(2) {
        assert!(
            worker(pair[0]) >= worker(pair[1]),
            "{} of an earlier worker lies above {}",
            pair[1],
            pair[0]
        );
    }
    assert_eq!(worker(all[all.len() - 1]), FIRST_WORKER - 2, "the worker ID of the last round");
}

/// Does one of three things that need a fence; whether it took effect while the sessions stand still.
fn interfere(cluster: &Cluster, control: &mut Client, round: u64) -> bool {
    let done = match round % 3 {
        0 => {
            let old = keeper_pid(control);
            control.execute("SELECT pg_terminate_backend($1)", &[&old]).unwrap();
            format!("keeper_pid <> {old} AND worker_id IS NOT NULL")
        }
        1 => {
            let worker = FIRST_WORKER - 1 - round as i64 / 3;
            cluster.configure(&[("snowflake_id.worker_id", &worker.to_string())]);
            cluster.reload();
            format!("worker_id = {worker}")
        }
        _ => {
            control.batch_execute("SELECT snowflake_advance(clock_timestamp())").unwrap();
            "worker_id IS NOT NULL".into()
        }
    };
    let query = format!("SELECT FROM snowflake_status WHERE {done}");
    let start = Instant::now();
    while start.elapsed() < LONGEST_PAUSE / 2 {
        if !control.query(&query, &[]).unwrap().is_empty() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// How long a statement takes that has to fail, with its SQLSTATE and what it says.
fn timed_failure(client: &mut Client, query: &str) -> (Duration, String, String) {
    let start = Instant::now();
    let (state, message) = failure(client, query);
    (start.elapsed(), state, message)
}

/// For what a busy machine adds to a wait.
const SLACK: Duration = Duration::from_secs(2);

/// The keeper exists and does nothing. IDs go on up to the horizon; then calls fail, none later than it has
/// to.
#[test]
fn a_keeper_that_stands_still() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1], ("snowflake_id.lease", "500ms")]);
    let mut client = cluster.connect();
    client.batch_execute("SET snowflake_id.max_wait = '300ms'").unwrap();
    let mut all = ids(&mut client, "SELECT snowflake_nextval()");
    let paused = Paused::new(vec![keeper_pid(&mut client)]);
    poll("the horizon to be reached", || match client.query("SELECT snowflake_nextval()", &[]) {
        Ok(rows) => {
            all.push(rows[0].get(0));
            None
        }
        Err(_) => Some(()),
    });
    let (waited, state, message) = timed_failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55P03", "{message}");
    assert!(message.contains("Waited 300 ms"), "{message}");
    assert!(waited >= Duration::from_millis(300) && waited < SLACK, "{waited:?}");
    let (waited, state, message) =
        timed_failure(&mut client, "SET snowflake_id.max_wait = 0; SELECT snowflake_batch(10)");
    assert_eq!(state, "55P03", "{message}");
    assert!(waited < SLACK, "{waited:?}");
    let state: String = single(&mut client, "SELECT state FROM snowflake_status LIMIT 1");
    assert_eq!(state, "horizon stalled");
    // Orders wait no longer than calls, or a second.
    client.batch_execute("SET snowflake_id.max_wait = '300ms'").unwrap();
    for order in ["SELECT snowflake_advance(now())", "SELECT snowflake_accept_clock()"] {
        let (waited, state, message) = timed_failure(&mut client, order);
        assert_eq!(state, "55000", "{message}");
        assert!(waited < SLACK, "{order}: {waited:?}");
    }
    drop(paused);
    client.batch_execute("SET snowflake_id.max_wait = '30s'").unwrap();
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_increasing(&all);
    let state: String = single(&mut client, "SELECT state FROM snowflake_status LIMIT 1");
    assert_eq!(state, "ready");
}

/// PostgreSQL refuses to start a keeper, and starts without: every call says so, in time.
#[test]
fn a_server_with_no_room_for_the_keeper() {
    let cluster = Cluster::start(&[WORKER_1[0], WORKER_1[1], ("max_worker_processes", "0")]);
    let mut client = cluster.connect();
    for (max_wait, query) in [
        ("300ms", "SELECT snowflake_nextval()"),
        ("300ms", "SELECT snowflake_batch(10)"),
        ("300ms", "SELECT snowflake_advance(now())"),
        ("0", "SELECT snowflake_nextval()"),
    ] {
        client.batch_execute(&format!("SET snowflake_id.max_wait = '{max_wait}'")).unwrap();
        let (waited, state, message) = timed_failure(&mut client, query);
        assert_eq!(state, "55000", "{message}");
        assert!(message.contains("max_worker_processes"), "{message}");
        assert!(waited < SLACK, "{query}: {waited:?}");
    }
    let state: String = single(&mut client, "SELECT state FROM snowflake_status LIMIT 1");
    assert_eq!(state, "no keeper");
    // What needs no keeper works.
    client.batch_execute("SELECT snowflake_decode(1)").unwrap();
}

/// The disk of the WAL fills up, and PostgreSQL goes down by itself. Started with room again and a clock that
/// is behind, it goes on where it was.
#[test]
fn pg_wal_is_full() {
    // Two segments fit, the third does not.
    let disk = match SmallDisk::mount(40) {
        Ok(disk) => disk,
        Err(reason) => {
            println!("skipped: no file system can be mounted here: {reason}");
            return;
        }
    };
    let mut cluster = Cluster::stopped(&[WORKER_1[0], WORKER_1[1], ("restart_after_crash", "off")]);
    cluster.give_clock();
    cluster.move_wal(disk.path());
    cluster.start_server().unwrap();
    cluster
        .connect()
        .batch_execute("CREATE EXTENSION snowflake_id; CREATE TABLE rows (id bigint, text text)")
        .unwrap();
    keeper_pid(&mut cluster.connect());
    let all = Mutex::new(Vec::new());
    let take = |writes: bool, ends: &dyn Fn()| {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _end = StopAtEnd(&stop);
            for _ in 0..3 {
                scope.spawn(|| take_until(&cluster, &stop, &all));
            }
            if writes {
                scope.spawn(|| write_until_the_end(&cluster, &all));
            }
            ends();
        });
    };
    take(true, &|| {
        let pid_file = cluster.data_dir().join("postmaster.pid");
        poll("the server to go down", || (!pid_file.exists()).then_some(()));
    });
    let log = cluster.log();
    assert!(log.contains("PANIC") && log.contains("No space left on device"), "{log}");

    disk.grow(400);
    cluster.set_clock(-2.0);
    cluster.start_server().unwrap();
    keeper_pid(&mut cluster.connect());
    set_clock_as_needed(&cluster);
    let before = all.lock().unwrap().len();
    take(false, &|| thread::sleep(Duration::from_secs(2)));
    let all = all.into_inner().unwrap();
    println!("{before} IDs before, {} after", all.len() - before);
    assert!(before > 1_000 && all.len() - before > 1_000);
    assert_distinct(&all);
}

/// Inserts rows with IDs of their own until the server is gone, and adds the IDs to `all`.
fn write_until_the_end(cluster: &Cluster, all: &Mutex<Vec<i64>>) {
    let mut client = cluster.connect();
    let insert = "INSERT INTO rows SELECT snowflake_nextval(), repeat('x', 1000) FROM generate_series(1, 100)
                  RETURNING id";
    while let Ok(rows) = client.query(insert, &[]) {
        all.lock().unwrap().extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
}
