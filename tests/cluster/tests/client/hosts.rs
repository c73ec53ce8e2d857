//! A program finds its registry in a list of hosts.

use std::time::Duration;

use harness::network::{Fault, Proxy, unused_port};
use harness::*;

use super::program::*;

/// The program asks a host before the right one. That host refuses, says nothing, or is a standby. The hosts have names
/// or only addresses.
#[test]
fn the_registry_is_the_second_of_the_hosts() {
    let fleet = registry(LEASES);
    let standby = fleet.registry.start_standby(&[]);
    let (dead, to_standby, right) =
        (Proxy::to(&fleet.registry), Proxy::to(&standby), Proxy::to(&fleet.registry));
    dead.set_fault(Fault::Silence);
    let lease = |hosts: &str| {
        let made = right.made();
        let program = start(Options::new(&format!("{hosts} user=fleet dbname=postgres connect_timeout=2")));
        program.next_id().unwrap();
        program.close().wait();
        assert!(right.made() > made, "{hosts}");
    };
    for keyword in ["host", "hostaddr"] {
        lease(&format!("{keyword}=127.0.0.1 port={}", right.port()));
        for first in [unused_port(), dead.port(), to_standby.port()] {
            lease(&format!("{keyword}=127.0.0.1,127.0.0.1 port={first},{}", right.port()));
        }
        let hosts = format!("{keyword}=127.0.0.1,127.0.0.1 port={},{}", to_standby.port(), right.port());
        lease(&format!("{hosts} target_session_attrs=read-write"));
    }
    assert!(dead.made() > 0 && to_standby.made() > 0, "the other host came first");
    // The reasons for which no host can be used.
    for (string, said) in [
        (to_standby.connection_string(), "cannot use the registry on a standby"),
        (
            format!("{} target_session_attrs=read-write", to_standby.connection_string()),
            "the server does not accept writes",
        ),
        (format!("{} connect_timeout=2", dead.connection_string()), "no reply within 2s"),
        (format!("host=127.0.0.1 port={} user=fleet", unused_port()), "Connection refused"),
    ] {
        all_arrive(said, || {
            let options = Options::new(&string).start_within(Duration::from_secs(4));
            let error = Program::start(options).wait().err().expect("an error");
            if error.to_string().contains(said) { Ok(()) } else { Err(error) }
        });
    }
}
