//! The registry of a fleet, and many servers at once. Topic `registry` of pg_regress covers what a single session can
//! test.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use harness::*;

use super::member::{Member, granted, many, sqlstate, start, state, unless_locked};
use super::taker::keep_open;

#[test]
fn fifty_servers_ask_for_sixteen_identities() {
    let cluster = start(many());
    let barrier = Barrier::new(50);
    let answers = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let (mut client, mut member) = (cluster.connect(), Member::new());
                barrier.wait();
                let answer = eventually("an answer", || unless_locked(member.acquire(&mut client, 16)));
                answers.lock().unwrap().push(answer);
            });
        }
    });
    let answers = answers.into_inner().unwrap();
    let mut workers: Vec<_> = answers.iter().filter_map(|answer| answer.worker).collect();
    workers.sort_unstable();
    assert_eq!(workers, (0..16).collect::<Vec<_>>());
    let taken: Vec<_> = answers.iter().filter(|answer| answer.outcome == "taken").collect();
    assert_eq!(taken.len(), 34);
    let first_end = answers.iter().filter_map(|answer| answer.until).min();
    assert!(taken.iter().all(|answer| answer.free_from == first_end), "{taken:?}");
    let log = cluster.log();
    assert_eq!(log.matches("to a server without a name").count(), 16, "{log}");
}

/// Leases are so short that identities change hands all the time, interleaved with renewals, requests and quarantines.
/// Ranges granted for one identity never overlap.
#[test]
fn ranges_of_one_identity_do_not_overlap() {
    let cluster = start(many());
    let configure = "SELECT snowflake_registry.configure(lease => '1 second', renew_every => '100 ms')";
    cluster.connect().run(configure);
    let is_over = AtomicBool::new(false);
    // Identity, lease, range.
    let ranges: Mutex<Vec<(i32, String, i64, i64)>> = Mutex::new(Vec::new());
    let answered = |asked| unless_locked(asked).unwrap_or_default();
    thread::scope(|scope| {
        for number in 0..12 {
            let (cluster, ranges, answered, is_over) = (&cluster, &ranges, &answered, &is_over);
            scope.spawn(move || {
                let is_over = || is_over.load(Ordering::Relaxed);
                let mut client = cluster.connect();
                while !is_over() {
                    let mut member = Member::new();
                    let mut answer = answered(member.acquire(&mut client, 4));
                    let mut renewals = 0;
                    while answer.outcome == "granted" && !is_over() {
                        let range = (answer.worker, member.lease_id.clone(), answer.from, answer.until);
                        ranges.lock().unwrap().push((
                            range.0.unwrap(),
                            range.1,
                            range.2.unwrap(),
                            range.3.unwrap(),
                        ));
                        renewals += 1;
                        if renewals > 5 {
                            break;
                        }
                        // Some renew too late.
                        thread::sleep(Duration::from_millis(if renewals % 3 == number % 3 {
                            1_100
                        } else {
                            50
                        }));
                        answer = answered(member.renew(&mut client));
                    }
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        let _stop = StopAtEnd(&is_over);
        let mut client = cluster.connect();
        // On a busy machine it takes long until all were granted often.
        eventually("grants of each worker ID", || {
            for order in ["revoke_lease(0)", "quarantine()", "end_quarantine()", "revoke_lease(1)"] {
                let _ = client.batch_execute(&format!("SELECT snowflake_registry.{order}"));
                thread::sleep(Duration::from_millis(130));
            }
            let mut leases: Vec<_> = ranges
                .lock()
                .unwrap()
                .iter()
                .map(|(worker, lease_id, ..)| (*worker, lease_id.clone()))
                .collect();
            leases.sort_unstable();
            leases.dedup();
            let grants = |worker| leases.iter().filter(|(of, _)| *of == worker).count();
            (0..4).all(|worker| grants(worker) > 3)
        });
    });
    let ranges = ranges.into_inner().unwrap();
    let mut leases = std::collections::HashMap::new();
    for (worker, lease_id, from, until) in &ranges {
        let range = leases.entry((worker, lease_id)).or_insert((*from, *until));
        assert_eq!(range.0, *from, "the range of a lease began anew");
        assert!(*until >= range.1, "a granted end went back");
        range.1 = *until;
    }
    for worker in 0..4 {
        let mut of_worker: Vec<_> =
            leases.iter().filter(|((of, _), _)| **of == worker).map(|(_, range)| *range).collect();
        of_worker.sort_unstable();
        println!("worker ID {worker} was given {} times", of_worker.len());
        for pair in of_worker.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "worker ID {worker}: {pair:?} overlap");
        }
    }
}

/// A copy renews beside the original. The second of the two is told so, even if it asked before the first had
/// committed.
#[test]
fn of_two_that_renew_one_lease_one_is_a_twin() {
    let cluster = start(Cluster::builder());
    let (mut a, mut b) = (cluster.connect(), cluster.connect());
    let mut original = granted(&mut a);
    let mut copy = original.clone();
    a.run("BEGIN");
    assert_eq!(original.renew(&mut a).unwrap().outcome, "granted");
    keep_open(&mut a);
    thread::scope(|scope| {
        let second = scope.spawn(|| eventually("an answer", || unless_locked(copy.renew(&mut b))).outcome);
        eventually("the copy to wait", || {
            let waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            single::<bool>(&mut cluster.connect(), waits)
        });
        a.run("COMMIT");
        assert_eq!(second.join().unwrap(), "twin");
    });
    assert_eq!(original.renew(&mut a).unwrap().outcome, "granted");
    assert_eq!(state(&mut a), "ready");
    assert!(cluster.log().contains("two servers hold worker ID 0 (datacenter 0)"), "{}", cluster.log());
}

/// A transaction that is left open delays new grants, but not forever.
#[test]
fn an_open_transaction_is_waited_for_in_vain() {
    let cluster = start(Cluster::builder());
    let (mut a, mut b) = (cluster.connect(), cluster.connect());
    let mut member = granted(&mut a);
    a.run("BEGIN");
    // A server uses a reply only after the commit.
    member.clone().renew(&mut a).unwrap();
    let limit = "SHOW idle_in_transaction_session_timeout";
    assert_eq!(single::<String>(&mut a, limit), "5s");
    keep_open(&mut a);
    let error = Member::new().acquire(&mut b, 1024).unwrap_err();
    assert_eq!(sqlstate(&error), "55P03", "{}", text(&error));
    let (code, said) = failure(&mut b, "SELECT snowflake_registry.revoke_lease(0)");
    assert_eq!(code, "55P03", "{said}");
    // The server ends the idle transaction after the limit, which is shorter here.
    a.run(&format!("{} = '100ms'", limit.replace("SHOW", "SET LOCAL")));
    let answer = eventually("an identity", || Member::new().acquire(&mut b, 1024).ok());
    assert_eq!(answer.worker, Some(1));
    assert!(a.batch_execute("COMMIT").is_err());
    assert_eq!(member.renew(&mut b).unwrap().outcome, "granted");
    b.run("SELECT snowflake_registry.revoke_lease(0)");
    assert_eq!(member.renew(&mut b).unwrap().outcome, "unknown");
}

/// Renewals do not queue for each other's commits, and do not delay servers that request an identity.
#[test]
fn renewals_with_slow_commits() {
    const COMMIT: Duration = Duration::from_millis(300);
    const MEMBERS: usize = 20;
    const RENEWALS: u32 = 6;
    let cluster = start(many());
    let mut client = cluster.connect();
    let members: Vec<_> = (0..MEMBERS).map(|_| granted(&mut client)).collect();
    let delay = format!("{}ms", COMMIT.as_millis());
    let _standby = cluster.start_standby(&[("recovery_min_apply_delay", &delay)]);
    cluster.configure(&[("synchronous_commit", "remote_apply")]);
    cluster.replicate_synchronously();
    let count = AtomicUsize::new(0);
    let renew = |member: &Member| {
        let (mut member, cluster, count) = (member.clone(), &cluster, &count);
        move |stop: &AtomicBool| {
            let mut client = cluster.connect();
            let (began, mut took) = (Instant::now(), Duration::ZERO);
            for number in 1.. {
                let answer = member.renew(&mut client).unwrap_or_else(|error| panic!("{}", text(&error)));
                assert_eq!(answer.outcome, "granted", "{answer:?}");
                count.fetch_add(1, Ordering::Relaxed);
                match number.cmp(&RENEWALS) {
                    Less => {}
                    Equal => took = began.elapsed(),
                    Greater if stop.load(Ordering::Relaxed) => break,
                    Greater => {}
                }
            }
            took
        }
    };
    let (took, ()) = beside(members.iter().map(renew), || {
        eventually("renewals", || count.load(Ordering::Relaxed) > 2 * MEMBERS);
        // A lock that is held during a commit would make one of these fail.
        (0..5).for_each(|_| drop(granted(&mut client)));
    });
    let took = took.into_iter().max().unwrap();
    assert!(took >= RENEWALS * COMMIT, "commits were not slow: {took:?}");
    assert_within(MEMBERS as u32 * RENEWALS / 2 * COMMIT, took, "renewals that do not queue");
    assert_eq!(state(&mut client), "ready");
}

/// Nothing was lost: a server with a lease continues, and an unrecognized server waits for two and a half renewal
/// intervals.
#[test]
fn the_server_of_the_registry_is_started_again() {
    let cluster = start(Cluster::builder().clock());
    let mut client = cluster.connect();
    client.run("SELECT snowflake_registry.configure(lease => '3 hours', renew_every => '1 minute')");
    let mut minutes = 0.0;
    let mut holder = granted(&mut client);
    let restart = |mode| {
        cluster.restart(mode);
        cluster.connect()
    };
    for mode in ["fast", "immediate"] {
        let mut client = restart(mode);
        // A lock that prevents signing does not delay renewals, and nothing new is granted meanwhile.
        let mut other = cluster.connect();
        other.run("BEGIN; LOCK TABLE snowflake_registry.settings IN ROW SHARE MODE");
        assert_eq!(holder.renew(&mut client).unwrap().outcome, "granted");
        assert_eq!(state(&mut client), "ready");
        other.run("ROLLBACK");
        assert_eq!(holder.renew(&mut client).unwrap().outcome, "granted");
        assert_eq!(state(&mut client), "quarantine");
        let mut stranger = Member::new();
        let answer = stranger.acquire(&mut client, 1024).unwrap();
        assert_eq!(answer.outcome, "taken", "{answer:?}");
        let seconds = "SELECT extract(epoch FROM quarantine_until - clock_timestamp())::float8
                       FROM snowflake_registry.status";
        let left: f64 = single(&mut client, seconds);
        assert!((60.0..=150.0).contains(&left), "{left} s");
        eventually("an identity", || {
            minutes += 1.0;
            cluster.set_clock(minutes * 60.0);
            stranger.acquire(&mut client, 1024).unwrap().outcome == "granted"
        });
        assert_eq!(state(&mut client), "ready");
        // The reply may have been lost.
        let mut client = restart(mode);
        assert_eq!(stranger.acquire(&mut client, 1024).unwrap().outcome, "granted");
        assert_eq!(state(&mut client), "quarantine");
        client.run("SELECT snowflake_registry.end_quarantine()");
        granted(&mut client);
    }
    // A crash of a backend cannot set the disk back.
    cluster.crash_a_backend();
    let ask = || Member::new().acquire(&mut cluster.try_connect("postgres").ok()?, 1024).ok();
    let answer = eventually("the server to recover", ask);
    assert_eq!(answer.outcome, "granted", "{answer:?}");
    let mut client = cluster.connect();
    // While renewals are recent, the setting synchronous is trusted.
    client.run("SELECT snowflake_registry.configure(synchronous => true)");
    drop(client);
    let mut client = restart("fast");
    granted(&mut client);
    let timestamps = "UPDATE snowflake_registry.lease SET renewed_at = renewed_at - interval '4 hours';
                      SELECT snowflake_registry.configure()";
    client.run(timestamps);
    drop(client);
    let mut client = restart("fast");
    assert_eq!(Member::new().acquire(&mut client, 1024).unwrap().outcome, "taken");
}

/// If the disk was set back, a lease that has ended may belong to another server by now. Its holder is served after
/// those with live leases.
#[test]
fn a_lease_has_ended_when_the_server_of_the_registry_is_started() {
    let cluster = start(Cluster::builder().clock());
    let mut client = cluster.connect();
    client.run("SELECT snowflake_registry.configure(lease => '3 minutes', renew_every => '1 minute')");
    let mut member = granted(&mut client);
    member.renew(&mut client).unwrap();
    drop(client);
    cluster.stop_server("fast");
    let mut minutes = 4.0;
    cluster.set_clock(minutes * 60.0);
    cluster.start_server();
    let mut client = cluster.connect();
    // This holds even while nothing can be signed.
    let mut other = cluster.connect();
    other.run("BEGIN; LOCK TABLE snowflake_registry.settings IN ROW SHARE MODE");
    assert_eq!(member.renew(&mut client).unwrap().outcome, "quarantine");
    other.run("ROLLBACK");
    let answer = member.renew(&mut client).unwrap();
    assert_eq!(answer.outcome, "quarantine");
    assert!(answer.detail.unwrap().contains("was started at"));
    // Other holders since then are not known. The server gets another worker ID, or the same one again.
    eventually("the end of the quarantine", || {
        minutes += 1.0;
        cluster.set_clock(minutes * 60.0);
        member.renew(&mut client).unwrap().outcome == "unknown"
    });
    assert_eq!(Member::new().acquire(&mut client, 1).unwrap().outcome, "granted");
}
