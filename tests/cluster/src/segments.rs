//! Servers that take numbers of segments, and their registries.

use std::fmt::Display;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use postgres::Client;

use crate::faults::background_pid;
use crate::load::{Taker, while_taking};
use crate::network::{Fault, Proxy};
use crate::{Builder, Cluster, Registry, Run, eventually, failure, ids, single};

/// Starts a registry that grants numbers but no worker IDs.
pub fn registry() -> Cluster {
    registry_of(Cluster::builder())
}

/// Starts such a registry on the given server.
pub fn registry_of(registry: Builder) -> Cluster {
    Registry::of_segments("renew_every => '200ms'").start(registry)
}

/// Starts such a registry with these segments, which grants ranges of 50 numbers.
pub fn registry_of_fifties(names: &[impl Display]) -> Cluster {
    let registry = registry();
    for name in names {
        administer(&registry, &format!("create_segment('{name}', min_step => 50, max_step => 50)"));
    }
    registry
}

/// Creates the segments `segment number 1` to `segment number COUNT`.
pub fn create_numbered(registry: &Cluster, count: u32) {
    // A statement must not last too long.
    for first in (1..=count).step_by(5_000) {
        let last = count.min(first + 4_999);
        registry.connect().run(&format!(
            "SELECT count(snowflake_registry.create_segment('segment number ' || n))
             FROM generate_series({first}, {last}) AS n"
        ));
    }
}

/// Starts such a registry with a clock of its own, which stands still at this instant in UTC.
pub fn registry_with_clock(instant: &str) -> Cluster {
    let registry = registry_of(Cluster::builder().set("max_connections", 90).clock());
    hold_clock_at(&registry, instant);
    registry
}

/// Stops the clock of a registry at this instant in UTC.
pub fn hold_clock_at(registry: &Cluster, instant: &str) {
    registry.hold_clock((unix_time(registry, instant) * 1e6) as i64, 0);
}

/// Sets the clock of a registry to this instant in UTC. It moves on from there.
pub fn set_clock_to(registry: &Cluster, instant: &str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    registry.set_clock(unix_time(registry, instant) - now);
}

fn unix_time(registry: &Cluster, instant: &str) -> f64 {
    single(
        &mut registry.connect(),
        &format!("SELECT extract(epoch FROM timestamptz '{instant} UTC')::float8"),
    )
}

/// Waits until a server has sent the registry a report since this call, and has been answered.
#[track_caller]
pub fn wait_for_report(registry: &Cluster) {
    let mut client = registry.connect();
    let now: String = single(&mut client, "SELECT clock_timestamp()::text");
    let is_answered = format!(
        "SELECT count(*) > 0 FROM pg_stat_activity
         WHERE usename = 'fleet' AND state = 'idle' AND query_start >= '{now}'"
    );
    eventually("a report", || single::<bool>(&mut client, &is_answered));
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

/// The next `count` numbers of a segment, as soon as the registry grants them.
#[track_caller]
pub fn some_at_last(server: &Cluster, name: &str, count: i32) -> Vec<i64> {
    let query = format!("SELECT snowflake_segment_batch('{name}', {count})");
    let mut client = server.connect();
    let rows = eventually("numbers", || client.query(&query, &[]));
    rows.iter().map(|row| row.get(0)).collect()
}

/// Waits until the server holds two ranges of a segment.
#[track_caller]
pub fn wait_for_next_range(server: &Cluster, name: &str) {
    let query = format!("SELECT next_range FROM snowflake_segment_status WHERE name = '{name}'");
    let mut client = server.connect();
    eventually("the next range", || single::<Option<i64>>(&mut client, &query));
}

/// Waits until a server has recorded numbers of a period.
#[track_caller]
pub fn wait_for_period(server: &Cluster, key: i64) {
    let file = server.data_dir().join("snowflake_id.segments");
    let key = format!("\"key\":{key}");
    eventually("numbers of the period", || std::fs::read_to_string(&file).unwrap_or_default().contains(&key));
}

/// A session whose calls wait for a short time only.
pub fn impatient(server: &Cluster) -> Client {
    let mut client = server.connect();
    client.run("SET snowflake_id.max_wait = '300ms'");
    client
}

/// Makes calls of `take()` run this statement in PL/pgSQL before their work, instead of an earlier statement.
pub fn before_take(registry: &Cluster, statement: &str) {
    let mut client = registry.connect();
    let rename = match single(&mut client, "SELECT to_regproc('snowflake_registry.real_take') IS NULL") {
        true => "ALTER FUNCTION snowflake_registry.take RENAME TO real_take;",
        false => "",
    };
    // One transaction, so that no call finds no function.
    client.run(&format!(
        "{rename}
         CREATE OR REPLACE FUNCTION snowflake_registry.take(request jsonb)
         RETURNS SETOF snowflake_registry.taken VOLATILE SECURITY DEFINER LANGUAGE plpgsql AS $$
         BEGIN
             {statement}
             RETURN QUERY SELECT * FROM snowflake_registry.take_ranges(request, false);
         END $$;
         GRANT EXECUTE ON FUNCTION snowflake_registry.take TO fleet;"
    ));
}

/// Makes reports on a segment fail.
pub fn break_reports(registry: &Cluster, name: &str) {
    let report = format!(r#"'{{"requests": [{{"name": "{name}", "report": true}}]}}'"#);
    before_take(registry, &format!("IF request @> {report} THEN RAISE EXCEPTION 'broken'; END IF;"));
}

/// Undoes [`break_reports`].
pub fn mend_reports(registry: &Cluster) {
    registry.connect().run(
        "DROP FUNCTION snowflake_registry.take;
         ALTER FUNCTION snowflake_registry.real_take RENAME TO take;",
    );
}

/// `take` takes numbers of segment "orders" by a connection string. Between the grant and its signature, a copy of an
/// earlier state replaces the registry, and `others` takes numbers from the copy. Returns the numbers of both.
pub fn replacing_between_grant_and_token(
    registry: &Cluster,
    take: impl FnOnce(&str) -> Vec<i64> + Send,
    others: impl FnOnce() -> Vec<i64>,
) -> Vec<i64> {
    let copy = registry.duplicate_in_between();
    administer(registry, "end_quarantine()");
    let proxy = Proxy::to(registry);
    proxy.set_fault(Fault::Hold);
    thread::scope(|scope| {
        let taking = scope.spawn(|| take(&proxy.connection_string()));
        let next_value = "SELECT next_value::bigint FROM snowflake_registry.segment WHERE name = 'orders'";
        eventually("the grant", || single::<i64>(&mut registry.connect(), next_value) > 1);
        registry.give_way_to(&copy);
        administer(registry, "end_quarantine()");
        let mut all = others();
        proxy.set_fault(Fault::None);
        all.extend(taking.join().unwrap());
        all
    })
}

/// The SQLSTATE and the full text of the error with which a call for a number fails.
#[track_caller]
pub fn refusal(client: &mut Client, name: &str) -> (String, String) {
    failure(client, &format!("SELECT snowflake_segment_nextval('{name}')"))
}

/// The state of a segment in the server's view.
pub fn segment_state(client: &mut Client, name: &str) -> String {
    single(client, &format!("SELECT state FROM snowflake_segment_status WHERE name = '{name}'"))
}

/// The numbers that a server has issued since its shared memory was initialized.
#[track_caller]
fn issued(server: &Cluster) -> i64 {
    let query = "SELECT coalesce(sum(numbers_issued), 0)::bigint FROM snowflake_segment_status";
    let mut session = server.session();
    eventually("the server", || session.ask(query))
}

/// Waits until the clients of a server have taken this many numbers.
#[track_caller]
pub fn wait_until_issued(server: &Cluster, count: i64) {
    let before = issued(server);
    eventually("numbers", || issued(server) >= before + count);
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
