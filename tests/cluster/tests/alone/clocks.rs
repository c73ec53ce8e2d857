//! How soon a server that leases its worker ID issues IDs again after its wrong clock is set right. A time limit
//! shorter than a lease distinguishes a server that continues at once from one that waits for its lease to lapse.

use std::thread;
use std::time::Duration;

use harness::*;

use crate::fleet::clocks::{BATCH, HOUR, TEN_YEARS, ahead_of_real_time, start_with_ids, time_to_first_id};

/// Leases that outlast the test, even with a clock that is two minutes ahead.
const LONG_LEASES: &str = "lease => '10min', renew_every => '500ms'";

fn stored_horizon(client: &mut Client) -> i64 {
    single(client, "SELECT horizon_us FROM snowflake_internal.horizon WHERE track = 0")
}

/// The registry grants nothing. The server continues to the end of its lease.
#[test]
fn a_clock_that_is_two_minutes_ahead() {
    let fleet = Fleet::start(LONG_LEASES);
    let (server, worker, mut all, mut client) =
        start_with_ids(fleet.server().short_horizon().set("snowflake_id.max_clock_jump", "1h"));
    server.set_clock(120.0);
    wait_for_registry_state(&server, "clock differs");
    eventually("the keeper to follow the clock", || ahead_of_real_time(&mut client) > 110.0);
    assert_eq!(leased_worker(&server), worker);
    all.extend(some_ids(&server));
    // When the clock is right again, the server resets to the present under another identity.
    server.set_clock(0.0);
    println!("first ID {:?} after the clock was set back by two minutes", time_to_first_id(&server));
    assert!(ahead_of_real_time(&mut client).abs() < 10.0);
    assert_ne!(leased_worker(&server), worker);
    all.extend(some_ids(&server));
    assert_distinct(&all);

    // A short lease has already ended by the wrong clock. No time beyond it is lost.
    let fleet = Fleet::start(SHORT_LEASES);
    let (server, worker, mut all, mut client) =
        start_with_ids(fleet.server().short_horizon().set("snowflake_id.max_clock_jump", "1h"));
    server.set_clock(120.0);
    wait_for_registry_state(&server, "clock differs");
    eventually("the state", || shown(&mut client, "state").as_deref() == Some("lease ended"));
    let (state, message) = failure(&mut client, BATCH);
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("\"clock differs\""), "{message}");
    server.set_clock(0.0);
    let took = time_to_first_id(&server);
    println!("first ID {took:?} after a lease that had ended by a wrong clock");
    assert!(took < Duration::from_secs(8), "{took:?}");
    assert_eq!(leased_worker(&server), worker);
    all.extend(some_ids(&server));
    assert_distinct(&all);
}

/// The registry finds the clock wrong: the server waits for its clock, and then continues as before.
#[test]
fn a_clock_that_is_behind() {
    let fleet = Fleet::start(SHORT_LEASES);
    let (server, worker, mut all, mut client) = start_with_ids(fleet.server().short_horizon());
    for seconds in [-120.0, -HOUR] {
        server.set_clock(seconds);
        wait_for_registry_state(&server, "clock differs");
        let (state, message) =
            failure(&mut client, "SET snowflake_id.max_wait = '300ms'; SELECT snowflake_nextval()");
        assert_eq!(state, "55P03", "{message}");
        eventually("the state", || shown(&mut client, "state").as_deref() == Some("clock behind"));
        server.set_clock(0.0);
        let took = time_to_first_id(&server);
        println!("first ID {took:?} after a clock that was {seconds} s off");
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(leased_worker(&server), worker, "{}", server.log());
        all.extend(some_ids(&server));
        assert_increasing(&all);
    }
}

/// The server starts with a clock that is years ahead: no time is lost.
#[test]
fn years_ahead_at_a_start() {
    for has_registry in [true, false] {
        let fleet = Fleet::start(SHORT_LEASES);
        let server = fleet.server().short_horizon().clock().start();
        let mut all = some_ids(&server);
        server.restart("fast");
        all.extend(some_ids(&server));
        server.stop_server("fast");
        if !has_registry {
            fleet.lose_registry();
        }
        server.set_clock(TEN_YEARS);
        server.start_server();
        let mut client = server.connect();
        let before = stored_horizon(&mut client);
        wait_for_registry_state(&server, if has_registry { "clock differs" } else { "unreachable" });
        for _ in 0..20 {
            assert_eq!(failure(&mut client, BATCH).0, "55000");
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(stored_horizon(&mut client), before);
        server.set_clock(0.0);
        if !has_registry {
            fleet.registry.start_server();
        }
        let took = time_to_first_id(&server);
        println!("registry {has_registry}: first ID {took:?} after ten years");
        // A registry that has just been started grants nothing new for a while. That matters if the lease has ended.
        let most = Duration::from_secs(if has_registry { 3 } else { 20 });
        assert!(took < most, "{took:?}");
        all.extend(some_ids(&server));
        assert!(ahead_of_real_time(&mut client).abs() < 10.0);
        assert_increasing(&all);
    }
}
