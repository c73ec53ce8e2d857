//! Rounds of accidents of all kinds, one after another and at the same time, while clients take IDs: what is
//! stored is dropped, created again and emptied, everything begins anew, orders are cancelled, the worker ID
//! changes back and forth, processes are killed, and the clock is set, by years as well. Some clients use a layout with a
//! clock sequence, which goes on when the clock was set back. No ID comes twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::faults::postmaster;
use snowflake_id_cluster_tests::load::{Random, StopAtEnd};
use snowflake_id_cluster_tests::{Cluster, WORKER_1, assert_distinct, kill, poll};

const YEARS: f64 = 5.0 * 365.0 * 86_400.0;

/// A server, and what the test does to it.
struct Patient<'a> {
    cluster: &'a Cluster,
    random: Random,
    /// By how many seconds its clock differs.
    shift: f64,
    /// The highest worker ID that was ever given to it.
    newest_worker: u64,
}

/// Runs statements in the keeper's database. They may fail, as may everything else meanwhile.
fn run(cluster: &Cluster, statements: &str) -> bool {
    let connected = cluster.try_connect("postgres");
    connected.is_ok_and(|mut client| client.batch_execute(statements).is_ok())
}

impl Patient<'_> {
    fn set_worker(&mut self, worker: u64) {
        self.cluster.configure(&[("snowflake_id.worker_id", &worker.to_string())]);
        // The server may be down.
        run(self.cluster, "SELECT pg_reload_conf()");
    }

    fn kill(&mut self, processes: &str) {
        let query = format!("SELECT pid FROM pg_stat_activity WHERE {processes} AND pid <> pg_backend_pid()");
        let pids = self.cluster.try_connect("postgres").and_then(|mut client| client.query(&query, &[]));
        let pids: Vec<i32> = pids.unwrap_or_default().iter().map(|row| row.get(0)).collect();
        if !pids.is_empty() {
            kill("KILL", pids[self.random.below(pids.len() as u64) as usize]);
        }
    }

    fn kill_postmaster(&self) {
        if let Some(pid) = postmaster(self.cluster) {
            kill("KILL", pid);
        }
    }

    fn have_an_accident(&mut self) {
        let accident = self.random.below(16);
        print!(" {accident}");
        match accident {
            0 => self.kill("backend_type = 'client backend'"),
            1 => self.kill("backend_type = 'snowflake_id keeper'"),
            2 => self.kill_postmaster(),
            // It may be down already, or go down by itself meanwhile. What does not end is killed.
            3 if !self.cluster.try_to_stop("fast") => self.kill_postmaster(),
            3 => {}
            4 => {
                run(self.cluster, "DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
            }
            5 => {
                run(self.cluster, "DROP EXTENSION snowflake_id");
                thread::sleep(self.random.milliseconds(200));
                run(self.cluster, "CREATE EXTENSION snowflake_id");
            }
            6 => {
                run(self.cluster, "REFRESH MATERIALIZED VIEW snowflake_internal.used_identity");
            }
            7 => {
                run(self.cluster, "SELECT setval('snowflake_internal.horizon', 1)");
            }
            8 => {
                // Back to one that was used, or on to another.
                let worker = 1 + self.random.below(self.newest_worker + 1);
                self.newest_worker = self.newest_worker.max(worker);
                self.set_worker(worker);
            }
            9 => {
                let worker = 1 + self.random.below(self.newest_worker + 1);
                let timeout = 1 + self.random.below(400);
                let order =
                    format!("SET statement_timeout = {timeout}; SELECT snowflake_reset_horizon({worker})");
                if run(self.cluster, &order) {
                    self.newest_worker = self.newest_worker.max(worker);
                    self.set_worker(worker);
                }
            }
            10 => {
                let timeout = 1 + self.random.below(20);
                let order = format!(
                    "SET statement_timeout = {timeout}; SELECT snowflake_advance(now() + interval '300 ms')"
                );
                run(self.cluster, &order);
            }
            11 => {
                // Years ahead, a crash meanwhile, and right again.
                self.cluster.set_clock(self.shift + YEARS);
                thread::sleep(self.random.milliseconds(300));
                self.kill("backend_type = 'client backend'");
                thread::sleep(self.random.milliseconds(1_500));
                self.cluster.set_clock(self.shift);
            }
            12 | 13 => {
                // Back by up to an hour, perhaps a crash meanwhile, and right again.
                self.cluster.set_clock(self.shift - self.random.below(3_600) as f64);
                thread::sleep(self.random.milliseconds(700));
                match self.random.below(4) {
                    0 => self.kill("backend_type = 'client backend'"),
                    1 => self.kill("backend_type = 'snowflake_id keeper'"),
                    2 => self.kill_postmaster(),
                    _ => {}
                }
                self.cluster.set_clock(self.shift);
            }
            _ => {
                self.shift += self.random.below(20_000) as f64 / 1_000.0 - 10.0;
                self.cluster.set_clock(self.shift);
            }
        }
    }

    /// Gives the server all that it needs to make IDs, and takes one.
    fn recover(&mut self) -> i64 {
        let start = Instant::now();
        poll("the server", || {
            let _ = self.cluster.start_server();
            run(self.cluster, "SELECT 1").then_some(())
        });
        run(self.cluster, "CREATE EXTENSION IF NOT EXISTS snowflake_id");
        let mut patience = 0;
        loop {
            let message = match self.cluster.try_connect("other").map_err(|error| error.to_string()) {
                Ok(mut client) => match client.query_one("SELECT snowflake_nextval()", &[]) {
                    Ok(row) => return row.get(0),
                    Err(error) => snowflake_id_cluster_tests::text(&error),
                },
                Err(message) => message,
            };
            assert!(start.elapsed() < Duration::from_secs(120), "{message}\n{}", self.cluster.log());
            thread::sleep(Duration::from_millis(50));
            patience += 1;
            // The clock is behind, or a worker ID is shut out up to a time that lies ahead: it comes in the
            // end.
            if patience % 10 == 0 {
                self.shift += 5.0;
                self.cluster.set_clock(self.shift);
            }
            if message.contains("clock has jumped") {
                run(self.cluster, "SELECT snowflake_accept_clock()");
            }
        }
    }
}

/// Takes IDs until it is told to stop, over crashes as well. They are not in order when everything begins
/// anew.
///
/// The numbers of the two layouts are the same as long as the value of the clock sequence is 0, and else those of workers from
/// 128 on, of which there are none.
fn take_until(cluster: &Cluster, layout: &str, stop: &AtomicBool, all: &Mutex<Vec<i64>>) {
    let mut mine: Vec<i64> = Vec::new();
    let mut client: Option<Client> = None;
    while !stop.load(Ordering::Relaxed) {
        if client.as_ref().is_none_or(Client::is_closed) {
            client = cluster.try_connect("other").ok();
            let set = format!("SET snowflake_id.layout = '{layout}'");
            client = client.take_if(|client| client.batch_execute(&set).is_ok());
        }
        let query = ["SELECT snowflake_nextval()", "SELECT snowflake_batch(500)"][mine.len() % 2];
        match client.as_mut().map(|client| client.query(query, &[])) {
            Some(Ok(rows)) => mine.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
    all.lock().unwrap().extend(mine);
}

#[test]
fn accidents_of_all_kinds() {
    let rounds: u32 = std::env::var("SNOWFLAKE_ID_ROUNDS").map_or(15, |rounds| rounds.parse().unwrap());
    let cluster = Cluster::start_with_clock(&[
        WORKER_1[0],
        WORKER_1[1],
        ("snowflake_id.lease", "500ms"),
        ("snowflake_id.max_drift", "500ms"),
    ]);
    cluster.connect().batch_execute("CREATE DATABASE other").unwrap();
    cluster.connect_to("other").batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    let mut patient = Patient { cluster: &cluster, random: Random::seeded(), shift: 0.0, newest_worker: 1 };
    let all = Mutex::new(vec![patient.recover()]);
    for round in 0..rounds {
        print!("round {round}:");
        let stop = AtomicBool::new(false);
        let accidents: Vec<Duration> =
            (0..1 + patient.random.below(4)).map(|_| patient.random.milliseconds(500)).collect();
        thread::scope(|scope| {
            let _end = StopAtEnd(&stop);
            for layout in ["standard", "standard", "rollback3", "rollback3"] {
                let (cluster, stop, all) = (&cluster, &stop, &all);
                scope.spawn(move || take_until(cluster, layout, stop, all));
            }
            for pause in accidents {
                thread::sleep(pause);
                patient.have_an_accident();
            }
            thread::sleep(Duration::from_millis(200));
        });
        println!();
        all.lock().unwrap().push(patient.recover());
    }
    let all = all.into_inner().unwrap();
    println!("{} IDs in {rounds} rounds, {} workers", all.len(), patient.newest_worker);
    assert!(all.len() > 200 * rounds as usize);
    // Bits 19 to 21.
    let of_value = |value: i64| all.iter().filter(|&id| id >> 19 & 7 == value).count();
    println!("with a clock sequence of 0 to 7: {:?}", [0, 1, 2, 3, 4, 5, 6, 7].map(of_value));
    assert_distinct(&all);
}
