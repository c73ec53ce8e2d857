//! `script_for_another_registry()`: the other registry continues where this one stopped. And the numbers from which a segment
//! continues if servers were restored, too.

use std::fs;
use std::time::Duration;

use harness::*;

use super::taker::{Member, administer};

/// The script that a registry prints.
fn script(client: &mut Client) -> String {
    let rows = client.query("SELECT snowflake_registry.script_for_another_registry()", &[]);
    let rows = rows.unwrap_or_else(|error| panic!("{}", text(&error)));
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// Runs a script with psql. Returns the first error.
fn run_script(registry: &Cluster, database: &str, script: &str) -> Option<String> {
    let file = registry.write_private("script.sql", script);
    let mut psql = registry.client_program("psql");
    let output = psql.args(["--no-psqlrc", "--dbname", database, "--file"]).arg(file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    said.lines().find_map(|line| line.split_once("ERROR:  ")).map(|(_, error)| error.to_owned())
}

/// All that administrators have set, in a form that can be compared.
fn settings(client: &mut Client) -> Vec<String> {
    let queries = [
        "SELECT to_jsonb(settings) - '{registry_id,system_identifier,database_oid,timeline,server_started,serial,counted_by,written_by,
             nothing_before,waits,counted_at,is_proved,is_witnessed,is_restarted,quarantine_reason,frozen_until,requests,synchronous,
             numbers_wait,numbers_counted_at}'::text[]
         FROM snowflake_registry.settings AS settings",
        "SELECT to_jsonb(segment) - '{step,has_left,taken_at,taken_by,updated_at,dropped_at,numbers_granted}'::text[]
             || jsonb_build_object('is_dropped', dropped_at IS NOT NULL)
         FROM snowflake_registry.segment AS segment ORDER BY name",
        "SELECT jsonb_build_array(datacenter_id, worker_id, reserved_for, note)
         FROM snowflake_registry.lease WHERE is_reserved ORDER BY datacenter_id, worker_id",
        "SELECT jsonb_build_array(name, role) FROM snowflake_registry.segment_privilege ORDER BY name, role::text",
        "SELECT jsonb_build_array(proname, grantee::regrole, is_grantable)
         FROM pg_proc, LATERAL aclexplode(proacl) WHERE pronamespace = 'snowflake_registry'::regnamespace AND grantee <> proowner
         ORDER BY proname, grantee::regrole::text",
    ];
    let rows = queries.iter().flat_map(|query| {
        client.query(&format!("SELECT row::text FROM ({query}) AS row (row)"), &[]).unwrap()
    });
    rows.map(|row| row.get(0)).collect()
}

/// A registry with all kinds of settings, whose roles are on the same server. It is frozen.
fn registry_with_everything() -> Cluster {
    let registry = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    let mut client = registry.connect();
    client.run(
        r#"SELECT snowflake_registry.configure(lease => '2 hours', renew_every => '40 minutes');
           SELECT snowflake_registry.configure(lease => '15 minutes', renew_every => '100 milliseconds', last_datacenter => 5,
                                               witnesses => false, synchronous => true);
           SELECT snowflake_registry.start_fleet(512, 800, first_start => true);
           SELECT snowflake_registry.mark_leased('{900}');
           SELECT snowflake_registry.add_server('s0'), snowflake_registry.add_server('it''s "1" \ %s', takes_numbers => false);
           SELECT snowflake_registry.reserve(600, used_by => 's0', note => E'two\nlines'), snowflake_registry.reserve(3, 2);
           CREATE ROLE shop LOGIN; CREATE ROLE idle LOGIN;
           GRANT USAGE ON SCHEMA snowflake_registry TO shop;
           GRANT EXECUTE ON FUNCTION snowflake_registry.take TO shop WITH GRANT OPTION;
           SELECT snowflake_registry.create_segment('plain', start => 7, increment => 5, min_step => 10, max_step => 20,
                                                    max_value => 100000, description => E'it''s \\ here\n');
           SELECT snowflake_registry.create_segment('it''s "odd" %s \', start => 0);
           SELECT snowflake_registry.create_segment('untouched', start => 3, max_value => 3);
           SELECT snowflake_registry.create_segment('day', period => 'day', digits => 4, time_zone => 'Europe/Berlin', start => 3);
           SELECT snowflake_registry.create_segment('month', period => 'month', digits => 8, increment => 3);
           SELECT snowflake_registry.create_segment('year', period => 'year', digits => 15, max_value => 3000000000000000000);
           SELECT snowflake_registry.create_segment('full', start => 90, max_value => 100);
           SELECT snowflake_registry.create_segment('lowered', start => 90);
           SELECT snowflake_registry.alter_segment('lowered', max_value => 89);
           SELECT snowflake_registry.create_segment('dropped', start => 100, increment => 10);
           SELECT snowflake_registry.create_segment('dropped month', period => 'month', digits => 4);
           SELECT snowflake_registry.grant_segment('plain', 'shop'), snowflake_registry.grant_segment('not yet', 'shop');
           SELECT snowflake_registry.grant_segment('plain', 'idle'), snowflake_registry.revoke_segment('plain', 'idle')"#,
    );
    assert_eq!(super::member::Member::new().acquire(&mut client, 1024).unwrap().worker, Some(512));
    for name in ["plain", "day", "month", "year", "full", "dropped", "dropped month"] {
        Member::default().granted(&mut client, name);
    }
    for name in ["day", "dropped month"] {
        let ahead = Member::default().take_by(&mut client, "take", name, ", \"next\": true");
        assert!(ahead.period_starts.unwrap() > ahead.registry_clock, "{ahead:?}");
    }
    for name in ["dropped", "dropped month"] {
        administer(&mut client, &format!("drop_segment('{name}')"));
    }
    administer(&mut client, "freeze(now() + interval '1 hour')");
    registry
}

/// All settings arrive. Half of the script changes nothing, and neither does a second run.
#[test]
fn every_setting_is_continued() {
    let registry = registry_with_everything();
    let mut client = registry.connect();
    let script = script(&mut client);
    client.run("CREATE DATABASE other");
    let mut other = registry.connect_to("other");
    other.run("CREATE EXTENSION snowflake_id_registry");
    let (half, _) = script.split_at(script.len() * 2 / 3);
    run_script(&registry, "other", half);
    assert!(!single::<bool>(&mut other, "SELECT EXISTS (SELECT FROM snowflake_registry.settings)"));
    assert_eq!(run_script(&registry, "other", &script), None);
    let (old, new) = (settings(&mut client), settings(&mut other));
    assert!(old.len() > 20, "{old:#?}");
    assert_eq!(new, old);
    let status = "SELECT state FROM snowflake_registry.status";
    assert_eq!(single::<String>(&mut other, status), "quarantine");
    let floor = "SELECT nothing_before FROM snowflake_registry.settings";
    let end = "SELECT frozen_until FROM snowflake_registry.settings";
    type Time = std::time::SystemTime;
    assert_eq!(single::<Time>(&mut other, floor), single::<Time>(&mut client, end));

    // What the old registry ever leased is never used by hand, and neither are worker IDs of registries before it.
    let (code, said) = failure(&mut other, "SELECT snowflake_registry.reserve(900)");
    assert_eq!(code, "55000", "{said}");
    let marked = "SELECT array_agg(concat_ws('/', datacenter_id, worker_id) ORDER BY worker_id) FROM snowflake_registry.lease WHERE was_leased";
    assert_eq!(single::<Vec<String>>(&mut other, marked), ["0/512", "0/900"]);
    other.run("SELECT snowflake_registry.end_quarantine()");
    let (code, said) = failure(&mut other, "SELECT snowflake_registry.reserve(900)");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("was leased before"), "{said}");
    other.run("SELECT snowflake_registry.quarantine()");

    // Neither another run nor a run on the old registry changes anything.
    let before = settings(&mut other);
    assert!(run_script(&registry, "other", &script).unwrap().contains("already exists"));
    assert!(run_script(&registry, "postgres", &script).unwrap().contains("already exists"));
    assert_eq!(settings(&mut other), before);
    assert_eq!(settings(&mut client), old);
}

/// On another server, the roles of servers are created, with their settings. Other roles must exist.
#[test]
fn roles_on_another_server() {
    let registry = registry_with_everything();
    let script = script(&mut registry.connect());
    assert!(
        script.contains("-- The script does not create these roles, which must exist: \"idle\", \"shop\"\n"),
        "{script}"
    );
    let other = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    assert_eq!(run_script(&other, "postgres", &script).unwrap(), "role \"idle\" does not exist");
    let mut client = other.connect();
    assert!(!single::<bool>(&mut client, "SELECT EXISTS (SELECT FROM snowflake_registry.settings)"));
    client.run("CREATE ROLE idle; CREATE ROLE shop LOGIN");
    assert_eq!(run_script(&other, "postgres", &script), None);
    assert_eq!(settings(&mut client), settings(&mut registry.connect()));
    let made =
        "SELECT count(*) FROM pg_roles WHERE rolconfig IS NOT NULL AND rolcanlogin AND rolconnlimit = 10";
    assert_eq!(single::<i64>(&mut client, made), 2);
}

/// What another registry has to know is not known.
#[test]
fn a_registry_that_cannot_be_continued_yet() {
    let registry = super::taker::start_with_fleet(Cluster::builder());
    let mut client = registry.connect();
    let refused = |client: &mut Client, expected: &str| {
        let (code, said) = failure(client, "SELECT snowflake_registry.script_for_another_registry()");
        assert_eq!(code, "55000", "{said}");
        assert!(said.contains(expected), "{said}");
    };
    refused(&mut client, "not frozen until a time");
    administer(&mut client, "freeze()");
    refused(&mut client, "not frozen until a time");
    // The other registry could not start.
    administer(&mut client, "freeze(now() + interval '25 hours')");
    refused(&mut client, "at most 24 hours ahead");
    administer(&mut client, "freeze(now() + interval '1 hour')");
    administer(&mut client, "quarantine()");
    refused(&mut client, "in quarantine");
    administer(&mut client, "end_quarantine()");
    refused(&mut client, "closed segments were granted: \"orders\"");
    administer(&mut client, "drop_segment('orders')");
    refused(&mut client, "closed segments were granted: \"orders\"");
    administer(&mut client, "create_segment('orders')");
    administer(&mut client, "resume_segment('orders', 1000)");
    assert!(script(&mut client).contains("next_value => 1000)"));
}

/// A fleet moves to the other registry under load, server by server. No ID and no number is repeated.
#[test]
fn a_fleet_moves_by_the_script() {
    let many = Cluster::builder().set("max_connections", 100).clock();
    let old = Fleet { registry: Registry::of_both(LASTING_LEASES).start(many.clone()) };
    segments::administer(&old.registry, "create_segment('orders', min_step => 20, max_step => 100)");
    let new =
        Cluster::builder().set("max_connections", 100).clock().extensions(&["snowflake_id_registry"]).start();
    new.connect().run("CREATE ROLE fleet LOGIN");
    let servers: Vec<_> = (0..3).map(|_| old.server_with_clock().start()).collect();
    for server in &servers {
        leased_worker(server);
    }
    let queries = |query: &str| vec![query.to_owned()];
    let clients = servers.iter().flat_map(|server| {
        ["SELECT snowflake_batch(50)", "SELECT -snowflake_segment_nextval('orders')"].map(|query| Taker {
            queries: queries(query),
            returns: true,
            pause: Duration::from_millis(20),
            first: "SET snowflake_id.max_wait = '300ms'".into(),
            ..Taker::of(server)
        })
    });
    let clients = clients.map(|taker| move |stop: &_| taker.take(stop));
    let (all, resumed_at) = beside(clients, || {
        servers.iter().for_each(|server| segments::wait_until_issued(server, 5));
        let mut client = old.registry.connect();
        client.run("SELECT snowflake_registry.freeze(now() + interval '1 hour')");
        assert_eq!(run_script(&new, "postgres", &script(&mut client)), None);
        let resume_at: i64 = single(&mut client, "SELECT resume_at FROM snowflake_registry.segments");
        for server in &servers {
            server.connect().run(&format!(
                "ALTER SYSTEM SET snowflake_id.registry = '{}'",
                new.connection_string("fleet")
            ));
            server.stop_server("fast");
            fs::remove_file(lease_path(server)).unwrap();
            server.start_server();
        }
        let all: Vec<_> = servers.iter().chain([&old.registry, &new]).collect();
        set_clocks(all, 1.1 * 60.0 * 60.0);
        // More than 12 minutes have passed.
        new.connect().run("SELECT snowflake_registry.end_quarantine()");
        for server in &servers {
            leased_worker(server);
            assert_renewed(server);
            assert!(segments::some_at_last(server, "orders", 1)[0] >= resume_at);
            segments::wait_until_issued(server, 5);
        }
        resume_at
    });
    let (numbers, ids): (Vec<i64>, Vec<i64>) = all.concat().into_iter().partition(|id| *id < 0);
    assert_distinct(&ids);
    assert_distinct(&numbers);
    println!("{} IDs and {} numbers", ids.len(), numbers.len());
    assert!(
        numbers.iter().any(|number| -number < resumed_at)
            && numbers.iter().any(|number| -number > resumed_at)
    );
}

/// The registry, its servers and their tables are set back together. The numbers that were granted since then are found
/// nowhere, and the generous number is above them.
#[test]
fn a_site_is_restored() {
    let registry = super::taker::start_with_fleet(Cluster::builder());
    let mut client = registry.connect();
    administer(&mut client, "create_segment('day', period => 'day', digits => 9)");
    let mut member = Member::default();
    for name in ["orders", "day", "orders", "day"] {
        member.granted(&mut client, name);
    }
    let copy = registry.duplicate_in_between();
    drop(client);
    let mut client = registry.connect();
    administer(&mut client, "end_quarantine()");
    let lost: Vec<_> =
        ["orders", "day"].map(|name| Member::default().granted(&mut client, name).last()).into();
    drop(client);
    registry.stop_server("fast");
    copy.start_server();
    let mut client = copy.connect();
    // The administrator knows that the site was restored.
    administer(&mut client, "quarantine()");
    administer(&mut client, "end_quarantine()");
    for (name, lost) in ["orders", "day"].into_iter().zip(lost) {
        let columns =
            "SELECT ARRAY[next_value, generous_resume_at] FROM snowflake_registry.segments WHERE name =";
        let [known, generous] = single::<Vec<i64>>(&mut client, &format!("{columns} '{name}'"))[..] else {
            panic!()
        };
        assert!(known <= lost && lost < generous, "{known} {lost} {generous}");
        administer(&mut client, &format!("resume_segment('{name}', {generous})"));
        assert!(Member::default().granted(&mut client, name).first.unwrap() > lost);
    }
}

/// What servers set by hand is reserved there, so that it is neither granted nor a spare. The other registry also learns what
/// servers report before a second run, although it is in quarantine by then.
#[test]
fn worker_ids_that_are_set_by_hand() {
    let registry = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    let mut client = registry.connect();
    client.run("SELECT snowflake_registry.start_fleet(512, 1023, first_start => true)");
    let request = super::member::Member::new().request_of_an_identity(1024, &[]);
    let said = |by_hand: &str| {
        format!("SELECT snowflake_registry.acquire({request} || '{{\"facts\": {{\"by_hand\": {by_hand}}}}}')")
    };
    client.run("SELECT snowflake_registry.reserve(1000, note => 'spare of s0')");
    client.run(&said("[1023]"));
    client.run("SELECT snowflake_registry.freeze(now() + interval '1 hour')");
    client.run("CREATE DATABASE other");
    let mut other = registry.connect_to("other");
    other.run("CREATE EXTENSION snowflake_id_registry");
    let known = "SELECT string_agg(concat_ws(' ', worker_id, said_by_hand_by, note), '; ' ORDER BY worker_id)
                 FROM snowflake_registry.fleet";
    let by = single::<String>(&mut client, "SELECT '{' || session_user || '}'");
    let reported = format!("{by} reported as set by hand");
    for (by_hand, expected) in [
        ("[]", format!("512 {{}}; 1000 {{}} spare of s0; 1023 {reported}")),
        ("[512, 1000, 1022]", format!("512 {by}; 1000 {by} spare of s0; 1022 {reported}; 1023 {reported}")),
    ] {
        client.run(&said(by_hand));
        let script = script(&mut client);
        assert_eq!(run_script(&registry, "other", &script), None, "{script}");
        assert_eq!(single::<String>(&mut other, known), expected);
    }
    // The times are those of the reports.
    let at = "SELECT array_agg(said_by_hand_at ORDER BY worker_id) FROM snowflake_registry.fleet WHERE worker_id IN (512, 1000, 1023)";
    type Times = Vec<std::time::SystemTime>;
    assert_eq!(single::<Times>(&mut other, at), single::<Times>(&mut client, at));
    // The views could not show this time.
    let beyond =
        "SELECT snowflake_registry.mark_by_hand(7, 0, jsonb_build_object('s0', 9223372036854775807))";
    assert_eq!(failure(&mut other, beyond).0, "22023");
    let (code, said) = failure(&mut other, "SELECT snowflake_registry.mark_by_hand(7, 0, '{\"s0\": \"x\"}')");
    assert_eq!(code, "22023", "{said}");
}
