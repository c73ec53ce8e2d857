//! Runs the SQL examples of a page as they are. A comment after a query (`; -- 1 | 2`) is the row that the query must
//! return. If a query is followed by `\gexec`, its results are executed, as psql does.

use std::mem::take;

use postgres::{Client, SimpleQueryMessage};

use crate::{Run, text};

/// Runs the SQL blocks of a page, and compares at least this many results.
#[track_caller]
pub fn run_examples(client: &mut Client, page: &str, at_least: usize) {
    let checked: usize = blocks(page).map(|block| run_block(client, block)).sum();
    assert!(checked >= at_least, "only {checked} results were checked");
}

/// Runs one block. Returns how many results were compared.
pub fn run_block(client: &mut Client, block: &str) -> usize {
    let mut checked = 0;
    for (statement, expected) in statements(block) {
        if let Some(query) = statement.strip_suffix(GEXEC) {
            for command in rows(client, query).concat() {
                client.run(&command);
            }
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

/// The SQL blocks of a page that are run at a place. Their first line is a comment that names the place.
pub fn blocks_at<'a>(page: &'a str, place: &'a str) -> impl Iterator<Item = &'a str> {
    blocks(page).filter_map(move |block| block.strip_prefix("-- ")?.strip_prefix(place)?.strip_prefix('\n'))
}

/// The only block that is run at a place.
pub fn block_at<'a>(page: &'a str, place: &'a str) -> &'a str {
    let [block] = blocks_at(page, place).collect::<Vec<_>>()[..] else { panic!("not one block \"{place}\"") };
    block
}

/// The parts of an SQL file, as blocks of a page. A part begins with a comment that says where it is run, and ends before an
/// empty line.
pub fn as_blocks(file: &str) -> String {
    let parts = file.split("\n\n").filter(|part| part.starts_with("-- on "));
    parts.map(|part| format!("```sql\n{}\n```\n", part.trim_end())).collect()
}

/// The query of the only block that is run at a place, without the comment that follows it.
pub fn query_at<'a>(page: &'a str, place: &'a str) -> &'a str {
    block_at(page, place).rsplit_once(';').unwrap().0
}

/// The text after a query whose results are to be executed.
const GEXEC: &str = r" \gexec";

/// The statements of a block, each with the comment that follows it.
pub fn statements(block: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut statement = String::new();
    for line in block.lines() {
        // The body of a function, between two $$, contains semicolons.
        let is_in_body = (statement.matches("$$").count() + line.matches("$$").count()) % 2 == 1;
        match line.split_once(';').filter(|_| !is_in_body) {
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
    rows(client, statement).pop().unwrap_or_default().join(" | ")
}

/// The rows of a statement, as psql shows them.
#[track_caller]
pub fn rows(client: &mut Client, statement: &str) -> Vec<Vec<String>> {
    let messages =
        client.simple_query(statement).unwrap_or_else(|error| panic!("{statement}: {}", text(&error)));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|at| row.get(at).unwrap_or("").to_owned()).collect()).collect()
}
