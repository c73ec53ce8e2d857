//! The registry of a fleet: many servers at once, and what becomes of it when it is dumped, restored, copied
//! or promoted. Topic `registry` of pg_regress has what one session can show.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::{
    Cluster, Settings, crash_a_backend, failure, poll, single, successful, text,
};

/// Enough connections for all servers of a test.
const MANY: Settings = &[("max_connections", "90")];

/// What tells servers apart: lease IDs and nonces are made of it.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// A server with a registry, but without a fleet.
fn install(settings: Settings) -> Cluster {
    let cluster = Cluster::stopped(settings);
    cluster.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_id_registry").unwrap();
    cluster
}

fn start(settings: Settings) -> Cluster {
    let cluster = install(settings);
    cluster.connect().batch_execute("SELECT snowflake_registry.start_fleet()").unwrap();
    cluster
}

#[derive(Clone, Debug, Default)]
struct Answer {
    outcome: String,
    worker: Option<i32>,
    from: Option<i64>,
    until: Option<i64>,
    registry_id: String,
    serial: i64,
    free_from: Option<i64>,
    detail: Option<String>,
}

/// What a server of the fleet knows.
#[derive(Clone)]
struct Member {
    lease_id: String,
    nonce: String,
    registry_id: Option<String>,
    serial: i64,
}

fn uuid() -> String {
    format!("00000000-0000-4000-8000-{:012}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Member {
    fn new() -> Member {
        Member { lease_id: uuid(), nonce: uuid(), registry_id: None, serial: 0 }
    }

    fn acquire(&mut self, client: &mut Client, worker_limit: i32) -> Result<Answer, postgres::Error> {
        let query = format!(
            "SELECT * FROM snowflake_registry.acquire({}, {}, {CLOCK}, 0, '{}', '{}', '{{}}', 0, NULL, \
             {worker_limit}, NULL)",
            self.quoted_registry_id(),
            self.serial,
            self.lease_id,
            self.nonce,
        );
        self.ask(client, &query)
    }

    /// Renews, and goes on with the next nonce if that was granted.
    fn renew(&mut self, client: &mut Client) -> Result<Answer, postgres::Error> {
        self.renew_and_say(client, "{}")
    }

    /// The same, and tells facts, such as the end of the lease in hand.
    fn renew_and_say(&mut self, client: &mut Client, facts: &str) -> Result<Answer, postgres::Error> {
        let next = uuid();
        let query = format!(
            "SELECT * FROM snowflake_registry.renew({}, {}, {CLOCK}, 0, '{}', '{}', '{next}', '{facts}')",
            self.quoted_registry_id(),
            self.serial,
            self.lease_id,
            self.nonce,
        );
        let answer = self.ask(client, &query)?;
        if answer.outcome == "granted" {
            self.nonce = next;
        }
        Ok(answer)
    }

    fn ask(&mut self, client: &mut Client, query: &str) -> Result<Answer, postgres::Error> {
        let columns =
            "outcome, worker_id, granted_from, granted_until, registry_id::text, serial, free_from, detail";
        let row = client.query_one(&query.replacen('*', columns, 1), &[])?;
        let answer = Answer {
            outcome: row.get(0),
            worker: row.get(1),
            from: row.get(2),
            until: row.get(3),
            registry_id: row.get(4),
            serial: row.get(5),
            free_from: row.get(6),
            detail: row.get(7),
        };
        self.registry_id = Some(answer.registry_id.clone());
        self.serial = self.serial.max(answer.serial);
        Ok(answer)
    }

    fn quoted_registry_id(&self) -> String {
        self.registry_id.as_ref().map_or_else(|| "NULL".into(), |id| format!("'{id}'"))
    }
}

const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

fn granted(client: &mut Client) -> Member {
    let mut member = Member::new();
    let answer = member.acquire(client, 1024).unwrap();
    assert_eq!(answer.outcome, "granted", "{answer:?}");
    member
}

fn state(client: &mut Client) -> String {
    single(client, "SELECT state FROM snowflake_registry.status")
}

fn reason(client: &mut Client) -> String {
    single(client, "SELECT coalesce(quarantine_reason, '') FROM snowflake_registry.status")
}

fn sqlstate(error: &postgres::Error) -> &str {
    error.code().map_or("", |code| code.code())
}

/// One of PostgreSQL's client programs, connected to a server.
fn on(cluster: &Cluster, name: &str) -> Command {
    let mut command = cluster.program(name);
    command.arg("--host").arg(cluster.host()).arg("--username=test");
    command
}

#[test]
fn fifty_servers_ask_for_sixteen_identities() {
    let cluster = start(MANY);
    let barrier = Barrier::new(50);
    let answers = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                let mut client = cluster.connect();
                barrier.wait();
                let answer =
                    Member::new().acquire(&mut client, 16).unwrap_or_else(|e| panic!("{}", text(&e)));
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
    assert_eq!(log.matches("goes to a server without a name").count(), 16, "{log}");
}

/// Leases are so short that identities change hands all the time; renewals, orders and quarantines cross
/// them. What was granted of one identity never overlaps.
#[test]
fn ranges_of_one_identity_do_not_overlap() {
    let cluster = start(MANY);
    let configure = "SELECT snowflake_registry.configure(lease => '1 second', renew_every => '100 ms')";
    cluster.connect().batch_execute(configure).unwrap();
    let ends = Instant::now() + Duration::from_secs(15);
    // Identity, lease, range.
    let ranges: Mutex<Vec<(i32, String, i64, i64)>> = Mutex::new(Vec::new());
    // Locks may be waited for in vain.
    let answered = |asked: Result<Answer, postgres::Error>| {
        asked.unwrap_or_else(|error| {
            assert_eq!(sqlstate(&error), "55P03", "{}", text(&error));
            Answer::default()
        })
    };
    thread::scope(|scope| {
        for number in 0..12 {
            let (cluster, ranges, answered) = (&cluster, &ranges, &answered);
            scope.spawn(move || {
                let mut client = cluster.connect();
                while Instant::now() < ends {
                    let mut member = Member::new();
                    let mut answer = answered(member.acquire(&mut client, 4));
                    let mut renewals = 0;
                    while answer.outcome == "granted" && Instant::now() < ends {
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
                        // Some come too late.
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
        scope.spawn(|| {
            let mut client = cluster.connect();
            while Instant::now() < ends {
                for order in ["take_away(0)", "quarantine()", "end_quarantine()", "take_away(1)"] {
                    let _ = client.batch_execute(&format!("SELECT snowflake_registry.{order}"));
                    thread::sleep(Duration::from_millis(130));
                }
            }
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
        assert!(of_worker.len() > 2);
        for pair in of_worker.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "worker ID {worker}: {pair:?} overlap");
        }
    }
}

/// A copy renews beside the original. Whichever comes second is told so, though it asked before the first one
/// had committed.
#[test]
fn of_two_that_renew_one_lease_one_is_a_twin() {
    let cluster = start(&[]);
    let (mut a, mut b) = (cluster.connect(), cluster.connect());
    let mut original = granted(&mut a);
    let mut copy = original.clone();
    a.batch_execute("BEGIN").unwrap();
    assert_eq!(original.renew(&mut a).unwrap().outcome, "granted");
    thread::scope(|scope| {
        let second = scope.spawn(|| copy.renew(&mut b).unwrap().outcome);
        poll("the copy to wait", || {
            let waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            single::<bool>(&mut cluster.connect(), waits).then_some(())
        });
        a.batch_execute("COMMIT").unwrap();
        assert_eq!(second.join().unwrap(), "twin");
    });
    assert_eq!(original.renew(&mut a).unwrap().outcome, "granted");
    assert_eq!(state(&mut a), "ready");
    assert!(cluster.log().contains("two servers hold worker ID 0 (datacenter 0)"), "{}", cluster.log());
}

/// A transaction that is left open holds up who asks for an identity, and not for ever.
#[test]
fn an_open_transaction_is_waited_for_in_vain() {
    let cluster = start(&[]);
    let (mut a, mut b) = (cluster.connect(), cluster.connect());
    let mut member = granted(&mut a);
    a.batch_execute("BEGIN").unwrap();
    // The answer is not believed before the commit.
    member.clone().renew(&mut a).unwrap();
    let error = Member::new().acquire(&mut b, 1024).unwrap_err();
    assert_eq!(sqlstate(&error), "55P03", "{}", text(&error));
    let (code, said) = failure(&mut b, "SELECT snowflake_registry.take_away(0)");
    assert_eq!(code, "55P03", "{said}");
    // The server ends the transaction after a while.
    let answer = poll("an identity", || Member::new().acquire(&mut b, 1024).ok());
    assert_eq!(answer.worker, Some(1));
    assert!(a.batch_execute("COMMIT").is_err());
    assert_eq!(member.renew(&mut b).unwrap().outcome, "granted");
    b.batch_execute("SELECT snowflake_registry.take_away(0)").unwrap();
    assert_eq!(member.renew(&mut b).unwrap().outcome, "unknown");
}

/// Renewals do not queue behind one another's commits, and do not keep those who ask for an identity waiting.
#[test]
fn a_thousand_renewals_with_slow_commits() {
    const COMMIT: Duration = Duration::from_millis(300);
    let cluster = start(MANY);
    let mut client = cluster.connect();
    let members: Vec<_> = (0..40).map(|_| granted(&mut client)).collect();
    let delay = format!("{}ms", COMMIT.as_millis());
    let _standby = cluster.start_standby(&[("recovery_min_apply_delay", &delay)]);
    cluster.configure(&[("synchronous_commit", "remote_apply")]);
    cluster.replicate_synchronously();
    let done = AtomicUsize::new(0);
    let started = Instant::now();
    let slowest_grant = thread::scope(|scope| {
        for member in &members {
            scope.spawn(|| {
                let (mut member, mut client) = (member.clone(), cluster.connect());
                for _ in 0..25 {
                    let answer = member.renew(&mut client).unwrap_or_else(|error| panic!("{}", text(&error)));
                    assert_eq!(answer.outcome, "granted", "{answer:?}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        poll("renewals", || (done.load(Ordering::Relaxed) > 40).then_some(()));
        let mut slowest = Duration::ZERO;
        for _ in 0..5 {
            let asked = Instant::now();
            granted(&mut client);
            slowest = slowest.max(asked.elapsed());
            thread::sleep(Duration::from_millis(200));
        }
        assert!(done.load(Ordering::Relaxed) < 1_000, "the renewals were over before");
        slowest
    });
    let took = started.elapsed();
    println!("1,000 renewals took {took:?}; a new server waited {slowest_grant:?} at most");
    assert!(took >= 25 * COMMIT, "commits were not slow");
    assert!(took < 100 * COMMIT, "renewals queue: {took:?}");
    assert_eq!(state(&mut client), "ready");
}

#[test]
fn a_standby_is_promoted() {
    let primary = start(&[]);
    let mut client = primary.connect();
    let (mut early, mut late) = (granted(&mut client), granted(&mut client));
    let standby = primary.start_standby(&[]);
    let error = early.renew(&mut standby.connect()).unwrap_err();
    assert_eq!(sqlstate(&error), "25006");
    assert!(text(&error).contains("this server is a standby of the registry"), "{}", text(&error));
    standby.stop_receiving();
    // Commits that the standby will not have: a renewal and a grant.
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    let mut lost = granted(&mut client);
    primary.stop_server("immediate");
    standby.promote();

    let mut client = standby.connect();
    // The nonce of the lost renewal is not one that the registry knows. This is no twin.
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "quarantine");
    assert!(reason(&mut client).contains("timeline 2, before 1"), "{}", reason(&mut client));
    assert_eq!(late.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(lost.renew(&mut client).unwrap().outcome, "unknown");
    // Its range goes on: nobody may have its identity now.
    let answer = Member::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(answer.outcome, "taken");
    assert!(answer.detail.unwrap().contains("quarantine until"));
    let minutes =
        "SELECT extract(epoch FROM quarantine_until - now()) / 60 > 11 FROM snowflake_registry.status";
    assert!(single::<bool>(&mut client, minutes));
    assert!(standby.log().contains("snowflake_id_registry: quarantine"), "{}", standby.log());
    client.batch_execute("SELECT snowflake_registry.end_quarantine()").unwrap();
    granted(&mut client);
    // It is not found out again, nor after a crash.
    drop(client);
    standby.stop_server("immediate");
    standby.start_server().unwrap();
    let mut client = standby.connect();
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    assert!(reason(&mut client).contains("was started at"), "{}", reason(&mut client));
}

#[test]
fn a_synchronous_standby_is_promoted() {
    let primary = start(&[]);
    let mut client = primary.connect();
    client.batch_execute("SELECT snowflake_registry.configure(synchronous => true)").unwrap();
    let mut member = granted(&mut client);
    let standby = primary.start_standby(&[]);
    primary.replicate_synchronously();
    let waits = "SELECT waits_for_standbys FROM snowflake_registry.fleet LIMIT 1";
    assert!(single::<bool>(&mut client, waits));
    member.renew(&mut client).unwrap();
    primary.stop_server("immediate");
    standby.promote();
    let mut client = standby.connect();
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "ready");
    granted(&mut client);
    let timeline = "SELECT timeline FROM snowflake_registry.settings";
    assert_eq!(single::<i32>(&mut client, timeline), 2);

    // The administrator is wrong: this one has not had the last commits. The first server that comes tells.
    let other = standby.start_standby(&[]);
    other.stop_receiving();
    member.renew(&mut client).unwrap();
    standby.stop_server("immediate");
    other.promote();
    let mut client = other.connect();
    assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "quarantine");
    assert!(reason(&mut client).contains("a server "), "{}", reason(&mut client));
}

/// The disk is set back to an earlier state: same server, same timeline, same transactions.
#[test]
fn a_registry_is_set_back() {
    let cluster = start(&[]);
    let mut client = cluster.connect();
    let (mut one, mut other) = (granted(&mut client), granted(&mut client));
    other.renew(&mut client).unwrap();
    drop(client);
    cluster.stop_server("fast");
    let copy = cluster.duplicate();
    cluster.start_server().unwrap();
    // Nothing but a renewal: no identity changes hands.
    one.renew(&mut cluster.connect()).unwrap();
    cluster.stop_server("fast");

    copy.start_server().unwrap();
    let mut client = copy.connect();
    assert_eq!(other.renew(&mut client).unwrap().outcome, "granted");
    assert!(reason(&mut client).contains("was started at"), "{}", reason(&mut client));
    assert_eq!(one.renew(&mut client).unwrap().outcome, "granted", "a sound server is taken for a twin");
    assert_eq!(one.renew(&mut client).unwrap().outcome, "granted");
    assert!(reason(&mut client).contains("a server has renewed its lease"), "{}", reason(&mut client));
}

/// A registry that has granted a lease and is ready for more, and a copy of its directory as it was before that.
fn start_with_copy() -> (Cluster, Cluster, Member) {
    let cluster = start(&[]);
    let early = granted(&mut cluster.connect());
    cluster.stop_server("fast");
    let copy = cluster.duplicate();
    cluster.start_server().unwrap();
    cluster.connect().batch_execute("SELECT snowflake_registry.end_quarantine()").unwrap();
    (cluster, copy, early)
}

/// The same, and a stranger comes before those that know better. What it was granted would be theirs, and would
/// hide from then on that anything is lost.
#[test]
fn a_stranger_comes_first_to_a_registry_that_is_set_back() {
    let (cluster, copy, mut early) = start_with_copy();
    let mut client = cluster.connect();
    let mut lost = granted(&mut client);
    early.renew(&mut client).unwrap();
    cluster.stop_server("fast");

    copy.start_server().unwrap();
    let mut client = copy.connect();
    let answer = Member::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(answer.outcome, "taken", "{answer:?}");
    assert!(answer.detail.unwrap().contains("was started at"));
    assert_eq!(lost.renew(&mut client).unwrap().outcome, "unknown");
    assert!(reason(&mut client).contains("a server knows of"), "{}", reason(&mut client));
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(Member::new().acquire(&mut client, 1024).unwrap().outcome, "taken");
}

/// The dump is older than the order that made leases longer. Nobody gets anything before those have ended.
#[test]
fn leases_were_longer_than_a_restored_registry_knows() {
    let cluster = start(&[]);
    let mut client = cluster.connect();
    let (mut early, mut other) = (granted(&mut client), granted(&mut client));
    let dump = cluster.host().join("dump");
    let format = ["--format=custom", "--dbname=postgres", "--file"];
    successful(on(&cluster, "pg_dump").args(format).arg(&dump));
    let configure = "SELECT snowflake_registry.configure(lease => '24 hours')";
    client.batch_execute(configure).unwrap();
    let longest = early.renew(&mut client).unwrap().until.unwrap();
    other.renew(&mut client).unwrap();
    let mut lost = Member::new();
    let lost_until = lost.acquire(&mut client, 1024).unwrap().until.unwrap();

    client.batch_execute("CREATE DATABASE restored").unwrap();
    successful(on(&cluster, "pg_restore").args(["--exit-on-error", "--dbname=restored"]).arg(&dump));
    let mut client = cluster.connect_to("restored");
    let until =
        "SELECT (extract(epoch FROM quarantine_until) * 1000000)::bigint FROM snowflake_registry.status";
    let facts = |until| format!("{{\"until\": {until}}}");
    let answer = other.renew(&mut client).unwrap();
    assert_eq!(answer.outcome, "granted");
    assert!(single::<i64>(&mut client, until) < longest, "the dump knows of the order");
    // Each one shows what it has.
    let answer = early.renew_and_say(&mut client, &facts(longest)).unwrap();
    assert_eq!((answer.outcome.as_str(), answer.until), ("granted", Some(longest)));
    assert_eq!(single::<i64>(&mut client, until), longest + 120_000_000);
    assert_eq!(lost.renew_and_say(&mut client, &facts(lost_until)).unwrap().outcome, "unknown");
    assert_eq!(single::<i64>(&mut client, until), lost_until + 120_000_000);
    assert!(reason(&mut client).contains("a server has a lease up to"), "{}", reason(&mut client));
    // What is known is no news; what cannot be is made up.
    for said in [longest, longest + 200_000_000_000, -1] {
        assert_eq!(early.renew_and_say(&mut client, &facts(said)).unwrap().outcome, "granted");
        assert_eq!(single::<i64>(&mut client, until), lost_until + 120_000_000, "{said}");
    }
}

/// A stranger's grant has raised the count to what those have seen that know better.
#[test]
fn the_end_of_a_lease_shows_a_lost_grant() {
    let (cluster, copy, mut early) = start_with_copy();
    let mut client = cluster.connect();
    let mut lost = Member::new();
    let until = lost.acquire(&mut client, 1024).unwrap().until.unwrap();
    cluster.stop_server("fast");

    copy.start_server().unwrap();
    let mut client = copy.connect();
    // The administrator says that nothing was lost.
    client.batch_execute("SELECT snowflake_registry.end_quarantine()").unwrap();
    granted(&mut client);
    let facts = |until| format!("{{\"until\": {until}}}");
    assert_eq!(lost.renew(&mut client).unwrap().outcome, "unknown");
    assert_eq!(state(&mut client), "ready", "the count shows it");
    assert_eq!(lost.renew_and_say(&mut client, &facts(until)).unwrap().outcome, "unknown");
    assert_eq!(state(&mut client), "quarantine");
    // What is taken away is no sign of a loss.
    client.batch_execute("SELECT snowflake_registry.end_quarantine()").unwrap();
    let mut taken = Member::new();
    let until = taken.acquire(&mut client, 1024).unwrap().until.unwrap();
    client.batch_execute("SELECT snowflake_registry.take_away(2)").unwrap();
    assert_eq!(taken.renew_and_say(&mut client, &facts(until)).unwrap().outcome, "unknown");
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    assert_eq!(state(&mut client), "ready");
}

/// Nothing was lost: who holds a lease notices nothing, and strangers wait for two renewals.
#[test]
fn the_server_of_the_registry_is_started_again() {
    let cluster = start(&[]);
    let mut client = cluster.connect();
    let configure = "SELECT snowflake_registry.configure(lease => '3 minutes', renew_every => '1 second')";
    client.batch_execute(configure).unwrap();
    let mut holder = granted(&mut client);
    let restart = |mode| {
        cluster.stop_server(mode);
        cluster.start_server().unwrap();
        cluster.connect()
    };
    for mode in ["fast", "immediate"] {
        let mut client = restart(mode);
        // Whoever is in the way of signing keeps nobody waiting, and nothing is given out for all that.
        let mut other = cluster.connect();
        other.batch_execute("BEGIN; LOCK TABLE snowflake_registry.settings IN ROW SHARE MODE").unwrap();
        assert_eq!(holder.renew(&mut client).unwrap().outcome, "granted");
        assert_eq!(state(&mut client), "ready");
        other.batch_execute("ROLLBACK").unwrap();
        assert_eq!(holder.renew(&mut client).unwrap().outcome, "granted");
        assert_eq!(state(&mut client), "quarantine");
        let mut stranger = Member::new();
        let answer = stranger.acquire(&mut client, 1024).unwrap();
        assert_eq!(answer.outcome, "taken", "{answer:?}");
        let seconds = "SELECT extract(epoch FROM quarantine_until - clock_timestamp())::float8
                       FROM snowflake_registry.status";
        let left: f64 = single(&mut client, seconds);
        assert!((0.0..=2.0).contains(&left), "{left} s");
        poll("an identity", || {
            let answer = stranger.acquire(&mut client, 1024).unwrap();
            (answer.outcome == "granted").then_some(())
        });
        assert_eq!(state(&mut client), "ready");
        // The answer may have been lost.
        let mut client = restart(mode);
        assert_eq!(stranger.acquire(&mut client, 1024).unwrap().outcome, "granted");
        assert_eq!(state(&mut client), "quarantine");
        client.batch_execute("SELECT snowflake_registry.end_quarantine()").unwrap();
        granted(&mut client);
    }
    // A crash of a backend cannot set a disk back.
    crash_a_backend(&cluster);
    let ask = || Member::new().acquire(&mut cluster.try_connect("postgres").ok()?, 1024).ok();
    let answer = poll("the server to recover", ask);
    assert_eq!(answer.outcome, "granted", "{answer:?}");
    let mut client = cluster.connect();
    // As long as renewals are fresh, the administrator's word is believed.
    client
        .batch_execute("SELECT snowflake_registry.configure(synchronous => true, renew_every => '1 minute')")
        .unwrap();
    drop(client);
    let mut client = restart("fast");
    granted(&mut client);
    let timestamps = "SET session_replication_role = replica;
                      UPDATE snowflake_registry.lease SET renewed_at = renewed_at - interval '4 minutes';
                      SELECT snowflake_registry.configure()";
    client.batch_execute(timestamps).unwrap();
    drop(client);
    let mut client = restart("fast");
    assert_eq!(Member::new().acquire(&mut client, 1024).unwrap().outcome, "taken");
}

/// A lease that has ended may be somebody else's, if the disk was set back: it comes after those that are live.
#[test]
fn a_lease_has_ended_when_the_server_of_the_registry_is_started() {
    let cluster = start(&[]);
    let mut client = cluster.connect();
    let configure = "SELECT snowflake_registry.configure(lease => '2 seconds', renew_every => '1 second')";
    client.batch_execute(configure).unwrap();
    let mut member = granted(&mut client);
    drop(client);
    cluster.stop_server("fast");
    thread::sleep(Duration::from_secs(2));
    cluster.start_server().unwrap();
    let mut client = cluster.connect();
    // Also as long as nobody could sign.
    let mut other = cluster.connect();
    other.batch_execute("BEGIN; LOCK TABLE snowflake_registry.settings IN ROW SHARE MODE").unwrap();
    assert_eq!(member.renew(&mut client).unwrap().outcome, "quarantine");
    other.batch_execute("ROLLBACK").unwrap();
    let answer = member.renew(&mut client).unwrap();
    assert_eq!(answer.outcome, "quarantine");
    assert!(answer.detail.unwrap().contains("was started at"));
    poll("the lease", || (member.renew(&mut client).unwrap().outcome == "granted").then_some(()));
}

/// The database is put back from a copy that CREATE DATABASE has made: same server, same timeline, and the rows
/// are those of the transactions that wrote them.
#[test]
fn a_copy_of_the_database_takes_its_place() {
    let cluster = Cluster::stopped(&[]);
    cluster.start_server().unwrap();
    let mut admin = cluster.connect();
    admin.batch_execute("CREATE DATABASE registry").unwrap();
    let mut client = cluster.connect_to("registry");
    client
        .batch_execute(
            "CREATE EXTENSION snowflake_id_registry;
             SELECT snowflake_registry.start_fleet();
             SELECT snowflake_registry.create_segment('shared');
             UPDATE snowflake_registry.segment SET has_left = true",
        )
        .unwrap();
    let mut early = granted(&mut client);
    drop(client);
    let copy = |admin: &mut Client, from: &str, to: &str| {
        // Backends that have ended may be connected for a moment.
        poll("a copy", || admin.batch_execute(&format!("CREATE DATABASE {to} TEMPLATE {from}")).ok());
    };
    copy(&mut admin, "registry", "kept");
    let mut client = cluster.connect_to("registry");
    let lost = granted(&mut client);
    drop(client);
    poll("the database to be dropped", || admin.batch_execute("DROP DATABASE registry").ok());
    poll("the copy to be renamed", || admin.batch_execute("ALTER DATABASE kept RENAME TO registry").ok());

    let mut client = cluster.connect_to("registry");
    let answer = Member::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(answer.outcome, "taken", "{answer:?}, and {} may have the same", lost.lease_id);
    assert!(reason(&mut client).contains("another database now"), "{}", reason(&mut client));
    let segment = "SELECT state FROM snowflake_registry.segments";
    assert_eq!(single::<String>(&mut client, segment), "closed");
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    client.batch_execute("SELECT snowflake_registry.end_quarantine()").unwrap();
    granted(&mut client);
    // Another name alone changes nothing.
    drop(client);
    poll("another name", || admin.batch_execute("ALTER DATABASE registry RENAME TO renamed").ok());
    granted(&mut cluster.connect_to("renamed"));
}

#[test]
fn a_registry_is_dumped_and_restored() {
    let old = start(&[]);
    let mut client = old.connect();
    // The owner is no superuser, and has granted rights.
    client
        .batch_execute(
            "DROP EXTENSION snowflake_id_registry CASCADE; DROP SCHEMA snowflake_registry;
             CREATE ROLE keeper_of_ids LOGIN; CREATE ROLE fleet LOGIN;
             GRANT CREATE ON DATABASE postgres TO keeper_of_ids;
             SET ROLE keeper_of_ids;
             CREATE EXTENSION snowflake_id_registry;
             GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
             GRANT EXECUTE ON FUNCTION snowflake_registry.renew TO fleet;
             SELECT snowflake_registry.start_fleet();
             RESET ROLE",
        )
        .unwrap_or_else(|error| panic!("{}", text(&error)));
    let mut member = granted(&mut client);
    let dump = old.host().join("dump");
    let format = ["--format=custom", "--dbname=postgres", "--file"];
    successful(on(&old, "pg_dump").args(format).arg(&dump));
    member.renew(&mut client).unwrap();

    let restore = |cluster: &Cluster, database: &str| {
        let mut client = cluster.connect();
        client.batch_execute(&format!("CREATE DATABASE {database}")).unwrap();
        let mut pg_restore = on(cluster, "pg_restore");
        successful(pg_restore.args(["--exit-on-error", "--dbname", database]).arg(&dump));
        cluster.connect_to(database)
    };
    let new = Cluster::stopped(&[]);
    new.start_server().unwrap();
    new.connect().batch_execute("CREATE ROLE keeper_of_ids LOGIN; CREATE ROLE fleet LOGIN").unwrap();
    for (cluster, database, why) in
        [(&new, "elsewhere", "another database cluster"), (&old, "beside", "restored from a dump")]
    {
        let mut client = restore(cluster, database);
        let mut member = member.clone();
        let answer = Member::new().acquire(&mut client, 1024).unwrap();
        assert_eq!(answer.outcome, "taken", "{answer:?}");
        assert!(reason(&mut client).contains(why), "{}", reason(&mut client));
        client.batch_execute("SET ROLE fleet").unwrap();
        assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
        client.batch_execute("RESET ROLE").unwrap();
        let (code, said) = failure(&mut client, "DROP EXTENSION snowflake_id_registry");
        assert_eq!(code, "2BP01");
        assert!(said.contains("view snowflake_registry.the_fleet_is_in_use_call_end_fleet_first"), "{said}");
        client.batch_execute("SELECT snowflake_registry.end_quarantine()").unwrap();
        granted(&mut client);
        client.batch_execute("DROP SCHEMA snowflake_registry CASCADE").unwrap();
    }
}

/// Where no extension can be installed: the file is run by psql, as a role that has no more than CREATE.
#[test]
fn the_registry_is_installed_by_psql() {
    let cluster = Cluster::stopped(&[]);
    cluster.start_server().unwrap();
    let mut client = cluster.connect();
    for command in [
        "CREATE ROLE ordinary LOGIN",
        "CREATE ROLE nobody_much LOGIN",
        "CREATE DATABASE managed",
        "GRANT CREATE ON DATABASE managed TO ordinary",
        "CREATE DATABASE owned OWNER ordinary",
    ] {
        client.batch_execute(command).unwrap();
    }
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../sql/registry/snowflake_id_registry--0.1.0.sql"].iter().collect();
    let script = std::fs::read_to_string(path).unwrap();
    let run = |user: &str, database: &str, script: &str| {
        let file = cluster.host().join("registry.sql");
        std::fs::write(&file, script).unwrap();
        let mut psql = cluster.program("psql");
        psql.arg("--host").arg(cluster.host()).args([
            "--no-psqlrc",
            "--quiet",
            "--username",
            user,
            "--dbname",
            database,
        ]);
        let output = psql.arg("--file").arg(file).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for database in ["managed", "owned"] {
        let mut client = cluster.connect_to(database);
        let exists = "SELECT count(*) FROM pg_namespace WHERE nspname = 'snowflake_registry'";
        let said = run("nobody_much", database, &script);
        assert!(said.contains("permission denied for database"), "{said}");
        // The last of all steps fails: nothing is left, though psql goes on after errors.
        let broken =
            script.replace("PERFORM set_config('search_path', search_path_before, true);", "PERFORM 1 / 0;");
        assert_ne!(broken, script);
        let said = run("ordinary", database, &broken);
        assert!(said.contains("division by zero"), "{said}");
        assert_eq!(single::<i64>(&mut client, exists), 0);

        assert_eq!(run("ordinary", database, &script), "");
        let said = run("ordinary", database, &script);
        assert!(said.contains("schema snowflake_registry is not empty"), "{said}");
        let owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'snowflake_registry'";
        assert_eq!(single::<String>(&mut client, owner), "ordinary");
        client.batch_execute("SET ROLE ordinary; SELECT snowflake_registry.start_fleet()").unwrap();
        let mut member = granted(&mut client);
        assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
        let (code, _) = failure(&mut client, "DROP SCHEMA snowflake_registry");
        assert_eq!(code, "2BP01");
        client.batch_execute("DROP SCHEMA snowflake_registry CASCADE").unwrap();
    }
}
