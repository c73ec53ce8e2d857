//! `snowflake_check()` asks the registry, with the connection code of the registry worker: problems of the connection, and
//! problems that the registry itself sees.

use std::thread;
use std::time::{Duration, Instant};

use harness::check::*;
use harness::network::{Fault, Proxy, unused_port};
use harness::*;

/// A server that takes the place of a registry: its function returns the rows of a table, and the request as detail.
const STAND_IN: &str = "
    CREATE ROLE fleet LOGIN;
    CREATE SCHEMA snowflake_registry;
    CREATE TABLE snowflake_registry.problem (problem text, hint text);
    CREATE FUNCTION snowflake_registry.check_server(request jsonb DEFAULT '{}')
    RETURNS TABLE (problem text, detail text, hint text) LANGUAGE sql SECURITY DEFINER AS $$
        SELECT problem, request::text, hint FROM snowflake_registry.problem
    $$;
    REVOKE EXECUTE ON FUNCTION snowflake_registry.check_server(jsonb) FROM PUBLIC;";

const GRANTS: &str = "GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
    GRANT EXECUTE ON FUNCTION snowflake_registry.check_server(jsonb) TO fleet;";

fn server(registry: &str) -> (Cluster, Client) {
    let server =
        Cluster::builder().preload().set("fsync", "on").set("snowflake_id.registry", registry).start();
    let client = server.connect();
    (server, client)
}

/// Changes the connection string, and returns the only problem.
#[track_caller]
fn with_string(server: &Cluster, client: &mut Client, string: &str) -> Problem {
    server.change_for(client, "snowflake_id.registry", string);
    only_problem(client)
}

#[test]
fn each_problem_of_the_connection() {
    let registry = Cluster::builder().extensions(&[]).start();
    let mut admin = registry.connect();
    let host = format!("host={}", registry.host().display());
    let unreachable = format!("host=127.0.0.1 port={} user=fleet dbname=postgres", unused_port());
    let (server, mut client) = server(&unreachable);

    let problem = only_problem(&mut client);
    assert_eq!(problem.problem, "the registry cannot be reached");
    assert!(problem.hint.contains("host and port"), "{problem:?}");

    let login = with_string(&server, &mut client, &format!("{host} user=fleet dbname=postgres"));
    assert_eq!(login.problem, "the registry rejects the connection of this server");
    assert!(login.detail.contains("\"fleet\""), "{login:?}");

    admin.run("CREATE ROLE fleet LOGIN");
    let database = with_string(&server, &mut client, &format!("{host} user=fleet dbname=nowhere"));
    assert_eq!(database.problem, "the registry rejects the connection of this server");
    assert!(database.detail.contains("\"nowhere\""), "{database:?}");

    let nothing = with_string(&server, &mut client, &format!("{host} user=fleet dbname=postgres"));
    assert_eq!(nothing.problem, "the database contains no registry, or an old one");

    admin.run(&STAND_IN.replace("CREATE ROLE fleet LOGIN;", ""));
    let denied = only_problem(&mut client);
    assert_eq!(denied.problem, "the role of this server lacks a privilege in the registry");
    assert!(denied.detail.contains("GRANT USAGE ON SCHEMA snowflake_registry TO \"fleet\""), "{denied:?}");

    admin.run(GRANTS);
    // The stand-in grants no lease.
    let state = only_problem(&mut client);
    assert_eq!(state.problem, "this server issues no IDs: no lease");
}

/// The registry's rows are returned as they are, and it is told which worker IDs are set by hand. Others are explained by
/// them, and are not repeated.
#[test]
fn problems_that_the_registry_sees() {
    let registry = Cluster::builder().extensions(&[]).start();
    let mut admin = registry.connect();
    admin.run(STAND_IN);
    admin.run(GRANTS);
    admin.run("INSERT INTO snowflake_registry.problem VALUES ('worker ID 600 is in the pool', E'Run:\\t...'), ('second', NULL)");
    let (server, mut client) = server(&registry.connection_string("fleet"));
    server.change_for(&mut client, "snowflake_id.node_name", "here");
    client.run("INSERT INTO snowflake_workers (node_name, worker_id) SELECT 'w' || n, n FROM generate_series(0, 20) AS n");
    client.run("INSERT INTO snowflake_workers (node_name, worker_id, datacenter_id) VALUES ('here', 600, 0), ('there', 601, 3)");
    let found = problems(&mut client);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(found[0].problem, "worker ID 600 is in the pool");
    assert!(!found[0].hint.contains('\t'), "{found:#?}");
    assert!(found[0].detail.contains("\"by_hand\": [600, 0, 1, 2, 3, 4, 5, 6]"), "{found:#?}");
    let clock = "SELECT abs((detail::jsonb->>'clock')::float8 / 1e6 - extract(epoch FROM now())) < 60
                        AND (detail::jsonb->>'datacenter')::int = 0 AND (detail::jsonb->>'worker_limit')::int > 0
                        AND (detail::jsonb->>'protocol')::int > 0
                 FROM snowflake_check() LIMIT 1";
    assert!(single::<bool>(&mut client, clock), "{found:#?}");
    server.change_for(&mut client, "snowflake_id.worker_id", "700");
    assert!(problems(&mut client)[0].detail.contains("\"by_hand\": [700, 600, 0, 1, 2, 3, 4, 5]"));
    // A problem of a worker ID by hand is not the reason why the server has no lease.
    admin.run("DELETE FROM snowflake_registry.problem WHERE problem = 'second'");
    let found: Vec<_> = problems(&mut client).into_iter().map(|row| row.problem).collect();
    assert_eq!(found, ["worker ID 600 is in the pool", "this server issues no IDs: no lease"]);
    // Another database has no rows for the keeper.
    client.run("CREATE DATABASE other");
    let mut other = server.connect_to("other");
    other.run("CREATE EXTENSION snowflake_id");
    assert!(problems(&mut other)[0].detail.contains("\"by_hand\": [700],"));
}

/// A fleet in which nothing is wrong, and a role that may not ask.
#[test]
fn a_healthy_fleet() {
    let fleet = Fleet::start(LASTING_LEASES);
    let mut admin = fleet.registry.connect();
    admin.run("GRANT EXECUTE ON FUNCTION snowflake_registry.check_server(jsonb) TO fleet");
    let server = fleet.server().set("fsync", "on").start();
    leased_worker(&server);
    let mut client = server.connect();
    assert_healthy(&mut client);
    admin.run("REVOKE ALL ON FUNCTION snowflake_registry.check_server(jsonb) FROM fleet, PUBLIC");
    let denied = only_problem(&mut client);
    assert_eq!(denied.problem, "the role of this server lacks a privilege in the registry");
    assert!(denied.detail.contains("check_server"), "{denied:?}");
    admin.run("GRANT EXECUTE ON FUNCTION snowflake_registry.check_server(jsonb) TO fleet");
    assert_healthy(&mut client);
}

/// The problems of a registry do not explain why this server does not use it.
#[test]
fn a_state_that_the_registry_cannot_explain() {
    let (fleet, other) = (Fleet::start(LASTING_LEASES), Fleet::start(LASTING_LEASES));
    let server = fleet.server().set("fsync", "on").start();
    leased_worker(&server);
    server.change("snowflake_id.registry", &other.connection_string());
    let mut client = server.connect();
    let rows = "SELECT coalesce(string_agg(problem, '; '), '') FROM snowflake_internal.check_state(true)";
    let expected = "the registry grants no lease: another registry";
    eventually("the row", || single::<String>(&mut client, rows).contains(expected));
}

/// A worker ID that is set by hand is in the pool of the registry. It is reserved, and the server gets another one.
#[test]
fn a_worker_id_by_hand_in_the_pool() {
    let fleet = Fleet::start(LASTING_LEASES);
    let mut admin = fleet.registry.connect();
    admin.run("GRANT EXECUTE ON FUNCTION snowflake_registry.check_server(jsonb) TO fleet");
    let server = fleet.server().set("fsync", "on").start();
    leased_worker(&server);
    let mut client = server.connect();
    client.run("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('there', 37)");
    let problem = only_problem(&mut client);
    assert!(problem.problem.starts_with("worker ID 37 is set by hand"), "{problem:?}");
    assert!(problem.hint.contains("snowflake_registry.reserve(37, 0)"), "{problem:?}");
    admin.run("SELECT snowflake_registry.reserve(37, 0)");
    assert_healthy(&mut client);
}

/// A worker ID that is set by hand is no problem while the server continues to use it. Then it has no effect any more.
#[test]
fn a_worker_id_by_hand_that_stays_set() {
    let fleet = Fleet::start(LASTING_LEASES);
    fleet.registry.connect().run("GRANT EXECUTE ON FUNCTION snowflake_registry.check_server(jsonb) TO fleet");
    let server = Cluster::builder().worker(7).set("fsync", "on").start();
    let mut client = server.connect();
    wait_for_first_id(&mut client);
    client.run(
        "INSERT INTO snowflake_workers (node_name, worker_id) SELECT node_name, 8 FROM snowflake_status",
    );
    assert_healthy(&mut client);
    server.change("snowflake_id.registry", &fleet.connection_string());
    eventually("the lease", || shown(&mut client, "identity_source").as_deref() == Some("registry"));
    for (worker, others) in [(7, 1), (8, 0)] {
        let name = "a worker ID is set by hand, but the server uses a lease";
        let problem = eventually("the row", || {
            let said = |problem: &Problem| {
                problem.problem == name && problem.detail.contains(&format!("worker ID {worker},"))
            };
            problems(&mut client).into_iter().find(said)
        });
        if others > 0 {
            problem.follow_hint(&mut client);
        } else {
            assert!(problem.hint.starts_with("Remove the row of this server from snowflake_workers"));
            client.run("DELETE FROM snowflake_workers");
        }
    }
    eventually("no problem", || problems(&mut client).is_empty());
    // By mistake, the server returns to its old configuration. It has left the worker ID for the registry.
    client.run("ALTER SYSTEM SET snowflake_id.worker_id = 7");
    server.configure(&[("snowflake_id.registry", "")]);
    server.restart("fast");
    let mut client = server.connect();
    let refused = |problem: &Problem| problem.problem == "this server issues no IDs: worker id refused";
    let problem = eventually("the refusal", || problems(&mut client).into_iter().find(refused));
    assert!(problem.detail.starts_with("worker ID 7 belongs to registry "), "{problem:?}");
    assert!(problem.hint.starts_with("Set snowflake_id.registry if this server"), "{problem:?}");
    server.change("snowflake_id.registry", &fleet.connection_string());
    eventually("the lease", || !problems(&mut client).iter().any(refused));
}

/// What the server has used under its lease is not known any more, and the registry cannot be asked for another one. A
/// worker ID by hand would be no remedy.
#[test]
fn a_lease_that_may_have_been_used() {
    let fleet = Fleet::start(LASTING_LEASES);
    let server = fleet.server().set("fsync", "on").start();
    let worker = leased_worker(&server);
    fleet.registry.stop_server("fast");
    server.stop_server("fast");
    server.configure(&[("snowflake_id.database", "home")]);
    server.start_server();
    // The keeper has not found the records at its start.
    eventually("the end of the keeper", || server.log().contains("exited with exit code 1"));
    server.connect().run("CREATE DATABASE home");
    let mut home = server.connect_to("home");
    home.run("CREATE EXTENSION snowflake_id");
    let expected = format!("this server may have used worker ID {worker} for times up to ");
    eventually("the refusal", || server.log().contains(&expected));
    assert!(server.log().contains("or until the registry leases another worker ID to it"));
    // The state is "worker id refused" until the server gives up the lease, which can be at once.
    let found = problems(&mut home);
    assert!(!found.is_empty());
    for problem in found {
        assert!(!problem.detail.contains("worker_id") && !problem.hint.contains("worker ID"), "{problem:?}");
    }
    fleet.registry.start_server();
    eventually("another lease", || server_state(&mut home) == "ready");
    assert_ne!(leased_worker(&server), worker);
}

/// The clock was ahead when the server stored its horizon, so it cannot use its lease. Longer leases help.
#[test]
fn a_horizon_beyond_the_lease() {
    // Another worker ID would start at the current time.
    let fleet = Fleet::start(&format!("{LONG_LEASES}, first_worker => 1, last_worker => 1"));
    let mut admin = fleet.registry.connect();
    let server = Cluster::builder().worker(1).set("fsync", "on").following_clock().start();
    let mut client = server.connect();
    server.set_clock(2700.0);
    let is_ahead = "SELECT snowflake_timestamp(snowflake_nextval()) > now() - interval '1 minute'";
    eventually("IDs of later", || single::<bool>(&mut client, is_ahead));
    server.set_clock(0.0);
    server.change("snowflake_id.worker_id", "-1");
    server.change("snowflake_id.registry", &fleet.connection_string());
    let beyond = |problem: &Problem| problem.problem == "the horizon is beyond the end of the lease";
    let problem = eventually("the problem", || problems(&mut client).into_iter().find(beyond));
    problem.follow_hint(&mut admin);
    eventually("a longer lease", || !problems(&mut client).iter().any(beyond));
}

/// The lease was revoked, but the server may still use it. The stand-in of the check explains nothing.
#[test]
fn a_lease_that_is_not_renewed() {
    let fleet = Fleet::start(LASTING_LEASES);
    let mut admin = fleet.registry.connect();
    let server = fleet.server().set("fsync", "on").start();
    leased_worker(&server);
    admin.run(
        "CREATE OR REPLACE FUNCTION snowflake_registry.check_server(request jsonb DEFAULT '{}')
         RETURNS TABLE (problem text, detail text, hint text)
         LANGUAGE sql AS 'SELECT NULL, NULL, NULL WHERE false'; GRANT EXECUTE ON FUNCTION snowflake_registry.check_server TO fleet",
    );
    let mut client = server.connect();
    assert_healthy(&mut client);
    admin.run("REVOKE EXECUTE ON FUNCTION snowflake_registry.renew FROM fleet");
    let problem = eventually("the problem", || problems(&mut client).into_iter().next());
    assert_eq!(problem.problem, "the registry grants no lease: permission denied");
    let (_, statements) = problem.detail.split_once("registry: GRANT").unwrap();
    admin.run(&format!("GRANT{statements}"));
    eventually("the renewal", || problems(&mut client).is_empty());
}

/// A registry that does not reply: the call ends, can be canceled, and the session goes on.
#[test]
fn a_registry_that_is_silent() {
    let registry = Cluster::builder().extensions(&[]).start();
    registry.connect().run(STAND_IN);
    registry.connect().run(GRANTS);
    let proxy = Proxy::to(&registry);
    proxy.set_fault(Fault::Silence);
    let (server, mut client) = server(&format!("{} connect_timeout=3", proxy.connection_string()));
    let start = Instant::now();
    let problem = only_problem(&mut client);
    assert_eq!(problem.problem, "the registry cannot be reached");
    assert_within(Duration::from_secs(3) + SLACK, start.elapsed(), "the call");

    server.change_for(
        &mut client,
        "snowflake_id.registry",
        &format!("{} connect_timeout=20", proxy.connection_string()),
    );
    let canceler = client.cancel_token();
    let pid: i32 = single(&mut client, "SELECT pg_backend_pid()");
    let mut other = server.connect();
    let canceled = thread::spawn(move || {
        let waits = format!(
            "SELECT wait_event IS NOT NULL FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'"
        );
        eventually("the call to wait", || {
            other.query_one(&waits, &[]).map(|row| row.get::<_, bool>(0)).unwrap_or(false)
        });
        canceler.cancel_query(postgres::NoTls).unwrap();
    });
    let start = Instant::now();
    assert_eq!(failure(&mut client, "SELECT snowflake_check()").0, "57014");
    assert_within(SLACK, start.elapsed(), "the end of the call");
    canceled.join().unwrap();
    // The user is told that a thread of the session is still connecting. The rest is checked.
    let log = server.log();
    assert!(log.contains("a thread of this session is still connecting to the registry"), "{log}");
    let found: Vec<_> = problems(&mut client).into_iter().map(|row| row.problem).collect();
    assert_eq!(found, ["the registry was not checked", "this server issues no IDs: no lease"]);
    // Its end does not harm the server.
    drop(client);
    eventually("the end of the session", || {
        single::<bool>(
            &mut server.connect(),
            &format!("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid})"),
        )
    });
    assert!(!server.log().contains("terminated by signal"), "{}", server.log());
    proxy.set_fault(Fault::NoAnswer);
    server.change("snowflake_id.registry", &proxy.connection_string());
    let mut client = server.connect();
    let start = Instant::now();
    let problem = only_problem(&mut client);
    assert_eq!(problem.problem, "the registry replied with an error");
    assert!(problem.detail.contains("no reply within"), "{problem:?}");
    assert_within(Duration::from_secs(15) + SLACK, start.elapsed(), "the call");
}

/// A server that is no registry may answer anything.
#[test]
fn nonsense_and_secrets() {
    let registry = Cluster::builder().extensions(&[]).start();
    let mut admin = registry.connect();
    admin.run(STAND_IN);
    admin.run(GRANTS);
    admin.run(
        "INSERT INTO snowflake_registry.problem SELECT repeat('x', 600), repeat(E'a\\n', 300) FROM generate_series(1, 60)",
    );
    let (server, mut client) = server(&registry.connection_string("fleet"));
    let found = problems(&mut client);
    assert_eq!(found.len(), 50);
    assert!(
        found.iter().all(|row| row.problem.len() <= 500 && row.hint.len() <= 500 && !row.hint.contains('\n'))
    );
    admin.run("TRUNCATE snowflake_registry.problem; INSERT INTO snowflake_registry.problem VALUES (repeat('x', 10000))");
    assert_eq!(only_problem(&mut client).problem, "the registry replied with an error");
    // The check hook refuses a password in the string, and none is shown of a password file.
    let passwords = server.write_private("passwords", "*:*:*:*:topsecret\n");
    registry.change("password_encryption", "scram-sha-256");
    admin.run("ALTER ROLE fleet PASSWORD 'another'");
    let hba = registry.data_dir().join("pg_hba.conf");
    let lines = std::fs::read_to_string(&hba).unwrap();
    std::fs::write(&hba, format!("local all fleet scram-sha-256\n{lines}")).unwrap();
    registry.reload();
    let string = format!("{} passfile={}", registry.connection_string("fleet"), passwords.display());
    server.change_for(&mut client, "snowflake_id.registry", &string);
    let rejected = eventually("the rejection", || {
        let found = problems(&mut client);
        found.into_iter().find(|row| row.detail.contains("password authentication failed"))
    });
    assert!(!format!("{rejected:?}").contains("topsecret"), "{rejected:?}");
}
