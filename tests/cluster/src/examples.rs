//! Runs the SQL examples of a page as they are. A comment after a query (`; -- 1 | 2`) is the row that the query must
//! return. If a query is followed by `\gexec`, its results are executed, as psql does.

use std::mem::take;

use postgres::{Client, SimpleQueryMessage};

use crate::{Run, text};

/// Runs the SQL blocks of a page. Returns how many results were compared.
pub fn run_examples(client: &mut Client, page: &str) -> usize {
    blocks(page).map(|block| run_block(client, block)).sum()
}

/// Runs one block. Returns how many results were compared.
pub fn run_block(client: &mut Client, block: &str) -> usize {
    let mut checked = 0;
    for (statement, expected) in statements(block) {
        if let Some(query) = statement.strip_suffix(GEXEC) {
            let commands = last_row(client, query);
            client.run(&commands);
            continue;
        }
        let row = last_row(client, &statement);
        if !expected.is_empty() {
            assert_eq!(row, expected, "{statement}");
            checked += 1;
        }
    }
    checked
}

/// The SQL blocks of a page.
pub fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("```sql\n").skip(1).map(|rest| rest.split_once("```").expect("an open code block").0)
}

/// The text after a query whose results are to be executed.
const GEXEC: &str = r" \gexec";

/// The statements of a block, each with the comment that follows it.
pub fn statements(block: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut statement = String::new();
    for line in block.lines() {
        match line.split_once(';') {
            Some((last, rest)) => {
                let expected = rest.trim().trim_start_matches("--").trim();
                all.push((format!("{statement}{last}"), expected.into()));
                statement.clear();
            }
            None if line.ends_with(GEXEC) => all.push((take(&mut statement) + line, String::new())),
            None => statement.extend([line, "\n"]),
        }
    }
    assert!(statement.trim().is_empty(), "no semicolon behind: {statement}");
    all
}

/// Runs a statement. Returns its last row, with `|` between the columns.
pub fn last_row(client: &mut Client, statement: &str) -> String {
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
