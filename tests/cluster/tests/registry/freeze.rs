//! A frozen registry grants nothing new, and its leases end. It forgets neither the freeze nor reserved worker IDs.

use harness::*;

use super::forgets::{set_back, start_again, token, with_copy};
use super::member::{Member as Leaser, granted, start};
use super::taker::{Member, administer, closed_reason, let_others_take, state};

fn status(client: &mut Client, column: &str) -> String {
    single(client, &format!("SELECT coalesce({column}::text, '') FROM snowflake_registry.status"))
}

fn registry() -> (Cluster, Client) {
    let cluster = start(Cluster::builder().clock());
    let mut client = cluster.connect();
    let_others_take(&mut client);
    (cluster, client)
}

#[test]
fn nothing_new_is_given_and_leases_end() {
    let (cluster, mut client) = registry();
    administer(&mut client, "create_segment('orders')");
    let mut holder = granted(&mut client);
    let mut taker = Member::default();
    taker.granted(&mut client, "orders");
    let end = "SELECT (extract(epoch FROM snowflake_registry.freeze(clock_timestamp() + '15 min')) * 1000000)::bigint";
    let end: i64 = single(&mut client, end);
    assert_eq!(status(&mut client, "state"), "frozen");
    let answer = Leaser::new().acquire(&mut client, 1024).unwrap();
    assert_eq!((answer.outcome.as_str(), answer.free_from), ("taken", None));
    assert!(answer.detail.unwrap().contains("Lost requests"));
    let taken = taker.take(&mut client, "orders");
    assert_eq!(taken.outcome, "closed", "{taken:?}");
    assert_eq!(taken.detail.as_deref(), Some("the registry is frozen"));
    for minute in [6.0, 12.0] {
        cluster.set_clock(minute * 60.0);
        let answer = holder.renew(&mut client).unwrap();
        assert_eq!(answer.outcome, "granted", "{answer:?}");
        assert!(answer.until.unwrap() <= end, "{answer:?}");
        assert!(answer.detail.as_ref().unwrap().contains("extends no lease beyond"), "{answer:?}");
    }
    cluster.set_clock(16.0 * 60.0);
    let last = holder.renew(&mut client).unwrap();
    assert_eq!(last.outcome, "quarantine");
    assert!(last.detail.unwrap().contains("the registry is frozen"));
    administer(&mut client, "unfreeze()");
    assert_eq!(status(&mut client, "state"), "ready");
    taker.granted(&mut client, "orders");
    assert_eq!(holder.renew(&mut client).unwrap().outcome, "granted");
    granted(&mut client);
}

/// Segments that were closed for another reason stay closed, and a loss during the freeze is still handled as a loss.
#[test]
fn a_freeze_opens_no_segment() {
    let (_cluster, mut client) = registry();
    administer(&mut client, "create_segment('lost')");
    administer(&mut client, "quarantine()");
    administer(&mut client, "create_segment('orders')");
    administer(&mut client, "freeze()");
    assert_eq!(closed_reason(&mut client, "orders"), "the registry is frozen");
    administer(&mut client, "create_segment('late')");
    administer(&mut client, "unfreeze()");
    assert_eq!(["lost", "orders", "late"].map(|name| state(&mut client, name)), ["closed", "open", "open"]);
    administer(&mut client, "freeze()");
    administer(&mut client, "quarantine()");
    administer(&mut client, "unfreeze()");
    assert_eq!(["orders", "late"].map(|name| state(&mut client, name)), ["closed", "closed"]);
}

/// Grants that the registry may have forgotten may be in use. Other registries would grant the same worker IDs for that
/// time, and the same numbers.
#[test]
fn what_is_forgotten_has_not_ended() {
    let (cluster, copy, mut holder) = with_copy();
    let mut client = cluster.connect();
    let lost = granted(&mut client).renew(&mut client).unwrap().until.unwrap();
    let lost = lost.max(holder.renew(&mut client).unwrap().until.unwrap());
    Member::default().granted(&mut client, "orders");
    drop(client);
    let mut client = start_again(cluster, &copy);
    let end_of = |client: &mut Client, call: &str| -> i64 {
        // A freeze cannot be moved to later.
        let _ = client.batch_execute("SELECT snowflake_registry.unfreeze()");
        single(client, &format!("SELECT (extract(epoch FROM snowflake_registry.{call}) * 1000000)::bigint"))
    };
    let resume_at = "SELECT resume_at FROM snowflake_registry.segments";
    for call in ["revoke_lease(0)", "freeze(clock_timestamp())"] {
        assert!(end_of(&mut client, call) >= lost, "{call}");
    }
    assert_eq!(single::<Option<i64>>(&mut client, resume_at), None);
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.end_fleet()");
    assert_eq!(code, "55006", "{said}");
    assert!(said.contains("was started at") && said.contains("end_quarantine()"), "{said}");
    // An administrator ends the quarantine by mistake. After a second quarantine it is no longer known where numbers
    // continue.
    administer(&mut client, "end_quarantine()");
    assert!(end_of(&mut client, "freeze(clock_timestamp())") < lost);
    assert_eq!(single::<Option<i64>>(&mut client, resume_at), Some(1));
    administer(&mut client, "quarantine()");
    assert!(end_of(&mut client, "freeze(clock_timestamp())") >= lost);
    administer(&mut client, "end_quarantine()");
    assert_eq!(single::<Option<i64>>(&mut client, resume_at), None);
    administer(&mut client, "resume_segment('orders', 5000)");
    assert_eq!(single::<Option<i64>>(&mut client, resume_at), Some(5_000));
    assert_eq!(state(&mut client, "orders"), "closed");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (_cluster, mut client) = registry();
    assert_eq!(failure(&mut client, "SELECT snowflake_registry.freeze(NULL)").0, "22004");
    for reserve in ["reserve(-1)", "reserve(NULL)", "reserve(1, -1)"] {
        assert_eq!(failure(&mut client, &format!("SELECT snowflake_registry.{reserve}")).0, "22023");
    }
    assert_eq!(failure(&mut client, "SELECT snowflake_registry.unfreeze()").0, "55000");
    let (code, said) = failure(
        &mut client,
        "SELECT snowflake_registry.start_fleet(not_before => now() + interval '2 days')",
    );
    assert_eq!(code, "22023", "{said}");
    // A freeze at a past time: leases continue to their ends.
    granted(&mut client);
    let is_later = "SELECT snowflake_registry.freeze('2020-01-01') > now()";
    assert!(single::<bool>(&mut client, is_later));
}

/// Another registry may start at the time that the first freeze returned.
#[test]
fn a_freeze_is_not_moved_to_later() {
    let (_cluster, mut client) = registry();
    administer(&mut client, "freeze(clock_timestamp() + '1 hour')");
    let until = status(&mut client, "frozen_until");
    for call in ["freeze(clock_timestamp() + '1 hour')", "freeze()"] {
        let (code, said) = failure(&mut client, &format!("SELECT snowflake_registry.{call}"));
        assert_eq!(code, "55000", "{said}");
        assert!(said.contains("unfreeze()"), "{said}");
    }
    assert_eq!(status(&mut client, "frozen_until"), until);
    administer(&mut client, &format!("freeze('{until}')"));
    administer(&mut client, "freeze(clock_timestamp())");
    administer(&mut client, "unfreeze()");
    administer(&mut client, "freeze()");
}

/// No lease starts before that time.
#[test]
fn a_fleet_that_begins_later() {
    let cluster = Cluster::builder().clock().extensions(&["snowflake_id_registry"]).start();
    let mut client = cluster.connect();
    client.run("SELECT snowflake_registry.start_fleet(0, 1023, not_before => clock_timestamp() + interval '1 h', first_start => true)");
    let early = Leaser::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(early.outcome, "taken");
    cluster.set_clock(3_601.0);
    let late = Leaser::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(late.outcome, "granted");
    assert!(late.from >= early.free_from, "{early:?} {late:?}");
}

/// The freeze holds whatever else an administrator does, because another registry may already be granting the same
/// numbers.
#[test]
fn nobody_gets_numbers_while_it_is_frozen() {
    let (_cluster, mut client) = registry();
    administer(&mut client, "create_segment('orders')");
    let mut taker = Member::default();
    taker.granted(&mut client, "orders");
    administer(&mut client, "freeze()");
    administer(&mut client, "quarantine()");
    administer(&mut client, "resume_segments()");
    administer(&mut client, "create_segment('late')");
    for name in ["orders", "late"] {
        for function in ["take", "take_local"] {
            let taken = taker.take_by(&mut client, function, name, "");
            assert_eq!(taken.outcome, "closed", "{function} {taken:?}");
        }
        assert_eq!(state(&mut client, name), "closed");
    }
    administer(&mut client, "unfreeze()");
    administer(&mut client, "end_quarantine()");
    for name in ["orders", "late"] {
        assert_eq!(state(&mut client, name), "open");
        taker.granted(&mut client, name);
    }
}

/// The registry's own server is set back with it. Only that server has taken numbers, which another registry now
/// grants.
#[test]
fn a_lost_freeze_holds_for_the_registry_s_own_server() {
    let (cluster, copy, mut holder) = with_copy();
    let mut client = cluster.connect();
    administer(&mut client, "freeze()");
    let shown = token(&mut client, &mut holder);
    let mut client = set_back(cluster, &copy);
    client.run("REVOKE EXECUTE ON FUNCTION snowflake_registry.take FROM takers");
    assert_eq!(Member::default().take_by(&mut client, "take_local", "orders", "").outcome, "granted");
    holder.renew_and_show(&mut client, &[&shown]).unwrap();
    assert_eq!(Member::default().take_by(&mut client, "take_local", "orders", "").outcome, "closed");
}

/// Leases that may have been granted in lost commits are included in the returned time.
#[test]
fn a_freeze_during_a_wait_returns_the_end_of_what_may_be_lost() {
    let cluster = start(Cluster::builder());
    cluster.restart("fast");
    let mut client = cluster.connect();
    let is_after_the_wait =
        "SELECT snowflake_registry.freeze(clock_timestamp() + '1 s') > clock_timestamp() + '11 min'";
    assert!(single::<bool>(&mut client, is_after_the_wait));
}

/// Every possible time of a lost freeze is restored exactly from a token.
#[test]
fn lost_freezes_are_known_to_servers() {
    let (cluster, copy, mut holder) = with_copy();
    let mut client = cluster.connect();
    let ends =
        ["2049-01-01", "-infinity", "4713-01-01 BC", "2020-01-01", "9999-12-31", "294276-12-31 23:59:59+00"];
    let lost = ends.map(|until| {
        administer(&mut client, &format!("freeze('{until}')"));
        let known = (token(&mut client, &mut holder), status(&mut client, "frozen_until"));
        administer(&mut client, "unfreeze()");
        known
    });
    let mut client = set_back(cluster, &copy);
    for (shown, until) in lost {
        assert_eq!(status(&mut client, "state"), "ready");
        let answer = holder.renew_and_show(&mut client, &[&shown]);
        let answer = answer.unwrap_or_else(|error| panic!("{until}: {}", text(&error)));
        let is_limited = answer.detail.is_some_and(|detail| detail.contains("extends no lease beyond"));
        assert_eq!(is_limited, until != "infinity", "{until}");
        assert_eq!(status(&mut client, "frozen_until"), until);
        assert_eq!(state(&mut client, "orders"), "closed");
        client.run("SELECT snowflake_registry.unfreeze(), snowflake_registry.end_quarantine()");
    }
}
