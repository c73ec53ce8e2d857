//! Nothing but the registry itself writes its tables, and what it has forgotten is told by those who know.

use harness::*;

use super::taker::{Member, order};

/// Apply workers fire no ordinary triggers, and a publication FOR ALL TABLES has the tables of a registry, too.
#[test]
fn a_subscription_leaves_the_registry_alone() {
    let publisher = super::taker::start(Cluster::builder().set("wal_level", "logical"));
    let subscriber = super::taker::start(Cluster::builder());
    let mut other = publisher.connect();
    let mut client = subscriber.connect();
    for client in [&mut other, &mut client] {
        client.run("CREATE TABLE bills (id int)");
        order(client, "create_segment('orders')");
    }
    let mut member = Member::default();
    let given = [member.granted(&mut client, "orders"), member.granted(&mut client, "orders")];
    other.run("CREATE PUBLICATION everything FOR ALL TABLES");
    client.run(&format!(
        "CREATE SUBSCRIPTION everything CONNECTION '{}' PUBLICATION everything WITH (copy_data = false)",
        publisher.connection_string("test")
    ));
    // In one transaction: what the last line shows has come after all others.
    other.run("BEGIN");
    order(&mut other, "alter_segment('orders', next_value => 1500)");
    order(&mut other, "configure(last_worker => 5)");
    other.run("INSERT INTO bills VALUES (1); COMMIT");
    eventually("a bill", || single::<i64>(&mut client, "SELECT count(*) FROM bills") == 1);
    let next = "SELECT next_value::bigint FROM snowflake_registry.segment";
    assert_eq!(single::<i64>(&mut client, next), given[1].last() + 1);
    let last_worker = "SELECT last_worker FROM snowflake_registry.settings";
    assert_eq!(single::<i32>(&mut client, last_worker), i32::MAX);
    assert!(subscriber.log().contains("a row of another registry is left out"), "{}", subscriber.log());
    client.run("DROP SUBSCRIPTION everything");
    // What guards the rows fires there as well.
    client.run("SET session_replication_role = replica");
    assert_eq!(failure(&mut client, "TRUNCATE snowflake_registry.segment").0, "23001");
    client.run("DELETE FROM snowflake_registry.segment");
    assert_eq!(single::<i64>(&mut client, next), given[1].last() + 1);
}
