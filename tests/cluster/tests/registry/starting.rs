//! How a fleet is started, ended and started again.

use harness::*;

use super::member::{Member, granted, state};
use super::taker::administer;

fn not_started() -> (Cluster, Client) {
    let cluster = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    let client = cluster.connect();
    (cluster, client)
}

/// Until the given time another registry grants the same worker IDs.
#[test]
fn a_fleet_that_was_ended_begins_no_earlier() {
    let (_cluster, mut client) = not_started();
    administer(
        &mut client,
        "start_fleet(0, 1023, not_before => clock_timestamp() + '1 hour', first_start => true)",
    );
    for again in [&["start_fleet(first_start => true)"][..], &["quarantine()", "end_quarantine()"]] {
        administer(&mut client, "end_fleet()");
        assert_eq!(state(&mut client), "not started");
        for call in again {
            administer(&mut client, call);
        }
        assert_eq!(state(&mut client), "ready");
        let answer = Member::new().acquire(&mut client, 1024).unwrap();
        assert_eq!(answer.outcome, "taken", "{again:?} {answer:?}");
        assert!(answer.detail.unwrap().contains("grants no range that starts before"));
    }
}

/// A worker ID that is reserved before the start has not been granted.
#[test]
fn worker_ids_are_reserved_before_the_start() {
    let (_cluster, mut client) = not_started();
    administer(&mut client, "reserve(0)");
    administer(&mut client, "start_fleet(0, 1023, first_start => true)");
    let mut member = granted(&mut client);
    assert_eq!(member.renew(&mut client).unwrap().worker, Some(1));
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.start_fleet()");
    assert_eq!(code, "55000");
    assert!(said.contains("The fleet is started. To add a server: "), "{said}");
}
