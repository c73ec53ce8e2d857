//! The lease of a program.

use std::num::NonZeroU64;
use std::thread;
use std::time::Duration;

use harness::*;

use super::program::*;

/// A program beside a server, and the next program, which has the worker ID of the first one at once.
#[test]
fn a_worker_id_is_handed_on() {
    let fleet = registry(LEASES);
    let server = fleet.server().start();
    leased_worker(&server);
    let mut all = ids(&mut server.connect(), "SELECT snowflake_batch(1000)");
    let mut former = None;
    for round in 0..5 {
        let program = start(options(&fleet).name("billing"));
        let identity = program.identity().unwrap();
        assert_eq!(*former.get_or_insert(identity), identity, "round {round}");
        let mut taken: Vec<i64> = (0..1_000).map(|_| program.next_id().unwrap()).collect();
        taken.extend(program.next_ids(NonZeroU64::new(1_000).unwrap()).unwrap());
        assert_increasing(&taken);
        let decoded = Layout::decode(&"standard".parse().unwrap(), taken[0]).unwrap();
        assert_eq!(decoded.worker_id, Some(identity.worker));
        assert!((decoded.generated_at - real_us()).abs() < 60_000_000, "{decoded:?}");
        all.extend(taken);
        program.close().wait();
        assert_eq!(program.next_id(), Err(Error::Closed));
        eventually("the end of the used range", || {
            (fleet_column(&fleet, identity.worker, "state") == "free").then_some(())
        });
    }
    all.extend(ids(&mut server.connect(), "SELECT snowflake_batch(1000)"));
    assert_distinct(&all);
}

/// The program is dropped, without a call of `close()`.
#[test]
fn a_dropped_program_releases_its_lease() {
    let fleet = registry(LEASES);
    let program = start(options(&fleet));
    assert_eq!(fleet_column(&fleet, 0, "state"), "held");
    let other = program.clone();
    drop(program);
    other.next_id().unwrap();
    drop(other);
    eventually("the release", || (fleet_column(&fleet, 0, "state") != "held").then_some(()));
}

/// After a start of its server, the registry cannot tell a holder from a copy before the next renewal.
#[test]
fn a_release_after_a_start_of_the_registry() {
    let fleet = registry("lease => '10min', renew_every => '1min'");
    let program = start(options(&fleet));
    program.next_id().unwrap();
    fleet.registry.restart("fast");
    program.close().wait();
    assert_ne!(fleet_column(&fleet, 0, "state"), "held");
}

/// The registry is away until the lease has ended, and comes back.
#[test]
fn a_program_without_the_registry() {
    let fleet = registry(&format!("{LEASES}, synchronous => true"));
    let clock = SetClock::default();
    let program = start(clock.give_to(options(&fleet)));
    let set_clocks = |seconds: f64| {
        fleet.registry.set_clock(seconds);
        clock.set((seconds * 1e3) as i64);
    };
    // The lease is renewed in the second half of its time, so it lasts longer than it did first.
    set_clocks(LATE_IN_A_LEASE);
    let late = "(extract(epoch FROM granted_until - clock_timestamp()) > 500)";
    eventually("a renewal", || fleet_column(&fleet, 0, late) == "true");
    // The next renewal shows that the program has received the answer.
    let renewed_at = fleet_column(&fleet, 0, "renewed_at");
    eventually("the next renewal", || fleet_column(&fleet, 0, "renewed_at") != renewed_at);
    fleet.registry.stop_server("immediate");
    eventually("a failed renewal", || program.problem());
    set_clocks(AFTER_THE_LEASE);
    let mut all: Vec<i64> = (0..200).map(|_| program.next_id().unwrap()).collect();
    set_clocks(2.0 * AFTER_THE_LEASE);
    let mut error = program.next_id().unwrap_err();
    for _ in 0..100 {
        assert!(matches!(&error, Error::LeaseEnded { why: Some(_) }), "{error:?}");
        error = program.next_id().unwrap_err();
    }
    assert!(program.problem().is_some());
    let waited = tokio::time::Instant::now();
    assert!(program.next_id_or_wait().wait().is_err());
    let waited = waited.elapsed();
    assert!(waited > Duration::from_millis(1_500), "{waited:?}");
    assert_within(SLACK, waited, "a call that may wait for 2 s");
    fleet.registry.start_server();
    fleet.registry.connect().run("SELECT snowflake_registry.end_quarantine()");
    all.push(eventually("an ID", || program.next_id().ok()));
    assert_increasing(&all);
    program.close().wait();
}

/// Another process renews the lease. The program stops at once, even if there is no other worker ID.
#[test]
fn a_program_with_a_twin() {
    let fleet = registry(&format!("{LEASES}, last_worker => 0"));
    let program = start(options(&fleet));
    let mut all = vec![program.next_id().unwrap()];
    let mut client = fleet.registry.connect();
    client.run("UPDATE snowflake_registry.lease SET nonce = gen_random_uuid()");
    let error = eventually("the refusal", || match program.next_id() {
        Ok(id) => {
            all.push(id);
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(error, Error::NoLease { .. }), "{error:?}");
    assert_eq!(program.identity(), None);
    client.run("SELECT snowflake_registry.configure(last_worker => 1, none_by_hand => true)");
    all.push(eventually("an ID", || program.next_id().ok()));
    assert_eq!(program.identity().unwrap().worker, 1);
    assert_distinct(&all);
    // The original is not released by the program that was refused.
    program.close().wait();
    assert_eq!(fleet_column(&fleet, 0, "state"), "held");
}

/// A registry of another version, or an impostor. A lease and a range without a signature are not used.
#[test]
fn a_registry_that_signs_nothing() {
    let fleet = registry(LEASES);
    let mut client = fleet.registry.connect();
    client.run("SELECT snowflake_registry.create_segment('orders')");
    client.run(
        "CREATE OR REPLACE FUNCTION snowflake_registry.becomes_durable(seen pg_lsn) RETURNS boolean LANGUAGE sql
         RETURN false",
    );
    refused(options(&fleet), "the grant is not durable yet");
    let program = start(options(&fleet).numbers_only());
    let error = program.segment("orders").next_number().wait().unwrap_err();
    assert!(error.to_string().contains("the grant is not durable yet"), "{error}");
    program.close().wait();
}

/// The administrator revokes the lease: the program exchanges its worker ID without an error.
#[test]
fn a_lease_is_revoked() {
    let fleet = registry(LEASES);
    let program = start(options(&fleet));
    let first = program.identity();
    fleet.revoke_lease(0);
    let mut all = vec![];
    eventually("another worker ID", || {
        (0..1_000).for_each(|_| all.push(program.next_id().unwrap()));
        program.identity().filter(|identity| Some(*identity) != first)
    });
    (0..1_000).for_each(|_| all.push(program.next_id().unwrap()));
    assert_increasing(&all);
    program.close().wait();
    // The revoked lease ends at its end.
    assert_eq!(fleet_column(&fleet, 0, "state"), "ending");
}

/// The commit waits for a standby in vain, and the wait is cut short: the answer does not count.
#[test]
fn a_program_is_granted_a_lease_with_a_warning() {
    let fleet = registry(LEASES);
    fleet.registry.change("synchronous_standby_names", "standby");
    let (options, mut registry) = (options(&fleet), fleet.registry.connect());
    let starting = thread::spawn(move || start(options));
    for _ in 0..2 {
        let pid = eventually("a commit that waits", || waiting_commits(&mut registry).first().copied());
        assert!(!starting.is_finished());
        registry.execute("SELECT pg_cancel_backend($1)", &[&pid]).unwrap();
        eventually("the warning", || waiting_commits(&mut registry).is_empty().then_some(()));
    }
    fleet.registry.change("synchronous_standby_names", "");
    let program = starting.join().unwrap();
    assert_eq!(grants(&fleet), 1);
    program.next_id().unwrap();
    program.close().wait();
}

#[test]
fn options_and_refusals() {
    let fleet = registry("last_worker => 0");
    let error = refusal(Options::new("nonsense=1"));
    assert!(matches!(error, Error::Options(_)), "{error:?}");
    let wide = options(&fleet).datacenter(1);
    assert!(matches!(refusal(wide), Error::Options(_)));
    let program = start(options(&fleet).numbers_only());
    assert!(matches!(program.next_id(), Err(Error::NoLease { why: Some(_) })));
    program.close().wait();
    let program = start(options(&fleet));
    refused(options(&fleet), "all worker IDs are taken");
    program.close().wait();
    start(options(&fleet)).close().wait();
}
