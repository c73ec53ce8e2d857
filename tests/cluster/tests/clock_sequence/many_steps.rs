//! Many steps of the clock, and several layouts with a clock sequence. The server does not run out of space for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::*;

use super::values::{BATCH, HOUR, expect_value, server, start_with_history, take};

const WIDE: &str = "time:41 clock_seq:8 worker:6 sequence:8";

fn session(cluster: &Cluster, layout: &str) -> Client {
    let mut client = cluster.connect();
    client.run(&format!("SET snowflake_id.layout = '{layout}'"));
    client
}

/// Two layouts that need more values together than there are slots. Each step is a minute back, so that no value
/// becomes free again.
#[test]
fn values_of_a_wide_field_need_no_more_places() {
    let cluster = start_with_history(server(WIDE).set("snowflake_id.horizon_margin", "1s"));
    let mut sessions =
        [WIDE, "time:40 clock_seq:8 worker:7 sequence:8"].map(|layout| session(&cluster, layout));
    let mut all = [Vec::new(), Vec::new()];
    for value in 0..=140 {
        cluster.set_clock(-60.0 * f64::from(value));
        for (client, all) in sessions.iter_mut().zip(&mut all) {
            let (time, found) = take(client, all);
            assert_eq!(found, value);
            assert_within(SLACK, time, format!("value {value}"));
        }
    }
    all.iter().for_each(|all| assert_distinct(all));
    let mut client = cluster.connect();
    let rows = |client: &mut Client, rows: &str| {
        single::<i64>(client, &format!("SELECT count({rows}) FROM snowflake_internal.used_identity"))
    };
    let kinds = rows(&mut client, "DISTINCT (datacenter_id, worker_id, clock_seq)");
    assert_eq!(rows(&mut client, "*"), kinds);
    // The clock moves back and forth: a value that is closed again already has a record.
    for round in 0..30 {
        cluster.set_clock(HOUR * f64::from(round));
        client.run("SELECT snowflake_accept_clock()");
        take(&mut sessions[0], &mut all[0]);
        cluster.set_clock(HOUR * f64::from(round) - 0.5 * HOUR);
        take(&mut sessions[0], &mut all[0]);
    }
    assert_distinct(&all[0]);
    let kinds = rows(&mut client, "DISTINCT (datacenter_id, worker_id, clock_seq)");
    assert_eq!(rows(&mut client, "*"), kinds);
    assert!(kinds <= 2 * 256 + 4, "{kinds}");
}

/// Two layouts with the field at the same position. They make the same numbers while the value fits both. When it does
/// not fit the narrow one, that layout continues with value 0 and blocks no other.
#[test]
fn a_narrow_field_beside_a_wide_one() {
    let narrow = "time:41 datacenter:7 clock_seq:1 worker:6 sequence:8";
    let cluster = start_with_history(server(WIDE));
    let mut all = Vec::new();
    let mut wide = session(&cluster, WIDE);
    // Each session takes an ID before the first step, while the value still fits.
    let takers = [(); 3].map(|()| {
        let mut client = session(&cluster, narrow);
        client.run("SET snowflake_id.max_wait = '200ms'");
        let mut all = vec![single::<i64>(&mut client, "SELECT snowflake_nextval()")];
        move |stop: &AtomicBool| {
            while !stop.load(Ordering::Relaxed) {
                if let Ok(row) = client.query_one("SELECT snowflake_nextval()", &[]) {
                    all.push(row.get::<_, i64>(0));
                }
                thread::sleep(pause_between_queries());
            }
            all
        }
    });
    let (narrow_ids, ()) = beside(takers, || {
        expect_value(&mut wide, &mut all, 0);
        for value in 1..=8 {
            cluster.set_clock(-HOUR * f64::from(value));
            for _ in 0..5 {
                expect_value(&mut wide, &mut all, value);
            }
        }
        assert_eq!(failure(&mut session(&cluster, narrow), BATCH).0, "55P03");
    });
    assert_distinct(&[all, narrow_ids.concat()].concat());
}

/// A layout whose other fields leave no room for a higher value, even in its slot's word.
#[test]
fn a_field_with_nothing_beside_it() {
    let narrow = "time:50 clock_seq:1 sequence:12";
    let cluster = start_with_history(server(WIDE).worker(0));
    let mut sessions = [WIDE, narrow].map(|layout| session(&cluster, layout));
    let mut all = [Vec::new(), Vec::new()];
    for value in 0..=3 {
        cluster.set_clock(-HOUR * f64::from(value));
        expect_value(&mut sessions[0], &mut all[0], value);
        if value < 2 {
            expect_value(&mut sessions[1], &mut all[1], value);
        }
    }
    sessions[1].run("SET snowflake_id.max_wait = '200ms'");
    assert_eq!(failure(&mut sessions[1], BATCH).0, "55P03");
    assert!(!cluster.log().contains("bug:"));
    all.iter().for_each(|all| assert_distinct(all));
}
