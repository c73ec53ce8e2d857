//! Random arguments of all functions of the extension, by an ordinary role, which may do no harm, and by a superuser in
//! transactions that are rolled back. Each call returns or fails with an error that the function can explain.

use harness::fuzz::{Rounds, literal};
use harness::*;

/// Errors of an argument, of a missing object, schema or privilege, and of the current state.
const MAY_FAIL: [&str; 5] = ["22", "3F000", "42", "55", "0A000"];
/// Functions that administrators must not call with random values, because the server would have to wait for the given
/// time. With a NULL, they change nothing.
const STEPS: [&str; 3] = ["snowflake_raise_floor", "snowflake_reset_horizon", "snowflake_accept_clock"];

/// A function with the types of its arguments.
struct Function {
    name: String,
    arguments: Vec<(String, String)>,
}

fn functions(client: &mut Client) -> Vec<Function> {
    let functions = client.query(
        "SELECT p.oid::regproc::text, coalesce(p.proargnames[1:p.pronargs], array_fill(''::text, ARRAY[p.pronargs::int])),
                ARRAY(SELECT format_type(type, NULL) FROM unnest(p.proargtypes) AS type)
         FROM pg_proc AS p JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid
         JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
         WHERE e.extname = 'snowflake_id' AND p.prokind = 'f' AND p.prorettype NOT IN ('trigger'::regtype, 'internal'::regtype)
           -- What takes no value of SQL cannot be called.
           AND 'internal'::regtype <> ALL (p.proargtypes) AND 'cstring'::regtype <> ALL (p.proargtypes)
         ORDER BY p.oid",
        &[],
    );
    let functions = functions.unwrap();
    let of = |row: &postgres::Row| Function {
        name: row.get(0),
        arguments: row.get::<_, Vec<String>>(1).into_iter().zip(row.get::<_, Vec<String>>(2)).collect(),
    };
    functions.iter().map(of).collect()
}

/// A random argument of this name and type.
fn argument(rounds: &mut Rounds, name: &str, type_name: &str) -> String {
    let random = &mut rounds.random;
    if random.once_in(30) {
        return format!("NULL::{type_name}");
    }
    let usual = match (name, type_name) {
        ("layout", _) => {
            *random.one_of(&["twitter", "js53 unit=2s", "time:41 worker:10 sequence:12", "rollback2"])
        }
        ("encoding", _) => {
            *random.one_of(&["crockford32", "base36", "base58", "base62", "base64url", "decimal", "hex"])
        }
        (_, "text") => *random.one_of(&["cus", "cus_4aaW4SzAyQK", "orders", "4aaW4SzAyQK", "1B9QT4J5AZ0F1"]),
        (_, "name") => *random.one_of(&["id", "oid", "ctid", "none"]),
        (_, "regclass") => *random.one_of(&["orders", "pg_class", "orders_pkey", "snowflake_status"]),
        (_, "regrole") => "pg_monitor",
        (_, "regprocedure") => "snowflake_nextval()",
        (_, "timestamp with time zone") => {
            *random.one_of(&["now", "infinity", "-infinity", "294276-12-31", "4713-01-01 BC", "1970-01-01"])
        }
        (_, "interval") => *random.one_of(&["1 day", "-1 day", "178000000 years", "1 month", "0", "1 us"]),
        (_, "uuid") => "1565b3a2-c4d5-8e6f-8700-000000000000",
        (_, "boolean") => *random.one_of(&["true", "false"]),
        (_, "bytea") => r"\x0123456712345678234567893456789a",
        _ => "",
    };
    let value = match type_name {
        "text" if random.once_in(3) => random.text(),
        "text" | "bytea" => random.change(usual),
        "bigint" | "integer" | "smallint" | "oid" | "snowflake" => random.number().to_string(),
        _ if random.once_in(20) => random.change(usual),
        _ => usual.into(),
    };
    match type_name {
        // Any bytes, not only those that its syntax allows.
        "bytea" if random.once_in(2) => format!("convert_to({}, 'UTF8')", literal(&value)),
        _ => format!("{}::{type_name}", literal(&value)),
    }
}

#[test]
fn arguments_of_all_functions() {
    let cluster = Cluster::builder().worker(1).set("snowflake_id.max_wait", "50ms").start();
    let mut superuser = cluster.connect();
    wait_for_first_id(&mut superuser);
    superuser.run(
        "CREATE ROLE ordinary LOGIN;
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), at timestamptz DEFAULT now());
         INSERT INTO orders SELECT FROM generate_series(1, 10);
         GRANT SELECT ON orders TO ordinary;",
    );
    let started = "SELECT pg_postmaster_start_time()::text";
    let before: String = single(&mut superuser, started);
    let functions = functions(&mut superuser);
    assert!(functions.len() > 100, "{} functions", functions.len());
    let mut ordinary = cluster.connect();
    for client in [&mut superuser, &mut ordinary] {
        client.run("SET client_min_messages = error");
    }
    ordinary.run("SET ROLE ordinary");
    let mut rounds = Rounds::new();
    while rounds.go_on() {
        let function = rounds.random.one_of(&functions);
        let arguments: Vec<_> = function
            .arguments
            .iter()
            .map(|(name, type_name)| argument(&mut rounds, name, type_name))
            .collect();
        let has_null = arguments.iter().any(|argument| argument.starts_with("NULL"));
        let is_superuser = rounds.random.once_in(4) && (has_null || !STEPS.contains(&function.name.as_str()));
        let client = if is_superuser { &mut superuser } else { &mut ordinary };
        if rounds.random.once_in(10) {
            let layout = rounds.random.change("time:41 datacenter:5 worker:5 sequence:12");
            rounds.query(
                client,
                &format!("SET snowflake_id.layout = {}", literal(&layout)),
                &["22", "42501"],
            );
        }
        // Sets of rows may be long.
        let call = format!("SELECT * FROM {}({}) LIMIT 3", function.name, arguments.join(", "));
        client.run("BEGIN");
        rounds.query(client, &call, &MAY_FAIL);
        client.run("ROLLBACK");
    }
    assert_eq!(single::<String>(&mut superuser, started), before);
    superuser.run("RESET snowflake_id.layout");
    wait_for_first_id(&mut superuser);
    rounds.finish(&[&cluster]);
}
