//! Calls in prepared transactions (two-phase commit) that are committed much later. Other calls wait until then, and
//! nothing is granted twice.

use harness::*;

use super::member::{Answer, Member, granted, sqlstate};
use super::taker::{Member as Taker, administer, start_with_fleet};

/// A registry whose clock can be set, with a segment from which others take.
fn registry() -> Cluster {
    start_with_fleet(Cluster::builder().set("max_prepared_transactions", 5).clock())
}

/// Lets hours pass and restarts the server.
fn three_hours_later(cluster: &Cluster) -> Client {
    cluster.set_clock(3.0 * 3_600.0);
    cluster.restart("immediate");
    cluster.connect()
}

/// Checks that a call failed because it waited too long for a lock.
fn assert_held_up(answer: Result<Answer, postgres::Error>) {
    let error = answer.expect_err("others were not held up");
    assert_eq!(sqlstate(&error), "55P03", "{}", text(&error));
}

#[test]
fn a_grant_that_is_committed_hours_later() {
    let cluster = registry();
    let mut client = cluster.connect();
    let mut holder = granted(&mut client);
    client.run("BEGIN");
    let mut late = Member::new();
    let answer = late.acquire(&mut client, 1024).unwrap();
    assert_eq!((answer.outcome.as_str(), answer.worker), ("granted", Some(1)));
    client.run("PREPARE TRANSACTION 'late'");
    assert_held_up(Member::new().acquire(&mut client, 1024));
    drop(client);
    let mut client = three_hours_later(&cluster);
    assert_held_up(holder.renew(&mut client));
    assert_eq!(failure(&mut client, "SELECT snowflake_registry.end_fleet()").0, "55P03");
    client.run("COMMIT PREPARED 'late'");
    // The quarantine after the start begins now: a lease that has ended is not renewed.
    assert_eq!(late.renew(&mut client).unwrap().outcome, "quarantine");
    assert_eq!(Member::new().acquire(&mut client, 1024).unwrap().outcome, "taken");
    administer(&mut client, "end_quarantine()");
    for _ in 0..2 {
        let after = Member::new().acquire(&mut client, 2).unwrap();
        assert_eq!(after.outcome, "granted", "{after:?}");
        assert!(after.worker != answer.worker || after.from >= answer.until);
    }
}

#[test]
fn a_renewal_and_a_range_that_are_committed_hours_later() {
    let cluster = registry();
    let mut client = cluster.connect();
    let mut holder = granted(&mut client);
    let mut other = granted(&mut client);
    client.run("BEGIN");
    let renewed = holder.renew(&mut client).unwrap();
    // A renewal is not signed before it is committed.
    assert!(!renewed.token.unwrap().contains(&renewed.until.unwrap().to_string()));
    let range = Taker::default().granted(&mut client, "orders");
    client.run("PREPARE TRANSACTION 'late'");
    // Other calls continue, except for functions that run alone and calls for this name.
    assert_eq!(other.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(failure(&mut client, "SELECT snowflake_registry.freeze()").0, "55P03");
    assert_eq!(Taker::default().take(&mut client, "orders").outcome, "busy");
    drop(client);
    let mut client = three_hours_later(&cluster);
    client.run("COMMIT PREPARED 'late'");
    let end = "SELECT (extract(epoch FROM snowflake_registry.freeze('2020-01-01')) * 1000000)::bigint";
    assert!(single::<i64>(&mut client, end) >= renewed.until.unwrap());
    administer(&mut client, "end_quarantine()");
    administer(&mut client, "unfreeze()");
    assert!(Taker::default().granted(&mut client, "orders").first.unwrap() > range.last());
}
