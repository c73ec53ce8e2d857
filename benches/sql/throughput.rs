//! How many numbers several sessions take together.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::Cluster;

use crate::figures::{Figures, table};
use crate::measure::median;
use crate::numbers::{CACHED_SEQUENCE, Number, SEGMENT, SEQUENCE, SNOWFLAKE};
use crate::servers::Servers;

const REPETITIONS: usize = 5;
const SESSIONS: [usize; 5] = [1, 2, 4, 8, 16];
/// The count of numbers that a statement takes. It is so large that the cost of the statement itself does not
/// matter.
const NUMBERS: u32 = 50_000;
const BATCH: u32 = 1_000;
/// A layout that does not limit the rate.
const LAYOUT: &str = "wide";

/// A way to take many numbers, as a loop in the server.
struct Loop {
    name: String,
    query: String,
}

fn calls(number: Number) -> Loop {
    let query = format!("SELECT count({}) FROM generate_series(1, {NUMBERS})", number.call);
    Loop { name: number.name.into(), query }
}

/// A function in the select list is called for each row.
fn batches(name: &str, call: &str) -> Loop {
    let query =
        format!("SELECT count(*) FROM (SELECT {call} FROM generate_series(1, {})) AS _", NUMBERS / BATCH);
    Loop { name: name.into(), query }
}

pub fn print(servers: &mut Servers, figures: &Figures) {
    let loops = [
        calls(SNOWFLAKE),
        batches("`snowflake_batch(1000)`", "snowflake_batch(1000)"),
        calls(SEGMENT),
        batches("`snowflake_segment_batch(.., 1000)`", "snowflake_segment_batch('bench', 1000)"),
        calls(SEQUENCE),
        calls(CACHED_SEQUENCE),
    ];
    let cluster = servers.one();
    let mut rates = loops.each_ref().map(|_| SESSIONS.map(|_| Vec::new()));
    for _ in 0..REPETITIONS {
        for (numbers, rates) in loops.iter().zip(&mut rates) {
            for (sessions, rates) in SESSIONS.into_iter().zip(rates) {
                let (from, until) = (Duration::from_millis(200), Duration::from_millis(1_000));
                rates.push(rate(cluster, sessions, LAYOUT, (&numbers.query, NUMBERS), from, until));
            }
        }
    }
    println!("\n### Million numbers per second, of 1 to 16 sessions together (a loop in the server)\n");
    let mut shown = Vec::new();
    let mut rows = Vec::new();
    for (numbers, rates) in loops.iter().zip(rates) {
        let rates = rates.map(median);
        let millions = rates.map(|rate| format!("{:.1}", rate / 1e6));
        shown.push([vec![numbers.name.clone()], millions.to_vec()].concat());
        for (sessions, rate) in SESSIONS.into_iter().zip(rates) {
            rows.push([numbers.name.clone(), sessions.to_string(), format!("{rate:.0}")]);
        }
    }
    let sessions =
        SESSIONS.map(|sessions| format!("{sessions} session{}", if sessions == 1 { "" } else { "s" }));
    let head: Vec<_> =
        ["million numbers per second"].into_iter().chain(sessions.iter().map(String::as_str)).collect();
    figures.show_in_layout("throughput", LAYOUT, &table(&head, shown));
    figures.write("throughput", ["call", "sessions", "numbers_per_second"], &rows);
}

pub fn print_saturation(servers: &mut Servers, figures: &Figures) {
    const LIMIT: f64 = 4_096_000.0;
    println!("\n### IDs per second at saturation of `standard` (4.096 million), 5 s each from the 3rd on\n");
    let query = format!("SELECT count({}) FROM generate_series(1, {NUMBERS})", SNOWFLAKE.call);
    let mut shown = Vec::new();
    let mut rows = Vec::new();
    for sessions in SESSIONS {
        let (from, until) = (Duration::from_secs(3), Duration::from_secs(8));
        let rate = rate(servers.one(), sessions, "standard", (&query, NUMBERS), from, until);
        let of_limit = format!("{:.1} %", rate / LIMIT * 100.0);
        shown.push(vec![sessions.to_string(), format!("{:.3}", rate / 1e6), of_limit]);
        rows.push([sessions.to_string(), format!("{rate:.0}")]);
    }
    let head = ["sessions", "million IDs per second", "of what the layout allows"];
    println!("{}", table(&head, shown));
    figures.write("saturation", ["sessions", "ids_per_second"], &rows);
}

/// Returns how many numbers per second `sessions` sessions take together between `from` and `until` after the
/// start.
///
/// The numbers of a statement count in proportion to the part of its time that is between the two.
///
/// `(query, numbers)` is the statement, and how many numbers it takes.
fn rate(
    cluster: &Cluster,
    sessions: usize,
    layout: &str,
    (query, numbers): (&str, u32),
    from: Duration,
    until: Duration,
) -> f64 {
    let clients: Vec<_> = (0..sessions)
        .map(|_| {
            let mut client = cluster.connect();
            client
                .batch_execute(&format!("SET snowflake_id.layout = '{layout}'; SELECT snowflake_nextval()"))
                .unwrap();
            client
        })
        .collect();
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let taken: f64 = thread::scope(|scope| {
        let run = |mut client: Client| {
            let mut taken = 0.0;
            while !stop.load(Ordering::Relaxed) {
                let began = start.elapsed();
                client.batch_execute(query).unwrap();
                let ended = start.elapsed();
                let within = ended.min(until).saturating_sub(began.max(from));
                taken += f64::from(numbers) * within.as_secs_f64() / (ended - began).as_secs_f64();
            }
            taken
        };
        let threads: Vec<_> = clients.into_iter().map(|client| scope.spawn(move || run(client))).collect();
        thread::sleep(until);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    taken / (until - from).as_secs_f64()
}
