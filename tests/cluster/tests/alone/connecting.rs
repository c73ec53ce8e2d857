//! How long a server takes to reach the second host of a list when the first is of no use.

use std::fs;
use std::time::{Duration, Instant};

use harness::network::{Fault, Proxy, unused_port};
use harness::*;

/// The server asks a host before the right one. That host refuses, says nothing, or is a standby.
#[test]
fn the_registry_is_the_second_of_the_hosts() {
    let fleet = Fleet::start(HALF_MINUTE_LEASES);
    let standby = fleet.registry.start_standby(&[]);
    let (dead, right) = (Proxy::to(&fleet.registry), Proxy::to(&fleet.registry));
    dead.set_fault(Fault::Silence);
    let to_standby = Proxy::to(&standby);
    let cases = [
        ("refuses", unused_port(), "", 4),
        ("says nothing", dead.port(), "", 10),
        ("says nothing, for a short time", dead.port(), "connect_timeout=2", 7),
        ("standby", to_standby.port(), "", 4),
    ];
    let servers: Vec<Cluster> = cases
        .iter()
        .map(|(case, first, options, _)| {
            let hosts = format!("host=127.0.0.1,127.0.0.1 port={first},{}", right.port());
            let string = format!("{hosts} user=fleet dbname=postgres {options}");
            fleet.server_by(string).set("cluster_name", case).set("snowflake_id.node_name", case).start()
        })
        .collect();
    for ((case, .., seconds), server) in cases.iter().zip(&servers) {
        server.stop_server("fast");
        fs::remove_file(server.data_dir().join("snowflake_id.lease")).unwrap_or_default();
        let start = Instant::now();
        server.start_server();
        leased_worker(server);
        let time = start.elapsed();
        println!("{case}: first ID after {time:?}");
        assert!(time < Duration::from_secs(*seconds), "{case}: {time:?}");
    }
    // The reasons for which no host can be used.
    let any_session = format!("{} target_session_attrs=any", to_standby.connection_string());
    let refused = format!("host=127.0.0.1 port={} user=fleet dbname=postgres", unused_port());
    for (string, reason) in [
        (to_standby.connection_string(), "session is read-only"),
        (any_session, "cannot use the registry on a standby"),
        (refused, "Connection refused"),
    ] {
        let lost = fleet.server_by(string).start();
        wait_for_error(&lost, reason);
    }
}
