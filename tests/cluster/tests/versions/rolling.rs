//! Servers get the next version one by one, and lose it again, while clients take IDs and numbers.

use std::sync::atomic::AtomicBool;

use harness::segments::{refusal, segment_state};
use harness::versions::{CURRENT, Installation, NEXT, file, run_by};
use harness::*;

const SEGMENTS: &str = "snowflake_id.segments";
const NUMBERS: &str = "SELECT snowflake_segment_batch('orders', 100)";

/// A registry, and one or two servers, each with an installation of its own.
struct Pair {
    registry: Cluster,
    installations: [Installation; 2],
    servers: Vec<Cluster>,
}

impl Pair {
    fn start(count: usize) -> Pair {
        let registry =
            Registry::of_both("lease => '10min', renew_every => '300ms'").start(Cluster::builder());
        registry
            .connect()
            .run("SELECT snowflake_registry.create_segment('orders', min_step => 50, max_step => 50)");
        let installations = [Installation::copy(), Installation::copy()];
        let servers = installations[..count].iter().map(|installation| {
            let server = installation.server().preload().short_horizon().set("snowflake_id.max_wait", "20s");
            server.set("snowflake_id.registry", registry.connection_string("fleet")).start()
        });
        let servers: Vec<_> = servers.collect();
        Pair { registry, installations, servers }
    }

    /// Runs `event` while clients take IDs and numbers from both servers. Returns the IDs and the numbers.
    fn taking(&self, event: impl FnOnce()) -> (Vec<i64>, Vec<i64>) {
        let returning = |server| Taker { returns: true, ..Taker::of(server) };
        let of_ids = self.servers.iter().map(returning);
        let of_numbers = of_ids.clone().map(|taker| Taker { queries: vec![NUMBERS.into()], ..taker });
        let clients = of_ids.map(|taker| move |stop: &AtomicBool| taker.take(stop));
        let (ids, (numbers, ())) = beside(clients, || while_taking(of_numbers, event));
        ids.iter().for_each(|mine| assert_increasing(mine));
        (ids.concat(), numbers)
    }
}

/// Which library a server has loaded, by the format that it writes.
fn format_of_numbers(server: &Cluster) -> char {
    file(server, SEGMENTS).chars().nth("# format ".len()).unwrap()
}

/// The steps of docs/run/install.md on each server: the files, a restart, and ALTER EXTENSION.
#[test]
fn servers_are_upgraded_one_by_one() {
    let pair = Pair::start(2);
    let workers: Vec<_> = pair.servers.iter().map(leased_worker).collect();
    let (mut all, mut numbers) = pair.taking(|| {
        for (installation, server) in pair.installations.iter().zip(&pair.servers) {
            installation.install_next();
            // The server issues IDs with the old library, and new sessions load it.
            some_ids(server);
            ids(&mut server.connect(), NUMBERS);
            assert_eq!(format_of_numbers(server), '1');
            server.restart("fast");
            some_ids(server);
            let mut client = server.connect();
            client.run("ALTER EXTENSION snowflake_id UPDATE");
            ids(&mut client, NUMBERS);
            eventually("the new format", || format_of_numbers(server) == '2');
        }
    });
    for (server, worker) in pair.servers.iter().zip(workers) {
        let mut client = server.connect();
        let version = "SELECT extversion FROM pg_extension WHERE extname = 'snowflake_id'";
        assert_eq!(single::<String>(&mut client, version), NEXT);
        assert_eq!(single::<i32>(&mut client, "SELECT snowflake_made_up()"), 1);
        assert_eq!(leased_worker(server), worker);
        all.extend(some_ids(server));
        numbers.extend(ids(&mut client, NUMBERS));
    }
    assert_distinct(&all);
    assert_distinct(&numbers);
    let versions = "SELECT count(*) FROM snowflake_registry.fleet WHERE state = 'held'";
    assert_eq!(single::<i64>(&mut pair.registry.connect(), versions), 2);
}

/// The library of one server is rolled back. The older library reads the formats that did not change, and does not use
/// the newer one: the server issues IDs but no numbers until it has the newer library again. The objects of the newer
/// version that do not need the library still work.
#[test]
fn a_library_is_rolled_back() {
    let pair = Pair::start(2);
    let server = &pair.servers[0];
    let [installation, _] = &pair.installations;
    let worker = leased_worker(server);
    let mut all = some_ids(server);
    let mut numbers = ids(&mut server.connect(), NUMBERS);
    installation.install_next();
    server.restart("fast");
    server.connect().run("ALTER EXTENSION snowflake_id UPDATE");
    numbers.extend(ids(&mut server.connect(), NUMBERS));
    all.extend(some_ids(server));
    assert_eq!(format_of_numbers(server), '2');
    let (taken, more) = pair.taking(|| {
        installation.roll_back_library();
        server.restart("fast");
        some_ids(server);
        let mut client = server.connect();
        client.run("SET snowflake_id.max_wait = '1s'");
        let (state, text) = refusal(&mut client, "orders");
        assert_eq!(state, "55000", "{text}");
        assert!(text.contains("the file has format 2"), "{text}");
        assert_eq!(segment_state(&mut client, "orders"), "no registry");
        assert_eq!(single::<i32>(&mut client, "SELECT snowflake_made_up()"), 1);
        server.restart("immediate");
        some_ids(server);
        assert_eq!(leased_worker(server), worker);
        assert_eq!(format_of_numbers(server), '2');
        installation.install_library_of_next();
        server.restart("fast");
        ids(&mut server.connect(), NUMBERS);
    });
    all.extend(taken);
    numbers.extend(more);
    all.extend(some_ids(server));
    numbers.extend(ids(&mut server.connect(), NUMBERS));
    assert_distinct(&all);
    assert_distinct(&numbers);
}

/// The standby has the next version already when it is promoted. It finds the rows of the current one.
#[test]
fn a_newer_standby_is_promoted() {
    let pair = Pair::start(1);
    let primary = &pair.servers[0];
    let mut all = some_ids(primary);
    let mut numbers = ids(&mut primary.connect(), NUMBERS);
    let mut standby = primary.start_standby(&[]);
    primary.replicate_synchronously();
    standby.stop_server("fast");
    let [_, newer] = &pair.installations;
    newer.install_next();
    run_by(&mut standby, newer);
    standby.start_server();
    all.extend(some_ids(primary));
    numbers.extend(ids(&mut primary.connect(), NUMBERS));
    let version = "SELECT extversion FROM pg_extension WHERE extname = 'snowflake_id'";
    primary.stop_server("immediate");
    standby.configure(&[("synchronous_standby_names", "")]);
    standby.reload();
    standby.promote();
    all.extend(some_ids(&standby));
    let mut client = standby.connect();
    numbers.extend(ids(&mut client, NUMBERS));
    assert_eq!(format_of_numbers(&standby), '2');
    assert_eq!(single::<String>(&mut client, version), CURRENT);
    client.run("ALTER EXTENSION snowflake_id UPDATE");
    assert_eq!(single::<String>(&mut client, version), NEXT);
    all.extend(some_ids(&standby));
    numbers.extend(ids(&mut client, NUMBERS));
    assert_distinct(&all);
    assert_distinct(&numbers);
}
