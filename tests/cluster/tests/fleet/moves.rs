//! The procedures of the page "Moving a fleet" as they are written, while clients take IDs and numbers from all
//! servers. None is repeated.

use std::fs;
use std::time::Duration;

use harness::examples::run_block;
use harness::*;

const PAGE: &str = include_str!("../../../../docs/how-to/moving-a-fleet.md");
/// Later than the end of the freeze in the page, in seconds.
const AFTER_THE_FREEZE: f64 = 1.1 * 60.0 * 60.0;

/// The blocks of code below a heading.
fn blocks(heading: &str) -> Vec<&'static str> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).expect("no such heading");
    section.split("```").skip(1).step_by(2).map(|block| block.split_once('\n').unwrap().1).collect()
}

/// The code block below a heading that begins with this line.
fn block(heading: &str, first_line: &str) -> &'static str {
    let found = blocks(heading).into_iter().find_map(|block| block.strip_prefix(first_line));
    found.unwrap_or_else(|| panic!("{heading}: no block {first_line:?}"))
}

/// A block with the part that differs in the test replaced.
fn with(block: &str, old: &str, new: &str) -> String {
    assert_eq!(block.matches(old).count(), 1, "{old:?} in {block}");
    block.replace(old, new)
}

/// Clients that take IDs from all servers, and numbers if `segment` is given. They reconnect after restarts.
fn clients<'a>(servers: impl IntoIterator<Item = &'a Cluster>, segment: Option<&str>) -> Vec<Taker<'a>> {
    let ids = vec!["SELECT snowflake_nextval()".into(), "SELECT snowflake_batch(100)".into()];
    let numbers = segment.map(|name| vec![format!("SELECT -snowflake_segment_nextval('{name}')")]);
    let pause = Duration::from_millis(2);
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

/// Gives a server a fixed worker ID that the registry never granted.
fn leave(registry: &mut Client, server: &Cluster, worker: i32) {
    let reserve = block("A server that leaves", "-- on the registry: reserve\n");
    run_block(registry, &with(reserve, "5", &worker.to_string()));
    let block = block("A server that leaves", "-- on the server: leave\n").replace('5', &worker.to_string());
    run_block(&mut server.connect(), &block);
    assert_eq!(worker_from(server, "settings"), worker);
}

#[test]
fn from_fixed_numbers_to_a_registry() {
    const HEADING: &str = "From fixed numbers to a registry";
    let fleet = Fleet::start(&format!("first_worker => 512, {LASTING_LEASES}"));
    let servers: Vec<_> = (1..4).map(|worker| Cluster::builder().worker(worker).start()).collect();
    let (mut ids, _) = under_load(&servers, None, || {
        for server in &servers {
            let join = block(HEADING, "-- on each server: join\n");
            let join = with(
                join,
                "host=registry1,registry2 dbname=postgres user=shard1",
                &fleet.connection_string(),
            );
            run_block(&mut server.connect(), &join);
            wait_for_registry_state(server, "granted");
        }
        for (server, worker) in servers.iter().zip(512..) {
            assert_eq!(worker_from(server, "registry"), worker);
            run_block(&mut server.connect(), block(HEADING, "-- on each server: float\n"));
            assert_renewed(server);
            assert_eq!(leased_worker(server), worker);
        }
    });
    let newcomer = fleet.server().start();
    ids.extend(some_ids(&newcomer));
    assert_eq!(leased_worker(&newcomer), 515);
    assert_distinct(&ids);
}

/// Moves a fleet of four to another registry, which grants other worker IDs or the same. The last server is forgotten.
fn to_another_registry(are_others: bool, start: impl Fn(&str) -> String) {
    const HEADING: &str = "To another registry";
    let many = Cluster::builder().set("max_connections", 100).clock();
    let old = Fleet { registry: Registry::of_both(LASTING_LEASES).start(many.clone()) };
    segments::administer(&old.registry, "create_segment('orders', min_step => 20, max_step => 100)");
    let new = Registry::of_both(LASTING_LEASES).not_started().start(many);
    let servers: Vec<_> = (0..4).map(|_| old.server_with_clock().start()).collect();
    for server in &servers {
        leased_worker(server);
    }
    let (forgotten, movers) = servers.split_last().unwrap();
    under_load(&servers, Some("orders"), || {
        let mut client = old.registry.connect();
        let freeze = block(HEADING, "-- on the old registry: freeze\n");
        let (call, look) = freeze.split_once(";\n").unwrap();
        let call = call.strip_prefix("SELECT ").unwrap();
        let end: String = single(&mut client, &format!("SELECT ({call})::text"));
        run_block(&mut client, look);
        let resume_at: i64 = single(&mut client, "SELECT resume_at FROM snowflake_registry.segments");

        let mut at_new = new.connect();
        client.run("SELECT snowflake_registry.reserve(600)");
        let reserved = block(HEADING, "-- on the old registry: what is reserved\n");
        at_new.run(&single::<String>(&mut client, reserved));
        run_block(&mut at_new, &start(&end));
        let segments = block(HEADING, "-- on the new registry: segments\n");
        run_block(&mut at_new, &with(segments, "123456", &resume_at.to_string()));

        for server in movers {
            let step = block(HEADING, "-- on each server: move\n");
            let step =
                with(step, "host=registry3 dbname=postgres user=shard1", &new.connection_string("fleet"));
            run_block(&mut server.connect(), &step);
            let shell = "pg_ctl stop -m fast\nrm \"$PGDATA/snowflake_id.lease\"\npg_ctl start\n";
            assert!(blocks(HEADING).contains(&shell), "{:?}", blocks(HEADING));
            server.stop_server("fast");
            fs::remove_file(lease_path(server)).unwrap();
            server.start_server();
        }
        if !are_others {
            set_clocks(servers.iter().chain([&old.registry, &new]), AFTER_THE_FREEZE);
        }
        for server in movers {
            worker_from(server, "registry");
            eventually("a number of the new registry", || {
                let mut client = server.try_connect("postgres").ok()?;
                let row = client.query_one("SELECT snowflake_segment_nextval('orders')", &[]).ok()?;
                (row.get::<_, i64>(0) >= resume_at).then_some(())
            });
        }
        set_clocks(servers.iter().chain([&old.registry, &new]), AFTER_THE_FREEZE);
        assert!(single::<bool>(&mut client, &format!("SELECT clock_timestamp() > '{end}'")));
        run_block(&mut client, block(HEADING, "-- on the old registry: end\n"));
        let mut client = forgotten.connect();
        eventually("no IDs", || failure_of(&mut client).is_some_and(|code| code == "55000"));
        // The servers that moved continue.
        for server in movers {
            assert_renewed(server);
        }
        assert_eq!(
            single::<i32>(
                &mut at_new,
                "SELECT worker_id FROM snowflake_registry.fleet WHERE state = 'reserved'"
            ),
            600
        );
    });
}

/// The error with which a request for an ID fails.
fn failure_of(client: &mut Client) -> Option<String> {
    let error = client.query_one("SELECT snowflake_nextval()", &[]).err()?;
    Some(error.code()?.code().to_owned())
}

#[test]
fn to_another_registry_with_other_worker_ids() {
    to_another_registry(true, |_| {
        block("To another registry", "-- on the new registry: other worker IDs\n").to_owned()
    });
}

#[test]
fn to_another_registry_with_the_same_worker_ids() {
    to_another_registry(false, |end| {
        let start = block("To another registry", "-- on the new registry: the same worker IDs\n");
        with(start, "2026-11-22 15:00:00+00", end)
    });
}

/// The server that leaves gets the worker ID that the next new server would get.
#[test]
fn a_server_that_leaves() {
    let fleet = Fleet::start(LASTING_LEASES);
    let [leaving, staying] = [(); 2].map(|()| fleet.server_with_clock().start());
    leased_worker(&leaving);
    leased_worker(&staying);
    const FIXED: i32 = 2;
    let (mut ids, _) = under_load([&leaving, &staying], None, || {
        leave(&mut fleet.registry.connect(), &leaving, FIXED);
        let query = format!("SELECT state FROM snowflake_registry.fleet WHERE worker_id = {FIXED}");
        let newcomer = fleet.server_with_clock().start();
        let all = [&leaving, &staying, &newcomer, &fleet.registry];
        set_clocks(all, LATE_IN_A_LEASE);
        assert_renewed(&staying);
        set_clocks(all, AFTER_THE_LEASE);
        assert_eq!(single::<String>(&mut fleet.registry.connect(), &query), "reserved");
        assert_ne!(leased_worker(&newcomer), FIXED);
        assert_eq!(leased_worker(&leaving), FIXED);
    });
    ids.extend(some_ids(&leaving));
    assert_distinct(&ids);
}

#[test]
fn giving_up_the_registry() {
    const HEADING: &str = "Giving up the registry";
    let fleet = Fleet::start(LASTING_LEASES);
    let servers: Vec<_> = (0..3).map(|_| fleet.server_with_clock().start()).collect();
    const FIXED: std::ops::Range<i32> = 900..903;
    for server in &servers {
        leased_worker(server);
    }
    under_load(&servers, None, || {
        let mut client = fleet.registry.connect();
        assert_eq!(run_block(&mut client, block(HEADING, "-- on the registry: freeze\n")), 1);
        for (server, worker) in servers.iter().zip(FIXED) {
            leave(&mut client, server, worker);
        }
        let newcomer = fleet.server().start();
        wait_for_error(&newcomer, "the registry is frozen");
        set_clocks(servers.iter().chain([&fleet.registry]), AFTER_THE_LEASE);
        let live = "SELECT live_leases FROM snowflake_registry.status";
        eventually("the ends of all leases", || single::<i64>(&mut client, live) == 0);
        assert!(failure(&mut newcomer.connect(), "SELECT snowflake_nextval()").1.contains("no lease"));
        run_block(&mut client, block(HEADING, "-- on the registry: end\n"));
        assert_eq!(servers.iter().map(leased_worker).collect::<Vec<_>>(), FIXED.collect::<Vec<_>>());
    });
}
