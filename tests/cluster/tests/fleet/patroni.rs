//! A fleet under Patroni: the registry is a cluster of two with strictly synchronous replication, a shard another
//! cluster of two. Clients record every ID they get, while both clusters switch over and lose their primaries.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use harness::patroni::{PatroniCluster, Site, block};
use harness::*;
use postgres::fallible_iterator::FallibleIterator;
use postgres::{Config, NoTls};

/// How many more IDs clients must get before the test continues.
const SOME: usize = 2_000;

#[test]
#[ignore = "needs Debian's packages of Patroni and etcd: scripts/test.sh patroni"]
fn both_are_switched_over_and_lose_their_primary() {
    let packages = "Patroni and etcd in SNOWFLAKE_ID_PATRONI (scripts/test.sh patroni)";
    let Some(site) = needs(packages, Site::start()) else { return };
    let mut registry = site.cluster("registry", "1", "Sync Standby");
    let mut shard = site.cluster("shard", "2", "Replica");
    registry.wait_for_standby();
    let mut client = registry.config.connect(NoTls).unwrap();
    client.run(block("sql\n"));
    // Leases are renewed more often than on the page, so that renewals happen in each part of the test. A failover must
    // take less than three times `renew_every`.
    client.run("SELECT snowflake_registry.configure(lease => '3min', renew_every => '20s')");
    shard.wait_for_standby();
    shard.config.connect(NoTls).unwrap().run(
        "CREATE EXTENSION snowflake_id;
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item int)",
    );
    shard.wait_for("snowflake_nextval() > 0");

    let got = Mutex::new(Vec::new());
    let wait_for_ids = || {
        let wanted = got.lock().unwrap().len() + SOME;
        eventually("more IDs", || got.lock().unwrap().len() >= wanted);
    };
    let mut events = Vec::new();
    let mut event = |what, cluster: &mut PatroniCluster, happen: fn(&mut PatroniCluster, i32)| {
        println!("{what}");
        let primary = cluster.primary();
        events.push((SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64, what));
        happen(cluster, primary);
        eventually("another primary", || cluster.primary() != primary);
        wait_for_ids();
        cluster.start_patronis();
        cluster.wait_for_standby();
        wait_for_ids();
    };
    let config = shard.config.clone();
    beside([|stop: &AtomicBool| insert_until(&config, &got, stop); 3], || {
        wait_for_ids();
        event("switchover of the shard", &mut shard, |it, primary| it.switch_over(primary));
        event("switchover of the registry", &mut registry, |it, primary| it.switch_over(primary));
        event("kill -9 of the registry's primary", &mut registry, |it, primary| it.kill_postgresql(primary));
        event("kill -9 of the shard's primary", &mut shard, |it, primary| it.kill_postgresql(primary));
        event("kill -9 of the shard's primary and of its Patroni", &mut shard, |it, primary| {
            it.kill_patroni(primary);
            it.kill_postgresql(primary);
        });
    });
    let is_recent = "renewed_at > clock_timestamp() - interval '21 s'";
    registry.wait_for(&format!("count(*) > 0 FROM snowflake_registry.fleet WHERE {is_recent}"));
    let leases =
        "string_agg(concat_ws(' | ', worker_id, state, node_name, host, grant_count, time_left), chr(10))";
    let leases = registry.ask::<String>(&format!("SELECT {leases} FROM snowflake_registry.fleet"));
    let state = registry.ask::<String>("SELECT state FROM snowflake_registry.status");
    println!("\nThe registry is {}.\n{}", state.unwrap(), leases.unwrap());

    let mut ids = got.into_inner().unwrap();
    ids.sort_unstable();
    let workers: BTreeSet<i64> = ids.iter().map(|id| (id >> 12) & 1023).collect();
    println!("\n{} IDs under the worker IDs {workers:?}. How long there were none, at most:", ids.len());
    show_gaps(&ids, &events);
    assert_distinct(&ids);
    // One for each server. A server that comes back may hold another one.
    assert!(workers.len() >= 2, "the standby that was promoted had no worker ID of its own");
    assert!(ids.len() >= 10_000, "that is too few to say anything");
}

/// Inserts rows on the primary and records every ID it receives, committed or not. Reconnects when the server is lost.
fn insert_until(primary: &Config, got: &Mutex<Vec<i64>>, stop: &AtomicBool) {
    let insert = || -> Result<(), postgres::Error> {
        let mut client = primary.connect(NoTls)?;
        while !stop.load(Ordering::Relaxed) {
            let insert = "INSERT INTO orders (item) SELECT generate_series(1, 20) RETURNING id";
            let mut rows = client.query_raw::<_, i32, _>(insert, [])?;
            while let Some(row) = rows.next()? {
                got.lock().unwrap().push(row.get(0));
            }
            thread::sleep(Duration::from_millis(30));
        }
        Ok(())
    };
    while insert().is_err() && !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(100));
    }
}

/// Prints for each event the longest time without an ID that ended after the event and before the next event.
fn show_gaps(ids: &[i64], events: &[(i64, &str)]) {
    let unix_time = |id: i64| (id >> 22) + 1_704_067_200_000;
    for (at, (from, what)) in events.iter().enumerate() {
        let to = events.get(at + 1).map_or(i64::MAX, |next| next.0);
        let pairs = ids.windows(2).filter(|pair| (*from..to).contains(&unix_time(pair[1])));
        let gap = pairs.map(|pair| unix_time(pair[1]) - unix_time(pair[0])).max();
        println!("{:6.1} s  {what}", gap.unwrap_or(0) as f64 / 1_000.0);
    }
}
