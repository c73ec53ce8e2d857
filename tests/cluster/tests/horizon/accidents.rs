//! Rounds of accidents of all kinds, one after another and at the same time, while clients take IDs. The stored records
//! are dropped, created again and emptied, the horizon is reset, requests are canceled, the worker ID changes back and
//! forth, processes are killed, and the clock is set, sometimes by years. Some clients use a layout with a clock
//! sequence, which continues when the clock was set back. No ID is repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::accidents::{Client, FaultTarget, recovered, rounds_of_accidents};
use harness::*;

const YEARS: f64 = 5.0 * 365.0 * 86_400.0;

/// How many IDs clients take before the first accident of a round.
const IDS_OF_A_ROUND: usize = 200;

/// A server, and the accidents that happen to it.
struct Server {
    cluster: Arc<Cluster>,
    random: Random,
    /// The difference of its clock from the real clock, in seconds.
    shift: f64,
    /// The highest worker ID that the server has had.
    newest_worker: u64,
    all: Vec<i64>,
    /// The number of IDs that clients have been given.
    count: Arc<AtomicUsize>,
}

impl Server {
    /// Runs statements in the keeper's database. They may fail, because anything may fail during an accident.
    fn run(&self, statements: &str) -> bool {
        self.cluster.try_run(statements)
    }

    fn set_worker(&mut self, worker: u64) {
        self.newest_worker = self.newest_worker.max(worker);
        self.cluster.configure(&[("snowflake_id.worker_id", &worker.to_string())]);
        // The server may be down.
        self.run("SELECT pg_reload_conf()");
    }

    fn kill(&mut self, kind: &str) {
        signal_one(&self.cluster, "KILL", &format!("backend_type = '{kind}'"), &mut self.random);
    }
}

impl FaultTarget for Server {
    type Taken = Vec<i64>;

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// The two layouts give the same numbers while the value of the clock sequence is 0. Other values give the numbers
    /// of workers from 128 on, which do not exist. IDs are not in order across a reset.
    fn clients(&self) -> Vec<Client<Vec<i64>>> {
        let client = |layout: &str| -> Client<Vec<i64>> {
            let (cluster, first) =
                (Arc::clone(&self.cluster), format!("SET snowflake_id.layout = '{layout}'"));
            let count = Arc::clone(&self.count);
            Box::new(move |stop| {
                let queries = ["SELECT snowflake_nextval()", "SELECT snowflake_batch(500)"];
                let queries = queries.map(Into::into).into();
                let taker = Taker { database: "other", first, queries, returns: true, ..Taker::of(&cluster) };
                let mut all = vec![];
                taker.run(stop, |_, taken| {
                    count.fetch_add(taken.len(), Ordering::Relaxed);
                    all.extend(taken);
                });
                all
            })
        };
        ["standard", "standard", "rollback3", "rollback3"].map(client).into()
    }

    fn wait_for_clients(&self) {
        let before = self.count.load(Ordering::Relaxed);
        eventually("IDs", || self.count.load(Ordering::Relaxed) > before + IDS_OF_A_ROUND);
    }

    fn have_an_accident(&mut self) -> String {
        let accident = self.random.below(16);
        match accident {
            0 => self.kill("client backend"),
            1 => self.kill("snowflake_id keeper"),
            2 => cut_power(&self.cluster),
            // The server may already be down, or may go down by itself meanwhile. A server that does not stop is
            // killed.
            3 if !self.cluster.try_to_stop("fast") => cut_power(&self.cluster),
            3 => {}
            4 => {
                self.run("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
            }
            5 => {
                self.run("DROP EXTENSION snowflake_id");
                self.random.pause(200);
                self.run("CREATE EXTENSION snowflake_id");
            }
            6 => {
                self.run("REFRESH MATERIALIZED VIEW snowflake_internal.used_identity WITH NO DATA");
            }
            7 => {
                self.run("REFRESH MATERIALIZED VIEW snowflake_internal.horizon WITH NO DATA");
            }
            8 => {
                // Change to an earlier worker ID or to a new one.
                let worker = 1 + self.random.below(self.newest_worker + 1);
                self.set_worker(worker);
            }
            9 => {
                let worker = 1 + self.random.below(self.newest_worker + 1);
                let timeout = 1 + self.random.below(400);
                let order =
                    format!("SET statement_timeout = {timeout}; SELECT snowflake_reset_horizon({worker})");
                if self.run(&order) {
                    self.set_worker(worker);
                }
            }
            10 => {
                let timeout = 1 + self.random.below(20);
                self.run(&format!(
                    "SET statement_timeout = {timeout}; SELECT snowflake_raise_floor(now() + interval '300 ms')"
                ));
            }
            11 => {
                // The clock jumps years ahead, the server may crash, and the clock is set right.
                self.cluster.set_clock(self.shift + YEARS);
                self.random.pause(300);
                self.kill("client backend");
                self.random.pause(1_500);
                self.cluster.set_clock(self.shift);
            }
            12 | 13 => {
                // The clock goes back by up to an hour, the server may crash, and the clock is set right.
                self.cluster.set_clock(self.shift - self.random.below(3_600) as f64);
                self.random.pause(700);
                match self.random.below(4) {
                    0 => self.kill("client backend"),
                    1 => self.kill("snowflake_id keeper"),
                    2 => cut_power(&self.cluster),
                    _ => {}
                }
                self.cluster.set_clock(self.shift);
            }
            _ => {
                self.shift += self.random.below(20_000) as f64 / 1_000.0 - 10.0;
                self.cluster.set_clock(self.shift);
            }
        }
        accident.to_string()
    }

    fn keep(&mut self, taken: Vec<i64>) {
        self.all.extend(taken);
    }

    /// Restores all that the server needs to issue IDs, and takes one.
    fn recover(&mut self) {
        let cluster = Arc::clone(&self.cluster);
        cluster.bring_up();
        self.run("CREATE EXTENSION IF NOT EXISTS snowflake_id");
        let id = recovered(&cluster, "other", "SELECT snowflake_nextval()", |message, refusals| {
            // The clock is behind, or a worker ID is excluded until a time in the future. The clock will reach it.
            if refusals % 10 == 9 {
                self.shift += 5.0;
                cluster.set_clock(self.shift);
            }
            if message.contains("clock has jumped") {
                self.run("SELECT snowflake_accept_clock()");
            }
        });
        self.all.push(id);
    }
}

#[test]
fn accidents_of_all_kinds() {
    let rounds = rounds(7);
    let cluster = Cluster::builder().worker(1).clock();
    let cluster = cluster.short_horizon().set("snowflake_id.max_ahead", "500ms").start();
    cluster.connect().run("CREATE DATABASE other");
    cluster.connect_to("other").run("CREATE EXTENSION snowflake_id");
    let mut server = Server {
        cluster: Arc::new(cluster),
        random: Random::seeded(),
        shift: 0.0,
        newest_worker: 1,
        all: vec![],
        count: Arc::default(),
    };
    rounds_of_accidents(&mut server, rounds, 4);
    let all = server.all;
    println!("{} IDs in {rounds} rounds, {} workers", all.len(), server.newest_worker);
    assert!(all.len() > IDS_OF_A_ROUND * rounds as usize);
    // The value is in bits 19 to 21.
    let of_value = |value: i64| all.iter().filter(|&id| id >> 19 & 7 == value).count();
    println!("with a clock sequence of 0 to 7: {:?}", [0, 1, 2, 3, 4, 5, 6, 7].map(of_value));
    assert_distinct(&all);
}
