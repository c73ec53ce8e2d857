//! A storm of moves: servers join a registry, leave it and return, in any order, and crash meanwhile, as does the
//! registry. Standbys with the settings of another time are promoted, and servers are given worker IDs that they had
//! before. No ID is repeated, and in the end each server issues IDs.

use std::time::{Duration, Instant};

use harness::*;

const SERVERS: usize = 4;

/// What an administrator knows about the fleet.
struct Plan {
    registry: Cluster,
    random: Random,
    /// The worker ID of each server that is set by hand, or `None` if the server is to lease one.
    by_hand: Vec<Option<i32>>,
    /// The worker IDs that each server had before.
    former: Vec<Vec<i32>>,
    next_by_hand: i32,
}

impl Plan {
    /// Gives a server the settings that it is to have.
    fn configure(&self, at: usize, server: &Cluster) {
        let string = self.registry.connection_string(&format!("s{at}"));
        let registry = if self.by_hand[at].is_some() { "" } else { &string };
        server.change("snowflake_id.worker_id", &self.by_hand[at].unwrap_or(-1).to_string());
        server.change("snowflake_id.registry", registry);
    }

    fn join(&mut self, at: usize, server: &Cluster) {
        let Some(worker) = self.by_hand[at].take() else { return };
        self.former[at].push(worker);
        self.registry.connect().run(&format!("SELECT snowflake_registry.add_server('s{at}')"));
        self.configure(at, server);
    }

    fn leave(&mut self, at: usize, server: &Cluster) {
        if self.by_hand[at].is_some() {
            return;
        }
        // The registry may be in quarantine after a start.
        let reserve = format!("SELECT snowflake_registry.reserve({})", self.next_by_hand);
        if self.registry.connect().batch_execute(&reserve).is_err() {
            return;
        }
        self.former[at].extend(current_worker(server));
        self.by_hand[at] = Some(self.next_by_hand);
        self.next_by_hand += 1;
        self.configure(at, server);
    }

    /// Gives a server a worker ID that it had before. It must not use it.
    fn mistake(&mut self, at: usize, server: &Cluster) {
        if self.by_hand[at].is_some() || current_worker(server).is_none_or(|worker| worker < 512) {
            return;
        }
        let Some(&worker) = self.former[at].get(self.random.below(self.former[at].len() as u64) as usize)
        else {
            return;
        };
        server.change("snowflake_id.worker_id", &worker.to_string());
        server.change("snowflake_id.registry", "");
        self.random.pause(300);
        // It may continue to the end of its former lease.
        let used = current_worker(server);
        assert!(used.is_none_or(|used| used >= 512), "{used:?}, {worker} of server {at}\n{}", server.log());
        self.configure(at, server);
    }
}

/// The worker ID under which a server issues IDs now.
fn current_worker(server: &Cluster) -> Option<i32> {
    let mut client = server.try_connect("postgres").ok()?;
    client.batch_execute("SET snowflake_id.max_wait = 0").ok()?;
    Some(client.query_one("SELECT snowflake_worker(snowflake_nextval())", &[]).ok()?.get(0))
}

#[test]
fn hands_and_leases() {
    let seconds = std::env::var("SNOWFLAKE_ID_STORM_SECONDS").map_or(20, |seconds| seconds.parse().unwrap());
    let many = Cluster::builder().set("max_connections", 100);
    let registry = Registry::of_leases(LASTING_LEASES).not_started().start(many);
    registry.connect().run(
        "SELECT snowflake_registry.start_fleet(first_worker => 512, last_worker => 1023, first_start => true)",
    );
    let mut plan = Plan {
        registry,
        random: Random::seeded(),
        by_hand: (0..SERVERS as i32).map(Some).collect(),
        former: vec![vec![]; SERVERS],
        next_by_hand: SERVERS as i32,
    };
    let mut servers: Vec<_> = (0..SERVERS).map(|at| Cluster::builder().worker(at).start()).collect();
    let (mut all, mut promotions, mut events) = (vec![], 0, 0);
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        let followed = plan.random.below(SERVERS as u64) as usize;
        let standby = servers[followed].start_standby(&[]);
        let takers = servers.iter().chain([&standby]).map(|server| {
            let first = "SET snowflake_id.max_wait = '100ms'".into();
            let pause = Duration::from_millis(1);
            let taker = Taker { first, pause, returns: true, ..Taker::of(server) };
            move |stop: &_| taker.take(stop)
        });
        let (taken, is_promoted) = beside(takers.collect::<Vec<_>>(), || {
            for _ in 0..8 {
                let at = plan.random.below(SERVERS as u64) as usize;
                let server = &servers[at];
                events += 1;
                match plan.random.below(6) {
                    0 | 1 => plan.join(at, server),
                    2 => plan.leave(at, server),
                    3 => plan.mistake(at, server),
                    4 => server.restart("immediate"),
                    _ => plan.registry.restart("immediate"),
                }
                plan.random.pause(700);
            }
            let is_promoted = plan.random.below(2) == 0;
            if is_promoted {
                // The standby has received all WAL, and has the settings of the time when it was created.
                servers[followed].stop_server("fast");
                standby.promote();
                plan.random.pause(1000);
                plan.configure(followed, &standby);
            }
            is_promoted
        });
        all.extend(taken.concat());
        if is_promoted {
            promotions += 1;
            servers[followed] = standby;
        }
    }
    // After its last start, the registry may wait for servers that no longer exist. It has lost no commits.
    plan.registry.connect().run("SELECT snowflake_registry.end_quarantine()");
    for (at, server) in servers.iter().enumerate() {
        let worker = leased_worker(server);
        assert_eq!(plan.by_hand[at].is_none(), worker >= 512, "{worker} {:?}", plan.by_hand[at]);
    }
    println!("{} IDs, {events} events, {promotions} promotions", all.len());
    assert_distinct(&all);
}
