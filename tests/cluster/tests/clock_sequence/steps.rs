//! Clocks that are set back under layouts with a clock sequence: calls continue at once with the next value.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use harness::accidents::recovered;
use harness::*;

use super::values::{BATCH, HOUR, expect_value, server, start_again, start_with_history, take, value_of};

/// The clock moves back and forth until all values are exhausted. Then calls fail as they do without the field, and the
/// status says until when.
#[test]
fn back_and_forth_until_all_values_are_exhausted() {
    let cluster = start_with_history(server("rollback2"));
    let mut client = cluster.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    for value in 1..=3 {
        cluster.set_clock(-HOUR);
        expect_value(&mut client, &mut all, value);
        cluster.set_clock(0.0);
        // The clock has come back: the value does not change.
        eventually("the clock", || {
            let (_, found) = take(&mut client, &mut all);
            assert_eq!(found, value);
            let query = "SELECT extract(epoch FROM clock_timestamp() - snowflake_timestamp(snowflake_nextval()))::float8";
            single::<f64>(&mut client, query).abs() < 2.0
        });
    }
    cluster.set_clock(-HOUR);
    let (state, message) = failure_at_once(&mut client, BATCH);
    assert_eq!(state, "55P03", "{message}");
    let mut used = || {
        eventually("the status", || {
            let rows = client.query(
                "SELECT clock_seq, is_in_use, used_until > now() + interval '50 min' FROM snowflake_clock_seq_status",
                &[],
            );
            let rows: Vec<(i32, bool, Option<bool>)> =
                rows.unwrap().iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
            (rows.len() == 3).then_some(rows)
        })
    };
    assert_eq!(used(), [(1, false, Some(true)), (2, false, Some(true)), (3, true, None)]);
    assert_eq!(server_state(&mut client), "clock behind");
    // The first value to become free again is the first that was used.
    let resumes: f64 = status(&mut client, "extract(epoch FROM resumes_at - now())::float8");
    assert!((3_300.0..3_600.0).contains(&resumes), "{resumes}");
    cluster.set_clock(-HOUR + resumes + 1.0);
    let (time, value) = take(&mut client, &mut all);
    println!("value {value} after {time:?}");
    assert_distinct(&all);
}

/// Under load: calls in flight do not wait for the clock, and none fails.
#[test]
fn a_clock_set_back_by_an_hour_under_load() {
    let cluster = start_with_history(server("rollback3"));
    let (taken, ()) = beside([|stop: &AtomicBool| take_one_by_one(&cluster, stop); 4], || {
        let mut client = cluster.connect();
        wait_for_first_id(&mut client);
        for value in 1..=3 {
            cluster.set_clock(-HOUR * f64::from(value));
            eventually("the next value", || {
                let id: i64 = single(&mut client, "SELECT snowflake_nextval()");
                value_of(&mut client, id) == value
            });
            // Calls are in progress while the clock changes.
            for _ in 0..200 {
                client.run("SELECT snowflake_nextval()");
            }
        }
    });
    let (all, times): (Vec<_>, Vec<_>) = taken.into_iter().unzip();
    assert_distinct(&all.concat());
    assert_within(SLACK, times.into_iter().max().unwrap(), "a call");
    let mut client = cluster.connect();
    let used = "SELECT count(*) FROM snowflake_clock_seq_status WHERE used_until > now() + interval '50 min'";
    all_arrive("the status", || single::<i64>(&mut client, used) == 2);
    assert_eq!(server_state(&mut client), "ready");
    assert_eq!(single::<i32>(&mut client, "SELECT clock_seq FROM snowflake_layout_status"), 3);
}

/// The clock is set back while the server is down, so at the start the floor is far ahead.
#[test]
fn a_clock_set_back_while_the_server_is_down() {
    let cluster = start_with_history(server("rollback3"));
    let mut client = cluster.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    for (value, mode) in [(1, "fast"), (2, "immediate"), (3, "fast")] {
        cluster.stop_server(mode);
        cluster.set_clock(-HOUR * f64::from(value));
        cluster.start_server();
        client = cluster.connect();
        let start = Instant::now();
        keeper_pid(&mut client);
        assert_eq!(server_state(&mut client), "ready");
        assert_eq!(take(&mut client, &mut all).1, value);
        assert_within(SLACK, start.elapsed(), "the first IDs");
    }
    assert_distinct(&all);
}

/// `standard` makes the numbers of value 0, so it has to wait.
#[test]
fn a_layout_without_the_field_beside_it() {
    let cluster = start_with_history(server("rollback3"));
    let mut client = cluster.connect();
    let mut standard = cluster.connect();
    standard.run("SET snowflake_id.layout = 'standard'; SET snowflake_id.max_wait = '100ms'");
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    all.extend(ids(&mut standard, BATCH));
    cluster.set_clock(-HOUR);
    expect_value(&mut client, &mut all, 1);
    assert_eq!(failure(&mut standard, BATCH).0, "55P03");
    // Its wait blocks no other layout, and the status reports it.
    assert_eq!(server_state(&mut client), "clock behind");
    // The same holds after a restart.
    client = start_again(&cluster, "immediate");
    assert_eq!(take(&mut client, &mut all).1, 1);
    standard = cluster.connect();
    standard.run("SET snowflake_id.layout = 'standard'; SET snowflake_id.max_wait = '100ms'");
    assert_eq!(failure(&mut standard, BATCH).0, "55P03");
    // The clock comes back: `standard` continues, with numbers that no other layout makes.
    cluster.set_clock(10.0);
    client.run("SELECT snowflake_accept_clock()");
    standard.run("SET snowflake_id.max_wait = '1min'");
    for _ in 0..20 {
        all.extend(ids(&mut standard, BATCH));
        assert_eq!(take(&mut client, &mut all).1, 1);
    }
    assert_distinct(&all);
}

/// Two layouts whose fields differ in width: the narrow one uses 0 when the value does not fit.
#[test]
fn a_field_that_is_too_narrow_for_the_value() {
    let cluster = start_with_history(server("rollback3"));
    let mut wide = cluster.connect();
    let mut narrow = cluster.connect();
    let layout = "SET snowflake_id.layout = 'time:41 clock_seq:1 datacenter:2 worker:7 sequence:12'";
    narrow.run(layout);
    let (mut all, mut all_narrow) = (Vec::new(), Vec::new());
    expect_value(&mut wide, &mut all, 0);
    expect_value(&mut narrow, &mut all_narrow, 0);
    cluster.set_clock(-HOUR);
    expect_value(&mut narrow, &mut all_narrow, 1);
    expect_value(&mut wide, &mut all, 1);
    cluster.set_clock(-HOUR - 600.0);
    expect_value(&mut wide, &mut all, 2);
    assert_eq!(failure(&mut narrow, BATCH).0, "55P03");
    // The clock is back at the time of value 0.
    cluster.set_clock(5.0);
    eventually("the narrow one", || narrow.query_one("SELECT snowflake_nextval()", &[]).ok());
    expect_value(&mut narrow, &mut all_narrow, 0);
    assert_distinct(&all);
    assert_distinct(&all_narrow);
}

/// The server starts with a clock beyond the end of the layout, which is then set right.
#[test]
fn a_floor_beyond_the_end_of_the_layout() {
    let cluster = start_with_history(server("rollback3"));
    let mut client = cluster.connect();
    let mut all = Vec::new();
    expect_value(&mut client, &mut all, 0);
    cluster.stop_server("fast");
    cluster.set_clock(100.0 * 366.0 * 24.0 * HOUR);
    cluster.start_server();
    client = cluster.connect();
    eventually("the end", || failure(&mut client, BATCH).0 == "2200H");
    cluster.stop_server("immediate");
    cluster.set_clock(10.0);
    cluster.start_server();
    client = cluster.connect();
    wait_for_first_id(&mut client);
    assert_eq!(take(&mut client, &mut all).1, 1);
    assert_distinct(&all);
}

/// The floor that an administrator has requested holds for every value.
#[test]
fn a_requested_floor_holds_for_every_value() {
    let cluster = start_with_history(server("rollback3"));
    let mut client = cluster.connect();
    let mut all = Vec::new();
    cluster.set_clock(-HOUR);
    expect_value(&mut client, &mut all, 0);
    cluster.set_clock(-2.0 * HOUR);
    expect_value(&mut client, &mut all, 1);
    client.run("SELECT snowflake_raise_floor(now() + interval '10 min')");
    for restart in [false, true] {
        if restart {
            client = start_again(&cluster, "immediate");
        }
        eventually("the gate", || failure(&mut client, BATCH).0 == "55P03");
    }
    cluster.set_clock(-2.0 * HOUR + 610.0);
    wait_for_first_id(&mut client);
    assert_eq!(take(&mut client, &mut all).1, 1);
    assert_distinct(&all);
}

/// Rounds of all events between any two steps. No ID is repeated.
#[test]
fn rounds_of_steps_back() {
    const IDS_OF_A_ROUND: usize = 500;
    let rounds = rounds(6);
    let fast = [
        ("snowflake_id.horizon_margin", "300ms"),
        ("snowflake_id.max_ahead", "300ms"),
        ("snowflake_id.max_wait", "2s"),
    ];
    let cluster = start_with_history(server("rollback3").settings(&fast));
    let mut random = Random::seeded();
    let (mut all, mut values) = (Vec::new(), 0);
    let mut shift = 0.0;
    let queries = ["SELECT snowflake_nextval()", "SELECT snowflake_batch(200)"].map(String::from);
    let taker = Taker { queries: queries.into(), ..Taker::of(&cluster) };
    for round in 0..rounds {
        let takers = std::iter::repeat_n(taker.clone(), 3);
        let (taken, ()) = once_taken(IDS_OF_A_ROUND, takers, || {
            if round == 0 {
                // After this, a value is used up, whatever is drawn later.
                shift -= HOUR;
                cluster.set_clock(shift);
                return;
            }
            for _ in 0..1 + random.below(3) {
                random.pause(250);
                match random.below(20) {
                    0 => kill_server(&cluster),
                    1 | 2 => cluster.crash_a_backend(),
                    3 | 4 => end_keeper(&mut cluster.connect()),
                    5 => {
                        cluster.try_run("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
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
            random.pause(300);
        });
        // IDs increase only within a value of the clock sequence, which is in bits 19 to 21. Below it are the worker
        // and the sequence.
        for (mine, value) in taken.iter().flat_map(|mine| (0..8).map(move |value| (mine, value))) {
            let same: Vec<i64> = mine.iter().copied().filter(|id| id >> 19 & 7 == value).collect();
            assert_increasing(&same);
        }
        if cluster.try_connect("postgres").is_err() {
            cluster.start_server();
        }
        recover(&cluster, &mut shift);
        values = values.max(take(&mut cluster.connect(), &mut all).1);
        all.extend(taken.concat());
    }
    println!("{} IDs in {rounds} rounds, values up to {values}", all.len());
    assert!(values > 0 && all.len() > IDS_OF_A_ROUND * rounds as usize);
    assert_distinct(&all);
}

/// Ends the keeper. Returns when there is another keeper: PostgreSQL waits a second, by its own clock, before it starts
/// one, and longer if the clock is set back meanwhile. The new keeper may have reasons not to open the gate.
fn end_keeper(client: &mut Client) {
    let keeper = |client: &mut Client| -> Option<i32> {
        client.query_one("SELECT keeper_pid FROM snowflake_status", &[]).ok()?.get(0)
    };
    let Some(old) = keeper(client) else { return };
    client.execute("SELECT pg_terminate_backend($1)", &[&old]).unwrap();
    eventually("the next keeper", || keeper(client).filter(|&pid| pid != old));
}

/// Waits for an ID. When all values are exhausted, advances the clock to the time at which one is free.
fn recover(cluster: &Cluster, shift: &mut f64) {
    recovered(cluster, "postgres", "SELECT snowflake_nextval()", |message, refusals| {
        let mut client = cluster.connect();
        // If the clock is also behind the horizon of the value in use, only the status tells that it has jumped.
        let state = client.query_one("SELECT state FROM snowflake_status", &[]);
        if message.contains("clock has jumped")
            || state.is_ok_and(|row| row.get::<_, &str>(0) == "clock jumped")
        {
            let _ = client.batch_execute("SELECT snowflake_accept_clock()");
        } else if refusals % 8 == 7 {
            // There was a crash right after the extension was created again, so the last worker ID is not known.
            let query = match message.contains("this server may have used worker ID") {
                true => {
                    "SELECT max(used_until_us) / 1e6 - extract(epoch FROM now()) FROM snowflake_internal.used_identity"
                }
                false => "SELECT extract(epoch FROM resumes_at - now()) FROM snowflake_status",
            };
            *shift += single::<f64>(&mut client, &format!("SELECT ({query})::float8")).max(0.0) + 0.1;
            println!("the clock goes on to {shift}: {message}");
            cluster.set_clock(*shift);
        }
    });
}
