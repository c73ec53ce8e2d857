//! `make bench`: what IDs cost in SQL, beside what PostgreSQL itself offers. Prints Markdown.
//!
//! All that is compared is measured in one run, in turn, repetition by repetition, so that a machine that is
//! busy for a while slows down both sides. Figures are medians over the repetitions, which go round several
//! servers: where the system happens to put things in memory makes a difference of some nanoseconds per call,
//! for as long as a server runs.
//!
//! `BASELINE_PG_CONFIG=/path/to/pg_config` names a PostgreSQL into which another build of the extension is
//! installed, with which this one is then compared.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::{Cluster, Settings, single};

/// Of what takes seconds.
const REPETITIONS: usize = 9;
/// Of single calls, which differ by few nanoseconds.
const CALL_REPETITIONS: usize = 27;
const SERVERS: usize = 9;
const ROWS: u32 = 1_000_000;
const CLIENTS: [usize; 5] = [1, 2, 4, 8, 16];

const SETTINGS: Settings = &[
    ("shared_preload_libraries", "snowflake_id"),
    ("snowflake_id.worker_id", "1"),
    ("snowflake_id.layout", "wide"),
    ("fsync", "on"),
    // One process per query, and no pauses for things that are not measured.
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
    ("autovacuum", "off"),
    ("shared_buffers", "1GB"),
    ("max_wal_size", "20GB"),
    ("checkpoint_timeout", "1h"),
];

fn main() {
    let clusters: Vec<_> = (0..SERVERS).map(|_| Cluster::start(SETTINGS)).collect();
    let mut clients: Vec<_> = clusters.iter().map(Cluster::connect).collect();
    print_machine(&mut clients[0]);
    calls(&mut clients);
    if let Ok(pg_config) = std::env::var("BASELINE_PG_CONFIG") {
        against_baseline(&mut clients, &pg_config);
    }
    reading(&mut clients);
    showing(&mut clients);
    filling(&clusters[0], &mut clients[0]);
    throughput(&clusters[0]);
    saturation(&clusters[0]);
}

fn print_machine(client: &mut Client) {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    let count = thread::available_parallelism().map_or(0, |count| count.get());
    let version: String = single(client, "SELECT split_part(version(), ' on ', 1)");
    println!(
        "{version}; {count} x {}; medians of {REPETITIONS} repetitions, of single calls {CALL_REPETITIONS} on {SERVERS} servers.",
        model.trim_start_matches([' ', '\t', ':'])
    );
}

/// Seconds that something takes.
fn seconds(action: impl FnOnce()) -> f64 {
    let start = Instant::now();
    action();
    start.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Net nanoseconds per call of each expression: its time over 1,000,000 rows less that of the expression
/// beside it.
fn net_ns(clients: &mut [Client], pairs: &[(&str, &str)]) -> Vec<f64> {
    let client_of = |at: usize| at * SERVERS / CALL_REPETITIONS;
    let runs: Vec<_> =
        (0..CALL_REPETITIONS).map(|at| net_ns_once(&mut clients[client_of(at)], pairs)).collect();
    (0..pairs.len()).map(|at| median(runs.iter().map(|run| run[at]).collect())).collect()
}

fn net_ns_once(client: &mut Client, pairs: &[(&str, &str)]) -> Vec<f64> {
    let mut time = |expression: &str| {
        let query = format!("SELECT count({expression}) FROM generate_series(1::bigint, {ROWS}) AS n");
        seconds(|| client.batch_execute(&query).unwrap())
    };
    // A process that has not run for a while is slow at first.
    time(pairs[0].1);
    let net = pairs.iter().map(|(expression, base)| {
        let base = time(base);
        (time(expression) - base) * 1e9 / f64::from(ROWS)
    });
    net.collect()
}

fn calls(clients: &mut [Client]) {
    for client in clients.iter_mut() {
        client.batch_execute("CREATE SEQUENCE plain; CREATE SEQUENCE cached CACHE 1000").unwrap();
    }
    const BASE: &str = "42::bigint";
    let expressions = [
        ("`snowflake_nextval()`", "snowflake_nextval()"),
        ("`nextval()`", "nextval('plain')"),
        ("`nextval()`, CACHE 1000", "nextval('cached')"),
        ("`clock_timestamp()`", "clock_timestamp()"),
        ("`gen_random_uuid()`", "gen_random_uuid()"),
    ];
    let pairs = expressions.map(|(_, expression)| (expression, BASE));
    let ns = net_ns(clients, &pairs);
    println!("\n### One call, net (layout `wide`)\n");
    println!("| call | ns | `snowflake_nextval()` is |\n| --- | ---: | ---: |");
    for ((name, _), value) in expressions.iter().zip(&ns) {
        println!("| {name} | {value:.1} | {:.2} x |", ns[0] / value);
    }
}

fn against_baseline(clients: &mut [Client], pg_config: &str) {
    let baselines: Vec<_> = (0..SERVERS).map(|_| Cluster::start_of(pg_config.as_ref(), SETTINGS)).collect();
    let mut others: Vec<_> = baselines.iter().map(Cluster::connect).collect();
    let mut net = [Vec::new(), Vec::new()];
    for at in 0..CALL_REPETITIONS * 2 {
        let server = at * SERVERS / (CALL_REPETITIONS * 2);
        let pair = [&mut clients[server], &mut others[server]];
        for (client, net) in pair.into_iter().zip(&mut net) {
            net.extend(net_ns_once(client, &[("snowflake_nextval()", "42::bigint")]));
        }
    }
    let [this, other] = net.map(median);
    println!("\n### This build and the baseline\n");
    let (ratio, difference) = (this / other, this - other);
    println!(
        "`snowflake_nextval()`: {this:.1} ns, baseline {other:.1} ns: {ratio:.2} x, {difference:+.1} ns"
    );
}

fn reading(clients: &mut [Client]) {
    let expressions = [
        ("`to_timestamp(double precision)`", "to_timestamp(n::float8)", "n::float8"),
        ("`snowflake_timestamp(id)`", "snowflake_timestamp(n)", "n"),
        ("`snowflake_worker(id)`", "snowflake_worker(n)", "n"),
        ("`snowflake_datacenter(id)`", "snowflake_datacenter(n) IS NULL", "n IS NULL"),
        ("`snowflake_sequence(id)`", "snowflake_sequence(n)", "n"),
        ("`snowflake_timestamp(id, 'twitter')`", "snowflake_timestamp(n, 'twitter')", "n"),
        ("`snowflake_decode(id)`", "snowflake_decode(n)", "n"),
        ("`snowflake_min_id(time)`", "snowflake_min_id(to_timestamp(n))", "to_timestamp(n)"),
        ("`snowflake_max_id(time)`", "snowflake_max_id(to_timestamp(n))", "to_timestamp(n)"),
        (
            "`snowflake_min_id(time, 'twitter')`",
            "snowflake_min_id(to_timestamp(n), 'twitter')",
            "to_timestamp(n)",
        ),
        (
            "`snowflake_max_id(time, 'twitter')`",
            "snowflake_max_id(to_timestamp(n), 'twitter')",
            "to_timestamp(n)",
        ),
    ];
    let ns = net_ns(clients, &expressions.map(|(_, expression, base)| (expression, base)));
    println!("\n### Reading an ID back, and the bounds of a range of time, net\n");
    println!("| call | ns | of `to_timestamp` |\n| --- | ---: | ---: |");
    for ((name, ..), value) in expressions.iter().zip(&ns) {
        println!("| {name} | {value:.1} | {:.2} x |", value / ns[0]);
    }
}

/// IDs as they are shown outside: as text, and masked.
fn showing(clients: &mut [Client]) {
    let key = "INSERT INTO snowflake_mask_key (name, key) VALUES ('bench', uuid_send(gen_random_uuid()))";
    for client in clients.iter_mut() {
        client.batch_execute(key).unwrap();
    }
    const ID: &str = "n + 1541815603606036480";
    const KEY: &str = "'\\x0123456712345678234567893456789a'";
    let row = |name: &str, expression: String, base: &str| (name.to_owned(), expression, base.to_owned());
    let mut rows = vec![row("`encode(int8send(id), 'hex')`", format!("encode(int8send({ID}), 'hex')"), ID)];
    for encoding in ["crockford32", "base36", "base58", "base62", "base64url", "decimal", "hex"] {
        let to_text = format!("snowflake_to_text({ID}, '{encoding}')");
        let from_text = format!("snowflake_from_text({to_text}, '{encoding}')");
        rows.push(row(&format!("`snowflake_to_text(id, '{encoding}')`"), to_text.clone(), ID));
        rows.push(row(&format!("`snowflake_from_text(text, '{encoding}')`"), from_text, &to_text));
    }
    rows.push(row("`snowflake_mask(id, key)`", format!("snowflake_mask({ID}, {KEY})"), ID));
    rows.push(row("`snowflake_unmask(masked, key)`", format!("snowflake_unmask({ID}, {KEY})"), ID));
    rows.push(row("`snowflake_mask_named(id, name)`", format!("snowflake_mask_named({ID}, 'bench')"), ID));
    let pairs: Vec<_> =
        rows.iter().map(|(_, expression, base)| (expression.as_str(), base.as_str())).collect();
    let ns = net_ns(clients, &pairs);
    println!("\n### Showing an ID outside, net\n");
    println!("| call | ns | of `encode` |\n| --- | ---: | ---: |");
    for ((name, ..), value) in rows.iter().zip(&ns) {
        println!("| {name} | {value:.1} | {:.2} x |", value / ns[0]);
    }
}

fn filling(cluster: &Cluster, client: &mut Client) {
    let keys = [
        ("`bigserial`", "bigserial"),
        ("`bigint DEFAULT snowflake_nextval()`", "bigint DEFAULT snowflake_nextval()"),
        ("`uuid DEFAULT gen_random_uuid()`", "uuid DEFAULT gen_random_uuid()"),
    ];
    let file = cluster.host().join("rows");
    let file = file.to_str().unwrap();
    client.batch_execute(&format!("COPY (SELECT generate_series(1, {ROWS})) TO '{file}'")).unwrap();
    let fills = [
        format!("INSERT INTO filled (payload) SELECT generate_series(1, {ROWS})"),
        format!("COPY filled (payload) FROM '{file}'"),
    ];
    let mut times = vec![[Vec::new(), Vec::new()]; keys.len()];
    let mut sizes = vec![0; keys.len()];
    for _ in 0..REPETITIONS {
        for (at, (_, key)) in keys.iter().enumerate() {
            for (fill, times) in fills.iter().zip(&mut times[at]) {
                client
                    .batch_execute(&format!(
                        "DROP TABLE IF EXISTS filled;
                         CREATE TABLE filled (id {key} PRIMARY KEY, payload int);
                         CHECKPOINT"
                    ))
                    .unwrap();
                times.push(seconds(|| client.batch_execute(fill).unwrap()));
                sizes[at] = single::<i64>(client, "SELECT pg_relation_size('filled_pkey')");
            }
        }
    }
    client.batch_execute("DROP TABLE filled").unwrap();
    let medians: Vec<_> = times.into_iter().map(|times| times.map(median)).collect();
    println!("\n### Filling a table with {ROWS} rows\n");
    println!("| key | `INSERT .. SELECT` | of bigserial | `COPY` | of bigserial | primary key |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (at, (name, _)) in keys.iter().enumerate() {
        let [insert, copy] = medians[at];
        println!(
            "| {name} | {insert:.2} s | {:.2} x | {copy:.2} s | {:.2} x | {:.1} MB |",
            insert / medians[0][0],
            copy / medians[0][1],
            sizes[at] as f64 / 1e6
        );
    }
}

/// IDs per second that `clients` sessions take together between `from` and `until` after the start.
///
/// The calls of a statement count for the part of its time that lies between the two.
///
/// `calls`: how many a statement makes.
fn rate(cluster: &Cluster, clients: usize, layout: &str, calls: u32, from: Duration, until: Duration) -> f64 {
    let query = format!("SELECT count(snowflake_nextval()) FROM generate_series(1, {calls})");
    let sessions: Vec<_> = (0..clients)
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
                client.batch_execute(&query).unwrap();
                let ended = start.elapsed();
                let within = ended.min(until).saturating_sub(began.max(from));
                taken += f64::from(calls) * within.as_secs_f64() / (ended - began).as_secs_f64();
            }
            taken
        };
        let threads: Vec<_> = sessions.into_iter().map(|client| scope.spawn(move || run(client))).collect();
        thread::sleep(until);
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    taken / (until - from).as_secs_f64()
}

fn throughput(cluster: &Cluster) {
    let mut rates = CLIENTS.map(|_| Vec::new());
    for _ in 0..REPETITIONS {
        for (clients, rates) in CLIENTS.into_iter().zip(&mut rates) {
            let (from, until) = (Duration::from_millis(500), Duration::from_millis(2_500));
            rates.push(rate(cluster, clients, "wide", 200_000, from, until));
        }
    }
    let rates = rates.map(median);
    println!("\n### IDs per second, layout `wide`, a loop in the server\n");
    println!("| clients | million per second | of 2 clients |\n| ---: | ---: | ---: |");
    for (clients, value) in CLIENTS.into_iter().zip(rates) {
        println!("| {clients} | {:.2} | {:.2} x |", value / 1e6, value / rates[1]);
    }
}

fn saturation(cluster: &Cluster) {
    const LIMIT: f64 = 4_096_000.0;
    println!(
        "\n### IDs per second at saturation of `standard` (4.096 million), one run each: 10 s from the 3rd second on\n"
    );
    println!("| clients | million per second | of the limit |\n| ---: | ---: | ---: |");
    for clients in CLIENTS {
        let value =
            rate(cluster, clients, "standard", 20_000, Duration::from_secs(3), Duration::from_secs(13));
        println!("| {clients} | {:.3} | {:.1} % |", value / 1e6, value / LIMIT * 100.0);
    }
}
