//! Servers that take numbers of segments, and their registries.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use postgres::Client;

use crate::{Cluster, Settings, assert_increasing, failure, ids, poll, single, text};

/// What a server needs that has its registry in its own database.
pub const PRELOADED: Settings =
    &[("shared_preload_libraries", "snowflake_id"), ("snowflake_id.max_wait", "20s")];

/// A registry that gives out numbers, and no worker IDs.
pub fn registry(settings: Settings) -> Cluster {
    make_registry(Cluster::stopped(settings))
}

/// The same with a clock of its own, which shows this instant in UTC.
pub fn registry_with_clock(instant: &str) -> Cluster {
    let mut registry = Cluster::stopped(&[]);
    registry.give_clock();
    let registry = make_registry(registry);
    set_clock_to(&registry, instant);
    registry
}

fn make_registry(registry: Cluster) -> Cluster {
    registry.start_server().unwrap_or_else(|log| panic!("the registry did not start:\n{log}"));
    registry
        .connect()
        .batch_execute(
            "CREATE EXTENSION snowflake_id_registry;
             CREATE ROLE fleet LOGIN;
             GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
             GRANT EXECUTE ON FUNCTION snowflake_registry.take TO fleet;",
        )
        .unwrap();
    registry
}

/// Has the clock of a registry show this instant in UTC now.
pub fn set_clock_to(registry: &Cluster, instant: &str) {
    registry.set_clock(shift_to(registry, instant));
}

/// By how many seconds the clock of a registry has to differ from the real one to show this instant in UTC now.
pub fn shift_to(registry: &Cluster, instant: &str) -> f64 {
    let query = format!("SELECT extract(epoch FROM timestamptz '{instant} UTC')::float8");
    let wanted: f64 = single(&mut registry.connect(), &query);
    wanted - SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Calls a function of the registry that returns nothing.
pub fn order(registry: &Cluster, call: &str) {
    registry
        .connect()
        .batch_execute(&format!("SELECT snowflake_registry.{call}"))
        .unwrap_or_else(|error| panic!("{call}: {}", text(&error)));
}

/// A server that takes from a registry.
pub fn server_of(registry: &Cluster, settings: Settings) -> Cluster {
    let server = Cluster::stopped(PRELOADED);
    server.configure(&[("snowflake_id.registry", &connection_string(registry))]);
    server.configure(settings);
    start(server)
}

/// A server with a registry in its own database.
pub fn single_server(settings: Settings) -> Cluster {
    let server = Cluster::stopped(PRELOADED);
    server.configure(settings);
    let server = start(server);
    server.connect().batch_execute("CREATE EXTENSION snowflake_id_registry").unwrap();
    server
}

/// Starts a server, and creates the extension in it.
pub fn start(server: Cluster) -> Cluster {
    server.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
    server.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    server
}

pub fn connection_string(registry: &Cluster) -> String {
    format!("host={} user=fleet dbname=postgres connect_timeout=2", registry.host().display())
}

/// The next number of a segment.
#[track_caller]
pub fn next(client: &mut Client, name: &str) -> i64 {
    single(client, &format!("SELECT snowflake_segment_nextval('{name}')"))
}

/// So many numbers of it.
#[track_caller]
pub fn some(client: &mut Client, name: &str, count: i32) -> Vec<i64> {
    ids(client, &format!("SELECT snowflake_segment_batch('{name}', {count})"))
}

/// Why there is none: its SQLSTATE, and all that it says.
#[track_caller]
pub fn refusal(client: &mut Client, name: &str) -> (String, String) {
    failure(client, &format!("SELECT snowflake_segment_nextval('{name}')"))
}

/// The process of a server's segments worker.
#[track_caller]
pub fn worker_pid(server: &Cluster) -> i32 {
    let query = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_id segments'";
    poll("the segments worker", || {
        Some(server.try_connect("postgres").ok()?.query_opt(query, &[]).ok()??.get(0))
    })
}

/// Runs `event` while four clients take numbers from each server, in various ways. Those of each client have to rise.
/// Returns all numbers. Clients connect again when they have lost their server.
pub fn under_load(servers: &[&Cluster], name: &str, event: impl FnOnce()) -> Vec<i64> {
    let stop = AtomicBool::new(false);
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let _stop = crate::load::StopAtEnd(&stop);
        for server in servers {
            for _ in 0..4 {
                scope.spawn(|| take_until(server, name, &stop, &all));
            }
        }
        event();
    });
    all.into_inner().unwrap()
}

fn take_until(server: &Cluster, name: &str, stop: &AtomicBool, all: &Mutex<Vec<i64>>) {
    let queries = [
        format!("SELECT snowflake_segment_nextval('{name}')"),
        format!("SELECT snowflake_segment_batch('{name}', 50)"),
        format!("SELECT snowflake_segment_nextval('{name}') FROM generate_series(1, 20)"),
    ];
    let mut mine = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = server.try_connect("postgres") else {
            thread::sleep(Duration::from_millis(20));
            continue;
        };
        for query in queries.iter().cycle() {
            match client.query(query, &[]) {
                Ok(rows) => mine.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
                Err(_) if client.is_closed() => break,
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    }
    assert_increasing(&mine);
    all.lock().unwrap().extend(mine);
}
