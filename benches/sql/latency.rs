//! The time that single calls take, as percentiles: within the server, and as seen by a client over a Unix
//! socket.
//!
//! At a fixed rate, each call is due at a given time. If a call is due while the previous one is still
//! running, its time counts from when it was due. A stall of the machine therefore counts for all calls that
//! are due during the stall.

use std::process::Command;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use postgres::Client;
use snowflake_id_cluster_tests::{Cluster, ask_pg_config, pg_config, successful};

use crate::figures::{Figures, table, time};
use crate::numbers::{Number, SEGMENT, SEQUENCE, SNOWFLAKE};
use crate::servers::Servers;

/// How often each kind of number is measured, in turn with the others.
const ROUNDS: usize = 3;
const WINDOW: Duration = Duration::from_millis(1_500);
/// The percentiles that depend on the call rather than on the machine. Beyond 99 %, a call waits for a free
/// core.
const PERCENTILES: &[f64] = &[50.0, 90.0, 95.0, 99.0];
/// The same at a fixed rate. Beyond 95 %, even the figures of the clock alone vary from minute to minute,
/// because a single stall of a few milliseconds delays hundreds of calls.
const PERCENTILES_AT_A_FIXED_RATE: &[f64] = &[50.0, 90.0, 95.0];

/// What is called, and in which layout.
struct Subject {
    name: &'static str,
    layout: &'static str,
    warm_up: Duration,
    /// The call that is measured. `None` measures only the overhead.
    number: Option<Number>,
}

impl Subject {
    fn new(number: Number) -> Subject {
        Subject { number: Some(number), ..Subject::nothing(number.name) }
    }

    /// The layout's own limit takes effect only when the time of its IDs is as far ahead of the clock as is
    /// allowed, so the warm-up is longer.
    fn in_standard() -> Subject {
        let warm_up = Duration::from_secs(2);
        Subject { layout: "standard", warm_up, ..Subject::new(SNOWFLAKE) }
    }

    fn title(&self) -> String {
        match self.layout {
            "wide" => self.name.into(),
            layout => format!("{} in layout `{layout}`", self.name),
        }
    }

    fn nothing(name: &'static str) -> Subject {
        Subject { name, layout: "wide", warm_up: Duration::from_millis(200), number: None }
    }
}

/// The sessions, and the rate of their calls.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    sessions: usize,
    /// The time between two calls of a session. `None`: each call follows the previous one immediately.
    every: Option<Duration>,
}

impl Load {
    fn percentiles(self) -> &'static [f64] {
        if self.every.is_some() { PERCENTILES_AT_A_FIXED_RATE } else { PERCENTILES }
    }
}

/// The measurements of one session, or of all sessions.
struct Seen {
    latencies: Histogram<u64>,
    per_second: f64,
}

impl Seen {
    fn nothing() -> Seen {
        let latencies = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        Seen { latencies, per_second: 0.0 }
    }

    fn record(&mut self, ns: u64) {
        self.latencies.record(ns).unwrap();
    }

    fn add(&mut self, other: &Seen) {
        self.latencies.add(&other.latencies).unwrap();
        self.per_second += other.per_second;
    }
}

/// The time during which measurements count.
struct Window {
    from: Instant,
    until: Instant,
}

impl Window {
    fn open(subject: &Subject) -> Window {
        let from = Instant::now() + subject.warm_up;
        Window { from, until: from + WINDOW }
    }

    fn is_open(&self) -> bool {
        Instant::now() < self.until
    }

    fn counts(&self, began: Instant, ended: Instant) -> bool {
        self.from <= began && ended <= self.until
    }
}

/// Runs one session, given its number, the subject, the load, and the barrier at which the sessions wait for
/// one another.
type Session = fn(&Cluster, usize, &Subject, Load, &Barrier) -> Seen;

pub fn print(servers: &mut Servers, figures: &Figures) {
    let cluster = servers.one();
    create_time_calls(cluster);
    let mut rows = Vec::new();

    let loads = [
        Load {
            name: "one session, 100,000 calls per second",
            sessions: 1,
            every: Some(Duration::from_micros(10)),
        },
        Load { name: "16 sessions, as fast as they can", sessions: 16, every: None },
    ];
    println!("\n### One call within the server\n");
    let tables = loads.map(|load| measure(cluster, "the clock alone", "server", load, in_server, &mut rows));
    println!("{}", tables.join("\n"));
    let loads = [
        Load {
            name: "4 sessions, together 2,000 per second",
            sessions: 4,
            every: Some(Duration::from_millis(2)),
        },
        Load { name: "16 sessions, as fast as they can", sessions: 16, every: None },
    ];
    println!("\n### A prepared `SELECT` of one call over a Unix socket\n");
    let tables = loads.map(|load| measure(cluster, "a constant", "client", load, as_client, &mut rows));
    println!("{}", tables.join("\n"));
    figures.write("latency", ["where", "load", "call", "per_second", "percentile", "ns"], &rows);
}

/// Measures each kind of number under a load. Adds the results to the rows, and returns them as a table for
/// people.
fn measure(
    cluster: &Cluster,
    nothing: &'static str,
    side: &str,
    load: Load,
    session: Session,
    rows: &mut Vec<[String; 6]>,
) -> String {
    let subjects = [
        Subject::nothing(nothing),
        Subject::new(SNOWFLAKE),
        Subject::in_standard(),
        Subject::new(SEGMENT),
        Subject::new(SEQUENCE),
    ];
    let mut all = subjects.each_ref().map(|_| Seen::nothing());
    for _ in 0..ROUNDS {
        for (subject, seen) in subjects.iter().zip(&mut all) {
            seen.add(&together(cluster, subject, load, session));
        }
    }
    let percentiles = load.percentiles();
    let columns: Vec<_> = percentiles.iter().map(|percentile| format!("{percentile} %")).collect();
    let mut head: Vec<_> = [load.name].into_iter().chain(columns.iter().map(String::as_str)).collect();
    // The total rate of a load without a fixed rate. For calls within a server, see the table of throughput.
    let shows_rate = side == "client" && load.every.is_none();
    if shows_rate {
        head.push("calls per second");
    }
    let mut shown = Vec::new();
    for (subject, seen) in subjects.iter().zip(all) {
        let ns = |percentile| seen.latencies.value_at_percentile(percentile);
        let per_second = seen.per_second / ROUNDS as f64;
        let times = percentiles.iter().map(|&percentile| time(ns(percentile)));
        let rate = shows_rate.then(|| format!("{per_second:.0}"));
        shown.push([subject.title()].into_iter().chain(times).chain(rate).collect());
        for &percentile in percentiles {
            rows.push([
                side.into(),
                load.name.into(),
                subject.title(),
                format!("{per_second:.0}"),
                percentile.to_string(),
                ns(percentile).to_string(),
            ]);
        }
    }
    table(&head, shown)
}

/// Runs all sessions at the same time.
fn together(cluster: &Cluster, subject: &Subject, load: Load, session: Session) -> Seen {
    let ready = Barrier::new(load.sessions);
    let mut all = Seen::nothing();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..load.sessions)
            .map(|at| {
                let ready = &ready;
                scope.spawn(move || session(cluster, at, subject, load, ready))
            })
            .collect();
        for thread in threads {
            all.add(&thread.join().unwrap());
        }
    });
    all
}

fn connect(cluster: &Cluster, subject: &Subject) -> Client {
    let mut client = cluster.connect();
    client.batch_execute(&format!("SET snowflake_id.layout = '{}'", subject.layout)).unwrap();
    client
}

/// Builds the library that times calls within a backend, and makes the server load it.
fn create_time_calls(cluster: &Cluster) {
    let library = cluster.host().join("time_calls.so");
    let headers = ask_pg_config(&pg_config(), "--includedir-server");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/sql/time_calls.c");
    let mut compiler = Command::new("cc");
    successful(
        compiler
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-I", &headers, source, "-o"])
            .arg(&library),
    );
    let create = format!(
        "CREATE FUNCTION time_calls(regprocedure, text, integer, bigint) RETURNS bytea
         LANGUAGE c AS '{}', 'time_calls'",
        library.display()
    );
    cluster.connect().batch_execute(&create).unwrap();
}

fn in_server(cluster: &Cluster, _: usize, subject: &Subject, load: Load, ready: &Barrier) -> Seen {
    /// The calls of one statement. There are few, so that little is lost at both ends of the window.
    const CALLS: i32 = 10_000;
    let mut client = connect(cluster, subject);
    let statement = client.prepare("SELECT time_calls($1::text::regprocedure, $2, $3, $4)").unwrap();
    let function = subject.number.as_ref().map(|number| number.function);
    let argument = subject.number.as_ref().and_then(|number| number.argument);
    let every_ns = load.every.map_or(0, |every| every.as_nanos() as i64);
    let mut seen = Seen::nothing();
    let mut measured = Duration::ZERO;
    ready.wait();
    let window = Window::open(subject);
    while window.is_open() {
        let began = Instant::now();
        let row = client.query_one(&statement, &[&function, &argument, &CALLS, &every_ns]).unwrap();
        let ended = Instant::now();
        if window.counts(began, ended) {
            measured += ended - began;
            let bytes: &[u8] = row.get(0);
            for ns in bytes.chunks_exact(8) {
                seen.record(u64::from_ne_bytes(ns.try_into().unwrap()));
            }
        }
    }
    seen.per_second = seen.latencies.len() as f64 / measured.as_secs_f64();
    seen
}

fn as_client(cluster: &Cluster, at: usize, subject: &Subject, load: Load, ready: &Barrier) -> Seen {
    let mut client = connect(cluster, subject);
    let call = subject.number.as_ref().map_or("42::bigint", |number| number.call);
    let statement = client.prepare(&format!("SELECT {call}")).unwrap();
    let mut seen = Seen::nothing();
    ready.wait();
    let window = Window::open(subject);
    // The sessions start at different times.
    let mut due = load.every.map(|every| Instant::now() + every.mul_f64(at as f64 / load.sessions as f64));
    while window.is_open() {
        let mut began = Instant::now();
        if let (Some(due), Some(every)) = (&mut due, load.every) {
            if began < *due {
                thread::sleep(*due - began);
                began = Instant::now();
            } else {
                began = *due;
            }
            *due += every;
        }
        client.query_one(&statement, &[]).unwrap();
        let ended = Instant::now();
        if window.counts(began, ended) {
            seen.record((ended - began).as_nanos() as u64);
        }
    }
    seen.per_second = seen.latencies.len() as f64 / WINDOW.as_secs_f64();
    seen
}
