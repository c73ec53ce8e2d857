//! Processes that are stopped or missing, and a full disk for the WAL: no ID is repeated, and no call waits longer than
//! `max_wait`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::*;

/// The worker ID of the first round. It decreases by one with each change.
const FIRST_WORKER: i64 = 1_000;

/// A client that only takes IDs, in statements of many calls, so that a signal interrupts it in the middle of a call.
#[derive(Default)]
struct Caller {
    pid: AtomicI32,
    statements: AtomicU64,
}

impl Caller {
    fn run(&self, cluster: &Cluster, stop: &AtomicBool, all: &Mutex<Vec<i64>>) {
        let mut client = cluster.connect();
        self.pid.store(single(&mut client, "SELECT pg_backend_pid()"), Ordering::Relaxed);
        let mut mine = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            match client.query("SELECT snowflake_nextval() FROM generate_series(1, 10000)", &[]) {
                Ok(rows) => mine.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
                // The call waited too long.
                Err(error) => {
                    assert_eq!(error.code().map(|code| code.code()), Some("55P03"), "{}", text(&error))
                }
            }
            self.statements.fetch_add(1, Ordering::Relaxed);
        }
        assert_increasing(&mine);
        all.lock().unwrap().extend(mine);
    }

    /// Waits until it has started a statement and finished it.
    fn wait_for_progress(&self) {
        let before = self.statements.load(Ordering::Relaxed);
        eventually("a client to go on", || self.statements.load(Ordering::Relaxed) > before + 1);
    }
}

/// Some or all of the sessions are stopped in the middle of their calls. Meanwhile the keeper is terminated, the worker
/// ID changes or the floor is moved, and the clock goes back by 2 s. Then the sessions continue. Attempts that they had
/// begun before must fail: no ID is repeated, the IDs of each session increase, and all IDs of a worker are below all
/// IDs of the next one.
#[test]
fn sessions_stopped_in_the_middle_of_calls() {
    let mut random = Random::seeded();
    let worker = FIRST_WORKER.to_string();
    let cluster = Cluster::builder().worker(&worker).clock().start();
    let (stop, all) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let callers: [Caller; 4] = Default::default();
    let (mut round, mut in_time) = (0, 0);
    thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        for caller in &callers {
            scope.spawn(|| caller.run(&cluster, &stop, &all));
        }
        let mut control = cluster.connect();
        keeper_pid(&mut control);
        // A session that was stopped with a lock holds up the others, so not every round succeeds.
        while round < 6 || in_time < 4 {
            assert!(round < 100, "{in_time} of {round} took effect");
            callers.iter().for_each(Caller::wait_for_progress);
            random.pause(200);
            let everybody = random.below(2) == 0;
            // A floor that is set while the clock is behind must not lower a counter.
            let clock_first = round % 3 == 2 || random.below(2) == 0;
            let stopped = if everybody { callers.len() } else { 2 };
            println!("round {round}: {stopped} sessions stopped, clock first {clock_first}");
            let pids = callers[..stopped].iter().map(|caller| caller.pid.load(Ordering::Relaxed));
            let paused = Paused::new(pids.collect());
            if clock_first {
                cluster.set_clock(-2.0);
            }
            in_time += u64::from(interfere(&cluster, &mut control, round));
            cluster.set_clock(-2.0);
            random.pause(50);
            drop(paused);
            // With the clock still behind, the counters continue exactly where they were.
            callers.iter().for_each(Caller::wait_for_progress);
            cluster.set_clock(0.0);
            round += 1;
        }
    });
    println!("{in_time} of {round} took effect during the pause");
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
    let last = FIRST_WORKER - (round as i64 + 1) / 3;
    assert_eq!(worker(all[all.len() - 1]), last, "the worker ID of the last round");
}

/// Does one of three things that need a fence. Returns whether it took effect while the sessions are stopped.
fn interfere(cluster: &Cluster, control: &mut Client, round: u64) -> bool {
    let done = match round % 3 {
        0 => {
            let old = keeper_pid(control);
            control.execute("SELECT pg_terminate_backend($1)", &[&old]).unwrap();
            format!("keeper_pid <> {old} AND worker_id IS NOT NULL")
        }
        1 => {
            let worker = FIRST_WORKER - 1 - round as i64 / 3;
            cluster.change("snowflake_id.worker_id", &worker.to_string());
            format!("worker_id = {worker}")
        }
        _ => {
            control.run("SELECT snowflake_raise_floor(clock_timestamp())");
            "worker_id IS NOT NULL".into()
        }
    };
    let query = format!("SELECT FROM snowflake_status WHERE {done}");
    let start = Instant::now();
    while start.elapsed() < LONGEST_PAUSE / 4 {
        if !control.query(&query, &[]).unwrap().is_empty() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}

/// The disk of the WAL fills up, and PostgreSQL shuts down by itself. Restarted with free space and a clock that is
/// behind, it continues above its IDs.
#[test]
fn pg_wal_is_full() {
    // There is room for two segments, but not for the third.
    let Some(disk) = needs("a file system in memory (run as root)", SmallDisk::mount(40)) else { return };
    let cluster = Cluster::builder().worker(1).clock().set("restart_after_crash", "off").stopped();
    cluster.move_wal(disk.path());
    cluster.start_server();
    cluster.connect().run("CREATE EXTENSION snowflake_id; CREATE TABLE rows (id bigint, text text)");
    keeper_pid(&mut cluster.connect());
    let pid_file = cluster.data_dir().join("postmaster.pid");
    let writer = || [|_: &AtomicBool| write_until_the_end(&cluster)];
    let (written, (taken, ())) = beside(writer(), || {
        while_taking(takers(&cluster, 3), || eventually("the server to go down", || !pid_file.exists()))
    });
    let mut all = [written.concat(), taken].concat();
    let log = cluster.log();
    assert!(log.contains("PANIC") && log.contains("No space left on device"), "{log}");

    disk.grow(400);
    cluster.set_clock(-2.0);
    cluster.start_server();
    keeper_pid(&mut cluster.connect());
    set_clock_as_needed(&cluster);
    let before = all.len();
    let (taken, ()) = once_taken(1_001, takers(&cluster, 3), || ());
    all.extend(taken.concat());
    println!("{before} IDs before, {} after", all.len() - before);
    assert!(before > 1_000 && all.len() - before > 1_000);
    assert_distinct(&all);
}

/// Inserts rows with their own IDs until the server is down, and returns the IDs.
fn write_until_the_end(cluster: &Cluster) -> Vec<i64> {
    let mut client = cluster.connect();
    let insert = "INSERT INTO rows SELECT snowflake_nextval(), repeat('x', 1000) FROM generate_series(1, 100)
                  RETURNING id";
    let mut all = vec![];
    while let Ok(rows) = client.query(insert, &[]) {
        all.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
    }
    all
}
