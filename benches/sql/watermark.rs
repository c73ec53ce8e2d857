//! The cost of the watermark while transactions are in progress.

use postgres::Client;
use snowflake_id_cluster_tests::{Cluster, wait_for_first_id};

use crate::figures::{Figures, table, time};
use crate::measure::{median, seconds};
use crate::servers::{SETTINGS, Servers};

const SESSIONS: [usize; 3] = [1, 50, 200];
const REPETITIONS: usize = 9;
const CALLS: u32 = 20_000;

/// Measures calls in transactions of their own, because a transaction remembers the watermark of a snapshot. The
/// transaction alone is subtracted.
pub fn print(_: &mut Servers, _: &Figures) {
    let cluster = Cluster::builder().settings(SETTINGS).set("max_connections", 220).start();
    let mut client = cluster.connect();
    wait_for_first_id(&mut client);
    client.batch_execute("CREATE TABLE events (id bigint PRIMARY KEY DEFAULT snowflake_nextval())").unwrap();
    let mut sessions: Vec<Client> = vec![];
    let rows = SESSIONS.map(|count| {
        while sessions.len() < count {
            let mut session = cluster.connect();
            session.batch_execute("BEGIN; INSERT INTO events DEFAULT VALUES").unwrap();
            sessions.push(session);
        }
        let mut ns = |call: &str| {
            let run =
                format!("DO $$ BEGIN FOR n IN 1 .. {CALLS} LOOP PERFORM {call}; COMMIT; END LOOP; END $$");
            seconds(|| client.batch_execute(&run).unwrap()) * 1e9 / f64::from(CALLS)
        };
        let net = (0..REPETITIONS).map(|_| ns("snowflake_watermark()") - ns("pg_backend_pid()")).collect();
        vec![count.to_string(), time(median(net) as u64)]
    });
    println!("\n### The watermark: one call, net, median of {REPETITIONS} repetitions\n");
    println!("{}", table(&["transactions in progress that have taken IDs", "one call"], rows));
}
