//! Accidents of the keeper's database: it is made read-only, closed to connections, dropped, deprived of the extension,
//! and configured to end sessions.

use std::thread;
use std::time::Duration;

use harness::*;

/// Takes IDs until the horizon has been extended three times.
fn expect_renewals(client: &mut Client) {
    keeper_pid(client);
    for _ in 0..3 {
        let query = "SELECT horizon FROM snowflake_status";
        let before: std::time::SystemTime = single(client, query);
        eventually("the horizon to be extended", || {
            ids(client, "SELECT snowflake_nextval()");
            single::<std::time::SystemTime>(client, query) > before
        });
    }
    let error: Option<String> = status(client, "last_error");
    assert_eq!(error, None);
}

#[test]
fn the_keepers_database_is_read_only() {
    let cluster = Cluster::builder().worker(1).short_horizon().patient().start();
    let mut client = cluster.connect();
    // The setting in the configuration affects the running keeper, the setting of the database the next one.
    cluster.change_for(&mut client, "default_transaction_read_only", "on");
    expect_renewals(&mut client);
    client.run("BEGIN READ WRITE; ALTER DATABASE postgres SET default_transaction_read_only = on; COMMIT");
    replace_keeper(&mut client);
    expect_renewals(&mut client);
    cluster.stop_server("fast");
    assert!(!cluster.log().contains("read-only"), "{}", cluster.log());
    cluster.start_server();
    expect_renewals(&mut cluster.connect());
}

#[test]
fn the_keepers_database_allows_no_connections() {
    let cluster = Cluster::builder().worker(1).short_horizon().patient().home().stopped();
    let mut client = cluster.start_with_home();
    client.run("ALTER DATABASE home ALLOW_CONNECTIONS false");
    assert!(cluster.try_connect("home").is_err());
    expect_renewals(&mut client);
    replace_keeper(&mut client);
    expect_renewals(&mut client);
    cluster.restart("immediate");
    expect_renewals(&mut cluster.connect());
}

/// DROP EXTENSION removes the stored horizon, while sessions in another database continue. The server still knows its
/// horizon, and a crash repeats no ID, whether it comes at once or after the keeper has stored the horizon again.
#[test]
fn the_extension_is_dropped_and_created_again_under_load() {
    let mut random = Random::seeded();
    let cluster = Cluster::builder().worker(1).short_horizon().clock().start();
    let other = "other";
    cluster.connect().run("CREATE DATABASE other");
    cluster.connect_to(other).run("CREATE EXTENSION snowflake_id");
    keeper_pid(&mut cluster.connect());
    let mut all = Vec::new();
    let mut shift = 0.0;
    for round in 0..4 {
        let (in_one, at_once) = (round % 2 == 0, round < 2);
        println!("round {round}: in one transaction {in_one}, crash at once {at_once}");
        let takers = takers(&cluster, 3).map(|taker| Taker { database: other, ..taker });
        let (taken, ()) = while_taking(takers, || {
            // The clock then goes back by 2 s. This pause is longer than that, less the time by which IDs may be ahead.
            thread::sleep(Duration::from_millis(1_200) + random.milliseconds(600));
            let mut client = cluster.connect();
            let log_before = cluster.log().len();
            if in_one {
                client.run("DROP EXTENSION snowflake_id; CREATE EXTENSION snowflake_id");
            } else {
                client.run("DROP EXTENSION snowflake_id");
                random.pause(200);
                client.run("CREATE EXTENSION snowflake_id");
            }
            if !at_once {
                let stored = "SELECT horizon_us FROM snowflake_internal.horizon WHERE track = 0";
                let promised: i64 = single(&mut client, stored);
                eventually("the horizon to be written again", || {
                    single::<i64>(&mut client, stored) > promised
                });
                // The keeper warns that the horizon was changed by another process, or reports the error that it met
                // meanwhile.
                let log = &cluster.log()[log_before..];
                assert!(log.contains("snowflake_id: "), "{log}");
            }
            cluster.stop_server("immediate");
        });
        all.extend(taken);
        shift -= 2.0;
        cluster.set_clock(shift);
        cluster.start_server();
        keeper_pid(&mut cluster.connect());
        shift = set_clock_as_needed(&cluster);
    }
    let mut client = cluster.connect_to(other);
    client.run("SET snowflake_id.max_wait = '1min'");
    all.extend(ids(&mut client, "SELECT snowflake_batch(100000)"));
    println!("{} IDs", all.len());
    assert_distinct(&all);
}

/// IDs continue when the keeper's session is ended, or is changed to another user.
#[test]
fn settings_of_the_keepers_database_that_would_end_or_change_its_session() {
    let cluster = Cluster::builder().worker(1).short_horizon().start();
    let mut client = cluster.connect();
    client.run("CREATE ROLE mallory");
    let timeouts: &[&str] = &[
        "transaction_timeout = '700ms'",
        "statement_timeout = '1ms'",
        "lock_timeout = '1ms'",
        "exit_on_error = on",
        "default_transaction_isolation = 'serializable'",
        "default_transaction_deferrable = on",
    ];
    for settings in [timeouts, &["role = 'mallory'"], &["session_authorization = 'mallory'"]] {
        for setting in settings {
            match client.batch_execute(&format!("ALTER DATABASE postgres SET {setting}")) {
                Ok(()) => {}
                // This setting does not exist before version 17.
                Err(error) if setting.starts_with("transaction_timeout") => {
                    assert!(text(&error).contains("unrecognized"), "{}", text(&error));
                }
                Err(error) => panic!("{setting}: {}", text(&error)),
            }
        }
        println!("{settings:?}");
        replace_keeper(&mut client);
        expect_renewals(&mut client);
        // While a lock blocks its write, the keeper waits and reports it. Then it continues.
        let mut other = cluster.connect_to("template1");
        other.run("SELECT 1");
        client.run("BEGIN; ALTER MATERIALIZED VIEW snowflake_internal.horizon OWNER TO CURRENT_USER");
        let mut keeper = || -> i32 {
            single(&mut other, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_id keeper'")
        };
        let before = keeper();
        // It soon gives up and starts another attempt.
        eventually("the report", || {
            status::<Option<String>>(&mut client, "last_error")
                .is_some_and(|error| error.contains("lock timeout"))
        });
        thread::sleep(Duration::from_secs(1));
        assert_eq!(before, keeper(), "{settings:?}");
        client.run("ROLLBACK; ALTER DATABASE postgres RESET ALL");
        client.run(
            "SET snowflake_id.max_wait = '1min'; SELECT snowflake_nextval(); RESET snowflake_id.max_wait",
        );
    }
    cluster.stop_server("fast");
}

/// The server's name in `snowflake_workers` is not ASCII, and the database has another encoding than the configuration.
#[test]
fn the_keepers_database_is_not_in_utf8() {
    let cluster = Cluster::builder().preload().home().set("snowflake_id.node_name", "köln").stopped();
    cluster.start_server();
    let mut client = cluster.connect();
    client.run("CREATE DATABASE home ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let mut home = cluster.connect_to("home");
    home.run("CREATE SCHEMA \"grün\"; CREATE EXTENSION snowflake_id SCHEMA \"grün\"");
    home.run("INSERT INTO \"grün\".snowflake_workers (node_name, worker_id) VALUES ('köln', 5)");
    eventually("an ID", || home.batch_execute("SELECT \"grün\".snowflake_nextval()").ok());
    assert_eq!(single::<i32>(&mut home, "SELECT \"grün\".snowflake_worker(\"grün\".snowflake_currval())"), 5);
}

/// Another row of `snowflake_workers` contains a name that cannot be converted to UTF-8. This server ignores it.
#[test]
fn a_name_of_another_server_that_no_other_encoding_has() {
    let cluster = Cluster::builder().preload().home().set("snowflake_id.node_name", "서울").stopped();
    cluster.start_server();
    let mut client = cluster.connect();
    client.run("CREATE DATABASE home ENCODING 'EUC_KR' LOCALE 'C' TEMPLATE template0");
    let mut home = cluster.connect_to("home");
    home.run("CREATE EXTENSION snowflake_id");
    home.run(
        "INSERT INTO snowflake_workers (node_name, worker_id)
         VALUES (convert_from('\\xfefe', 'EUC_KR'), 4), ('서울', 5)",
    );
    eventually("an ID", || home.batch_execute("SELECT snowflake_nextval()").ok());
    assert_eq!(single::<i32>(&mut home, "SELECT snowflake_worker(snowflake_currval())"), 5);
}

/// All statements of one message form one transaction. The keeper sees the extension only after it is committed, so
/// waiting does not help.
#[test]
fn ids_in_the_transaction_that_creates_the_extension() {
    let cluster = Cluster::builder().worker(1).home().extensions(&[]).start();
    cluster.connect().run("CREATE DATABASE home");
    let mut home = cluster.connect_to("home");
    for statements in [
        "CREATE EXTENSION snowflake_id; SELECT snowflake_nextval()",
        "BEGIN; SAVEPOINT one; CREATE EXTENSION snowflake_id; RELEASE one; SELECT snowflake_batch(2)",
        "ROLLBACK; CREATE EXTENSION snowflake_id; SELECT snowflake_raise_floor(now())",
    ] {
        let (code, said) = failure(&mut home, statements);
        assert_eq!(code, "55000", "{said}");
        assert!(
            said.contains("created in this transaction") && said.contains("Commit the transaction first"),
            "{said}"
        );
    }
    // In another database the cause is not the open transaction.
    let (code, said) =
        failure(&mut cluster.connect(), "CREATE EXTENSION snowflake_id; SELECT snowflake_nextval()");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("does not exist in database \"home\"") && !said.contains("Commit"), "{said}");
    home.run("CREATE EXTENSION snowflake_id");
    wait_for_first_id(&mut home);
}

/// The keeper's database can be dropped by force. IDs then end on the whole server when the horizon is reached, and
/// resume when there is such a database again.
#[test]
fn the_keepers_database_is_dropped_by_force() {
    let cluster = Cluster::builder().worker(1).short_horizon().home().stopped();
    let mut client = cluster.start_with_home();
    let mut all = ids(&mut client, "SELECT snowflake_batch(100000)");
    client.run("DROP DATABASE home WITH (FORCE)");
    client.run("SET snowflake_id.max_wait = '100ms'");
    let message = wait_for_refusal(&mut client).1;
    println!("{message}");
    eventually("the state", || {
        let state = server_state(&mut client);
        assert_ne!(state, "ready");
        let error: Option<String> = status(&mut client, "last_error");
        error.is_some_and(|error| error.contains("could not connect to database \"home\""))
    });
    client.run("CREATE DATABASE home");
    cluster.connect_to("home").run("CREATE EXTENSION snowflake_id");
    wait_for_first_id(&mut client);
    client.run("SET snowflake_id.max_wait = '1min'");
    all.extend(ids(&mut client, "SELECT snowflake_batch(100000)"));
    assert_increasing(&all);
}

/// The keeper's database is created from the former one, and its horizon stays behind. The clock is set back by less than
/// `max_ahead` later.
#[test]
fn the_keepers_database_is_a_copy_of_the_former_one() {
    let cluster = Cluster::builder().worker(1).short_horizon().home().clock();
    let cluster = cluster.stopped();
    drop(cluster.start_with_home());
    let restart_with = |database: &str| {
        cluster.stop_server("fast");
        cluster.configure(&[("snowflake_id.database", database)]);
        cluster.start_server();
    };
    // A database with sessions cannot be copied.
    restart_with("postgres");
    cluster.connect_to("template1").run("CREATE DATABASE newer WITH TEMPLATE home");
    restart_with("home");
    let mut client = cluster.connect();
    let begin: f64 = single(&mut client, "SELECT extract(epoch FROM clock_timestamp())::float8");
    client.run("SET snowflake_id.max_wait = '1min'");
    let mut all = ids(&mut client, "SELECT snowflake_batch(100000) UNION ALL SELECT snowflake_batch(100000)");
    let last = "SELECT extract(epoch FROM snowflake_timestamp(max(id)) - clock_timestamp())::float8 FROM unnest($1::bigint[]) AS id";
    assert!(client.query_one(last, &[&all]).unwrap().get::<_, f64>(0) < 2.0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    cluster.stop_server("immediate");
    cluster.configure(&[("snowflake_id.database", "newer"), ("snowflake_id.max_ahead", "30s")]);
    cluster.set_clock(begin - now - 5.0);
    cluster.start_server();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    client.run("SET snowflake_id.max_wait = '1min'");
    // Until the clock has passed the time of the first IDs again.
    let is_past = format!("SELECT extract(epoch FROM clock_timestamp()) > {begin} + 1");
    while !single::<bool>(&mut client, &is_past) {
        all.extend(ids(&mut client, "SELECT snowflake_batch(20000)"));
    }
    println!("{} IDs", all.len());
    assert_distinct(&all);
}
