//! What is not granted at once after a start of the registry's server, and for how long. No wait ends early, and each ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use harness::*;

use super::member::{CLOCK, Member as Leaser, granted as granted_lease, state};
use super::taker::{Member, administer, let_others_take, start, start_with_fleet};

const MINUTE: f64 = 60.0;

/// The time that is left of a wait, in seconds.
fn left(client: &mut Client, column: &str) -> f64 {
    single(
        client,
        &format!("SELECT coalesce(extract(epoch FROM {column}), 0)::float8 FROM snowflake_registry.status"),
    )
}

/// Calls as often as an answer says, until a range is granted. Returns how long that took, in seconds of the clock.
fn time_until_granted(cluster: &Cluster, began: f64, member: &mut Member) -> f64 {
    let mut client = cluster.connect();
    let mut now = began;
    let query = "SELECT max(report_every)::float8 / 1000000
                 FROM snowflake_registry.take('{\"protocol\": 1, \"registry\": null, \"tokens\": [], \"requests\": []}')";
    for _ in 0..200 {
        if member.take(&mut client, "orders").outcome == "granted" {
            return now - began;
        }
        now += single::<f64>(&mut client, query);
        cluster.set_clock(now);
    }
    panic!("no numbers after {} s", now - began)
}

/// No server of the fleet runs. A program that only takes numbers does not report a clock.
#[test]
fn of_programs_that_only_take_numbers() {
    let cluster = start_with_fleet(Cluster::builder().clock());
    let mut program = Member::default();
    program.granted(&mut cluster.connect(), "orders");
    cluster.restart("fast");
    assert_eq!(time_until_granted(&cluster, 0.0, &mut program), 150.0);
    // Only the first lease waits for the clock of a server. It does not wait any longer.
    let mut client = cluster.connect();
    assert_eq!(left(&mut client, "numbers_left"), 0.0);
    assert_eq!(state(&mut client), "quarantine");
    cluster.set_clock(13.0 * MINUTE);
    for minutes in 13..24 {
        cluster.set_clock(f64::from(minutes) * MINUTE);
        program.granted(&mut client, "orders");
    }
    assert_eq!(state(&mut client), "quarantine");
    let waits_for: String = single(&mut client, "SELECT waits_for FROM snowflake_registry.status");
    assert!(waits_for.contains("whose clock agrees"), "{waits_for}");
    granted_lease(&mut client);
    assert_eq!(state(&mut client), "ready");
    // Without a proof, the whole wait counts.
    drop(client);
    cluster.restart("fast");
    assert_eq!(time_until_granted(&cluster, 24.0 * MINUTE, &mut Member::default()), 720.0);
}

/// The interval is longer than a minute. A server that obeys the answers waits for two and a half intervals, and not for
/// as many intervals as the wait has minutes.
#[test]
fn of_servers_that_call_rarely() {
    let cluster = start_with_fleet(Cluster::builder().clock());
    let mut client = cluster.connect();
    administer(&mut client, "configure(lease => '2 hours', renew_every => '12 minutes')");
    let mut program = Member::default();
    program.granted(&mut client, "orders");
    let mut holder = granted_lease(&mut client);
    let every = "SELECT renew_every FROM snowflake_registry.renew(";
    let request = |holder: &Leaser| {
        let keys = format!("'last_nonce', '{0}', 'next_nonce', '{0}'", holder.nonce);
        holder.request(&[], &keys)
    };
    let told = format!("{every}{})", request(&holder));
    assert_eq!(single::<i64>(&mut client, &told), 720_000_000);
    holder.renew(&mut client).unwrap();
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    // The first answer after the start contains the short interval, even if the start cannot be recorded yet.
    let mut other = cluster.connect();
    other.run("BEGIN; LOCK TABLE snowflake_registry.settings IN ROW SHARE MODE");
    let told = format!("{every}{})", request(&holder));
    assert_eq!(single::<i64>(&mut client, &told), 60_000_000);
    other.run("ROLLBACK");
    assert_eq!(time_until_granted(&cluster, 0.0, &mut program), 1800.0);
    granted_lease(&mut client);
    assert_eq!(single::<i64>(&mut client, &format!("{every}{})", request(&holder))), 720_000_000);
    // Servers may still follow the interval that they were told before.
    administer(&mut client, "configure(renew_every => '1 minute')");
    drop(client);
    cluster.restart("fast");
    assert_eq!(time_until_granted(&cluster, 1800.0, &mut program), 1800.0);
}

/// Before the first grant nobody has to be waited for, so the interval may become shorter.
#[test]
fn of_an_interval_that_no_server_was_told() {
    let cluster = start_with_fleet(Cluster::builder().clock());
    let mut client = cluster.connect();
    administer(&mut client, "configure(renew_every => '10 seconds')");
    let mut program = Member::default();
    program.granted(&mut client, "orders");
    drop(client);
    cluster.restart("fast");
    assert_eq!(time_until_granted(&cluster, 0.0, &mut program), 25.0);
}

/// A step of the clock takes away at most half an interval, whether the clocks agree or not.
#[test]
fn does_not_end_with_a_step_of_the_clock() {
    let cluster = start_with_fleet(Cluster::builder().clock());
    let mut program = Member::default();
    let mut client = cluster.connect();
    program.granted(&mut client, "orders");
    let now: i64 = single(&mut client, &format!("SELECT {CLOCK}"));
    let stop_clock = |seconds: i64| cluster.hold_clock(now + seconds * 1_000_000, 0);
    drop(client);
    stop_clock(0);
    cluster.restart("fast");
    let mut client = cluster.connect();
    let waits = |client: &mut Client| [left(client, "numbers_left"), left(client, "quarantine_left")];
    assert_eq!(program.take(&mut client, "orders").outcome, "busy");
    assert_eq!(waits(&mut client), [150.0, 150.0]);
    let steps = [(55, 120.0), (20, 120.0), (3_600 * 24 * 365, 90.0), (0, 90.0), (30, 60.0)];
    for (seconds, expected) in steps {
        stop_clock(seconds);
        for _ in 0..20 {
            assert_eq!(program.take(&mut client, "orders").outcome, "busy");
        }
        assert_eq!(waits(&mut client), [expected, expected], "at {seconds} s");
    }
    // Only the time counts, and not the number of calls.
    for seconds in [40, 50, 60] {
        stop_clock(seconds);
        granted_none(&mut client);
    }
    assert_eq!(waits(&mut client), [30.0, 30.0]);
    stop_clock(90);
    assert_eq!(program.take(&mut client, "orders").outcome, "granted");
    granted_lease(&mut client);
}

fn granted_none(client: &mut Client) {
    assert_eq!(Leaser::new().acquire(client, 1024).unwrap().outcome, "taken");
}

/// Many callers hold the lock all the time.
#[test]
fn ends_although_the_lock_is_never_free() {
    let cluster = start_with_fleet(super::member::many().clock());
    let mut program = Member::default();
    program.granted(&mut cluster.connect(), "orders");
    cluster.restart("fast");
    let mut client = cluster.connect();
    program.take(&mut client, "orders");
    let lock = "LOCK TABLE snowflake_registry.settings IN ROW SHARE MODE; SELECT pg_sleep(0.02)";
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = cluster.connect();
                // If the assertion below fails, the threads end as well.
                for _ in (0..1_500).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    client.run(&format!("BEGIN; {lock}; COMMIT"));
                }
            });
        }
        let mut now = 0.0;
        all_arrive("numbers", || {
            now += 31.0;
            cluster.set_clock(now);
            program.take(&mut client, "orders").outcome == "granted"
        });
        is_over.store(true, Ordering::Relaxed);
    });
}

/// A long quarantine is in progress when an administrator resumes the segments. A start then has a wait of its own.
#[test]
fn is_short_after_segments_were_resumed() {
    let cluster = start_with_fleet(Cluster::builder().clock());
    let mut client = cluster.connect();
    let mut program = Member::default();
    program.granted(&mut client, "orders");
    administer(&mut client, "configure(lease => '6 hours')");
    administer(&mut client, "quarantine()");
    assert_eq!(program.take(&mut client, "orders").outcome, "closed");
    administer(&mut client, "resume_segments()");
    program.granted(&mut client, "orders");
    assert!(left(&mut client, "quarantine_left") > 6.0 * 60.0 * MINUTE);
    drop(client);
    cluster.restart("fast");
    assert_eq!(time_until_granted(&cluster, 0.0, &mut program), 150.0);
    let mut client = cluster.connect();
    assert_eq!(state(&mut client), "quarantine");
    // A promotion in the wait, and an administrator's word.
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(program.take(&mut client, "orders").outcome, "busy");
    let reason = "UPDATE snowflake_registry.settings SET renew_every = renew_every";
    client.run(reason);
    assert_eq!(program.take(&mut client, "orders").outcome, "closed");
    assert_eq!(left(&mut client, "numbers_left"), 0.0);
    administer(&mut client, "resume_segments()");
    program.granted(&mut client, "orders");
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(program.take(&mut client, "orders").outcome, "busy");
    administer(&mut client, "freeze()");
    assert_eq!(program.take(&mut client, "orders").outcome, "closed");
    administer(&mut client, "unfreeze()");
    assert_eq!(program.take(&mut client, "orders").outcome, "busy");
    administer(&mut client, "end_quarantine()");
    program.granted(&mut client, "orders");
}

/// The registry's server alone took numbers when it was started. Its own numbers do not wait when others get the privilege.
#[test]
fn does_not_stop_the_own_numbers_of_a_single_server() {
    let cluster = Cluster::builder().clock().extensions(&["snowflake_id_registry"]).start();
    let mut client = cluster.connect();
    administer(&mut client, "create_segment('orders')");
    let mut own = Member::default();
    let mut take = |client: &mut Client| own.take_by(client, "take_local", "orders", "").outcome;
    assert_eq!(take(&mut client), "granted");
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    assert_eq!(take(&mut client), "granted");
    let_others_take(&mut client);
    assert_eq!(take(&mut client), "granted");
    assert_eq!(Member::default().take(&mut client, "orders").outcome, "busy");
    // From the next start on, others may have taken numbers that are not known.
    drop(client);
    cluster.restart("fast");
    assert_eq!(take(&mut cluster.connect()), "busy");
}

/// The clock was a year ahead. Servers reject the leases of that time, and they do not prolong a quarantine.
#[test]
fn of_a_clock_that_was_a_year_ahead() {
    let cluster = super::member::start(Cluster::builder().clock());
    let mut client = cluster.connect();
    granted_lease(&mut client);
    cluster.set_clock(365.0 * 86_400.0);
    granted_lease(&mut client);
    cluster.set_clock(0.0);
    administer(&mut client, "quarantine()");
    assert_eq!(left(&mut client, "quarantine_left"), 720.0);
    administer(&mut client, "end_quarantine()");
    // A lease that servers accept counts.
    granted_lease(&mut client);
    cluster.set_clock(-3_600.0);
    administer(&mut client, "quarantine()");
    let seconds = left(&mut client, "quarantine_left");
    assert!((4_310.0..=4_320.0).contains(&seconds), "{seconds} s");
}

/// The server log and the view say how to end a wait.
#[test]
fn names_the_way_out() {
    let cluster = start(Cluster::builder().clock());
    let mut client = cluster.connect();
    administer(&mut client, "create_segment('orders')");
    Member::default().granted(&mut client, "orders");
    drop(client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    Member::default().take(&mut client, "orders");
    let log = cluster.log();
    let after = log.split("unless a witness shortens the quarantine").nth(1).expect("the message");
    assert!(after.contains("or an earlier registry: SELECT snowflake_registry.end_quarantine();"), "{after}");
    let waits_for: String = single(&mut client, "SELECT waits_for FROM snowflake_registry.status");
    let expected = "calls of servers: at most 00:00:30 between two calls counts, and once a server has presented a proof, \
                    00:02:30 is left";
    assert_eq!(waits_for, expected);
}
