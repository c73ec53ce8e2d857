//! A registry and its servers have different versions, so that one does not know the protocol of the other. The server
//! uses what it has to its end, shows which of the two is too old, and continues after the update. No ID and no number
//! is repeated.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use harness::segments::{refusal, segment_state, some_at_last, wait_until_issued};
use harness::versions::{BEFORE, CURRENT, Installation, NEXT};
use harness::*;

use crate::client::program::{self, Wait};

/// A registry of this version on a server, with a segment of small ranges.
fn start_registry(installation: &Installation, version: &str, lease: &str) -> Cluster {
    let registry = installation.server().clock().extensions(&[]).start();
    let mut client = registry.connect();
    client.run(&format!(
        "CREATE ROLE fleet LOGIN;
         CREATE EXTENSION snowflake_id_registry VERSION '{version}';
         SELECT snowflake_registry.start_fleet(0, 1023, first_start => true);
         SELECT snowflake_registry.configure({lease});
         SELECT snowflake_registry.create_segment('orders', min_step => 50, max_step => 50);
         GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
         GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew, snowflake_registry.release,
             snowflake_registry.take TO fleet;"
    ));
    registry
}

fn server_of(registry: &Cluster) -> Builder {
    let server = Cluster::builder().preload().set("snowflake_id.max_wait", "20s");
    server.short_horizon().set("snowflake_id.registry", registry.connection_string("fleet"))
}

/// Makes the registry know only these protocols.
fn know_only(registry: &Cluster, lowest: i32, highest: i32) {
    registry.connect().run(&format!(
        "CREATE OR REPLACE FUNCTION snowflake_registry.protocols(OUT lowest int, OUT highest int)
         IMMUTABLE PARALLEL SAFE LANGUAGE sql RETURN ({lowest}, {highest})"
    ));
}

/// The servers are installed first. They get worker IDs and numbers when the registry has been updated.
#[test]
fn the_registry_is_updated_after_its_servers() {
    let installation = Installation::copy();
    installation.add_version_before();
    let registry = start_registry(&installation, BEFORE, program::LEASES);
    let servers = [server_of(&registry).start(), server_of(&registry).start()];
    for server in &servers {
        wait_for_registry_state(server, "registry too old");
        let why = wait_for_error(server, "the registry is too old for this server");
        assert!(
            why.contains(
                "install the newer version there, and run ALTER EXTENSION snowflake_id_registry UPDATE"
            ),
            "{why}"
        );
        assert!(why.contains("the request has protocol 1, and the registry knows protocols 0 to 0"), "{why}");
        let mut client = server.connect();
        let (state, text) = failure(&mut client, "SELECT snowflake_nextval()");
        assert_eq!(state, "55000", "{text}");
        assert!(text.contains("\"registry too old\""), "{text}");
        let (state, text) = refusal(&mut client, "orders");
        assert_eq!(state, "55000", "{text}");
        assert!(text.contains("the registry of segments has another version than this server"), "{text}");
        assert!(text.contains("The registry is too old for this server"), "{text}");
        assert_eq!(segment_state(&mut client, "orders"), "registry too old");
    }
    registry.connect().run("ALTER EXTENSION snowflake_id_registry UPDATE");
    let all: Vec<_> = servers.iter().flat_map(some_ids).collect();
    assert_distinct(&all);
    let numbers: Vec<_> = servers
        .iter()
        .flat_map(|server| ids(&mut server.connect(), "SELECT snowflake_segment_batch('orders', 200)"))
        .collect();
    assert_distinct(&numbers);
    assert_ne!(leased_worker(&servers[0]), leased_worker(&servers[1]));
}

/// The registry is updated first, under load. The servers, which have the older version, notice nothing.
#[test]
fn the_registry_is_updated_before_its_servers() {
    let installation = Installation::copy();
    let registry = start_registry(&installation, CURRENT, program::LEASES);
    installation.install_next();
    let servers = [server_of(&registry).start(), server_of(&registry).start()];
    let workers: Vec<_> = servers.iter().map(leased_worker).collect();
    let takers = servers.iter().flat_map(|server| {
        let numbers = Taker {
            queries: vec!["SELECT snowflake_segment_batch('orders', 50)".into()],
            pause: Duration::from_millis(20),
            ..Taker::of(server)
        };
        [(false, Taker::of(server)), (true, numbers)]
    });
    let clients = takers.map(|(is_numbers, taker)| move |stop: &AtomicBool| (is_numbers, taker.take(stop)));
    let numbers_are_taken = || servers.iter().for_each(|server| wait_until_issued(server, 100));
    let (taken, ()) = beside(clients, || {
        numbers_are_taken();
        registry.connect().run("ALTER EXTENSION snowflake_id_registry UPDATE");
        servers.iter().for_each(assert_renewed);
        servers.iter().for_each(assert_renewed);
        numbers_are_taken();
    });
    let of = |wanted: bool| -> Vec<i64> {
        taken.iter().filter(|(is, _)| *is == wanted).flat_map(|(_, all)| all.clone()).collect()
    };
    assert_distinct(&of(false));
    assert_distinct(&of(true));
    assert_eq!(servers.iter().map(leased_worker).collect::<Vec<_>>(), workers);
    let version = "SELECT extversion FROM pg_extension WHERE extname = 'snowflake_id_registry'";
    assert_eq!(single::<String>(&mut registry.connect(), version), NEXT);
}

/// The registry no longer knows the protocol of a server that has a lease, and then knows it again. The server uses the
/// lease and its numbers to their end.
#[test]
fn a_server_becomes_too_old() {
    let installation = Installation::copy();
    let registry = start_registry(&installation, CURRENT, program::LEASES);
    let server = server_of(&registry).clock().set("snowflake_id.max_clock_jump", "1h").start();
    let worker = leased_worker(&server);
    let mut client = server.connect();
    let mut numbers = ids(&mut client, "SELECT snowflake_segment_batch('orders', 10)");
    know_only(&registry, 2, 3);
    wait_for_registry_state(&server, "server too old");
    let why = wait_for_error(&server, "this server is too old for the registry");
    assert!(why.contains("the request has protocol 1, and the registry knows protocols 2 to 3"), "{why}");
    let mut all = some_ids(&server);
    assert_eq!(leased_worker(&server), worker);
    server.restart("fast");
    let mut client = server.connect();
    all.extend(some_ids(&server));
    assert_eq!(leased_worker(&server), worker);
    [&registry, &server].into_iter().for_each(|cluster| cluster.set_clock(700.0));
    wait_for_end_of_lease(&mut client);
    assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000");
    let (state, text) = refusal(&mut client, "orders");
    assert_eq!(state, "55000", "{text}");
    assert!(text.contains("This server is too old for the registry"), "{text}");
    assert_eq!(segment_state(&mut client, "orders"), "server too old");
    know_only(&registry, 1, 3);
    all.extend(some_ids(&server));
    numbers.extend(some_at_last(&server, "orders", 200));
    assert_distinct(&all);
    assert_increasing(&numbers);
}

/// A program is refused in the same way, and uses its lease to its end.
#[test]
fn a_program_becomes_too_old() {
    let installation = Installation::copy();
    let registry = start_registry(&installation, CURRENT, program::LEASES);
    let clock = program::SetClock::default();
    let options = || clock.give_to(program::Options::new(&registry.connection_string("fleet")));
    let program = program::start(options());
    let mut all = vec![program.next_id().unwrap()];
    let mut numbers = vec![program.segment("orders").next_number().wait().unwrap()];
    know_only(&registry, 2, 2);
    let too_old = "this program is too old for the registry: build it with the newer version of snowflake-id-client (the request has protocol 1, and the registry knows protocols 2 to 2)";
    eventually("the refusal", || program.problem().is_some_and(|problem| problem.contains(too_old)));
    all.push(program.next_id().unwrap());
    registry.set_clock(700.0);
    clock.set(700_000);
    eventually("the end of the lease", || program.next_id().map(|id| all.push(id)).is_err());
    let error = program::refusal(options());
    assert!(error.to_string().contains(too_old), "{error}");
    let error =
        eventually("the end of the numbers", || match program.segment("orders").next_number().wait() {
            Ok(number) => {
                numbers.push(number);
                None
            }
            Err(error) => Some(error),
        });
    assert!(error.to_string().contains(too_old), "{error}");
    know_only(&registry, 1, 2);
    all.push(eventually("an ID", || program.next_id()));
    numbers.push(eventually("a number", || program.segment("orders").next_number().wait()));
    assert_distinct(&all);
    assert_increasing(&numbers);
    program.close().wait();
}
