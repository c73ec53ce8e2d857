//! The procedures of the page "Managing the registry" as they are written, while clients take IDs and numbers from all
//! servers. Each is also run with every step twice, in another order, and stopped half-way; a standby is forgotten, and a
//! backup from before the move is restored twice. No ID and no number is repeated.

use std::fs;
use std::sync::LazyLock;
use std::time::Duration;

use harness::book::of_test;
use harness::examples::{block_at, run_block};
use harness::*;

static PAGE: LazyLock<String> = LazyLock::new(|| of_test("moves"));
/// Later than the end of the freeze in the page, in seconds.
const AFTER_THE_FREEZE: f64 = 1.1 * 60.0 * 60.0;

/// How the steps of a procedure are run.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    AsWritten,
    /// Each step twice.
    Twice,
    /// The servers are configured before the registry is started, and the last one first.
    Early,
    /// A server returns to its former settings after it has joined, and servers crash meanwhile.
    Interrupted,
}

impl Way {
    /// Runs a step, as often as this way of running the procedure requires.
    fn step(self, client: &mut Client, block: &str) {
        for _ in 0..if self == Way::Twice { 2 } else { 1 } {
            run_block(client, block);
        }
    }
}

/// A block of the page with the part that differs in the test replaced.
fn with(block: &str, old: &str, new: &str) -> String {
    assert_eq!(block.matches(old).count(), 1, "{old:?} in {block}");
    block.replace(old, new)
}

/// Clients that take IDs from all servers, and numbers if `segment` is given. They reconnect after restarts.
fn clients<'a>(servers: impl IntoIterator<Item = &'a Cluster>, segment: Option<&str>) -> Vec<Taker<'a>> {
    let ids = vec!["SELECT snowflake_nextval()".into(), "SELECT snowflake_batch(500)".into()];
    let numbers = segment.map(|name| vec![format!("SELECT -snowflake_segment_nextval('{name}')")]);
    let pause = Duration::from_millis(40);
    let of = |server, queries: &Vec<String>| {
        let first = "SET snowflake_id.max_wait = '300ms'".into();
        Taker { queries: queries.clone(), returns: true, pause, first, ..Taker::of(server) }
    };
    let servers: Vec<_> = servers.into_iter().collect();
    let pairs = servers.iter().flat_map(|server| [of(server, &ids), of(server, &ids)]);
    pairs.chain(servers.iter().flat_map(|server| numbers.iter().map(|queries| of(server, queries)))).collect()
}

/// Runs `event` beside such clients. Returns all IDs and all numbers, after checking that none was repeated.
fn under_load<'a>(
    servers: impl IntoIterator<Item = &'a Cluster>,
    segment: Option<&str>,
    event: impl FnOnce(),
) -> (Vec<i64>, Vec<i64>) {
    let takers = clients(servers, segment).into_iter().map(|taker| move |stop: &_| taker.take(stop));
    let (all, ()) = beside(takers, event);
    // The clients return numbers as negative values.
    let (numbers, ids): (Vec<i64>, Vec<i64>) = all.concat().into_iter().partition(|id| *id < 0);
    println!("{} IDs and {} numbers", ids.len(), numbers.len());
    assert_distinct(&ids);
    assert_distinct(&numbers);
    (ids, numbers)
}

/// Waits until a server issues IDs under a worker ID from the given registry. Returns the worker ID.
#[track_caller]
fn worker_from(server: &Cluster, source: &str) -> i32 {
    eventually(source, || {
        let mut client = server.try_connect("postgres").ok()?;
        (shown(&mut client, "identity_source").as_deref() == Some(source)).then_some(())
    });
    leased_worker(server)
}

/// The error with which a request for an ID fails.
fn failure_of(client: &mut Client) -> Option<String> {
    let error = client.query_one("SELECT snowflake_nextval()", &[]).err()?;
    Some(error.code()?.code().to_owned())
}

/// Waits until a server issues no IDs.
#[track_caller]
fn wait_until_silent(server: &Cluster) {
    let mut client = server.connect();
    eventually("no IDs", || failure_of(&mut client).is_some_and(|code| code == "55000"));
}

/// Waits until a server refuses this worker ID. It may continue to the end of its former lease.
#[track_caller]
fn assert_refused(server: &Cluster, worker: i32) {
    let said = format!("worker ID {worker} belongs to registry");
    let mut client = server.connect();
    eventually(&said, || {
        let mut shows = |column| shown(&mut client, column).is_some_and(|text| text.contains(&said));
        shows("warning") || shows("last_error")
    });
    if let Ok(row) = client.query_one("SELECT snowflake_worker(snowflake_nextval())", &[]) {
        assert!(row.get::<_, i32>(0) >= 512);
    }
}

/// A server that takes its settings for the registry only from [`join`].
fn by_hand() -> Builder {
    Cluster::builder().preload().following_clock()
}

fn join(way: Way, server: &Cluster, string: &str) {
    let join = format!("ALTER SYSTEM SET snowflake_id.registry = '{string}';\nSELECT pg_reload_conf();");
    way.step(&mut server.connect(), &join);
}

fn add(way: Way, registry: &Cluster, name: &str) {
    let add = with(block_at(&PAGE, "on the registry: add"), "shard1", name);
    way.step(&mut registry.connect(), &add);
}

/// Four servers whose worker IDs are set by hand, three of them in settings and one in its row. The last does not move.
fn to_a_registry(way: Way) {
    let many = Cluster::builder().set("max_connections", 100).clock();
    let registry = Registry::of_leases(LASTING_LEASES).not_started().start(many);
    let in_settings: Vec<_> = [1, 2, 4].map(|worker| by_hand().worker(worker).start()).into();
    let in_row = by_hand().set("snowflake_id.node_name", "third").start();
    in_row.connect().run("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('third', 3)");
    leased_worker(&in_row);
    let [first, second, staying] = &in_settings[..] else { unreachable!() };
    let forgotten = first.start_standby(&[]);
    let restored = [(); 2].map(|()| second.base_backup(&[]));
    let mut movers = [first, second, &in_row];
    let string = |name: &str| registry.connection_string(name);
    let names = ["s1", "s2", "s3"];
    if way == Way::Early {
        movers.reverse();
    }
    let all = in_settings.iter().chain([&in_row, &forgotten]).chain(&restored);
    under_load(all, None, || {
        if way == Way::Early {
            for (server, name) in movers.iter().zip(names) {
                join(way, server, &string(name));
                eventually("a try", || shown(&mut server.connect(), "registry_state").is_some());
                leased_worker(server);
            }
            movers[0].restart("immediate");
            leased_worker(movers[0]);
        }
        way.step(&mut registry.connect(), block_at(&PAGE, "on the registry: start"));
        for ((server, name), worker) in movers.iter().zip(names).zip(1..) {
            add(way, &registry, name);
            join(way, server, &string(name));
            eventually("the lease", || {
                let mut client = server.connect();
                let query = block_at(&PAGE, "on each server: joined").split_once(';').unwrap().0;
                examples::last_row(&mut client, query) == "registry | granted"
            });
            assert!(worker_from(server, "registry") >= 512);
            if way == Way::Interrupted {
                // The former line again, with the worker ID that the server has left.
                let mut client = server.connect();
                client.run("ALTER SYSTEM RESET snowflake_id.registry");
                client.run("SELECT pg_reload_conf()");
                assert_refused(server, worker);
                server.restart("immediate");
                wait_until_silent(server);
                join(way, server, &string(name));
                assert!(worker_from(server, "registry") >= 512);
            }
        }
        first.stop_server("immediate");
        forgotten.promote();
        wait_until_silent(&forgotten);
        join(way, &forgotten, &string(names[movers.iter().position(|it| std::ptr::eq(*it, first)).unwrap()]));
        assert!(worker_from(&forgotten, "registry") >= 512);
        for copy in &restored {
            copy.configure(&[("snowflake_id.registry", &string("s2"))]);
            copy.start_server();
        }
        for copy in &restored {
            assert!(worker_from(copy, "registry") >= 512);
        }
        for server in [second, &in_row] {
            way.step(&mut server.connect(), block_at(&PAGE, "on each server: clear"));
            assert!(leased_worker(server) >= 512);
        }
        assert_eq!(worker_from(staying, "settings"), 4);
    });
}

#[test]
fn to_a_registry_as_written() {
    to_a_registry(Way::AsWritten);
}

#[test]
fn to_a_registry_with_each_step_twice() {
    to_a_registry(Way::Twice);
}

#[test]
fn to_a_registry_from_the_other_end() {
    to_a_registry(Way::Early);
}

#[test]
fn to_a_registry_and_back_and_forth() {
    to_a_registry(Way::Interrupted);
}

/// A registry that has added servers of these names, which have leases.
fn fleet_of(configuration: &str, names: &[&str]) -> (Cluster, Vec<Cluster>) {
    let many = Cluster::builder().set("max_connections", 100).clock();
    let registry = Registry::of_both(configuration).not_started().start(many);
    run_block(&mut registry.connect(), block_at(&PAGE, "on the registry: start"));
    let servers = names.iter().map(|name| {
        add(Way::AsWritten, &registry, name);
        by_hand().set("snowflake_id.registry", registry.connection_string(name)).start()
    });
    let servers: Vec<_> = servers.collect();
    for server in &servers {
        leased_worker(server);
    }
    (registry, servers)
}

/// The worker ID that was reserved for a server, and that it has not used.
fn unused_spare(registry: &Cluster, name: &str) -> Option<i32> {
    let query = block_at(&PAGE, "on the registry: spare").split_once(';').unwrap().0;
    let row = registry.connect().query_opt(&with(query, "shard1", name), &[]).unwrap()?;
    assert_eq!(row.get::<_, i32>("datacenter_id"), 0);
    Some(row.get("worker_id"))
}

fn spare(registry: &Cluster, name: &str) -> i32 {
    unused_spare(registry, name).unwrap()
}

fn leave(way: Way, server: &Cluster, worker: i32) {
    let block = block_at(&PAGE, "on the server: leave").replace("1023", &worker.to_string());
    way.step(&mut server.connect(), &block);
}

/// A server leaves twice, the second time while the registry is down, and returns in between. It never uses the same
/// worker ID by hand again, and neither does its standby.
fn a_server_leaves(way: Way) {
    let (registry, servers) = fleet_of(LASTING_LEASES, &["s1", "s2"]);
    let [leaving, staying] = &servers[..] else { unreachable!() };
    let standby = leaving.start_standby(&[]);
    let leased = leased_worker(leaving);
    under_load([leaving, staying, &standby], None, || {
        let first = spare(&registry, "s1");
        leave(way, leaving, first);
        assert_eq!(worker_from(leaving, "settings"), first);
        // The worker ID that it had leased is refused.
        leave(way, leaving, leased);
        wait_until_silent(leaving);
        leave(way, leaving, first);
        assert_eq!(worker_from(leaving, "settings"), first);
        if way == Way::Interrupted {
            leaving.restart("immediate");
            assert_eq!(worker_from(leaving, "settings"), first);
        }
        join(way, leaving, &registry.connection_string("s1"));
        assert!(worker_from(leaving, "registry") >= 512);
        let another = with(block_at(&PAGE, "on the registry: another spare"), "shard1", "s1");
        let second = eventually("another spare", || {
            way.step(&mut registry.connect(), &another);
            unused_spare(&registry, "s1").filter(|second| *second != first)
        });
        registry.stop_server("immediate");
        leave(way, leaving, first);
        assert_refused(leaving, first);
        leave(way, leaving, second);
        assert_eq!(worker_from(leaving, "settings"), second);
        registry.start_server();
        // The standby was forgotten: it follows the registry, as before.
        leaving.stop_server("immediate");
        standby.promote();
        assert!(worker_from(&standby, "registry") >= 512);
        leave(way, &standby, first);
        assert_refused(&standby, first);
        assert_renewed(staying);
    });
}

#[test]
fn a_server_leaves_as_written() {
    a_server_leaves(Way::AsWritten);
}

#[test]
fn a_server_leaves_with_each_step_twice() {
    a_server_leaves(Way::Twice);
}

#[test]
fn a_server_leaves_and_crashes() {
    a_server_leaves(Way::Interrupted);
}

#[test]
fn giving_up_the_registry() {
    let names = ["s1", "s2", "s3"];
    let (registry, servers) = fleet_of(LASTING_LEASES, &names);
    under_load(&servers, None, || {
        for (server, name) in servers.iter().zip(names) {
            let spare = spare(&registry, name);
            leave(Way::AsWritten, server, spare);
            assert_eq!(worker_from(server, "settings"), spare);
        }
        let mut client = registry.connect();
        // A request that a server sent before it left would get a lease that ends after the new time.
        let sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 's_'";
        eventually("the last requests", || single::<i64>(&mut client, sessions) == 0);
        set_clocks(servers.iter().chain([&registry]), AFTER_THE_LEASE);
        let live = "SELECT live_leases FROM snowflake_registry.status";
        eventually("the ends of all leases", || single::<i64>(&mut client, live) == 0);
        run_block(&mut client, block_at(&PAGE, "on the registry: end"));
        for (server, worker) in servers.iter().zip(workers(&servers)) {
            assert_eq!(leased_worker(server), worker);
        }
    });
}

fn workers(servers: &[Cluster]) -> Vec<i32> {
    servers.iter().map(leased_worker).collect()
}

/// Moves a fleet of four to another registry. The last server is forgotten.
fn to_another_registry(way: Way) {
    let names = ["s1", "s2", "s3", "s4"];
    let many = Cluster::builder().set("max_connections", 100).clock();
    let (old, servers) = fleet_of(LASTING_LEASES, &names);
    segments::administer(&old, "create_segment('orders', min_step => 20, max_step => 100)");
    segments::administer(&old, "create_segment('parcels')");
    segments::administer(&old, "drop_segment('parcels')");
    old.connect().run("SELECT snowflake_registry.reserve(600, note => 'a script')");
    let new = many.extensions(&[]).start();
    let (forgotten, movers) = servers.split_last().unwrap();
    under_load(&servers, Some("orders"), || {
        let mut at_old = old.connect();
        let mut at_new = new.connect();
        run_block(&mut at_old, block_at(&PAGE, "on the old registry: freeze"));
        let end: String = single(&mut at_old, "SELECT frozen_until::text FROM snowflake_registry.status");
        let resume_at: i64 =
            single(&mut at_old, "SELECT resume_at FROM snowflake_registry.segments WHERE name = 'orders'");
        at_new.run("CREATE ROLE fleet; CREATE EXTENSION snowflake_id_registry");
        let script = block_at(&PAGE, "on the old registry: script").split_once(';').unwrap().0;
        let lines = examples::rows(&mut at_old, script).concat();
        if way == Way::Interrupted {
            // The script is interrupted after every third of its lines, and begun again.
            let last = lines.iter().position(|line| line == "COMMIT;").unwrap();
            for end in (Random::seeded().below(3) as usize..=last).step_by(3) {
                let _ = new.connect().batch_execute(&lines[..end].join("\n"));
            }
        }
        at_new.run(&lines.join("\n"));
        if way == Way::Twice {
            new.connect().batch_execute(&lines.join("\n")).unwrap_err();
        }
        for (server, name) in movers.iter().zip(names) {
            add(way, &new, name);
            let step = with(
                block_at(&PAGE, "on each server: move"),
                "host=registry3 dbname=postgres user=shard1 passfile=/var/lib/postgresql/fleet.pass",
                &new.connection_string(name),
            );
            way.step(&mut server.connect(), &step);
            let shell = "pg_ctl stop -m fast\nrm \"$PGDATA/snowflake_id.lease\"\npg_ctl start\n";
            assert!(PAGE.contains(shell));
            server.stop_server("fast");
            fs::remove_file(lease_path(server)).unwrap();
            server.start_server();
        }
        set_clocks(servers.iter().chain([&old, &new]), AFTER_THE_FREEZE);
        // The wait of the new registry counts real calls. Its time is long over.
        at_new.run("SELECT snowflake_registry.end_quarantine()");
        for server in movers {
            assert!(worker_from(server, "registry") >= 512);
            eventually("a number of the new registry", || {
                let mut client = server.try_connect("postgres").ok()?;
                let row = client.query_one("SELECT snowflake_segment_nextval('orders')", &[]).ok()?;
                (row.get::<_, i64>(0) >= resume_at).then_some(())
            });
        }
        assert!(single::<bool>(&mut at_old, &format!("SELECT clock_timestamp() > '{end}'")));
        way.step(&mut at_old, block_at(&PAGE, "on the old registry: end"));
        wait_until_silent(forgotten);
        for server in movers {
            assert_renewed(server);
        }
        let kept = "SELECT note FROM snowflake_registry.fleet WHERE worker_id = 600";
        assert_eq!(single::<String>(&mut at_new, kept), "a script");
    });
}

#[test]
fn to_another_registry_as_written() {
    to_another_registry(Way::AsWritten);
}

#[test]
fn to_another_registry_with_each_step_twice() {
    to_another_registry(Way::Twice);
}

#[test]
fn to_another_registry_with_interruptions() {
    to_another_registry(Way::Interrupted);
}
