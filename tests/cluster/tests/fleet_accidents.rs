//! Rounds of accidents of all kinds in a fleet, while clients take IDs from all of its servers: servers are killed,
//! paused, cut off from the registry and copied, clocks are set, the registry fails over, with and without a loss. No ID
//! comes twice, over all servers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::faults::{Paused, postmaster, processes};
use snowflake_id_cluster_tests::fleet::Fleet;
use snowflake_id_cluster_tests::load::{Random, StopAtEnd};
use snowflake_id_cluster_tests::{Cluster, Settings, assert_distinct, kill, poll};

/// Leases that end several times in a round, and fewer worker IDs than all copies together could want at once.
const LEASES: &str = "lease => '4s', renew_every => '400ms', last_worker => 11, synchronous => true";
const SERVER: Settings = &[("snowflake_id.lease", "500ms"), ("snowflake_id.max_drift", "500ms")];
/// How long the longest lease is, and a little more.
const LEASE_IS_OVER: Duration = Duration::from_secs(5);

/// The servers, and what the test does to them.
struct Patients {
    fleet: Fleet,
    /// The synchronous standby of the registry.
    standby: Cluster,
    servers: Vec<Arc<Cluster>>,
    random: Random,
    all: Arc<Mutex<Vec<i64>>>,
}

/// Runs statements that may fail, as may everything else meanwhile.
fn run(cluster: &Cluster, statements: &str) -> bool {
    cluster.try_connect("postgres").is_ok_and(|mut client| client.batch_execute(statements).is_ok())
}

/// The host of a server loses its power.
fn cut_power(server: &Cluster) {
    if let Some(pid) = postmaster(server) {
        kill("KILL", pid);
    }
}

/// Takes IDs until it is told to stop, over crashes as well.
fn take_until(server: &Cluster, stop: &AtomicBool, all: &Mutex<Vec<i64>>) {
    let mut mine: Vec<i64> = Vec::new();
    let mut client: Option<Client> = None;
    while !stop.load(Ordering::Relaxed) {
        if client.as_ref().is_none_or(Client::is_closed) {
            client = server.try_connect("postgres").ok();
        }
        let query = ["SELECT snowflake_nextval()", "SELECT snowflake_batch(100)"][mine.len() % 2];
        match client.as_mut().map(|client| client.query(query, &[])) {
            Some(Ok(rows)) => mine.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
            _ => thread::sleep(Duration::from_millis(5)),
        }
        thread::sleep(Duration::from_millis(2));
    }
    all.lock().unwrap().extend(mine);
}

impl Patients {
    fn start() -> Patients {
        let registry = Cluster::stopped(&[("max_connections", "100"), ("wal_keep_size", "64MB")]);
        let fleet = Fleet::start_on(registry, LEASES);
        let standby = fleet.registry.start_standby(&[]);
        fleet.registry.replicate_synchronously();
        let servers = (0..4)
            .map(|_| {
                let mut server = fleet.stopped_server(SERVER);
                server.give_clock();
                server.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
                server.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
                Arc::new(server)
            })
            .collect();
        Patients { fleet, standby, servers, random: Random::seeded(), all: Arc::default() }
    }

    fn one_of_them(&mut self) -> usize {
        self.random.below(self.servers.len() as u64) as usize
    }

    /// Tells all servers where the registry is.
    fn tell_where(&self, server: &Cluster) {
        server.configure(&[("snowflake_id.registry", &self.fleet.connection_string())]);
        // It may be down.
        run(server, "SELECT pg_reload_conf()");
    }

    fn have_an_accident(&mut self) {
        let accident = self.random.below(11);
        let at = self.one_of_them();
        print!(" {accident}@{at}");
        match accident {
            0 => {
                cut_power(&self.servers[at]);
            }
            1 => {
                let backends = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type <> 'walwriter'";
                let client = self.servers[at].try_connect("postgres");
                let rows = client.and_then(|mut client| client.query(backends, &[])).unwrap_or_default();
                if !rows.is_empty() {
                    kill("KILL", rows[self.random.below(rows.len() as u64) as usize].get(0));
                }
            }
            2 => {
                let pause = self.random.milliseconds(7_000);
                let _paused = Paused::new(processes(&self.servers[at]));
                thread::sleep(pause);
            }
            3 => {
                // Cut off from the registry.
                self.servers[at].configure(&[("snowflake_id.registry", "host=/nowhere user=fleet")]);
                run(&self.servers[at], "SELECT pg_reload_conf()");
                thread::sleep(self.random.milliseconds(6_000));
                self.tell_where(&self.servers[at]);
            }
            4 => {
                // The network is slow, or the registry.
                let _paused = Paused::new(processes(&self.fleet.registry));
                thread::sleep(self.random.milliseconds(6_000));
            }
            5 | 6 => {
                let shift = self.random.below(30_000) as f64 / 1_000.0 - 15.0;
                self.servers[at].set_clock(shift);
                thread::sleep(self.random.milliseconds(3_000));
                self.servers[at].set_clock(0.0);
            }
            7 => self.copy(at),
            8 => self.promote_a_standby(at),
            9 => self.fail_the_registry_over(),
            _ => self.restore_the_registry(),
        }
    }

    /// A copy of a server runs beside the original.
    fn copy(&mut self, at: usize) {
        let server = Arc::clone(&self.servers[at]);
        if !server.try_to_stop("fast") {
            return;
        }
        let copy = server.duplicate();
        let _ = server.start_server();
        self.run_beside(copy);
    }

    /// A standby is promoted while its primary lives on.
    fn promote_a_standby(&mut self, at: usize) {
        if !run(&self.servers[at], "SELECT 1") {
            return;
        }
        let standby = self.servers[at].start_standby(&[]);
        standby.promote();
        self.run_beside(standby);
    }

    /// Takes IDs from one more server for a while.
    fn run_beside(&self, server: Cluster) {
        if !run(&server, "SELECT 1") && server.start_server().is_err() {
            return;
        }
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _end = StopAtEnd(&stop);
            scope.spawn(|| take_until(&server, &stop, &self.all));
            thread::sleep(Duration::from_secs(2));
        });
    }

    /// The registry dies, and its synchronous standby takes over: nothing is lost.
    fn fail_the_registry_over(&mut self) {
        cut_power(&self.fleet.registry);
        self.standby.promote();
        self.standby.configure(&[("synchronous_standby_names", "")]);
        self.standby.reload();
        let next = self.standby.start_standby(&[]);
        self.fleet.registry = std::mem::replace(&mut self.standby, next);
        self.fleet.registry.replicate_synchronously();
        self.servers.iter().for_each(|server| self.tell_where(server));
    }

    /// The registry is lost together with its standby, and restored from a copy that is some seconds old. Its
    /// administrator has it give out nothing before what it has forgotten is over.
    fn restore_the_registry(&mut self) {
        let copy = self.fleet.registry.base_backup(&[("synchronous_standby_names", "")]);
        thread::sleep(self.random.milliseconds(2_000));
        for lost in [&self.fleet.registry, &self.standby] {
            cut_power(lost);
        }
        copy.start_server().unwrap_or_else(|log| panic!("the copy did not start:\n{log}"));
        copy.connect().batch_execute("SELECT snowflake_registry.quarantine()").unwrap();
        self.standby = copy.start_standby(&[]);
        self.fleet.registry = copy;
        self.fleet.registry.replicate_synchronously();
        self.servers.iter().for_each(|server| self.tell_where(server));
        thread::sleep(LEASE_IS_OVER);
        self.fleet.registry.connect().batch_execute("SELECT snowflake_registry.end_quarantine()").unwrap();
    }

    /// Has all servers make IDs again.
    fn recover(&self) {
        for server in &self.servers {
            let start = Instant::now();
            poll("the server", || {
                let _ = server.start_server();
                run(server, "SELECT 1").then_some(())
            });
            let mut last = String::new();
            while last != "ready" {
                assert!(start.elapsed() < Duration::from_secs(60), "{last}\n{}", server.log());
                if start.elapsed() > LEASE_IS_OVER.mul_f64(1.5) {
                    // Whatever the registry may have lost has ended by now.
                    run(&self.fleet.registry, "SELECT snowflake_registry.end_quarantine()");
                }
                thread::sleep(Duration::from_millis(50));
                let taken = server.connect().query_one("SELECT snowflake_nextval()", &[]);
                last = match taken {
                    Ok(row) => {
                        self.all.lock().unwrap().push(row.get(0));
                        "ready".into()
                    }
                    Err(error) => snowflake_id_cluster_tests::text(&error),
                };
            }
        }
    }
}

#[test]
fn accidents_in_a_fleet() {
    let rounds =
        std::env::var("SNOWFLAKE_ID_ROUNDS").map_or(3, |rounds| rounds.parse::<u32>().unwrap().min(50));
    let mut patients = Patients::start();
    patients.recover();
    for round in 0..rounds {
        print!("round {round}:");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _end = StopAtEnd(&stop);
            for server in patients.servers.iter().flat_map(|server| [server, server]) {
                let (server, stop, all) = (Arc::clone(server), &stop, Arc::clone(&patients.all));
                scope.spawn(move || take_until(&server, stop, &all));
            }
            for _ in 0..1 + patients.random.below(3) {
                thread::sleep(patients.random.milliseconds(500));
                patients.have_an_accident();
            }
            thread::sleep(Duration::from_millis(200));
        });
        println!();
        patients.recover();
    }
    let all = patients.all.lock().unwrap();
    println!("{} IDs of a fleet in {rounds} rounds", all.len());
    assert!(all.len() > 1_000 * rounds as usize);
    assert_distinct(all.iter());
}
