//! No number is repeated, whatever happens to the registry of a server or replaces it.

use harness::segments::*;
use harness::*;

use crate::fleet::hostile_registry::peak_memory;

/// Small ranges, so that many are taken.
const SMALL: &str = "create_segment(\'orders\', min_step => 50, max_step => 200)";

#[test]
fn a_registry_that_may_have_lost_commits_closes_its_segments() {
    let registry = registry();
    administer(&registry, SMALL);
    let server = server_of(&registry).start();
    let other = server_of(&registry).start();
    let mut client = server.connect();
    let mut all = some(&mut client, "orders", 60);
    let copy = registry.duplicate_in_between();
    administer(&registry, "end_quarantine()");
    all.extend(some(&mut client, "orders", 1000));
    let highest: i64 =
        single(&mut registry.connect(), "SELECT next_value::bigint FROM snowflake_registry.segments");
    registry.stop_server("immediate");

    copy.start_server();
    for server in [&server, &other] {
        server.change("snowflake_id.registry", &connection_string(&copy));
    }
    let closed = eventually("the segment to be closed", || {
        match client.query("SELECT snowflake_segment_batch('orders', 50)", &[]) {
            Ok(rows) => {
                all.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
                None
            }
            Err(error) => Some(error),
        }
    });
    assert_eq!(closed.code().unwrap().code(), "55000", "{}", text(&closed));
    assert!(text(&closed).contains("resume_segment"), "{}", text(&closed));
    // The other server gets none of them either.
    assert_eq!(refusal(&mut other.connect(), "orders").0, "55000");

    administer(&copy, &format!("resume_segment('orders', {highest})"));
    all.push(next(&mut client, "orders"));
    all.push(next(&mut other.connect(), "orders"));
    assert_distinct(&all);
    assert!(all[all.len() - 2] >= highest, "{:?}", &all[all.len() - 2..]);
}

/// The highest value from which a segment continues, by the server's tokens, whoever has signed them.
fn shown_value(server: &Cluster) -> i64 {
    let file = std::fs::read_to_string(server.data_dir().join("snowflake_id.segments")).unwrap_or_default();
    let numbers =
        file.split("segment:6f7264657273:").skip(1).filter_map(|rest| rest.split(':').next()?.parse().ok());
    numbers.max().unwrap_or(0)
}

/// Sets a registry back while only this server knows what it granted, and waits until the registry has detected that.
fn assert_setting_back_is_proved(registry: &Cluster, server: &Cluster) {
    let copy = registry.duplicate_in_between();
    administer(registry, "end_quarantine()");
    some(&mut server.connect(), "orders", 300);
    registry.stop_server("immediate");
    copy.start_server();
    server.change("snowflake_id.registry", &connection_string(&copy));
    let mut client = copy.connect();
    eventually("the segment to be closed", || {
        single::<String>(&mut client, "SELECT state FROM snowflake_registry.segments") == "closed"
    });
}

/// The token that another registry has signed has a higher value, because others had taken from it. It does not replace
/// the token of this registry.
#[test]
fn evidence_of_another_registry_pushes_out_none() {
    let (old, new) = (registry(), registry());
    administer(&old, SMALL);
    administer(&new, SMALL);
    let (server, other) = (server_of(&old).start(), server_of(&old).start());
    let highest = *some(&mut server.connect(), "orders", 60).last().unwrap();
    some(&mut other.connect(), "orders", 3_000);
    eventually("evidence of the other's numbers", || shown_value(&server) > 3_000);
    server.change("snowflake_id.registry", &connection_string(&new));
    let next_value = "SELECT next_value::bigint FROM snowflake_registry.segments";
    eventually("the new registry to know", || single::<i64>(&mut new.connect(), next_value) > highest);
    assert_setting_back_is_proved(&new, &server);
}

/// The same with an impostor that uses the registry's ID, and signs higher values than the registry ever does.
#[test]
fn evidence_that_is_made_up_pushes_out_none() {
    let registry = registry();
    administer(&registry, SMALL);
    let server = server_of(&registry).start();
    some(&mut server.connect(), "orders", 60);
    let mut client = registry.connect();
    let function = "snowflake_registry.signed(text)";
    let honest: String =
        single(&mut client, &format!("SELECT pg_get_functiondef('{function}'::regprocedure)"));
    client.run(
        "CREATE OR REPLACE FUNCTION snowflake_registry.signed(statement text) RETURNS text LANGUAGE sql
         RETURN 'segment:6f7264657273:999999999::1:0::.' || random()",
    );
    eventually("the lie", || shown_value(&server) == 999_999_999);
    client.run(&honest);
    drop(client);
    assert_setting_back_is_proved(&registry, &server);
}

/// The server moves from a registry in its own database to another registry, which starts lower.
#[test]
fn a_segment_moves_to_another_registry() {
    let registry = registry();
    administer(&registry, SMALL);
    let server = single_server().start();
    administer(&server, "create_segment('orders', start => 5000, min_step => 50, max_step => 50)");
    let mut client = server.connect();
    let mut all = some(&mut client, "orders", 120);
    assert_eq!(all[0], 5000);
    server.change("snowflake_id.registry", &connection_string(&registry));
    eventually("the worker of the registry", || {
        single::<bool>(
            &mut client,
            "SELECT setting <> '' FROM pg_settings WHERE name = 'snowflake_id.registry'",
        )
    });
    all.extend(some(&mut client, "orders", 300));
    assert_increasing(&all);
    let next_value: i64 =
        single(&mut registry.connect(), "SELECT next_value::bigint FROM snowflake_registry.segments");
    assert!(next_value > *all.last().unwrap(), "{next_value}");
    assert!(server.log().contains("the registry of segments has changed"), "{}", server.log());
}

#[test]
fn a_standby_has_no_numbers_and_goes_on_above_when_it_is_promoted() {
    let primary = single_server().start();
    administer(&primary, SMALL);
    let mut client = primary.connect();
    client.run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_segment_nextval('orders'))");
    client.run("INSERT INTO orders SELECT FROM generate_series(1, 130)");
    let standby = primary.start_standby(&[]);
    let (code, said) = refusal(&mut standby.connect(), "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("during recovery"), "{said}");
    client.run("INSERT INTO orders SELECT FROM generate_series(1, 1000)");
    all_arrive("the rows", || single::<i64>(&mut standby.connect(), "SELECT count(*) FROM orders") == 1130);
    primary.stop_server("immediate");
    standby.promote();
    let mut client = standby.connect();
    let highest: i64 = single(&mut client, "SELECT max(id) FROM orders");
    assert!(next(&mut client, "orders") > highest);
    client.run("INSERT INTO orders SELECT FROM generate_series(1, 1000)");
}

/// With a registry elsewhere the standby gets numbers above all that the primary was given, including those of rows
/// that had not arrived.
#[test]
fn a_standby_with_a_registry_elsewhere_is_promoted() {
    let registry = registry();
    administer(&registry, SMALL);
    let primary = server_of(&registry).start();
    let mut all = some(&mut primary.connect(), "orders", 60);
    let standby = primary.start_standby(&[]);
    standby.stop_receiving();
    all.extend(some(&mut primary.connect(), "orders", 1000));
    standby.promote();
    // Both continue for a while.
    for server in [&standby, &primary, &standby, &primary] {
        let numbers = some(&mut server.connect(), "orders", 300);
        assert_increasing(&numbers);
        all.extend(numbers);
    }
    assert_distinct(&all);
}

/// The owner of the database may create objects with the names of the registry's.
#[test]
fn a_registry_that_is_not_the_extension_is_not_asked() {
    let server = preloaded().start();
    let mut client = server.connect();
    client.run(
        "CREATE SCHEMA snowflake_registry;
         CREATE TABLE trap (n int);
         CREATE FUNCTION snowflake_registry.take_local(jsonb) RETURNS SETOF int
         LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.trap VALUES (1); RETURN; END $$",
    );
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("no registry of segments is configured"), "{said}");
    assert_eq!(ids(&mut client, "SELECT n::bigint FROM trap"), Vec::<i64>::new());
}

/// A registry that replies to each request with so many rows, each of which grants 1 to 10.
fn lying_registry(rows: i32) -> Cluster {
    let registry = Cluster::builder().extensions(&[]).start();
    registry
        .connect().run(&format!(
            "CREATE ROLE fleet LOGIN;
             CREATE SCHEMA snowflake_registry;
             GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
             CREATE FUNCTION snowflake_registry.take(jsonb)
             RETURNS TABLE (request int, name text, outcome text, first bigint, increment bigint, count bigint,
                            period_key bigint, period_starts bigint, period_ends bigint, step bigint, max_value bigint,
                            registry_id uuid, registry_clock bigint, detail text, token text,
                            report_every bigint, server_started bigint, near text)
             LANGUAGE sql AS $$
                 SELECT ordinal, asked ->> 'name', 'granted', 1, 1, 10, NULL::bigint, NULL::bigint, NULL::bigint, 10, 1000,
                        '3c5f0000-0000-4000-8000-000000000000'::uuid,
                        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, NULL, 'segment:6f7264657273:11::1::.00', NULL::bigint, NULL::bigint,
                        NULL::text
                 FROM jsonb_array_elements($1 -> 'requests') WITH ORDINALITY AS element (asked, ordinal),
                      generate_series(1, {rows}) $$"
        ));
    registry
}

/// The registry has forgotten what it granted, and to which server.
#[test]
fn numbers_that_a_server_has_had_are_refused() {
    let registry = lying_registry(1);
    let server = server_of(&registry).start();
    let mut client = server.connect();
    assert_eq!(some(&mut client, "orders", 10), (1..=10).collect::<Vec<_>>());
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("numbers from 1, but this server has already received numbers up to 10"), "{said}");
    // It does not accept them after a restart either.
    drop(client);
    server.restart("immediate");
    assert_eq!(refusal(&mut server.connect(), "orders").0, "55000");
}

/// The same within one reply.
#[test]
fn numbers_that_come_twice_in_one_answer_are_refused() {
    let registry = lying_registry(2);
    let server = server_of(&registry).start();
    let mut client = server.connect();
    assert_eq!(some(&mut client, "orders", 10), (1..=10).collect::<Vec<_>>());
    assert_eq!(refusal(&mut client, "orders").0, "55000");
}

/// A registry that lost a grant before it signed it signs a token that states less. The server does not use the range.
#[test]
fn a_token_that_states_less_than_the_range() {
    let registry = lying_registry(1);
    registry.connect().run(
        "DO $$ BEGIN
             EXECUTE replace(pg_get_functiondef('snowflake_registry.take'::regproc), ':11::1::', ':10::1::');
         END $$",
    );
    let server = server_of(&registry).set("snowflake_id.max_wait", "1s").start();
    let (code, said) = refusal(&mut server.connect(), "orders");
    assert_eq!(code, "55P03", "{said}");
    eventually("the reason", || server.log().contains("did not sign the numbers"));
}

/// A copy of an earlier state replaces the registry between the grant and the signature, and has granted the same
/// numbers to another server before it signs them.
#[test]
fn a_token_of_another_start_of_the_registry() {
    let registry = registry_of_fifties(&["orders"]);
    let other = server_of(&registry).start();
    let numbers = replacing_between_grant_and_token(
        &registry,
        |string| {
            let server = preloaded().set("snowflake_id.registry", string).start();
            some_at_last(&server, "orders", 10)
        },
        || some(&mut other.connect(), "orders", 20),
    );
    assert_distinct(&numbers);
}

/// The owner of the extension in the keeper's database can replace its function. Then there are no numbers, but the
/// server can be stopped.
#[test]
fn a_function_that_never_ends() {
    let server = single_server().set("snowflake_id.max_wait", "1s").start();
    administer(&server, SMALL);
    let mut client = server.connect();
    client.run(
        "DO $$ BEGIN
                 EXECUTE regexp_replace(
                     pg_get_functiondef('snowflake_registry.take_local'::regproc),
                     E'\\nBEGIN\\n', E'\\nBEGIN\\nPERFORM pg_catalog.pg_sleep(3600);\\n');
             END $$",
    );
    assert_eq!(refusal(&mut client, "orders").0, "55P03");
    drop(client);
    assert_within(2 * SLACK, time_to_stop(&server), "the stop");
}

/// The same, but the function returns more than any reply contains.
#[test]
fn a_function_that_says_too_much() {
    let server = single_server().set("snowflake_id.max_wait", "1s").start();
    administer(&server, SMALL);
    let mut client = server.connect();
    for (values, said) in [
        (
            "repeat('x', 10000000), NULL::text, NULL::bigint, NULL::bigint, NULL::text FROM generate_series(1, 3)",
            "a value is too long",
        ),
        (
            "repeat('x', 8000), NULL::text, NULL::bigint, NULL::bigint, NULL::text FROM generate_series(1, 50000)",
            "has not answered",
        ),
        (
            "NULL::text, NULL::text, NULL::bigint, NULL::bigint, NULL::text FROM generate_series(1, 1000000)",
            "has not answered",
        ),
    ] {
        client.run(&format!(
            "CREATE OR REPLACE FUNCTION snowflake_registry.take_local(request jsonb)
             RETURNS SETOF snowflake_registry.taken LANGUAGE plpgsql AS $$
             BEGIN
                 RETURN QUERY SELECT 1, 1, 0, 'orders'::text, 'empty'::text, 0::bigint, 0::bigint, 0::bigint, 0::bigint,
                     0::bigint, 0::bigint, 0::bigint, 0::bigint, NULL::uuid, 1::bigint, {values};
             END $$"
        ));
        eventually(said, || refusal(&mut client, "orders").1.contains(said));
    }
    let peak = peak_memory(worker_pid(&server));
    assert!(peak < 200, "{peak} MB");
}

/// What a call costs depends on the names in the call, not on the number of segments.
#[test]
fn a_registry_with_very_many_segments() {
    let registry = registry();
    let mut administrator = registry.connect();
    administer(&registry, SMALL);
    administrator.run(
        "INSERT INTO snowflake_registry.segment (name, next_value, start, increment, min_step, max_step, step,
                                                 max_value, updated_at)
         SELECT repeat('n', 50) || n, 1, 1, 1, 1000, 1000, 1000, 1000000000, now()
         FROM generate_series(1, 50000) AS n;
         ANALYZE snowflake_registry.segment",
    );
    let rows_read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'segment'";
    let before: i64 = single(&mut administrator, rows_read);
    let server = server_of(&registry).start();
    let mut client = server.connect();
    assert_eq!(next(&mut client, "orders"), 1);
    some(&mut client, "orders", 100);
    assert_eq!(refusal(&mut client, "ORDERS").0, "42704");
    drop(client);
    // Another process of the server connects to the registry, and reports its numbers first.
    server.restart("fast");
    assert!(next(&mut server.connect(), "orders") > 100);
    server.stop_server("fast");
    // The statistics of a connection are sent at the latest when it ends.
    eventually("the end of the server's connections", || fleet_connections(&mut administrator) == 0);
    let read = single::<i64>(&mut registry.connect(), rows_read) - before;
    assert!((1..1000).contains(&read), "{read}");
}

/// The worker is a superuser, so it calls no functions that others could replace.
#[test]
fn a_registry_whose_schema_belongs_to_somebody_else_is_not_asked() {
    let server = single_server().start();
    administer(&server, SMALL);
    let mut client = server.connect();
    client.run("CREATE ROLE mallory; ALTER SCHEMA snowflake_registry OWNER TO mallory");
    eventually("the reason", || {
        let (code, said) = refusal(&mut impatient(&server), "orders");
        assert_eq!(code, "55P03", "{said}");
        said.contains("the owner of its schema could replace the function")
    });
    client.run("ALTER SCHEMA snowflake_registry OWNER TO test");
    assert_eq!(next(&mut client, "orders"), 1);
}
