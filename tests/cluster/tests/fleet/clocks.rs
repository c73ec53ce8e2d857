//! Wrong clocks of the registry and of servers that lease their worker IDs. IDs end in time or continue, but none is
//! repeated and no time is lost. When the clocks are right again, IDs resume by themselves.

use std::time::{Duration, Instant};

use harness::*;

pub const HOUR: f64 = 3_600.0;
pub const TEN_YEARS: f64 = 3_650.0 * 24.0 * HOUR;
pub const BATCH: &str = "SELECT snowflake_batch(1000)";

/// Starts a fleet whose registry has a clock of its own.
fn fleet_with_clock(configuration: &str) -> Fleet {
    Fleet::of(Cluster::builder().clock(), configuration)
}

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
    let fleet = Fleet::start(HALF_MINUTE_LEASES);
    for seconds in [10.0, -10.0] {
        let server = fleet.server().short_horizon().clock().start();
        let mut all = some_ids(&server);
        let mut client = server.connect();
        assert_eq!(shown(&mut client, "warning"), None);
        server.set_clock(seconds);
        // The message gives the difference, which changes.
        let text = "that of the registry differ by";
        let warning = eventually("the warning", || shown(&mut client, "warning"));
        assert!(warning.contains(text), "{warning}");
        eventually("the warning in the log", || server.log().contains(text));
        all.extend(some_ids(&server));
        // After longer than a lease, the lease has been renewed.
        let until: String = shown(&mut client, "lease_until").unwrap();
        eventually("renewals", || {
            all.extend(
                client.query_one("SELECT snowflake_nextval()", &[]).ok().map(|row| row.get::<_, i64>(0)),
            );
            single::<bool>(
                &mut client,
                &format!("SELECT lease_until > '{until}'::timestamptz + '2 s' FROM snowflake_status"),
            )
        });
        assert_eq!(shown(&mut client, "registry_state").unwrap(), "granted");
        server.set_clock(0.0);
        eventually("the end of the warning", || shown(&mut client, "warning").is_none());
        all.extend(some_ids(&server));
        assert_distinct(&all);
    }
}

/// The registry's approval of the clock before it was set says nothing about the clock now.
#[test]
fn a_clock_that_is_behind_between_renewals() {
    let fleet = Fleet::start("lease => '10min', renew_every => '5min'");
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
    std::thread::sleep(Duration::from_secs(2));
    all.extend(some_ids(&server));
    assert_eq!(leased_worker(&server), worker, "{}", server.log());
    assert_increasing(&all);
}

/// The clock of the registry is the clock of the fleet: when it is wrong, the registry grants nothing, and all servers
/// continue under their leases.
#[test]
fn the_clock_of_the_registry() {
    for seconds in [HOUR, -HOUR] {
        let fleet = fleet_with_clock(SHORT_LEASES);
        let server = fleet.server().start();
        let mut all = some_ids(&server);
        fleet.registry.stop_server("fast");
        fleet.registry.set_clock(seconds);
        fleet.registry.start_server();
        let mut client = server.connect();
        wait_for_registry_state(&server, "clock differs");
        all.extend(ids(&mut client, BATCH));
        let newcomer = fleet.server().start();
        wait_for_registry_state(&newcomer, "clock differs");
        assert_eq!(failure(&mut newcomer.connect(), BATCH).0, "55000");
        wait_for_end_of_lease(&mut client);
        assert_eq!(failure(&mut client, BATCH).0, "55000");
        fleet.registry.set_clock(0.0);
        println!("first ID {:?} after the registry's clock was {seconds} s off", time_to_first_id(&server));
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
    let fleet = Fleet::start(SHORT_LEASES);
    let server = fleet.server().short_horizon().clock().stopped();
    server.set_clock(TEN_YEARS);
    server.start_server();
    server.connect().run("CREATE EXTENSION snowflake_id");
    wait_for_registry_state(&server, "clock differs");
    // Give the server time to raise its horizon wrongly.
    std::thread::sleep(Duration::from_secs(1));
    server.set_clock(0.0);
    let took = time_to_first_id(&server);
    println!("first ID of a new server {took:?} after ten years");
    assert!(took < 2 * SLACK, "{took:?}");
    let mut client = server.connect();
    assert!(ahead_of_real_time(&mut client).abs() < 10.0);
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
    for (is_restarted, leases) in
        [(false, SHORT_LEASES), (true, SHORT_LEASES), (false, "lease => '10min', renew_every => '5min'")]
    {
        let fleet = fleet_with_clock(leases);
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
        assert!(ahead_of_real_time(&mut client) > HOUR - 10.0);
        let worker = leased_worker(&server);
        if is_restarted {
            set_clocks(0.0);
        } else {
            fleet.registry.set_clock(0.0);
            server.set_clock(0.0);
        }
        let took = time_to_first_id(&server);
        println!("restarted {is_restarted}: first ID {took:?} after both clocks were set back by an hour");
        assert!(took < 2 * SLACK, "{took:?}");
        assert_ne!(leased_worker(&server), worker);
        let mut client = server.connect();
        assert!(ahead_of_real_time(&mut client).abs() < 10.0);
        all.extend(some_ids(&server));
        // The reset is durable.
        let worker = leased_worker(&server);
        for mode in ["immediate", "fast"] {
            server.restart(mode);
            all.extend(some_ids(&server));
            assert_eq!(leased_worker(&server), worker);
            assert!(ahead_of_real_time(&mut server.connect()).abs() < 10.0);
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
    let fleet = Fleet::start(SHORT_LEASES);
    let (server, worker, mut all, mut client) = start_with_ids(fleet.server().short_horizon());
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon(9)");
    assert_eq!(state, "22023", "{message}");
    assert!(message.contains("cannot be chosen") && message.contains("without arguments"), "{message}");
    client.run("SET snowflake_id.max_wait = '10s'; SELECT snowflake_reset_horizon()");
    let took = time_to_first_id(&server);
    println!("first ID {took:?} after snowflake_reset_horizon()");
    assert_ne!(leased_worker(&server), worker);
    assert!(ahead_of_real_time(&mut client).abs() < 10.0);
    all.extend(some_ids(&server));
    assert_distinct(&all);
    // A requested floor holds for every worker ID.
    client.run("SELECT snowflake_advance(clock_timestamp() + '20 min')");
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon()");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("snowflake_advance()"), "{message}");

    let alone = Cluster::builder().worker(1).start();
    let mut client = alone.connect();
    keeper_pid(&mut client);
    let (state, message) = failure(&mut client, "SELECT snowflake_reset_horizon()");
    assert_eq!(state, "22023", "{message}");
    assert!(message.contains("a worker ID is needed"), "{message}");
}
