//! Requests of administrators in lost commits, while the restored registry has received other requests.

use harness::*;

use super::forgets::{report, set_back, token, with_copy};
use super::member::Member;
use super::taker::{Member as Taker, administer};

/// Shows a server's token to the registry. Returns up to when the registry is frozen after that.
fn show(client: &mut Client, holder: &mut Member, token: &str) -> String {
    holder.renew_and_show(client, &[token]).unwrap();
    single(client, "SELECT coalesce(frozen_until::text, '') FROM snowflake_registry.status")
}

/// A lost request is detected, however many other requests were made since.
#[test]
fn later_requests_do_not_hide_a_lost_one() {
    let (cluster, copy, mut holder) = with_copy();
    let mut client = cluster.connect();
    administer(&mut client, "reserve(7)");
    let of_first = token(&mut client, &mut holder);
    administer(&mut client, "reserve(6)");
    let of_second = token(&mut client, &mut holder);
    let mut client = set_back(cluster, &copy);
    holder.token = None;
    for worker in 8..12 {
        administer(&mut client, &format!("reserve({worker})"));
    }
    let of_others = token(&mut client, &mut holder);
    assert_eq!(show(&mut client, &mut holder, &of_others), "");
    for lost in [&of_second, &of_first] {
        assert_eq!(show(&mut client, &mut holder, lost), "infinity");
        client.run("SELECT snowflake_registry.unfreeze(), snowflake_registry.end_quarantine()");
    }
    // Known tokens prove nothing from now on.
    for token in [of_first, of_second, of_others] {
        assert_eq!(show(&mut client, &mut holder, &token), "");
        assert_eq!(super::member::state(&mut client), "ready");
    }
}

/// Another registry starts where the known freeze ends, so a lost freeze must not extend that.
#[test]
fn a_lost_freeze_extends_no_other() {
    let (cluster, copy, mut holder) = with_copy();
    let mut client = cluster.connect();
    administer(&mut client, "freeze()");
    let of_lost = token(&mut client, &mut holder);
    let mut client = set_back(cluster, &copy);
    holder.token = None;
    administer(&mut client, "freeze('2049-01-01 00:00:00+00')");
    let until = show(&mut client, &mut holder, &of_lost);
    assert!(until.starts_with("2049") || until.starts_with("2048"), "{until}");
}

/// A registry is set back, learns what it has lost, and is set back again at once, because an administrator restores a
/// backup a second time.
#[test]
fn what_was_told_can_be_told_again() {
    let (cluster, copy, mut holder) = with_copy();
    let other_copy = copy.duplicate();
    let mut client = cluster.connect();
    let mut taker = Taker::default();
    taker.granted(&mut client, "orders");
    taker.granted(&mut client, "orders");
    administer(&mut client, "freeze()");
    for _ in 0..2 {
        assert_eq!(holder.renew(&mut client).unwrap().outcome, "granted");
    }
    let mut client = set_back(cluster, &copy);
    let frozen = "SELECT frozen_until IS NOT NULL FROM snowflake_registry.status";
    let mut once_more = holder.clone();
    assert_eq!(holder.renew(&mut client).unwrap().outcome, "granted");
    assert!(single::<bool>(&mut client, frozen));
    let told = report(&mut client, "orders", &[&taker.tokens["orders"]]);
    assert_eq!(told, ("closed".into(), None));
    assert!(report(&mut client, "orders", &[]).1.is_some());
    // The reply to the call that reported the loss proves as much as the call.
    (once_more.token, once_more.nonce) = (holder.token, holder.nonce);
    drop(client);
    let mut client = set_back(copy, &other_copy);
    assert_eq!(once_more.renew(&mut client).unwrap().outcome, "granted");
    assert!(single::<bool>(&mut client, frozen));
}
