//! Numbers without time, which the registry grants in ranges, and many servers at once. Topic `registry_segments` of
//! pg_regress covers what a single session can test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use harness::book::of_test;
use harness::examples::blocks;
use harness::*;

use super::member::many;
use super::taker::{Member, administer, assert_no_number_twice, keep_open, start, state};

/// Servers take the same names in every order, while administrators change, drop and close them. There are no
/// deadlocks.
#[test]
fn many_servers_take_at_once() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let cluster = start(many());
    let mut client = cluster.connect();
    for name in NAMES {
        let create = format!("create_segment('{name}', increment => 3, min_step => 1, max_step => 4)");
        administer(&mut client, &create);
    }
    let is_over = AtomicBool::new(false);
    let ranges = Mutex::new(Vec::new());
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for number in 0..8_usize {
            let (cluster, ranges, barrier, is_over) = (&cluster, &ranges, &barrier, &is_over);
            scope.spawn(move || {
                let mut client = cluster.connect();
                let mut member = Member::default();
                barrier.wait();
                let mut round = number;
                while !is_over.load(Ordering::Relaxed) {
                    round += 1;
                    let mut requests = NAMES.map(|name| (name, ", \"lasted\": 1"));
                    requests.rotate_left(round % NAMES.len());
                    if round % 2 == 0 {
                        requests.reverse();
                    }
                    let asked = &requests[..1 + round % NAMES.len()];
                    let before = member.had_until.clone();
                    match member.try_take(&mut client, "take", asked) {
                        Ok(answers) => {
                            assert_eq!(answers.len(), asked.len());
                            for taken in answers {
                                if taken.outcome == "granted" {
                                    let had = before.get(taken.name.as_ref().unwrap()).unwrap_or(&-1);
                                    assert!(taken.first.unwrap() > *had, "{taken:?} after {had}");
                                    ranges.lock().unwrap().push(taken);
                                } else {
                                    let expected = ["busy", "closed", "dropped"];
                                    assert!(expected.contains(&taken.outcome.as_str()), "{taken:?}");
                                }
                            }
                        }
                        // The administrator holds the lock.
                        Err(error) => {
                            let code = error.code().map_or("", |code| code.code());
                            assert_eq!(code, "55P03", "{}", text(&error));
                        }
                    }
                }
            });
        }
        let _stop = StopAtEnd(&is_over);
        let mut changes = 0;
        eventually("changes, and ranges of each name", || {
            for call in [
                "alter_segment('a', next_value => next_value + 100)
                 FROM snowflake_registry.segments WHERE name = 'a'",
                "drop_segment('b')",
                "create_segment('b', increment => 3, min_step => 1, max_step => 4)",
                "quarantine()",
                "resume_segments()",
            ] {
                let changed = client.batch_execute(&format!("SELECT snowflake_registry.{call}")).is_ok();
                changes += i32::from(changed);
                thread::sleep(Duration::from_millis(20));
            }
            let ranges = ranges.lock().unwrap();
            let of = |name| ranges.iter().filter(|range| range.name.as_deref() == Some(name)).count();
            changes > 50 && NAMES.iter().all(|name| of(*name) > 40)
        });
    });
    let ranges = ranges.into_inner().unwrap();
    assert_no_number_twice(&ranges);
    assert!(!cluster.log().contains("deadlock"), "{}", cluster.log());
}

/// An open transaction blocks only the names that it has asked for.
#[test]
fn an_open_transaction_holds_up_its_own_names() {
    let cluster = start(Cluster::builder());
    let (mut a, mut b) = (cluster.connect(), cluster.connect());
    for name in ["a", "b", "c", "d"] {
        administer(&mut a, &format!("create_segment('{name}')"));
    }
    a.run("BEGIN");
    let mut lazy = Member::default();
    lazy.try_take(&mut a, "take", &[("a", ""), ("b", ""), ("c", "")]).unwrap();
    keep_open(&mut a);
    let started = Instant::now();
    let asked = [("d", ""), ("c", ""), ("b", ""), ("a", "")];
    let answers = Member::default().try_take(&mut b, "take", &asked).unwrap();
    let took = started.elapsed();
    let outcomes: Vec<_> = answers.iter().map(|taken| taken.outcome.as_str()).collect();
    assert_eq!(outcomes, ["busy", "busy", "busy", "granted"]);
    assert_within(SLACK, took, "a call");
    // A range that was rolled back was never granted: a server uses a reply only after the commit.
    a.run("ROLLBACK");
    assert_eq!(Member::default().granted(&mut b, "a").first, Some(1));
}

#[test]
fn a_crash_repeats_no_number() {
    let cluster = start(many());
    administer(&mut cluster.connect(), "create_segment('a', min_step => 3, max_step => 3)");
    let is_over = AtomicBool::new(false);
    let ranges = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut member = Member::default();
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(mut client) = cluster.try_connect("postgres") else {
                        thread::sleep(Duration::from_millis(10));
                        continue;
                    };
                    while let Ok(mut answers) = member.try_take(&mut client, "take", &[("a", "")]) {
                        let taken = answers.remove(0);
                        assert_eq!(taken.outcome, "granted", "{taken:?}");
                        ranges.lock().unwrap().push(taken);
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                }
            });
        }
        for _ in 0..3 {
            let before = ranges.lock().unwrap().len();
            eventually("ranges", || ranges.lock().unwrap().len() > before + 30);
            cluster.crash_a_backend();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_no_number_twice(&ranges.into_inner().unwrap());
}

/// The registry is created again, and moves elsewhere: the servers know which numbers they had.
#[test]
fn a_server_comes_from_another_registry() {
    let (old, new) = (start(Cluster::builder()), start(Cluster::builder()));
    let mut client = old.connect();
    let mut server = Member::default();
    administer(&mut client, "create_segment('a', start => 50000)");
    server.take_by(&mut client, "take_local", "a", "");
    client.run(
        "DROP EXTENSION snowflake_id_registry CASCADE; CREATE EXTENSION snowflake_id_registry;
                GRANT EXECUTE ON FUNCTION snowflake_registry.take TO takers",
    );
    administer(&mut client, "create_segment('a')");
    let mut elsewhere = new.connect();
    administer(&mut elsewhere, "create_segment('a', increment => 10)");
    for client in [&mut client, &mut elsewhere] {
        assert_eq!(server.take_by(client, "take_local", "a", "").outcome, "foreign");
        let had = server.had_until["a"];
        let taken = server.granted(client, "a");
        assert!(taken.first.unwrap() > had, "{taken:?} after {had}");
        assert_eq!(state(client, "a"), "open");
    }
}

/// The SQL in docs/tables/from-other-generators.md for numbers.
#[test]
fn numbers_of_other_systems_go_on() {
    let page = of_test("numbers_of_other_systems_go_on");
    let cluster = start(Cluster::builder());
    let mut client = cluster.connect();
    client.run(
        "CREATE TABLE leaf_alloc (biz_tag varchar(128) PRIMARY KEY DEFAULT '', max_id bigint NOT NULL DEFAULT 1,
                                  step int NOT NULL, description varchar(256), update_time timestamp DEFAULT now());
         INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES
             ('leaf-segment-test', 2001, 2000, 'Test leaf Segment Mode Get Id'), ('leaf-new', 1, 500, NULL),
             (repeat('订', 85), 7, 100, repeat('🛒', 256));
         CREATE TABLE tiny_id_info (biz_type text PRIMARY KEY, begin_id bigint, max_id bigint, step int,
                                    delta int, remainder int);
         INSERT INTO tiny_id_info VALUES ('one', 1, 100000, 1000, 1, 0), ('odd', 1, 100000, 1000, 2, 1),
                                         ('even', 1, 100001, 1000, 2, 0), ('three', 0, 9, 10, 3, 0);
         CREATE TABLE orders (id bigint PRIMARY KEY);
         INSERT INTO orders VALUES (5000016), (5000017);",
    );
    blocks(&page).for_each(|block| client.run(block));
    let described =
        "SELECT count(*) FROM leaf_alloc AS l JOIN snowflake_registry.segments AS s ON s.name = l.biz_tag
                     WHERE s.description IS NOT DISTINCT FROM l.description";
    assert_eq!(single::<i64>(&mut client, described), 3);
    let mut server = Member::default();
    let longest = "订".repeat(85);
    for (name, first, increment, count) in [
        (longest.as_str(), 7, 1, 100),
        // Its token proves what was granted, although the name is long.
        (longest.as_str(), 107, 1, 100),
        ("leaf-segment-test", 2_001, 1, 2_000),
        ("leaf-new", 1, 1, 500),
        ("one", 100_001, 1, 1_000),
        ("odd", 100_001, 2, 1_000),
        ("even", 100_002, 2, 1_000),
        ("three", 12, 3, 10),
        ("redis orders", 5_000_018, 1, 1_000),
        ("pair orders", 5_000_001, 1, 1_000),
        ("pair odd", 5_000_001, 2, 1_000),
        ("pair even", 5_000_002, 2, 1_000),
    ] {
        let taken = server.granted(&mut client, name);
        assert_eq!(
            (taken.first, taken.increment, taken.count),
            (Some(first), Some(increment), Some(count)),
            "{name}"
        );
    }
    let slips = server.granted(&mut client, "slips").first.unwrap();
    assert_eq!(slips % 100_000, 318);
}
