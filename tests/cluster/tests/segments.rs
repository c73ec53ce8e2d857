//! Numbers in ranges on real servers: none comes twice, whatever dies, and whatever becomes of the registry.

use std::thread;
use std::time::{Duration, Instant};

use snowflake_id_cluster_tests::segments::{
    PRELOADED, connection_string, next, order, refusal, registry, server_of, single_server, some, start,
    under_load, worker_pid,
};
use snowflake_id_cluster_tests::{
    Cluster, assert_distinct, assert_increasing, crash_a_backend, failure, ids, kill, poll, single, text,
};

/// Small ranges, so that many are taken.
const SMALL: &str = "create_segment('orders', min_step => 50, max_step => 200)";

#[test]
fn numbers_of_many_servers_are_unique_and_rise() {
    let registry = registry(&[]);
    order(&registry, SMALL);
    let servers = [server_of(&registry, &[]), server_of(&registry, &[])];
    let refs: Vec<_> = servers.iter().collect();
    let all = under_load(&refs, "orders", || thread::sleep(Duration::from_secs(4)));
    println!("{} numbers", all.len());
    assert!(all.len() > 2_000, "only {} numbers", all.len());
    assert_distinct(&all);
    for server in &servers {
        let mut client = server.connect();
        let query = "SELECT state FROM snowflake_segments WHERE name = 'orders'";
        assert_eq!(single::<String>(&mut client, query), "open");
    }
}

#[test]
fn a_single_server_needs_nothing_else() {
    let server = single_server(&[]);
    let mut client = server.connect();
    order(&server, "create_segment('orders')");
    assert_eq!(next(&mut client, "orders"), 1);
    assert_eq!(some(&mut client, "orders", 3), [2, 3, 4]);
    assert_eq!(single::<i64>(&mut client, "SELECT snowflake_segment_currval('orders')"), 4);
    let mut other = server.connect();
    assert_eq!(next(&mut other, "orders"), 5);
    let (code, _) = failure(&mut server.connect(), "SELECT snowflake_segment_currval('orders')");
    assert_eq!(code, "55000");

    // A clean stop loses what was in hand, and repeats nothing.
    drop((client, other));
    server.stop_server("fast");
    server.start_server().unwrap();
    assert!(next(&mut server.connect(), "orders") > 5);
}

/// Backends, the worker, the keeper, the postmaster and the registry are killed, one after the other.
#[test]
fn whoever_dies_no_number_repeats() {
    let registry = registry(&[]);
    order(&registry, SMALL);
    let server = server_of(&registry, &[]);
    let other = server_of(&registry, &[]);
    let pid_of = |kind: &str| {
        let query = format!("SELECT pid FROM pg_stat_activity WHERE backend_type = '{kind}'");
        poll(kind, || {
            Some(server.try_connect("postgres").ok()?.query_opt(&query, &[]).ok()??.get::<_, i32>(0))
        })
    };
    let works_again = || {
        let query = "SELECT snowflake_segment_nextval('orders')";
        poll("numbers", || server.try_connect("postgres").ok()?.batch_execute(query).ok());
        thread::sleep(Duration::from_millis(300));
    };
    let all = under_load(&[&server, &other], "orders", || {
        works_again();
        crash_a_backend(&server);
        works_again();
        for kind in ["snowflake_id segments", "snowflake_id keeper"] {
            kill("KILL", pid_of(kind));
            works_again();
            kill("TERM", pid_of(kind));
            works_again();
        }
        server.stop_server("immediate");
        server.start_server().unwrap();
        works_again();
        registry.stop_server("immediate");
        thread::sleep(Duration::from_millis(300));
        registry.start_server().unwrap();
        works_again();
    });
    println!("{} numbers", all.len());
    assert_distinct(&all);
}

/// The same with the registry in the server's own database.
#[test]
fn whoever_dies_no_number_of_a_single_server_repeats() {
    let server = single_server(&[]);
    order(&server, SMALL);
    let works_again = || {
        let query = "SELECT snowflake_segment_nextval('orders')";
        poll("numbers", || server.try_connect("postgres").ok()?.batch_execute(query).ok());
        thread::sleep(Duration::from_millis(300));
    };
    let all = under_load(&[&server], "orders", || {
        works_again();
        crash_a_backend(&server);
        works_again();
        kill("KILL", worker_pid(&server));
        works_again();
        server.stop_server("immediate");
        server.start_server().unwrap();
        works_again();
    });
    assert_distinct(&all);
}

#[test]
fn without_the_registry_numbers_go_on_while_they_last() {
    let registry = registry(&[]);
    order(&registry, "create_segment('orders', min_step => 1000, max_step => 1000)");
    let server = server_of(&registry, &[("snowflake_id.max_wait", "4s")]);
    let mut client = server.connect();
    let mut all = vec![next(&mut client, "orders")];
    registry.stop_server("immediate");
    all.extend(some(&mut client, "orders", 999));
    let began = Instant::now();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55P03", "{said}");
    assert!(said.contains("has not answered since 20"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let query = "SELECT state FROM snowflake_segments WHERE name = 'orders'";
    assert_eq!(single::<String>(&mut client, query), "no registry");

    registry.start_server().unwrap();
    all.push(poll("a number", || {
        Some(client.query_one("SELECT snowflake_segment_nextval('orders')", &[]).ok()?.get(0))
    }));
    assert_increasing(&all);
    assert_eq!(single::<String>(&mut client, query), "open");
}

#[test]
fn the_next_range_is_there_before_it_is_needed() {
    let registry = registry(&[]);
    order(&registry, "create_segment('orders', min_step => 1000, max_step => 1000)");
    let server = server_of(&registry, &[]);
    let mut client = server.connect();
    next(&mut client, "orders");
    let next_range = "SELECT next_range FROM snowflake_segments WHERE name = 'orders'";
    assert_eq!(single::<Option<i64>>(&mut client, next_range), None);
    some(&mut client, "orders", 199);
    poll("the next range", || single::<Option<i64>>(&mut client, next_range).filter(|first| *first == 1001));
    registry.stop_server("immediate");
    assert_eq!(some(&mut client, "orders", 1800), (201..=2000).collect::<Vec<_>>());
    assert_eq!(single::<i64>(&mut client, "SELECT calls_waited FROM snowflake_segments"), 1);
}

/// Nobody waits for longer than `max_wait`, for example where somebody holds the row of the segment.
#[test]
fn waits_are_bounded() {
    let registry = registry(&[]);
    order(&registry, SMALL);
    let server = server_of(&registry, &[]);
    let mut holder = registry.connect();
    holder.batch_execute("BEGIN; SELECT FROM snowflake_registry.segment FOR UPDATE").unwrap();
    let mut client = server.connect();
    client.batch_execute("SET snowflake_id.max_wait = '300ms'").unwrap();
    let began = Instant::now();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55P03", "{said}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    client.batch_execute("SET snowflake_id.max_wait = '20s'; SET statement_timeout = '300ms'").unwrap();
    assert_eq!(refusal(&mut client, "orders").0, "57014");
    client.batch_execute("SET statement_timeout = 0").unwrap();
    holder.batch_execute("ROLLBACK").unwrap();
    assert!(next(&mut client, "orders") > 0);
}

#[test]
fn a_registry_that_may_have_lost_commits_closes_its_segments() {
    let registry = registry(&[]);
    order(&registry, SMALL);
    let server = server_of(&registry, &[]);
    let other = server_of(&registry, &[]);
    let mut client = server.connect();
    let mut all = some(&mut client, "orders", 60);
    registry.stop_server("fast");
    let copy = registry.duplicate();
    registry.start_server().unwrap();
    all.extend(some(&mut client, "orders", 1000));
    let highest: i64 =
        single(&mut registry.connect(), "SELECT next_value::bigint FROM snowflake_registry.segments");
    registry.stop_server("immediate");

    copy.start_server().unwrap();
    for server in [&server, &other] {
        server.configure(&[("snowflake_id.registry", &connection_string(&copy))]);
        server.reload();
    }
    let closed = poll("the segment to be closed", || {
        match client.query_one("SELECT snowflake_segment_nextval('orders')", &[]) {
            Ok(row) => {
                all.push(row.get(0));
                None
            }
            Err(error) => Some(error),
        }
    });
    assert_eq!(closed.code().unwrap().code(), "55000", "{}", text(&closed));
    assert!(text(&closed).contains("resume_segment"), "{}", text(&closed));
    // The other one gets none of them either.
    assert_eq!(refusal(&mut other.connect(), "orders").0, "55000");

    order(&copy, &format!("resume_segment('orders', {highest})"));
    all.push(next(&mut client, "orders"));
    all.push(next(&mut other.connect(), "orders"));
    assert_distinct(&all);
    assert!(all[all.len() - 2] >= highest, "{:?}", &all[all.len() - 2..]);
}

#[test]
fn a_name_is_dropped_and_created_again() {
    let registry = registry(&[]);
    order(&registry, "create_segment('orders', min_step => 10, max_step => 10)");
    let server = server_of(&registry, &[]);
    let mut client = server.connect();
    let mut all = vec![next(&mut client, "orders")];
    order(&registry, "drop_segment('orders')");
    // What it has it may use up; how far that goes depends on what was fetched.
    let error = loop {
        match client.query_one("SELECT snowflake_segment_nextval('orders')", &[]) {
            Ok(row) => all.push(row.get(0)),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code().unwrap().code(), "42704", "{}", text(&error));
    order(&registry, "create_segment('orders')");
    all.push(next(&mut client, "orders"));
    assert_increasing(&all);

    // One that nobody has known before works as soon as it is there.
    for round in 0..3 {
        let name = format!("new{round}");
        assert_eq!(refusal(&mut client, &name).0, "42704");
        order(&registry, &format!("create_segment('{name}')"));
        assert_eq!(next(&mut client, &name), 1);
    }
}

#[test]
fn unknown_names_take_no_place_and_few_questions() {
    let registry = registry(&[]);
    order(&registry, SMALL);
    let server = server_of(&registry, &[("snowflake_id.max_segments", "3")]);
    let mut client = server.connect();
    next(&mut client, "orders");
    let began = Instant::now();
    for at in 0..20 {
        assert_eq!(refusal(&mut client, &format!("nobody {at}")).0, "42704");
    }
    // Ten a second are asked for.
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
    for name in ["a", "b", "c"] {
        order(&registry, &format!("create_segment('{name}')"));
    }
    next(&mut client, "a");
    next(&mut client, "b");
    let (code, said) = refusal(&mut client, "c");
    assert_eq!(code, "53400", "{said}");
    next(&mut client, "orders");
}

/// From the server's own database to a registry that begins lower.
#[test]
fn a_segment_moves_to_another_registry() {
    let registry = registry(&[]);
    order(&registry, SMALL);
    let server = single_server(&[]);
    order(&server, "create_segment('orders', start => 5000, min_step => 50, max_step => 50)");
    let mut client = server.connect();
    let mut all = some(&mut client, "orders", 120);
    assert_eq!(all[0], 5000);
    server.configure(&[("snowflake_id.registry", &connection_string(&registry))]);
    server.reload();
    poll("the worker of the registry", || {
        single::<bool>(
            &mut client,
            "SELECT setting <> '' FROM pg_settings WHERE name = 'snowflake_id.registry'",
        )
        .then_some(())
    });
    all.extend(some(&mut client, "orders", 300));
    assert_increasing(&all);
    let next_value: i64 =
        single(&mut registry.connect(), "SELECT next_value::bigint FROM snowflake_registry.segments");
    assert!(next_value > *all.last().unwrap(), "{next_value}");
    assert!(server.log().contains("the registry of segments is another one than before"), "{}", server.log());
}

#[test]
fn a_standby_has_no_numbers_and_goes_on_above_when_it_is_promoted() {
    let primary = single_server(&[]);
    order(&primary, SMALL);
    let mut client = primary.connect();
    client
        .batch_execute(
            "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_segment_nextval('orders'))",
        )
        .unwrap();
    client.batch_execute("INSERT INTO orders SELECT FROM generate_series(1, 130)").unwrap();
    let standby = primary.start_standby(&[]);
    let (code, said) = refusal(&mut standby.connect(), "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("during recovery"), "{said}");
    client.batch_execute("INSERT INTO orders SELECT FROM generate_series(1, 1000)").unwrap();
    poll("the standby to have the rows", || {
        (single::<i64>(&mut standby.connect(), "SELECT count(*) FROM orders") == 1130).then_some(())
    });
    primary.stop_server("immediate");
    standby.promote();
    let mut client = standby.connect();
    let highest: i64 = single(&mut client, "SELECT max(id) FROM orders");
    assert!(next(&mut client, "orders") > highest);
    client.batch_execute("INSERT INTO orders SELECT FROM generate_series(1, 1000)").unwrap();
}

/// With a registry elsewhere the standby gets numbers above all that the primary was given, rows that had not arrived
/// included.
#[test]
fn a_standby_with_a_registry_elsewhere_is_promoted() {
    let registry = registry(&[]);
    order(&registry, SMALL);
    let primary = server_of(&registry, &[]);
    let mut all = some(&mut primary.connect(), "orders", 60);
    let standby = primary.start_standby(&[]);
    standby.stop_receiving();
    all.extend(some(&mut primary.connect(), "orders", 1000));
    standby.promote();
    // Both go on for a while.
    for server in [&standby, &primary, &standby, &primary] {
        let numbers = some(&mut server.connect(), "orders", 300);
        assert_increasing(&numbers);
        all.extend(numbers);
    }
    assert_distinct(&all);
}

#[test]
fn extensions_are_dropped_and_created_again() {
    let server = single_server(&[]);
    order(&server, SMALL);
    let mut client = server.connect();
    let mut all = some(&mut client, "orders", 10);
    client.batch_execute("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id").unwrap();
    all.extend(some(&mut client, "orders", 10));
    // The registry forgets all; what the server had it knows itself.
    client
        .batch_execute(
            "SELECT snowflake_registry.drop_segment('orders');
             DROP EXTENSION snowflake_id_registry;
             CREATE EXTENSION snowflake_id_registry;",
        )
        .unwrap();
    order(&server, SMALL);
    all.extend(some(&mut client, "orders", 1000));
    assert_increasing(&all);
}

#[test]
fn without_preloading_there_are_no_numbers() {
    let server = start(Cluster::stopped(&[]));
    let mut client = server.connect();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000");
    assert!(said.contains("shared_preload_libraries"), "{said}");
    assert_eq!(failure(&mut client, "SELECT * FROM snowflake_segments").0, "55000");
}

/// Who owns the database may put objects there that have the names of the registry's.
#[test]
fn a_registry_that_is_not_the_extension_is_not_asked() {
    let server = start(Cluster::stopped(PRELOADED));
    let mut client = server.connect();
    client
        .batch_execute(
            "CREATE SCHEMA snowflake_registry;
             CREATE TABLE trap (n int);
             CREATE FUNCTION snowflake_registry.take_here(uuid, bigint, jsonb, text) RETURNS SETOF int
             LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.trap VALUES (1); RETURN; END $$",
        )
        .unwrap();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("there is no registry of segments"), "{said}");
    assert_eq!(ids(&mut client, "SELECT n::bigint FROM trap"), Vec::<i64>::new());
}

/// A registry that answers each request with so many rows, each of which grants 1 to 10.
fn lying_registry(rows: i32) -> Cluster {
    let registry = Cluster::stopped(&[]);
    registry.start_server().unwrap();
    registry
        .connect()
        .batch_execute(&format!(
            "CREATE ROLE fleet LOGIN;
             CREATE SCHEMA snowflake_registry;
             GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
             CREATE FUNCTION snowflake_registry.take(uuid, bigint, jsonb, text)
             RETURNS TABLE (request int, name text, outcome text, first bigint, increment bigint, count bigint,
                            period_key bigint, period_starts bigint, period_ends bigint, step bigint, max_value bigint,
                            registry_id uuid, serial bigint, registry_clock bigint, detail text)
             LANGUAGE sql AS $$
                 SELECT ordinal, asked ->> 'name', 'granted', 1, 1, 10, NULL::bigint, NULL::bigint, NULL::bigint, 10, 1000,
                        '3c5f0000-0000-4000-8000-000000000000'::uuid, 1,
                        (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, NULL
                 FROM jsonb_array_elements($3) WITH ORDINALITY AS element (asked, ordinal),
                      generate_series(1, {rows}) $$"
        ))
        .unwrap();
    registry
}

/// What a registry gives that has forgotten what it gave, and whom it gave it to.
#[test]
fn numbers_that_a_server_has_had_are_refused() {
    let registry = lying_registry(1);
    let server = server_of(&registry, &[]);
    let mut client = server.connect();
    assert_eq!(some(&mut client, "orders", 10), (1..=10).collect::<Vec<_>>());
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("numbers from 1 on, and this server has had numbers up to 10"), "{said}");
    // Not after a restart either.
    drop(client);
    server.stop_server("immediate");
    server.start_server().unwrap();
    assert_eq!(refusal(&mut server.connect(), "orders").0, "55000");
}

/// The same within one answer.
#[test]
fn numbers_that_come_twice_in_one_answer_are_refused() {
    let registry = lying_registry(2);
    let server = server_of(&registry, &[]);
    let mut client = server.connect();
    assert_eq!(some(&mut client, "orders", 10), (1..=10).collect::<Vec<_>>());
    assert_eq!(refusal(&mut client, "orders").0, "55000");
}

/// Whoever owns the extension in the keeper's database can exchange its function. Then there are no numbers, but the server
/// can be stopped.
#[test]
fn a_function_that_never_ends() {
    let server = single_server(&[("snowflake_id.max_wait", "1s")]);
    order(&server, SMALL);
    let mut client = server.connect();
    client
        .batch_execute(
            "DO $$ BEGIN
                 EXECUTE regexp_replace(
                     pg_get_functiondef('snowflake_registry.take_here(uuid, bigint, jsonb, text)'::regprocedure),
                     E'\\nBEGIN\\n', E'\\nBEGIN\\nPERFORM pg_catalog.pg_sleep(3600);\\n');
             END $$",
        )
        .unwrap();
    assert_eq!(refusal(&mut client, "orders").0, "55P03");
    drop(client);
    let start = Instant::now();
    server.stop_server("fast");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// A server that cannot note what it is given does not go on to ask: what it is given is lost for the whole fleet.
#[test]
fn a_file_that_cannot_be_written() {
    let registry = registry(&[]);
    order(&registry, SMALL);
    let server = server_of(&registry, &[("snowflake_id.max_wait", "1s")]);
    let in_the_way = server.data_dir().join("snowflake_id.segments.tmp");
    std::fs::create_dir(&in_the_way).unwrap();
    let mut client = server.connect();
    for _ in 0..10 {
        let (code, said) = refusal(&mut client, "orders");
        assert_eq!(code, "55000", "{said}");
        assert!(said.contains("cannot write file snowflake_id.segments"), "{said}");
    }
    let lost = "SELECT next_value FROM snowflake_registry.segments WHERE name = 'orders'";
    let lost: i64 = single(&mut registry.connect(), lost);
    std::fs::remove_dir(&in_the_way).unwrap();
    let first = poll("a number", || client.query_one("SELECT snowflake_segment_nextval('orders')", &[]).ok());
    // One range was.
    assert_eq!(first.get::<_, i64>(0), lost);
    assert_eq!(lost, 51);
}

/// The worker is a superuser: it calls nothing that others could exchange.
#[test]
fn a_registry_whose_schema_belongs_to_somebody_else_is_not_asked() {
    let server = single_server(&[]);
    order(&server, SMALL);
    let mut client = server.connect();
    client.batch_execute("CREATE ROLE mallory; ALTER SCHEMA snowflake_registry OWNER TO mallory").unwrap();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55P03", "{said}");
    assert!(said.contains("somebody who could put another one in its place"), "{said}");
    client.batch_execute("ALTER SCHEMA snowflake_registry OWNER TO test").unwrap();
    assert_eq!(next(&mut client, "orders"), 1);
}

/// Without the file nobody could say what the server has had; a damaged one is not passed over.
#[test]
fn a_file_that_cannot_be_read() {
    let server = single_server(&[]);
    order(&server, SMALL);
    let highest = *some(&mut server.connect(), "orders", 10).last().unwrap();
    server.stop_server("fast");
    let file = server.data_dir().join("snowflake_id.segments");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    server.start_server().unwrap();
    let mut client = server.connect();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("cannot use file snowflake_id.segments"), "{said}");
    // As soon as it is mended, or gone.
    std::fs::remove_file(&file).unwrap();
    assert!(next(&mut client, "orders") > highest);
    assert!(file.exists());
}
