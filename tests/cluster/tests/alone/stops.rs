//! Faults between a server and its registry do not delay a fast stop.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};

use harness::network::{Fault, Network, Proxy};
use harness::*;

use crate::fleet::connecting::start_with_file;

/// The longest time that a fast stop may take.
const AT_ONCE: Duration = Duration::from_secs(2);

/// The registry accepts connections but says nothing, does not reply, or replies late.
#[test]
fn a_silent_registry() {
    let fleet = Fleet::start("lease => '10min', renew_every => '300ms'");
    let proxy = Proxy::to(&fleet.registry);
    let server = fleet.server_by(proxy.connection_string()).start();
    leased_worker(&server);
    for fault in [Fault::Silence, Fault::NoAnswer, Fault::Delay(Duration::from_secs(5))] {
        let made = proxy.made();
        proxy.set_fault(fault);
        eventually("a connection that hangs", || proxy.made() > made && proxy.open() > 0);
        assert!(time_to_stop(&server) < AT_ONCE, "{fault:?}:\n{}", server.log());
        proxy.set_fault(Fault::None);
        server.start_server();
        assert_renewed(&server);
    }
}

/// All packets to the registry are lost.
#[test]
fn a_registry_behind_a_black_hole() {
    let needed = "a network of its own (run as root, with iproute2)";
    let Some(network) = needs(needed, Network::make()) else { return };
    let registry = Cluster::builder().stopped();
    network.start_server(&registry);
    let fleet = Fleet::on(registry, "lease => '10min', renew_every => '300ms'");
    let server = fleet.server_by(format!("host={} user=fleet dbname=postgres", network.address())).start();
    assert_renewed(&server);
    network.lose_all();
    wait_for_registry_state(&server, "unreachable");
    assert!(time_to_stop(&server) < AT_ONCE, "{}", server.log());
}

/// The connection string determines how long a host may be silent before the next host is asked.
#[test]
fn the_connection_string_bounds_the_wait_for_a_host() {
    let fleet = Fleet::start(SHORT_LEASES);
    let (dead, right) = (Proxy::to(&fleet.registry), Proxy::to(&fleet.registry));
    dead.set_fault(Fault::Silence);
    let ports = format!("port={},{}", dead.port(), right.port());
    let hosts = format!("host=127.0.0.1,127.0.0.1 {ports} user=fleet dbname=postgres connect_timeout=2");
    let start = Instant::now();
    leased_worker(&fleet.server_by(hosts).start());
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert!(dead.made() > 0, "the other host came first");
}

/// The name server does not answer, and a name lookup cannot be interrupted. The other hosts of the list are asked all
/// the same.
#[test]
fn the_name_server_says_nothing() {
    let address = Ipv4Addr::new(127, 53, (std::process::id() >> 8) as u8, std::process::id() as u8);
    let name_server = UdpSocket::bind((address, 53));
    let Some(name_server) = needs("port 53 (run as root)", name_server) else { return };
    let start_with = |server: &Cluster| {
        let started = start_with_file(server, "/etc/resolv.conf", &format!("nameserver {address}\n"));
        needs("a file system of its own (run as root)", started)?;
        server.connect().run("CREATE EXTENSION snowflake_id");
        Some(())
    };
    let ask = |wait: Duration| {
        name_server.set_read_timeout(Some(wait)).unwrap();
        name_server.recv(&mut [0; 512])
    };
    let forget = || while ask(Duration::from_millis(1)).is_ok() {};
    let fleet = Fleet::start(HALF_MINUTE_LEASES);
    let server = fleet.server_by("host=registry.example user=fleet").stopped();
    let Some(()) = start_with(&server) else { return };
    wait_for_error(&server, "could not translate host name");
    forget();
    ask(TIMEOUT).unwrap();
    assert!(time_to_stop(&server) < AT_ONCE, "{}", server.log());

    let socket = fleet.registry.host().display();
    let server = fleet.server_by(format!("host=registry.example,{socket} user=fleet dbname=postgres"));
    let server = server.stopped();
    let Some(()) = start_with(&server) else { return };
    leased_worker(&server);
    forget();
    let start = Instant::now();
    for _ in 0..4 {
        assert_renewed(&server);
    }
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    assert!(ask(Duration::from_millis(1)).is_err(), "the host with the name is asked first again");
}
