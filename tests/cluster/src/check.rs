//! What `snowflake_check()` reports, and following its hints.

use postgres::Client;

use crate::{Run, rows_of};

/// A row of `snowflake_check()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub problem: String,
    pub detail: String,
    pub hint: String,
}

/// The rows of `snowflake_check()`.
#[track_caller]
pub fn problems(client: &mut Client) -> Vec<Problem> {
    let rows =
        rows_of(client, "SELECT problem, coalesce(detail, ''), coalesce(hint, '') FROM snowflake_check()");
    let of = |row: &postgres::Row| Problem { problem: row.get(0), detail: row.get(1), hint: row.get(2) };
    rows.iter().map(of).collect()
}

/// The only row of `snowflake_check()`.
#[track_caller]
pub fn only_problem(client: &mut Client) -> Problem {
    let problems = problems(client);
    assert_eq!(problems.len(), 1, "{problems:#?}");
    problems.into_iter().next().unwrap()
}

#[track_caller]
pub fn assert_healthy(client: &mut Client) {
    assert_eq!(problems(client), []);
}

impl Problem {
    /// Puts a number into the statements of the hint, which name it N.
    pub fn with_number(mut self, number: u32) -> Problem {
        assert!(self.hint.contains("instead of N, run: "), "{self:?}");
        self.hint = self.hint.replace("= N;", &format!("= {number};"));
        self
    }

    /// Executes the statements that the hint says to run, one by one, because ALTER SYSTEM does not run in a transaction
    /// block.
    #[track_caller]
    pub fn follow_hint(&self, client: &mut Client) {
        let (_, statements) =
            self.hint.split_once("un: ").unwrap_or_else(|| panic!("no statement: {self:?}"));
        statements.split_inclusive(';').for_each(|statement| client.run(statement));
    }
}
