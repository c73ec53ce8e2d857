//! Queries on a server, and checks on IDs.

use std::collections::HashSet;
use std::time::Instant;

use postgres::Client;
use postgres::types::FromSql;

use crate::{SLACK, assert_within, eventually};

/// Runs statements that must succeed.
pub trait Run {
    fn run(&mut self, statements: &str);
}

impl Run for Client {
    #[track_caller]
    fn run(&mut self, statements: &str) {
        self.batch_execute(statements).unwrap_or_else(|error| panic!("{statements}: {}", text(&error)));
    }
}

/// The first column of the only row.
#[track_caller]
pub fn single<T: for<'a> FromSql<'a>>(client: &mut Client, query: &str) -> T {
    client.query_one(query, &[]).unwrap_or_else(|error| panic!("{query}: {}", text(&error))).get(0)
}

/// All rows of a query.
#[track_caller]
pub fn rows_of(client: &mut Client, query: &str) -> Vec<postgres::Row> {
    client.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {}", text(&error)))
}

/// The IDs in the first column of all rows.
#[track_caller]
pub fn ids(client: &mut Client, query: &str) -> Vec<i64> {
    rows_of(client, query).iter().map(|row| row.get(0)).collect()
}

/// Whether a relation that the server itself writes has content. Checks its size, because queries fail on a relation
/// that was truncated.
#[track_caller]
pub fn is_stored(client: &mut Client, relation: &str) -> bool {
    single(client, &format!("SELECT pg_relation_size('snowflake_internal.{relation}') > 0"))
}

/// The SQLSTATE and the full error text of a statement that must fail.
#[track_caller]
pub fn failure(client: &mut Client, query: &str) -> (String, String) {
    match client.batch_execute(query) {
        Ok(()) => panic!("{query} did not fail"),
        Err(error) => state_and_text(&error),
    }
}

/// Like [`failure`], for a statement that must fail without waiting.
#[track_caller]
pub fn failure_at_once(client: &mut Client, query: &str) -> (String, String) {
    let start = Instant::now();
    let failed = failure(client, query);
    assert_within(SLACK, start.elapsed(), query);
    failed
}

/// The SQLSTATE of an error, empty if the error is not from the server, and its full text.
fn state_and_text(error: &postgres::Error) -> (String, String) {
    (error.code().map_or_else(String::new, |code| code.code().into()), text(error))
}

/// The full text of an error: message, DETAIL and HINT, one line each.
pub fn text(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => [Some(error.message()), error.detail(), error.hint()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n"),
        None => error.to_string(),
    }
}

/// The value of an expression over the columns of `snowflake_status`.
#[track_caller]
pub fn status<T: for<'a> FromSql<'a>>(client: &mut Client, expression: &str) -> T {
    single(client, &format!("SELECT {expression} FROM snowflake_status"))
}

/// The state in `snowflake_status`.
#[track_caller]
pub fn server_state(client: &mut Client) -> String {
    status(client, "state")
}

/// Waits until a session can obtain an ID, and returns it.
#[track_caller]
pub fn wait_for_first_id(client: &mut Client) -> i64 {
    eventually("an ID", || client.query_one("SELECT snowflake_nextval()", &[]).map(|row| row.get(0)))
}

/// Waits until a session is refused an ID. Returns the SQLSTATE and the full error text.
#[track_caller]
pub fn wait_for_refusal(client: &mut Client) -> (String, String) {
    eventually("the refusal", || {
        client.batch_execute("SELECT snowflake_nextval()").err().as_ref().map(state_and_text)
    })
}

/// Panics if an ID occurs more than once.
#[track_caller]
pub fn assert_distinct<'a>(ids: impl IntoIterator<Item = &'a i64>) {
    let mut seen = HashSet::new();
    for id in ids {
        assert!(seen.insert(*id), "ID {id} came twice");
    }
}

/// Panics if an ID is not greater than the ID before it.
#[track_caller]
pub fn assert_increasing(ids: &[i64]) {
    for pair in ids.windows(2) {
        assert!(pair[0] < pair[1], "ID {} came before {}", pair[0], pair[1]);
    }
}
