//! Records the clock, the horizon and the times of IDs during a crash and a step back of the clock. This is
//! not a measurement.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use postgres::Client;
use snowflake_id_cluster_tests::{Cluster, kill_server, signal_all, wait_for_first_id};

use crate::figures::Figures;
use crate::servers::Servers;

const EVERY: Duration = Duration::from_millis(50);
const CRASH: Duration = Duration::from_millis(5_300);
const START: Duration = Duration::from_millis(6_300);
const STEP: Duration = Duration::from_secs(13);
const STEP_BACK: f64 = 4.0;
const END: Duration = Duration::from_secs(22);

/// What was recorded. All times are seconds since the start of the record, by a monotonic clock.
struct Record {
    began: Instant,
    began_at: SystemTime,
    /// The difference between the server's clock and the real one, in seconds.
    shift: f64,
    rows: Vec<[String; 5]>,
    /// When the last ID was returned.
    last_id: Option<f64>,
    /// The longest times without an ID, and when they ended.
    gaps: Vec<(f64, f64)>,
}

pub fn print(_: &mut Servers, figures: &Figures) {
    let cluster = Cluster::builder().worker(1).clock().start();
    let mut client = connect(&cluster);
    wait_for_first_id(&mut client);
    // Wait until the horizon has moved on from where it was at the start.
    thread::sleep(Duration::from_secs(3));

    let mut record = Record::begin();
    record.observe(&mut client, CRASH);
    record.note("crash");
    // All processes stop at the same time, as in a power failure. A keeper that outlived the postmaster would
    // store the shutdown horizon.
    signal_all(&cluster, "STOP");
    kill_server(&cluster);
    record.watch_clock(START);
    record.note("start");
    cluster.start_server();
    client = connect(&cluster);
    record.observe(&mut client, STEP);
    record.note(&format!("the clock is set back by {STEP_BACK} s"));
    record.shift = -STEP_BACK;
    cluster.set_clock(record.shift);
    record.observe(&mut client, END);

    println!("\n### Without IDs after a crash and after the clock was set back by {STEP_BACK} s\n");
    println!("| second | without IDs for |\n| ---: | ---: |");
    for (end, gap) in &record.gaps {
        println!("| {end:.1} | {gap:.1} s |");
    }
    figures.write("horizon", ["seconds", "event", "clock", "horizon", "id"], &record.rows);
}

/// Returns a session whose calls hardly wait: a call that would have to wait fails.
fn connect(cluster: &Cluster) -> Client {
    let mut client = cluster.connect();
    client.batch_execute("SET snowflake_id.max_wait = '100ms'").unwrap();
    client
}

impl Record {
    fn begin() -> Record {
        let (began, began_at) = (Instant::now(), SystemTime::now());
        Record { began, began_at, shift: 0.0, rows: Vec::new(), last_id: None, gaps: Vec::new() }
    }

    fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Records an event.
    fn note(&mut self, event: &str) {
        self.add(event, None, None);
    }

    /// Records the clock until `until`.
    fn watch_clock(&mut self, until: Duration) {
        while self.began.elapsed() < until {
            self.add("", None, None);
            thread::sleep(EVERY);
        }
    }

    /// Records the clock, the horizon and the time of an ID until `until`.
    fn observe(&mut self, client: &mut Client, until: Duration) {
        let began = self.began_at.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        while self.began.elapsed() < until {
            let mut ask = |query: &str| -> Option<f64> { client.query_one(query, &[]).ok()?.get(0) };
            let horizon = ask("SELECT extract(epoch FROM horizon)::float8 FROM snowflake_status");
            let id = ask("SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()))::float8");
            self.add("", horizon.map(|time| time - began), id.map(|time| time - began));
            thread::sleep(EVERY);
        }
    }

    fn add(&mut self, event: &str, horizon: Option<f64>, id: Option<f64>) {
        let now = self.seconds();
        if id.is_some() {
            let gap = now - self.last_id.unwrap_or(now);
            if gap > 0.5 {
                self.gaps.push((now, gap));
            }
            self.last_id = Some(now);
        }
        let shown = |time: Option<f64>| time.map_or_else(String::new, |time| format!("{time:.3}"));
        self.rows.push([
            shown(Some(now)),
            event.into(),
            shown(Some(now + self.shift)),
            shown(horizon),
            shown(id),
        ]);
    }
}
