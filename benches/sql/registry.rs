//! What a registry does for many programs, and during a failover. The programs are clients of the crate, which talk to the
//! registry as servers do: a new connection for each renewal. Their own CPU time is not counted.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use snowflake_id_client::{Client, Options};
use snowflake_id_cluster_tests::accidents::Pair;
use snowflake_id_cluster_tests::network::unused_port;
use snowflake_id_cluster_tests::pool::Pool;
use snowflake_id_cluster_tests::{Cluster, Registry, beside, postmaster, single};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::figures::{Figures, table};
use crate::servers::Servers;

const PROGRAMS: [usize; 3] = [10, 100, 1000];
/// The number of programs that share connections through PgBouncer.
const POOLED: usize = 100;
/// How often a program renews its lease.
const RENEW_EVERY: Duration = Duration::from_secs(60);
const MEASURED: Duration = Duration::from_secs(90);
/// How many programs start at the same time.
const STARTING: usize = 20;
/// How often the open connections are counted.
const SAMPLE: Duration = Duration::from_millis(50);
/// The kernel counts CPU time in these units.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a registry has done so far.
#[derive(Clone, Copy)]
struct Work {
    renewals: i64,
    wal: i64,
    cpu_seconds: f64,
}

impl Work {
    fn of(registry: &Cluster) -> Work {
        let mut client = registry.connect();
        let renewals =
            "SELECT n_tup_upd FROM pg_stat_user_tables WHERE relid = 'snowflake_registry.lease'::regclass";
        let wal = "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint";
        Work {
            renewals: single(&mut client, renewals),
            wal: single(&mut client, wal),
            cpu_seconds: cpu_seconds(registry),
        }
    }

    fn since(self, before: Work) -> Work {
        Work {
            renewals: self.renewals - before.renewals,
            wal: self.wal - before.wal,
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
        }
    }
}

/// The fields of `/proc/PID/stat` from the state on, of each process: its PID and the fields.
fn processes() -> impl Iterator<Item = (i32, Vec<String>)> {
    fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // The name of the program is in parentheses and may contain spaces.
        let (_, fields) = stat.rsplit_once(") ")?;
        Some((pid, fields.split(' ').map(Into::into).collect()))
    })
}

/// The CPU time of all processes of a server, including those that have ended.
fn cpu_seconds(server: &Cluster) -> f64 {
    let postmaster = postmaster(server).unwrap();
    let ticks = processes().map(|(pid, fields)| {
        let number = |at: usize| fields[at].parse::<i64>().unwrap_or(0);
        match pid {
            _ if pid == postmaster => number(11) + number(12) + number(13) + number(14),
            _ if fields[1].parse() == Ok(postmaster) => number(11) + number(12),
            _ => 0,
        }
    });
    ticks.sum::<i64>() as f64 / TICKS_PER_SECOND
}

/// The number of connections of programs to a registry. Its processes are counted without a query, which would cost CPU
/// time of the registry.
fn open_connections(postmaster: i32) -> usize {
    let is_program = |pid: i32| {
        let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&title).contains(": fleet ")
    };
    processes().filter(|(pid, fields)| fields[1].parse() == Ok(postmaster) && is_program(*pid)).count()
}

/// Starts programs, a few at a time.
fn start(runtime: &Runtime, string: &str, count: usize) -> Vec<Client> {
    let mut programs = Vec::with_capacity(count);
    runtime.block_on(async {
        while programs.len() < count {
            let mut starting = JoinSet::new();
            for _ in 0..STARTING.min(count - programs.len()) {
                let options = Options::new(string).start_within(Duration::from_secs(60));
                starting.spawn(Client::start(options));
            }
            while let Some(started) = starting.join_next().await {
                programs.push(started.unwrap().unwrap());
            }
        }
    });
    programs
}

/// The number of connections to the registry while an event happens: on average, and at most.
fn connections(registry: &Cluster, event: impl FnOnce()) -> (f64, usize) {
    let postmaster = postmaster(registry).unwrap();
    let watch = |stop: &AtomicBool| {
        let mut counts = vec![];
        while !stop.load(Ordering::Relaxed) {
            counts.push(open_connections(postmaster));
            thread::sleep(SAMPLE);
        }
        (counts.iter().sum::<usize>() as f64 / counts.len() as f64, counts.into_iter().max().unwrap_or(0))
    };
    beside([watch], event).0.remove(0)
}

pub fn print(_: &mut Servers, figures: &Figures) {
    let mut rows: Vec<[String; 9]> = PROGRAMS.into_iter().map(|count| measure(count, false)).collect();
    rows.push(measure(POOLED, true));
    println!("\n### A registry with many programs, each of which renews every {} s\n", RENEW_EVERY.as_secs());
    let head = ["programs", "CPU, ms", "WAL, bytes", "connections", "at most", "tables, kB", "failover, s"];
    // The page has no room for the number of renewals and the time of a start, which only the CSV file contains.
    let shown = rows.iter().map(|row| [0, 3, 4, 5, 6, 7, 8].map(|at| row[at].clone()).to_vec());
    figures.show("registry", &table(&head, shown));
    let columns = [
        "programs",
        "renewals",
        "start_cpu_ms",
        "renewal_cpu_ms",
        "renewal_wal",
        "connections",
        "most_connections",
        "tables_kb",
        "failover_s",
    ];
    figures.write("registry", columns, &rows);
}

/// Measures a registry with programs that connect directly, or through PgBouncer.
fn measure(count: usize, is_pooled: bool) -> [String; 9] {
    let terms =
        format!("lease => '10min', renew_every => '{} s', synchronous => true", RENEW_EVERY.as_secs());
    let settings = Cluster::builder().set("max_connections", 300).set("max_wal_size", "4GB");
    let pair = Pair::of(Registry::of_programs(&terms).start(settings));
    let (registry, standby) = (&pair.primary, &pair.standby);
    let pool = is_pooled.then(|| Pool::start_at(registry, "fleet", unused_port()).expect("PgBouncer"));
    let hosts = [registry, standby].map(|server| server.host().display().to_string()).join(",");
    let string = match &pool {
        Some(pool) => format!("host=127.0.0.1 port={} user=fleet dbname=postgres", pool.port()),
        None => format!("host={hosts} user=fleet dbname=postgres target_session_attrs=read-write"),
    };
    let runtime = Runtime::new().unwrap();

    let before = Work::of(registry);
    let programs = start(&runtime, &string, count);
    let starts = Work::of(registry).since(before);
    // The first change of a page after a checkpoint writes the whole page. These changes are counted, too.
    registry.connect().batch_execute("CHECKPOINT").unwrap();
    let before = Work::of(registry);
    let (average, most) = connections(registry, || thread::sleep(MEASURED));
    let work = Work::of(registry).since(before);
    let size = "SELECT sum(pg_total_relation_size(oid))::bigint / 1024 FROM pg_class
                WHERE relnamespace = 'snowflake_registry'::regnamespace AND relkind = 'r'";
    let size: i64 = single(&mut registry.connect(), size);
    let failover = (!is_pooled).then(|| fail_over(registry, standby, count));
    assert!(programs.iter().all(|program| program.next_id().is_ok()));
    drop(programs);
    runtime.shutdown_timeout(Duration::from_secs(5));

    let each = |value: f64| value / work.renewals as f64;
    let renewal = each(work.cpu_seconds);
    // A start includes the first renewal. Programs that started earlier have renewed again in the meantime.
    let more_renewals = (starts.renewals - count as i64).max(0) as f64;
    let start = (starts.cpu_seconds - more_renewals * renewal) / count as f64;
    [
        format!("{count}{}", if is_pooled { ", through PgBouncer" } else { "" }),
        work.renewals.to_string(),
        format!("{:.1}", start * 1e3),
        format!("{:.1}", renewal * 1e3),
        format!("{:.0}", each(work.wal as f64)),
        format!("{average:.2}"),
        most.to_string(),
        size.to_string(),
        failover.map_or_else(String::new, |time| format!("{:.0}", time.as_secs_f64())),
    ]
}

/// Stops the registry as a power failure would, and promotes its standby. Returns how long it takes until all programs
/// have renewed their leases.
fn fail_over(registry: &Cluster, standby: &Cluster, programs: usize) -> Duration {
    let began = Instant::now();
    registry.stop_server("immediate");
    standby.promote();
    let mut session = standby.connect();
    let now: f64 = single(&mut session, "SELECT extract(epoch FROM clock_timestamp())::float8");
    let renewed =
        format!("SELECT count(*) FROM snowflake_registry.lease WHERE renewed_at > to_timestamp({now})");
    while single::<i64>(&mut session, &renewed) < programs as i64 {
        assert!(began.elapsed() < 5 * RENEW_EVERY, "not all programs have renewed their leases");
        thread::sleep(Duration::from_millis(500));
    }
    began.elapsed()
}
