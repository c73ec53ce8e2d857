//! A table of events, and what readers see of it.

use harness::*;

/// A server with table `events`, on which transactions can be prepared.
pub fn server(builder: Builder) -> Cluster {
    let server = builder.worker(1).set("max_prepared_transactions", "10").start();
    let mut client = server.connect();
    client.run("CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
    wait_for_first_id(&mut client);
    // The keeper may be in its first cycle.
    eventually("a watermark", || watermark(&mut client));
    server
}

/// Inserts an event in the current transaction of a session.
#[track_caller]
pub fn insert(client: &mut Client) -> i64 {
    single(client, "INSERT INTO events DEFAULT VALUES RETURNING id")
}

/// The watermark, for a statement of its own.
#[track_caller]
pub fn watermark(client: &mut Client) -> Option<i64> {
    single(client, "SELECT snowflake_watermark()")
}

/// The events below the watermark.
#[track_caller]
pub fn below_watermark(client: &mut Client) -> Vec<i64> {
    ids(client, "SELECT id FROM events WHERE id < (SELECT snowflake_watermark()) ORDER BY id")
}

/// Waits until the watermark has passed an ID.
#[track_caller]
pub fn wait_until_passed(client: &mut Client, id: i64) {
    eventually("the watermark", || watermark(client) > Some(id));
}

/// The value of an expression over the columns of the row of layout `standard` in the view.
#[track_caller]
pub fn shown<T: for<'a> postgres::types::FromSql<'a>>(client: &mut Client, expression: &str) -> T {
    single(
        client,
        &format!(
            "SELECT {expression} FROM snowflake_watermark_status
             WHERE layout = 'standard'"
        ),
    )
}
