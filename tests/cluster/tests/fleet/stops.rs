//! Faults between a server and its registry do not delay a fast stop.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use harness::network::{Fault, Network, Proxy};
use harness::*;

use super::connecting::start_with_file;

const LEASES: &str = "lease => '10min', renew_every => '300ms'";

/// Stops a server that waits for its registry, and that would otherwise wait for at least 15 s.
#[track_caller]
fn assert_stops(server: &Cluster, fault: &str) {
    assert_within(Duration::from_secs(10), time_to_stop(server), format!("{fault}: a stop"));
}

/// The registry accepts connections but says nothing, does not reply, or replies late.
#[test]
fn a_silent_registry() {
    let fleet = Fleet::start(LEASES);
    let proxy = Proxy::to(&fleet.registry);
    let server = fleet.server_by(format!("{} connect_timeout=60", proxy.connection_string())).start();
    leased_worker(&server);
    for fault in [Fault::Silence, Fault::NoAnswer, Fault::Delay(TIMEOUT)] {
        let made = proxy.made();
        proxy.set_fault(fault);
        eventually("a connection that hangs", || proxy.made() > made && proxy.open() > 0);
        assert_stops(&server, &format!("{fault:?}"));
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
    let fleet = Fleet::on(registry, LEASES);
    let string = format!("host={} user=fleet dbname=postgres connect_timeout=60", network.address());
    let server = fleet.server_by(string).start();
    assert_renewed(&server);
    network.lose_all();
    eventually("an attempt to connect", || is_connecting_to(network.address()));
    assert_stops(&server, "a black hole");
}

/// Whether a process has sent the first packet of a connection to this address, and received none.
fn is_connecting_to(address: Ipv4Addr) -> bool {
    let remote = format!("{:08X}:", u32::from_ne_bytes(address.octets()));
    let connections = fs::read_to_string("/proc/net/tcp").unwrap();
    connections.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[2].starts_with(&remote) && fields[3] == "02"
    })
}

/// The name server does not answer, and a name lookup cannot be interrupted. The other hosts of the list are asked all
/// the same.
#[test]
fn the_name_server_says_nothing() {
    let address = Ipv4Addr::new(127, 53, (std::process::id() >> 8) as u8, std::process::id() as u8);
    let name_server = UdpSocket::bind((address, 53));
    let Some(name_server) = needs("port 53 (run as root)", name_server) else { return };
    let start_with = |server: &Cluster, seconds: u32| {
        let text = format!("nameserver {address}\noptions timeout:{seconds} attempts:1\n");
        let started = start_with_file(server, "/etc/resolv.conf", &text);
        needs("a file system of its own (run as root)", started)?;
        server.connect().run("CREATE EXTENSION snowflake_id");
        Some(())
    };
    let ask = |wait: Duration| {
        name_server.set_read_timeout(Some(wait)).unwrap();
        name_server.recv(&mut [0; 512])
    };
    let forget = || while ask(Duration::from_millis(1)).is_ok() {};
    let fleet = Fleet::start(LEASES);
    let server = fleet.server_by("host=registry.example user=fleet").stopped();
    let Some(()) = start_with(&server, 30) else { return };
    ask(TIMEOUT).unwrap();
    assert_stops(&server, "a lookup");

    // A lookup takes longer than the time limit of a host, so the server asks the host with the name last from then on.
    let socket = fleet.registry.host().display();
    let hosts = format!("host=registry.example,{socket} user=fleet dbname=postgres connect_timeout=2");
    let server = fleet.server_by(hosts).stopped();
    let Some(()) = start_with(&server, 3) else { return };
    leased_worker(&server);
    forget();
    for _ in 0..4 {
        assert_renewed(&server);
    }
    assert!(ask(Duration::from_millis(1)).is_err(), "the host with the name is asked first again");
    // Without another host, the error names the cause.
    server.change("snowflake_id.registry", "host=registry.example user=fleet");
    wait_for_error(&server, "could not translate host name");
}
