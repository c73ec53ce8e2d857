//! Rounds of accidents of all kinds in a fleet, while clients take IDs from all of its servers. Servers are killed,
//! paused, cut off from the registry and copied. Clocks are set. The registry fails over, with and without a loss. No
//! two servers ever issue the same ID, and no server repeats one.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use harness::accidents::{Client, FaultTarget, Pair, recovered, rounds_of_accidents};
use harness::*;

/// Leases that end several times in a round, and fewer worker IDs than all copies together could request at once.
const LEASES: &str = "lease => '3s', renew_every => '300ms', last_worker => 11, synchronous => true";
/// The length of the longest lease, and a little more.
const LEASE_IS_OVER: Duration = Duration::from_millis(3_500);

/// The servers, and the accidents that happen to them.
struct Servers {
    registry: Pair,
    servers: Vec<Arc<Cluster>>,
    random: Random,
    all: Vec<i64>,
}

/// A client that takes IDs and reconnects after crashes.
fn client(server: &Cluster) -> Taker<'_> {
    let queries = ["SELECT snowflake_nextval()", "SELECT snowflake_batch(20)"];
    let pause = Duration::from_millis(2);
    Taker { queries: queries.map(Into::into).into(), returns: true, pause, ..Taker::of(server) }
}

impl Servers {
    fn start() -> Servers {
        let registry = Cluster::builder().set("max_connections", 100).set("wal_keep_size", "64MB");
        let fleet = Fleet::of(registry, LEASES);
        let server = fleet.server().short_horizon().set("snowflake_id.max_ahead", "500ms");
        let servers = (0..4).map(|_| Arc::new(server.clone().clock().start())).collect();
        Servers { registry: Pair::of(fleet.registry), servers, random: Random::seeded(), all: vec![] }
    }

    /// Tells a server the address of the registry.
    fn tell_where(&self, server: &Cluster) {
        server.configure(&[("snowflake_id.registry", &self.registry.primary.connection_string("fleet"))]);
        // The server may be down.
        server.try_run("SELECT pg_reload_conf()");
    }

    fn tell_all(&self) {
        self.servers.iter().for_each(|server| self.tell_where(server));
    }

    /// Runs a copy of a server beside the original.
    fn copy(&mut self, server: &Cluster) {
        if !server.try_to_stop("fast") {
            return;
        }
        let copy = server.duplicate();
        let _ = server.try_to_start();
        self.run_beside(&copy);
    }

    /// Promotes a standby while its primary is still running.
    fn promote_a_standby(&mut self, server: &Cluster) {
        if !server.try_run("SELECT 1") {
            return;
        }
        let standby = server.start_standby(&[]);
        standby.promote();
        self.run_beside(&standby);
    }

    /// Takes IDs from an additional server for a while.
    fn run_beside(&mut self, server: &Cluster) {
        if server.try_run("SELECT 1") || server.try_to_start().is_ok() {
            let (taken, ()) = while_taking([client(server)], || thread::sleep(Duration::from_secs(1)));
            self.all.extend(taken);
        }
    }

    /// The registry is lost together with its standby, and restored from a copy that is some seconds old. Its
    /// administrator keeps it in quarantine until all leases that it may have forgotten are over.
    fn restore_the_registry(&mut self) {
        let copy = self.registry.primary.base_backup(&[("synchronous_standby_names", "")]);
        self.random.pause(1_000);
        self.registry.restore(copy);
        self.tell_all();
        thread::sleep(LEASE_IS_OVER);
        let mut client = self.registry.primary.connect();
        client.run("SELECT snowflake_registry.end_quarantine()");
    }
}

impl FaultTarget for Servers {
    type Taken = Vec<i64>;

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn clients(&self) -> Vec<Client<Vec<i64>>> {
        let both = self.servers.iter().flat_map(|server| [Arc::clone(server), Arc::clone(server)]);
        let take =
            |server: Arc<Cluster>| -> Client<Vec<i64>> { Box::new(move |stop| client(&server).take(stop)) };
        both.map(take).collect()
    }

    fn have_an_accident(&mut self) -> String {
        let accident = self.random.below(11);
        let at = self.random.below(self.servers.len() as u64) as usize;
        let server = Arc::clone(&self.servers[at]);
        match accident {
            0 => cut_power(&server),
            1 => signal_one(&server, "KILL", "backend_type <> 'walwriter'", &mut self.random),
            2 => {
                let _paused = Paused::new(processes(&server));
                self.random.pause(3_500);
            }
            3 => {
                // Cut the server off from the registry.
                server.configure(&[("snowflake_id.registry", "host=/nowhere user=fleet")]);
                server.try_run("SELECT pg_reload_conf()");
                self.random.pause(3_000);
                self.tell_where(&server);
            }
            4 => {
                // The network or the registry is slow.
                let _paused = Paused::new(processes(&self.registry.primary));
                self.random.pause(3_000);
            }
            5 | 6 => {
                server.set_clock(self.random.below(20_000) as f64 / 1_000.0 - 10.0);
                self.random.pause(2_000);
                server.set_clock(0.0);
            }
            7 => self.copy(&server),
            8 => self.promote_a_standby(&server),
            9 => {
                self.registry.fail_over();
                self.tell_all();
            }
            _ => self.restore_the_registry(),
        }
        format!("{accident}@{at}")
    }

    fn keep(&mut self, taken: Vec<i64>) {
        self.all.extend(taken);
    }

    /// Waits until all servers issue IDs again.
    fn recover(&mut self) {
        for server in &self.servers {
            let start = Instant::now();
            server.bring_up();
            let id = recovered(server, "postgres", "SELECT snowflake_nextval()", |_, _| {
                if start.elapsed() > LEASE_IS_OVER.mul_f64(1.5) {
                    // All leases that the registry may have lost have ended by now.
                    self.registry.primary.try_run("SELECT snowflake_registry.end_quarantine()");
                }
            });
            self.all.push(id);
        }
    }
}

#[test]
fn accidents_in_a_fleet() {
    let rounds = rounds(2).min(50);
    let mut servers = Servers::start();
    rounds_of_accidents(&mut servers, rounds, 3);
    println!("{} IDs of a fleet in {rounds} rounds", servers.all.len());
    let last: Vec<i64> = servers.servers.iter().flat_map(|server| some_ids(server)).collect();
    servers.all.extend(last);
    assert_distinct(&servers.all);
}
