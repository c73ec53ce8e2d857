//! The SQL examples of the README, run as they stand. Where a comment follows a query (`; -- 1 | 2`), it is the row that the
//! query has to return.

use postgres::{Client, SimpleQueryMessage};
use snowflake_id_cluster_tests::{Cluster, WORKER_1, text};

#[test]
fn examples_of_the_readme() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("DROP EXTENSION snowflake_id").unwrap();
    let readme = include_str!("../../../README.md");
    let mut checked = 0;
    for block in readme.split("```sql\n").skip(1) {
        let (block, _) = block.split_once("```").expect("an open code block");
        for (statement, expected) in statements(block) {
            let row = last_row(&mut client, &statement);
            if !expected.is_empty() {
                assert_eq!(row, expected, "{statement}");
                checked += 1;
            }
        }
    }
    assert!(checked >= 6, "only {checked} results were checked");
}

/// Statements with the comments that stand behind them.
fn statements(block: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut statement = String::new();
    for line in block.lines() {
        match line.split_once(';') {
            Some((last, rest)) => {
                let expected = rest.trim().trim_start_matches("--").trim();
                all.push((format!("{statement}{last}"), expected.into()));
                statement.clear();
            }
            None => statement.extend([line, "\n"]),
        }
    }
    assert!(statement.is_empty(), "no semicolon behind: {statement}");
    all
}

fn last_row(client: &mut Client, statement: &str) -> String {
    let messages =
        client.simple_query(statement).unwrap_or_else(|error| panic!("{statement}: {}", text(&error)));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = rows.last();
    row.map_or_else(String::new, |row| {
        (0..row.len()).map(|at| row.get(at).unwrap_or("")).collect::<Vec<_>>().join(" | ")
    })
}
