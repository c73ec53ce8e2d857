//! Adoptions by `snowflake_adopt_online()`: tables to adopt, the calls, and what must be true at the end.

use postgres::{Client, Config, NoTls};

use crate::{Cluster, Run, TIMEOUT, failure, single};

/// Arguments for the tables of [`create_tables`].
pub const ACCOUNTS: &str = "'accounts', 'id', pause => '0'";

/// Creates the adopted table, and two tables that reference it. Three indexes contain the columns.
pub fn create_tables(client: &mut Client) {
    client.run(
        "CREATE TABLE accounts (id serial PRIMARY KEY, n int NOT NULL DEFAULT 0);
         CREATE TABLE bookings (id serial PRIMARY KEY, account_id int NOT NULL REFERENCES accounts ON DELETE CASCADE);
         CREATE TABLE visits (account_id int REFERENCES accounts ON DELETE SET NULL, note text);
         CREATE INDEX ON bookings (account_id);
         CREATE INDEX ON visits (account_id);
         INSERT INTO accounts SELECT FROM generate_series(1, 1000);
         INSERT INTO bookings (account_id) SELECT n FROM generate_series(1, 1000) AS n;
         INSERT INTO visits SELECT n, 'visit of ' || n FROM generate_series(1, 1000) AS n",
    );
}

/// Fails if the tables of [`create_tables`] are not adopted: all rows must have their values, the foreign keys must be valid
/// and enforced, and nothing may be left over.
#[track_caller]
pub fn check_tables(client: &mut Client) {
    for column in ["accounts.id", "bookings.account_id", "visits.account_id"] {
        assert!(is_bigint(client, column), "{column}");
    }
    let mut is = |what: &str, expected: i64| {
        assert_eq!(single::<i64>(client, &format!("SELECT count(*) FROM {what}")), expected, "{what}");
    };
    is("generate_series(1, 1000) AS number JOIN accounts ON id = number", 1000);
    is("generate_series(1, 1000) AS number JOIN bookings ON id = number AND account_id = number", 1000);
    is(
        "generate_series(1, 1000) AS number JOIN visits ON account_id = number AND note = 'visit of ' || number",
        1000,
    );
    is(
        "pg_constraint WHERE contype = 'f' AND convalidated AND confrelid = 'accounts'::regclass
         AND conrelid IN ('bookings'::regclass, 'visits'::regclass)",
        2,
    );
    assert_eq!(left_over(client), 0);
    assert_eq!(failure(client, "INSERT INTO visits (account_id) VALUES (-1)").0, "23503");
}

/// Calls `snowflake_adopt_online()` with these arguments, and executes the statements that it returns, until nothing is left
/// to do.
pub fn adopt_online(client: &mut Client, arguments: &str) -> Result<(), postgres::Error> {
    while let Some(command) = adopt_once(client, arguments)? {
        client.batch_execute(&command)?;
    }
    Ok(())
}

/// Calls `snowflake_adopt_online()` once. Returns the statement that the caller must execute before the next call. `None`
/// means that nothing is left to do.
pub fn adopt_once(client: &mut Client, arguments: &str) -> Result<Option<String>, postgres::Error> {
    let call = format!("CALL snowflake_adopt_online({arguments}, dry_run => false)");
    Ok(client.query_one(&call, &[])?.get(0))
}

/// Takes all steps until this many new indexes exist.
pub fn prepare(client: &mut Client, arguments: &str, indexes: i64) {
    while new_indexes(client) < indexes {
        let command = adopt_once(client, arguments).unwrap();
        client.run(&command.expect("an index that is not built yet"));
    }
}

/// The number of indexes that an adoption has created.
pub fn new_indexes(client: &mut Client) -> i64 {
    single(client, "SELECT count(*) FROM pg_class WHERE relname LIKE 'snowflake_new_%' AND relkind = 'i'")
}

/// The SQLSTATE and the full error text of a call that must fail.
#[track_caller]
pub fn refusal(client: &mut Client, arguments: &str) -> (String, String) {
    failure(client, &format!("CALL snowflake_adopt_online({arguments}, dry_run => false)"))
}

/// Whether a column, as `table.column`, is of type bigint.
#[track_caller]
pub fn is_bigint(client: &mut Client, column: &str) -> bool {
    let (table, column) = column.split_once('.').expect("table.column");
    single(
        client,
        &format!(
            "SELECT atttypid = 'bigint'::regtype FROM pg_attribute
             WHERE attrelid = '{table}'::regclass AND attname = '{column}'"
        ),
    )
}

/// The number of objects and comments that an adoption has left in a database: columns, constraints, triggers, functions,
/// indexes, and comments of columns and constraints.
#[track_caller]
pub fn left_over(client: &mut Client) -> i64 {
    single(
        client,
        "SELECT (SELECT count(*) FROM pg_attribute WHERE attname LIKE 'snowflake_new_%' AND NOT attisdropped)
              + (SELECT count(*) FROM pg_constraint WHERE conname LIKE 'snowflake_new_%')
              + (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'zz_snowflake_new_%')
              + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'snowflake_new_%')
              + (SELECT count(*) FROM pg_class WHERE relname LIKE 'snowflake_new_%')
              + (SELECT count(*) FROM pg_description WHERE description LIKE 'snowflake_adopt_online: %')
              + (SELECT count(*) FROM pg_index WHERE NOT indisvalid)",
    )
}

impl Cluster {
    /// Connects a role to database `postgres`. Passes the messages of all notices and warnings to `hear`.
    pub fn try_connect_heard(
        &self,
        role: &str,
        hear: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Client, postgres::Error> {
        Config::new()
            .host_path(self.host())
            .user(role)
            .dbname("postgres")
            .connect_timeout(TIMEOUT)
            .notice_callback(move |notice| hear(notice.message()))
            .connect(NoTls)
    }
}
