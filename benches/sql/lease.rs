//! Records how a worker ID passes from a stalled server to another one. This is not a measurement.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use snowflake_id_cluster_tests::{
    Cluster, Fleet, StopAtEnd, leased_worker, signal_all, wait_for_registry_state,
};

use crate::figures::Figures;
use crate::servers::Servers;

const EVERY: Duration = Duration::from_millis(50);
const WORKER: i32 = 7;
const LEASE: &str = "lease => '6s', renew_every => '1s'";
const PAUSE: Duration = Duration::from_secs(6);
const RESUME: Duration = Duration::from_secs(18);
const END: Duration = Duration::from_secs(24);

/// What was recorded. All times are seconds since the start of the record.
struct Record {
    began: Instant,
    began_at: f64,
    rows: Mutex<Vec<Row>>,
}

struct Row {
    seconds: f64,
    what: &'static str,
    server: String,
    worker: Option<i32>,
    /// The time of an ID, or the start of a lease.
    time: Option<f64>,
    /// The end of a lease.
    until: Option<f64>,
}

pub fn print(_: &mut Servers, figures: &Figures) {
    let fleet = Fleet::start(&format!("{LEASE}, first_worker => {WORKER}"));
    let alpha = fleet.server().set("cluster_name", "alpha").start();
    assert_eq!(leased_worker(&alpha), WORKER);
    // This server accepts no other worker ID.
    let beta = fleet.server().worker(WORKER).set("cluster_name", "beta").start();
    wait_for_registry_state(&beta, "all taken");

    let began_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let record = Record { began: Instant::now(), began_at, rows: Mutex::default() };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        scope.spawn(|| record.watch_registry(&fleet.registry, &stop));
        scope.spawn(|| record.take_ids("alpha", &alpha, &stop));
        scope.spawn(|| record.take_ids("beta", &beta, &stop));
        thread::sleep(PAUSE);
        signal_all(&alpha, "STOP");
        record.note("stalls", "alpha");
        thread::sleep(RESUME - PAUSE);
        record.note("goes on", "alpha");
        signal_all(&alpha, "CONT");
        thread::sleep(END - RESUME);
    });

    let mut rows = record.rows.into_inner().unwrap();
    rows.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    println!("\n### A lease of 6 s passing from a server that stalls for 12 s to another\n");
    println!(
        "| server | worker ID | first ID bears second | last ID bears second |\n| --- | ---: | ---: | ---: |"
    );
    for (server, worker) in [("alpha", WORKER), ("beta", WORKER), ("alpha", WORKER + 1)] {
        let is_of = |row: &&Row| row.what == "id" && row.server == server && row.worker == Some(worker);
        let times: Vec<f64> = rows.iter().filter(is_of).filter_map(|row| row.time).collect();
        if let (Some(first), Some(last)) = (times.first(), times.last()) {
            println!("| {server} | {worker} | {first:.1} | {last:.1} |");
        }
    }
    let shown = |time: Option<f64>| time.map_or_else(String::new, |time| format!("{time:.3}"));
    let rows: Vec<[String; 6]> = rows
        .into_iter()
        .map(|row| {
            let worker = row.worker.map_or_else(String::new, |worker| worker.to_string());
            let (time, until) = (shown(row.time), shown(row.until));
            [shown(Some(row.seconds)), row.what.into(), row.server, worker, time, until]
        })
        .collect();
    figures.write("lease", ["seconds", "what", "server", "worker", "time", "until"], &rows);
}

impl Record {
    fn add(
        &self,
        what: &'static str,
        server: &str,
        worker: Option<i32>,
        time: Option<f64>,
        until: Option<f64>,
    ) {
        let seconds = self.began.elapsed().as_secs_f64();
        let since = |time: Option<f64>| time.map(|time| time - self.began_at);
        let (time, until) = (since(time), since(until));
        self.rows.lock().unwrap().push(Row { seconds, what, server: server.into(), worker, time, until });
    }

    fn note(&self, event: &'static str, server: &str) {
        self.add(event, server, None, None, None);
    }

    /// Records each ID that a server returns. Calls do not wait.
    fn take_ids(&self, name: &str, server: &Cluster, stop: &AtomicBool) {
        const ID: &str = "
            SELECT worker_id, extract(epoch FROM generated_at)::float8
            FROM (SELECT snowflake_nextval() AS id OFFSET 0) AS new, snowflake_decode(new.id)";
        let mut client = server.connect();
        client.batch_execute("SET snowflake_id.max_wait = 0").unwrap();
        while !stop.load(Ordering::Relaxed) {
            if let Ok(row) = client.query_one(ID, &[]) {
                self.add("id", name, Some(row.get(0)), Some(row.get(1)), None);
            }
            thread::sleep(EVERY);
        }
    }

    /// Records each lease that the registry has granted or renewed.
    fn watch_registry(&self, registry: &Cluster, stop: &AtomicBool) {
        const LEASES: &str = "
            SELECT node_name, worker_id, extract(epoch FROM granted_from)::float8,
                extract(epoch FROM granted_until)::float8
            FROM snowflake_registry.lease ORDER BY worker_id";
        let mut client = registry.connect();
        let mut known = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let rows = client.query(LEASES, &[]).unwrap();
            let leases: Vec<(String, i32, f64, f64)> =
                rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
            for lease in leases.iter().filter(|lease| !known.contains(*lease)) {
                let (server, worker, from, until) = lease;
                self.add("lease", server, Some(*worker), Some(*from), Some(*until));
            }
            known = leases;
            thread::sleep(EVERY);
        }
    }
}
