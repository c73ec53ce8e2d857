//! Rounds of accidents of all kinds, while clients take numbers of segments. The numbers of two of the five segments
//! begin with a date. Three servers use one registry with a synchronous standby, a fourth has its own registry.
//! Processes, servers and registries are killed, paused, cut off and replaced. Clocks are set over midnight and back.
//! Some registries lose commits, and their administrator says where numbers continue. No number is repeated, and the
//! numbers of each client increase.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::accidents::{Client, FaultTarget, Pair, recovered, rounds_of_accidents};
use harness::segments::*;
use harness::*;

/// Each segment with its increment, and its number of digits if its numbers begin with the date.
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
/// More numbers than all servers together can have in hand, including the numbers taken in lost commits.
const MARGIN: i64 = 1_000_000;
/// The index of the server with its own registry.
const ALONE: usize = 3;

/// The numbers that clients were given, by registry and name.
type Numbers = BTreeMap<(bool, &'static str), Vec<i64>>;

/// The servers, and the accidents that happen to them.
struct Servers {
    registry: Pair,
    /// The difference of the registry's clock from the real one, in seconds.
    shift: f64,
    servers: Vec<Arc<Cluster>>,
    /// Whether the registry has lost commits and has not yet been told where numbers continue.
    has_lost: bool,
    random: Random,
    /// How many numbers the clients have taken, and how many of them before this round.
    taken: Arc<AtomicUsize>,
    taken_before: usize,
    all: Numbers,
    accidents: BTreeMap<&'static str, u32>,
}

fn create_segments(registry: &Cluster) {
    for (name, _, _, settings) in SEGMENTS {
        administer(registry, &format!("create_segment('{name}', {settings})"));
    }
}

/// A client that takes numbers of all segments and reconnects after crashes. The numbers of each name must increase.
fn take(server: &Cluster, is_alone: bool, count: &AtomicUsize, stop: &AtomicBool) -> Numbers {
    let ways = [
        |name| format!("SELECT snowflake_segment_nextval('{name}')"),
        |name| format!("SELECT snowflake_segment_batch('{name}', 20)"),
        |name| format!("SELECT snowflake_segment_nextval('{name}') FROM generate_series(1, 10)"),
        |name| {
            format!(
                "SELECT first + n * increment
                 FROM snowflake_segment_ranges('{name}', 20), generate_series(0, count - 1) AS n ORDER BY 1"
            )
        },
    ];
    let queries = ways.iter().flat_map(|way| SEGMENTS.map(|(name, ..)| way(name))).collect();
    let pause = Duration::from_millis(2);
    let mut mine = Numbers::new();
    Taker { queries, returns: true, pause, ..Taker::of(server) }.run(stop, |at, taken| {
        count.fetch_add(taken.len(), Ordering::Relaxed);
        mine.entry((is_alone, SEGMENTS[at % SEGMENTS.len()].0)).or_default().extend(taken);
    });
    mine.values().for_each(|numbers| assert_increasing(numbers));
    mine
}

impl Servers {
    fn start() -> Servers {
        let registry = registry_with_clock("2027-05-09 12:00:00");
        set_clock_to(&registry, "2027-05-09 12:00:00");
        registry.configure(&[
            ("wal_keep_size", "64MB"),
            // The standby retries its primary often, and does not disconnect when a clock is set.
            ("wal_retrieve_retry_interval", "200ms"),
            ("wal_sender_timeout", "0"),
            ("wal_receiver_timeout", "0"),
        ]);
        registry.reload();
        create_segments(&registry);
        administer(&registry, "configure(synchronous => true)");
        let server = |at| {
            let builder = if at == ALONE { single_server() } else { server_of(&registry) };
            let server = builder.set("snowflake_id.max_wait", "2s").clock().start();
            if at == ALONE {
                create_segments(&server);
            }
            Arc::new(server)
        };
        let servers = (0..=ALONE).map(server).collect();
        let mut servers = Servers {
            registry: Pair::of(registry),
            shift: 0.0,
            servers,
            has_lost: false,
            random: Random::seeded(),
            taken: Arc::default(),
            taken_before: 0,
            all: Numbers::new(),
            accidents: BTreeMap::new(),
        };
        servers.set_clocks_before_midnight(3600.0);
        servers
    }

    fn seconds(&mut self, end: u64) -> f64 {
        self.random.milliseconds(end * 1000).as_secs_f64()
    }

    /// Sets the clocks of the registry and of the servers.
    fn set_clocks(&mut self, shift: f64) {
        self.shift = shift;
        [&self.registry.primary, &self.registry.standby]
            .into_iter()
            .for_each(|server| server.set_clock(shift));
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
        let registry = self.registry.primary.try_connect("postgres");
        if let Ok(row) = registry.and_then(|mut client| client.query_one(&query, &[])) {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
            self.set_clocks(row.get::<_, f64>(0) - seconds - now);
        }
    }

    /// Tells a server the address of the registry.
    fn tell_where(&self, server: &Cluster) {
        server.configure(&[("snowflake_id.registry", &connection_string(&self.registry.primary))]);
        // The server may be down.
        server.try_run("SELECT pg_reload_conf()");
    }

    /// Tells all servers the new address of the registry, which has a new standby.
    fn tell_all(&self) {
        self.registry.standby.set_clock(self.shift);
        self.servers[..ALONE].iter().for_each(|server| self.tell_where(server));
    }

    fn end_process(&mut self, at: usize, kind: &'static str) -> &'static str {
        let signal = if self.random.below(3) == 0 { "TERM" } else { "KILL" };
        signal_one(&self.servers[at], signal, &format!("backend_type = '{kind}'"), &mut self.random);
        kind
    }

    /// The registry fails, and its replacement lacks the last commits. A standby detects that by itself; for a backup
    /// the administrator has to say so.
    fn lose_commits(&mut self) {
        if self.random.below(2) == 0 {
            // The standby is told that it may lack some commits.
            administer(&self.registry.primary, "configure(synchronous => false)");
            self.registry.primary.change("synchronous_standby_names", "");
            self.registry.standby.stop_receiving();
            self.random.pause(1_500);
            self.registry.fail_over();
        } else {
            let copy = self.registry.primary.base_backup(&[("synchronous_standby_names", "")]);
            copy.set_clock(self.shift);
            self.random.pause(1_500);
            self.registry.restore(copy);
        }
        self.has_lost = true;
        self.tell_all();
    }

    /// Resumes closed segments, as an administrator would. Returns the error if that fails.
    fn resume(&mut self) -> Result<(), postgres::Error> {
        let mut client = self.registry.primary.try_connect("postgres")?;
        if !self.has_lost {
            client.batch_execute("SELECT snowflake_registry.resume_segments()")?;
            return Ok(());
        }
        // Perhaps no server has asked yet: the registry detects the loss at this call.
        client.batch_execute("SELECT snowflake_registry.take('{\"protocol\": 1, \"registry\": null, \"tokens\": [], \"requests\": []}')")?;
        for (name, increment, digits, _) in SEGMENTS {
            let row = client.query_one(
                "SELECT greatest(next_value, ahead_value, seen_until)::bigint, closed_reason IS NOT NULL
                 FROM snowflake_registry.segment WHERE name = $1",
                &[&name],
            )?;
            let noted = self.all.get(&(false, name)).and_then(|all| all.iter().max().copied());
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
}

impl FaultTarget for Servers {
    type Taken = Numbers;

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn clients(&self) -> Vec<Client<Numbers>> {
        let both = self.servers.iter().enumerate().flat_map(|server| [server, server]);
        let client = |(at, server): (usize, &Arc<Cluster>)| -> Client<Numbers> {
            let (server, count) = (Arc::clone(server), Arc::clone(&self.taken));
            Box::new(move |stop| take(&server, at == ALONE, &count, stop))
        };
        both.map(client).collect()
    }

    fn have_an_accident(&mut self) -> String {
        // All servers work at the beginning of a round.
        eventually("numbers", || self.taken.load(Ordering::Relaxed) >= self.taken_before + 500);
        let at = self.random.below(self.servers.len() as u64) as usize;
        let accident = match self.random.below(21) {
            0 | 1 => self.end_process(at, "client backend"),
            2 | 3 => self.end_process(at, "snowflake_id keeper"),
            4 | 5 => self.end_process(at, "snowflake_id segments"),
            6 => self.end_process(at, "snowflake_id registry"),
            7 | 8 => {
                cut_power(&self.servers[at]);
                "server"
            }
            9 => {
                let _paused = Paused::new(processes(&self.servers[at]));
                self.random.pause(1_000);
                "pause of a server"
            }
            10 => {
                let _paused = Paused::new(processes(&self.registry.primary));
                self.random.pause(1_000);
                "pause of the registry"
            }
            11 => {
                let server = Arc::clone(&self.servers[at % ALONE]);
                server.configure(&[("snowflake_id.registry", "host=/nowhere user=fleet")]);
                server.try_run("SELECT pg_reload_conf()");
                self.random.pause(1_000);
                self.tell_where(&server);
                "cut off"
            }
            12 => {
                cut_power(&self.registry.primary);
                self.random.pause(1_000);
                self.registry.primary.bring_up();
                "registry"
            }
            13 => {
                self.registry.fail_over();
                self.tell_all();
                "failover"
            }
            14 => {
                self.lose_commits();
                "lost commits"
            }
            15 => {
                let seconds = self.seconds(1);
                self.set_clocks_before_midnight(seconds);
                // Wait until after midnight.
                thread::sleep(Duration::from_secs_f64(seconds + 0.3));
                "midnight"
            }
            16 | 17 => {
                // Sometimes the registry is away, so that only the numbers that are left can be used.
                let server = Arc::clone(&self.servers[at]);
                let is_away = at != ALONE && self.random.below(2) == 0;
                if is_away {
                    server.configure(&[("snowflake_id.registry", "host=/nowhere user=fleet")]);
                }
                server.try_to_stop("fast");
                server.bring_up();
                if is_away {
                    self.random.pause(1_000);
                    self.tell_where(&server);
                }
                "clean stop"
            }
            18 => {
                let name = SEGMENTS[self.random.below(SEGMENTS.len() as u64) as usize].0;
                self.servers[at].try_run(&format!("SELECT snowflake_segment_prefetch('{name}')"));
                "prefetch"
            }
            19 => {
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
        *self.accidents.entry(accident).or_default() += 1;
        format!("{accident}@{at}")
    }

    fn keep(&mut self, taken: Numbers) {
        for (of, numbers) in taken {
            self.all.entry(of).or_default().extend(numbers);
        }
    }

    /// Waits until all servers give numbers of all segments again.
    fn recover(&mut self) {
        self.taken_before = self.taken.load(Ordering::Relaxed);
        self.registry.primary.bring_up();
        for (at, server) in self.servers.clone().iter().enumerate() {
            server.bring_up();
            for (name, ..) in SEGMENTS {
                let query = format!("SELECT snowflake_segment_nextval('{name}')");
                let number = recovered(server, "postgres", &query, |problem, _| {
                    if problem.contains("is closed") {
                        if let Err(error) = self.resume() {
                            println!("resume: {}", text(&error));
                        }
                    } else if problem.contains("quarantine until") && !self.has_lost {
                        // All losses have been handled.
                        self.registry.primary.try_run("SELECT snowflake_registry.end_quarantine()");
                    } else if problem.contains("in a later period") || problem.contains("has no numbers yet")
                    {
                        self.set_clocks_before_midnight(-1.0);
                    }
                });
                self.all.entry((at == ALONE, name)).or_default().push(number);
            }
        }
        // All servers have numbers in hand, so the loss has not been detected.
        if self.has_lost {
            self.resume().unwrap_or_else(|error| panic!("resume: {}", text(&error)));
        }
    }
}

#[test]
fn accidents_of_segments() {
    let rounds = rounds(2);
    let mut servers = Servers::start();
    rounds_of_accidents(&mut servers, rounds, 3);
    let count: usize = servers.all.values().map(Vec::len).sum();
    println!("{count} numbers of segments in {rounds} rounds");
    println!("accidents: {:?}", servers.accidents);
    for ((is_alone, name), numbers) in &servers.all {
        let of_whom = if *is_alone { "the server alone" } else { "the fleet" };
        println!("{name} of {of_whom}: {} numbers", numbers.len());
        assert_distinct(numbers);
    }
    assert!(count > 500 * rounds as usize, "only {count} numbers");
}
