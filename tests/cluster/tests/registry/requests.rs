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
        (text(300_000_000), "54000"),
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

/// Only the first 128 tokens are read, so a call with very many takes no longer than one with 128.
#[test]
fn many_tokens() {
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    let mut member = granted(&mut client);
    member.renew(&mut client).unwrap();
    let token = member.token.clone().unwrap();
    let tokens: Vec<&str> = (0..5_000).map(|_| token.as_str()).collect();
    assert_eq!(member.renew_and_show(&mut client, &tokens).unwrap().outcome, "granted");
}
