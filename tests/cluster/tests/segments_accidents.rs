//! Rounds of accidents of all kinds, while clients take numbers of segments: two of five begin with a date. Three servers
//! have one registry with a synchronous standby, a fourth has one of its own. Processes, servers and registries are
//! killed and paused, cut off and replaced, clocks are set over midnight and back. Some registries lose commits: their
//! administrator says where numbers go on. No number comes twice, and those of each client rise.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use postgres::Client;
use snowflake_id_cluster_tests::faults::{Paused, postmaster, processes};
use snowflake_id_cluster_tests::load::{Random, StopAtEnd};
use snowflake_id_cluster_tests::segments::{PRELOADED, connection_string, order, registry_with_clock, start};
use snowflake_id_cluster_tests::{
    Cluster, PATIENCE, Settings, assert_distinct, assert_increasing, kill, poll, text,
};

/// Each with its increment and its number of digits, if its numbers begin with the date.
const SEGMENTS: [(&str, i64, Option<u32>, &str); 5] = [
    ("orders", 1, None, "min_step => 20, max_step => 200"),
    ("items", 3, None, "start => 7, increment => 3, min_step => 20, max_step => 100"),
    ("users", 1, None, "min_step => 1000, max_step => 5000"),
    ("bills", 1, Some(9), "period => 'day', digits => 9, min_step => 20, max_step => 200"),
    (
        "receipts",
        1,
        Some(10),
        "period => 'day', digits => 10, time_zone => 'Asia/Tokyo', min_step => 50, max_step => 200",
    ),
];
/// More numbers than all servers together can have in hand, with what they took in commits that are lost.
const MARGIN: i64 = 1_000_000;
/// How often the registry's standby looks for its primary; and a clock that is set is no reason to part.
const REGISTRY: Settings = &[
    ("max_connections", "100"),
    ("wal_keep_size", "64MB"),
    ("wal_retrieve_retry_interval", "200ms"),
    ("wal_sender_timeout", "0"),
    ("wal_receiver_timeout", "0"),
];
/// Which of the servers has a registry of its own.
const ALONE: usize = 3;

/// What clients were given, by the registry it is from and the name.
type All = Mutex<BTreeMap<(bool, &'static str), Vec<i64>>>;

/// The servers, and what the test does to them.
struct Patients {
    registry: Cluster,
    /// The synchronous standby of the registry.
    standby: Cluster,
    /// By how many seconds the registry's clock differs from the real one.
    shift: f64,
    servers: Vec<Arc<Cluster>>,
    /// Whether the registry has lost commits and not been told yet where numbers go on.
    has_lost: bool,
    random: Random,
    all: Arc<All>,
    accidents: BTreeMap<&'static str, u32>,
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

/// Starts a server that was killed, as soon as nothing is left of what it was.
fn start_again(server: &Cluster) {
    poll("the server", || {
        let _ = server.start_server();
        run(server, "SELECT 1").then_some(())
    });
}

fn create_segments(registry: &Cluster) {
    for (name, _, _, settings) in SEGMENTS {
        order(registry, &format!("create_segment('{name}', {settings})"));
    }
}

fn real_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Takes numbers until it is told to stop, over crashes as well. All that were returned are noted at once, and those of
/// a name have to rise.
fn take_until(server: &Cluster, is_alone: bool, stop: &AtomicBool, all: &All) {
    let mut mine = SEGMENTS.map(|_| Vec::new());
    let mut client: Option<Client> = None;
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        if client.as_ref().is_none_or(Client::is_closed) {
            client = server.try_connect("postgres").ok();
        }
        let at = round % SEGMENTS.len();
        let name = SEGMENTS[at].0;
        let query = match round / SEGMENTS.len() % 3 {
            0 => format!("SELECT snowflake_segment_nextval('{name}')"),
            1 => format!("SELECT snowflake_segment_batch('{name}', 20)"),
            _ => format!("SELECT snowflake_segment_nextval('{name}') FROM generate_series(1, 10)"),
        };
        match client.as_mut().map(|client| client.query(&query, &[])) {
            Some(Ok(rows)) => {
                let numbers: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
                all.lock().unwrap().entry((is_alone, name)).or_default().extend(&numbers);
                mine[at].extend(numbers);
            }
            _ => thread::sleep(Duration::from_millis(5)),
        }
        thread::sleep(Duration::from_millis(2));
    }
    mine.iter().for_each(|numbers| assert_increasing(numbers));
}

impl Patients {
    fn start() -> Patients {
        let registry = registry_with_clock("2027-05-09 12:00:00");
        registry.stop_server("fast");
        registry.configure(REGISTRY);
        registry.start_server().unwrap();
        create_segments(&registry);
        order(&registry, "configure(synchronous => true)");
        let standby = registry.start_standby(&[]);
        registry.replicate_synchronously();
        let servers = (0..=ALONE)
            .map(|at| {
                let mut server = Cluster::stopped(PRELOADED);
                server.configure(&[("snowflake_id.max_wait", "2s")]);
                if at != ALONE {
                    server.configure(&[("snowflake_id.registry", &connection_string(&registry))]);
                }
                server.give_clock();
                let server = start(server);
                if at == ALONE {
                    server.connect().batch_execute("CREATE EXTENSION snowflake_id_registry").unwrap();
                    create_segments(&server);
                }
                Arc::new(server)
            })
            .collect();
        let mut patients = Patients {
            registry,
            standby,
            shift: 0.0,
            servers,
            has_lost: false,
            random: Random::seeded(),
            all: Arc::default(),
            accidents: BTreeMap::new(),
        };
        patients.set_clocks_before_midnight(3600.0);
        patients
    }

    fn one_of_them(&mut self) -> usize {
        self.random.below(self.servers.len() as u64) as usize
    }

    fn seconds(&mut self, end: u64) -> f64 {
        self.random.milliseconds(end * 1000).as_secs_f64()
    }

    /// Sets the clocks of registry and servers.
    fn set_clocks(&mut self, shift: f64) {
        self.shift = shift;
        [&self.registry, &self.standby].into_iter().for_each(|registry| registry.set_clock(shift));
        self.servers.iter().for_each(|server| server.set_clock(shift));
    }

    /// Sets all clocks to so many seconds before the next day of one of the segments begins.
    fn set_clocks_before_midnight(&mut self, seconds: f64) {
        let name = if self.random.below(2) == 0 { "bills" } else { "receipts" };
        let query = format!(
            "SELECT extract(epoch FROM snowflake_registry.period_begins(
                 period, time_zone, snowflake_registry.key_after(period, period_key)))::float8
             FROM snowflake_registry.segment WHERE name = '{name}'"
        );
        let midnight =
            self.registry.try_connect("postgres").and_then(|mut client| client.query_one(&query, &[]));
        if let Ok(row) = midnight {
            self.set_clocks(row.get::<_, f64>(0) - seconds - real_time());
        }
    }

    /// Tells a server where the registry is.
    fn tell_where(&self, server: &Cluster) {
        server.configure(&[("snowflake_id.registry", &connection_string(&self.registry))]);
        // It may be down.
        run(server, "SELECT pg_reload_conf()");
    }

    fn kill_process(&mut self, at: usize, kind: &str) {
        let query = format!(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = '{kind}' AND pid <> pg_backend_pid()"
        );
        let client = self.servers[at].try_connect("postgres");
        let rows = client.and_then(|mut client| client.query(&query, &[])).unwrap_or_default();
        if !rows.is_empty() {
            let signal = if self.random.below(3) == 0 { "TERM" } else { "KILL" };
            kill(signal, rows[self.random.below(rows.len() as u64) as usize].get(0));
        }
    }

    fn have_an_accident(&mut self) {
        let at = self.one_of_them();
        let accident = match self.random.below(18) {
            0 | 1 => {
                self.kill_process(at, "client backend");
                "backend"
            }
            2 | 3 => {
                self.kill_process(at, "snowflake_id keeper");
                "keeper"
            }
            4 | 5 => {
                self.kill_process(at, "snowflake_id segments");
                "segments worker"
            }
            6 => {
                self.kill_process(at, "snowflake_id registry");
                "registry worker"
            }
            7 | 8 => {
                cut_power(&self.servers[at]);
                "server"
            }
            9 => {
                let _paused = Paused::new(processes(&self.servers[at]));
                thread::sleep(self.random.milliseconds(2_000));
                "pause of a server"
            }
            10 => {
                let _paused = Paused::new(processes(&self.registry));
                thread::sleep(self.random.milliseconds(2_000));
                "pause of the registry"
            }
            11 => {
                let at = self.random.below(ALONE as u64) as usize;
                self.servers[at].configure(&[("snowflake_id.registry", "host=/nowhere user=fleet")]);
                run(&self.servers[at], "SELECT pg_reload_conf()");
                thread::sleep(self.random.milliseconds(2_000));
                self.tell_where(&self.servers[at]);
                "cut off"
            }
            12 => {
                cut_power(&self.registry);
                thread::sleep(self.random.milliseconds(1_000));
                start_again(&self.registry);
                "registry"
            }
            13 => {
                self.fail_the_registry_over();
                "failover"
            }
            14 => {
                self.lose_commits();
                "lost commits"
            }
            15 => {
                let seconds = self.seconds(3);
                self.set_clocks_before_midnight(seconds);
                thread::sleep(Duration::from_secs_f64(seconds + 0.3));
                "midnight"
            }
            16 => {
                let back = self.seconds(7_200);
                self.set_clocks(self.shift - back);
                "clocks back"
            }
            _ => {
                let shift = self.shift + self.seconds(36_000) - 18_000.0;
                self.servers[at].set_clock(shift);
                "clock of a server"
            }
        };
        print!(" {accident}@{at}");
        *self.accidents.entry(accident).or_default() += 1;
    }

    /// The registry has a new synchronous standby.
    fn replace_standby(&mut self) {
        self.standby = self.registry.start_standby(&[]);
        self.standby.set_clock(self.shift);
        self.registry.replicate_synchronously();
        self.servers[..ALONE].iter().for_each(|server| self.tell_where(server));
    }

    /// The registry dies, and its synchronous standby takes over: nothing is lost.
    fn fail_the_registry_over(&mut self) {
        cut_power(&self.registry);
        self.standby.promote();
        self.standby.configure(&[("synchronous_standby_names", "")]);
        self.standby.reload();
        std::mem::swap(&mut self.registry, &mut self.standby);
        self.replace_standby();
    }

    /// The registry dies, and what takes its place has not seen its last commits. If that is its standby, it finds out
    /// by itself; if it is a backup, its administrator says so.
    fn lose_commits(&mut self) {
        if self.random.below(2) == 0 {
            // The standby gets to know that it may miss some.
            order(&self.registry, "configure(synchronous => false)");
            self.registry.configure(&[("synchronous_standby_names", "")]);
            self.registry.reload();
            self.standby.stop_receiving();
            thread::sleep(self.random.milliseconds(1_500));
            cut_power(&self.registry);
            self.standby.promote();
            std::mem::swap(&mut self.registry, &mut self.standby);
        } else {
            let copy = self.registry.base_backup(&[("synchronous_standby_names", "")]);
            copy.set_clock(self.shift);
            thread::sleep(self.random.milliseconds(1_500));
            [&self.registry, &self.standby].into_iter().for_each(cut_power);
            copy.start_server().unwrap_or_else(|log| panic!("the copy did not start:\n{log}"));
            order(&copy, "quarantine()");
            self.registry = copy;
        }
        self.has_lost = true;
        self.registry.configure(&[("synchronous_standby_names", "")]);
        self.registry.reload();
        self.replace_standby();
    }

    /// What an administrator does where segments are closed. Returns what was said, for a failure.
    fn resume(&mut self) -> Result<(), postgres::Error> {
        let mut client = self.registry.try_connect("postgres")?;
        if !self.has_lost {
            client.batch_execute("SELECT snowflake_registry.resume_segments()")?;
            return Ok(());
        }
        // Nobody may have asked yet: what was not noticed is noticed now.
        client.batch_execute("SELECT snowflake_registry.take(NULL, NULL, '[]', 'administrator')")?;
        for (name, increment, digits, _) in SEGMENTS {
            let row = client.query_one(
                "SELECT greatest(next_value, ahead_value, seen_until)::bigint, closed_reason IS NOT NULL
                 FROM snowflake_registry.segment WHERE name = $1",
                &[&name],
            )?;
            let noted =
                self.all.lock().unwrap().get(&(false, name)).and_then(|all| all.iter().max().copied());
            let highest = noted.unwrap_or(0).max(row.get(0));
            let next = match digits {
                None => highest + MARGIN * increment,
                // Servers may have numbers of the next day.
                Some(digits) => {
                    let base = 10_i64.pow(digits);
                    let key: i64 = client
                        .query_one("SELECT snowflake_registry.key_after('day', $1)", &[&(highest / base)])?
                        .get(0);
                    key * base + MARGIN
                }
            };
            if row.get(1) {
                client.execute("SELECT FROM snowflake_registry.resume_segment($1, $2)", &[&name, &next])?;
            }
        }
        self.has_lost = false;
        client.batch_execute("SELECT snowflake_registry.configure(synchronous => true)")
    }

    /// Has all servers give numbers of all segments again.
    fn recover(&mut self) {
        start_again(&self.registry);
        for (at, server) in self.servers.clone().iter().enumerate() {
            start_again(server);
            for (name, ..) in SEGMENTS {
                let began = Instant::now();
                loop {
                    let taken = server.try_connect("postgres").and_then(|mut client| {
                        client.query_one(&format!("SELECT snowflake_segment_nextval('{name}')"), &[])
                    });
                    let problem = match taken {
                        Ok(row) => {
                            let mut all = self.all.lock().unwrap();
                            all.entry((at == ALONE, name)).or_default().push(row.get(0));
                            break;
                        }
                        Err(error) => text(&error),
                    };
                    if problem.contains("is closed") {
                        if let Err(error) = self.resume() {
                            println!("resume: {}", text(&error));
                        }
                    } else if problem.contains("in a later period") || problem.contains("has no numbers yet")
                    {
                        self.set_clocks_before_midnight(-1.0);
                    }
                    assert!(began.elapsed() < PATIENCE, "{name}@{at}: {problem}\n{}", server.log());
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        // All have numbers in hand, and nobody has noticed.
        if self.has_lost {
            self.resume().unwrap_or_else(|error| panic!("resume: {}", text(&error)));
        }
    }
}

#[test]
fn accidents_of_segments() {
    let rounds = std::env::var("SNOWFLAKE_ID_ROUNDS").map_or(3, |rounds| rounds.parse::<u32>().unwrap());
    let began = Instant::now();
    let mut patients = Patients::start();
    patients.recover();
    for round in 0..rounds {
        print!("round {round}:");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let _end = StopAtEnd(&stop);
            for (at, server) in patients.servers.iter().enumerate().flat_map(|server| [server, server]) {
                let (server, stop, all) = (Arc::clone(server), &stop, Arc::clone(&patients.all));
                scope.spawn(move || take_until(&server, at == ALONE, stop, &all));
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
    let count: usize = all.values().map(Vec::len).sum();
    println!("{count} numbers of segments in {rounds} rounds and {} s", began.elapsed().as_secs());
    println!("accidents: {:?}", patients.accidents);
    for ((is_alone, name), numbers) in all.iter() {
        let of_whom = if *is_alone { "the server alone" } else { "the fleet" };
        println!("{name} of {of_whom}: {} numbers", numbers.len());
        assert_distinct(numbers);
    }
    assert!(count > 1_000 * rounds as usize, "only {count} numbers");
}
