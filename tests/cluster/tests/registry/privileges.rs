//! Roles that may use only some segments: programs and servers that take numbers by a login role of their own. Topic
//! `registry_privileges` of pg_regress covers what a single session can test.

use std::thread;

use harness::segments;
use harness::*;

use super::forgets::report;
use super::taker::{Member, administer, start, state};

/// Connects by a login role.
fn connect_as(cluster: &Cluster, role: &str) -> Client {
    Client::connect(&cluster.connection_string(role), postgres::NoTls).unwrap()
}

/// The outcome of a request.
fn outcome(client: &mut Client, name: &str) -> String {
    Member::default().take(client, name).outcome
}

/// A registry with two segments and the role of a shop, which may use one of them.
fn registry_of_a_shop() -> Cluster {
    let registry = start(Cluster::builder());
    let mut client = registry.connect();
    client.run("GRANT USAGE ON SCHEMA snowflake_registry TO takers; CREATE ROLE shop LOGIN IN ROLE takers");
    for call in ["create_segment('mine')", "create_segment('theirs')", "grant_segment('mine', 'shop')"] {
        administer(&mut client, call);
    }
    registry
}

/// Another session holds the lock of a denied name, and nothing waits for it. Reports neither wait nor write.
#[test]
fn a_denied_name_is_not_locked() {
    let registry = registry_of_a_shop();
    let (mut other, mut shop) = (registry.connect(), connect_as(&registry, "shop"));
    other.run("BEGIN");
    Member::default().granted(&mut other, "theirs");
    shop.run("BEGIN");
    for more in ["", ", \"report\": true", ", \"report\": true, \"registry_id\": null"] {
        let taken = Member::default().take_by(&mut shop, "take", "theirs", more);
        assert_eq!((taken.outcome.as_str(), taken.first), ("denied", None), "{taken:?}");
    }
    let wrote = "SELECT pg_current_xact_id_if_assigned() IS NOT NULL";
    assert!(!single::<bool>(&mut shop, wrote));
    assert_eq!(outcome(&mut shop, "mine"), "granted");
    shop.run("COMMIT");
    // The lock of a name that it may use does count.
    other.run("ROLLBACK; BEGIN");
    Member::default().granted(&mut other, "mine");
    assert_eq!(outcome(&mut shop, "mine"), "busy");
    assert_eq!(report(&mut shop, "mine", &[]).0, "noted");
}

/// What the registry has signed proves a loss, whoever presents it and whatever the role may use now. The reason
/// contains the name and numbers of a segment that the role may not use, so the role does not get it.
#[test]
fn a_limited_role_tells_of_a_loss() {
    let registry = registry_of_a_shop();
    let mut client = registry.connect();
    let copy = registry.duplicate_in_between();
    drop(client);
    client = registry.connect();
    administer(&mut client, "end_quarantine()");
    Member::default().granted(&mut client, "theirs");
    let token = report(&mut client, "theirs", &[]).1.unwrap();
    drop(client);
    registry.stop_server("fast");
    copy.start_server();
    let mut client = copy.connect();
    administer(&mut client, "end_quarantine()");
    let mut shop = connect_as(&copy, "shop");
    let (outcome, signed) = report(&mut shop, "theirs", &[&token]);
    assert_eq!((outcome.as_str(), signed), ("denied", None));
    assert_eq!(state(&mut client, "theirs"), "closed");
    assert!(super::taker::closed_reason(&mut client, "mine").contains("theirs"));
    let answer = Member::default().take(&mut shop, "mine");
    assert_eq!(answer.outcome, "closed");
    assert_eq!(answer.detail.unwrap(), "commits of the registry may have been lost");
}

/// The table of privileges is rewritten, for example by `REPACK (CONCURRENTLY)`, while a role asks. An older snapshot would
/// show it empty.
#[test]
fn the_table_is_rewritten_meanwhile() {
    let registry = registry_of_a_shop();
    let mut shop = connect_as(&registry, "shop");
    assert_eq!(beside_rewrite(&registry, || outcome(&mut shop, "theirs")), "denied");
    assert_eq!(beside_rewrite(&registry, || outcome(&mut shop, "mine")), "granted");
}

/// Calls a function that waits for a command that rewrites the table of privileges.
fn beside_rewrite<T: Send>(registry: &Cluster, ask: impl FnOnce() -> T + Send) -> T {
    let mut client = registry.connect();
    client.run("BEGIN; ALTER TABLE snowflake_registry.segment_privilege SET UNLOGGED");
    thread::scope(|scope| {
        let asked = scope.spawn(ask);
        let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation')";
        eventually("the lock", || single::<bool>(&mut client, waits));
        client.run("COMMIT; ALTER TABLE snowflake_registry.segment_privilege SET LOGGED");
        asked.join().unwrap()
    })
}

/// A dump contains the names of roles, which have other OIDs elsewhere. Without the roles it is not restored, rather
/// than restored without limits.
#[test]
fn a_dump_keeps_the_limits() {
    let old = registry_of_a_shop();
    let mut client = old.connect();
    client.run("CREATE ROLE \"Old shop\"; CREATE ROLE idle LOGIN IN ROLE takers");
    administer(&mut client, "grant_segment('mine', '\"Old shop\"')");
    administer(&mut client, "grant_segment('mine', 'idle')");
    administer(&mut client, "revoke_segment('mine', 'idle')");
    client.run("DROP ROLE \"Old shop\"");
    let rows = "SELECT string_agg(role || ':' || name, ' ' ORDER BY role::text, name) FROM snowflake_registry.segment_privilege";
    assert!(single::<String>(&mut client, rows).ends_with(" idle: shop: shop:mine"));
    let dump = old.dump();

    let new = Cluster::builder().extensions(&[]).start();
    let mut client = new.connect();
    client.run("CREATE ROLE another; CREATE ROLE takers; CREATE ROLE idle LOGIN IN ROLE takers");
    client.run("CREATE DATABASE without");
    let mut restore = new.client_program("pg_restore");
    let output = restore.args(["--exit-on-error", "--dbname=without"]).arg(&dump).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("role \"shop\" does not exist"), "{said}");

    client.run("CREATE ROLE shop LOGIN IN ROLE takers");
    new.restore(&dump, "postgres");
    assert_eq!(single::<String>(&mut client, rows), "idle: shop: shop:mine");
    administer(&mut client, "resume_segments()");
    let mut shop = connect_as(&new, "shop");
    assert_eq!(outcome(&mut shop, "theirs"), "denied");
    assert_eq!(outcome(&mut connect_as(&new, "idle"), "mine"), "denied");
    assert!(single::<bool>(&mut client, "SELECT is_guarded FROM snowflake_registry.status"));
}

/// A new role of the same name is another role, which no row limits.
#[test]
fn a_role_that_was_dropped_limits_no_other() {
    let registry = registry_of_a_shop();
    let mut client = registry.connect();
    assert_eq!(outcome(&mut connect_as(&registry, "shop"), "theirs"), "denied");
    client.run("DROP ROLE shop; CREATE ROLE shop LOGIN IN ROLE takers");
    assert_eq!(outcome(&mut connect_as(&registry, "shop"), "theirs"), "granted");
}

/// Rows of another registry do not arrive by a subscription, and TRUNCATE does not lift the limits.
#[test]
fn limits_are_not_replicated() {
    let registry = registry_of_a_shop();
    let mut client = registry.connect();
    client.run("SET session_replication_role = replica");
    client.run("DELETE FROM snowflake_registry.segment_privilege");
    client.run("INSERT INTO snowflake_registry.segment_privilege SELECT 'theirs', role FROM snowflake_registry.segment_privilege");
    let (code, said) = failure(&mut client, "TRUNCATE snowflake_registry.segment_privilege");
    assert_eq!(code, "23001", "{said}");
    assert!(said.contains("no role would be limited"), "{said}");
    let mut shop = connect_as(&registry, "shop");
    assert_eq!(outcome(&mut shop, "theirs"), "denied");
    assert_eq!(outcome(&mut shop, "mine"), "granted");
}

/// A server gets the numbers that its login role may use, and the error for other names contains the statement that
/// helps. A server that has lost a name uses up what it has.
#[test]
fn a_server_takes_by_its_role() {
    let registry = segments::registry();
    let mut administrator = registry.connect();
    administrator.run("CREATE ROLE shard1 LOGIN IN ROLE fleet");
    administer(&mut administrator, "create_segment('orders', min_step => 10, max_step => 10)");
    administer(&mut administrator, "create_segment('it''s theirs')");
    administer(&mut administrator, "grant_segment('orders', 'shard1')");
    let connection = format!("{} connect_timeout=2", registry.connection_string("shard1"));
    let server = segments::preloaded().set("snowflake_id.registry", connection).start();
    let mut client = server.connect();
    assert_eq!(segments::next(&mut client, "orders"), 1);
    let (code, said) = segments::refusal(&mut client, "it''s theirs");
    assert_eq!(code, "42501", "{said}");
    assert!(said.starts_with("permission denied for segment \"it's theirs\"\n"), "{said}");
    let statement = "snowflake_registry.grant_segment('it''s theirs', 'shard1')";
    assert!(said.contains(statement), "{said}");
    assert_eq!(segments::segment_state(&mut client, "it''s theirs"), "permission denied");
    administrator.run(&format!("SELECT {statement}"));
    assert_eq!(segments::next(&mut client, "it''s theirs"), 1);

    administer(&mut administrator, "revoke_segment('orders', 'shard1')");
    let denied = eventually("the end of its numbers", || {
        client.query("SELECT snowflake_segment_nextval('orders')", &[]).err()
    });
    assert_eq!(denied.code().unwrap().code(), "42501");
    administer(&mut administrator, "grant_all_segments('shard1')");
    assert!(segments::next(&mut client, "orders") > 1);
}
