//! The registry of segments is promoted, set back or restored from a dump: it detects that it may have forgotten
//! ranges.

use harness::*;

use super::forgets::{report, set_back, with_copy};
use super::taker::{Member, administer, closed_reason, start, state};

/// The ranges of a server are lost with the primary. The registry's own server loses its rows as well.
#[test]
fn a_standby_is_promoted() {
    let primary = start(Cluster::builder());
    let mut client = primary.connect();
    for name in ["shared", "untouched", "home"] {
        administer(&mut client, &format!("create_segment('{name}', min_step => 10, max_step => 10)"));
    }
    client.run("CREATE TABLE bills (id bigint PRIMARY KEY)");
    let (mut server, mut other, mut here) = (Member::default(), Member::default(), Member::default());
    server.granted(&mut client, "shared");
    other.granted(&mut client, "shared");
    other.granted(&mut client, "untouched");
    let fill = |client: &mut Client, here: &mut Member| {
        let range = here.take_by(client, "take_local", "home", "");
        for number in range.numbers() {
            client.execute("INSERT INTO bills VALUES ($1)", &[&number]).unwrap();
        }
    };
    fill(&mut client, &mut here);
    let standby = primary.start_standby(&[]);
    let error = server.try_take(&mut standby.connect(), "take", &[("shared", "")]).unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25006");
    standby.stop_receiving();
    let lost = server.granted(&mut client, "shared");
    fill(&mut client, &mut here);
    primary.stop_server("immediate");
    standby.promote();

    let mut client = standby.connect();
    // The other server asks first, and is granted none of the numbers of the first.
    let answer = other.take(&mut client, "shared");
    assert_eq!(answer.outcome, "closed", "{answer:?}");
    assert!(answer.detail.unwrap().contains("timeline 2, before 1"));
    assert_eq!(state(&mut client, "untouched"), "closed");
    assert_eq!(server.take(&mut client, "shared").outcome, "closed");
    // Other servers may have taken numbers. If they are not permitted to, the registry's own server continues, because
    // its rows are lost together with the numbers. Numbers that its file still lists are not given again either.
    assert_eq!(here.take_by(&mut client, "take_local", "home", "").outcome, "closed");
    assert_eq!(single::<i64>(&mut client, "SELECT max(id) FROM bills"), 10);
    administer(&mut client, "resume_segment('home', 21)");
    assert_eq!(here.take_by(&mut client, "take_local", "home", "").first, Some(21));
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.resume_segment('shared', 25)");
    assert_eq!(code, "22023");
    assert!(said.contains("Numbers below 31 may already have been granted"), "{said}");
    // The registry has learned the forgotten range.
    administer(&mut client, "resume_segments()");
    assert_eq!(state(&mut client, "shared"), "open");
    assert_eq!(other.granted(&mut client, "untouched").first, Some(11));
    let goes_on = other.granted(&mut client, "shared");
    assert!(goes_on.first.unwrap() > lost.last());

    // The loss is not detected again, nor after a crash.
    drop(client);
    standby.restart("immediate");
    let mut client = standby.connect();
    assert_eq!(server.take(&mut client, "shared").outcome, "busy");
    administer(&mut client, "end_quarantine()");
    server.granted(&mut client, "shared");
    assert_eq!(state(&mut client, "untouched"), "open");
}

#[test]
fn a_synchronous_standby_is_promoted() {
    let primary = start(Cluster::builder());
    let mut client = primary.connect();
    administer(&mut client, "configure(synchronous => true)");
    administer(&mut client, "create_segment('a')");
    let standby = primary.start_standby(&[]);
    primary.replicate_synchronously();
    let mut server = Member::default();
    server.granted(&mut client, "a");
    primary.stop_server("immediate");
    standby.promote();
    let mut client = standby.connect();
    assert_eq!(server.granted(&mut client, "a").first, Some(1_001));
}

/// The disk is set back to an earlier state: same server, same timeline, same transactions.
#[test]
fn a_registry_is_set_back() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    administer(&mut client, "create_segment('a')");
    administer(&mut client, "create_segment('b')");
    let (mut one, mut other) = (Member::default(), Member::default());
    one.granted(&mut client, "a");
    other.granted(&mut client, "b");
    drop(client);
    cluster.stop_server("fast");
    let copy = cluster.duplicate();
    let copy_after_order = cluster.duplicate();
    cluster.start_server();
    let mut client = cluster.connect();
    administer(&mut client, "end_quarantine()");
    let mut hears_of_order = one.clone();
    one.granted(&mut client, "a");
    administer(&mut client, "create_segment('c')");
    hears_of_order.take(&mut client, "b");
    drop(client);
    cluster.stop_server("fast");

    copy.start_server();
    let mut client = copy.connect();
    assert_eq!(one.take(&mut client, "a").outcome, "closed");
    assert!(closed_reason(&mut client, "a").contains("numbers of segment \"a\" were given up to 2000"));
    assert_eq!(other.take(&mut client, "b").outcome, "closed");
    assert_eq!(
        single::<i64>(&mut client, "SELECT next_value FROM snowflake_registry.segments LIMIT 1"),
        2_001
    );

    // The count reveals a lost request, whichever name is asked for.
    copy_after_order.start_server();
    let mut client = copy_after_order.connect();
    hears_of_order.had_until.clear();
    assert_eq!(hears_of_order.take(&mut client, "b").outcome, "closed");
    assert!(
        closed_reason(&mut client, "a").contains("a server knows of"),
        "{}",
        closed_reason(&mut client, "a")
    );
}

#[test]
fn a_registry_is_dumped_and_restored() {
    let old = start(Cluster::builder());
    let mut client = old.connect();
    for call in [
        "create_segment('shared')",
        "create_segment('home')",
        "create_segment('dropped')",
        "create_segment('by day', period => 'day', digits => 6)",
    ] {
        administer(&mut client, call);
    }
    let mut server = Member::default();
    for name in ["shared", "dropped", "by day"] {
        server.granted(&mut client, name);
    }
    Member::default().take_by(&mut client, "take_local", "home", "");
    administer(&mut client, "drop_segment('dropped')");
    let dump = old.dump();
    let last = server.granted(&mut client, "shared");

    client.run("CREATE DATABASE beside");
    old.restore(&dump, "beside");
    let mut client = old.connect_to("beside");
    let answer = server.take(&mut client, "shared");
    assert_eq!(answer.outcome, "closed");
    assert!(answer.detail.unwrap().contains("restored from a dump"));
    assert_eq!(server.take(&mut client, "by day").outcome, "closed");
    let home = Member::default().take_by(&mut client, "take_local", "home", "");
    assert_eq!(home.outcome, "closed");
    let (code, said) = failure(&mut client, "DROP EXTENSION snowflake_id_registry");
    assert_eq!(code, "2BP01");
    assert!(said.contains("drop_segment(name)") && !said.contains("CASCADE"), "{said}");
    assert_eq!(failure(&mut client, "DELETE FROM snowflake_registry.segment").0, "23001");
    assert_eq!(
        failure(&mut client, &format!("SELECT snowflake_registry.resume_segment('shared', {})", last.last()))
            .0,
        "22023"
    );
    administer(&mut client, &format!("resume_segment('shared', {})", last.last() + 1));
    assert_eq!(server.granted(&mut client, "shared").first, Some(2_001));
    // A dropped name is remembered, but the numbers given for it are not known.
    administer(&mut client, "create_segment('dropped')");
    assert_eq!(server.take(&mut client, "dropped").outcome, "closed");
    administer(&mut client, "resume_segments()");
    assert_eq!(server.granted(&mut client, "dropped").first, Some(1_001));
}

/// The first numbers of a day were taken before midnight. After midnight the registry is set back to the day before.
#[test]
fn a_server_tells_of_a_day_that_was_begun() {
    let cluster = start(Cluster::builder().clock());
    let mut client = cluster.connect();
    administer(&mut client, "create_segment('bills', period => 'day', digits => 6)");
    Member::default().granted(&mut client, "bills");
    let early = Member::default().take_by(&mut client, "take", "bills", ", \"next\": true");
    let copy = cluster.duplicate_in_between();
    let mut client = cluster.connect();
    administer(&mut client, "end_quarantine()");
    for cluster in [&cluster, &copy] {
        cluster.set_clock(86_400.0);
    }
    let lost = Member::default().granted(&mut client, "bills");
    assert_eq!(lost.first, Some(early.last() + 1));
    let shown = report(&mut client, "bills", &[]).1.unwrap();
    drop(client);
    cluster.stop_server("fast");
    copy.start_server();
    let mut client = copy.connect();
    assert_eq!(report(&mut client, "bills", &[&shown]).0, "closed");
    client.run("SELECT snowflake_registry.resume_segments(), snowflake_registry.end_quarantine()");
    let next = Member::default().take_by(&mut client, "take", "bills", ", \"next\": true");
    assert_eq!(next.first.unwrap() / 1_000_000, next.period_key.unwrap(), "{next:?}");
    assert!(next.first.unwrap() > lost.last(), "{lost:?} {next:?}");
    assert_eq!(Member::default().granted(&mut client, "bills").first, Some(lost.last() + 1));
}

/// Two of the tokens are for numbers by date, of a name that the registry does not know.
#[test]
fn servers_tell_of_a_name_by_date_whose_creation_is_lost() {
    let (cluster, copy, _) = with_copy();
    let mut client = cluster.connect();
    administer(&mut client, "create_segment('bills', period => 'day', digits => 6)");
    let mut tokens = vec![];
    for _ in 0..2 {
        Member::default().take_by(&mut client, "take", "bills", ", \"next\": true");
        tokens.push(report(&mut client, "bills", &[]).1.unwrap());
    }
    drop(client);
    let mut client = set_back(cluster, &copy);
    for token in &tokens {
        assert_eq!(report(&mut client, "bills", &[token]).0, "lost");
    }
    let next = "SELECT next_value % 1000000 FROM snowflake_registry.segments WHERE name = 'bills'";
    assert_eq!(single::<i64>(&mut client, next), 2_001);
}
