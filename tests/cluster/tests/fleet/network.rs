//! Network failures of all kinds between a server and its registry. IDs continue to the end of the lease, none is
//! repeated, nothing hangs, and everything resumes by itself.

use std::thread;
use std::time::{Duration, Instant};

use harness::network::{Fault, Network, Proxy};
use harness::*;

const NETWORK: &str = "a network of its own (run as root, with iproute2)";

/// Between renewals no server is connected to the registry. It is killed and started again.
#[test]
fn the_registry_is_killed() {
    let fleet = Fleet::start("lease => '10min', renew_every => '1s'");
    let server = fleet.server().start();
    create_orders(&server);
    let worker = leased_worker(&server);
    let mut registry = fleet.registry.connect();
    assert_renewed(&server);
    eventually("the end of the connection", || fleet_connections(&mut registry) == 0);
    drop(registry);
    let (handed_out, ()) = under_load(&server, || {
        for mode in ["immediate", "fast"] {
            fleet.registry.stop_server(mode);
            wait_for_registry_state(&server, "unreachable");
            fleet.registry.start_server();
            assert_renewed(&server);
        }
    });
    assert_distinct(&handed_out.all());
    assert_eq!(leased_worker(&server), worker);
    assert_eq!(grants(&fleet), 1);
}

/// Packets between server and registry are lost silently.
#[test]
fn all_packets_are_lost() {
    let Some(network) = needs(NETWORK, Network::make()) else { return };
    let registry = Cluster::builder().clock().stopped();
    network.start_server(&registry);
    let fleet = Fleet::on(registry, LASTING_LEASES);
    let string = format!("host={} user=fleet dbname=postgres connect_timeout=2", network.address());
    let server = fleet.server_by(string).following_clock().start();
    create_orders(&server);
    let worker = leased_worker(&server);
    assert_renewed(&server);
    let (handed_out, ()) = under_load(&server, || {
        network.lose_all();
        // A stop does not wait for the network, whatever the worker is doing.
        wait_for_registry_state(&server, "unreachable");
    });
    let mut all = handed_out.all();
    assert_within(SLACK, time_to_stop(&server), server.log());
    server.start_server();
    // Without a reply the server continues under the lease in its file.
    let start = Instant::now();
    assert_eq!(leased_worker(&server), worker);
    println!("first ID after {:?}", start.elapsed());
    let mut client = server.connect();
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    // Until the lease ends, calls succeed. No ID is from a later time.
    server.set_clock(lease_left(&mut client).as_secs_f64() - 1.0);
    eventually("the end of the lease", || match client.query_one("SELECT snowflake_nextval()", &[]) {
        Ok(row) => {
            all.push(row.get(0));
            false
        }
        Err(error) => {
            assert_eq!(error.code().unwrap().code(), "55000");
            true
        }
    });
    assert_eq!(shown(&mut client, "state").as_deref(), Some("lease ended"));
    let last = all.iter().max().unwrap();
    assert!(status::<bool>(&mut client, &format!("snowflake_timestamp({last}) < lease_until")));
    set_clocks([&server, &fleet.registry], AFTER_THE_LEASE);
    network.mend();
    assert_eq!(leased_worker(&server), worker);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_distinct(&all);
    // The worker is waiting for a reply.
    let hold = hold_up(&fleet);
    eventually("the worker to wait", || fleet_connections(&mut fleet.registry.connect()) > 0);
    network.lose_all();
    assert_within(SLACK, time_to_stop(&server), server.log());
    drop(hold);
}

/// The registry takes 2 s for each reply, which is fast enough.
#[test]
fn each_answer_takes_2_seconds() {
    let fleet = Fleet::start(LASTING_LEASES);
    let proxy = Proxy::to(&fleet.registry);
    let server = fleet.server_by(proxy.connection_string()).start();
    leased_worker(&server);
    proxy.set_fault(Fault::Delay(Duration::from_secs(2)));
    let mut client = server.connect();
    let first = shown(&mut client, "lease_renewed_at");
    let mut renewals = std::collections::BTreeSet::new();
    // One renewal may have started before the delay.
    eventually("two renewals", || {
        assert!(lease_left(&mut client) > Duration::from_secs(300));
        renewals.extend(shown(&mut client, "lease_renewed_at").filter(|at| Some(at) != first.as_ref()));
        assert_eq!(shown(&mut client, "warning"), None);
        renewals.len() > 2
    });
    assert!(proxy.open() <= 1);
    assert_within(SLACK, time_to_stop(&server), server.log());
}

/// Connections are cut in the middle of a reply, and replies are lost: the registry has granted the same lease
/// repeatedly.
#[test]
fn answers_are_lost() {
    let fleet = Fleet::start("lease => '10min', renew_every => '200ms'");
    let proxy = Proxy::to(&fleet.registry);
    proxy.set_fault(Fault::CutAfterQuery);
    let server = fleet.server_by(proxy.connection_string()).start();
    let mut faults: Vec<Fault> = vec![Fault::CutAfterQuery, Fault::Garbage, Fault::GarbageAtOnce];
    // Replies are cut at several places. A complete reply ends with CommandComplete and ReadyForQuery.
    faults.extend((1..800).step_by(97).map(Fault::CutAnswer));
    let mut client = server.connect();
    let mut has_lease = false;
    let mut all = vec![];
    for turn in 0..2 {
        for &fault in &faults {
            proxy.set_fault(fault);
            for _ in 0..2 {
                let made = proxy.made();
                ask_now(&server, &proxy.connection_string());
                eventually("a question", || proxy.made() > made);
            }
            if !has_lease && shown(&mut client, "lease_until").is_some() {
                println!("turn {turn}: a lease under {fault:?}");
                has_lease = true;
            }
            if has_lease {
                all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
            }
            assert!(grants(&fleet) <= 1, "{fault:?}");
        }
        proxy.set_fault(Fault::None);
        assert_renewed(&server);
        has_lease = true;
    }
    assert_eq!(grants(&fleet), 1);
    // After all that, the registry still recognizes the server.
    assert!(!server.log().contains("does not know the lease"), "{}", server.log());
    proxy.set_fault(Fault::NoAnswer);
    let made = proxy.made();
    eventually("a question without an answer", || proxy.made() > made);
    let renewed_at = shown(&mut client, "lease_renewed_at");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(shown(&mut client, "lease_renewed_at"), renewed_at);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_distinct(&all);
    assert_within(SLACK, time_to_stop(&server), server.log());
}

/// Blocks the registry's replies until the returned session is dropped.
fn hold_up(fleet: &Fleet) -> Client {
    let mut client = fleet.registry.connect();
    // A row lock would not be enough, because lock_timeout would end the wait for it.
    client.run("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(8); RETURN NEW; END';
             CREATE TRIGGER slow BEFORE UPDATE ON snowflake_registry.lease FOR EACH ROW EXECUTE FUNCTION slow();");
    client
}
