//! Readers of the watermark do not delay others.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use harness::*;

/// The locks of the readers overlap, so that at each time some reader holds the shared lock. Nevertheless, other processes
/// get the exclusive lock: a session that takes the first ID of a layout, the keeper when the worker ID changes, and a
/// session that prepares a transaction.
#[test]
fn readers_do_not_delay_others() {
    const INSERT: &str = "INSERT INTO orders (note) VALUES ('row')";
    const READERS: usize = 8;
    let server = Cluster::builder()
        .worker(1)
        .settings(&[("max_prepared_transactions", "20"), ("snowflake_id.max_wait", "1min")])
        .start();
    create_orders(&server);
    let mut client = server.connect();
    wait_for_first_id(&mut client);
    for number in 0..8 {
        client.run(&format!("BEGIN; {INSERT}; PREPARE TRANSACTION 'other {number}'"));
    }
    // Each call is in a transaction of its own, because a transaction remembers the answers.
    let read = "DO $$ BEGIN FOR n IN 1 .. 5000 LOOP PERFORM snowflake_watermark(); COMMIT; END LOOP; END $$";
    let reader = |stop: &AtomicBool| {
        let mut client = server.connect();
        while !stop.load(Ordering::Relaxed) {
            client.run(read);
        }
    };
    beside([reader; READERS], || {
        let reading = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'DO %' AND state = 'active'";
        eventually("the readers", || single::<i64>(&mut client, reading) == READERS as i64);
        let mut time = |what: &str, action: &mut dyn FnMut(&mut Client)| {
            let began = Instant::now();
            action(&mut client);
            assert_within(SLACK, began.elapsed(), what);
        };
        for layout in ["wide", "discord", "instagram"] {
            time(layout, &mut |client| {
                client.run(&format!("SET snowflake_id.layout = '{layout}'; SELECT snowflake_nextval()"));
            });
        }
        time("the worker ID", &mut |client| {
            client.run("RESET snowflake_id.layout");
            server.change("snowflake_id.worker_id", "9");
            eventually("the worker ID", || {
                single::<bool>(client, "SELECT snowflake_worker(snowflake_nextval()) = 9")
            });
        });
        time("a prepared transaction", &mut |client| {
            client.run(&format!("BEGIN; {INSERT}; PREPARE TRANSACTION 'last'"));
        });
    });
}
