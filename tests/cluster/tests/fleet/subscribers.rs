//! Standbys that `pg_createsubscriber` (PostgreSQL 17 and later) turns into logical subscribers: copies with a system
//! identifier of their own.

use harness::*;

/// Creates a standby of a server and turns it into a subscriber, which is not started yet.
fn subscriber(primary: &Cluster) -> Cluster {
    let standby = primary.start_standby(&[]);
    standby.stop_server("fast");
    let mut program = standby.program("pg_createsubscriber");
    program
        .arg("--pgdata")
        .arg(standby.data_dir())
        .args(["--database=postgres", "--subscriber-username=test", "--publisher-server"])
        .arg(primary.connection_string("test"))
        .arg("--socketdir")
        .arg(standby.host());
    successful(&mut program);
    standby
}

/// A copied server of the fleet becomes a subscriber of the original. Each issues IDs of its own. A copy of the
/// registry grants nothing and keeps its records.
#[test]
fn subscribers_are_copies() {
    if major(&pg_config()) < 17 {
        println!("there is no pg_createsubscriber");
        return;
    }
    let logical = |builder: Builder| builder.set("wal_level", "logical");
    let fleet = Fleet::of(logical(Cluster::builder()), LASTING_LEASES);
    let original = logical(fleet.server()).start();
    let worker = leased_worker(&original);
    original.connect().run("CREATE TABLE bills (id bigint PRIMARY KEY DEFAULT snowflake_nextval())");
    let copy = subscriber(&original);
    copy.start_server();
    assert_ne!(leased_worker(&copy), worker);
    for server in [&original, &copy] {
        server.connect().run("INSERT INTO bills SELECT FROM generate_series(1, 2000)");
    }
    let mut client = copy.connect();
    all_arrive("all rows", || single::<i64>(&mut client, "SELECT count(*) FROM bills") == 4_000);
    assert_eq!(leased_worker(&original), worker);

    let other = subscriber(&fleet.registry);
    other.start_server();
    eventually("a renewal of the original", || other.log().contains("skipping row of another registry"));
    let stranger = fleet.server_by(other.connection_string("fleet")).start();
    wait_for_error(&stranger, "another database cluster");
    // Its knowledge of the original's lease is from the time before it was a subscriber.
    assert_renewed(&original);
    let renewed = "SELECT max(renewed_at)::text FROM snowflake_registry.lease";
    let [there, here] =
        [&other, &fleet.registry].map(|server| single::<String>(&mut server.connect(), renewed));
    assert!(there < here, "{there} {here}");
}
