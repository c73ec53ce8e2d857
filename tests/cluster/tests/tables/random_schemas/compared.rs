//! What is compared before and after: the dump, the rows, the types, and the result of some statements.

use std::collections::BTreeMap;

use harness::{Client, Cluster, rows_of, single, successful, text};

use super::schema::SCHEMA;

/// The statements of `pg_dump --schema-only`, sorted, and without what may change: types of integers, and the order of columns
/// in a table. If `default_may_change`, the default, the identity and the sequence of a column may change, too.
pub fn dump(cluster: &Cluster, database: &str, default_may_change: bool) -> Vec<String> {
    let mut pg_dump = cluster.client_program("pg_dump");
    let output = successful(pg_dump.args(["--schema-only", "--schema", SCHEMA, "--dbname", database]));
    let dump = String::from_utf8(output.stdout).unwrap();
    let lines = dump.lines().filter(|line| {
        !(line.is_empty() || line.starts_with("--") || line.starts_with('\\') || line.starts_with("SET "))
    });
    let lines: Vec<&str> = lines.collect();
    let statements = lines.join("\n") + "\n";
    let mut statements: Vec<String> = statements
        .split(";\n")
        .filter_map(|statement| {
            let is_default =
                ["SEQUENCE", "IDENTITY", "SET DEFAULT"].iter().any(|part| statement.contains(part));
            match statement {
                _ if is_default && default_may_change => None,
                _ if statement.starts_with("CREATE TABLE") => Some(table(statement, default_may_change)),
                // The limits of an identity are those of its old type.
                _ if statement.contains(" AS IDENTITY (") => Some(
                    statement
                        .replace("MAXVALUE 2147483647", "NO MAXVALUE")
                        .replace("MAXVALUE 32767", "NO MAXVALUE"),
                ),
                _ => Some(statement.into()),
            }
        })
        .collect();
    statements.sort();
    statements
}

/// The lines of a statement CREATE TABLE, sorted, and without types of integers.
fn table(statement: &str, default_may_change: bool) -> String {
    let mut lines: Vec<String> = statement
        .lines()
        .map(|line| {
            let mut line = line.trim_end_matches(',').to_owned();
            for integer in ["bigint", "integer", "smallint"] {
                // The name of a column is quoted if it contains a space.
                line = line.replace(&format!(" {integer} "), " INT ");
                if let Some(start) = line.strip_suffix(&format!(" {integer}")) {
                    line = format!("{start} INT");
                }
            }
            match line.find(" DEFAULT ") {
                Some(at) if default_may_change => {
                    let rest = if line.ends_with(" NOT NULL") { " NOT NULL" } else { "" };
                    format!("{}{rest}", &line[..at])
                }
                _ => line,
            }
        })
        .collect();
    lines.sort();
    lines.join("\n")
}

/// The rows of each table, by the names of their columns.
pub fn rows(client: &mut Client) -> BTreeMap<String, String> {
    let tables: Vec<String> = rows_of(
        client,
        &format!(
            "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind IN ('r', 'p')"
        ),
    )
    .iter()
    .map(|row| row.get(0))
    .collect();
    let of = |table: String| {
        let digest = single(
            client,
            &format!(
                "SELECT coalesce(md5(string_agg(row, E'\\n' ORDER BY row)), '')
                 FROM (SELECT to_jsonb(t)::text COLLATE \"C\" FROM {table} AS t) AS rows (row)"
            ),
        );
        (table, digest)
    };
    tables.into_iter().map(of).collect()
}

/// The types of all columns of tables.
pub fn types(client: &mut Client) -> BTreeMap<(String, String), String> {
    let query = format!(
        "SELECT format('{SCHEMA}.\"%s\"', replace(relname, '\"', '\"\"')), format('\"%s\"', replace(attname, '\"', '\"\"')), atttypid::regtype::text
         FROM pg_attribute JOIN pg_class AS class ON class.oid = attrelid
         WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped"
    );
    rows_of(client, &query).iter().map(|row| ((row.get(0), row.get(1)), row.get(2))).collect()
}

/// The actions of foreign keys, in the order in which they are executed. A dump does not show it.
pub fn actions(client: &mut Client) -> Vec<String> {
    let query = format!(
        "SELECT concat_ws(' ', tgrelid::regclass, conname, tgfoid::regproc, tgenabled, tgdeferrable, tginitdeferred, convalidated)
         FROM pg_trigger JOIN pg_constraint AS definition ON definition.oid = tgconstraint
         WHERE connamespace = '{SCHEMA}'::regnamespace AND tgisinternal AND tgfoid::regproc::text !~ 'RI_FKey_check_' ORDER BY tgrelid::regclass::text, tgname COLLATE \"C\""
    );
    rows_of(client, &query).iter().map(|row| row.get(0)).collect()
}

/// What these statements do in a transaction that is rolled back: their errors, and the rows at the end.
pub fn outcome(
    client: &mut Client,
    statements: &[String],
) -> Result<(Vec<String>, BTreeMap<String, String>), String> {
    let run = |client: &mut Client, statement: &str| {
        client.batch_execute(statement).unwrap_or_else(|error| panic!("{statement}: {}", text(&error)));
    };
    run(client, "BEGIN");
    let mut errors = vec![];
    for statement in statements {
        run(client, "SAVEPOINT one");
        match client.batch_execute(statement) {
            Ok(()) => run(client, "RELEASE one"),
            Err(error) => {
                let error = error.as_db_error().ok_or_else(|| format!("{statement}: {error}"))?;
                errors.push(format!(
                    "{statement}: {} {}",
                    error.code().code(),
                    error.constraint().unwrap_or_default()
                ));
                run(client, "ROLLBACK TO one");
            }
        }
    }
    let rows = rows(client);
    run(client, "ROLLBACK");
    Ok((errors, rows))
}
