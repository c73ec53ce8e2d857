//! `snowflake_check()` reports the state and the settings of a server, and says what to run.

use harness::book::{quoted, read, rows, section};
use harness::check::*;
use harness::*;

use crate::book::messages::tokens::{self, Token};
use crate::book::messages::{Level, Message, is_instance, messages};

fn durable() -> Builder {
    Cluster::builder().set("fsync", "on")
}

/// Waits until there is only this problem.
#[track_caller]
fn wait_for_problem(client: &mut Client, expected: &str) -> Problem {
    eventually(expected, || {
        let problems = problems(client);
        (problems.len() == 1 && problems[0].problem == expected).then(|| problems[0].clone())
    })
}

#[track_caller]
fn wait_for_health(client: &mut Client) {
    eventually("no problem", || problems(client).is_empty());
}

/// A server is set up by nothing but the hints.
#[test]
fn from_an_empty_server_to_ids() {
    let cluster = durable().start();
    let mut client = cluster.connect();
    let problem = only_problem(&mut client);
    assert_eq!(problem.problem, "snowflake_id is not in shared_preload_libraries");
    problem.follow_hint(&mut client);
    cluster.restart("fast");
    let mut client = cluster.connect();
    let problem = wait_for_problem(&mut client, "this server issues no IDs: no worker id");
    assert!(problem.detail.contains("in database \"postgres\""), "{problem:?}");
    problem.with_number(7).follow_hint(&mut client);
    wait_for_health(&mut client);
    wait_for_first_id(&mut client);
}

/// The other libraries remain in the list.
#[test]
fn a_list_of_libraries() {
    let libraries = "plpgsql, \"pgoutput\"";
    let cluster = durable().set("shared_preload_libraries", libraries).start();
    let mut client = cluster.connect();
    only_problem(&mut client).follow_hint(&mut client);
    cluster.restart("fast");
    let listed: String = single(&mut cluster.connect(), "SHOW shared_preload_libraries");
    assert_eq!(listed, "plpgsql, pgoutput, snowflake_id");
}

/// Without the library in memory, tables and types are checked all the same.
#[test]
fn tables_without_preloading() {
    let cluster = durable().start();
    let mut client = cluster.connect();
    client.run(
        "CREATE TABLE orders (id int DEFAULT snowflake_nextval()); CREATE DOMAIN order_id AS snowflake DEFAULT 7;
         CREATE TABLE posts (id bigint DEFAULT snowflake_nextval());
         INSERT INTO posts VALUES (snowflake_encode(now(), 1, 1, 'twitter'))",
    );
    let found: Vec<_> = problems(&mut client).into_iter().map(|problem| problem.problem).collect();
    assert_eq!(
        found,
        [
            "snowflake_id is not in shared_preload_libraries",
            "column id of table public.orders cannot hold IDs",
            "domain public.order_id prevents pg_upgrade",
            "column id of table public.posts contains IDs of another layout",
        ]
    );
}

#[test]
fn identities_that_do_not_fit_the_layout() {
    let cluster = durable().worker(5000).start();
    let mut client = cluster.connect();
    wait_for_problem(&mut client, "this server issues no IDs: worker id too large")
        .with_number(1)
        .follow_hint(&mut client);
    wait_for_health(&mut client);
    cluster.stop_server("fast");
    std::fs::remove_file(cluster.data_dir().join("postgresql.auto.conf")).unwrap();
    cluster.configure(&[("snowflake_id.worker_id", "2"), ("snowflake_id.datacenter_id", "3")]);
    cluster.start_server();
    let mut client = cluster.connect();
    wait_for_problem(&mut client, "this server issues no IDs: datacenter id too large")
        .with_number(0)
        .follow_hint(&mut client);
    wait_for_health(&mut client);
}

#[test]
fn settings() {
    let cluster = durable().worker(1).start();
    let mut client = cluster.connect();
    wait_for_health(&mut client);
    client.run("ALTER SYSTEM SET fsync = off");
    client.run("SELECT pg_reload_conf()");
    wait_for_problem(&mut client, "fsync is off").follow_hint(&mut client);
    wait_for_health(&mut client);
    // A server that has not been restarted.
    client.run("ALTER SYSTEM SET snowflake_id.max_segments = 50");
    client.run("SELECT pg_reload_conf()");
    let name = "setting snowflake_id.max_segments takes effect when the server is restarted";
    assert_eq!(wait_for_problem(&mut client, name).hint, "Restart the server.");
    cluster.restart("fast");
    let mut client = cluster.connect();
    wait_for_health(&mut client);
    // A value that is not valid, whose text is not shown, and a name that does not exist.
    cluster.change("snowflake_id.layout", "secret");
    let problem =
        wait_for_problem(&mut client, "setting snowflake_id.layout in the configuration files is not valid");
    assert!(!problem.detail.contains("secret") && problem.detail.contains("postgresql.conf"), "{problem:?}");
    assert!(problem.hint.starts_with("Correct this line"), "{problem:?}");
    cluster.configure(&[("snowflake_id.layout", "standard")]);
    problem.follow_hint(&mut client);
    wait_for_health(&mut client);
    cluster.change("snowflake_id.worker", "3");
    let problem =
        wait_for_problem(&mut client, "setting snowflake_id.worker in the configuration files is not valid");
    assert!(problem.hint.contains("snowflake_id.worker_id"), "{problem:?}");
}

#[test]
fn clocks_that_were_set() {
    let cluster =
        durable().worker(1).set("snowflake_id.max_clock_jump", "10s").short_horizon().clock().start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    cluster.set_clock(3600.0);
    let _ = client.batch_execute("SELECT snowflake_nextval()");
    wait_for_problem(&mut client, "this server issues no IDs: clock jumped").follow_hint(&mut client);
    wait_for_health(&mut client);
    wait_for_first_id(&mut client);
    cluster.set_clock(0.0);
    let problem = wait_for_problem(&mut client, "this server issues no IDs: clock behind");
    assert!(problem.detail.starts_with("IDs can be issued again at "), "{problem:?}");
    cluster.set_clock(3601.0);
    wait_for_health(&mut client);
}

/// Each state in the manual has a hint of its own.
#[test]
fn each_state_has_a_remedy() {
    let page = read("docs/run/when-it-fails.md");
    let section = section(&page, "State of a server");
    let states: Vec<_> = rows(section)
        .flat_map(|cells| quoted(cells[0]))
        .filter(|state| !["state", "ready", "recovery"].contains(state))
        .collect();
    assert!(states.len() >= 12, "{states:?}");
    let script = read("sql/parts/check.sql");
    let (_, remedies) = script.split_once("remedy (state, hint) AS (").unwrap();
    let (remedies, _) = remedies.split_once("\n    )\n").unwrap();
    for state in states {
        assert!(remedies.contains(&format!("('{state}',")), "{state}");
    }
}

/// Each problem in the sources is the result of a broken set-up in these tests, except one that would take 30 s.
#[test]
fn each_problem_is_tested() {
    const SOURCES: [&str; 2] = ["sql/parts/check.sql", "src/check.rs"];
    const UNTESTED: &str = "the registry did not reply in time";
    let is_problem = |message: &Message| message.level == Level::Part && SOURCES.contains(&&*message.path);
    let mut problems: Vec<_> =
        messages().into_iter().filter(is_problem).map(|message| message.text).collect();
    // A part of a detail.
    problems
        .retain(|problem| !problem.starts_with("snowflake_id.worker_id is not set") && problem != UNTESTED);
    assert!(problems.len() >= 25, "{problems:?}");
    let tests = ["hostile", "registry", "server", "standby", "tables"];
    let mut tests = tests.map(|name| format!("tests/cluster/tests/check/{name}.rs")).to_vec();
    tests.push("tests/cluster/tests/fleet/hands.rs".into());
    let tokens: Vec<_> = tests.iter().flat_map(|path| tokens::rust(&read(path))).collect();
    // Statements contain literals, too.
    let literals: Vec<_> =
        tokens.iter().filter_map(Token::literal).flat_map(|literal| literal.split('\'')).collect();
    for problem in problems {
        assert!(literals.iter().any(|literal| is_instance(literal, &problem, false)), "{problem}");
    }
}

/// A warning of the keeper, and a keeper that cannot work.
#[test]
fn the_keepers_database() {
    let cluster = durable().worker(1).set("snowflake_id.database", "home").start();
    let mut client = cluster.connect();
    // Between two attempts, there is no keeper.
    let is_told = |problem: &Problem| {
        problem.problem.starts_with("this server issues no IDs: ") && problem.detail.contains("\"home\"")
    };
    eventually("the cause", || problems(&mut client).iter().any(is_told));
    client.run("CREATE ROLE mallory");
    client.run("CREATE DATABASE home OWNER mallory");
    cluster.connect_to("home").run("CREATE EXTENSION snowflake_id");
    let problem = wait_for_problem(&mut client, "the server reports a warning");
    assert!(problem.detail.contains("owned by a role that is not a superuser"), "{problem:?}");
    client.run("ALTER DATABASE home OWNER TO test");
    replace_keeper(&mut client);
    wait_for_health(&mut client);
    // The rows are in the other database, and its tables are checked there.
    let mut home = cluster.connect_to("home");
    assert_healthy(&mut home);
    home.run("CREATE TABLE orders (id int DEFAULT snowflake_nextval())");
    only_problem(&mut home);
    assert_healthy(&mut client);
}

/// Only roles that a superuser has chosen may call it, in a read-only transaction too.
#[test]
fn who_may_call_it() {
    let cluster = durable().worker(1).start();
    let mut client = cluster.connect();
    wait_for_health(&mut client);
    client.run("CREATE ROLE watcher IN ROLE pg_monitor; CREATE ROLE other; CREATE TABLE orders (id int DEFAULT snowflake_nextval())");
    client.run("SET ROLE watcher");
    assert_eq!(failure(&mut client, "SELECT snowflake_check()").0, "42501");
    client.run("RESET ROLE; GRANT EXECUTE ON FUNCTION snowflake_check() TO watcher");
    client.run("SET ROLE watcher; BEGIN TRANSACTION READ ONLY");
    only_problem(&mut client);
    client.run("COMMIT; SET ROLE other");
    assert_eq!(failure(&mut client, "SELECT snowflake_check()").0, "42501");
}
