//! A registry whose administrator has guaranteed that no failover loses commits.

use harness::*;

use super::member::{Member, granted, reason, sqlstate};
use super::taker::administer;

/// The last renewal is old when the server is started, so the disk may be old too. A lock, such as that of a VACUUM,
/// prevents the registry from recording that. A renewal after the start does not make the old one recent.
#[test]
fn a_renewal_since_the_start_is_not_fresh() {
    let cluster = super::member::start(Cluster::builder());
    let mut client = cluster.connect();
    administer(&mut client, "configure(synchronous => true, renew_every => '100ms')");
    let mut member = granted(&mut client);
    drop(client);
    cluster.stop_server("fast");
    cluster.start_server();
    let mut client = cluster.connect();
    let is_old = "SELECT clock_timestamp() - max(renewed_at) > '300ms' FROM snowflake_registry.fleet";
    eventually("the renewal to be old", || single::<bool>(&mut client, is_old));
    let mut vacuum = cluster.connect();
    vacuum.run("BEGIN; LOCK TABLE snowflake_registry.settings IN SHARE UPDATE EXCLUSIVE MODE");
    // The server may have to ask again.
    let first = member.renew(&mut client).map_err(|error| sqlstate(&error).to_owned());
    vacuum.run("COMMIT");
    assert_eq!(Member::new().acquire(&mut client, 1024).unwrap().outcome, "taken", "{first:?}");
    assert!(reason(&mut client).contains("was started at"));
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
}
