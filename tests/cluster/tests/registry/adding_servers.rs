//! `add_server()`, with the lines that it prints as they are, and `check_server()`.

use std::io::Write;
use std::process::{Command, Stdio};

use harness::*;

use super::member::Member;

/// A name that each language in which it is printed would misread without quotes.
const HOSTILE: &str = r#"a"; DROP ROLE s0; -- $(rm) \ `x` '%s%%"#;

/// A registry with a pool, whose fleet was not started yet.
fn registry() -> Cluster {
    let registry = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    registry.connect().run("SELECT snowflake_registry.configure(first_worker => 512, last_worker => 1023)");
    registry
}

/// Starts the fleet of a registry, which has no servers yet.
const START: &str = "SELECT snowflake_registry.start_fleet(first_start => true)";

/// The lines that a call of `add_server()` returns.
#[track_caller]
fn add_server(client: &mut Client, name: &str, more: &str) -> Vec<String> {
    let rows = client.query(&format!("SELECT snowflake_registry.add_server($1{more})"), &[&name]);
    rows.unwrap_or_else(|error| panic!("{}", text(&error))).iter().map(|row| row.get(0)).collect()
}

/// The error of a call of `add_server()`.
#[track_caller]
fn refusal(client: &mut Client, name: &str) -> (String, String) {
    let error = client.query("SELECT snowflake_registry.add_server($1)", &[&name]).unwrap_err();
    (error.code().unwrap().code().into(), text(&error))
}

/// The spare worker ID in the lines of `add_server()`.
fn spare(lines: &[String]) -> Option<i32> {
    let line =
        lines.iter().find_map(|line| line.strip_prefix("-- ALTER SYSTEM SET snowflake_id.worker_id = "))?;
    Some(line.trim_end_matches(';').parse().unwrap())
}

/// Runs a program that must succeed. Returns what it prints.
#[track_caller]
fn output(command: &mut Command, input: &str) -> String {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A program that reads no input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs each line at its place, after replacing the two words that are to be replaced.
#[track_caller]
fn run_lines(lines: &[String], registry: &Cluster, server: &Cluster) {
    let programs = ask_pg_config(&pg_config(), "--bindir");
    let mut run = 0;
    for line in lines.iter().filter(|line| !line.starts_with(['-', '#'])) {
        let line = line
            .replace("REGISTRY", registry.host().to_str().unwrap())
            .replace("PASSFILE", server.host().join("pass").to_str().unwrap());
        if line.starts_with("psql ") {
            let script = format!("PATH='{programs}':\"$PATH\" LC_ALL=C\n{line}");
            let said = output(
                as_server_user("/bin/sh".as_ref()).args(["-c", &script]).current_dir(server.host()),
                "",
            );
            assert!(said.ends_with("(0 rows)\n\n"), "{said}");
        } else {
            let place = if line.starts_with('\\') { registry } else { server };
            // Without a terminal, psql reads a new password from its input.
            let mut psql = as_server_user("setsid".as_ref());
            psql.arg("--wait").arg(format!("{programs}/psql")).arg("--host").arg(place.host());
            psql.args(["--username=test", "--dbname=postgres", "-v", "ON_ERROR_STOP=1", "-c", &line]);
            output(psql.current_dir(place.host()), "secret\nsecret\n");
        }
        run += 1;
    }
    assert_eq!(run, 4, "{lines:?}");
}

/// Two servers follow the lines. Both get a worker ID, by their own role, with a password.
#[test]
fn two_servers_are_added() {
    let registry = registry();
    let mut client = registry.connect();
    client.run(START);
    client.run("SELECT snowflake_registry.configure(renew_every => '300ms')");
    for (name, number) in [("s0", 0), (HOSTILE, 1)] {
        let server = Cluster::builder().preload().start();
        let lines = add_server(&mut client, name, "");
        assert_eq!(spare(&lines), Some(1023 - number), "{lines:?}");
        run_lines(&lines, &registry, &server);
        assert_eq!(leased_worker(&server), 512 + number);
        let row = client
            .query_one(
                "SELECT role, node_name IS NOT NULL FROM snowflake_registry.fleet WHERE worker_id = $1",
                &[&(512 + number)],
            )
            .unwrap();
        assert_eq!(row.get::<_, &str>(0), name);
        let password = "SELECT rolpassword LIKE 'SCRAM%' FROM pg_authid WHERE rolname = $1";
        assert!(client.query_one(password, &[&name]).unwrap().get::<_, bool>(0));
        // The lines are the same again, and change nothing.
        assert_eq!(add_server(&mut client, name, ""), lines);
        run_lines(&lines, &registry, &server);
        assert_renewed(&server);
    }
    assert_eq!(
        single::<i64>(&mut client, "SELECT count(*) FROM snowflake_registry.fleet WHERE state = 'reserved'"),
        2
    );
}

/// The role has the privileges and the settings of a server, and a second call changes them to what it is told.
#[test]
fn a_role_is_completed() {
    let registry = registry();
    let mut client = registry.connect();
    client.run("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC");
    let may = "SELECT concat_ws(' ', rolconnlimit, has_database_privilege(oid, 'postgres', 'CONNECT'),
                   has_function_privilege(oid, 'snowflake_registry.acquire(jsonb)', 'EXECUTE'),
                   has_function_privilege(oid, 'snowflake_registry.renew(jsonb)', 'EXECUTE'),
                   has_function_privilege(oid, 'snowflake_registry.check_server(jsonb)', 'EXECUTE'),
                   has_function_privilege(oid, 'snowflake_registry.take(jsonb)', 'EXECUTE'),
                   rolconfig::text)
               FROM pg_roles WHERE rolname = 's0'";
    let settings = |idle: i32| {
        format!(
            "{{statement_timeout=10s,idle_in_transaction_session_timeout=5s,idle_session_timeout={idle}s,\
             \"default_transaction_isolation=read committed\",default_transaction_read_only=off}}"
        )
    };
    add_server(&mut client, "s0", "");
    assert_eq!(single::<String>(&mut client, may), format!("10 t t t t t {}", settings(600)));
    client.run("SELECT snowflake_registry.configure(lease => '1 hour', renew_every => '20 minutes')");
    client.run("REVOKE EXECUTE ON FUNCTION snowflake_registry.renew FROM s0");
    add_server(&mut client, "s0", ", takes_numbers => false, connection_limit => 3");
    assert_eq!(single::<String>(&mut client, may), format!("3 t t t t f {}", settings(2400)));
    // Without arguments, what was set before stays.
    client.run("SET lock_timeout = '7s'; BEGIN");
    add_server(&mut client, "s0", "");
    assert_eq!(single::<String>(&mut client, "SHOW lock_timeout"), "7s");
    client.run("COMMIT");
    assert_eq!(single::<String>(&mut client, may), format!("3 t t t t f {}", settings(2400)));
    client.run("CREATE ROLE takers ROLE s0; GRANT EXECUTE ON FUNCTION snowflake_registry.take TO takers");
    let lines = add_server(&mut client, "s0", ", takes_numbers => false");
    assert!(lines[0].contains("can still take numbers: PUBLIC or a group"), "{lines:?}");
    // Nor does the owner revoke what another role has granted.
    client.run(
        "DROP OWNED BY takers; DROP ROLE takers; CREATE ROLE grantor;
         GRANT USAGE ON SCHEMA snowflake_registry TO grantor;
         GRANT EXECUTE ON FUNCTION snowflake_registry.take TO grantor WITH GRANT OPTION;
         SET SESSION AUTHORIZATION grantor;
         GRANT EXECUTE ON FUNCTION snowflake_registry.take TO s0;
         RESET SESSION AUTHORIZATION",
    );
    let lines = add_server(&mut client, "s0", ", takes_numbers => false");
    assert!(lines[0].contains("a role other than the owner of the registry granted it"), "{lines:?}");
    // Nobody else can call the function, not even a role that may create roles.
    client.run("SET SESSION AUTHORIZATION s0");
    assert_eq!(refusal(&mut client, "s1").0, "42501");
    client.run(
        "RESET SESSION AUTHORIZATION; CREATE ROLE other CREATEROLE; GRANT USAGE ON SCHEMA snowflake_registry TO other;
         GRANT EXECUTE ON FUNCTION snowflake_registry.add_server TO other; SET ROLE other",
    );
    let (code, said) = refusal(&mut client, "s9");
    assert_eq!(code, "42501");
    assert!(said.starts_with("must be owner of the registry"), "{said}");
}

/// The owner of the registry need not be a superuser.
#[test]
fn an_owner_who_may_create_roles() {
    let registry = Cluster::builder().extensions(&[]).start();
    registry.connect().run("CREATE ROLE keeper LOGIN CREATEROLE");
    registry.connect().run("CREATE DATABASE \"it's = here\" OWNER keeper");
    let mut client = registry.connect_to("it's = here");
    client.run("SET SESSION AUTHORIZATION keeper; CREATE EXTENSION snowflake_id_registry");
    client.run("SELECT snowflake_registry.configure(first_worker => 512, last_worker => 1023)");
    client.run(START);
    let lines = add_server(&mut client, "s0", "");
    assert_eq!(add_server(&mut client, "s0", ""), lines);
    let server = Cluster::builder().preload().start();
    run_lines(&lines, &registry, &server);
    assert_eq!(leased_worker(&server), 512);
    // Only who may create roles can call it.
    client
        .run("RESET SESSION AUTHORIZATION; ALTER ROLE keeper NOCREATEROLE; SET SESSION AUTHORIZATION keeper");
    assert_eq!(refusal(&mut client, "s1").0, "42501");
}

/// The settings of a server's role would interrupt the sessions of other roles.
#[test]
fn other_roles_are_refused() {
    let registry = registry();
    let mut client = registry.connect();
    client.run(
        "CREATE ROLE app LOGIN; CREATE ROLE maker LOGIN CREATEDB; CREATE ROLE holder LOGIN; CREATE ROLE member LOGIN IN ROLE test;
         CREATE ROLE fleet; CREATE ROLE locked IN ROLE fleet; CREATE ROLE server LOGIN IN ROLE fleet;
         GRANT CREATE ON SCHEMA public TO holder; SET ROLE holder; CREATE TABLE public.things (); RESET ROLE;
         GRANT EXECUTE ON FUNCTION snowflake_registry.acquire TO maker, holder, member, fleet",
    );
    for name in ["test", "pg_monitor", "app", "maker", "holder", "member"] {
        let (code, said) = refusal(&mut client, name);
        assert_eq!(code, "42710", "{said}");
        assert!(said.starts_with(&format!("role {name} is not the role of a server\n")), "{said}");
    }
    for name in ["fleet", "locked"] {
        assert_eq!(refusal(&mut client, name).0, "55000");
    }
    for name in ["", "two\nlines", "é".repeat(32).as_str()] {
        let (code, said) = refusal(&mut client, name);
        assert_eq!(code, "22023", "{said}");
    }
    let error = "SELECT snowflake_registry.add_server('new', datacenter_id => NULL)";
    assert_eq!(failure(&mut client, error).0, "22004");
    let unchanged = "SELECT count(*) FROM pg_roles WHERE rolconfig IS NOT NULL OR rolname IN ('new', '')";
    assert_eq!(single::<i64>(&mut client, unchanged), 0);
    // An earlier member of the fleet is completed, and so is a role for which the hint was followed.
    add_server(&mut client, "server", "");
    client.run("GRANT EXECUTE ON FUNCTION snowflake_registry.acquire TO app");
    add_server(&mut client, "app", "");
}

#[test]
fn a_spare_is_reserved_once() {
    let registry = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    let mut client = registry.connect();
    // There is no pool yet, and then a quarantine, in which a worker ID may have been granted that is not known.
    let lines = add_server(&mut client, "s0", "");
    assert!(
        lines
            .iter()
            .any(|line| line.contains("No spare worker ID was reserved: the registry has no pool yet"))
    );
    client.run("SELECT snowflake_registry.start_fleet(2, 4)");
    let lines = add_server(&mut client, "s0", "");
    assert!(lines.iter().any(|line| line.contains("during a quarantine")), "{lines:?}");
    client.run("SELECT snowflake_registry.end_quarantine()");
    // Only in the pool: worker IDs below it may be used by hand without the knowledge of the registry.
    let spares = ["s0", "s1", "s2", "s3", "s0"].map(|name| spare(&add_server(&mut client, name, "")));
    assert_eq!(spares, [Some(4), Some(3), Some(2), None, Some(4)]);
    // In each datacenter, and none that was leased.
    assert_eq!(spare(&add_server(&mut client, "s0", ", datacenter_id => 7")), Some(4));
    client.run("SELECT snowflake_registry.configure(last_worker => 6, none_by_hand => true)");
    assert_eq!(Member::new().acquire(&mut client, 1024).unwrap().worker, Some(5));
    assert_eq!(spare(&add_server(&mut client, "s3", "")), Some(6));
    // The administrator has reserved another one, because the first one was used.
    client.run("SELECT snowflake_registry.reserve(70, note => 'spare of s0')");
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(70));
}

/// A server reports that its configuration sets the spare by hand, after it has used it. The spare is outside the pool by
/// then, and is still used up.
#[test]
fn a_used_spare_is_replaced() {
    let registry = registry();
    let mut client = registry.connect();
    client.run(START);
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(1023));
    client.run("SELECT snowflake_registry.configure(last_worker => 900)");
    client.run("SET SESSION AUTHORIZATION s0");
    let request = Member::new().request_of_an_identity(1024, &[]);
    client.run(&format!(
        "SELECT snowflake_registry.acquire({request} || '{{\"facts\": {{\"by_hand\": [1023, 1022]}}}}')"
    ));
    client.run("RESET SESSION AUTHORIZATION");
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(900));
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(900));
    let known = "SELECT count(*) FROM snowflake_registry.fleet WHERE worker_id = 1022";
    assert_eq!(single::<i64>(&mut client, known), 0, "a worker ID outside the pool adds no row");
}

/// The other registry knows from the script which spares are used up.
#[test]
fn a_used_spare_on_another_registry() {
    let registry = registry();
    let mut client = registry.connect();
    client.run(START);
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(1023));
    client.run("SET SESSION AUTHORIZATION s0");
    let request = Member::new().request_of_an_identity(1024, &[]);
    client.run(&format!(
        "SELECT snowflake_registry.acquire({request} || '{{\"facts\": {{\"by_hand\": [1023]}}}}')"
    ));
    client.run("RESET SESSION AUTHORIZATION");
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(1022));
    // A server with another role says that it has used this one.
    let request = Member::new().request_of_an_identity(1024, &[]);
    client.run(&format!(
        "SELECT snowflake_registry.acquire({request} || '{{\"facts\": {{\"by_hand\": [1022]}}}}')"
    ));
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(1021));
    client.run("SELECT snowflake_registry.freeze(clock_timestamp() + '10 minutes')");
    let script = client.query("SELECT snowflake_registry.script_for_another_registry()", &[]).unwrap();
    let script: Vec<String> = script.iter().map(|row| row.get(0)).collect();
    let other = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    let mut other_client = other.connect();
    other_client.run(&script.join("\n"));
    let lines = add_server(&mut other_client, "s0", "");
    assert_eq!(spare(&lines), Some(1021), "{lines:?}");
    let other_role: String = single(&mut client, "SELECT session_user::text");
    let used = format!("again: 1022 (reported by \"{other_role}\"), 1023 (reported by \"s0\").");
    assert!(lines.iter().any(|line| line.starts_with("-- Used up") && line.ends_with(&used)), "{lines:?}");
}

/// Another server may lease the worker ID of a spare for another datacenter ID, so the lines set both, and name the call for
/// a spare with the datacenter ID of the last lease.
#[test]
fn a_spare_has_a_datacenter_id() {
    let registry = registry();
    let mut client = registry.connect();
    client.run("SELECT snowflake_registry.configure(last_datacenter => 3)");
    client.run(START);
    let has = |lines: &[String], wanted: &str| lines.iter().any(|line| line == wanted);
    let call = "-- SELECT snowflake_registry.add_server('s0', datacenter_id => 3);";
    let lines = add_server(&mut client, "s0", "");
    assert!(
        has(&lines, "-- ALTER SYSTEM SET snowflake_id.datacenter_id = 0;") && !has(&lines, call),
        "{lines:?}"
    );
    client.run("SET SESSION AUTHORIZATION s0");
    let request = Member::new().request_of_an_identity(1024, &[]);
    client.run(&format!(
        "SELECT snowflake_registry.acquire(jsonb_set({request}, '{{needs,datacenter}}', '3'))"
    ));
    let problem =
        "SELECT concat_ws(' ', problem, hint) FROM snowflake_registry.check_server('{\"datacenter\": 3}')";
    let problem: String = single(&mut client, problem);
    assert!(problem.contains("is for datacenter ID 0") && problem.contains(&call[3..]), "{problem}");
    client.run("RESET SESSION AUTHORIZATION");
    assert!(has(&add_server(&mut client, "s0", ""), call));
    let lines = add_server(&mut client, "s0", ", datacenter_id => 3");
    assert!(
        has(&lines, "-- ALTER SYSTEM SET snowflake_id.datacenter_id = 3;") && !has(&lines, call),
        "{lines:?}"
    );
}

/// A server that returns to its former lease only renews it. It names its spare then, once an hour, and waits for nothing.
#[test]
fn a_spare_that_a_renewal_names() {
    let registry = registry();
    let mut client = registry.connect();
    client.run(START);
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(1023));
    client.run("SET SESSION AUTHORIZATION s0");
    let mut member = super::member::granted(&mut client);
    let mut renew = |client: &mut Client, by_hand: &str| {
        let ids = format!("'last_nonce', '{}', 'next_nonce', '{}'", member.nonce, member.nonce);
        let facts = format!("'facts', '{{\"by_hand\": {by_hand}}}'::jsonb");
        let request = member.request(&member.tokens(), &format!("{ids}, {facts}"));
        let answer =
            member.ask(client, &format!("SELECT * FROM snowflake_registry.renew({request})")).unwrap();
        assert_eq!(answer.outcome, "granted");
    };
    let said = "SELECT coalesce(string_agg(worker_id || ' ' || xmin, ' '), '') FROM snowflake_registry.lease
                WHERE said_by_hand IS NOT NULL";
    let mut owner = registry.connect();
    // Only spares: other worker IDs are reported with the next request for a lease.
    renew(&mut client, "[7, 512, 600]");
    assert_eq!(single::<String>(&mut owner, said), "");
    owner.run("BEGIN; SELECT FROM snowflake_registry.lease WHERE worker_id = 1023 FOR UPDATE");
    renew(&mut client, "[1023]");
    owner.run("COMMIT");
    assert_eq!(single::<String>(&mut owner, said), "");
    renew(&mut client, "[1023]");
    let first = single::<String>(&mut owner, said);
    assert!(first.starts_with("1023 "), "{first}");
    renew(&mut client, "[1023]");
    assert_eq!(single::<String>(&mut owner, said), first, "the row was written again");
    let lines = add_server(&mut owner, "s0", "");
    assert_eq!(spare(&lines), Some(1022));
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("-- Used up") && line.ends_with(": 1023 (reported by \"s0\").")),
        "{lines:?}"
    );
}

/// A pool may be larger than the layouts of the servers. A spare is in the default layout, and, when the server has had a
/// lease, in the layout of the server.
#[test]
fn a_spare_fits_the_layout() {
    let registry = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    let mut client = registry.connect();
    client.run("SELECT snowflake_registry.start_fleet(0, 2147483647, first_start => true)");
    for (name, limit, first, fitting) in
        [("s0", 1024, 1023, 1023), ("wide", 64, 1022, 63), ("sonyflake", 65536, 1021, 1021)]
    {
        assert_eq!(spare(&add_server(&mut client, name, "")), Some(first));
        client.run(&format!("SET SESSION AUTHORIZATION {name}"));
        assert_eq!(Member::new().acquire(&mut client, limit).unwrap().outcome, "granted");
        client.run("RESET SESSION AUTHORIZATION");
        assert_eq!(spare(&add_server(&mut client, name, "")), Some(fitting));
    }
    // A pool that the default layout has not.
    let registry = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    let mut client = registry.connect();
    client.run("SELECT snowflake_registry.start_fleet(2000, 3000, first_start => true)");
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(3000));
}

/// Two administrators never get the same spare.
#[test]
fn spares_of_two_sessions() {
    let registry = registry();
    let mut client = registry.connect();
    client.run(START);
    client.run("BEGIN");
    assert_eq!(spare(&add_server(&mut client, "s0", "")), Some(1023));
    let mut other = registry.connect();
    let beside = std::thread::spawn(move || spare(&add_server(&mut other, "s1", "")));
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)";
    let mut observer = registry.connect();
    eventually("the other session waits for the lock", || single::<bool>(&mut observer, waits));
    client.run("COMMIT");
    assert_eq!(beside.join().unwrap(), Some(1022));
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.reserve(1023, note => 'spare of s1')");
    assert_eq!(code, "55000");
    assert!(said.contains("Its note is: spare of s0"), "{said}");
    assert_eq!(failure(&mut client, "SELECT snowflake_registry.reserve(1023)").0, "55000");
    client.run("SELECT snowflake_registry.reserve(1023, note => 'spare of s0')");
}

/// The problems that a role finds, each with what helps.
#[track_caller]
fn problems(client: &mut Client, role: &str, request: &str) -> Vec<(String, String)> {
    client.run(&format!("SET SESSION AUTHORIZATION {role}; BEGIN"));
    let rows = client
        .query("SELECT problem, hint FROM snowflake_registry.check_server($1::text::jsonb)", &[&request])
        .unwrap();
    assert!(!single::<bool>(client, "SELECT pg_current_xact_id_if_assigned() IS NOT NULL"));
    client.run("COMMIT; RESET SESSION AUTHORIZATION");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Finds exactly one problem, which begins with this text. Returns what helps.
#[track_caller]
fn problem(client: &mut Client, role: &str, request: &str, expected: &str) -> String {
    match &problems(client, role, request)[..] {
        [(problem, hint)] if problem.starts_with(expected) => hint.clone(),
        found => panic!("{expected}: {found:?}"),
    }
}

/// The statement in a hint.
fn statement(hint: &str) -> &str {
    let begin = hint.find("SELECT").or_else(|| hint.find("GRANT")).or_else(|| hint.find("ALTER")).unwrap();
    hint[begin..].split_once(';').unwrap().0
}

/// Each problem disappears when the hint is followed.
#[test]
fn problems_and_what_helps() {
    let registry = Cluster::builder().extensions(&["snowflake_id_registry"]).start();
    let mut client = registry.connect();
    add_server(&mut client, "s0", ", takes_numbers => false");
    add_server(&mut client, "s1", "");
    let solve = |client: &mut Client, request: &str, expected: &str| {
        let hint = problem(client, "s0", request, expected);
        client.run(statement(&hint));
        assert_eq!(problems(client, "s0", request), [], "{hint}");
    };
    let hint = problem(
        &mut client,
        "s0",
        "{}",
        "the registry grants no worker IDs, because its fleet was not started",
    );
    client.run(statement(&hint));
    solve(&mut client, "{}", "the registry grants no worker IDs before 20");
    client.run("SELECT snowflake_registry.freeze()");
    solve(&mut client, "{}", "the registry is frozen");
    client.run("SELECT snowflake_registry.create_segment('orders')");
    solve(&mut client, "{}", "role s0 may not take numbers of segments");
    client.run("REVOKE EXECUTE ON FUNCTION snowflake_registry.renew FROM s0");
    solve(&mut client, "{}", "role s0 may not acquire and renew a lease");
    client.run("SELECT snowflake_registry.configure(last_datacenter => 1)");
    solve(&mut client, "{\"datacenter\": 2}", "the registry grants no worker IDs for datacenter 2");
    solve(
        &mut client,
        "{\"by_hand\": [7, 600, 511]}",
        "worker ID 600 is set by hand, and the registry may lease it",
    );
    for (request, expected) in [
        ("{\"clock\": 1700000000000000}", "the clock of the server is "),
        ("{\"protocol\": 999}", "the registry does not know protocol 999"),
        ("{\"worker_limit\": 512}", "no worker ID is free for the server"),
    ] {
        problem(&mut client, "s0", request, expected);
    }
    let now: i64 = single(&mut client, "SELECT extract(epoch FROM now())::bigint");
    let request = format!("{{\"clock\": {now}000000, \"protocol\": 1, \"worker_limit\": 1024}}");
    assert_eq!(problems(&mut client, "s0", &request), []);
    for wrong in ["[]", "{\"clock\": 1.5}", "{\"datacenter\": -1}", "{\"worker_limit\": \"x\"}"] {
        let call = format!("SELECT snowflake_registry.check_server('{wrong}')");
        assert_eq!(failure(&mut client, &call).0, "22023", "{wrong}");
    }
    client.run("BEGIN READ ONLY");
    let first = "SELECT problem FROM snowflake_registry.check_server()";
    assert_eq!(single::<String>(&mut client, first), "transactions are read-only");
    client.run("ROLLBACK; BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(single::<String>(&mut client, first), "the isolation level is serializable");
}

/// Numbers that servers hold, also outside the pool, and numbers that are reserved for roles.
#[test]
fn worker_ids_of_others() {
    let registry = registry();
    let mut client = registry.connect();
    client.run(START);
    for role in ["s0", "s1"] {
        add_server(&mut client, role, "");
    }
    let acquire = |client: &mut Client, role: &str| {
        client.run(&format!("SET SESSION AUTHORIZATION {role}"));
        let member = super::member::granted(client);
        client.run("RESET SESSION AUTHORIZATION");
        member
    };
    acquire(&mut client, "s0");
    let leased = "worker ID 512 is set by hand, and is leased to another role";
    problem(&mut client, "s1", "{\"by_hand\": [512]}", leased);
    assert_eq!(problems(&mut client, "s0", "{\"by_hand\": [512]}"), []);
    // The lease may be that of another server that shares the role.
    acquire(&mut client, "s0");
    let leased_by_either = "worker ID 512 is set by hand, and is leased to a server with the same role";
    problem(&mut client, "s0", "{\"by_hand\": [512]}", leased_by_either);
    client.run("SELECT snowflake_registry.revoke_lease(513)");
    assert_eq!(problems(&mut client, "s0", "{\"by_hand\": [512]}"), []);
    client.run("SELECT snowflake_registry.configure(first_worker => 514, last_worker => 516)");
    problem(&mut client, "s1", "{\"by_hand\": [512]}", leased);

    // A reserved worker ID is the only one that its role gets.
    client.run("SELECT snowflake_registry.reserve(700, used_by => 's1'), snowflake_registry.reserve(514, used_by => 's1')");
    problem(
        &mut client,
        "s0",
        "{\"by_hand\": [700]}",
        "worker ID 700 is set by hand, and is reserved for another role",
    );
    assert_eq!(problems(&mut client, "s1", "{\"by_hand\": [700]}"), []);
    problem(&mut client, "s1", "{\"worker_limit\": 514}", "no worker ID is free for the server");
    // The one that the configuration sets is the one that the server would get, if it fits the layout.
    assert_eq!(problems(&mut client, "s1", "{\"by_hand\": [700], \"worker_limit\": 600}"), []);
    acquire(&mut client, "s1");
    // A holder needs no other worker ID. Others find none.
    add_server(&mut client, "s2", "");
    acquire(&mut client, "s2");
    for role in ["s0", "s1", "s2"] {
        assert_eq!(problems(&mut client, role, "{}"), []);
    }
    add_server(&mut client, "s3", "");
    problem(&mut client, "s3", "{}", "no worker ID is free for the server");
    // Nor does a start of the registry or a quarantine stop a holder.
    client.run("SELECT snowflake_registry.quarantine()");
    assert_eq!(problems(&mut client, "s2", "{}"), []);
    assert_eq!(problems(&mut client, "s3", "{}").len(), 2);
    drop(client);
    registry.restart("fast");
    let mut client = registry.connect();
    client.run("SELECT snowflake_registry.end_quarantine()");
    drop(client);
    registry.restart("fast");
    let mut client = registry.connect();
    let found = problems(&mut client, "s3", "{}");
    assert!(found[0].0.starts_with("the registry grants no worker IDs before"), "{found:?}");
}

/// Two servers that set the same reserved worker ID by hand. What one of them has reported is shown for a day.
#[test]
fn a_worker_id_by_hand_of_two_roles() {
    let registry = Cluster::builder().clock().extensions(&["snowflake_id_registry"]).start();
    let mut client = registry.connect();
    client.run("SELECT snowflake_registry.start_fleet(512, 1023, first_start => true)");
    client.run("SELECT snowflake_registry.reserve(600)");
    let by_hand = "{\"by_hand\": [600]}";
    for role in ["s0", "s1"] {
        add_server(&mut client, role, "");
        let request = Member::new().request_of_an_identity(1024, &[]);
        client.run(&format!(
            "SET SESSION AUTHORIZATION {role};
             SELECT snowflake_registry.acquire({request} || '{{\"facts\": {by_hand}}}');
             RESET SESSION AUTHORIZATION"
        ));
        assert_eq!(problems(&mut client, role, by_hand).len(), usize::from(role == "s1"));
    }
    let expected = "worker ID 600 is set by hand, and a server with another role has reported the same";
    problem(&mut client, "s0", by_hand, expected);
    let detail = "SELECT detail FROM snowflake_registry.check_server('{\"by_hand\": [600]}')
                  WHERE problem LIKE '%same'";
    client.run("SET SESSION AUTHORIZATION s0");
    let detail: String = single(&mut client, detail);
    assert!(detail.starts_with("A server with role \"s1\" reported this at 20"), "{detail}");
    client.run("RESET SESSION AUTHORIZATION");
    registry.set_clock(86_500.0);
    assert_eq!(problems(&mut client, "s0", by_hand), []);
}

#[test]
fn a_standby_is_recognized() {
    let registry = registry();
    add_server(&mut registry.connect(), "s0", "");
    let standby = registry.start_standby(&[]);
    let query = "SELECT problem || ' ' || hint FROM snowflake_registry.check_server()";
    let mut client = Client::connect(&standby.connection_string("s0"), postgres::NoTls).unwrap();
    let said = single::<String>(&mut client, query);
    assert!(said.starts_with("the connection leads to a standby of the registry"), "{said}");
    assert!(said.contains("target_session_attrs=read-write"), "{said}");
}
