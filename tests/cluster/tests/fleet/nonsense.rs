//! The functions of the registry are replaced, and return invalid replies.

use std::time::{Duration, Instant};

use harness::*;

/// Each invalid reply is refused, and the server continues under its lease.
#[test]
fn the_registry_answers_nonsense() {
    let fleet = Fleet::start("lease => '10min', renew_every => '200ms'");
    let mut registry = fleet.registry.connect();
    let server = fleet.server().start();
    let worker = leased_worker(&server);
    let mut client = server.connect();
    let mut all = vec![];
    registry.run(
        "CREATE SCHEMA kept;
         ALTER FUNCTION snowflake_registry.renew SET SCHEMA kept;
         ALTER FUNCTION snowflake_registry.acquire SET SCHEMA kept;",
    );
    registry.run(&fake("SELECT * FROM answer(NULL)"));
    let newcomer = fleet.server().start();
    let least = i64::MIN;
    let most = i64::MAX;
    let not_understood = "the registry's reply is not valid";
    // Columns that are left out are NULL.
    let answers: Vec<(String, &str)> = vec![
        ("outcome => NULL".into(), not_understood),
        ("outcome => 'maybe'".into(), not_understood),
        ("outcome => 'granted'".into(), not_understood),
        (format!("outcome => 'granted', worker => -1, since => 1, til => {most} - 1"), not_understood),
        (
            format!("outcome => 'granted', worker => 2147483648, since => 1, til => {most} - 1"),
            not_understood,
        ),
        (format!("outcome => 'granted', worker => 5, since => 1, til => {most}"), not_understood),
        (format!("outcome => 'granted', worker => 5, since => ({least}), til => -1"), not_understood),
        (format!("outcome => 'clock', registry_clock => ({least})"), "differ by"),
        (format!("outcome => 'clock', registry_clock => {most}"), "differ by"),
        (
            format!("outcome => 'taken', free_from => {most}, lease => ({least}), renew_every => ({least})"),
            "year 294247",
        ),
        (
            format!("outcome => 'taken', free_from => ({least}), lease => {most}, renew_every => {most}"),
            "year -290307",
        ),
        (
            format!("outcome => 'taken', registry_clock => ({least}), renew_every => 0, lease => 0"),
            "no worker ID",
        ),
        ("outcome => 'quarantine', renew_every => 0, lease => 0".into(), "cannot be renewed now"),
        (
            "outcome => 'foreign', registry_id => 'deadbeef-0000-0000-0000-000000000000'".into(),
            "the last lease was granted by another registry",
        ),
        ("outcome => 'registry too old'".into(), "the registry is too old for this server"),
        (
            format!(
                "outcome => 'caller too old', worker => 5, since => 1, til => {most} - 1, lease => ({least})"
            ),
            "this server is too old for the registry",
        ),
        ("outcome => 'registry too old', detail => repeat('2', 7000)".into(), "(2222"),
        ("outcome => 'taken', detail => repeat('Lorem ipsum %s \u{1F600} ', 100)".into(), "Lorem ipsum %s"),
        (
            "outcome => 'taken', detail => repeat('Lorem ipsum %s \u{1F600} ', 500000)".into(),
            "a value is too long",
        ),
        ("outcome => repeat('granted', 1000000)".into(), "a value is too long"),
        ("outcome => 'taken', detail => E'no\\n\\x1b[31mFATAL:  a lie'".into(), "no  [31mFATAL:  a lie"),
    ];
    let answers = answers.iter().map(|(answer, said)| (format!("SELECT * FROM answer({answer})"), *said));
    let rows = [
        ("SELECT * FROM answer('granted') LIMIT 0", "did not reply with exactly one row"),
        (
            "SELECT a.* FROM answer('granted') AS a, generate_series(1, 2)",
            "did not reply with exactly one row",
        ),
        (
            "SELECT a.* FROM answer('granted') AS a, generate_series(1, 300000)",
            "the registry's reply is too long",
        ),
        ("SELECT 1 / 0", "division by zero"),
    ];
    for (body, said) in answers.chain(rows.map(|(body, said)| (body.to_owned(), said))) {
        registry.run(&fake(&body));
        // Asking twice shows that the first reply did no harm.
        for _ in 0..2 {
            let before = ["renew", "acquire"].map(|function| calls(&mut registry, function));
            [&server, &newcomer].into_iter().for_each(|server| ask_now(server, &fleet.connection_string()));
            eventually(&body, || {
                calls(&mut registry, "renew") > before[0] && calls(&mut registry, "acquire") > before[1]
            });
        }
        all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
        wait_for_error(&newcomer, said);
        assert_eq!(failure(&mut newcomer.connect(), "SELECT snowflake_nextval()").0, "55000", "{body}");
    }
    // A lease with another range does not replace the lease in hand. The server continues under that lease, and also
    // requests another worker ID.
    let far_ahead = format!("outcome => 'granted', worker => 5, since => {most} - 1, til => {most} - 1");
    registry.run(&fake(&format!("SELECT * FROM answer({far_ahead})")));
    [&server, &newcomer].into_iter().for_each(|server| ask_now(server, &fleet.connection_string()));
    for server in [&server, &newcomer] {
        wait_for_error(server, "granted an invalid range");
    }
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    // The server asks no more often than the shortest interval that a registry can configure.
    registry.run(&fake("SELECT * FROM answer('taken', renew_every => -1, lease => -1)"));
    ask_now(&newcomer, &fleet.connection_string());
    let before = calls(&mut registry, "acquire");
    let start = Instant::now();
    eventually("more questions", || calls(&mut registry, "acquire") >= before + 4);
    assert!(start.elapsed() > Duration::from_millis(250), "asked four times in {:?}", start.elapsed());
    assert_eq!(leased_worker(&server), worker);
    assert!(lease_left(&mut client) < Duration::from_secs(600), "nonsense was believed");
    for server in [&server, &newcomer] {
        let log = server.log();
        assert!(!log.contains("panicked") && !log.contains("terminated by signal"), "{log}");
        assert!(!log.contains("attempt to") && !log.contains('\u{1b}'), "{log}");
        let longest = log.lines().map(str::len).max().unwrap();
        assert!(longest < 10_000, "a line of {longest} bytes in the log");
    }
    // A registry that grants nothing does not become the registry of this server, whatever registry ID it sends.
    let stranger = "outcome => 'quarantine', registry_id => 'deadbeef-0000-0000-0000-000000000000'";
    registry.run(&fake(&format!("SELECT * FROM answer({stranger})")));
    for server in [&server, &newcomer] {
        ask_now(server, &fleet.connection_string());
        wait_for_error(server, "cannot be renewed now");
    }
    registry.run(
        "DROP FUNCTION snowflake_registry.renew, snowflake_registry.acquire;
         ALTER FUNCTION kept.renew SET SCHEMA snowflake_registry;
         ALTER FUNCTION kept.acquire SET SCHEMA snowflake_registry;",
    );
    [&server, &newcomer].into_iter().for_each(|server| ask_now(server, &fleet.connection_string()));
    assert_renewed(&server);
    assert_ne!(leased_worker(&newcomer), leased_worker(&server));
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    all.extend(ids(&mut newcomer.connect(), "SELECT snowflake_batch(1000)"));
    assert_distinct(&all);
}

/// Replaces the functions of the registry by functions that count their calls and return something else.
fn fake(body: &str) -> String {
    format!(
        "CREATE SEQUENCE IF NOT EXISTS kept.acquire_calls;
         CREATE SEQUENCE IF NOT EXISTS kept.renew_calls;
         SET search_path = kept, snowflake_registry, public;
         DROP FUNCTION IF EXISTS snowflake_registry.renew, snowflake_registry.acquire;
         CREATE OR REPLACE FUNCTION kept.answer(
             outcome text, worker bigint DEFAULT NULL, since bigint DEFAULT NULL, til bigint DEFAULT NULL,
             registry_id uuid DEFAULT NULL, registry_clock bigint DEFAULT 1,
             lease bigint DEFAULT 1, renew_every bigint DEFAULT 1, free_from bigint DEFAULT NULL,
             detail text DEFAULT NULL,
             OUT outcome text, OUT surplus text, OUT datacenter_id bigint, OUT worker_id bigint,
             OUT granted_from bigint, OUT granted_until bigint, OUT registry_id uuid,
             OUT registry_clock bigint, OUT lease bigint, OUT renew_every bigint, OUT free_from bigint,
             OUT detail text, OUT token text)
         LANGUAGE sql AS
         'SELECT $1, NULL::text, 0::bigint, $2, $3, $4, coalesce($5, s.registry_id), $6, $7, $8, $9, $10, ''signed''::text
          FROM (SELECT registry_id FROM snowflake_registry.settings) AS s';
         {}
         {}
         GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew TO fleet;
         RESET search_path;",
        fake_function("acquire", body),
        fake_function("renew", body),
    )
}

fn fake_function(name: &str, body: &str) -> String {
    format!(
        "CREATE FUNCTION snowflake_registry.{name}(jsonb)
         RETURNS TABLE (outcome text, surplus text, datacenter_id bigint, worker_id bigint, granted_from bigint,
             granted_until bigint, registry_id uuid, registry_clock bigint, lease bigint,
             renew_every bigint, free_from bigint, detail text, token text)
         SECURITY DEFINER SET search_path = kept, snowflake_registry, public
         LANGUAGE plpgsql AS $fake$
         #variable_conflict use_column
         BEGIN
             PERFORM nextval('kept.{name}_calls');
             RETURN QUERY {body};
         END $fake$;"
    )
}

/// How often a function made by [`fake`] was called.
fn calls(registry: &mut Client, function: &str) -> i64 {
    single(registry, &format!("SELECT last_value FROM kept.{function}_calls"))
}
