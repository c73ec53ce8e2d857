//! Requests of any size and shape. Topic `registry_protocol` of pg_regress covers single keys.

use harness::*;

use super::member::{Member, granted, start};

/// A program sends as much as it can. Then the registry answers others as before.
#[test]
fn requests_of_any_size() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    let mut member = granted(&mut client);
    let usual = member.request(&[], "'last_nonce', gen_random_uuid(), 'next_nonce', gen_random_uuid()");
    let text = |length: u32| format!("jsonb_build_object('x', repeat('x', {length}))");
    let nested = |levels: u32| format!("(repeat('[', {levels}) || repeat(']', {levels}))::jsonb");
    let many = "(SELECT jsonb_agg(repeat('x', 800)) FROM generate_series(1, 100000))";
    for (more, code) in [
        (text(2_000_000), "54000"),
        (text(200_000_000), "54000"),
        (format!("jsonb_build_object('facts', {})", nested(60_000)), "54001"),
        (format!("jsonb_build_object('tokens', {many})"), "54000"),
    ] {
        for function in ["acquire", "renew", "release", "take"] {
            let grant = format!("GRANT EXECUTE ON FUNCTION snowflake_registry.{function} TO pg_monitor");
            client.run(&grant);
            let call = format!("SELECT snowflake_registry.{function}({usual} || {more})");
            assert_eq!(failure(&mut client, &call).0, code, "{function} {more}");
        }
    }
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(Member::new().acquire(&mut client, 1024).unwrap().outcome, "granted");
}

/// A value in a table is compressed, and PostgreSQL does not read it before the function does.
#[test]
fn a_request_that_is_compressed() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    let mut member = granted(&mut client);
    let usual = member.request(&[], "'last_nonce', gen_random_uuid(), 'next_nonce', gen_random_uuid()");
    client.run(&format!(
        "SET plan_cache_mode = force_generic_plan;
         CREATE TEMP TABLE request AS
             SELECT {usual} || jsonb_build_object(key, jsonb_build_object('x', repeat('x', 40000000))) AS request
             FROM unnest(ARRAY['facts', '', 'x']) AS key"
    ));
    assert!(single::<i32>(&mut client, "SELECT max(pg_column_size(request)) FROM request") < 1_000_000);
    for key in ["facts", "", "x"] {
        let call =
            format!("SELECT snowflake_registry.renew(request) FROM request WHERE request ->> '{key}' ~ 'xx'");
        assert_eq!(failure(&mut client, &call).0, "54000", "{key}");
    }
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
}

/// Other servers wait while tokens are read, so their number is limited.
#[test]
fn many_tokens() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    let mut member = granted(&mut client);
    member.renew(&mut client).unwrap();
    let token = member.token.clone().unwrap();
    let tokens = |count: usize| vec![token.as_str(); count];
    assert_eq!(member.renew_and_show(&mut client, &tokens(128)).unwrap().outcome, "granted");
    let error = member.renew_and_show(&mut client, &tokens(129)).unwrap_err();
    assert_eq!(error.code().unwrap().code(), "22023", "{}", text(&error));
}

/// A copy of the holder repeats the first request. It is refused if it shows a token, even if the registry has lost the
/// renewal that returned the token.
#[test]
fn a_token_shows_that_a_lease_was_renewed() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    let mut member = Member::new();
    let first = member.request_of_an_identity(1024, &[]);
    assert_eq!(member.acquire(&mut client, 1024).unwrap().outcome, "granted");
    assert_eq!(member.acquire(&mut client, 1024).unwrap().outcome, "granted");
    let copy = member.clone();
    member.renew(&mut client).unwrap();
    let ask = |client: &mut Client, request: &str| -> String {
        single(client, &format!("SELECT outcome FROM snowflake_registry.acquire({request})"))
    };
    client.run(
        "ALTER TABLE snowflake_registry.lease DISABLE TRIGGER ALL;
         UPDATE snowflake_registry.lease SET is_renewed = false, nonce = NULL;
         SELECT snowflake_registry.switch_guards_on()",
    );
    let shown = copy.request_of_an_identity(1024, &member.tokens());
    assert_eq!(ask(&mut client, &shown), "twin");
    assert_eq!(ask(&mut client, &first), "granted");
    member.renew(&mut client).unwrap();
    assert_eq!(ask(&mut client, &first), "twin");
}
