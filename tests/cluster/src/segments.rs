//! Servers that take numbers of segments, and their registries.

use std::time::{SystemTime, UNIX_EPOCH};

use postgres::Client;

use crate::faults::background_pid;
use crate::load::{Taker, while_taking};
use crate::{Builder, Cluster, Registry, Run, eventually, failure, ids, single};

/// Starts a registry that grants numbers but no worker IDs.
pub fn registry() -> Cluster {
    registry_of(Cluster::builder())
}

/// Starts such a registry on the given server.
pub fn registry_of(registry: Builder) -> Cluster {
    Registry::of_segments("renew_every => '200ms'").start(registry)
}

/// Starts such a registry with a clock of its own, which shows this instant in UTC.
pub fn registry_with_clock(instant: &str) -> Cluster {
    let registry = registry_of(Cluster::builder().set("max_connections", 90).clock());
    set_clock_to(&registry, instant);
    registry
}

/// Sets the clock of a registry to this instant in UTC.
pub fn set_clock_to(registry: &Cluster, instant: &str) {
    registry.set_clock(shift_to(registry, instant));
}

/// The difference from the real clock, in seconds, at which a registry's clock shows this instant in UTC now.
pub fn shift_to(registry: &Cluster, instant: &str) -> f64 {
    let query = format!("SELECT extract(epoch FROM timestamptz '{instant} UTC')::float8");
    let wanted: f64 = single(&mut registry.connect(), &query);
    wanted - SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// Calls a function of the registry that returns nothing.
pub fn administer(registry: &Cluster, call: &str) {
    registry.connect().run(&format!("SELECT snowflake_registry.{call}"));
}

/// A preloaded server whose calls may wait for a long time.
pub fn preloaded() -> Builder {
    Cluster::builder().preload().set("snowflake_id.max_wait", "20s")
}

/// A server that takes its numbers from a registry.
pub fn server_of(registry: &Cluster) -> Builder {
    preloaded().set("snowflake_id.registry", connection_string(registry))
}

/// A server with a registry in its own database.
pub fn single_server() -> Builder {
    preloaded().extensions(&["snowflake_id", "snowflake_id_registry"])
}

pub fn connection_string(registry: &Cluster) -> String {
    format!("{} connect_timeout=2", registry.connection_string("fleet"))
}

/// The next number of a segment.
#[track_caller]
pub fn next(client: &mut Client, name: &str) -> i64 {
    single(client, &format!("SELECT snowflake_segment_nextval('{name}')"))
}

/// The next `count` numbers of a segment.
#[track_caller]
pub fn some(client: &mut Client, name: &str, count: i32) -> Vec<i64> {
    ids(client, &format!("SELECT snowflake_segment_batch('{name}', {count})"))
}

/// The SQLSTATE and the full text of the error with which a call for a number fails.
#[track_caller]
pub fn refusal(client: &mut Client, name: &str) -> (String, String) {
    failure(client, &format!("SELECT snowflake_segment_nextval('{name}')"))
}

/// The state of a segment in the server's view.
pub fn segment_state(client: &mut Client, name: &str) -> String {
    single(client, &format!("SELECT state FROM snowflake_segments WHERE name = '{name}'"))
}

/// The process ID of a server's segments worker.
#[track_caller]
pub fn worker_pid(server: &Cluster) -> i32 {
    eventually("the segments worker", || background_pid(server, "snowflake_id segments"))
}

/// Runs `event` while four clients take numbers from each server, in various ways. The numbers of each client must
/// increase. Clients reconnect after losing their server. Returns all numbers.
pub fn taking_numbers(servers: &[&Cluster], name: &str, event: impl FnOnce()) -> Vec<i64> {
    let queries = vec![
        format!("SELECT snowflake_segment_nextval('{name}')"),
        format!("SELECT snowflake_segment_batch('{name}', 50)"),
        format!("SELECT snowflake_segment_nextval('{name}') FROM generate_series(1, 20)"),
    ];
    let four = |server| {
        let taker = Taker { queries: queries.clone(), returns: true, ..Taker::of(server) };
        std::iter::repeat_n(taker, 4)
    };
    while_taking(servers.iter().copied().flat_map(four), event).0
}
