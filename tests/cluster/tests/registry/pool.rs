//! Which worker IDs the registry grants: those of its pool, those that are reserved for the role of the caller, and those
//! that somebody uses by hand at last.

use harness::*;
use postgres::{Config, NoTls};

use super::forgets::token;
use super::member::{Member, granted, reason, state};
use super::taker::{administer, start_with_fleet};

/// A registry that was created, and on which nothing was called.
fn unused(server: Builder) -> Cluster {
    server.extensions(&["snowflake_id_registry"]).start()
}

/// A registry with a pool, and the roles of two servers.
fn with_two_roles(last_worker: u32) -> (Cluster, Client, [Client; 2]) {
    let cluster = unused(Cluster::builder().clock());
    let mut client = cluster.connect();
    administer(&mut client, &format!("start_fleet(0, {last_worker}, first_start => true)"));
    client.run(
        "CREATE ROLE s0 LOGIN; CREATE ROLE s1 LOGIN;
         GRANT USAGE ON SCHEMA snowflake_registry TO s0, s1;
         GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew TO s0, s1",
    );
    let roles = ["s0", "s1"].map(|role| {
        let mut config = Config::new();
        config.host_path(cluster.host()).user(role).dbname("postgres");
        config.connect(NoTls).unwrap()
    });
    (cluster, client, roles)
}

/// Requests a worker ID for a server whose configuration sets some by hand. Returns the outcome or the worker ID, and the
/// detail.
fn acquire(client: &mut Client, by_hand: &str, more_needs: &str) -> (String, String) {
    let member = Member::new();
    let request = member.request_of_an_identity(1024, &[]);
    let row = client.query_one(
        &format!(
            "SELECT coalesce(worker_id::text, outcome), coalesce(detail, '')
             FROM snowflake_registry.acquire(jsonb_set({request}, '{{needs}}',
                 '{{\"datacenter\": 0, \"worker_limit\": 1024{more_needs}}}')
                 || '{{\"facts\": {{\"by_hand\": {by_hand}}}}}')"
        ),
        &[],
    );
    row.map(|row| (row.get(0), row.get(1))).unwrap_or_else(|error| panic!("{}", text(&error)))
}

fn worker(client: &mut Client, by_hand: &str) -> String {
    acquire(client, by_hand, "").0
}

/// Nobody but an administrator knows which worker IDs are used by hand.
#[test]
fn no_start_without_a_pool() {
    let cluster = unused(Cluster::builder());
    let mut client = cluster.connect();
    for call in ["start_fleet()", "start_fleet(first_start => true)", "quarantine()"] {
        let (code, said) = failure(&mut client, &format!("SELECT snowflake_registry.{call}"));
        assert_eq!(code, "55000", "{said}");
        assert!(said.contains("standbys") && said.contains("first_worker => 512"), "{said}");
        assert_eq!(state(&mut client), "not started");
    }
    for call in ["start_fleet(5)", "start_fleet(5, 4)", "start_fleet(-1, 4)", "configure(last_worker => 4)"] {
        let (code, said) = failure(&mut client, &format!("SELECT snowflake_registry.{call}"));
        assert_eq!(code, "22023", "{said}");
    }
    administer(&mut client, "start_fleet(512, 1023, first_start => true)");
    // Nor is it moved before the first grant, or between an end of the fleet and its next start.
    for (call, added) in [
        ("start_fleet(0, 1023)", "0 to 511 were"),
        ("start_fleet(500, 2000)", "500 to 511 and 1024 to 2000 were"),
        ("start_fleet(2000, 2001)", "2000 to 2001 were"),
    ] {
        let (code, said) = failure(&mut client, &format!("SELECT snowflake_registry.{call}"));
        assert_eq!(code, "55000", "{said}");
        assert!(said.starts_with(&format!("worker IDs {added} not in the pool so far")), "{said}");
    }
    administer(&mut client, "end_fleet()");
    let (_, said) =
        failure(&mut client, "SELECT snowflake_registry.configure(first_worker => 2, last_worker => 3)");
    assert!(said.starts_with("worker IDs 2 to 3 were not in the pool so far"), "{said}");
    administer(&mut client, "start_fleet(first_start => true)");
    assert_eq!(worker(&mut client, "[]"), "512");
    // The pool of a fleet grows by an assertion alone.
    for call in ["configure(last_worker => 1024)", "configure(first_worker => 511)"] {
        let (code, said) = failure(&mut client, &format!("SELECT snowflake_registry.{call}"));
        assert_eq!(code, "55000", "{said}");
        assert!(said.contains("not in the pool so far") && said.contains("none_by_hand => true"), "{said}");
    }
    administer(&mut client, "configure(first_worker => 10, none_by_hand => true)");
    assert_eq!(worker(&mut client, "[]"), "10");
    // A smaller pool takes nothing from a server.
    let mut member = granted(&mut client);
    administer(&mut client, "configure(first_worker => 600)");
    assert_eq!(member.renew(&mut client).unwrap().worker, Some(11));
    assert_eq!(worker(&mut client, "[]"), "600");
}

/// The registry is set back to before its start, and gets another key, so no token can be read. The administrator starts it
/// again.
#[test]
fn a_second_first_start_waits() {
    let cluster = unused(Cluster::builder().clock());
    let copy = cluster.duplicate_in_between();
    let mut client = cluster.connect();
    administer(&mut client, "start_fleet(0, 1023, first_start => true)");
    let until = Member::new().acquire(&mut client, 1024).unwrap().until.unwrap();
    drop(client);
    cluster.stop_server("fast");
    copy.start_server();
    let mut client = copy.connect();
    let waits =
        "SELECT snowflake_registry.start_fleet(0, 1023) - clock_timestamp() > '11 minutes 59 seconds'";
    assert!(single::<bool>(&mut client, waits));
    assert_eq!(state(&mut client), "quarantine");
    let mut member = Member::new();
    let mut minutes = 0;
    let answer = loop {
        let answer = member.acquire(&mut client, 1024).unwrap();
        if answer.outcome == "granted" {
            break answer;
        }
        assert_eq!(answer.outcome, "taken", "{answer:?}");
        minutes += 1;
        copy.set_clock(f64::from(minutes) * 59.0);
    };
    assert!(minutes >= 12, "{minutes}");
    assert_eq!(answer.worker, Some(0));
    assert!(answer.from.unwrap() >= until, "{answer:?}, {until}");
}

/// Two renewals later, the tokens of all live servers name the call.
#[test]
fn when_a_reserved_worker_id_may_be_used() {
    let (_cluster, mut client, _) = with_two_roles(10);
    assert_eq!(worker(&mut client, "[]"), "0", "without a lease, there is nobody to wait for");
    administer(&mut client, "configure(renew_every => '5 minutes')");
    administer(&mut client, "configure(renew_every => '1 minute')");
    let from = "SELECT snowflake_registry.reserve(3) - clock_timestamp() BETWEEN '9 minutes 50 seconds' AND '10 minutes'";
    assert!(single::<bool>(&mut client, from), "the longest interval counts");
    let requests = "SELECT cardinality(requests) FROM snowflake_registry.settings";
    let before: i32 = single(&mut client, requests);
    let again = "SELECT snowflake_registry.reserve(3) = snowflake_registry.reserve(3)";
    assert!(single::<bool>(&mut client, again));
    // Calls that change nothing are no evidence.
    administer(&mut client, "configure(renew_every => '1 minute', last_worker => 10)");
    assert_eq!(single::<i32>(&mut client, requests), before);
    // Outside the pool, too: the pool may grow.
    administer(&mut client, "reserve(12, note => 'spare of s0')");
    administer(&mut client, "configure(last_worker => 12, none_by_hand => true)");
    administer(&mut client, "quarantine()");
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.reserve(4)");
    assert_eq!(code, "55000");
    assert!(said.contains("during a quarantine"), "{said}");
    assert!(single::<bool>(&mut client, again), "a repeated call answers at any time");
    administer(&mut client, "end_quarantine()");
    let workers: Vec<_> = (0..11).map(|_| worker(&mut client, "[]")).collect();
    let expected = ["1", "2", "4", "5", "6", "7", "8", "9", "10", "11", "taken"];
    assert_eq!(workers, expected);
}

#[test]
fn worker_ids_of_a_role() {
    let (cluster, mut client, [mut s0, mut s1]) = with_two_roles(3);
    // The number of its shard, which is outside the pool.
    administer(&mut client, "reserve(7, used_by => 's0')");
    assert_eq!(worker(&mut s0, "[]"), "7");
    assert_eq!(worker(&mut s0, "[]"), "taken", "a role with worker IDs of its own gets no others");
    assert_eq!(worker(&mut s1, "[7]"), "0");
    // A pin is a need, not a right.
    for (role, pin, expected) in
        [(&mut s0, 3, "worker ID 3 is not reserved"), (&mut s1, 7, "worker ID 7 is not reserved")]
    {
        let (outcome, detail) = acquire(role, "[]", &format!(", \"pin\": {pin}"));
        assert_eq!(outcome, "taken");
        assert!(detail.contains(expected), "{detail}");
    }
    // The one that the configuration sets, if the role has several.
    administer(&mut client, "reserve(8, used_by => 's0')");
    administer(&mut client, "reserve(9, used_by => 's0')");
    assert_eq!(worker(&mut s0, "[9]"), "9");
    let (outcome, detail) = acquire(&mut s0, "[9]", "");
    assert_eq!(outcome, "taken");
    assert!(detail.contains("worker ID 9 is taken until"), "{detail}");
    assert_eq!(acquire(&mut s0, "[]", ", \"pin\": 8").0, "8");
    // One that the server can never have does not keep it from the others.
    administer(&mut client, "reserve(5, used_by => 's0')");
    assert_eq!(acquire(&mut s0, "[9]", ", \"unwanted\": [9]").0, "5");
    administer(&mut client, "reserve(6, used_by => 's0')");
    assert_eq!(acquire(&mut s0, "[9]", ", \"worker_limit\": 9").0, "6");
    administer(&mut client, "reserve(11, used_by => 's0')");
    assert_eq!(worker(&mut s0, "[0]"), "11");
    // Worker ID 0 is leased by s1.
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.reserve(0, used_by => 's0')");
    assert_eq!(code, "55006", "{said}");
    administer(&mut client, "reserve(0, used_by => 's1', none_by_hand => true)");
    for call in ["reserve(0, used_by => 's0')", "reserve(0)", "reserve(7)", "reserve(7, used_by => 's1')"] {
        let (code, said) = failure(&mut client, &format!("SELECT snowflake_registry.{call}"));
        assert_eq!(code, "55000", "{said}");
        assert!(said.contains("is reserved for role") && said.contains("give_up_reservation("), "{said}");
    }
    administer(&mut client, "give_up_reservation(0)");
    assert_eq!(worker(&mut s1, "[]"), "1");
    // A reservation for use by hand is for ever.
    administer(&mut client, "reserve(3)");
    assert_eq!(failure(&mut client, "SELECT snowflake_registry.reserve(3, used_by => 's1')").0, "55000");
    assert_eq!(failure(&mut client, "SELECT snowflake_registry.give_up_reservation(3)").0, "P0002");
    // A worker ID that was leased is not used by hand, even after its lease.
    cluster.set_clock(3_600.0);
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.reserve(1)");
    assert_eq!(code, "55000");
    assert!(said.contains("was leased before"), "{said}");
    assert_eq!(
        failure(&mut client, "SELECT snowflake_registry.reserve(1, used_by => 4294967295)").0,
        "42704"
    );
}

/// Reservations that a registry learns of when the worker ID is held end the lease: the server changes.
#[test]
fn renewals_of_reserved_worker_ids() {
    let (_cluster, mut client, [mut s0, mut s1]) = with_two_roles(9);
    let mut member = granted(&mut s0);
    for (columns, refused, detail) in [
        ("true, NULL", [true, true], "worker ID 0 is reserved for use by hand"),
        ("true, 's1'", [true, false], "worker ID 0 is reserved for role \"s1\""),
        ("true, 's0'", [false, true], "worker ID 0 is reserved for role \"s0\""),
        ("false, NULL", [false, false], ""),
    ] {
        client.run(&format!(
            "ALTER TABLE snowflake_registry.lease DISABLE TRIGGER keep_the_end;
             UPDATE snowflake_registry.lease SET (is_reserved, reserved_for) = ROW ({columns});
             ALTER TABLE snowflake_registry.lease ENABLE ALWAYS TRIGGER keep_the_end"
        ));
        for (role, is_refused) in [&mut s0, &mut s1].into_iter().zip(refused) {
            let answer = member.renew(role).unwrap();
            let outcome = if is_refused { "unknown" } else { "granted" };
            assert_eq!(answer.outcome, outcome, "{columns}: {answer:?}");
            assert!(!is_refused || answer.detail.as_deref() == Some(detail), "{columns}: {answer:?}");
        }
    }
}

/// A worker ID that a server uses by hand is granted when no other is left, so that nobody is stopped by a lie.
#[test]
fn worker_ids_by_hand_come_last() {
    let (cluster, mut client, [mut s0, mut s1]) = with_two_roles(3);
    // It is refused, and still heard.
    administer(&mut client, "quarantine()");
    assert_eq!(worker(&mut s0, "[0]"), "taken");
    administer(&mut client, "end_quarantine()");
    assert_eq!(worker(&mut s1, "[]"), "1");
    let (got, detail) = acquire(&mut s0, "[0, 9]", "");
    assert_eq!(got, "2");
    assert!(detail.contains("worker ID 2 was granted") && detail.contains("sets worker ID 0, 9"), "{detail}");
    assert_eq!(worker(&mut s1, "[]"), "3");
    assert_eq!(worker(&mut s1, "[]"), "0", "better than none");
    assert_eq!(worker(&mut s1, "[]"), "taken");
    let shown = "SELECT count(*) FROM snowflake_registry.fleet WHERE said_by_hand_at IS NOT NULL";
    assert_eq!(single::<i64>(&mut client, shown), 1, "only those of the pool");
    // Later, too: the worker ID that somebody uses by hand is not preferred, although it is the lowest.
    cluster.set_clock(3_600.0);
    assert_eq!(worker(&mut s1, "[]"), "1");
}

/// A server with another clock, another registry or another need continues by hand, and its worker ID is still granted last.
/// A request with another protocol, or with a key that is missing, says nothing.
#[test]
fn refused_servers_are_heard() {
    let (_cluster, mut client, [mut s0, mut s1]) = with_two_roles(9);
    let request = Member::new().request_of_an_identity(1024, &[]);
    for (worker, more, expected) in [
        (0, "{\"clock\": 0}", "clock"),
        (1, "{\"registry\": \"00000000-0000-4000-8000-000000000000\"}", "foreign"),
        (2, "{\"needs\": {\"datacenter\": 0, \"worker_limit\": 1024, \"colour\": 3}}", "registry too old"),
        (3, "{\"protocol\": 9}", "registry too old"),
        (4, "{\"clock\": 0, \"needs\": {}}", "clock"),
    ] {
        let answer = format!(
            "SELECT outcome FROM snowflake_registry.acquire({request} || '{{\"facts\": {{\"by_hand\": [{worker}]}}}}' || '{more}')"
        );
        assert_eq!(single::<String>(&mut s0, &answer), expected);
    }
    let heard = "SELECT array_agg(worker_id ORDER BY worker_id) FROM snowflake_registry.fleet WHERE said_by_hand_by = '{s0}'";
    assert_eq!(single::<Vec<i32>>(&mut client, heard), [0, 1, 2]);
    assert_eq!(worker(&mut s1, "[]"), "3");
}

/// What a server uses by hand is not reserved for another one by mistake, and a lie does not prevent it.
#[test]
fn worker_ids_by_hand_are_not_reserved_for_others() {
    let (_cluster, mut client, [mut s0, _]) = with_two_roles(9);
    worker(&mut s0, "[5, 6]");
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.reserve(5, used_by => 's1')");
    assert_eq!(code, "55006", "{said}");
    assert!(said.contains("with role \"s0\" reported this at 20"), "{said}");
    let hint = said.split_once("by hand: ").unwrap().1.trim_end_matches(';');
    client.run(hint);
    administer(&mut client, "reserve(5, used_by => 's1')");
    administer(&mut client, "reserve(6, used_by => 's0')");
}

/// The answer to a request that is repeated, because the first one was lost, says the same.
#[test]
fn a_repeated_answer_names_what_is_set_by_hand() {
    let (_cluster, mut client, _) = with_two_roles(9);
    let request = Member::new().request_of_an_identity(1024, &[]);
    let call = format!(
        "SELECT detail FROM snowflake_registry.acquire({request} || '{{\"facts\": {{\"by_hand\": [7]}}}}')"
    );
    let first: String = single(&mut client, &call);
    assert!(first.starts_with("worker ID 0 was granted, and the configuration"), "{first}");
    assert_eq!(single::<String>(&mut client, &call), first);
}

/// A hostile caller adds few rows, and none that matter.
#[test]
fn a_caller_that_says_much_by_hand() {
    let (_cluster, mut client, [mut s0, mut s1]) = with_two_roles(2_000_000_000);
    for by_hand in ["[1.5, -1, 99999999999, \"7\", null, {}, [3], true]", "7", "{\"a\": 1}"] {
        worker(&mut s0, by_hand);
    }
    let said = "SELECT count(*) FROM snowflake_registry.lease WHERE said_by_hand IS NOT NULL";
    assert_eq!(single::<i64>(&mut client, said), 0);
    // The truth is heard, and it stays when others say the same, and then something else.
    assert_eq!(worker(&mut s1, "[50]"), "3");
    worker(&mut s0, "[50]");
    worker(&mut s0, "[100, 101, 102, 103, 104, 105, 106, 107, 108, 108]");
    assert_eq!(single::<i64>(&mut client, said), 9);
    let by = "SELECT said_by_hand_by FROM snowflake_registry.fleet WHERE worker_id = 50";
    assert_eq!(single::<Vec<String>>(&mut client, by), ["s0", "s1"]);
    let request = Member::new().request_of_an_identity(0, &[]);
    s0.run(&format!(
        "SELECT snowflake_registry.acquire({request} || jsonb_build_object('facts', jsonb_build_object('by_hand',
             (SELECT jsonb_agg(n) FROM generate_series(8 * i, 8 * i + 7) AS n))))
         FROM generate_series(1000, 1200) AS i"
    ));
    assert_eq!(single::<i64>(&mut client, said), 65, "64 of each role");
    let rows: i64 =
        single(&mut client, "SELECT count(*) FROM snowflake_registry.lease WHERE grant_count = 0");
    assert!((64..=72).contains(&rows), "{rows}");
    assert_eq!(worker(&mut s1, "[51]"), "6", "others are still heard");
    assert_eq!(single::<i64>(&mut client, said), 66);
    // A spare that was used stays used up.
    client.run("SELECT snowflake_registry.reserve(2000)");
    worker(&mut s1, "[2000]");
    s1.run(&format!(
        "SELECT snowflake_registry.acquire({request} || jsonb_build_object('facts', jsonb_build_object('by_hand',
             (SELECT jsonb_agg(n) FROM generate_series(8 * i, 8 * i + 7) AS n))))
         FROM generate_series(500, 520) AS i"
    ));
    let by = "SELECT said_by_hand_by FROM snowflake_registry.fleet WHERE worker_id = 2000";
    assert_eq!(single::<Vec<String>>(&mut client, by), ["s1"]);
}

/// What an administrator stated is evidence: a registry that is set back to before the call learns of it from any server.
#[test]
fn a_lost_call_is_noticed() {
    let cluster = start_with_fleet(Cluster::builder());
    let mut client = cluster.connect();
    let mut early = granted(&mut client);
    let copy = cluster.duplicate_in_between();
    let mut client = cluster.connect();
    administer(&mut client, "end_quarantine()");
    client.run("CREATE ROLE s0 LOGIN");
    let calls = [
        "configure(last_worker => 500)",
        "configure(last_worker => 600, none_by_hand => true)",
        "configure(last_datacenter => 3)",
        "configure(lease => '9 minutes')",
        "configure(renew_every => '50 seconds')",
        "configure(synchronous => true)",
        "configure(witnesses => false)",
        "reserve(77)",
        "reserve(78, used_by => 's0')",
        "freeze()",
        "unfreeze()",
    ];
    let tokens = calls.map(|call| {
        administer(&mut client, call);
        token(&mut client, &mut early)
    });
    for (call, token) in calls.iter().zip(tokens) {
        let registry = copy.duplicate();
        registry.start_server();
        let mut client = registry.connect();
        administer(&mut client, "end_quarantine()");
        early.clone().renew_and_show(&mut client, &[&token]).unwrap();
        assert_eq!(state(&mut client), "frozen", "{call}");
        assert!(
            reason(&mut client).contains("a server knows of a call of configure(), start_fleet()"),
            "{call}"
        );
    }
}

#[test]
fn a_lost_start_is_noticed() {
    let cluster = unused(Cluster::builder());
    let mut client = cluster.connect();
    administer(&mut client, "configure(first_worker => 0, last_worker => 1023)");
    let copy = cluster.duplicate_in_between();
    let mut client = cluster.connect();
    administer(&mut client, "start_fleet(first_start => true)");
    administer(&mut client, "end_quarantine()");
    let mut early = granted(&mut client);
    let shown = token(&mut client, &mut early);
    drop(client);
    cluster.stop_server("fast");
    copy.start_server();
    let mut client = copy.connect();
    early.renew_and_show(&mut client, &[&shown]).unwrap();
    assert_eq!(state(&mut client), "frozen");
}

/// A role that several servers share would have one worker ID for all of them.
#[test]
fn a_role_of_several_servers() {
    let (_cluster, mut client, [mut s0, _]) = with_two_roles(9);
    for expected in ["0", "1"] {
        assert_eq!(worker(&mut s0, "[]"), expected);
    }
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.reserve(7, used_by => 's0')");
    assert_eq!(code, "55006", "{said}");
    assert!(said.contains("holds 2 leases, and 1 worker IDs"), "{said}");
    administer(&mut client, "reserve(7, datacenter_id => 1, used_by => 's0')");
    administer(&mut client, "revoke_lease(1)");
    administer(&mut client, "reserve(7, used_by => 's0')");
}

/// In a freeze, the other registry may lease the worker ID, and a server that holds a reserved one gets no other.
#[test]
fn reservations_in_a_freeze() {
    let (_cluster, mut client, [mut s0, _]) = with_two_roles(9);
    let mut member = granted(&mut s0);
    administer(&mut client, "reserve(4)");
    administer(&mut client, "freeze()");
    administer(&mut client, "reserve(4)");
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.reserve(5)");
    assert_eq!(code, "55000");
    assert!(said.contains("in a freeze"), "{said}");
    administer(&mut client, "reserve(5, used_by => 's1')");
    client.run("UPDATE snowflake_registry.lease SET is_reserved = true WHERE worker_id = 0");
    assert_eq!(member.renew(&mut s0).unwrap().outcome, "granted");
    let (_, said) = failure(&mut client, "SELECT snowflake_registry.reserve(6, note => 'a script')");
    let (_, hint) = said.split_once("replaces this one: ").unwrap();
    client.run(hint);
    administer(&mut client, "reserve(6, note => 'a script')");
    assert_eq!(member.renew(&mut s0).unwrap().outcome, "unknown");
}

/// The registry loses a grant of a worker ID that it has reserved for the role. The holder keeps the worker ID.
#[test]
fn a_lost_grant_of_a_reserved_worker_id() {
    let cluster = start_with_fleet(Cluster::builder());
    let mut client = cluster.connect();
    let mut early = granted(&mut client);
    administer(&mut client, "reserve(77, used_by => 'test')");
    let copy = cluster.duplicate_in_between();
    let mut client = cluster.connect();
    administer(&mut client, "end_quarantine()");
    let mut member = granted(&mut client);
    assert_eq!(member.renew(&mut client).unwrap().worker, Some(77));
    let shown = token(&mut client, &mut member);
    drop(client);
    copy.start_server();
    // The row says a later time than the grant.
    let mut client = copy.connect();
    client.run("UPDATE snowflake_registry.lease SET granted_until = now() + interval '1 minute' WHERE worker_id = 77");
    let answer = member.renew_and_show(&mut client, &[&shown]).unwrap();
    assert_eq!((&*answer.outcome, answer.worker), ("granted", Some(77)), "{answer:?}");
    let _ = early.renew(&mut client);
}

/// A registry that is frozen says so first, and one whose fleet was ended is never started as if it were new.
#[test]
fn what_a_registry_that_grants_nothing_says() {
    let (cluster, mut client, [mut s0, _]) = with_two_roles(9);
    worker(&mut s0, "[]");
    cluster.set_clock(3_600.0);
    administer(&mut client, "end_fleet()");
    let (outcome, detail) = acquire(&mut s0, "[]", "");
    assert_eq!(outcome, "not started");
    assert!(detail.contains("fleet was ended") && detail.contains("quarantine()"), "{detail}");
    let hint = "SELECT problem || hint FROM snowflake_registry.check_server()";
    let said: String = single(&mut client, hint);
    assert!(
        said.contains("its fleet was ended") && said.contains("snowflake_registry.quarantine()"),
        "{said}"
    );
    administer(&mut client, "freeze()");
    let (outcome, detail) = acquire(&mut s0, "[]", "");
    assert_eq!(outcome, "taken");
    assert!(detail.contains("is frozen"), "{detail}");
    assert!(single::<String>(&mut client, hint).contains("is frozen"));
}
