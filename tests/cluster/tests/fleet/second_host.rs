//! A server reaches the second host of a list when the first is of no use.

use harness::network::{Fault, Proxy, unused_port};
use harness::*;

/// With `load_balance_hosts=random`, each host comes first at times.
#[test]
fn the_hosts_are_in_random_order() {
    if major(&pg_config()) < 16 {
        return; // libpq does not have the option.
    }
    let fleet = Fleet::start("lease => '10min', renew_every => '100ms'");
    let (first, second) = (Proxy::to(&fleet.registry), Proxy::to(&fleet.registry));
    let hosts = format!("host=127.0.0.1,127.0.0.1 port={},{}", first.port(), second.port());
    let string = format!("{hosts} user=fleet dbname=postgres load_balance_hosts=random");
    let _server = fleet.server_by(string).start();
    eventually("connections to both hosts", || first.made() > 1 && second.made() > 1);
}

/// The server asks a host before the right one. That host refuses, says nothing, or is a standby.
#[test]
fn the_registry_is_the_second_of_the_hosts() {
    let fleet = Fleet::start("lease => '10min', renew_every => '500ms'");
    let standby = fleet.registry.start_standby(&[]);
    let (dead, right) = (Proxy::to(&fleet.registry), Proxy::to(&fleet.registry));
    dead.set_fault(Fault::Silence);
    let to_standby = Proxy::to(&standby);
    let after = |first: u16| {
        let hosts = format!("host=127.0.0.1,127.0.0.1 port={first},{}", right.port());
        format!("{hosts} user=fleet dbname=postgres connect_timeout=2")
    };
    let server = fleet.server_by(after(dead.port())).start();
    leased_worker(&server);
    assert!(dead.made() > 0, "the other host came first");
    for first in [unused_port(), to_standby.port()] {
        server.change("snowflake_id.registry", &after(first));
        let made = right.made();
        eventually("a connection to the second host", || right.made() > made);
        assert_renewed(&server);
    }
    assert!(to_standby.made() > 0, "the other host came first");
    // The reasons for which no host can be used. The time limit of a host is 5 s, or that of the connection string.
    for (string, reason) in [
        (to_standby.connection_string(), "session is read-only"),
        (
            format!("{} target_session_attrs=any", to_standby.connection_string()),
            "cannot use the registry on a standby",
        ),
        (format!("host=127.0.0.1 port={} user=fleet dbname=postgres", unused_port()), "Connection refused"),
        (format!("{} connect_timeout=2", dead.connection_string()), "within 2 s"),
        (dead.connection_string(), "within 5 s"),
    ] {
        server.change("snowflake_id.registry", &string);
        wait_for_error(&server, reason);
    }
}
