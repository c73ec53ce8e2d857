//! Every call returns a result or an error, whatever its arguments. Memory in proportion to user input is allocated by
//! PostgreSQL, which raises an error when there is none. A failed allocation in Rust would end the process, and with it
//! every session.

use harness::*;

const MEGABYTE: u64 = 1 << 20;

/// The length of the arguments, in bytes.
const HUGE: u64 = 16 * MEGABYTE;

/// A value in /proc/PID/status, in bytes.
fn memory(pid: i32, figure: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_matches(|character: char| !character.is_ascii_digit()).parse::<u64>().unwrap() * 1024
}

/// A session whose backend can allocate only so many more bytes.
fn confined(cluster: &Cluster, database: &str, bytes: u64) -> Client {
    let mut client = cluster.connect_to(database);
    // Load the library, and let the backend make the allocations of any first query. PostgreSQL reports an internal error if
    // it cannot load the library of JIT.
    client.run("LOAD 'snowflake_id'; SET jit = off; SELECT count(*) FROM pg_class");
    confine(cluster, single(&mut client, "SELECT pg_backend_pid()"), bytes);
    client
}

/// Limits a process of a server to so many more bytes, until the limit is changed.
fn confine(cluster: &Cluster, pid: i32, bytes: u64) {
    let limit = memory(pid, "VmSize:") + bytes;
    // Run as the server's user, because root in a container may lack the privilege.
    successful(cluster.program("/usr/bin/prlimit").args([format!("--pid={pid}"), format!("--as={limit}:")]));
}

/// Runs a query. Returns the SQLSTATE with which it fails, or `None`. Panics if the session has ended.
fn outcome(client: &mut Client, query: &str) -> Option<String> {
    let error = client.simple_query(query).err()?;
    let state = error.code().unwrap_or_else(|| panic!("{query} ended the session: {error}"));
    assert!(!client.is_closed(), "{query} ended the session: {}", text(&error));
    // An internal error would mean that our code has panicked.
    assert_ne!(state.code(), "XX000", "{query}: {}", text(&error));
    Some(state.code().into())
}

/// An ordinary argument of this name and type.
fn sample(name: &str, type_name: &str) -> &'static str {
    match (name, type_name) {
        ("layout", _) => "'twitter'",
        ("digits", _) => "10",
        ("encoding", _) => "'crockford32'",
        (_, "text") => "'orders'",
        (_, "name") => "'oid'",
        (_, "bytea") => r"'\x0123456712345678234567893456789a'::bytea",
        (_, "bigint" | "integer") => "1",
        (_, "boolean") => "true",
        (_, "regrole") => "'pg_monitor'",
        (_, "oid" | "regclass") => "'pg_catalog.pg_class'::regclass",
        (_, "timestamp with time zone") => "pg_catalog.now()",
        (_, "interval") => "interval '1 day'",
        (_, "aclitem[]") => "'{}'::aclitem[]",
        (_, "uuid") => "'00000000-0000-8000-8000-000000000000'::uuid",
        _ => panic!("no sample of an argument {name} of type {type_name}"),
    }
}

/// Calls of each function of the extension that takes a text or bytes, once for each of these arguments, with a column
/// of table `huge` in its place.
fn calls_with_huge_arguments(client: &mut Client, column: &str) -> Vec<String> {
    let functions = client
        .query(
            "SELECT p.oid::regproc::text, p.proargnames[1:p.pronargs],
                    ARRAY(SELECT format_type(type, NULL) FROM unnest(p.proargtypes) AS type)
             FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
             JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
             WHERE e.extname = 'snowflake_id' AND p.pronargs > 0
               -- What takes no value of SQL cannot be called. The functions of type snowflake, whose arguments have no
               -- names, are PostgreSQL's own.
               AND 'internal'::regtype <> ALL (p.proargtypes) AND p.proargnames IS NOT NULL
             ORDER BY p.oid",
            &[],
        )
        .unwrap();
    let mut calls = Vec::new();
    for row in functions {
        let (function, names, types): (String, Vec<String>, Vec<String>) =
            (row.get(0), row.get(1), row.get(2));
        for huge in 0..types.len() {
            let value = match types[huge].as_str() {
                "text" => column.into(),
                "bytea" => format!("textsend({column})"),
                _ => continue,
            };
            let arguments: Vec<String> = (0..types.len())
                .map(|at| if at == huge { value.clone() } else { sample(&names[at], &types[at]).into() })
                .collect();
            calls.push(format!("SELECT {function}({}) FROM huge", arguments.join(", ")));
        }
    }
    calls
}

/// The characters are invalid in some encodings, never allowed, or not UTF-8. In the last case the quoted text is
/// longer.
#[test]
fn huge_arguments_end_in_errors() {
    let cluster = Cluster::builder().worker(1).start();
    let database =
        "CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C'";
    cluster.connect().run(database);
    let mut client = cluster.connect_to("bytes");
    client.run(&format!(
        r"CREATE EXTENSION snowflake_id;
              CREATE TABLE huge AS SELECT repeat('-', {HUGE}) AS hyphens, repeat('y', {HUGE}) AS letters,
                                          repeat(E'\xff', {HUGE}) AS no_utf8"
    ));
    let mut calls = Vec::new();
    for column in ["hyphens", "letters", "no_utf8"] {
        calls.extend(calls_with_huge_arguments(&mut client, column));
        calls.push(format!("SELECT set_config('snowflake_id.layout', {column}, false) FROM huge"));
        calls.push(format!("SELECT set_config('snowflake_id.node_name', {column}, false) FROM huge"));
    }
    assert!(calls.contains(&"SELECT public.snowflake_mask_named(1, letters) FROM huge".into()));

    let (mut with_memory, mut without_memory) = (0, 0);
    // With each limit, memory runs out at a different copy.
    for room in [HUGE / 2, HUGE * 3 / 2, HUGE * 5 / 2, HUGE * 7 / 2] {
        let mut client = confined(&cluster, "bytes", room);
        for call in &calls {
            match outcome(&mut client, call).as_deref() {
                Some("53200") => without_memory += 1,
                _ => with_memory += 1,
            }
        }
    }
    println!("{} calls: {without_memory} without, {with_memory} with enough memory", 4 * calls.len());
    assert!(without_memory > 0 && with_memory > 0);
    assert!(!cluster.log().contains("was terminated by signal"), "{}", cluster.log());
}

/// A layout that was stored for a database while the library was not loaded is refused when it is used.
#[test]
fn a_huge_layout_that_was_stored_unseen() {
    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    client.run(&format!(
        "DO $$ BEGIN
                 EXECUTE format('ALTER DATABASE postgres SET snowflake_id.layout = %L', repeat('y', {HUGE}));
             END $$"
    ));
    let mut client = confined(&cluster, "postgres", HUGE / 2);
    assert_eq!(outcome(&mut client, "SELECT snowflake_decode(1)").as_deref(), Some("22023"));
    let (_, message) = failure(&mut client, "SELECT snowflake_decode(1)");
    assert!(message.len() < 1_000, "{message}");
}

/// A name that is too long prevents the start, and is refused later. It is never silently replaced by the default.
#[test]
fn a_huge_name() {
    let cluster = Cluster::builder().preload().stopped();
    let long = "y".repeat(256);
    for name in ["snowflake_id.node_name", "snowflake_id.database"] {
        cluster.configure(&[(name, &long)]);
        let log = cluster.try_to_start().unwrap_err();
        assert!(log.contains(&format!("FATAL:  invalid value for parameter \"{name}\": \"yyyy")), "{log}");
        assert!(log.contains("The value has 256 bytes."), "{log}");
        cluster.configure(&[(name, "postgres")]);
    }
    cluster.configure(&[("snowflake_id.node_name", &long[1..])]);
    cluster.start_server();
    let mut client = cluster.connect();
    assert_eq!(single::<String>(&mut client, "SHOW snowflake_id.node_name"), long[1..]);
    let alter = format!("ALTER SYSTEM SET snowflake_id.node_name = '{long}'");
    let (state, message) = failure(&mut client, &alter);
    assert_eq!(state, "22023");
    assert!(message.ends_with("The value has 256 bytes.\nUse a name of at most 255 bytes."), "{message}");
    // Without a database the keeper could not start.
    let (state, message) = failure(&mut client, "ALTER SYSTEM SET snowflake_id.database = ''");
    assert_eq!(state, "22023");
    assert!(message.ends_with("The value has 0 bytes.\nUse a name of 1 to 255 bytes."), "{message}");
}

/// A single call with few IDs in each tick takes them in parts. Its memory grows with the IDs, not with the parts: 8
/// bytes each.
#[test]
fn a_batch_in_many_parts() {
    const COUNT: u64 = 20_000;
    let cluster = Cluster::builder()
        .worker(1)
        .set("snowflake_id.max_ahead", "0")
        // Each of the IDs is waited for. On a busy machine, a wait takes several times as long as a tick.
        .set("snowflake_id.max_wait", "5min")
        .start();
    let mut client = cluster.connect();
    client.run("SET snowflake_id.layout = 'time:45 worker:10 unit=100us'");
    let mut take = |count: u64| {
        let query = format!("SELECT count(*) FROM (SELECT snowflake_batch({count})) AS taken");
        assert_eq!(single::<i64>(&mut client, &query), count as i64);
        memory(single(&mut client, "SELECT pg_backend_pid()"), "VmPeak:")
    };
    let before = take(10);
    let grown = take(COUNT) - before;
    assert!(grown < COUNT * 8 + MEGABYTE, "{grown} bytes");
}

/// A batch without enough memory takes no IDs.
#[test]
fn a_batch_without_memory() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = confined(&cluster, "postgres", MEGABYTE);
    let batch = "SELECT count(*) FROM (SELECT snowflake_batch(1000000)) AS taken";
    assert_eq!(outcome(&mut client, batch).as_deref(), Some("53200"));
    assert_eq!(outcome(&mut client, "SELECT snowflake_currval()").as_deref(), Some("55000"));
    assert_eq!(outcome(&mut client, "SELECT snowflake_batch(1000)"), None);
}

/// A backend's memory for the IDs it was given does not grow without bound.
#[test]
fn many_keys_and_layouts() {
    const LENGTH: u64 = 200_000;
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run(&format!(
            "INSERT INTO snowflake_mask_keys (name, key)
             SELECT n || repeat('y', {LENGTH}), uuid_send(gen_random_uuid()) FROM generate_series(1, 300) AS n"
        ));
    let pid: i32 = single(&mut client, "SELECT pg_backend_pid()");
    let use_them = |client: &mut Client, most: u32| {
        for query in [
            format!(
                "SELECT count(snowflake_mask_named(1, n || repeat('y', {LENGTH}))) FROM generate_series(1, {most} / 200) AS n"
            ),
            format!(
                "SELECT count(snowflake_mask(1, substr(sha256(n::text::bytea), 1, 16))) FROM generate_series(1, {most}) AS n"
            ),
            format!(
                "SELECT count(snowflake_mask(1, substr(sha256(n::text::bytea), 1, 16), 6 + n % 13)) FROM generate_series(1, {most}) AS n"
            ),
            format!(
                "SELECT count(snowflake_worker(1, 'twitter unit=' || n || 'us' || repeat(' ', 900))) FROM generate_series(1, {most}) AS n"
            ),
        ] {
            single::<i64>(client, &query);
        }
        // The peak is measured, because the cache of each call in a query is freed with the query.
        memory(pid, "VmPeak:")
    };
    let before = use_them(&mut client, 4_000);
    let grown = use_them(&mut client, 60_000) - before;
    println!("{grown} bytes more");
    assert!(grown < 8 * MEGABYTE, "{grown} bytes");
}
