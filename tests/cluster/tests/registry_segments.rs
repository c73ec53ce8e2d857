//! Numbers without time, which the registry gives out in ranges: many servers at once, what becomes of them
//! when the registry is dumped, restored, copied or promoted, and over midnight. Topic `registry_segments` of
//! pg_regress has what one session can show.

use std::collections::HashMap;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::load::StopAtEnd;
use snowflake_id_cluster_tests::segments::set_clock_to;
use snowflake_id_cluster_tests::{
    Cluster, Settings, crash_a_backend, failure, poll, single, successful, text,
};

/// Enough connections for all servers of a test.
const MANY: Settings = &[("max_connections", "90")];

fn start(settings: Settings) -> Cluster {
    let cluster = Cluster::stopped(settings);
    cluster.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_id_registry").unwrap();
    cluster
}

/// Calls a function of the registry that returns nothing.
fn order(client: &mut Client, call: &str) {
    client
        .batch_execute(&format!("SELECT snowflake_registry.{call}"))
        .unwrap_or_else(|error| panic!("{call}: {}", text(&error)));
}

/// One row of an answer.
#[derive(Clone, Debug)]
struct Taken {
    name: Option<String>,
    outcome: String,
    first: Option<i64>,
    increment: Option<i64>,
    count: Option<i64>,
    period_key: Option<i64>,
    period_starts: Option<i64>,
    period_ends: Option<i64>,
    registry_clock: i64,
    detail: Option<String>,
}

impl Taken {
    fn last(&self) -> i64 {
        self.first.unwrap() + (self.count.unwrap() - 1) * self.increment.unwrap()
    }

    fn numbers(&self) -> impl Iterator<Item = i64> + use<> {
        let (first, increment) = (self.first.unwrap(), self.increment.unwrap());
        (0..self.count.unwrap()).map(move |k| first + k * increment)
    }
}

/// What a server knows: of which registry, and the highest numbers that it had.
#[derive(Clone, Default)]
struct Member {
    registry_id: Option<String>,
    serial: i64,
    had_until: HashMap<String, i64>,
}

impl Member {
    /// Takes by one call. Each request is a name, and what the server adds to it, such as `"next": true`.
    fn try_take(
        &mut self,
        client: &mut Client,
        function: &str,
        requests: &[(&str, &str)],
    ) -> Result<Vec<Taken>, postgres::Error> {
        let requests: Vec<_> = requests
            .iter()
            .map(|(name, more)| {
                let had_until = self.had_until.get(*name).map_or_else(|| "null".into(), i64::to_string);
                format!("{{\"name\": \"{name}\", \"had_until\": {had_until}{more}}}")
            })
            .collect();
        let registry_id = self.registry_id.as_ref().map_or_else(|| "NULL".into(), |id| format!("'{id}'"));
        let query = format!(
            "SELECT name, outcome, first, increment, count, period_key, period_starts, period_ends,
                    registry_clock, detail, registry_id::text, serial, request
             FROM snowflake_registry.{function}({registry_id}, {}, '[{}]', 'a server')",
            self.serial,
            requests.join(", ")
        );
        let mut answers = Vec::new();
        for row in client.query(&query, &[])? {
            let taken = Taken {
                name: row.get(0),
                outcome: row.get(1),
                first: row.get(2),
                increment: row.get(3),
                count: row.get(4),
                period_key: row.get(5),
                period_starts: row.get(6),
                period_ends: row.get(7),
                registry_clock: row.get(8),
                detail: row.get(9),
            };
            if taken.outcome == "foreign" {
                self.registry_id = None;
                self.serial = 0;
                return Ok(vec![taken]);
            }
            self.registry_id = row.get(10);
            self.serial = self.serial.max(row.get(11));
            if taken.outcome == "granted" {
                let had = self.had_until.entry(taken.name.clone().unwrap()).or_insert(-1);
                *had = taken.last().max(*had);
            }
            if row.get::<_, Option<i32>>(12).is_some() {
                answers.push(taken);
            }
        }
        Ok(answers)
    }

    fn take_by(&mut self, client: &mut Client, function: &str, name: &str, more: &str) -> Taken {
        let answers = self.try_take(client, function, &[(name, more)]);
        answers.unwrap_or_else(|error| panic!("{name}: {}", text(&error))).remove(0)
    }

    fn take(&mut self, client: &mut Client, name: &str) -> Taken {
        self.take_by(client, "take", name, "")
    }

    /// The range, which has to be granted.
    fn granted(&mut self, client: &mut Client, name: &str) -> Taken {
        let taken = self.take(client, name);
        assert_eq!(taken.outcome, "granted", "{taken:?}");
        taken
    }
}

fn state(client: &mut Client, name: &str) -> String {
    single(client, &format!("SELECT state FROM snowflake_registry.segments WHERE name = '{name}'"))
}

fn closed_reason(client: &mut Client, name: &str) -> String {
    let query = format!("SELECT closed_reason FROM snowflake_registry.segments WHERE name = '{name}'");
    single::<Option<String>>(client, &query).unwrap_or_default()
}

/// Fails if a number of one name was given twice.
fn assert_no_number_twice(ranges: &[Taken]) {
    let mut numbers: Vec<_> = ranges
        .iter()
        .flat_map(|range| range.numbers().map(|number| (range.name.clone().unwrap(), number)))
        .collect();
    let given = numbers.len();
    numbers.sort_unstable();
    for pair in numbers.windows(2) {
        assert_ne!(pair[0], pair[1], "given twice");
    }
    println!("{} ranges, {given} numbers", ranges.len());
}

/// The same names in every order, while administrators change, drop and close them. Nobody waits for each
/// other in a circle.
#[test]
fn many_servers_take_at_once() {
    const NAMES: [&str; 4] = ["a", "b", "c", "d"];
    let cluster = start(MANY);
    let mut client = cluster.connect();
    for name in NAMES {
        order(
            &mut client,
            &format!("create_segment('{name}', increment => 3, min_step => 1, max_step => 4)"),
        );
    }
    let ends = Instant::now() + Duration::from_secs(10);
    let ranges = Mutex::new(Vec::new());
    let barrier = Barrier::new(16);
    thread::scope(|scope| {
        for number in 0..16_usize {
            let (cluster, ranges, barrier) = (&cluster, &ranges, &barrier);
            scope.spawn(move || {
                let mut client = cluster.connect();
                let mut member = Member::default();
                let mut mine: Vec<Taken> = Vec::new();
                barrier.wait();
                let mut round = number;
                while Instant::now() < ends {
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
                                    mine.push(taken);
                                } else {
                                    let expected = ["busy", "closed", "unknown"];
                                    assert!(expected.contains(&taken.outcome.as_str()), "{taken:?}");
                                }
                            }
                        }
                        // The lock of the administrator.
                        Err(error) => {
                            let code = error.code().map_or("", |code| code.code());
                            assert_eq!(code, "55P03", "{}", text(&error));
                        }
                    }
                }
                ranges.lock().unwrap().extend(mine);
            });
        }
        scope.spawn(|| {
            let mut client = cluster.connect();
            let mut done = 0;
            while Instant::now() < ends {
                for call in [
                    "alter_segment('a', next_value => next_value + 100)
                     FROM snowflake_registry.segments WHERE name = 'a'",
                    "drop_segment('b')",
                    "create_segment('b', increment => 3, min_step => 1, max_step => 4)",
                    "quarantine()",
                    "resume_segments()",
                ] {
                    done +=
                        i32::from(client.batch_execute(&format!("SELECT snowflake_registry.{call}")).is_ok());
                    thread::sleep(Duration::from_millis(20));
                }
            }
            println!("{done} orders");
            assert!(done > 50);
        });
    });
    let ranges = ranges.into_inner().unwrap();
    for name in NAMES {
        assert!(ranges.iter().filter(|range| range.name.as_deref() == Some(name)).count() > 20);
    }
    assert_no_number_twice(&ranges);
    assert!(!cluster.log().contains("deadlock"), "{}", cluster.log());
}

/// Whoever leaves a transaction open holds up the names that he has asked for, and no others.
#[test]
fn an_open_transaction_holds_up_its_own_names() {
    let cluster = start(&[]);
    let (mut a, mut b) = (cluster.connect(), cluster.connect());
    for name in ["a", "b", "c", "d"] {
        order(&mut a, &format!("create_segment('{name}')"));
    }
    a.batch_execute("BEGIN").unwrap();
    let mut lazy = Member::default();
    lazy.try_take(&mut a, "take", &[("a", ""), ("b", ""), ("c", "")]).unwrap();
    let started = Instant::now();
    let asked = [("d", ""), ("c", ""), ("b", ""), ("a", "")];
    let answers = Member::default().try_take(&mut b, "take", &asked).unwrap();
    let took = started.elapsed();
    let outcomes: Vec<_> = answers.iter().map(|taken| taken.outcome.as_str()).collect();
    assert_eq!(outcomes, ["busy", "busy", "busy", "granted"]);
    assert!(took < Duration::from_secs(4), "{took:?}");
    // What is rolled back was never granted: the server believes an answer after the commit.
    a.batch_execute("ROLLBACK").unwrap();
    assert_eq!(Member::default().granted(&mut b, "a").first, Some(1));
}

#[test]
fn a_crash_repeats_no_number() {
    let cluster = start(MANY);
    order(&mut cluster.connect(), "create_segment('a', min_step => 3, max_step => 3)");
    let is_over = AtomicBool::new(false);
    let ranges = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let mut member = Member::default();
                while !is_over.load(Ordering::Relaxed) {
                    let Ok(mut client) = cluster.try_connect("postgres") else { continue };
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
            poll("ranges", || (ranges.lock().unwrap().len() > before + 30).then_some(()));
            crash_a_backend(&cluster);
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_no_number_twice(&ranges.into_inner().unwrap());
}

/// A server whose ranges are lost with the primary. The registry's own server loses its rows as well.
#[test]
fn a_standby_is_promoted() {
    let primary = start(&[]);
    let mut client = primary.connect();
    for name in ["shared", "untouched", "home"] {
        order(&mut client, &format!("create_segment('{name}', min_step => 10, max_step => 10)"));
    }
    client.batch_execute("CREATE TABLE bills (id bigint PRIMARY KEY)").unwrap();
    let (mut server, mut other, mut here) = (Member::default(), Member::default(), Member::default());
    server.granted(&mut client, "shared");
    other.granted(&mut client, "shared");
    other.granted(&mut client, "untouched");
    let fill = |client: &mut Client, here: &mut Member| {
        let range = here.take_by(client, "take_here", "home", "");
        for number in range.numbers() {
            client.execute("INSERT INTO bills VALUES ($1)", &[&number]).unwrap();
        }
    };
    fill(&mut client, &mut here);
    let standby = primary.start_standby(&[]);
    let error = server.try_take(&mut standby.connect(), "take", &[("shared", "")]).unwrap_err();
    assert_eq!(error.code().unwrap().code(), "25006");
    standby.stop_receiving();
    let lost = server.granted(&mut client, "shared");
    fill(&mut client, &mut here);
    primary.stop_server("immediate");
    standby.promote();

    let mut client = standby.connect();
    // The other one comes first, and gets nothing of what the first has.
    let answer = other.take(&mut client, "shared");
    assert_eq!(answer.outcome, "closed", "{answer:?}");
    assert!(answer.detail.unwrap().contains("timeline 2, before 1"));
    assert_eq!(state(&mut client, "untouched"), "closed");
    assert_eq!(server.take(&mut client, "shared").outcome, "closed");
    // The registry's own server goes on: with the numbers its rows are gone, too. What its file still knows
    // is not given again either.
    assert_eq!(single::<i64>(&mut client, "SELECT max(id) FROM bills"), 10);
    assert_eq!(here.take_by(&mut client, "take_here", "home", "").first, Some(21));
    assert_eq!(state(&mut client, "home"), "open");
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.resume_segment('shared', 25)");
    assert_eq!(code, "22023");
    assert!(said.contains("Numbers below 31 were given"), "{said}");
    // It is known that the registry is wrong about this one.
    order(&mut client, "resume_segments()");
    assert_eq!(state(&mut client, "shared"), "closed");
    assert_eq!(other.granted(&mut client, "untouched").first, Some(11));
    order(&mut client, "resume_segment('shared', 1000)");
    let goes_on = other.granted(&mut client, "shared");
    assert!(goes_on.first.unwrap() > lost.last());

    // It is not found out again, nor after a crash.
    drop(client);
    standby.stop_server("immediate");
    standby.start_server().unwrap();
    let mut client = standby.connect();
    server.granted(&mut client, "shared");
    assert_eq!(state(&mut client, "untouched"), "open");
}

#[test]
fn a_synchronous_standby_is_promoted() {
    let primary = start(&[]);
    let mut client = primary.connect();
    order(&mut client, "configure(synchronous => true)");
    order(&mut client, "create_segment('a')");
    let standby = primary.start_standby(&[]);
    primary.replicate_synchronously();
    let mut server = Member::default();
    server.granted(&mut client, "a");
    primary.stop_server("immediate");
    standby.promote();
    let mut client = standby.connect();
    assert_eq!(server.granted(&mut client, "a").first, Some(1_001));
}

/// The disk is set back to an earlier state: same server, same timeline, same transactions.
#[test]
fn a_registry_is_set_back() {
    let cluster = start(&[]);
    let mut client = cluster.connect();
    order(&mut client, "create_segment('a')");
    order(&mut client, "create_segment('b')");
    let (mut one, mut other) = (Member::default(), Member::default());
    one.granted(&mut client, "a");
    other.granted(&mut client, "b");
    drop(client);
    cluster.stop_server("fast");
    let copy = cluster.duplicate();
    let copy_after_order = cluster.duplicate();
    cluster.start_server().unwrap();
    let mut client = cluster.connect();
    let mut hears_of_order = one.clone();
    one.granted(&mut client, "a");
    order(&mut client, "create_segment('c')");
    hears_of_order.take(&mut client, "b");
    drop(client);
    cluster.stop_server("fast");

    copy.start_server().unwrap();
    let mut client = copy.connect();
    assert_eq!(one.take(&mut client, "a").outcome, "closed");
    assert!(closed_reason(&mut client, "a").contains("numbers of segment \"a\" up to 2000"));
    assert_eq!(other.take(&mut client, "b").outcome, "closed");
    assert_eq!(
        single::<i64>(&mut client, "SELECT seen_until FROM snowflake_registry.segments LIMIT 1"),
        2_000
    );

    // An order that is lost is found out by the serial, whatever is asked for.
    copy_after_order.start_server().unwrap();
    let mut client = copy_after_order.connect();
    hears_of_order.had_until.clear();
    assert_eq!(hears_of_order.take(&mut client, "a").outcome, "closed");
    assert!(
        closed_reason(&mut client, "a").contains("a server knows of"),
        "{}",
        closed_reason(&mut client, "a")
    );
}

#[test]
fn a_registry_is_dumped_and_restored() {
    let old = start(&[]);
    let mut client = old.connect();
    for call in [
        "create_segment('shared')",
        "create_segment('home')",
        "create_segment('dropped')",
        "create_segment('by day', period => 'day', digits => 6)",
    ] {
        order(&mut client, call);
    }
    let mut server = Member::default();
    for name in ["shared", "dropped", "by day"] {
        server.granted(&mut client, name);
    }
    Member::default().take_by(&mut client, "take_here", "home", "");
    order(&mut client, "drop_segment('dropped')");
    let dump = old.host().join("dump");
    let on = |cluster: &Cluster, program: &str| -> Command {
        let mut command = cluster.program(program);
        command.arg("--host").arg(cluster.host()).arg("--username=test");
        command
    };
    let format = ["--format=custom", "--dbname=postgres", "--file"];
    successful(on(&old, "pg_dump").args(format).arg(&dump));
    let last = server.granted(&mut client, "shared");

    client.batch_execute("CREATE DATABASE beside").unwrap();
    successful(on(&old, "pg_restore").args(["--exit-on-error", "--dbname=beside"]).arg(&dump));
    let mut client = old.connect_to("beside");
    let answer = server.take(&mut client, "shared");
    assert_eq!(answer.outcome, "closed");
    assert!(answer.detail.unwrap().contains("restored from a dump"));
    assert_eq!(server.take(&mut client, "by day").outcome, "closed");
    // All rows of the dump are older than the dump's ranges.
    let home = Member::default().take_by(&mut client, "take_here", "home", "");
    assert_eq!((home.outcome.as_str(), home.first), ("granted", Some(1_001)));
    let (code, said) = failure(&mut client, "DROP EXTENSION snowflake_id_registry");
    assert_eq!(code, "2BP01");
    assert!(said.contains("segments_are_in_use_call_drop_segment_first"), "{said}");
    assert_eq!(failure(&mut client, "DELETE FROM snowflake_registry.segment").0, "23001");
    assert_eq!(
        failure(&mut client, &format!("SELECT snowflake_registry.resume_segment('shared', {})", last.last()))
            .0,
        "22023"
    );
    order(&mut client, &format!("resume_segment('shared', {})", last.last() + 1));
    assert_eq!(server.granted(&mut client, "shared").first, Some(2_001));
    // A dropped name is remembered, and what was given of it is not known.
    order(&mut client, "create_segment('dropped')");
    assert_eq!(server.take(&mut client, "dropped").outcome, "closed");
    order(&mut client, "resume_segments()");
    assert_eq!(server.granted(&mut client, "dropped").first, Some(1_001));
}

/// The registry is made anew, and moves elsewhere: the servers know what they had.
#[test]
fn a_server_comes_from_another_registry() {
    let (old, new) = (start(&[]), start(&[]));
    let mut client = old.connect();
    let mut server = Member::default();
    order(&mut client, "create_segment('a', start => 50000)");
    server.take_by(&mut client, "take_here", "a", "");
    client
        .batch_execute("DROP EXTENSION snowflake_id_registry CASCADE; CREATE EXTENSION snowflake_id_registry")
        .unwrap();
    order(&mut client, "create_segment('a')");
    let mut elsewhere = new.connect();
    order(&mut elsewhere, "create_segment('a', increment => 10)");
    for client in [&mut client, &mut elsewhere] {
        assert_eq!(server.take_by(client, "take_here", "a", "").outcome, "foreign");
        let had = server.had_until["a"];
        let taken = server.granted(client, "a");
        assert!(taken.first.unwrap() > had, "{taken:?} after {had}");
        assert_eq!(state(client, "a"), "open");
    }
}

/// A registry with a clock of its own, which shows this instant in UTC now.
fn start_with_clock(instant: &str) -> Cluster {
    let mut registry = Cluster::stopped(MANY);
    registry.give_clock();
    registry.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
    registry.connect().batch_execute("CREATE EXTENSION snowflake_id_registry").unwrap();
    set_clock_to(&registry, instant);
    registry
}

#[test]
fn numbers_by_date_over_midnight() {
    let registry = start_with_clock("2027-05-09 23:59:00");
    let mut client = registry.connect();
    order(
        &mut client,
        "create_segment('bills', period => 'day', digits => 6, min_step => 10, max_step => 10)",
    );
    let (mut early, mut late, mut absent) = (Member::default(), Member::default(), Member::default());
    assert_eq!(early.granted(&mut client, "bills").first, Some(20270509000001));
    assert_eq!(absent.granted(&mut client, "bills").first, Some(20270509000011));
    // Shortly before midnight, numbers of both days are given.
    let ahead = early.take_by(&mut client, "take", "bills", ", \"next\": true");
    assert_eq!((ahead.first, ahead.period_key), (Some(20270510000001), Some(20270510)));
    assert!(ahead.period_starts.unwrap() > ahead.registry_clock);
    let today = late.granted(&mut client, "bills");
    assert_eq!(today.first, Some(20270509000021));
    assert_eq!(today.period_ends, ahead.period_starts);
    assert_eq!(late.take_by(&mut client, "take", "bills", ", \"next\": true").first, Some(20270510000011));
    // Who has begun the next day is not led back.
    assert_eq!(early.granted(&mut client, "bills").first, Some(20270510000021));

    set_clock_to(&registry, "2027-05-10 00:00:01");
    let after = absent.granted(&mut client, "bills");
    assert_eq!((after.first, after.period_key), (Some(20270510000031), Some(20270510)));
    assert!(after.period_starts.unwrap() < after.registry_clock);
    // The clock is set back: nobody goes back to the day before.
    for instant in ["2027-05-09 23:00:00", "2027-05-10 00:30:00", "2027-05-08 12:00:00"] {
        set_clock_to(&registry, instant);
        let taken = Member::default().granted(&mut client, "bills");
        assert_eq!(taken.period_key, Some(20270510), "{taken:?}");
    }
    // The next day of all is the day after that one.
    let ahead = late.take_by(&mut client, "take", "bills", ", \"next\": true");
    assert_eq!(ahead.first, Some(20270511000001));
    // Days without numbers: what was taken ahead is not used, and not given again.
    set_clock_to(&registry, "2027-05-14 08:00:00");
    assert_eq!(early.granted(&mut client, "bills").first, Some(20270514000001));
    set_clock_to(&registry, "2027-05-11 08:00:00");
    assert_eq!(early.granted(&mut client, "bills").first, Some(20270514000011));
}

#[test]
fn the_year_ends_and_clocks_change() {
    let registry = start_with_clock("2027-12-31 22:59:58");
    let mut client = registry.connect();
    for (name, period) in [("d", "day"), ("m", "month"), ("y", "year")] {
        order(
            &mut client,
            &format!(
                "create_segment('{name}', period => '{period}', digits => 3, time_zone => 'Europe/Berlin')"
            ),
        );
    }
    let asked = [("d", ""), ("m", ""), ("y", "")];
    let first = |client: &mut Client| -> Vec<_> {
        let answers = Member::default().try_take(client, "take", &asked).unwrap();
        answers.iter().map(|taken| taken.first.unwrap_or_default()).collect()
    };
    assert_eq!(first(&mut client), [20271231001, 202712001, 2027001]);
    // All 999 numbers were in that range.
    let taken = Member::default().take(&mut client, "y");
    assert_eq!(taken.outcome, "exhausted");
    assert_eq!(taken.detail.unwrap(), "period 2027 has no more numbers of 3 digits");
    assert_eq!(state(&mut client, "y"), "exhausted");
    // Midnight of Berlin, and not of Greenwich.
    set_clock_to(&registry, "2027-12-31 23:00:00");
    assert_eq!(state(&mut client, "y"), "open");
    assert_eq!(first(&mut client), [20280101001, 202801001, 2028001]);

    // Days of 23 and of 25 hours, days with two midnights, and other odd ones.
    for (number, (zone, begins, day, hours)) in [
        ("Europe/Berlin", "2028-03-25 23:00:00", 20280326, 23.0),
        ("Europe/Berlin", "2028-10-28 22:00:00", 20281029, 25.0),
        ("America/Havana", "2028-11-05 04:00:00", 20281105, 25.0),
        ("Australia/Lord_Howe", "2029-03-31 13:00:00", 20290401, 24.5),
        ("Asia/Kathmandu", "2029-06-01 18:15:00", 20290602, 24.0),
        ("Pacific/Kiritimati", "2029-06-30 10:00:00", 20290701, 24.0),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("zone {number}");
        let instant: String =
            single(&mut client, &format!("SELECT (timestamp '{begins}' - interval '1 s')::text"));
        set_clock_to(&registry, &instant);
        order(
            &mut client,
            &format!(
                "create_segment('{name}', period => 'day', digits => 6, time_zone => '{zone}', min_step => 1,
                                max_step => 1)"
            ),
        );
        let mut server = Member::default();
        let before = server.granted(&mut client, &name);
        assert!(before.period_key.unwrap() < day, "{before:?}");
        set_clock_to(&registry, begins);
        let taken = server.granted(&mut client, &name);
        assert_eq!(taken.first, Some(day * 1_000_000 + 1), "{zone}");
        assert_eq!(taken.period_starts, before.period_ends, "{zone}");
        let lasts = taken.period_ends.unwrap() - taken.period_starts.unwrap();
        assert_eq!(lasts as f64 / 3.6e9, hours, "{zone}");
        let last: String = single(
            &mut client,
            &format!(
                "SELECT (to_timestamp({} / 1000000 - 1) AT TIME ZONE 'UTC')::text",
                taken.period_ends.unwrap()
            ),
        );
        set_clock_to(&registry, &last);
        assert_eq!(server.granted(&mut client, &name).first, Some(day * 1_000_000 + 2), "{zone}");
    }
}

/// The clock jumps over midnight and back, while servers take today's numbers and tomorrow's.
#[test]
fn many_servers_take_over_midnight() {
    let registry = start_with_clock("2027-05-09 23:59:50");
    order(
        &mut registry.connect(),
        "create_segment('bills', period => 'day', digits => 8, min_step => 1, max_step => 5)",
    );
    let is_over = AtomicBool::new(false);
    let ranges = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..8_u32 {
            let (registry, ranges, is_over) = (&registry, &ranges, &is_over);
            scope.spawn(move || {
                let mut client = registry.connect();
                let mut member = Member::default();
                let mut round = number;
                while !is_over.load(Ordering::Relaxed) {
                    round += 1;
                    let more =
                        if round % 4 == 0 { ", \"lasted\": 1, \"next\": true" } else { ", \"lasted\": 1" };
                    let had = member.had_until.get("bills").copied().unwrap_or_default();
                    let taken = match member.try_take(&mut client, "take", &[("bills", more)]) {
                        Ok(mut answers) => answers.remove(0),
                        // Timeouts go by the clock as well.
                        Err(error) => {
                            assert_eq!(error.code().unwrap().code(), "57014", "{}", text(&error));
                            continue;
                        }
                    };
                    assert!(["granted", "busy"].contains(&taken.outcome.as_str()), "{taken:?}");
                    if taken.outcome == "granted" {
                        assert!(taken.first.unwrap() > had, "{taken:?} after {had}");
                        ranges.lock().unwrap().push(taken);
                    }
                }
            });
        }
        let _stop = StopAtEnd(&is_over);
        // On a busy machine many ranges take long. The clock stands ten seconds before midnight meanwhile, or after it.
        let many_are_taken = || {
            let before = ranges.lock().unwrap().len();
            poll("ranges", || (ranges.lock().unwrap().len() >= before + 40).then_some(()));
        };
        for day in 9..15 {
            for _ in 0..2 {
                set_clock_to(&registry, &format!("2027-05-{day:02} 23:59:50"));
                many_are_taken();
                set_clock_to(&registry, &format!("2027-05-{:02} 00:00:05", day + 1));
                many_are_taken();
            }
        }
    });
    let ranges = ranges.into_inner().unwrap();
    for day in 9..15 {
        let of_day = ranges.iter().filter(|range| range.period_key == Some(20270500 + day)).count();
        assert!(of_day > 10, "{of_day} ranges on day {day}");
    }
    for range in &ranges {
        assert_eq!(range.first.unwrap() / 100_000_000, range.period_key.unwrap());
        assert_eq!(range.last() / 100_000_000, range.period_key.unwrap());
    }
    assert_no_number_twice(&ranges);
}

/// What docs/segments.md says about moving over.
#[test]
fn numbers_of_other_systems_go_on() {
    let page = include_str!("../../../docs/segments.md");
    let statements = |title: &str| -> String {
        let (_, after) = page.split_once(&format!("### {title}\n")).unwrap_or_else(|| panic!("{title}"));
        let lines = after.lines().skip_while(|line| !line.starts_with("    "));
        lines.take_while(|line| line.starts_with("    ") || line.is_empty()).collect::<Vec<_>>().join("\n")
    };
    let cluster = start(&[]);
    let mut client = cluster.connect();
    client
        .batch_execute(
            "CREATE TABLE leaf_alloc (biz_tag text PRIMARY KEY, max_id bigint, step int);
             INSERT INTO leaf_alloc VALUES ('leaf-segment-test', 2001, 2000), ('leaf-new', 1, 500);
             CREATE TABLE tiny_id_info (biz_type text PRIMARY KEY, begin_id bigint, max_id bigint, step int,
                                        delta int, remainder int);
             INSERT INTO tiny_id_info VALUES ('one', 1, 100000, 1000, 1, 0), ('odd', 1, 100000, 1000, 2, 1),
                                             ('even', 1, 100001, 1000, 2, 0), ('three', 0, 9, 10, 3, 0);",
        )
        .unwrap();
    for title in ["From Leaf", "From Tinyid", "From an auto-increment pair"] {
        let commands = statements(title);
        assert!(commands.contains("create_segment"), "{commands}");
        client.batch_execute(&commands).unwrap_or_else(|error| panic!("{title}: {}", text(&error)));
    }
    let mut server = Member::default();
    for (name, first, increment, count) in [
        ("leaf-segment-test", 2_001, 1, 2_000),
        ("leaf-new", 1, 1, 500),
        ("one", 100_001, 1, 1_000),
        ("odd", 100_001, 2, 1_000),
        ("even", 100_002, 2, 1_000),
        ("three", 12, 3, 10),
        ("orders of 1", 5_000_001, 2, 1_000),
        ("orders of 2", 5_000_002, 2, 1_000),
        ("orders", 5_000_001, 1, 1_000),
    ] {
        let taken = server.granted(&mut client, name);
        assert_eq!(
            (taken.first, taken.increment, taken.count),
            (Some(first), Some(increment), Some(count)),
            "{name}"
        );
    }
}
