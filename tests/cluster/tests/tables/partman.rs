//! pg_partman with tables whose partitions are ranges of snowflake IDs, as the page describes, with Debian's package.

use harness::book::of_test;
use harness::examples::blocks;
use harness::installation::installation_with;
use harness::*;
/// The directory in which `postgresql-15-partman` is unpacked: see scripts/test.sh.
const PARTMAN: &str = "SNOWFLAKE_ID_PARTMAN";

/// The two examples of the page: the initial setup and the nightly job.
fn examples() -> [String; 2] {
    let blocks: Vec<String> = blocks(&of_test("partman")).map(Into::into).collect();
    blocks.try_into().expect("two examples")
}

/// Moves the clock, and accepts the jump.
fn jump(cluster: &Cluster, days: u32) {
    cluster.set_clock(f64::from(days) * 86_400.0);
    let mut client = cluster.connect();
    client.run("SET snowflake_id.max_wait = '100ms'");
    eventually("the jump to be accepted", || {
        client.batch_execute("SELECT snowflake_accept_clock()").ok()?;
        client.batch_execute("SELECT snowflake_nextval()").ok()
    });
}

/// The number of rows outside all partitions.
fn strays(client: &mut Client) -> i64 {
    single(client, "SELECT count(*) FROM clicks_default")
}

#[test]
fn partitions_are_made_by_the_clock() {
    let installation = installation_with(PARTMAN);
    let Some((_dir, pg_config)) = needs("pg_partman (Debian: postgresql-15-partman)", installation) else {
        return;
    };
    let cluster = Cluster::builder().of(&pg_config).worker(1).clock().start();
    let mut client = cluster.connect();
    let [once, each_night] = examples();
    client.run(&once);
    let click = || {
        let query = "INSERT INTO clicks (page) VALUES ('/') RETURNING tableoid::regclass::text";
        let mut client = cluster.connect();
        eventually("an ID", || client.query_one(query, &[]).ok().map(|row| row.get::<_, String>(0)))
    };
    // The page about JSON says that pg_partman refuses the type.
    client.run("CREATE TABLE visits (id snowflake PRIMARY KEY) PARTITION BY RANGE (id)");
    let of_type = "SELECT partman.create_parent('public.visits', 'id', 'native', '15099494400000')";
    let (_, why) = failure(&mut client, of_type);
    assert!(why.contains("Supplied column is of type snowflake"), "{why}");
    let first = click();
    assert!(first.starts_with("clicks_p"), "{first}");
    let bound =
        format!("SELECT (snowflake_timestamp(substr('{first}', 9)::bigint) AT TIME ZONE 'UTC')::time::text");
    assert_eq!(single::<String>(&mut client, &bound), "00:00:00");

    // No rows are inserted for forty days. pg_partman alone depends on rows, and creates nothing.
    jump(&cluster, 40);
    let mut client = cluster.connect();
    client.run("SELECT partman.run_maintenance('public.clicks')");
    client.run("BEGIN; INSERT INTO clicks (page) VALUES ('/')");
    assert_eq!(strays(&mut client), 1);
    let (_, why) = failure(&mut client, "SELECT partman.run_maintenance('public.clicks')");
    assert!(why.contains("default partition \"clicks_default\" would be violated"), "{why}");
    client.run("ROLLBACK");

    // The nightly job of the page creates partitions by the clock, and may be repeated. It drops old ones.
    client.run(&each_night);
    let second = click();
    assert!(second > first, "{second} after {first}");
    for days in 41..=43 {
        jump(&cluster, days);
        click();
        client.run(&each_night);
    }
    assert_eq!(strays(&mut client), 0);
    assert!(single::<bool>(&mut client, &format!("SELECT to_regclass('{first}') IS NULL")));
    assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM clicks"), 4);
}
