//! Numbers in ranges on real servers: none is repeated, whichever process dies, and whatever happens to the registry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::segments::*;
use harness::*;

/// Small ranges, so that many are taken.
const SMALL: &str = "create_segment('orders', min_step => 50, max_step => 200)";

#[test]
fn numbers_of_many_servers_are_unique_and_rise() {
    let registry = registry();
    administer(&registry, SMALL);
    let servers = [server_of(&registry).start(), server_of(&registry).start()];
    let refs: Vec<_> = servers.iter().collect();
    let all = taking_numbers(&refs, "orders", || {
        servers.iter().for_each(|server| wait_until_issued(server, 3_000))
    });
    assert_distinct(&all);
    for server in &servers {
        let mut client = server.connect();
        assert_eq!(segment_state(&mut client, "orders"), "open");
    }
}

#[test]
fn a_single_server_needs_nothing_else() {
    let server = single_server().start();
    let mut client = server.connect();
    administer(&server, "create_segment('orders')");
    assert_eq!(next(&mut client, "orders"), 1);
    assert_eq!(some(&mut client, "orders", 3), [2, 3, 4]);
    assert_eq!(single::<i64>(&mut client, "SELECT snowflake_segment_currval('orders')"), 4);
    let mut other = server.connect();
    assert_eq!(next(&mut other, "orders"), 5);
    let (code, _) = failure(&mut server.connect(), "SELECT snowflake_segment_currval('orders')");
    assert_eq!(code, "55000");

    // A clean stop loses the numbers in hand, but repeats none.
    drop((client, other));
    server.restart("fast");
    assert!(next(&mut server.connect(), "orders") > 5);
}

/// After a start, the time of a wait passes although nobody takes a number: the worker calls the registry. A role that gets
/// the privilege to take numbers, as a page about other services says, does not stop the numbers of this server.
#[test]
fn a_single_server_does_not_wait_for_others() {
    let server = single_server().start();
    let mut client = server.connect();
    administer(&server, "configure(renew_every => '1 second')");
    administer(&server, "create_segment('orders', min_step => 50, max_step => 50)");
    assert_eq!(next(&mut client, "orders"), 1);
    drop(client);
    server.restart("immediate");
    let mut client = server.connect();
    let left = "SELECT extract(epoch FROM waits)::float8 FROM snowflake_registry.settings";
    eventually("time that counts", || (0.0..718.0).contains(&single::<f64>(&mut client, left)).then_some(()));
    assert_eq!(some(&mut client, "orders", 60).len(), 60);
    client.run("CREATE ROLE programs; GRANT EXECUTE ON FUNCTION snowflake_registry.take TO programs");
    assert_eq!(some(&mut client, "orders", 120).len(), 120);
    // Now others may have taken numbers before a start.
    server.restart("immediate");
    let mut client = server.connect();
    let (code, error) = failure(&mut client, "SELECT snowflake_segment_nextval('orders')");
    assert_eq!(code, "55P03");
    assert!(error.contains("quarantine until") && error.contains("end_quarantine()"), "{error}");
    administer(&server, "end_quarantine()");
    eventually("a number", || client.query_one("SELECT snowflake_segment_nextval('orders')", &[]).ok());
}

/// Backends, the worker, the keeper, the postmaster and the registry are killed, one after the other.
#[test]
fn whoever_dies_no_number_repeats() {
    let registry = registry();
    administer(&registry, SMALL);
    let server = server_of(&registry).start();
    let other = server_of(&registry).start();
    let works_again = || wait_until_issued(&server, 300);
    let all = taking_numbers(&[&server, &other], "orders", || {
        works_again();
        server.crash_a_backend();
        works_again();
        for kind in ["snowflake_id segments", "snowflake_id keeper"] {
            for signal in ["KILL", "TERM"] {
                let pid = eventually(kind, || background_pid(&server, kind));
                kill(signal, pid);
                eventually("its end", || background_pid(&server, kind) != Some(pid));
                works_again();
            }
        }
        server.restart("immediate");
        works_again();
        registry.restart("immediate");
        works_again();
    });
    assert_distinct(&all);
}

/// The same with the registry in the server's own database.
#[test]
fn whoever_dies_no_number_of_a_single_server_repeats() {
    let server = single_server().start();
    administer(&server, SMALL);
    let works_again = || wait_until_issued(&server, 300);
    let all = taking_numbers(&[&server], "orders", || {
        works_again();
        server.crash_a_backend();
        works_again();
        let pid = worker_pid(&server);
        kill("KILL", pid);
        eventually("another worker", || worker_pid(&server) != pid);
        works_again();
        server.restart("immediate");
        works_again();
    });
    assert_distinct(&all);
}

#[test]
fn without_the_registry_numbers_go_on_while_they_last() {
    let registry = registry();
    administer(&registry, "create_segment('orders', min_step => 1000, max_step => 1000)");
    // Calls do not wait that long: statement_timeout would end them first.
    let server = server_of(&registry).set("snowflake_id.max_wait", "10min").start();
    let mut client = server.connect();
    let mut all = vec![next(&mut client, "orders")];
    registry.stop_server("immediate");
    all.extend(some(&mut client, "orders", 999));
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55P03", "{said}");
    assert!(said.contains("has granted no numbers since 20"), "{said}");
    assert_eq!(segment_state(&mut client, "orders"), "no registry");

    registry.start_server();
    all.extend(some_at_last(&server, "orders", 1));
    assert_increasing(&all);
    assert_eq!(segment_state(&mut client, "orders"), "open");
}

#[test]
fn the_next_range_is_there_before_it_is_needed() {
    let registry = registry();
    administer(&registry, "create_segment('orders', min_step => 1000, max_step => 1000)");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    next(&mut client, "orders");
    let next_range = "SELECT next_range FROM snowflake_segment_status WHERE name = 'orders'";
    assert_eq!(single::<Option<i64>>(&mut client, next_range), None);
    some(&mut client, "orders", 199);
    wait_for_next_range(&server, "orders");
    assert_eq!(single::<Option<i64>>(&mut client, next_range), Some(1001));
    registry.stop_server("immediate");
    assert_eq!(some(&mut client, "orders", 1800), (201..=2000).collect::<Vec<_>>());
    assert_eq!(single::<i64>(&mut client, "SELECT calls_waited FROM snowflake_segment_status"), 1);
}

/// No call waits longer than `max_wait`, for example while another session locks the row of the segment.
#[test]
fn waits_are_bounded() {
    let registry = registry();
    administer(&registry, SMALL);
    let server = server_of(&registry).start();
    let mut holder = registry.connect();
    holder.run("BEGIN; SELECT FROM snowflake_registry.segment FOR UPDATE");
    let mut client = server.connect();
    client.run("SET snowflake_id.max_wait = '300ms'");
    let began = Instant::now();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55P03", "{said}");
    assert_within(SLACK, began.elapsed(), "a call");
    client.run("SET snowflake_id.max_wait = '20s'; SET statement_timeout = '300ms'");
    assert_eq!(refusal(&mut client, "orders").0, "57014");
    client.run("SET statement_timeout = 0");
    holder.run("ROLLBACK");
    assert!(next(&mut client, "orders") > 0);
}

#[test]
fn a_name_is_dropped_and_created_again() {
    let registry = registry();
    administer(&registry, "create_segment('orders', min_step => 10, max_step => 10)");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    let mut all = vec![next(&mut client, "orders")];
    administer(&registry, "drop_segment('orders')");
    // The server may use the numbers that it has. How many it has depends on what was fetched.
    let error = loop {
        match client.query_one("SELECT snowflake_segment_nextval('orders')", &[]) {
            Ok(row) => all.push(row.get(0)),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code().unwrap().code(), "42704", "{}", text(&error));
    administer(&registry, "create_segment('orders')");
    all.push(next(&mut client, "orders"));
    assert_increasing(&all);

    // A new name works as soon as it is created.
    for round in 0..3 {
        let name = format!("new{round}");
        assert_eq!(refusal(&mut client, &name).0, "42704");
        administer(&registry, &format!("create_segment('{name}')"));
        assert_eq!(next(&mut client, &name), 1);
    }
}

#[test]
fn unknown_names_take_no_place_and_few_questions() {
    let registry = registry();
    administer(&registry, SMALL);
    let server = server_of(&registry).set("snowflake_id.max_segments", "3").start();
    let mut client = server.connect();
    next(&mut client, "orders");
    let began = Instant::now();
    for at in 0..12 {
        assert_eq!(refusal(&mut client, &format!("nobody {at}")).0, "42704");
    }
    // The server asks for ten a second.
    assert!(began.elapsed() > Duration::from_secs(1), "{:?}", began.elapsed());
    for name in ["a", "b", "c"] {
        administer(&registry, &format!("create_segment('{name}')"));
    }
    next(&mut client, "a");
    next(&mut client, "b");
    let (code, said) = refusal(&mut client, "c");
    assert_eq!(code, "53400", "{said}");
    next(&mut client, "orders");
}

#[test]
fn extensions_are_dropped_and_created_again() {
    let server = single_server().start();
    administer(&server, SMALL);
    let mut client = server.connect();
    let mut all = some(&mut client, "orders", 10);
    client.run("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
    all.extend(some(&mut client, "orders", 10));
    // The registry forgets everything, but the server knows which numbers it had.
    // Each is a transaction: one that holds a lock and requests a stronger one may be canceled.
    administer(&server, "drop_segment('orders')");
    client.run("DROP EXTENSION snowflake_id_registry; CREATE EXTENSION snowflake_id_registry");
    administer(&server, SMALL);
    all.extend(some(&mut client, "orders", 1000));
    assert_increasing(&all);
}

/// Extensions are dropped while the workers use them. Where that would be a deadlock, the workers give way.
#[test]
fn extensions_are_dropped_while_they_are_used() {
    // On a busy machine the workers give way late. If they did not, the deadlock would be detected after a minute.
    let server = single_server().worker(1).short_horizon().set("deadlock_timeout", "1min");
    let server = server.set("snowflake_id.max_wait", "200ms").start();
    administer(&server, SMALL);
    let use_all = |stop: &AtomicBool| {
        let mut client = server.connect();
        while !stop.load(Ordering::Relaxed) {
            for function in ["snowflake_nextval()", "snowflake_segment_batch('orders', 500)"] {
                let _ = client.execute(&format!("SELECT {function}"), &[]);
            }
            thread::sleep(Duration::from_millis(1));
        }
    };
    beside([use_all, use_all], || {
        let mut client = server.connect();
        for _ in 0..8 {
            // Each is a transaction: one that holds a lock and requests a stronger one is canceled at once.
            client.run("SELECT snowflake_registry.drop_segment('orders')");
            client.run("DROP EXTENSION snowflake_id_registry");
            client.run("CREATE EXTENSION snowflake_id_registry");
            client.run("DROP EXTENSION snowflake_id");
            client.run("CREATE EXTENSION snowflake_id");
            administer(&server, SMALL);
        }
    });
    let mut client = server.connect();
    client.run("SET snowflake_id.max_wait = '20s'");
    next(&mut client, "orders");
}

#[test]
fn without_preloading_there_are_no_numbers() {
    let server = Cluster::builder().start();
    let mut client = server.connect();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000");
    assert!(said.contains("shared_preload_libraries"), "{said}");
    assert_eq!(failure(&mut client, "SELECT * FROM snowflake_segment_status").0, "55000");
}

/// A server that cannot record its ranges must not ask again, because each granted range would be lost for the whole
/// fleet.
#[test]
fn a_file_that_cannot_be_written() {
    let registry = registry();
    administer(&registry, SMALL);
    let server = server_of(&registry).start();
    let in_the_way = server.data_dir().join("snowflake_id.segments.tmp");
    std::fs::create_dir(&in_the_way).unwrap();
    assert_eq!(refusal(&mut server.connect(), "orders").0, "55000");
    let mut client = impatient(&server);
    for _ in 0..10 {
        let (code, said) = refusal(&mut client, "orders");
        assert_eq!(code, "55000", "{said}");
        assert!(said.contains("not write file \"snowflake_id.segments\""), "{said}");
    }
    let lost = "SELECT next_value FROM snowflake_registry.segments WHERE name = 'orders'";
    let lost: i64 = single(&mut registry.connect(), lost);
    std::fs::remove_dir(&in_the_way).unwrap();
    // One range was lost.
    assert_eq!(lost, 51);
    assert_eq!(some_at_last(&server, "orders", 1), [lost]);
}

/// Without the file the server's earlier numbers would be unknown. A damaged file is not ignored.
#[test]
fn a_file_that_cannot_be_read() {
    let server = single_server().start();
    administer(&server, SMALL);
    let highest = *some(&mut server.connect(), "orders", 10).last().unwrap();
    server.stop_server("fast");
    let file = server.data_dir().join("snowflake_id.segments");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("null", "nulL", 1)).unwrap();
    server.start_server();
    let mut client = server.connect();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("not read file \"snowflake_id.segments\""), "{said}");
    // As soon as the file is repaired or removed, numbers are given again.
    std::fs::remove_file(&file).unwrap();
    assert!(next(&mut client, "orders") > highest);
    assert!(file.exists());
}

/// A crash can leave a part of the last line, which nobody has relied on. A damaged last line was written completely:
/// the highest numbers would be unknown.
#[test]
fn a_damaged_last_line() {
    let server = single_server().start();
    administer(&server, SMALL);
    let highest = *some(&mut server.connect(), "orders", 60).last().unwrap();
    server.stop_server("immediate");
    let file = server.data_dir().join("snowflake_id.segments");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines = text.lines().count();
    assert!(lines > 2, "{text}");
    let last = text.trim_end().rfind('\n').unwrap() + 1;
    std::fs::write(&file, format!("{}x{}", &text[..last], &text[last + 1..])).unwrap();
    server.start_server();
    let mut client = server.connect();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains(&format!("line {lines} is damaged")), "{said}");
    std::fs::write(&file, format!("{text}incomplete")).unwrap();
    assert!(next(&mut client, "orders") > highest);
    // The incomplete line has disappeared.
    assert!(!std::fs::read_to_string(&file).unwrap().contains("incomplete"));
}

/// Opening a pipe for reading blocks until a process opens it for writing. Neither the keeper nor the segments worker
/// does that.
#[test]
fn a_pipe_in_the_place_of_the_file() {
    let server = single_server().set("snowflake_id.worker_id", 1).start();
    administer(&server, SMALL);
    let highest = *some(&mut server.connect(), "orders", 10).last().unwrap();
    server.stop_server("fast");
    let file = server.data_dir().join("snowflake_id.segments");
    std::fs::remove_file(&file).unwrap();
    successful(std::process::Command::new("mkfifo").arg(&file));
    server.own(&file);
    server.start_server();
    let mut client = server.connect();
    wait_for_first_id(&mut client);
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("not read file \"snowflake_id.segments\": not a regular file"), "{said}");
    std::fs::remove_file(&file).unwrap();
    assert!(next(&mut client, "orders") > highest);
}

/// A mistyped name has a state of its own, which differs from that of a name that was dropped; and the error names the
/// segment that was probably meant.
#[test]
fn a_name_that_was_mistyped() {
    let registry = registry();
    for name in ["orders", "order lines", "Bills"] {
        administer(&registry, &format!("create_segment('{name}', min_step => 10, max_step => 10)"));
    }
    let server = server_of(&registry).start();
    let mut client = server.connect();
    for (typed, meant) in [("Orders", "orders"), ("ORDER LINES", "order lines"), ("bills", "Bills")] {
        let (code, said) = refusal(&mut client, typed);
        assert_eq!(code, "42704");
        assert!(said.contains(&format!("Perhaps you meant segment \"{meant}\"")), "{typed}: {said}");
    }
    let (_, said) = failure(&mut registry.connect(), "SELECT snowflake_registry.drop_segment('Orders')");
    assert!(said.contains("Perhaps you meant segment \"orders\""), "{said}");
    for (name, bytes) in [("", 0), (&*"x".repeat(256), 256), (&*"x".repeat(2_000), 2_000)] {
        let (code, said) = refusal(&mut client, name);
        assert_eq!(code, "22023", "{said}");
        assert!(
            said.contains(&format!("The name has {bytes} bytes.\nUse a name of 1 to 255 bytes.")),
            "{said}"
        );
    }
    for typed in ["users", "o", "lines", "oredrs"] {
        let (_, said) = refusal(&mut client, typed);
        assert!(!said.contains("Perhaps") && said.contains("create_segment"), "{typed}: {said}");
    }
    assert_eq!(segment_state(&mut client, "lines"), "unknown");
    next(&mut client, "orders");
    administer(&registry, "drop_segment('orders')");
    while client.batch_execute("SELECT snowflake_segment_nextval('orders')").is_ok() {}
    // A report that learns this first gives up the place, and the row with it. The next call takes a place again.
    let state = eventually("a row with the state", || {
        assert_eq!(refusal(&mut client, "orders").0, "42704");
        let query = "SELECT state FROM snowflake_segment_status WHERE name = 'orders'";
        client.query_opt(query, &[]).unwrap().map(|row| row.get::<_, String>(0))
    });
    assert_eq!(state, "dropped");
}

/// The role of the servers lacks a privilege: that is not to be waited for, and what is said is what has to be typed.
#[test]
fn a_grant_is_missing() {
    let registry = registry();
    administer(&registry, SMALL);
    // The registry would otherwise serve none but its own server.
    registry.connect().run("CREATE ROLE other; GRANT EXECUTE ON FUNCTION snowflake_registry.take TO other");
    registry.connect().run("REVOKE EXECUTE ON FUNCTION snowflake_registry.take FROM fleet");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    let (code, said) = refusal(&mut client, "orders");
    assert_eq!(code, "55000", "{said}");
    let grant = "GRANT EXECUTE ON FUNCTION snowflake_registry.take TO \"fleet\"";
    assert!(said.contains("permission denied") && said.contains(grant), "{said}");
    assert_eq!(segment_state(&mut client, "orders"), "permission denied");
    registry.connect().run(grant);
    next(&mut client, "orders");
}
