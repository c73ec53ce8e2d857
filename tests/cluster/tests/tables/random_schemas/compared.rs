//! The properties that are compared before and after: the dump, the rows, the types, and the results of statements.

use harness::{Client, Cluster, Run, rows_of, single, successful, text};

use super::schema::SCHEMA;

/// The words between a column and its type, in a line of [`state`].
pub const TYPE: &str = " is of type ";

/// Panics if lines differ, or are in another order.
#[track_caller]
pub fn assert_same(before: &[String], after: &[String]) {
    let only_in = |these: &[String], others: &[String]| {
        these.iter().filter(|line| !others.contains(line)).cloned().collect::<Vec<_>>().join("\n")
    };
    let (gone, new) = (only_in(before, after), only_in(after, before));
    assert!(gone.is_empty() && new.is_empty(), "before:\n{gone}\nafter:\n{new}");
    assert_eq!(before, after, "the order has changed");
}

/// Everything that must not change, in lines: the dump, the actions of foreign keys, the rows, and the types of columns.
pub fn state(cluster: &Cluster, database: &str, client: &mut Client) -> Vec<String> {
    [dump(cluster, database, false), actions(client), rows(client), types(client)].concat()
}

/// The statements of `pg_dump --schema-only`, sorted, without types of integers and the order of columns in a table, which
/// may change. If `default_may_change`, the default, the identity and the sequence of a column may change, too.
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
fn rows(client: &mut Client) -> Vec<String> {
    let query = format!(
        "SELECT oid::regclass::text FROM pg_class WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1"
    );
    let tables = lines(client, &query);
    let of = |table: String| {
        let digest: String = single(
            client,
            &format!(
                "SELECT coalesce(md5(string_agg(row, E'\\n' ORDER BY row)), '')
                 FROM (SELECT to_jsonb(t)::text COLLATE \"C\" FROM {table} AS t) AS rows (row)"
            ),
        );
        format!("rows of {table}: {digest}")
    };
    tables.into_iter().map(of).collect()
}

/// The types of all columns of tables.
fn types(client: &mut Client) -> Vec<String> {
    let query = format!(
        "SELECT format('{SCHEMA}.\"%s\".\"%s\"{TYPE}%s', replace(relname, '\"', '\"\"'), replace(attname, '\"', '\"\"'), atttypid::regtype)
         FROM pg_attribute JOIN pg_class AS class ON class.oid = attrelid
         WHERE relnamespace = '{SCHEMA}'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped ORDER BY 1"
    );
    lines(client, &query)
}

/// The actions of foreign keys, in the order in which they are executed. A dump does not show it.
fn actions(client: &mut Client) -> Vec<String> {
    let query = format!(
        "SELECT concat_ws(' ', tgrelid::regclass, conname, tgfoid::regproc, tgenabled, tgdeferrable, tginitdeferred, convalidated)
         FROM pg_trigger JOIN pg_constraint AS definition ON definition.oid = tgconstraint
         WHERE connamespace = '{SCHEMA}'::regnamespace AND tgisinternal AND tgfoid::regproc::text !~ 'RI_FKey_check_'
         ORDER BY tgrelid::regclass::text, tgname COLLATE \"C\""
    );
    lines(client, &query)
}

fn lines(client: &mut Client, query: &str) -> Vec<String> {
    rows_of(client, query).iter().map(|row| row.get(0)).collect()
}

/// The errors of these statements in a transaction that is rolled back, and the rows at its end.
pub fn outcome(client: &mut Client, statements: &[String]) -> Vec<String> {
    client.run("BEGIN");
    let mut outcome = vec![];
    for statement in statements {
        client.run("SAVEPOINT one");
        if let Err(error) = client.batch_execute(statement) {
            let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {}", text(&error)));
            let constraint = error.constraint().unwrap_or_default();
            outcome.push(format!("{statement}: {} {constraint}", error.code().code()));
            client.run("ROLLBACK TO one");
        }
    }
    outcome.extend(rows(client));
    client.run("ROLLBACK");
    outcome
}
