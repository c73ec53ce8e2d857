//! Wrong clocks of the registry and of servers that lease their worker IDs. IDs end in time or continue, but none is
//! repeated and no time is lost. When the clocks are right again, IDs resume by themselves.

use std::time::{Duration, Instant};

use harness::*;

pub const HOUR: f64 = 3_600.0;
pub const TEN_YEARS: f64 = 3_650.0 * 24.0 * HOUR;
pub const BATCH: &str = "SELECT snowflake_batch(1000)";

/// Starts a server with a clock of its own, and waits for its lease. Returns the server, its worker ID, some IDs and a
/// session.
pub fn start_with_ids(server: Builder) -> (Cluster, i32, Vec<i64>, Client) {
    let server = server.clock().start();
    let (worker, all) = (leased_worker(&server), some_ids(&server));
    let client = server.connect();
    (server, worker, all, client)
}

/// The time until an ID is available.
pub fn time_to_first_id(server: &Cluster) -> Duration {
    let start = Instant::now();
    leased_worker(server);
    start.elapsed()
}

/// How far new IDs are ahead of the real time, in seconds.
pub fn ahead_of_real_time(client: &mut Client) -> f64 {
    let time: f64 =
        single(client, "SELECT extract(epoch FROM snowflake_timestamp(snowflake_nextval()))::float8");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    time - now.as_secs_f64()
}

/// A small difference causes a warning and nothing else.
#[test]
fn a_clock_that_is_ten_seconds_off() {
    // A registry grants nothing before its start.
    let fleet = Fleet::of(Cluster::builder().clock_at(-100.0), LASTING_LEASES);
    fleet.registry.set_clock(0.0);
    // The clock starts behind and never goes back, so no call waits for it.
    let server = fleet.server().short_horizon().clock_at(-10.0).start();
    let (mut client, mut all) = (server.connect(), vec![]);
    for (seconds, is_wrong) in [(-10.0, true), (0.0, false), (10.0, true)] {
        server.set_clock(seconds);
        eventually("the warning or its end", || shown(&mut client, "warning").is_some() == is_wrong);
        // The message gives the difference, which changes.
        let text = "of the registry differ by";
        assert!(shown(&mut client, "warning").is_none_or(|warning| warning.contains(text)));
        assert!(server.log().contains(text));
        assert_renewed(&server);
        all.extend(some_ids(&server));
    }
    assert_increasing(&all);
    server.set_clock(0.0);
    eventually("the end of the warning", || shown(&mut client, "warning").is_none());
}

/// The registry's approval of the clock before it was set says nothing about the clock now.
#[test]
fn a_clock_that_is_behind_between_renewals() {
    let fleet = Fleet::start(LONG_LEASES);
    let (server, worker, mut all, mut client) = start_with_ids(fleet.server().short_horizon());
    server.set_clock(-HOUR);
    let (state, message) =
        failure(&mut client, "SET snowflake_id.max_wait = '300ms'; SELECT snowflake_nextval()");
    assert_eq!(state, "55P03", "{message}");
    // The server asks the registry at once.
    wait_for_registry_state(&server, "clock differs");
    server.set_clock(0.0);
    wait_for_registry_state(&server, "granted");
    // If the identity were exchanged, that would happen now.
    std::thread::sleep(Duration::from_secs(1));
    all.extend(some_ids(&server));
    assert_eq!(leased_worker(&server), worker, "{}", server.log());
    assert_increasing(&all);
}

/// The clock of the registry is the clock of the fleet: when it is wrong, the registry grants nothing, and all servers
/// continue under their leases.
#[test]
fn the_clock_of_the_registry() {
    for seconds in [HOUR, -HOUR] {
        let fleet = Fleet::start(LASTING_LEASES);
        let server = fleet.server_with_clock().start();
        let mut all = some_ids(&server);
        fleet.registry.stop_server("fast");
        fleet.registry.set_clock(seconds);
        fleet.registry.start_server();
        let mut client = server.connect();
        wait_for_registry_state(&server, "clock differs");
        all.extend(ids(&mut client, BATCH));
        let newcomer = fleet.server_with_clock().start();
        wait_for_registry_state(&newcomer, "clock differs");
        assert_eq!(failure(&mut newcomer.connect(), BATCH).0, "55000");
        set_clocks([&server, &newcomer], AFTER_THE_LEASE);
        fleet.registry.set_clock(AFTER_THE_LEASE + seconds);
        assert_eq!(wait_for_refusal(&mut client).0, "55000");
        fleet.registry.set_clock(AFTER_THE_LEASE);
        // The lease has lapsed, so the first server that asks gets the worker ID.
        assert_ne!(leased_worker(&server), leased_worker(&newcomer));
        all.extend(some_ids(&server));
        all.extend(some_ids(&newcomer));
        assert_distinct(&all);
    }
}

/// A server without a history starts with a clock that is years ahead.
#[test]
fn a_new_server_that_is_years_ahead() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().short_horizon().clock_at(TEN_YEARS).start();
    wait_for_registry_state(&server, "clock differs");
    // Give the server time to raise its horizon wrongly.
    std::thread::sleep(Duration::from_secs(1));
    server.set_clock(0.0);
    let took = time_to_first_id(&server);
    println!("first ID of a new server {took:?} after ten years");
    assert_within(2 * SLACK, took, "the first ID");
    let mut client = server.connect();
    assert!(ahead_of_real_time(&mut client).abs() < 60.0);
    let mut all = some_ids(&server);
    server.restart("immediate");
    all.extend(some_ids(&server));
    assert_increasing(&all);
}

/// Both clocks were an hour ahead, and are set back: the server exchanges its identity and resets to the present,
/// without an administrator.
#[test]
fn a_clock_set_back_together_with_that_of_the_registry() {
    // In the last case the exchange does not wait for the next renewal.
    for (is_restarted, leases) in [(false, LASTING_LEASES), (true, LASTING_LEASES), (false, LONG_LEASES)] {
        let fleet = Fleet::start(leases);
        let server = fleet.server().short_horizon().clock().start();
        let mut all = some_ids(&server);
        let set_clocks = |seconds| {
            server.stop_server("fast");
            server.set_clock(seconds);
            fleet.registry.set_clock(seconds);
            server.start_server();
        };
        set_clocks(HOUR);
        all.extend(some_ids(&server));
        let mut client = server.connect();
        assert!(ahead_of_real_time(&mut client) > HOUR - 60.0);
        let worker = leased_worker(&server);
        if is_restarted {
            set_clocks(0.0);
        } else {
            fleet.registry.set_clock(0.0);
            server.set_clock(0.0);
        }
        let took = time_to_first_id(&server);
        println!("restarted {is_restarted}: first ID {took:?} after both clocks were set back by an hour");
        assert_within(2 * SLACK, took, "the first ID");
        assert_ne!(leased_worker(&server), worker);
        let mut client = server.connect();
        assert!(ahead_of_real_time(&mut client).abs() < 60.0);
        all.extend(some_ids(&server));
        // The reset is durable.
        let worker = leased_worker(&server);
        for mode in ["immediate", "fast"] {
            server.restart(mode);
            all.extend(some_ids(&server));
            assert_eq!(leased_worker(&server), worker);
            assert!(ahead_of_real_time(&mut server.connect()).abs() < 60.0);
        }
        // The clock goes forward again: no ID of that time is repeated.
        set_clocks(HOUR - 1.0);
        for _ in 0..3 {
            all.extend(some_ids(&server));
        }
        assert_distinct(&all);
    }
}

#[test]
fn a_reset_by_hand() {
    let fleet = Fleet::start(LASTING_LEASES);
    let (server, worker, mut all, mut client) = start_with_ids(fleet.server().short_horizon());
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon(9)");
    assert_eq!(state, "22023", "{message}");
    assert!(
        message.contains("cannot choose a worker ID") && message.contains("without arguments"),
        "{message}"
    );
    client.run("SET snowflake_id.max_wait = '10s'; SELECT snowflake_reset_horizon()");
    println!("first ID {:?} after snowflake_reset_horizon()", time_to_first_id(&server));
    assert_ne!(leased_worker(&server), worker);
    assert!(ahead_of_real_time(&mut client).abs() < 60.0);
    all.extend(some_ids(&server));
    assert_distinct(&all);
    // A requested floor holds for every worker ID.
    client.run("SELECT snowflake_raise_floor(clock_timestamp() + '20 min')");
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon()");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("snowflake_raise_floor()"), "{message}");

    let alone = Cluster::builder().worker(1).start();
    let mut client = alone.connect();
    keeper_pid(&mut client);
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon()");
    assert_eq!(state, "22023", "{message}");
    assert!(message.contains("a worker ID must be specified"), "{message}");
}
