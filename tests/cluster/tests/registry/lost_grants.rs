//! The registry of a fleet is promoted, set back or restored from a dump: it detects that it may have forgotten grants.

use harness::*;

use super::member::{Member, granted, reason, sqlstate, start, state};

#[test]
fn a_standby_is_promoted() {
    let primary = start(Cluster::builder());
    let mut client = primary.connect();
    let (mut early, mut late) = (granted(&mut client), granted(&mut client));
    let standby = primary.start_standby(&[]);
    let error = early.renew(&mut standby.connect()).unwrap_err();
    assert_eq!(sqlstate(&error), "25006");
    assert!(text(&error).contains("cannot use the registry on a standby"), "{}", text(&error));
    standby.stop_receiving();
    // A renewal and a grant in commits that the standby will not have.
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    let mut lost = granted(&mut client);
    primary.stop_server("immediate");
    standby.promote();

    let mut client = standby.connect();
    // The registry does not know the nonce of the lost renewal. It must not take the server for a twin.
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "quarantine");
    assert!(reason(&mut client).contains("timeline 2, before 1"), "{}", reason(&mut client));
    assert_eq!(late.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(lost.renew(&mut client).unwrap().outcome, "unknown");
    // The server's range continues, so no other server may have its identity now.
    let answer = Member::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(answer.outcome, "taken");
    assert!(answer.detail.unwrap().contains("quarantine until"));
    let minutes =
        "SELECT extract(epoch FROM quarantine_until - now()) / 60 > 11 FROM snowflake_registry.status";
    assert!(single::<bool>(&mut client, minutes));
    assert!(standby.log().contains("snowflake_id_registry: quarantine"), "{}", standby.log());
    client.run("SELECT snowflake_registry.end_quarantine()");
    granted(&mut client);
    // The loss is not detected again, nor after a crash.
    drop(client);
    standby.restart("immediate");
    let mut client = standby.connect();
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    assert!(reason(&mut client).contains("was started at"), "{}", reason(&mut client));
}

#[test]
fn a_synchronous_standby_is_promoted() {
    let primary = start(Cluster::builder());
    let mut client = primary.connect();
    client.run("SELECT snowflake_registry.configure(synchronous => true)");
    let mut member = granted(&mut client);
    let standby = primary.start_standby(&[]);
    primary.replicate_synchronously();
    let waits = "SELECT waits_for_standbys FROM snowflake_registry.fleet LIMIT 1";
    assert!(single::<bool>(&mut client, waits));
    member.renew(&mut client).unwrap();
    primary.stop_server("immediate");
    standby.promote();
    let mut client = standby.connect();
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "ready");
    granted(&mut client);
    let timeline = "SELECT timeline FROM snowflake_registry.settings";
    assert_eq!(single::<i32>(&mut client, timeline), 2);

    // The administrator's claim is wrong: this standby lacks the last commits. The first server that calls proves it.
    let other = standby.start_standby(&[]);
    other.stop_receiving();
    member.renew(&mut client).unwrap();
    // A reply signs what was committed before it.
    member.renew(&mut client).unwrap();
    standby.stop_server("immediate");
    other.promote();
    let mut client = other.connect();
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "quarantine");
    assert!(reason(&mut client).contains("a server "), "{}", reason(&mut client));
}

/// The disk is set back to an earlier state: same server, same timeline, same transactions.
#[test]
fn a_registry_is_set_back() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    let (mut one, mut other) = (granted(&mut client), granted(&mut client));
    other.renew(&mut client).unwrap();
    let copy = cluster.duplicate_in_between();
    // Only a renewal: no identity is granted.
    one.renew(&mut cluster.connect()).unwrap();
    cluster.stop_server("fast");

    copy.start_server();
    let mut client = copy.connect();
    assert_eq!(other.renew(&mut client).unwrap().outcome, "granted");
    assert!(reason(&mut client).contains("was started at"), "{}", reason(&mut client));
    assert_eq!(one.renew(&mut client).unwrap().outcome, "granted", "a sound server is taken for a twin");
    assert_eq!(one.renew(&mut client).unwrap().outcome, "granted");
    // But after that a copy is detected again.
    let mut copied = one.clone();
    assert_eq!(one.renew(&mut client).unwrap().outcome, "granted");
    copied.nonce = super::member::uuid();
    assert_eq!(copied.renew(&mut client).unwrap().outcome, "twin");
}

/// A registry that has granted a lease and is ready for more, and an earlier copy of its data directory.
fn start_with_copy() -> (Cluster, Cluster, Member) {
    let cluster = start(Cluster::builder());
    let early = granted(&mut cluster.connect());
    let copy = cluster.duplicate_in_between();
    cluster.connect().run("SELECT snowflake_registry.end_quarantine()");
    (cluster, copy, early)
}

/// The same, but an unrecognized server calls before the servers that know of the loss. A grant to it would give it
/// their worker ID, and would hide the loss from then on.
#[test]
fn an_unrecognized_server_comes_first_to_a_registry_that_is_set_back() {
    let (cluster, copy, mut early) = start_with_copy();
    let mut client = cluster.connect();
    let mut lost = granted(&mut client);
    lost.renew(&mut client).unwrap();
    cluster.stop_server("fast");

    copy.start_server();
    let mut client = copy.connect();
    let answer = Member::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(answer.outcome, "taken", "{answer:?}");
    assert!(answer.detail.unwrap().contains("was started at"));
    // The registry knows the lease again.
    assert_eq!(lost.renew(&mut client).unwrap().outcome, "granted");
    assert!(reason(&mut client).contains("a server knows of"), "{}", reason(&mut client));
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(Member::new().acquire(&mut client, 1024).unwrap().outcome, "taken");
}

/// The dump is older than the request that lengthened leases. Nothing is granted before the longer leases have ended.
#[test]
fn leases_were_longer_than_a_restored_registry_knows() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    let (mut early, mut other) = (granted(&mut client), granted(&mut client));
    let dump = cluster.dump();
    let configure = "SELECT snowflake_registry.configure(lease => '24 hours')";
    client.run(configure);
    // A reply signs what was committed before it.
    let longest = early.renew(&mut client).unwrap().until.unwrap();
    early.renew(&mut client).unwrap();
    let mut lost = Member::new();
    let lost_until = lost.acquire(&mut client, 1024).unwrap().until.unwrap();
    lost.renew(&mut client).unwrap();

    client.run("CREATE DATABASE restored");
    cluster.restore(&dump, "restored");
    let mut client = cluster.connect_to("restored");
    let until =
        "SELECT (extract(epoch FROM quarantine_until) * 1000000)::bigint FROM snowflake_registry.status";
    let answer = other.renew(&mut client).unwrap();
    assert_eq!(answer.outcome, "granted");
    assert!(single::<i64>(&mut client, until) < longest, "the dump knows of the order");
    // Each server shows its own lease.
    let answer = early.renew(&mut client).unwrap();
    assert_eq!((answer.outcome.as_str(), answer.until), ("granted", Some(longest)));
    let mut is_after =
        |end: i64| (0..30_000_000).contains(&(single::<i64>(&mut client, until) - end - 120_000_000));
    assert!(is_after(longest));
    assert_eq!(lost.renew(&mut cluster.connect_to("restored")).unwrap().outcome, "granted");
    assert!(is_after(lost_until));
    assert!(reason(&mut client).contains("a server was granted"), "{}", reason(&mut client));
}

/// A grant to an unrecognized server has raised the count to the value that the servers with later knowledge have seen.
#[test]
fn the_end_of_a_lease_shows_a_lost_grant() {
    let (cluster, copy, mut early) = start_with_copy();
    let mut client = cluster.connect();
    let mut lost = Member::new();
    lost.acquire(&mut client, 1024).unwrap();
    lost.renew(&mut client).unwrap();
    cluster.stop_server("fast");

    copy.start_server();
    let mut client = copy.connect();
    // The administrator ends the quarantine by mistake.
    client.run("SELECT snowflake_registry.end_quarantine()");
    granted(&mut client);
    assert_eq!(lost.renew_and_show(&mut client, &[]).unwrap().outcome, "unknown");
    assert_eq!(state(&mut client), "ready", "the count shows it");
    assert_eq!(lost.renew(&mut client).unwrap().outcome, "unknown");
    assert_eq!(state(&mut client), "quarantine");
    // A revoked lease is no sign of a loss.
    client.run("SELECT snowflake_registry.end_quarantine()");
    let mut taken = Member::new();
    taken.acquire(&mut client, 1024).unwrap();
    taken.renew(&mut client).unwrap();
    client.run("SELECT snowflake_registry.revoke_lease(2)");
    assert_eq!(taken.renew(&mut client).unwrap().outcome, "unknown");
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "ready");
}

/// Where the registry cannot tell a promotion from a start, each start may be a promotion.
#[test]
fn a_start_without_a_timeline_counts_as_a_loss() {
    let cluster = Cluster::builder().extensions(&[]).start();
    let mut client = cluster.connect();
    client.run(
        "CREATE ROLE keeper_of_ids LOGIN; GRANT CREATE ON DATABASE postgres TO keeper_of_ids;
         REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn), pg_current_wal_lsn() FROM PUBLIC;
         SET ROLE keeper_of_ids;
         CREATE EXTENSION snowflake_id_registry;
         SELECT snowflake_registry.start_fleet(0, 1023, first_start => true);
         SELECT snowflake_registry.create_segment('orders');
         RESET ROLE",
    );
    super::taker::let_others_take(&mut client);
    let knows = "SELECT knows_timeline FROM snowflake_registry.status";
    assert!(!single::<bool>(&mut client, knows));
    let mut member = granted(&mut client);
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "ready");
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    let reason = reason(&mut client);
    assert!(reason.contains("its timeline is not available"), "{reason}");
    // A token does not shorten the quarantine, and a promotion is detected only once.
    let is_proved = "SELECT is_proved FROM snowflake_registry.settings";
    assert!(single::<bool>(&mut client, is_proved));
    assert_eq!(super::taker::state(&mut client, "orders"), "closed");
    super::taker::administer(&mut client, "end_quarantine()");
    super::taker::administer(&mut client, "resume_segments()");
    granted(&mut client);
    // With configure(synchronous => true), the administrator guarantees that it is not a loss.
    super::taker::administer(&mut client, "configure(synchronous => true)");
    member.renew(&mut client).unwrap();
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "ready");
    // From now on it may read the timeline.
    client.run("GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn), pg_current_wal_lsn() TO keeper_of_ids");
    super::taker::administer(&mut client, "end_quarantine()");
    assert!(single::<bool>(&mut client, knows));
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "ready");
}

/// A refused server asks again after about half a second, whatever the renewal interval.
#[test]
fn who_renews_very_often_is_waited_for_as_well() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    client.run("SELECT snowflake_registry.configure(renew_every => '100ms')");
    let mut member = granted(&mut client);
    member.renew(&mut client).unwrap();
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    let left = "SELECT waits BETWEEN '2 seconds' AND '3 seconds' FROM snowflake_registry.settings";
    assert!(single::<bool>(&mut client, left));
}
