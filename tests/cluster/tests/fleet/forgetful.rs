//! Rounds in which the registry is set back to an older disk, a base backup or a dump, receives rows of another
//! registry, is frozen, or is replaced, while clients take IDs and numbers from all servers. Standbys of servers that
//! moved are promoted. No ID and no number is repeated.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use harness::accidents::{Client, FaultTarget, recovered, rounds_of_accidents};
use harness::*;

const LEASES: &str = "lease => '3s', renew_every => '300ms'";
/// The length of the longest lease, and a little more.
const LEASE_IS_OVER: Duration = Duration::from_millis(3_500);
/// More numbers than all servers together can have in hand, including the numbers taken in lost commits.
const MARGIN: i64 = 100_000;
/// The number of worker IDs of each registry. The ranges of registries are disjoint.
const WORKERS: u32 = 12;

struct Servers {
    registry: Cluster,
    /// The number of registries so far.
    registries: u32,
    servers: Vec<Arc<Cluster>>,
    /// A base backup and a dump that may be restored later.
    backup: Option<Cluster>,
    dump: Option<Vec<u8>>,
    /// A standby of the first server.
    standby: Option<Cluster>,
    /// Another registry, whose rows arrive by a subscription.
    publisher: Cluster,
    random: Random,
    ids: Vec<i64>,
    numbers: Vec<i64>,
    accidents: BTreeMap<&'static str, u32>,
}

fn new_registry(first_worker: u32) -> Cluster {
    let settings = Cluster::builder().set("max_connections", 100).set("wal_level", "logical");
    let last_worker = first_worker + WORKERS - 1;
    let configuration = format!("{LEASES}, first_worker => {first_worker}, last_worker => {last_worker}");
    Registry::of_both(&configuration).start(settings)
}

fn create_segment(registry: &Cluster, start: i64) {
    let call = format!("create_segment('orders', start => {start}, min_step => 20, max_step => 200)");
    segments::administer(registry, &call);
}

/// A client that takes IDs, or numbers, which are negative. It reconnects after crashes.
fn client<'a>(server: &'a Cluster, query: &str) -> Taker<'a> {
    let first = "SET snowflake_id.max_wait = '300ms'".into();
    let pause = Duration::from_millis(2);
    Taker { queries: vec![query.into()], returns: true, first, pause, ..Taker::of(server) }
}

const QUERIES: [&str; 3] = [
    "SELECT snowflake_nextval()",
    "SELECT snowflake_batch(20)",
    "SELECT -snowflake_segment_nextval('orders')",
];

impl Servers {
    fn start() -> Servers {
        let registry = new_registry(0);
        create_segment(&registry, 1);
        let publisher = new_registry(0);
        create_segment(&publisher, 1);
        publisher.connect().run("CREATE PUBLICATION everything FOR ALL TABLES");
        let server = Cluster::builder().preload().short_horizon().set("snowflake_id.max_ahead", "500ms");
        let server = server.set("snowflake_id.registry", registry.connection_string("fleet"));
        let servers = (0..3).map(|_| Arc::new(server.clone().start())).collect();
        let servers = Servers {
            registry,
            registries: 1,
            servers,
            backup: None,
            dump: None,
            standby: None,
            publisher,
            random: Random::seeded(),
            ids: vec![],
            numbers: vec![],
            accidents: BTreeMap::new(),
        };
        servers.subscribe();
        servers
    }

    /// An administrator subscribes the registry's database to all tables of another database, which also contains a
    /// registry.
    fn subscribe(&self) {
        let mut client = self.registry.connect();
        client.run(&format!(
            "CREATE SUBSCRIPTION everything CONNECTION '{}' PUBLICATION everything
             WITH (copy_data = false, create_slot = false, slot_name = 'slot_{}', enabled = false)",
            self.publisher.connection_string("test"),
            self.registries
        ));
        let slot =
            format!("SELECT pg_create_logical_replication_slot('slot_{}', 'pgoutput')", self.registries);
        let drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active";
        self.publisher.connect().run(&format!("{drop}; {slot}"));
        client.run("ALTER SUBSCRIPTION everything ENABLE");
    }

    /// Tells a server the address of the registry.
    fn tell_where(&self, server: &Cluster) {
        server.configure(&[("snowflake_id.registry", &self.registry.connection_string("fleet"))]);
        // The server may be down.
        server.try_run("SELECT pg_reload_conf()");
    }

    /// Lets all servers renew while they can, so that the registry learns of its grants.
    fn have_all_renew(&mut self) {
        self.recover();
        let start = Instant::now();
        for server in &self.servers {
            let mut client = server.connect();
            let before = shown(&mut client, "lease_renewed_at");
            eventually("a renewal", || {
                if start.elapsed() > LEASE_IS_OVER.mul_f64(1.5) {
                    self.end_waits();
                }
                let is_new = shown(&mut client, "lease_renewed_at") > before;
                is_new && shown(&mut client, "registry_state").as_deref() == Some("granted")
            });
        }
    }

    /// Ends the quarantine of an administrator who knows that all lost leases have ended and that no server has moved
    /// to another registry.
    fn end_waits(&self) {
        self.registry.try_run("SELECT snowflake_registry.end_quarantine()");
        // The registry may have lost a freeze() or an unfreeze().
        self.registry.try_run("SELECT snowflake_registry.unfreeze()");
    }

    /// Replaces the registry by another one.
    fn replace_registry(&mut self, registry: Cluster) {
        self.registry = registry;
        self.servers.iter().for_each(|server| self.tell_where(server));
    }

    /// Starts the registry from an older disk or a base backup, without any notice to it.
    fn set_back(&mut self) -> &'static str {
        let Some(backup) = self.backup.take() else {
            self.backup = Some(self.registry.base_backup(&[]));
            return "backup";
        };
        self.have_all_renew();
        cut_power(&self.registry);
        backup.start_server();
        self.replace_registry(backup);
        "set back"
    }

    /// Restores a dump into another cluster.
    fn restore(&mut self) -> &'static str {
        let Some(dump) = self.dump.take() else {
            let dump =
                successful(self.registry.client_program("pg_dump").args(["--no-subscriptions", "postgres"]));
            self.dump = Some(dump.stdout);
            return "dump";
        };
        self.have_all_renew();
        cut_power(&self.registry);
        let settings = Cluster::builder().set("max_connections", 100).set("wal_level", "logical");
        let restored = settings.extensions(&[]).start();
        restored.connect().run("CREATE ROLE fleet LOGIN");
        let file = restored.host().join("dump.sql");
        fs::write(&file, dump).unwrap();
        restored.own(&file);
        let mut psql = restored.client_program("psql");
        successful(psql.args(["-q", "-v", "ON_ERROR_STOP=1", "-f"]).arg(&file).arg("postgres"));
        self.replace_registry(restored);
        self.registries += 1;
        self.subscribe();
        "restored"
    }

    /// Lets the registry receive the rows of another registry that has granted more.
    fn publish(&mut self) -> &'static str {
        let mut client = self.publisher.connect();
        client.run(
            "SELECT FROM snowflake_registry.acquire(jsonb_build_object(
                 'protocol', 1, 'registry', NULL, 'tokens', '[]'::jsonb, 'lease_id', gen_random_uuid(),
                 'nonce', gen_random_uuid(), 'needs', '{\"datacenter\": 0, \"worker_limit\": 1024}'::jsonb,
                 'clock', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint));
             SELECT FROM snowflake_registry.take(
                 '{\"protocol\": 1, \"registry\": null, \"tokens\": [], \"requests\": [{\"name\": \"orders\"}]}');
             SELECT snowflake_registry.configure(last_worker => 1000, none_by_hand => true)",
        );
        "published"
    }

    fn freeze_for_a_while(&self) {
        eventually("the freeze", || {
            let is_frozen =
                self.registry.try_run("SELECT snowflake_registry.freeze(clock_timestamp() + interval '2 s')");
            if !is_frozen {
                // It may have learned of an earlier freeze, whose end cannot be moved.
                self.registry.try_run("SELECT snowflake_registry.unfreeze()");
            }
            is_frozen
        });
    }

    fn freeze(&mut self) -> &'static str {
        self.freeze_for_a_while();
        self.random.pause(3_000);
        segments::administer(&self.registry, "unfreeze()");
        "frozen"
    }

    /// Moves all servers to another registry, as the page "Moving a fleet" describes.
    fn move_all(&mut self) -> &'static str {
        self.have_all_renew();
        // All leases that it may have forgotten are over. Where numbers continue has been set.
        thread::sleep(LEASE_IS_OVER);
        self.end_waits();
        self.resume();
        self.freeze_for_a_while();
        let resume_at =
            single(&mut self.registry.connect(), "SELECT resume_at FROM snowflake_registry.segments");
        // A base backup of the old registry is of no use to the servers of the new one.
        (self.backup, self.dump) = (None, None);
        let new = new_registry(WORKERS * self.registries);
        create_segment(&new, resume_at);
        self.registry = new;
        self.registries += 1;
        self.subscribe();
        for server in &self.servers {
            server.configure(&[("snowflake_id.registry", &self.registry.connection_string("fleet"))]);
            if server.try_to_stop("fast") {
                fs::remove_file(lease_path(server)).unwrap();
            }
            server.start_server();
        }
        "moved"
    }

    /// Promotes a standby of a server that may have moved since.
    fn promote(&mut self) -> &'static str {
        let Some(standby) = self.standby.take() else {
            let server = Arc::clone(&self.servers[0]);
            server.bring_up();
            self.standby = Some(server.start_standby(&[]));
            return "standby";
        };
        standby.promote();
        self.tell_where(&standby);
        let takers = QUERIES.map(|query| client(&standby, query));
        let takers = takers.each_ref().map(|taker| move |stop: &_| taker.take(stop));
        let (taken, ()) = beside(takers, || thread::sleep(Duration::from_secs(1)));
        taken.into_iter().for_each(|taken| self.keep(taken));
        "promoted"
    }

    /// Resumes closed segments, as an administrator would.
    fn resume(&mut self) {
        let highest = self.numbers.iter().max().copied().unwrap_or(0);
        let query = format!(
            "SELECT snowflake_registry.resume_segment(
                 'orders', greatest({highest}, next_value, coalesce(seen_until, 0)) + {MARGIN})
             FROM snowflake_registry.segments WHERE name = 'orders' AND state = 'closed'"
        );
        if let Err(error) = self.registry.connect().batch_execute(&query) {
            println!("resume: {}", text(&error));
        }
    }
}

impl FaultTarget for Servers {
    type Taken = Vec<i64>;

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn clients(&self) -> Vec<Client<Vec<i64>>> {
        let all = self.servers.iter().flat_map(|server| QUERIES.map(|query| (Arc::clone(server), query)));
        let take = |(server, query): (Arc<Cluster>, _)| -> Client<Vec<i64>> {
            Box::new(move |stop| {
                let taken = client(&server, query).take(stop);
                if taken.first().is_some_and(|first| *first > 0) {
                    assert_increasing(&taken);
                }
                taken
            })
        };
        all.map(take).collect()
    }

    fn have_an_accident(&mut self) -> String {
        let accident = match self.random.below(12) {
            0..=2 => self.set_back(),
            3 | 4 => self.restore(),
            5 => self.publish(),
            6 => self.freeze(),
            7 => self.move_all(),
            8 | 9 => self.promote(),
            10 => {
                self.registry.restart("immediate");
                "registry"
            }
            _ => {
                let at = self.random.below(self.servers.len() as u64) as usize;
                cut_power(&self.servers[at]);
                "server"
            }
        };
        *self.accidents.entry(accident).or_default() += 1;
        accident.into()
    }

    fn keep(&mut self, taken: Vec<i64>) {
        let (numbers, ids): (Vec<i64>, Vec<i64>) = taken.into_iter().partition(|id| *id < 0);
        self.numbers.extend(numbers.iter().map(|number| -number));
        self.ids.extend(ids);
    }

    /// Waits until all servers issue IDs and numbers again.
    fn recover(&mut self) {
        for server in self.servers.clone() {
            let start = Instant::now();
            server.bring_up();
            let id = recovered(&server, "postgres", "SELECT snowflake_nextval()", |_, _| {
                if start.elapsed() > LEASE_IS_OVER.mul_f64(1.5) {
                    self.end_waits();
                }
            });
            self.ids.push(id);
            let number =
                recovered(&server, "postgres", "SELECT snowflake_segment_nextval('orders')", |said, _| {
                    if start.elapsed() > LEASE_IS_OVER.mul_f64(2.0) {
                        self.end_waits();
                    }
                    if said.contains("is closed") {
                        self.resume();
                    }
                });
            self.numbers.push(number);
        }
    }
}

#[test]
fn accidents_of_a_registry() {
    let rounds = rounds(2);
    let mut servers = Servers::start();
    rounds_of_accidents(&mut servers, rounds, 3);
    println!("{} IDs and {} numbers in {rounds} rounds", servers.ids.len(), servers.numbers.len());
    println!("accidents: {:?}", servers.accidents);
    assert_distinct(&servers.ids);
    assert_distinct(&servers.numbers);
}
