//! A server that leases its worker ID issues IDs again at once after its wrong clock is set right. Most leases are so long
//! that a server that waited for the end of its lease would be noticed.

use std::thread;
use std::time::Duration;

use harness::*;

use super::clocks::{BATCH, HOUR, TEN_YEARS, ahead_of_real_time, start_with_ids, time_to_first_id};

/// Leases that outlast the test, even with a clock that is two minutes ahead.
const LEASES: &str = "lease => '10min', renew_every => '500ms'";
/// Leases that last while servers start.
const HALF_MINUTE_LEASES: &str = "lease => '30s', renew_every => '500ms'";
/// Leases so short that a test sees them end.
const SHORT_LEASES: &str = "lease => '6s', renew_every => '500ms'";

fn stored_horizon(client: &mut Client) -> i64 {
    single(client, "SELECT horizon_us FROM snowflake_internal.horizon WHERE track = 0")
}

#[track_caller]
fn assert_continues(server: &Cluster, after: &str) {
    assert_within(SLACK, time_to_first_id(server), format!("the first ID after {after}"));
}

/// The registry grants nothing. The server continues to the end of its lease.
#[test]
fn a_clock_that_is_two_minutes_ahead() {
    let server = |fleet: &Fleet| {
        start_with_ids(fleet.server().short_horizon().set("snowflake_id.max_clock_jump", "1h"))
    };
    let fleet = Fleet::start(LEASES);
    let (first, worker, mut all, mut client) = server(&fleet);
    first.set_clock(120.0);
    wait_for_registry_state(&first, "clock differs");
    eventually("the keeper to follow the clock", || ahead_of_real_time(&mut client) > 110.0);
    assert_eq!(leased_worker(&first), worker);
    all.extend(some_ids(&first));
    // When the clock is right again, the server resets to the present under another identity.
    first.set_clock(0.0);
    assert_continues(&first, "a clock that was two minutes ahead");
    assert!(ahead_of_real_time(&mut client) < 60.0);
    assert_ne!(leased_worker(&first), worker);
    all.extend(some_ids(&first));
    assert_distinct(&all);

    // A shorter lease ends by the wrong clock. No time beyond it is lost.
    let fleet = Fleet::start(HALF_MINUTE_LEASES);
    let (second, worker, mut all, mut client) = server(&fleet);
    second.set_clock(120.0);
    wait_for_registry_state(&second, "clock differs");
    eventually("the state", || {
        // If the clock is set during a renewal, the renewed lease has already ended when it arrives.
        matches!(shown(&mut client, "state").as_deref(), Some("lease ended" | "no lease"))
    });
    let (state, message) = failure(&mut client, BATCH);
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains("\"clock differs\""), "{message}");
    second.set_clock(0.0);
    assert_continues(&second, "a lease that had ended by a wrong clock");
    assert_eq!(leased_worker(&second), worker);
    all.extend(some_ids(&second));
    assert_distinct(&all);
}

/// The registry finds the clock wrong: the server waits for its clock, and then continues as before.
#[test]
fn a_clock_that_is_behind() {
    let fleet = Fleet::start(LEASES);
    let (server, worker, mut all, mut client) = start_with_ids(fleet.server().short_horizon());
    for seconds in [-120.0, -HOUR] {
        server.set_clock(seconds);
        wait_for_registry_state(&server, "clock differs");
        assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55P03");
        eventually("the state", || shown(&mut client, "state").as_deref() == Some("clock behind"));
        server.set_clock(0.0);
        assert_continues(&server, "a clock that was behind");
        assert_eq!(leased_worker(&server), worker, "{}", server.log());
        // Otherwise the next turn would see the state of this one.
        wait_for_registry_state(&server, "granted");
        all.extend(some_ids(&server));
        assert_increasing(&all);
    }
}

/// The clock is set back while the registry answers a renewal: the registry has not confirmed the new clock, so the server
/// does not take it for the truth, and keeps its worker ID.
#[test]
fn a_clock_that_is_set_during_a_renewal() {
    let fleet = Fleet::start(LEASES);
    let (server, worker, mut all, mut client) = start_with_ids(fleet.server().short_horizon());
    let mut registry = fleet.registry.connect();
    for _ in 0..3 {
        let mut held = registry.transaction().unwrap();
        held.batch_execute("LOCK TABLE snowflake_registry.lease IN ACCESS EXCLUSIVE MODE").unwrap();
        eventually("a renewal that waits", || {
            single::<bool>(
                &mut fleet.registry.connect(),
                "SELECT EXISTS (SELECT FROM pg_locks
                 WHERE NOT granted AND relation = 'snowflake_registry.lease'::regclass)",
            )
        });
        server.set_clock(-HOUR);
        held.commit().unwrap();
        assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55P03");
        wait_for_registry_state(&server, "clock differs");
        server.set_clock(0.0);
        assert_continues(&server, "a clock that was set during a renewal");
        wait_for_registry_state(&server, "granted");
        assert_eq!(leased_worker(&server), worker, "{}", server.log());
        all.extend(some_ids(&server));
    }
    assert_increasing(&all);
}

/// The server starts with a clock that is years ahead: no time is lost.
#[test]
fn years_ahead_at_a_start() {
    for has_registry in [true, false] {
        // A registry that has just been started grants nothing for as long as a lease.
        let fleet = Fleet::start(if has_registry { LEASES } else { SHORT_LEASES });
        let server = fleet.server().short_horizon().clock().start();
        let mut all = some_ids(&server);
        server.stop_server("fast");
        if !has_registry {
            fleet.lose_registry();
        }
        server.set_clock(TEN_YEARS);
        server.start_server();
        let mut client = server.connect();
        let before = stored_horizon(&mut client);
        wait_for_registry_state(&server, if has_registry { "clock differs" } else { "unreachable" });
        for _ in 0..5 {
            assert_eq!(failure(&mut client, BATCH).0, "55000");
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!(stored_horizon(&mut client), before);
        server.set_clock(0.0);
        if !has_registry {
            fleet.registry.start_server();
        }
        assert_continues(&server, "ten years");
        all.extend(some_ids(&server));
        assert!(ahead_of_real_time(&mut client) < 60.0);
        assert_increasing(&all);
    }
}
