//! `make fleet-demo`: a registry with a synchronous standby, three shards that lease their worker IDs from it, and a
//! standby of one of the shards. Clients take IDs from all shards. Meanwhile a shard is killed and its standby
//! promoted, the killed shard is started again by mistake, and the registry is stopped and fails over. At the end all
//! IDs that clients received are compared. Takes about a minute.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use snowflake_id_cluster_tests::fleet::Fleet;
use snowflake_id_cluster_tests::{
    Cluster, Run, beside, cut_power, eventually, leased_worker, single, successful, text,
};

/// A short lease for the demo. The default lease lasts 10 minutes and is renewed every minute.
const LEASE: Duration = Duration::from_secs(20);

/// The IDs that one client of a server received.
struct Got {
    ids: Vec<i64>,
    failures: Vec<String>,
}

fn main() {
    let began = Instant::now();
    let tell = |what: &str| println!("\n{:3} s  {what}", began.elapsed().as_secs());

    tell("A registry and its synchronous standby.");
    let settings = format!("lease => '{} s', renew_every => '2 s', synchronous => true", LEASE.as_secs());
    let fleet = Fleet::start(&settings);
    let registry = &fleet.registry;
    let registry_standby = registry.start_standby(&[]);
    registry.replicate_synchronously();

    tell("Three shards. None of them has a worker ID in its configuration.");
    let hosts = format!("{},{}", registry.host().display(), registry_standby.host().display());
    let connection = format!("host={hosts} dbname=postgres user=fleet target_session_attrs=read-write");
    let shards = ["shard 1", "shard 2", "shard 3"].map(|name| {
        let shard = fleet.server_by(&connection).set("cluster_name", name).start();
        shard
            .connect()
            .run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), client int)");
        leased_worker(&shard);
        shard
    });
    let standby = shards[0].start_standby(&[("cluster_name", "shard 1, standby")]);

    let (got, got_of_standby) = beside(clients_of(&shards), || {
        println!("       Shard 1 has an asynchronous standby. Clients insert on all shards.");
        thread::sleep(Duration::from_secs(3));
        show_fleet(registry);

        tell("Shard 1 crashes, and its standby is promoted.");
        cut_power(&shards[0]);
        standby.promote();
        let promoted = Instant::now();
        let worker = leased_worker(&standby);
        let seconds = promoted.elapsed().as_secs_f64();
        println!(
            "       It leased worker ID {worker}, and issued its first ID {seconds:.1} s after its promotion."
        );
        println!(
            "       It need not wait until the lease of the old shard 1 ends, because it has another worker ID."
        );

        let during = || after_the_promotion(&tell, registry, &registry_standby, &shards[0]);
        beside(clients_of([&standby]), during).0
    });

    tell("IDs that clients received, including those of rows that were lost with the old shard 1:");
    let names = ["shard 1", "shard 2", "shard 3", "its standby"];
    let mut times = BTreeMap::<i64, u32>::new();
    let mut all_went_well = true;
    for (at, name) in names.iter().enumerate() {
        let of_server: Vec<_> = got.iter().chain(&got_of_standby).skip(at * CLIENTS).take(CLIENTS).collect();
        let ids = || of_server.iter().flat_map(|got| &got.ids);
        let failures: Vec<_> = of_server.iter().flat_map(|got| &got.failures).collect();
        println!("       {name:11} {:8} IDs, {:3} calls failed", ids().count(), failures.len());
        ids().for_each(|id| *times.entry(*id).or_default() += 1);
        // The first server was killed.
        if at > 0 && !failures.is_empty() {
            println!("       {failures:?}");
            all_went_well = false;
        }
    }
    let repeated = times.values().filter(|&&times| times > 1).count();
    println!("\n       {} different IDs, {repeated} of them received more than once.", times.len());
    assert!(repeated == 0 && times.len() > 10_000 && all_went_well, "the fleet has failed");
    println!("       Calls failed only on shard 1, which was killed.");
}

const CLIENTS: usize = 4;

/// Clients that insert rows on the given servers until they are told to stop.
fn clients_of<'a>(
    servers: impl IntoIterator<Item = &'a Cluster>,
) -> Vec<impl FnOnce(&AtomicBool) -> Got + Send + 'a> {
    let servers = servers.into_iter();
    servers
        .flat_map(|server| (0..CLIENTS).map(move |_| |stop: &AtomicBool| insert_until(server, stop)))
        .collect()
}

fn insert_until(server: &Cluster, stop: &AtomicBool) -> Got {
    let mut got = Got { ids: vec![], failures: vec![] };
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = server.try_connect("postgres") else {
            thread::sleep(Duration::from_millis(200));
            continue;
        };
        while !stop.load(Ordering::Relaxed) && !client.is_closed() {
            let insert = "INSERT INTO orders (client) SELECT generate_series(1, 10) RETURNING id";
            match client.query(insert, &[]) {
                Ok(rows) => got.ids.extend(rows.iter().map(|row| row.get::<_, i64>(0))),
                Err(error) => got.failures.push(text(&error)),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
    got
}

/// Runs the accidents that follow the promotion of the standby of shard 1.
fn after_the_promotion(tell: &dyn Fn(&str), registry: &Cluster, registry_standby: &Cluster, old: &Cluster) {
    thread::sleep(Duration::from_secs(3));
    tell("The old shard 1 is started again by mistake: two primaries. Both take IDs.");
    old.start_server();
    leased_worker(old);
    show_fleet(registry);

    tell(&format!("The registry is down for 5 s. Leases last for {} s, so no call fails.", LEASE.as_secs()));
    cut_power(registry);
    thread::sleep(Duration::from_secs(5));
    registry.start_server();
    // Whether the standby has all commits is known only right after a renewal.
    wait_for_renewals(registry, "pg_postmaster_start_time()");

    tell("The registry crashes for good, and its standby is promoted.");
    cut_power(registry);
    registry_standby.promote();
    let promoted: String = single(&mut registry_standby.connect(), "SELECT clock_timestamp()::text");
    wait_for_renewals(registry_standby, &format!("'{promoted}'::timestamptz"));
    // Wait until the earlier leases have ended. After that, servers hold only leases of the new registry.
    thread::sleep(LEASE + Duration::from_secs(2));
    tell("More than a lease later. The fleet, as the new registry sees it:");
    show_fleet(registry_standby);
}

/// Waits until all four servers have renewed their leases since `since`, one of them only a moment ago.
fn wait_for_renewals(registry: &Cluster, since: &str) {
    let query = format!(
        "SELECT count(*) >= 4 AND max(renewed_at) > clock_timestamp() - interval '1 s'
         FROM snowflake_registry.fleet WHERE renewed_at > {since} AND state = 'held'"
    );
    let mut client = registry.connect();
    eventually("renewals", || single::<bool>(&mut client, &query));
}

fn show_fleet(registry: &Cluster) {
    let query = "SELECT worker_id, state, node_name, round(extract(epoch FROM time_left))::int AS seconds_left, grant_count
                 FROM snowflake_registry.fleet";
    let mut psql = registry.client_program("psql");
    psql.args(["--no-psqlrc", "--pset=footer=off", "--dbname=postgres", "--command", query]);
    print!("{}", String::from_utf8_lossy(&successful(&mut psql).stdout));
}
