//! The registry signs only what a crash or a failover cannot lose. A caller that lowers its durability after a grant, or
//! cancels its wait for a standby, gets no token that seems to prove a loss.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use harness::*;

use super::forgets::report;
use super::member::{self, Member};
use super::taker::{self, administer};

const TAKE: &str = "snowflake_registry.take('{\"protocol\": 1, \"registry\": null, \"tokens\": [],
                        \"requests\": [{\"name\": \"orders\", \"had_until\": null}]}')";
const NEXT: &str = "SELECT next_value::bigint FROM snowflake_registry.segment";

/// How a caller makes a commit visible that is not durable.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It lowers `synchronous_commit` to this value at the end of a transaction block.
    InBlock(&'static str),
    /// The statement that calls the function lowers `synchronous_commit` to this value.
    InStatement(&'static str),
    /// Another session of its role cancels the wait for the standby.
    Canceled,
}

/// Removes what CREATE EXTENSION has left in the catalogs. Otherwise, loading the functions may prune a page, and nothing
/// but the WAL writer would flush that: the first call would get no token, depending on the lengths of the functions.
fn prune_catalogs(server: &Cluster) {
    server.connect().run("VACUUM");
}

/// Calls a function of the registry. Returns the token.
fn call(server: &Cluster, client: &mut Client, way: Way, call: &str) -> Option<String> {
    let row = match way {
        Way::InBlock(level) => {
            client.run("BEGIN");
            let row = client.query_one(&format!("SELECT outcome, token FROM {call}"), &[]).unwrap();
            client.run(&format!("SET LOCAL synchronous_commit = {level}; COMMIT"));
            row
        }
        Way::InStatement(level) => {
            let lower = format!("set_config('synchronous_commit', '{level}', true)");
            client.query_one(&format!("SELECT outcome, token, {lower} FROM {call}"), &[]).unwrap()
        }
        Way::Canceled => thread::scope(|scope| {
            let calling =
                scope.spawn(|| client.query_one(&format!("SELECT outcome, token FROM {call}"), &[]).unwrap());
            let mut other = server.connect();
            let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
            while !calling.is_finished() {
                other.query(cancel, &[]).unwrap();
            }
            calling.join().unwrap()
        }),
    };
    assert!(["granted", "noted"].contains(&row.get(0)), "{:?}", row.get::<_, String>(0));
    row.get(1)
}

/// Takes a range and acquires a lease. Then, unless this is the control, requests tokens of both, which are returned.
fn lie(server: &Cluster, way: Way, asks_for_tokens: bool) -> [Option<String>; 2] {
    let mut client = server.connect();
    let liar = Member::new();
    call(server, &mut client, way, TAKE);
    let acquire = format!("snowflake_registry.acquire({})", liar.request_of_an_identity(1024, &[]));
    call(server, &mut client, way, &acquire);
    if !asks_for_tokens {
        return [None, None];
    }
    let numbers = report(&mut client, "orders", &[]).1;
    let nonces = format!("'last_nonce', '{}', 'next_nonce', '{}'", liar.nonce, member::uuid());
    let renew = format!("snowflake_registry.renew({})", liar.request(&[], &nonces));
    [numbers, call(server, &mut client, way, &renew)]
}

/// The liar shows its tokens. Neither the segment nor a lease is taken away.
fn assert_harmless(client: &mut Client, tokens: &[Option<String>; 2], honest: &mut Member) {
    let [numbers, lease] = tokens;
    for tokens in [numbers, lease] {
        let shown: Vec<_> = tokens.as_deref().into_iter().collect();
        report(client, "orders", &shown);
        assert_eq!(honest.renew_and_show(client, &shown).unwrap().outcome, "granted");
    }
    let proved = "SELECT is_proved FROM snowflake_registry.settings";
    assert!(!single::<bool>(client, proved), "{}", member::reason(client));
    assert_eq!(taker::state(client, "orders"), "open", "{}", taker::closed_reason(client, "orders"));
}

/// The server crashes before the WAL writer writes the commits. The control shows that they are lost.
#[test]
fn a_crash_after_asynchronous_commits() {
    for way in [Way::InBlock("off"), Way::InStatement("off")] {
        for asks_for_tokens in [false, true] {
            let slow = Cluster::builder().set("wal_writer_delay", "10s").set("autovacuum", "off");
            let server = taker::start_with_fleet(slow);
            let mut client = server.connect();
            let mut honest = member::granted(&mut client);
            assert!(honest.renew(&mut client).unwrap().token.is_some());
            // In spite of the delay, it writes each page that is full.
            let wal_writer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
            let paused = Paused::new(vec![single(&mut client, wal_writer)]);
            let tokens = lie(&server, way, asks_for_tokens);
            assert_eq!(single::<i64>(&mut client, NEXT), 1001);
            kill_server(&server);
            drop((client, paused));
            server.start_server();
            let mut client = server.connect();
            if !asks_for_tokens {
                assert_eq!(single::<i64>(&mut client, NEXT), 1, "{way:?}: the commit is not lost");
            }
            assert_harmless(&mut client, &tokens, &mut honest);
        }
    }
}

/// The standby is cut off, and is promoted without the last commits. Those who waited for their commits know of none.
#[test]
fn a_failover_after_commits_without_the_standby() {
    for way in [Way::InBlock("local"), Way::InStatement("local"), Way::Canceled] {
        let primary = taker::start_with_fleet(Cluster::builder());
        let standby = primary.start_standby(&[("synchronous_standby_names", "")]);
        let mut client = primary.connect();
        administer(&mut client, "configure(synchronous => true)");
        let mut honest = member::granted(&mut client);
        primary.replicate_synchronously();
        assert!(honest.renew(&mut client).unwrap().token.is_some());
        standby.stop_receiving();
        let tokens = lie(&primary, way, true);
        assert_eq!(single::<i64>(&mut client, NEXT), 1001);
        drop(client);
        primary.stop_server("immediate");
        standby.promote();
        let mut client = standby.connect();
        assert_eq!(single::<i64>(&mut client, NEXT), 1, "{way:?}: the commit is not lost");
        let leases: i64 = single(&mut client, "SELECT count(*) FROM snowflake_registry.lease");
        assert_eq!(leases, 1);
        assert_harmless(&mut client, &tokens, &mut honest);
        assert_eq!(tokens, [None, None]);
    }
}

/// Calls that change nothing prune pages. The next call has its token at once, although the WAL writer flushes nothing.
#[test]
fn a_call_after_pruning() {
    let slow = Cluster::builder().set("wal_writer_delay", "10s").set("autovacuum", "off");
    let registry = taker::start_with_fleet(slow);
    let mut client = registry.connect();
    let take = format!("SELECT token FROM {TAKE}");
    // The first call of the session also prunes pages of catalogs.
    client.run(&take);
    for call in 0..100 {
        assert!(single::<Option<String>>(&mut client, &take).is_some(), "call {call}");
        assert!(report(&mut client, "orders", &[]).1.is_some(), "report {call}");
    }
}

/// Tokens are withheld while a standby is missing, and view status says since when. Then they come again.
#[test]
fn tokens_are_withheld_until_the_standby_is_back() {
    let primary = taker::start_with_fleet(Cluster::builder());
    let standby = WalReceiver::start(&primary, "standby");
    let mut client = primary.connect();
    let mut holder = member::granted(&mut client);
    primary.replicate_synchronously();
    let since = "SELECT unsigned_since IS NOT NULL FROM snowflake_registry.status";
    assert!(holder.renew(&mut client).unwrap().token.is_some());
    assert!(!single::<bool>(&mut client, since));
    drop(standby);
    primary.lose_the_standby();
    let nonces = format!("'last_nonce', '{}', 'next_nonce', '{}'", holder.nonce, holder.nonce);
    let renew = format!("snowflake_registry.renew({})", holder.request(&[], &nonces));
    let began = Instant::now();
    assert_eq!(call(&primary, &mut client, Way::InBlock("local"), &renew), None);
    assert!(began.elapsed().as_millis() >= 495);
    assert!(single::<bool>(&mut client, since));
    assert!(primary.log().contains("signed no token"), "{}", primary.log());
    let first: String = single(&mut client, "SELECT unsigned_since::text FROM snowflake_registry.status");
    assert_eq!(call(&primary, &mut client, Way::InBlock("local"), &renew), None);
    assert_eq!(
        first,
        single::<String>(&mut client, "SELECT unsigned_since::text FROM snowflake_registry.status")
    );
    primary.change_for(&mut client, "synchronous_standby_names", "");
    assert!(holder.renew(&mut client).unwrap().token.is_some());
    assert!(!single::<bool>(&mut client, since));
}

/// A lease that was just granted is signed at once, on a server where nothing else writes.
#[test]
fn the_first_renewal_gets_its_token() {
    let server = taker::start_with_fleet(Cluster::builder().set("autovacuum", "off"));
    prune_catalogs(&server);
    let mut client = server.connect();
    let began = Instant::now();
    for round in 0..150 {
        let mut holder = member::granted(&mut client);
        assert!(holder.renew(&mut client).unwrap().token.is_some(), "renewal {round}");
        taker::Member::default().granted(&mut client, "orders");
        assert!(report(&mut client, "orders", &[]).1.is_some(), "report {round}");
    }
    println!("{:?} for 150 leases and 150 ranges", began.elapsed());
    assert!(!server.log().contains("signed no token"));
}

/// Other sessions commit asynchronously all the time.
#[test]
fn tokens_come_beside_asynchronous_commits() {
    let server = taker::start_with_fleet(Cluster::builder());
    let mut client = server.connect();
    client.run("CREATE TABLE notes (note text)");
    let writers = (0..2).map(|_| {
        let mut client = server.connect();
        client.run("SET synchronous_commit = off");
        move |stop: &std::sync::atomic::AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                client.run("INSERT INTO notes VALUES ('n')");
            }
        }
    });
    beside(writers, || {
        for round in 0..20 {
            let mut holder = member::granted(&mut client);
            assert!(holder.renew(&mut client).unwrap().token.is_some(), "renewal {round}");
            assert!(report(&mut client, "orders", &[]).1.is_some(), "report {round}");
        }
    });
}

/// The registry reads `synchronous_standby_names` as PostgreSQL does: it signs if and only if a commit does not wait.
#[test]
fn as_many_standbys_as_a_commit_waits_for() {
    let server = taker::start_with_fleet(Cluster::builder());
    prune_catalogs(&server);
    let _standby = WalReceiver::start(&server, "standby");
    let mut client = server.connect();
    eventually("the receiver", || {
        single::<i64>(&mut client, "SELECT count(*) FROM pg_stat_replication WHERE flush_lsn IS NOT NULL")
            == 1
    });
    let one = [
        "standby",
        "*",
        "gone, standby",
        "2, standby",
        "FIRST 1 (gone, standby)",
        "first\t01\t(*)",
        " aNy \t 1(\"standby\")",
        "\t1 (standby)",
        "standby, \"ANY 2 (x)\"",
        "\"FIRST 2 (\", standby",
        "1 (\"any 3 (\", standby)",
    ];
    let two = [
        "gone",
        "FIRST 2 (standby, gone)",
        "ANY 2 (standby, gone)",
        "any\t2\t(standby, gone)",
        "ANY\t\t2(standby, gone)",
        "\t2 ( standby, gone )",
        "02(*)",
        "first 2(\"ANY 1 (\", standby)",
    ];
    let both = one.iter().map(|names| (names, true)).chain(two.iter().map(|names| (names, false)));
    for (names, is_enough) in both {
        server.change_for(&mut client, "synchronous_standby_names", names);
        let durable = "SELECT snowflake_registry.durable_position() > '0/0'";
        eventually(names, || single::<bool>(&mut client, durable) == is_enough);
        eventually(names, || commits(&server) == is_enough);
        assert_eq!(report(&mut client, "orders", &[]).1.is_some(), is_enough, "{names}");
    }
}

/// Commits. Returns whether the commit did not have to wait for a standby that is missing.
fn commits(server: &Cluster) -> bool {
    let mut committer = server.connect();
    let mut other = server.connect();
    thread::scope(|scope| {
        let committing = scope.spawn(|| committer.run("SELECT pg_logical_emit_message(true, '', '')"));
        let waits = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                     WHERE wait_event = 'SyncRep' AND clock_timestamp() > state_change + interval '200 milliseconds'";
        let mut has_waited = false;
        while !committing.is_finished() {
            has_waited |= !other.query(waits, &[]).unwrap().is_empty();
        }
        !has_waited
    })
}

/// The owner of the registry does not see the standbys without the privileges of `pg_read_all_stats`. The registry then
/// signs what is durable on its own server, and view status says so.
#[test]
fn an_owner_who_does_not_see_the_standbys() {
    let server = Cluster::builder().start();
    let mut client = server.connect();
    client.run(
        "CREATE ROLE keeper_of_ids LOGIN; CREATE ROLE watcher LOGIN IN ROLE pg_monitor;
         GRANT CREATE ON DATABASE postgres TO keeper_of_ids;
         SET ROLE keeper_of_ids;
         CREATE EXTENSION snowflake_id_registry;
         SELECT snowflake_registry.start_fleet(0, 1023, first_start => true);
         RESET ROLE",
    );
    let mut holder = member::granted(&mut client);
    let _standby = WalReceiver::start(&server, "standby");
    server.replicate_synchronously();
    let sees = |client: &mut Client| {
        client.run("SET ROLE watcher");
        let sees = single::<bool>(client, "SELECT sees_standbys FROM snowflake_registry.status");
        client.run("RESET ROLE");
        sees
    };
    assert!(!sees(&mut client));
    assert!(holder.renew(&mut client).unwrap().token.is_some());
    server.lose_the_standby();
    let nonces = format!("'last_nonce', '{}', 'next_nonce', '{}'", holder.nonce, holder.nonce);
    let renew = format!("snowflake_registry.renew({})", holder.request(&[], &nonces));
    assert!(call(&server, &mut client, Way::InBlock("local"), &renew).is_some());
    client.run("SET synchronous_commit = local");
    client.run("GRANT pg_monitor TO keeper_of_ids");
    assert!(sees(&mut client));
    assert_eq!(call(&server, &mut client, Way::InBlock("local"), &renew), None);
}

/// A managed service may deny access to positions in WAL. The registry then signs all that is committed.
#[test]
fn a_service_without_positions() {
    let server = Cluster::builder().start();
    let mut client = server.connect();
    client.run(
        "REVOKE EXECUTE ON FUNCTION pg_current_wal_insert_lsn FROM PUBLIC;
         CREATE ROLE keeper_of_ids LOGIN;
         GRANT CREATE ON DATABASE postgres TO keeper_of_ids;
         SET ROLE keeper_of_ids;
         CREATE EXTENSION snowflake_id_registry;
         SELECT snowflake_registry.start_fleet(0, 1023, first_start => true);
         RESET ROLE",
    );
    let mut holder = member::granted(&mut client);
    assert!(holder.renew(&mut client).unwrap().token.is_some());
    assert!(!single::<bool>(&mut client, "SELECT knows_timeline FROM snowflake_registry.status"));
    client.run(
        "GRANT EXECUTE ON FUNCTION pg_current_wal_insert_lsn TO PUBLIC;
         REVOKE EXECUTE ON FUNCTION pg_current_wal_flush_lsn FROM PUBLIC",
    );
    assert!(holder.renew(&mut client).unwrap().token.is_some());
}
