//! A logical apply worker executes a trigger that takes IDs.

use harness::*;

use super::events::{below_watermark, insert, server, shown, wait_until_passed, watermark};

#[test]
fn a_trigger_of_a_logical_apply_worker() {
    let publisher = server(Cluster::builder().set("wal_level", "logical"));
    let subscriber = server(Cluster::builder());
    let mut source = publisher.connect();
    source.run("CREATE TABLE orders (number int PRIMARY KEY); CREATE PUBLICATION orders FOR TABLE orders");
    let mut client = subscriber.connect();
    // The trigger waits for a lock after it has taken an ID.
    client.run(
        "CREATE TABLE orders (number int PRIMARY KEY);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO public.events DEFAULT VALUES;
             PERFORM pg_advisory_xact_lock(1);
             RETURN NULL;
         END
         $$;
         CREATE TRIGGER note AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION note();
         ALTER TABLE orders ENABLE ALWAYS TRIGGER note;
         SELECT pg_advisory_lock(1)",
    );
    client.run(&format!(
        "CREATE SUBSCRIPTION orders CONNECTION '{}' PUBLICATION orders WITH (copy_data = false)",
        publisher.connection_string("test")
    ));
    source.run("INSERT INTO orders VALUES (1)");
    let waiting = "SELECT pid FROM pg_stat_activity
                   WHERE backend_type LIKE 'logical replication%' AND wait_event_type = 'Lock'";
    let pid: i32 =
        eventually("the trigger", || client.query_opt(waiting, &[]).unwrap().map(|row| row.get(0)));
    let later = insert(&mut client);
    assert!(watermark(&mut client).unwrap() <= later);
    assert!(below_watermark(&mut client).is_empty());
    assert_eq!(shown::<i32>(&mut client, "pid"), pid);
    client.run("SELECT pg_advisory_unlock(1)");
    wait_until_passed(&mut client, later);
    let all = ids(&mut client, "SELECT id FROM events ORDER BY id");
    assert_eq!((all.len(), all[1]), (2, later));
    assert_eq!(below_watermark(&mut client), all);
}
