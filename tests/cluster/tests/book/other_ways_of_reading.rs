//! What docs/tables/reading-in-order.md says about other ways to read rows in order.

use harness::book::of_test;
use harness::examples::query_at;
use harness::*;
use std::sync::LazyLock;

static PAGE: LazyLock<String> = LazyLock::new(|| of_test("reading_in_order"));

/// A transaction takes its ID before it gets its transaction ID. A reader in the order of IDs skips the row, even if it
/// reads only rows of transactions that are older than all transactions in progress. A reader in the order of transaction
/// IDs does not, and neither does a reader with the watermark.
#[test]
fn transaction_ids() {
    let server = Cluster::builder().worker(1).start();
    let (mut writer, mut client) = (server.connect(), server.connect());
    let column = "tx xid8 DEFAULT pg_current_xact_id()";
    let condition = "tx < pg_snapshot_xmin(pg_current_snapshot())";
    let place = format!("by transaction IDs, in a column: {column}");
    let by_transaction = query_at(&PAGE, &place);
    assert!(by_transaction.ends_with(&format!("{condition} ORDER BY tx, id")));
    client.run(&format!("CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), {column})"));

    writer.run("BEGIN");
    let early: i64 = single(&mut writer, "SELECT snowflake_nextval()");
    let late: i64 = single(&mut client, "INSERT INTO events DEFAULT VALUES RETURNING id");
    let mut read = |order: &str| ids(&mut client, &format!("SELECT id FROM events WHERE {order}"));
    all_arrive("the late ID", || read(&format!("id > 0 AND {condition} ORDER BY id")) == [late]);
    assert_eq!(read("id > 0 AND id < (SELECT snowflake_watermark()) ORDER BY id"), [0_i64; 0]);
    writer.run(&format!("INSERT INTO events (id) VALUES ({early}); COMMIT"));

    assert_eq!(read(&format!("id > {late} AND {condition} ORDER BY id")), [0_i64; 0]);
    let by_id = "id > 0 AND id < (SELECT snowflake_watermark()) ORDER BY id";
    all_arrive("both rows", || read(by_id) == [early, late]);
    let position = format!("((SELECT tx FROM events WHERE id = {late}), {late})");
    let by_transaction = by_transaction.replace("($1, $2)", &position);
    all_arrive("the row", || ids(&mut client, &by_transaction) == [early]);
}
