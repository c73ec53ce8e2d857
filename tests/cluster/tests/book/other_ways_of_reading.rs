//! What docs/tables/reading-in-order.md says about other ways to read rows in order.

use harness::book::of_test;
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
    let by_transaction = format!("WHERE (tx, id) > ($1, $2) AND {condition} ORDER BY tx, id");
    assert!(PAGE.contains(&format!("a column `{column}`")) && PAGE.contains(&format!("`{by_transaction}`")));
    client.run(&format!("CREATE TABLE rows (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), {column})"));

    writer.run("BEGIN");
    let early: i64 = single(&mut writer, "SELECT snowflake_nextval()");
    let late: i64 = single(&mut client, "INSERT INTO rows DEFAULT VALUES RETURNING id");
    let mut read = |order: &str| ids(&mut client, &format!("SELECT id FROM rows WHERE {order}"));
    all_arrive("the late ID", || read(&format!("id > 0 AND {condition} ORDER BY id")) == [late]);
    assert_eq!(read("id > 0 AND id < (SELECT snowflake_watermark()) ORDER BY id"), [0_i64; 0]);
    writer.run(&format!("INSERT INTO rows (id) VALUES ({early}); COMMIT"));

    assert_eq!(read(&format!("id > {late} AND {condition} ORDER BY id")), [0_i64; 0]);
    let position = format!("((SELECT tx FROM rows WHERE id = {late}), {late})");
    let by_transaction = by_transaction.trim_start_matches("WHERE ").replace("($1, $2)", &position);
    all_arrive("the row", || read(&by_transaction) == [early]);
    let by_id = "id > 0 AND id < (SELECT snowflake_watermark()) ORDER BY id";
    all_arrive("both rows", || read(by_id) == [early, late]);
}
