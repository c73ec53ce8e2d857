//! The places of `snowflake_id.max_segments`: names that do not exist any more give up theirs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::segments::*;
use harness::*;

fn in_use(server: &Cluster) -> (i32, Option<String>) {
    let row =
        server.connect().query_one("SELECT segments_in_use, warning FROM snowflake_status", &[]).unwrap();
    (row.get(0), row.get(1))
}

/// The next number of a segment, as soon as a place is free.
#[track_caller]
fn next_at_last(client: &mut Client, name: &str) -> i64 {
    eventually("a place", || {
        match client.query_one(&format!("SELECT snowflake_segment_nextval('{name}')"), &[]) {
            Ok(row) => Some(row.get(0)),
            Err(error) => {
                assert_eq!(error.code().unwrap().code(), "53400", "{}", text(&error));
                None
            }
        }
    })
}

/// Fills four places, of which one is freed. `registry` has the segments.
fn drop_one_of_four(server: &Cluster, registry: &Cluster) {
    let mut client = server.connect();
    for name in ["a", "b", "c"] {
        administer(registry, &format!("create_segment('{name}')"));
        assert_eq!(next(&mut client, name), 1);
    }
    assert_eq!(in_use(server), (3, None));
    for name in ["d", "e"] {
        administer(registry, &format!("create_segment('{name}')"));
    }
    next(&mut client, "d");
    let (count, warning) = in_use(server);
    let told = "4 of at most 4 segments are in use (snowflake_id.max_segments); ";
    assert!(count == 4 && warning.as_ref().unwrap().starts_with(told), "{warning:?}");
    let (code, said) = refusal(&mut client, "e");
    assert!(code == "53400" && said.contains("All 4 entries for segments are in use"), "{said}");

    // The session remembers the places of all four.
    administer(registry, "drop_segment('b')");
    assert_eq!(next_at_last(&mut client, "e"), 1);
    // The numbers of "b" that were left are lost.
    let (code, said) = refusal(&mut client, "b");
    assert!(code == "53400" || code == "42704", "{said}");
    for name in ["a", "c", "d", "e"] {
        assert_eq!(next(&mut client, name), 2, "{name}");
    }
    assert_eq!(single::<i64>(&mut client, "SELECT snowflake_segment_currval('b')"), 1);

    // Created again, the segment continues above them.
    administer(registry, "drop_segment('d')");
    administer(registry, "create_segment('b')");
    assert_eq!(next_at_last(&mut client, "b"), 1001);
    let issued = "SELECT numbers_issued FROM snowflake_segment_status WHERE name = 'b'";
    assert_eq!(single::<i64>(&mut client, issued), 1);
}

#[test]
fn a_dropped_segment_makes_room() {
    let registry = registry();
    drop_one_of_four(&server_of(&registry).set("snowflake_id.max_segments", 4).start(), &registry);
}

/// The registry's own server sends no reports about names.
#[test]
fn a_segment_that_was_dropped_here_makes_room() {
    let server = single_server().set("snowflake_id.max_segments", 4).start();
    administer(&server, "configure(renew_every => '200ms')");
    drop_one_of_four(&server, &server);
}

/// A dropped segment of which the server holds no numbers disappears, although no name needs its place. It raises no alert.
#[test]
fn a_dropped_segment_without_numbers_is_not_shown() {
    let registry = registry();
    administer(&registry, "create_segment('few', max_value => 2)");
    administer(&registry, "create_segment('some')");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    some(&mut client, "few", 2);
    next(&mut client, "some");
    administer(&registry, "drop_segment('few')");
    administer(&registry, "drop_segment('some')");
    let shown = "SELECT string_agg(name || ' ' || state, ', ') FROM snowflake_segment_status";
    eventually("the states", || single::<String>(&mut client, shown) == "some dropped");
    assert_eq!(in_use(&server), (0, None));
    assert_eq!(next(&mut client, "some"), 2);
    assert_eq!(refusal(&mut client, "few").0, "42704");
    administer(&registry, "create_segment('some')");
    eventually("the state", || segment_state(&mut client, "some") == "asked");
    assert_eq!(in_use(&server), (1, None));
}

/// Sessions take numbers of more names than there are places, while segments are dropped and created again. The numbers of
/// each segment are between its start and that of the next.
#[test]
fn no_name_gets_numbers_of_another() {
    const NAMES: i64 = 6;
    const APART: i64 = 1_000_000_000;
    let registry = registry();
    let create = |n: i64| {
        let start = n * APART;
        administer(
            &registry,
            &format!("create_segment('s{n}', start => {start}, min_step => 20, max_step => 20)"),
        );
    };
    (0..NAMES).for_each(create);
    let server = server_of(&registry).set("snowflake_id.max_segments", 3).start();
    let (stop, all) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let refused = Mutex::new(0);
    thread::scope(|scope| {
        for session in 0..4 {
            let (server, stop, all, refused) = (&server, &stop, &all, &refused);
            scope.spawn(move || {
                let mut client = impatient(server);
                for turn in session.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let n = turn % NAMES;
                    let query =
                        format!("SELECT snowflake_segment_nextval('s{n}') FROM generate_series(1, 7)");
                    match client.query(&query, &[]) {
                        Ok(rows) => {
                            let numbers = rows.iter().map(|row| row.get::<_, i64>(0));
                            all.lock()
                                .unwrap()
                                .extend(numbers.inspect(|number| assert_eq!(number / APART, n)));
                        }
                        Err(error) => {
                            let code = error.code().unwrap().code();
                            assert!(["53400", "42704", "55P03"].contains(&code), "{}", text(&error));
                            *refused.lock().unwrap() += 1;
                        }
                    }
                }
            });
        }
        let _end = StopAtEnd(&stop);
        let has_all = || {
            let all = all.lock().unwrap();
            (0..NAMES).all(|n| all.iter().any(|number| number / APART == n))
        };
        let mut round = 0;
        // Which names find a place depends on the order of the calls.
        eventually("numbers of all names", || {
            administer(&registry, &format!("drop_segment('s{}')", round % NAMES));
            wait_for_report(&registry);
            let gone = (round + NAMES - 3) % NAMES;
            if round >= 3 {
                create(gone);
            }
            round += 1;
            round >= 12 && has_all()
        });
    });
    let all = all.into_inner().unwrap();
    println!("{} numbers, {} refused calls", all.len(), refused.into_inner().unwrap());
    assert_distinct(&all);
}

/// A segment whose numbers other servers have used up is not among the names that this server reports.
#[test]
fn a_dropped_segment_that_granted_nothing_makes_room() {
    let registry = registry();
    administer(&registry, "create_segment('used up', max_value => 2)");
    administer(&registry, "create_segment('other')");
    let first = server_of(&registry).start();
    some(&mut first.connect(), "used up", 2);
    let server = server_of(&registry).set("snowflake_id.max_segments", 1).start();
    let mut client = server.connect();
    assert_eq!(refusal(&mut client, "used up").0, "2200H");
    administer(&registry, "drop_segment('used up')");
    assert_eq!(next_at_last(&mut client, "other"), 1);
}

/// A name that the registry's database cannot represent does not keep others from being freed.
#[test]
fn a_dropped_segment_makes_room_beside_a_bad_name() {
    let server =
        preloaded().set("snowflake_id.max_segments", 5).set("snowflake_id.database", "latin").start();
    server.connect().run("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let mut latin = server.connect_to("latin");
    latin.run(
        "CREATE EXTENSION snowflake_id_registry;
         SELECT snowflake_registry.configure(renew_every => '200ms');
         SELECT snowflake_registry.create_segment(name) FROM unnest('{a,b,c,d}'::text[]) AS name;
         CREATE EXTENSION snowflake_id",
    );
    let mut client = server.connect();
    for name in ["a", "b", "c", "d"] {
        next(&mut client, name);
    }
    assert_eq!(refusal(&mut client, "заказ").0, "55000");
    latin.run("SELECT snowflake_registry.drop_segment('a')");
    eventually("the state", || segment_state(&mut client, "a") == "dropped");
}

/// A segment that was closed before it was dropped is closed when it is created again.
#[test]
fn a_closed_segment_that_was_created_again_is_shown() {
    let registry = registry();
    administer(&registry, "create_segment('a')");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    assert_eq!(next(&mut client, "a"), 1);
    registry.connect().run("UPDATE snowflake_registry.segment SET closed_reason = 'a test'");
    administer(&registry, "drop_segment('a')");
    eventually("the state", || segment_state(&mut client, "a") == "dropped");
    administer(&registry, "create_segment('a')");
    wait_for_report(&registry);
    wait_for_report(&registry);
    assert_eq!(segment_state(&mut client, "a"), "closed");
    assert_eq!(in_use(&server).0, 1);
}
