//! Clocks that are set back, under layouts with a clock sequence: calls go on at once with the next value.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::faults::{keeper_pid, kill_server};
use snowflake_id_cluster_tests::fleet::{Fleet, leased_worker, some_ids, wait_for_registry_state};
use snowflake_id_cluster_tests::load::{Random, StopAtEnd};
use snowflake_id_cluster_tests::{
    Cluster, Settings, WORKER_1, assert_distinct, assert_increasing, crash_a_backend, failure, ids, poll,
    single, text,
};

const HOUR: f64 = 3_600.0;
const BATCH: &str = "SELECT snowflake_batch(1000)";
const ROLLBACK3: Settings = &[WORKER_1[0], WORKER_1[1], ("snowflake_id.layout", "rollback3")];
const ROLLBACK2: Settings = &[WORKER_1[0], WORKER_1[1], ("snowflake_id.layout", "rollback2")];

/// The value of the clock sequence in an ID of the session's layout.
fn value_of(client: &mut Client, id: i64) -> i32 {
    single(client, &format!("SELECT snowflake_clock_seq({id})"))
}

/// Takes IDs; how long the first call took, and the value in the last ID.
fn take(client: &mut Client, all: &mut Vec<i64>) -> (Duration, i32) {
    let start = Instant::now();
    let taken = ids(client, BATCH);
    let time = start.elapsed();
    assert_increasing(&taken);
    all.extend(&taken);
    (time, value_of(client, taken[taken.len() - 1]))
}

/// The same; the value has to be this one, and the first call may wait for less than a second.
fn expect_value(client: &mut Client, all: &mut Vec<i64>, value: i32) {
    let (time, found) = take(client, all);
    assert_eq!(found, value);
    assert!(time < Duration::from_secs(1), "{time:?}");
}

/// Starts a server that knows its own past since a day ago. Before that each value counts as used.
fn start_with_a_past(settings: Settings) -> Cluster {
    let mut cluster = Cluster::stopped(settings);
    cluster.give_clock();
    cluster.set_clock(-24.0 * HOUR);
    cluster.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    cluster.stop_server("fast");
    cluster.set_clock(0.0);
    cluster.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
    cluster
}

fn start_again(cluster: &Cluster, mode: &str) -> Client {
    match mode {
        "power" => kill_server(cluster),
        mode => cluster.stop_server(mode),
    }
    cluster.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
    let mut client = cluster.connect();
    client.batch_execute("SET snowflake_id.max_wait = '20s'").unwrap();
    client
}

/// Under load: calls in flight wait for less than a second, and none fails.
#[test]
fn a_clock_set_back_by_an_hour_under_load() {
    let cluster = start_with_a_past(ROLLBACK3);
    let stop = AtomicBool::new(false);
    let all = Mutex::<Vec<i64>>::default();
    let longest = Mutex::new(Duration::ZERO);
    let load = || {
        let mut client = cluster.connect();
        let (mut mine, mut slowest) = (Vec::new(), Duration::ZERO);
        while !stop.load(Ordering::Relaxed) {
            let start = Instant::now();
            mine.extend(ids(&mut client, "SELECT snowflake_nextval()"));
            slowest = slowest.max(start.elapsed());
        }
        all.lock().unwrap().extend(mine);
        let mut longest = longest.lock().unwrap();
        *longest = slowest.max(*longest);
    };
    thread::scope(|scope| {
        let _end = StopAtEnd(&stop);
        for _ in 0..6 {
            scope.spawn(load);
        }
        let mut client = cluster.connect();
        poll("IDs", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
        for value in 1..=3 {
            cluster.set_clock(-HOUR * f64::from(value));
            poll("the next value", || {
                let id: i64 = single(&mut client, "SELECT snowflake_nextval()");
                (value_of(&mut client, id) == value).then_some(())
            });
            thread::sleep(Duration::from_millis(300));
        }
    });
    let (all, longest) = (all.into_inner().unwrap(), longest.into_inner().unwrap());
    println!("{} IDs, the slowest call took {longest:?}", all.len());
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    assert_distinct(&all);
    let mut client = cluster.connect();
    let used = "SELECT count(*) FROM snowflake_clock_sequence WHERE used_until > now() + interval '50 min'";
    poll("the status", || (single::<i64>(&mut client, used) == 2).then_some(()));
    assert_eq!(single::<String>(&mut client, "SELECT state FROM snowflake_status LIMIT 1"), "ready");
    assert_eq!(single::<i32>(&mut client, "SELECT clock_seq FROM snowflake_status LIMIT 1"), 3);
}

/// Back and forth until all values are used up: then calls fail as without the field, and the status says until when.
#[test]
fn back_and_forth_until_all_values_are_used_up() {
    let cluster = start_with_a_past(ROLLBACK2);
    let mut client = cluster.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    for value in 1..=3 {
        cluster.set_clock(-HOUR);
        expect_value(&mut client, &mut all, value);
        cluster.set_clock(0.0);
        // The clock came back: the value stays.
        poll("the clock", || {
            let (_, found) = take(&mut client, &mut all);
            assert_eq!(found, value);
            let query = "SELECT extract(epoch FROM clock_timestamp() - snowflake_timestamp(snowflake_nextval()))::float8";
            (single::<f64>(&mut client, query).abs() < 2.0).then_some(())
        });
    }
    cluster.set_clock(-HOUR);
    let start = Instant::now();
    let (state, message) = failure(&mut client, BATCH);
    assert_eq!(state, "55P03", "{message}");
    assert!(start.elapsed() < Duration::from_secs(1));
    let mut used = || {
        poll("the status", || {
            let rows = client.query(
                "SELECT clock_seq, is_in_use, used_until > now() + interval '50 min' FROM snowflake_clock_sequence",
                &[],
            );
            let rows: Vec<(i32, bool, Option<bool>)> =
                rows.unwrap().iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
            (rows.len() == 3).then_some(rows)
        })
    };
    assert_eq!(used(), [(1, false, Some(true)), (2, false, Some(true)), (3, true, None)]);
    assert_eq!(single::<String>(&mut client, "SELECT state FROM snowflake_status LIMIT 1"), "clock behind");
    // The end of the first value is the first one to come.
    let resumes: f64 = single(
        &mut client,
        "SELECT extract(epoch FROM resumes_at - now())::float8 FROM snowflake_status LIMIT 1",
    );
    assert!((3_300.0..3_600.0).contains(&resumes), "{resumes}");
    cluster.set_clock(-HOUR + resumes + 1.0);
    let (time, value) = take(&mut client, &mut all);
    println!("value {value} after {time:?}");
    assert_distinct(&all);
}

/// Crashes and clean stops use up no value.
#[test]
fn four_crashes_in_a_row_use_up_no_value() {
    let cluster = start_with_a_past(&[ROLLBACK3, &[("fsync", "on")]].concat());
    let mut client = cluster.connect();
    let mut all = Vec::new();
    for value in 0..3 {
        if value > 0 {
            cluster.set_clock(-HOUR * f64::from(value));
        }
        expect_value(&mut client, &mut all, value);
        for mode in ["power", "immediate", "power", "immediate", "fast"] {
            client = start_again(&cluster, mode);
            let (time, found) = take(&mut client, &mut all);
            assert_eq!(found, value, "{mode}");
            println!("{mode}: {time:?}");
        }
        crash_a_backend(&cluster);
        client = cluster.connect();
        assert_eq!(take(&mut client, &mut all).1, value);
    }
    assert_distinct(&all);
}

/// The clock is set back while the server is down: the floor is far ahead at the start.
#[test]
fn a_clock_set_back_while_the_server_is_down() {
    let cluster = start_with_a_past(ROLLBACK3);
    let mut client = cluster.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    for (value, mode) in [(1, "fast"), (2, "immediate"), (3, "fast")] {
        cluster.stop_server(mode);
        cluster.set_clock(-HOUR * f64::from(value));
        cluster.start_server().unwrap();
        client = cluster.connect();
        let start = Instant::now();
        keeper_pid(&mut client);
        assert_eq!(single::<String>(&mut client, "SELECT state FROM snowflake_status LIMIT 1"), "ready");
        assert_eq!(take(&mut client, &mut all).1, value);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
    assert_distinct(&all);
}

/// `standard` makes the numbers of value 0, and waits.
#[test]
fn a_layout_without_the_field_beside_it() {
    let cluster = start_with_a_past(ROLLBACK3);
    let mut client = cluster.connect();
    let mut standard = cluster.connect();
    standard
        .batch_execute("SET snowflake_id.layout = 'standard'; SET snowflake_id.max_wait = '100ms'")
        .unwrap();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    all.extend(ids(&mut standard, BATCH));
    cluster.set_clock(-HOUR);
    expect_value(&mut client, &mut all, 1);
    assert_eq!(failure(&mut standard, BATCH).0, "55P03");
    // It is in the way of nobody, and the status says that it waits.
    assert_eq!(single::<String>(&mut client, "SELECT state FROM snowflake_status LIMIT 1"), "clock behind");
    // Restarted, the same.
    client = start_again(&cluster, "immediate");
    assert_eq!(take(&mut client, &mut all).1, 1);
    standard = cluster.connect();
    standard
        .batch_execute("SET snowflake_id.layout = 'standard'; SET snowflake_id.max_wait = '100ms'")
        .unwrap();
    assert_eq!(failure(&mut standard, BATCH).0, "55P03");
    // The clock comes back: it goes on, with numbers that nobody else makes.
    cluster.set_clock(10.0);
    client.batch_execute("SELECT snowflake_accept_clock()").unwrap();
    standard.batch_execute("SET snowflake_id.max_wait = '20s'").unwrap();
    for _ in 0..20 {
        all.extend(ids(&mut standard, BATCH));
        assert_eq!(take(&mut client, &mut all).1, 1);
    }
    assert_distinct(&all);
}

/// Two layouts whose fields differ in width: the narrow one has 0 when it has no room for the value.
#[test]
fn a_field_that_is_too_narrow_for_the_value() {
    let cluster = start_with_a_past(ROLLBACK3);
    let mut wide = cluster.connect();
    let mut narrow = cluster.connect();
    let layout = "SET snowflake_id.layout = 'time:41 clock_seq:1 datacenter:2 worker:7 sequence:12'";
    narrow.batch_execute(layout).unwrap();
    let (mut all, mut all_narrow) = (Vec::new(), Vec::new());
    expect_value(&mut wide, &mut all, 0);
    expect_value(&mut narrow, &mut all_narrow, 0);
    cluster.set_clock(-HOUR);
    expect_value(&mut narrow, &mut all_narrow, 1);
    expect_value(&mut wide, &mut all, 1);
    cluster.set_clock(-HOUR - 600.0);
    expect_value(&mut wide, &mut all, 2);
    assert_eq!(failure(&mut narrow, BATCH).0, "55P03");
    // Again at the time of value 0.
    cluster.set_clock(5.0);
    poll("the narrow one", || narrow.query_one("SELECT snowflake_nextval()", &[]).ok());
    expect_value(&mut narrow, &mut all_narrow, 0);
    assert_distinct(&all);
    assert_distinct(&all_narrow);
}

/// What is stored goes with the extension: whatever was used before counts as used.
#[test]
fn dropped_and_created_again() {
    let cluster = start_with_a_past(ROLLBACK3);
    let mut client = cluster.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    cluster.set_clock(-HOUR);
    expect_value(&mut client, &mut all, 1);
    cluster.set_clock(-2.0 * HOUR);
    expect_value(&mut client, &mut all, 2);
    client.batch_execute("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id").unwrap();
    // The value in use goes on.
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    assert_eq!(take(&mut client, &mut all).1, 2);
    // No other one can be had before the latest time that there ever was.
    cluster.set_clock(-3.0 * HOUR);
    poll("the refusal", || (client.batch_execute(BATCH).is_err()).then_some(()));
    assert_eq!(failure(&mut client, BATCH).0, "55P03");
    cluster.set_clock(-2.0 * HOUR);
    client = start_again(&cluster, "immediate");
    assert_eq!(take(&mut client, &mut all).1, 2);
    client.batch_execute("REFRESH MATERIALIZED VIEW snowflake_internal.used_identity").unwrap();
    poll("the records", || {
        client.batch_execute("SELECT snowflake_nextval()").ok()?;
        let count = "SELECT count(*) FROM snowflake_internal.used_identity WHERE clock_seq = 0";
        (single::<i64>(&mut client, count) > 0).then_some(())
    });
    assert_eq!(take(&mut client, &mut all).1, 2);
    cluster.set_clock(60.0);
    client.batch_execute("SELECT snowflake_accept_clock()").unwrap();
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    assert_eq!(take(&mut client, &mut all).1, 2);
    cluster.set_clock(30.0);
    poll("another value", || (take(&mut client, &mut all).1 == 1).then_some(()));
    assert_distinct(&all);
}

/// A promoted standby goes on with the value of its primary.
#[test]
fn promotion_between_two_steps() {
    let primary = start_with_a_past(ROLLBACK3);
    let mut client = primary.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    primary.set_clock(-HOUR);
    expect_value(&mut client, &mut all, 1);
    let standby = primary.start_standby(&[]);
    primary.set_clock(-2.0 * HOUR);
    expect_value(&mut client, &mut all, 2);
    let reached: String = single(&mut client, "SELECT pg_current_wal_flush_lsn()::text");
    let mut on_standby = standby.connect();
    poll("the standby", || {
        let query = format!("SELECT pg_last_wal_replay_lsn() >= '{reached}'::pg_lsn");
        single::<bool>(&mut on_standby, &query).then_some(())
    });
    kill_server(&primary);
    standby.set_clock(-2.0 * HOUR);
    standby.promote();
    on_standby.batch_execute("SET snowflake_id.max_wait = '20s'").unwrap();
    poll("an ID", || on_standby.query_one("SELECT snowflake_nextval()", &[]).ok());
    assert_eq!(take(&mut on_standby, &mut all).1, 2);
    standby.set_clock(-3.0 * HOUR);
    expect_value(&mut on_standby, &mut all, 3);
    assert_distinct(&all);
}

/// A new server under a worker ID that another one had: from a dump, for example. Which values that one has used, and
/// when, nobody knows.
#[test]
fn a_past_that_is_not_known() {
    let mut all = Vec::new();
    {
        let cluster = start_with_a_past(ROLLBACK3);
        let mut client = cluster.connect();
        expect_value(&mut client, &mut all, 0);
        cluster.set_clock(-HOUR / 2.0);
        expect_value(&mut client, &mut all, 1);
    }
    let cluster = Cluster::start_with_clock(ROLLBACK3);
    let mut client = cluster.connect();
    expect_value(&mut client, &mut all, 0);
    for restart in [false, true] {
        cluster.set_clock(-HOUR / 2.0);
        if restart {
            client = start_again(&cluster, "immediate");
        }
        client.batch_execute("RESET snowflake_id.max_wait").unwrap();
        poll("the gate", || (failure(&mut client, BATCH).0 == "55P03").then_some(()));
    }
    cluster.set_clock(0.0);
    client.batch_execute("SET snowflake_id.max_wait = '20s'").unwrap();
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    take(&mut client, &mut all);
    // The same for a worker ID that this server takes over, once it has a past of its own.
    cluster.stop_server("fast");
    cluster.set_clock(24.0 * HOUR);
    cluster.configure(&[("snowflake_id.worker_id", "2")]);
    cluster.start_server().unwrap();
    client = cluster.connect();
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    cluster.set_clock(23.0 * HOUR);
    poll("the gate", || (failure(&mut client, BATCH).0 == "55P03").then_some(()));
    assert_distinct(&all);
}

/// A start with a clock beyond the end of the layout, which is then set right.
#[test]
fn a_floor_beyond_the_end_of_the_layout() {
    let cluster = start_with_a_past(ROLLBACK3);
    let mut client = cluster.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    cluster.stop_server("fast");
    cluster.set_clock(100.0 * 366.0 * 24.0 * HOUR);
    cluster.start_server().unwrap();
    client = cluster.connect();
    poll("the end", || (failure(&mut client, BATCH).0 == "2200H").then_some(()));
    cluster.stop_server("immediate");
    cluster.set_clock(10.0);
    cluster.start_server().unwrap();
    client = cluster.connect();
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    assert_eq!(take(&mut client, &mut all).1, 1);
    assert_distinct(&all);
}

/// The floor that an administrator has ordered holds for every value.
#[test]
fn an_ordered_floor_holds_for_every_value() {
    let cluster = start_with_a_past(ROLLBACK3);
    let mut client = cluster.connect();
    let mut all = Vec::new();
    cluster.set_clock(-HOUR);
    expect_value(&mut client, &mut all, 0);
    cluster.set_clock(-2.0 * HOUR);
    expect_value(&mut client, &mut all, 1);
    client.batch_execute("SELECT snowflake_advance(now() + interval '10 min')").unwrap();
    for restart in [false, true] {
        if restart {
            client = start_again(&cluster, "immediate");
            client.batch_execute("RESET snowflake_id.max_wait").unwrap();
        }
        poll("the gate", || (failure(&mut client, BATCH).0 == "55P03").then_some(()));
    }
    cluster.set_clock(-2.0 * HOUR + 610.0);
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    assert_eq!(take(&mut client, &mut all).1, 1);
    assert_distinct(&all);
}

/// Everything begins anew for an identity that was never used, with value 0 and all others free.
#[test]
fn everything_begins_anew() {
    let cluster = start_with_a_past(ROLLBACK2);
    let mut client = cluster.connect();
    let mut all = Vec::new();
    let worker = |cluster: &Cluster, client: &mut Client, worker: &str| {
        cluster.configure(&[("snowflake_id.worker_id", worker)]);
        cluster.reload();
        poll("the worker", || {
            let query = "SELECT snowflake_worker(snowflake_nextval())";
            (client.query_one(query, &[]).ok()?.get::<_, i32>(0).to_string() == worker).then_some(())
        });
    };
    for value in 0..=3 {
        cluster.set_clock(-HOUR * f64::from(value));
        expect_value(&mut client, &mut all, value);
    }
    cluster.set_clock(-4.0 * HOUR);
    assert_eq!(failure(&mut client, BATCH).0, "55P03");
    client.batch_execute("SELECT snowflake_reset_horizon(9)").unwrap();
    worker(&cluster, &mut client, "9");
    expect_value(&mut client, &mut all, 0);
    cluster.set_clock(-5.0 * HOUR);
    expect_value(&mut client, &mut all, 1);
    client = start_again(&cluster, "immediate");
    assert_eq!(take(&mut client, &mut all).1, 1);
    // The old one, when it may be used again: its values were used up to then.
    cluster.set_clock(10.0);
    client.batch_execute("SELECT snowflake_accept_clock()").unwrap();
    worker(&cluster, &mut client, "1");
    take(&mut client, &mut all);
    cluster.set_clock(-2.0 * HOUR);
    assert_eq!(failure(&mut client, BATCH).0, "55P03");
    assert_distinct(&all);
}

/// Rounds of everything, between any two steps; nothing comes twice.
#[test]
fn rounds_of_steps_back() {
    let rounds: u32 = std::env::var("SNOWFLAKE_ID_ROUNDS").map_or(12, |rounds| rounds.parse().unwrap());
    let fast = [("snowflake_id.lease", "300ms"), ("snowflake_id.max_drift", "300ms"), ("fsync", "on")];
    let cluster = start_with_a_past(&[ROLLBACK3, &fast].concat());
    let mut random = Random::seeded();
    let (mut all, mut values) = (Vec::new(), 0);
    let mut shift = 0.0;
    for _ in 0..rounds {
        let stop = AtomicBool::new(false);
        let taken = Mutex::<Vec<i64>>::default();
        thread::scope(|scope| {
            let _end = StopAtEnd(&stop);
            for _ in 0..3 {
                scope.spawn(|| take_whatever(&cluster, &stop, &taken));
            }
            for _ in 0..1 + random.below(3) {
                thread::sleep(random.milliseconds(250));
                match random.below(20) {
                    0 => kill_server(&cluster),
                    1 | 2 => crash_a_backend(&cluster),
                    3 | 4 => end_keeper(&mut cluster.connect()),
                    5 => {
                        let anew = "DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id";
                        let _ = cluster.connect().batch_execute(anew);
                    }
                    6..10 => {
                        shift += random.below(7_200) as f64 - 3_000.0;
                        cluster.set_clock(shift);
                    }
                    _ => {
                        shift -= random.below(3_600) as f64;
                        cluster.set_clock(shift);
                    }
                }
                if cluster.try_connect("postgres").is_err() {
                    break;
                }
            }
            thread::sleep(random.milliseconds(300));
        });
        if cluster.try_connect("postgres").is_err() {
            cluster.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
        }
        let taken = taken.into_inner().unwrap();
        let mut client = cluster.connect();
        recover(&cluster, &mut client, &mut shift);
        values = values.max(take(&mut client, &mut all).1);
        all.extend(taken);
    }
    println!("{} IDs in {rounds} rounds, values up to {values}", all.len());
    assert!(values > 0 && all.len() > 500 * rounds as usize);
    assert_distinct(&all);
}

/// Has the keeper end. Returns when there is another one: PostgreSQL waits a second for that, by its clock, and longer if
/// that is set back meanwhile. The next one may have reasons not to open the gate.
fn end_keeper(client: &mut Client) {
    let keeper = |client: &mut Client| -> Option<i32> {
        client.query_one("SELECT max(keeper_pid) FROM snowflake_status", &[]).ok()?.get(0)
    };
    let Some(old) = keeper(client) else { return };
    client.execute("SELECT pg_terminate_backend($1)", &[&old]).unwrap();
    poll("the next keeper", || keeper(client).filter(|&pid| pid != old));
}

/// Waits for an ID. When all values are used up, the clock comes to where one is free.
fn recover(cluster: &Cluster, client: &mut Client, shift: &mut f64) {
    let start = Instant::now();
    let mut attempts = 0;
    while let Err(error) = client.query_one("SELECT snowflake_nextval()", &[]) {
        let message = text(&error);
        assert!(start.elapsed() < Duration::from_secs(60), "{message}\n{}", cluster.log());
        thread::sleep(Duration::from_millis(50));
        attempts += 1;
        if message.contains("clock has jumped") {
            let _ = client.batch_execute("SELECT snowflake_accept_clock()");
        } else if attempts % 8 == 0 {
            // A crash right after the extension was created again: nobody knows any more which worker ID was the last.
            let query = match message.contains("may have been used by this server up to") {
                true => {
                    "SELECT max(used_until_us) / 1e6 - extract(epoch FROM now()) FROM snowflake_internal.used_identity"
                }
                false => "SELECT extract(epoch FROM resumes_at - now()) FROM snowflake_status LIMIT 1",
            };
            *shift += single::<f64>(client, &format!("SELECT ({query})::float8")).max(0.0) + 0.1;
            println!("the clock goes on to {shift}: {message}");
            cluster.set_clock(*shift);
        }
    }
}

/// Takes IDs until it is told to stop or the server goes away. They are in order within a value only.
fn take_whatever(cluster: &Cluster, stop: &AtomicBool, all: &Mutex<Vec<i64>>) {
    let Ok(mut client) = cluster.try_connect("postgres") else { return };
    let mut mine: Vec<i64> = Vec::new();
    while !stop.load(Ordering::Relaxed) && !client.is_closed() {
        let query = ["SELECT snowflake_nextval()", "SELECT snowflake_batch(200)"][mine.len() % 2];
        match client.query(query, &[]) {
            Ok(rows) => mine.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
    // rollback3: the value is in bits 19 to 21, below it the worker and the sequence.
    for value in 0..8 {
        let same: Vec<i64> = mine.iter().copied().filter(|id| id >> 19 & 7 == value).collect();
        assert_increasing(&same);
    }
    all.lock().unwrap().extend(mine);
}

/// A leased identity: another value is opened as long as the clock lies in the range of the lease, and not before it.
#[test]
fn a_value_begins_in_the_range_of_the_lease() {
    let mut registry = Cluster::stopped(&[]);
    registry.give_clock();
    // Identities are free from an hour ago.
    registry.set_clock(-HOUR);
    let fleet = Fleet::start_on(registry, "lease => '2h', renew_every => '500ms'");
    fleet.registry.set_clock(0.0);
    let mut server = fleet.stopped_server(&[("snowflake_id.layout", "rollback3")]);
    server.give_clock();
    server.start_server().unwrap();
    server.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    let mut all = some_ids(&server);
    let worker = leased_worker(&server);
    let mut client = server.connect();
    server.set_clock(-HOUR / 2.0);
    expect_value(&mut client, &mut all, 1);
    assert_eq!(leased_worker(&server), worker);
    // Before the lease: IDs wait, as without the field. Nothing is used up.
    server.set_clock(-2.0 * HOUR);
    wait_for_registry_state(&server, "clock differs");
    let (state, message) = failure(&mut client, BATCH);
    assert_eq!(state, "55P03", "{message}");
    server.set_clock(-HOUR / 2.0 + 10.0);
    poll("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).ok());
    assert_eq!(take(&mut client, &mut all).1, 1);
    assert_eq!(leased_worker(&server), worker);
    assert_distinct(&all);
    // When the registry finds the clock right, the identity is exchanged for the sake of layouts without the field, and
    // everything begins anew.
    fleet.registry.set_clock(-HOUR / 2.0 + 10.0);
    poll("another worker ID", || (leased_worker(&server) != worker).then_some(()));
    poll("value 0", || (take(&mut client, &mut all).1 == 0).then_some(()));
    server.stop_server("immediate");
    server.start_server().unwrap();
    all.extend(some_ids(&server));
    assert_distinct(&all);
}
