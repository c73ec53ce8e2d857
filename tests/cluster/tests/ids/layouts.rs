//! Layouts as settings: several at a time, changed while clients run, too many, and invalid ones.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::*;

/// Two databases with layouts of their own, and a reload that changes the server's while clients run.
#[test]
fn two_databases_with_different_layouts_and_a_reload() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run("CREATE DATABASE js");
    client.run("ALTER DATABASE js SET snowflake_id.layout = 'js53'");
    cluster.connect_to("js").run("CREATE EXTENSION snowflake_id");

    let stop = AtomicBool::new(false);
    // The number of IDs that the sessions in postgres have taken, by layout.
    let counts = Mutex::new(HashMap::<String, [usize; 4]>::new());
    let (cluster, stop, counts) = (&cluster, &stop, &counts);
    let take = |session: usize, database: &'static str| {
        let mut client = cluster.connect_to(database);
        let mut all = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let row =
                client.query_one("SELECT snowflake_nextval(), current_setting('snowflake_id.layout')", &[]);
            let row = row.unwrap();
            let layout: String = row.get(1);
            counts.lock().unwrap().entry(layout.clone()).or_default()[session] += 1;
            all.push((layout, row.get::<_, i64>(0)));
            thread::sleep(pause_between_queries());
        }
        all
    };
    let wait_for = |layout: &str| {
        eventually("both sessions to use the layout", || {
            let counts = counts.lock().unwrap();
            counts.get(layout).is_some_and(|counts| counts[0] > 100 && counts[2] > 100)
        });
    };
    let mut sessions: Vec<Vec<(String, i64)>> = thread::scope(|scope| {
        let threads: Vec<_> = ["postgres", "js", "postgres", "js"]
            .into_iter()
            .enumerate()
            .map(|(session, database)| scope.spawn(move || take(session, database)))
            .collect();
        wait_for("standard");
        for layout in ["wide", "leaf", "twitter"] {
            cluster.change("snowflake_id.layout", layout);
            wait_for(layout);
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });

    let js: Vec<_> = [sessions.remove(3), sessions.remove(1)].concat();
    assert!(js.iter().all(|(layout, id)| layout == "js53" && *id < 1 << 53));
    for layout in ["standard", "wide", "leaf", "twitter"] {
        let of_session = |session: &Vec<(String, i64)>| -> Vec<i64> {
            session.iter().filter(|(used, _)| used == layout).map(|&(_, id)| id).collect()
        };
        let both: Vec<Vec<i64>> = sessions.iter().map(of_session).collect();
        for session in &both {
            assert!(!session.is_empty(), "{layout} was never used");
            assert_increasing(session);
        }
        assert_distinct(both.iter().flatten());
    }
    assert_distinct(js.iter().map(|(_, id)| id));
}

#[test]
fn sixteen_layouts_and_the_seventeenth() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    let layout = |unit: usize| format!("time:40 worker:10 sequence:10 unit={unit}ms");
    // A layout that has no IDs to give does not use a slot: one that has ended, and one that has not begun.
    for useless in ["baidu", "standard epoch=9000-01-01T00:00:00Z"] {
        failure(&mut client, &format!("SET snowflake_id.layout = '{useless}'; SELECT snowflake_nextval()"));
    }
    for unit in 1..=16 {
        client.run(&format!("SET snowflake_id.layout = '{}'", layout(unit)));
        assert_eq!(ids(&mut client, "SELECT snowflake_batch(10)").len(), 10);
    }
    let mut other = cluster.connect();
    other.run(&format!("SET snowflake_id.layout = '{}'", layout(17)));
    for _ in 0..2 {
        let (state, message) = failure(&mut other, "SELECT snowflake_nextval()");
        assert_eq!(state, "53400", "{message}");
        assert!(message.contains("16"), "{message}");
    }
    // The layout can be used for decoding. The sixteen continue, and so does a layout that gives the same numbers as
    // one of them.
    let _: i64 = single(&mut other, "SELECT snowflake_sequence(12345)");
    for text in [&layout(16), "time:40 datacenter:5 worker:5 sequence:10 unit=3ms"] {
        other.run(&format!("SET snowflake_id.layout = '{text}'"));
        assert!(single::<i64>(&mut other, "SELECT snowflake_nextval()") > 0);
    }
}

/// `worker:10` and `datacenter:5 worker:5` give the same numbers, so they must share a counter.
#[test]
fn layouts_that_differ_in_name_only_share_their_ids() {
    let cluster = Cluster::builder().worker(1).start();
    let mut all = Vec::new();
    let mut clients: Vec<_> = ["twitter", "leaf", "twitter", "leaf"]
        .into_iter()
        .map(|layout| {
            let mut client = cluster.connect();
            client.run(&format!("SET snowflake_id.layout = '{layout}'"));
            client
        })
        .collect();
    for _ in 0..100 {
        for client in &mut clients {
            all.extend(ids(client, "SELECT snowflake_nextval()"));
        }
    }
    assert_increasing(&all);
}

#[test]
fn a_bad_layout_stops_the_start() {
    let cluster = Cluster::builder().worker(1).stopped();
    cluster.configure(&[("snowflake_id.layout", "time:41 wroker:10")]);
    let log = cluster.try_to_start().unwrap_err();
    assert!(log.contains("FATAL:  invalid value for parameter \"snowflake_id.layout\""), "{log}");
    assert!(log.contains("Did you mean \"worker\"?") && log.contains("HINT:"), "{log}");
    cluster.configure(&[("snowflake_id.layout", "wide")]);
    cluster.start_server();
    assert_eq!(single::<String>(&mut cluster.connect(), "SHOW snowflake_id.layout"), "wide");
}

#[test]
fn a_bad_layout_at_reload_leaves_the_old_one() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    cluster.change_for(&mut client, "snowflake_id.layout", "wide");
    let before = cluster.log().len();
    cluster.change("snowflake_id.layout", "time:41 worker:99");
    eventually("the message", || cluster.log()[before..].contains("\"worker:99\" is not a valid width"));
    for client in [&mut client, &mut cluster.connect()] {
        assert_eq!(single::<String>(client, "SHOW snowflake_id.layout"), "wide");
        assert!(single::<i64>(client, "SELECT snowflake_nextval()") > 0);
    }
}

/// While the library is loaded, ALTER DATABASE refuses an invalid layout. One that was stored before makes every use in
/// that database fail. It is never silently replaced by another layout.
#[test]
fn a_bad_layout_by_alter_database() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    client.run("CREATE DATABASE bad; ");
    for command in ["ALTER DATABASE bad SET", "ALTER ROLE test SET", "ALTER SYSTEM SET", "SET"] {
        let (state, message) = failure(&mut client, &format!("{command} snowflake_id.layout = 'twiter'"));
        assert_eq!(state, "22023", "{command}: {message}");
        assert!(message.contains("Did you mean \"twitter\"?"), "{command}: {message}");
    }
    drop(client);

    cluster.stop_server("fast");
    cluster.configure(&[("shared_preload_libraries", "")]);
    cluster.start_server();
    cluster.connect().run("ALTER DATABASE bad SET snowflake_id.layout = 'twiter'");
    // Without preloading, the invalid layout is read when a function loads the library.
    let mut unloaded = cluster.connect_to("bad");
    unloaded.run("CREATE EXTENSION snowflake_id");
    let (state, message) = failure(&mut unloaded, "SELECT snowflake_timestamp(1)");
    assert_eq!(state, "22023", "{message}");
    drop(unloaded);
    cluster.stop_server("fast");

    cluster.configure(&[("shared_preload_libraries", "snowflake_id")]);
    cluster.start_server();
    let mut client = cluster.connect_to("bad");
    for query in ["SELECT snowflake_nextval()", "SELECT snowflake_batch(3)", "SELECT snowflake_timestamp(1)"]
    {
        let (state, message) = failure(&mut client, query);
        assert_eq!(state, "22023", "{query}: {message}");
        assert!(message.contains("\"twiter\"") && message.contains("twitter"), "{query}: {message}");
    }
    // A layout given by name works, and the session works once its layout is valid.
    let _: i64 = single(&mut client, "SELECT snowflake_sequence(1, 'twitter')");
    client.run("SET snowflake_id.layout = 'twitter'; SELECT snowflake_nextval()");
    let (state, _) = failure(&mut client, "RESET snowflake_id.layout; SELECT snowflake_nextval()");
    assert_eq!(state, "22023");
    assert!(single::<i64>(&mut cluster.connect(), "SELECT snowflake_nextval()") > 0);
}
