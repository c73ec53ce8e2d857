//! Only the registry itself writes its tables, and servers report what it has forgotten.

use harness::*;

use super::member::{CLOCK, Member as Leaser};
use super::taker::{Member, administer, let_others_take, start_with_fleet};

/// Apply workers do not fire ordinary triggers, and a publication FOR ALL TABLES includes the tables of a registry.
#[test]
fn a_subscription_leaves_the_registry_alone() {
    let publisher = super::taker::start(Cluster::builder().set("wal_level", "logical"));
    let subscriber = super::taker::start(Cluster::builder());
    let mut other = publisher.connect();
    let mut client = subscriber.connect();
    for client in [&mut other, &mut client] {
        client.run("CREATE TABLE bills (id int)");
        administer(client, "create_segment('orders')");
    }
    let mut member = Member::default();
    let given = [member.granted(&mut client, "orders"), member.granted(&mut client, "orders")];
    other.run("CREATE PUBLICATION everything FOR ALL TABLES");
    client.run(&format!(
        "CREATE SUBSCRIPTION everything CONNECTION '{}' PUBLICATION everything WITH (copy_data = false)",
        publisher.connection_string("test")
    ));
    // All in one transaction: when the last row is visible, all others have arrived.
    other.run("BEGIN");
    administer(&mut other, "alter_segment('orders', next_value => 1500)");
    administer(&mut other, "configure(last_datacenter => 5)");
    other.run("INSERT INTO bills VALUES (1); COMMIT");
    all_arrive("a bill", || single::<i64>(&mut client, "SELECT count(*) FROM bills") == 1);
    let next = "SELECT next_value::bigint FROM snowflake_registry.segment";
    assert_eq!(single::<i64>(&mut client, next), given[1].last() + 1);
    let last_datacenter = "SELECT last_datacenter FROM snowflake_registry.settings";
    assert_eq!(single::<i32>(&mut client, last_datacenter), i32::MAX);
    assert!(subscriber.log().contains("skipping row of another registry"), "{}", subscriber.log());
    client.run("DROP SUBSCRIPTION everything");
    // The triggers that guard the rows fire in this mode too.
    client.run("SET session_replication_role = replica");
    assert_eq!(failure(&mut client, "TRUNCATE snowflake_registry.segment").0, "23001");
    client.run("DELETE FROM snowflake_registry.segment");
    assert_eq!(single::<i64>(&mut client, next), given[1].last() + 1);
}

/// A registry that has granted a lease, and a copy of its data directory from before it grants more.
pub fn with_copy() -> (Cluster, Cluster, Leaser) {
    let cluster = start_with_fleet(Cluster::builder());
    let mut client = cluster.connect();
    let early = super::member::granted(&mut client);
    let copy = cluster.duplicate_in_between();
    cluster.connect().run("SELECT snowflake_registry.end_quarantine()");
    (cluster, copy, early)
}

/// Replaces the registry by the copy, which is older. An administrator ends the quarantine by mistake.
pub fn set_back(cluster: Cluster, copy: &Cluster) -> Client {
    cluster.stop_server("fast");
    copy.start_server();
    let mut client = copy.connect();
    client.run("SELECT snowflake_registry.end_quarantine()");
    client
}

/// A token, which proves that a lease was committed.
pub fn token(client: &mut Client, member: &mut Leaser) -> String {
    member.renew(client).unwrap().token.unwrap()
}

/// Requests a worker ID and shows tokens. Returns the outcome.
fn acquire_and_show(client: &mut Client, tokens: &[&str], ahead: &str) -> String {
    let member = Leaser::new();
    let request = member.request_of_an_identity(1024, tokens);
    let clock = format!("jsonb_build_object('clock', {CLOCK} + {ahead})");
    single(client, &format!("SELECT outcome FROM snowflake_registry.acquire({request} || {clock})"))
}

/// Sends a report with tokens. Returns the outcome and a token.
pub fn report(client: &mut Client, name: &str, tokens: &[&str]) -> (String, Option<String>) {
    let query = format!(
        "SELECT outcome, token FROM snowflake_registry.take('{{\"protocol\": 1, \"registry\": null, \"tokens\": {tokens:?},
             \"requests\": [{{\"name\": \"{name}\", \"report\": true}}]}}')"
    );
    let row = client.query_one(&query, &[]).unwrap();
    (row.get(0), row.get(1))
}

#[test]
fn only_what_is_committed_is_signed() {
    let cluster = start_with_fleet(Cluster::builder());
    let mut client = cluster.connect();
    client.run("BEGIN");
    let mut member = super::member::granted(&mut client);
    assert_eq!(member.renew(&mut client).unwrap().token, None);
    Member::default().granted(&mut client, "orders");
    assert_eq!(report(&mut client, "orders", &[]), ("noted".into(), None));
    client.run("SAVEPOINT one");
    assert_eq!(report(&mut client, "orders", &[]), ("noted".into(), None));
    client.run("COMMIT");
    let lease = token(&mut client, &mut member);
    let (_, numbers) = report(&mut client, "orders", &[]);
    assert!(numbers.as_ref().unwrap().contains(":1001:"), "{numbers:?}");
    // A known token proves nothing when it is shown again, nor does a token that this registry has not signed.
    let forged = lease.replacen("lease:0:0:1", "lease:0:0:9", 1);
    assert_ne!(forged, lease);
    let other = super::member::start(Cluster::builder());
    let mut there = other.connect();
    let mut member_there = super::member::granted(&mut there);
    super::member::granted(&mut there);
    let foreign = token(&mut there, &mut member_there);
    for _ in 0..2 {
        let shown = [lease.as_str(), &forged, &foreign, "", "lease:0:0:9", numbers.as_deref().unwrap()];
        assert_eq!(member.renew_and_show(&mut client, &shown).unwrap().outcome, "granted");
        assert_eq!(super::member::state(&mut client), "ready");
    }
    // The signature is HMAC-SHA256 (RFC 4231, test case 2).
    client.run(
        "ALTER TABLE snowflake_registry.signing_key DISABLE TRIGGER keep_the_row;
         UPDATE snowflake_registry.signing_key
         SET inner_pad = overlay(decode(repeat('36', 64), 'hex') PLACING '\\x7c535053'::bytea FROM 1),
             outer_pad = overlay(decode(repeat('5c', 64), 'hex') PLACING '\\x16393a39'::bytea FROM 1)",
    );
    let signed: String =
        single(&mut client, "SELECT snowflake_registry.signed('what do ya want for nothing?')");
    assert!(
        signed.ends_with("?.5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
        "{signed}"
    );
}

/// The grant to another server is lost, and its holder does not call. Any server that has renewed since can report it.
#[test]
fn any_server_tells_of_a_lost_grant() {
    let (cluster, copy, mut early) = with_copy();
    let mut client = cluster.connect();
    super::member::granted(&mut client);
    super::member::granted(&mut client);
    let shown = token(&mut client, &mut early);
    drop(client);
    let mut client = set_back(cluster, &copy);
    // A forged token neither prevents valid reports nor causes an alarm.
    let mut liar = Leaser::new();
    liar.registry_id = early.registry_id.clone();
    liar.token = Some(shown.replacen("lease:0:0:1", "lease:0:0:9", 1));
    let answer = liar.acquire(&mut client, 1024).unwrap();
    assert_eq!((answer.outcome.as_str(), super::member::state(&mut client).as_str()), ("granted", "ready"));
    assert_eq!(early.renew_and_show(&mut client, &[&shown]).unwrap().outcome, "granted");
    assert!(super::member::reason(&mut client).contains("a server knows of 5 grants"));
}

/// A server that has given up a lease can still report it. The end of that lease is in the future.
#[test]
fn a_server_tells_of_a_lease_that_it_has_left() {
    let (cluster, copy, _) = with_copy();
    let mut client = cluster.connect();
    let mut gone = super::member::granted(&mut client);
    let shown = token(&mut client, &mut gone);
    drop(client);
    let mut client = set_back(cluster, &copy);
    assert_eq!(acquire_and_show(&mut client, &[&shown], "0"), "taken");
    assert!(
        super::member::reason(&mut client).contains("a server "),
        "{}",
        super::member::reason(&mut client)
    );
    // Even after the quarantine the worker ID is not granted before the end of that lease.
    client.run("SELECT snowflake_registry.end_quarantine()");
    let answer = Leaser::new().acquire(&mut client, 2).unwrap();
    assert_eq!(answer.outcome, "taken", "{answer:?}");
    // The same report again has no effect.
    assert_eq!(acquire_and_show(&mut client, &[&shown], "0"), "granted");
    assert_eq!(super::member::state(&mut client), "ready");
}

/// A server whose clock is wrong or that names another registry is granted nothing, but it may be the only server that
/// knows of a loss.
#[test]
fn a_server_is_heard_before_it_is_refused() {
    let (cluster, copy, mut early) = with_copy();
    let mut client = cluster.connect();
    super::member::granted(&mut client);
    let shown = token(&mut client, &mut early);
    cluster.stop_server("fast");
    let shown = [shown.as_str()];
    let stranger = Leaser { registry_id: Some(super::member::uuid()), ..Leaser::new() };
    let renewal = |member: &Leaser| {
        let nonces = format!("'last_nonce', '{}', 'next_nonce', '{}'", member.nonce, super::member::uuid());
        format!("renew({}", member.request(&shown, &nonces))
    };
    let acquisition = |member: &Leaser| format!("acquire({}", member.request_of_an_identity(1024, &shown));
    let take = format!("take({}", stranger.request(&shown, "'requests', '[{\"name\": \"orders\"}]'::jsonb"));
    let early_clock = format!("jsonb_build_object('clock', {CLOCK} + 120000000)");
    let later = "'{\"protocol\": 2}'";
    for (call, change, outcome) in [
        (renewal(&early), early_clock.as_str(), "clock"),
        (acquisition(&Leaser::new()), &early_clock, "clock"),
        (acquisition(&stranger), "'{}'", "foreign"),
        (renewal(&stranger), "'{}'", "foreign"),
        (take.clone(), "'{}'", "foreign"),
        (acquisition(&Leaser::new()), "'{\"needs\": {\"colour\": 1}}'", "registry too old"),
        (acquisition(&Leaser::new()), later, "registry too old"),
        (renewal(&early), later, "registry too old"),
        (take, later, "registry too old"),
    ] {
        let call = format!("{call} || {change})");
        let registry = copy.duplicate();
        registry.start_server();
        let mut client = registry.connect();
        administer(&mut client, "end_quarantine()");
        let answer: String = single(&mut client, &format!("SELECT outcome FROM snowflake_registry.{call}"));
        assert_eq!(answer, outcome, "{call}");
        assert_eq!(super::member::state(&mut client), "quarantine", "{call}");
        assert!(super::member::reason(&mut client).contains("a server knows of"), "{call}");
    }
}

/// A server that has lost no range reports lost ranges of other servers, and of a name that was created later.
#[test]
fn any_server_tells_of_lost_ranges() {
    let (cluster, copy, _) = with_copy();
    let mut client = cluster.connect();
    administer(&mut client, "create_segment('items', start => 500)");
    for _ in 0..3 {
        Member::default().granted(&mut client, "orders");
        Member::default().granted(&mut client, "items");
    }
    let tokens = ["orders", "items"].map(|name| report(&mut client, name, &[]).1.unwrap());
    drop(client);
    let mut client = set_back(cluster, &copy);
    assert_eq!(report(&mut client, "orders", &[&tokens[0], &tokens[1]]).0, "closed");
    assert!(super::taker::closed_reason(&mut client, "orders").contains("a server knows of"));
    administer(&mut client, "resume_segments()");
    assert_eq!(Member::default().granted(&mut client, "orders").first, Some(3_001));
    // The registry has learned this name from a token, and treats it as the name of a dropped segment.
    administer(&mut client, "create_segment('items', start => 500)");
    assert_eq!(Member::default().granted(&mut client, "items").first, Some(3_500));
    assert_eq!(report(&mut client, "orders", &[&tokens[0], &tokens[1]]).0, "noted");
}

/// Numbers by date: the token has two upper bounds.
#[test]
fn a_server_tells_of_lost_numbers_of_tomorrow() {
    let cluster = super::taker::start(Cluster::builder().clock());
    let mut client = cluster.connect();
    administer(&mut client, "create_segment('bills', period => 'day', digits => 6)");
    let copy = cluster.duplicate_in_between();
    let mut client = cluster.connect();
    administer(&mut client, "end_quarantine()");
    Member::default().granted(&mut client, "bills");
    let tomorrow = Member::default().take_by(&mut client, "take", "bills", ", \"next\": true");
    let shown = report(&mut client, "bills", &[]).1.unwrap();
    drop(client);
    cluster.stop_server("fast");
    copy.start_server();
    let mut client = copy.connect();
    assert_eq!(report(&mut client, "bills", &[&shown]).0, "closed");
    administer(&mut client, "resume_segments()");
    assert_eq!(report(&mut client, "bills", &[&shown]).0, "noted");
    let next = Member::default().take_by(&mut client, "take", "bills", ", \"next\": true");
    assert_eq!(next.first, Some(tomorrow.last() + 1));
    assert!(Member::default().granted(&mut client, "bills").first.unwrap() % 1_000_000 == 1_001);
}

/// Sets the registry back without ending its quarantine.
pub fn start_again(cluster: Cluster, copy: &Cluster) -> Client {
    cluster.stop_server("fast");
    copy.start_server();
    copy.connect()
}

/// A server without any knowledge asks before the server that had the numbers.
#[test]
fn holders_of_numbers_come_first() {
    let (cluster, copy, mut early) = with_copy();
    let mut client = cluster.connect();
    client.run("SELECT snowflake_registry.configure(renew_every => '2s')");
    early.renew(&mut client).unwrap();
    let lost = Member::default().granted(&mut client, "orders");
    let shown = report(&mut client, "orders", &[]).1.unwrap();
    drop(client);
    let mut client = start_again(cluster, &copy);
    let mut stranger = Member::default();
    for outcome in ["busy", "closed"] {
        let answer = stranger.take(&mut client, "orders");
        assert_eq!(answer.outcome, outcome, "{answer:?}");
        // That server sends its regular report.
        assert_eq!(report(&mut client, "orders", &[&shown]).0, "closed");
    }
    // The call of configure() was lost, too.
    administer(&mut client, "unfreeze()");
    administer(&mut client, "resume_segments()");
    assert!(stranger.granted(&mut client, "orders").first.unwrap() > lost.last());
}

/// The time of a quarantine is counted. Setting the clock right during that time does not end it.
#[test]
fn a_wait_is_not_read_off_a_clock() {
    let cluster = start_with_fleet(Cluster::builder().clock());
    let now: i64 = single(&mut cluster.connect(), &format!("SELECT {CLOCK}"));
    let stop_clock = |seconds: i64| cluster.hold_clock(now + seconds * 1_000_000, 0);
    stop_clock(-3_600);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(Leaser::new().acquire(&mut client, 1024).unwrap().outcome, "taken");
    stop_clock(0);
    for _ in 0..2 {
        assert_eq!(Leaser::new().acquire(&mut client, 1024).unwrap().outcome, "taken");
        assert_eq!(Member::default().take(&mut client, "orders").outcome, "busy");
    }
    // The jump of an hour counts as half a minute.
    let left = "SELECT extract(epoch FROM waits)::float8 FROM snowflake_registry.settings";
    assert_eq!(single::<f64>(&mut client, left), 690.0);
    // A step back counts nothing, and does not extend the quarantine.
    stop_clock(-3_600);
    Leaser::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(single::<f64>(&mut client, left), 690.0);
    // Time also counts in calls of servers whose clock differs, but they do not end the quarantine.
    for _ in 0..30 {
        stop_clock(0);
        assert_eq!(acquire_and_show(&mut client, &[], "120000000"), "clock");
        stop_clock(-3_600);
        assert_eq!(acquire_and_show(&mut client, &[], "120000000"), "clock");
    }
    assert_eq!(single::<f64>(&mut client, left), 0.000_001);
    assert_eq!(super::member::state(&mut client), "quarantine");
    stop_clock(0);
    super::member::granted(&mut client);
}

/// The clock was a year ahead when commits were lost. After it is set right, the quarantine lasts no longer than usual.
#[test]
fn a_wait_does_not_last_a_year() {
    let cluster = super::member::start(Cluster::builder().clock());
    let mut client = cluster.connect();
    let mut member = super::member::granted(&mut client);
    member.renew(&mut client).unwrap();
    cluster.set_clock(365.0 * 86_400.0);
    client.run("SELECT snowflake_registry.quarantine()");
    cluster.set_clock(0.0);
    let left = "SELECT quarantine_until - clock_timestamp() < '13 minutes' FROM snowflake_registry.status";
    Leaser::new().acquire(&mut client, 1024).unwrap();
    assert!(single::<bool>(&mut client, left));
    client.run("SELECT snowflake_registry.end_quarantine()");
    super::member::granted(&mut client);
}

/// Administrators start and end quarantines. They never lower the floor, and start_fleet(), which is for new
/// registries, does not end a quarantine.
#[test]
fn no_function_lowers_the_floor() {
    let cluster = super::member::start(Cluster::builder().clock());
    let mut client = cluster.connect();
    let floor = "SELECT nothing_before::text FROM snowflake_registry.settings";
    let before: String = single(&mut client, floor);
    cluster.set_clock(-3_600.0);
    client.run(
        "SELECT snowflake_registry.quarantine(); SELECT snowflake_registry.start_fleet(first_start => true)",
    );
    assert_eq!(super::member::state(&mut client), "quarantine");
    client.run("SELECT snowflake_registry.end_quarantine()");
    assert_eq!(single::<String>(&mut client, floor), before);
    let answer = Leaser::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(answer.outcome, "taken");
    assert!(answer.detail.unwrap().contains("the registry grants no range that starts before"));
    cluster.set_clock(0.0);
    super::member::granted(&mut client);
}

/// A last renewal in the future does not count as recent.
#[test]
fn a_renewal_in_the_future_is_not_fresh() {
    let cluster = super::member::start(Cluster::builder().clock());
    let mut client = cluster.connect();
    client.run("SELECT snowflake_registry.configure(synchronous => true)");
    cluster.set_clock(7_200.0);
    super::member::granted(&mut client);
    cluster.set_clock(0.0);
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(Leaser::new().acquire(&mut client, 1024).unwrap().outcome, "taken");
    assert!(super::member::reason(&mut client).contains("was started at"));
}

/// A server that takes as the owner or as a superuser needs no grant, so the registry could not tell that others take.
/// The registry's own server would then continue at once after a loss of commits.
#[test]
fn a_taker_that_needs_no_grant_is_refused() {
    let registry = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    let mut client = registry.connect();
    administer(&mut client, "create_segment('orders')");
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.take('{}')");
    assert_eq!(code, "42501", "{said}");
    assert!(said.contains("GRANT EXECUTE"), "{said}");
    Member::default().take_by(&mut client, "take_local", "orders", "");
    let_others_take(&mut client);
    Member::default().granted(&mut client, "orders");
}

/// A server that leaves the registry gets a worker ID that no server had from the registry.
#[test]
fn a_reserved_worker_id_is_not_given() {
    let cluster = super::member::start(Cluster::builder().clock());
    let mut client = cluster.connect();
    administer(&mut client, "configure(last_worker => 3)");
    let mut stays = super::member::granted(&mut client);
    client.run("SELECT snowflake_registry.reserve(1); SELECT snowflake_registry.reserve(2)");
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.reserve(0)");
    assert_eq!(code, "55006");
    assert!(said.contains("worker ID 0 (datacenter 0) is leased by a server without a name"), "{said}");
    assert_eq!(stays.renew(&mut client).unwrap().outcome, "granted");
    let state =
        "SELECT count(*) FROM snowflake_registry.fleet WHERE state = 'reserved' AND free_from IS NULL";
    assert_eq!(single::<i64>(&mut client, state), 2);
    assert_eq!(Leaser::new().acquire(&mut client, 1024).unwrap().worker, Some(3));
    let answer = Leaser::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(answer.outcome, "taken", "{answer:?}");
    // The lease has ended.
    cluster.set_clock(3_600.0);
    assert_eq!(failure(&mut client, "SELECT snowflake_registry.reserve(0)").0, "55000");
    let lifted = "UPDATE snowflake_registry.lease SET is_reserved = false";
    assert_eq!(failure(&mut client, lifted).0, "23001");
}
