//! Programs that come and go beside the servers of a fleet, with faults of all kinds. Clocks of programs and servers
//! are set, connections are cut, programs and servers are killed, and the registry fails over to a synchronous standby.
//! No ID and no number is repeated.
//!
//! `SNOWFLAKE_ID_SECONDS` sets the length. The default is 8 s, and ten minutes under "make soak".

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::accidents::Pair;
use harness::network::{Fault, Proxy};
use harness::segments::administer;
use harness::*;

use super::program::*;

/// Leases that end several times in a test. Released worker IDs are granted again at once, lowest first.
const LEASES: &str = "lease => '3s', renew_every => '500ms', synchronous => true, last_worker => 255";
/// The number of programs that run at the same time.
const PROGRAMS: u64 = 15;

/// What programs and servers were given.
#[derive(Default)]
struct Given {
    ids: Vec<i64>,
    numbers: Vec<i64>,
}

/// What happened to programs, counted while they run.
#[derive(Debug, Default)]
struct Lives {
    started: AtomicU64,
    refused: AtomicU64,
    closed: AtomicU64,
    dropped: AtomicU64,
    killed: AtomicU64,
}

impl Lives {
    /// Whether programs have ended in all ways, and often enough that a repeated ID would be seen.
    fn are_enough(&self) -> bool {
        count(&self.closed) > 20 && count(&self.dropped) > 2 && count(&self.killed) > 2
    }
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[derive(Default)]
struct World {
    /// The connection string for the current registry.
    hosts: RwLock<String>,
    /// The directory of the current primary, for programs that connect through a proxy of their own.
    primary: RwLock<PathBuf>,
    lives: Lives,
}

fn length() -> Duration {
    let seconds = std::env::var("SNOWFLAKE_ID_SECONDS").map(|seconds| seconds.parse().unwrap());
    Duration::from_secs(seconds.unwrap_or(if is_soak() { 600 } else { 8 }))
}

/// Takes IDs and numbers for a while. The IDs of a program increase, unless it exchanges its worker ID after its clock
/// was far ahead.
fn live(program: &Program, clock: &SetClock, random: &mut Random, given: &mut Given) {
    let offset = random.below(1_600) as i64 - 800;
    clock.set(offset);
    let ends = Instant::now() + Duration::from_millis(100 + random.below(3_000));
    let orders = program.segment("orders");
    while Instant::now() < ends {
        match random.below(200) {
            0 => clock.set(offset - random.below(900) as i64),
            1 => clock.set(offset + random.below(3_000) as i64),
            2 => clock.set(offset + random.below(40_000) as i64 - 20_000),
            3..20 => clock.set(offset),
            20..40 => given.ids.extend(
                program.next_ids(NonZeroU64::new(1 + random.below(50)).unwrap()).into_iter().flatten(),
            ),
            40..60 => given.numbers.extend(orders.next_number().wait()),
            _ => given.ids.extend(program.next_id()),
        }
        thread::sleep(random.milliseconds(10));
    }
}

/// Programs that follow one another.
fn programs(world: &World, seed: u64, stop: &AtomicBool) -> Given {
    let (mut random, mut given, lives) = (Random::of(seed), Given::default(), &world.lives);
    while !stop.load(Ordering::Relaxed) {
        let clock = SetClock::default();
        // A program that will be killed has a network of its own, which is cut.
        let proxy = (random.below(5) == 0).then(|| Proxy::to_host(&world.primary.read().unwrap()));
        let string = match &proxy {
            Some(proxy) => proxy.connection_string(),
            None => world.hosts.read().unwrap().clone(),
        };
        let options =
            Options::new(&string).max_wait(Duration::from_millis(200)).start_within(Duration::from_secs(10));
        let Ok(program) = Program::start(clock.give_to(options)).wait() else {
            add_one(&lives.refused);
            continue;
        };
        add_one(&lives.started);
        live(&program, &clock, &mut random, &mut given);
        if let Some(proxy) = proxy {
            proxy
                .set_fault([Fault::Silence, Fault::CutAfterQuery, Fault::NoAnswer][random.below(3) as usize]);
            live(&program, &clock, &mut random, &mut given);
            add_one(&lives.killed);
        } else if random.below(4) == 0 {
            add_one(&lives.dropped);
        } else {
            program.close().wait();
            add_one(&lives.closed);
        }
    }
    given
}

/// A client of a server, which takes IDs and numbers.
fn client_of(server: &Cluster, stop: &AtomicBool) -> Given {
    let queries = [
        "SELECT snowflake_nextval()",
        "SELECT snowflake_batch(20)",
        "SELECT snowflake_segment_batch('orders', 3)",
    ];
    let (queries, pause) = (queries.map(Into::into).into(), Duration::from_millis(5));
    let taker = Taker { queries, returns: true, pause, ..Taker::of(server) };
    let mut given = Given::default();
    taker
        .run(stop, |query, taken| if query == 2 { &mut given.numbers } else { &mut given.ids }.extend(taken));
    given
}

/// Tells programs and servers the addresses of the registry.
fn tell(world: &World, pair: &Pair, servers: &[Cluster]) {
    let hosts = format!("host={},{}", pair.primary.host().display(), pair.standby.host().display());
    let string = format!("{hosts} user=fleet dbname=postgres");
    for server in servers {
        server.configure(&[("snowflake_id.registry", &string)]);
        // The server may be down.
        server.try_run("SELECT pg_reload_conf()");
    }
    *world.primary.write().unwrap() = pair.primary.host().into();
    *world.hosts.write().unwrap() = string;
}

fn have_an_accident(
    pair: &mut Pair,
    servers: &[Cluster],
    world: &World,
    random: &mut Random,
) -> &'static str {
    let server = &servers[random.below(servers.len() as u64) as usize];
    match random.below(5) {
        0 => {
            pair.fail_over();
            tell(world, pair, servers);
            "failover"
        }
        1 => {
            cut_power(server);
            server.bring_up();
            "kill"
        }
        2 => {
            let _paused = Paused::new(processes(&pair.primary));
            random.pause(3_000);
            "pause"
        }
        _ => {
            server.set_clock(random.below(20_000) as f64 / 1_000.0 - 10.0);
            random.pause(1_000);
            server.set_clock(random.below(1_000) as f64 / 1_000.0 - 0.5);
            "clock"
        }
    }
}

/// If the registry fails over when its last renewal is not recent, it starts a quarantine, which its administrator
/// ends: nothing is lost, because the standby is synchronous. No program and no server may seem to prove a loss.
fn assert_nothing_looks_lost(registry: &Cluster) {
    let mut client = registry.connect();
    let query = "SELECT coalesce(max(quarantine_reason), '') FROM snowflake_registry.status";
    let reason: String = single(&mut client, query);
    if !reason.is_empty() {
        println!("{reason}");
        let expected = ["a standby was promoted", "the server of the registry was started"];
        assert!(expected.iter().any(|expected| reason.starts_with(expected)), "{reason}\n{}", registry.log());
        client.run("SELECT snowflake_registry.end_quarantine(), snowflake_registry.resume_segments()");
    }
}

#[test]
fn programs_come_and_go() {
    let registry = Cluster::builder().set("max_connections", 300).set("wal_keep_size", "64MB");
    let mut pair = Pair::of(Registry::of_programs(LEASES).start(registry));
    administer(&pair.primary, "create_segment('orders', min_step => 20, max_step => 200)");
    let world = World::default();
    let server = Cluster::builder().preload().short_horizon().clock();
    let servers: Vec<Cluster> = (0..3).map(|_| server.clone().start()).collect();
    tell(&world, &pair, &servers);
    for server in &servers {
        leased_worker(server);
    }
    let mut random = Random::seeded();
    let seeds: Vec<u64> = (0..PROGRAMS).map(|_| random.below(u64::MAX)).collect();
    type Run<'a> = Box<dyn FnOnce(&AtomicBool) -> Given + Send + 'a>;
    let of_programs = seeds.into_iter().map(|seed| -> Run {
        {
            let world = &world;
            Box::new(move |stop| programs(world, seed, stop))
        }
    });
    let of_servers = servers.iter().map(|server| -> Run { Box::new(|stop| client_of(server, stop)) });
    let began = Instant::now();
    let (results, accidents) = beside(of_programs.chain(of_servers), || {
        let mut accidents = vec![];
        while began.elapsed() < length() {
            random.pause(1_000);
            accidents.push(have_an_accident(&mut pair, &servers, &world, &mut random));
            assert_nothing_looks_lost(&pair.primary);
        }
        // On a busy machine an accident may take longer than all of the time.
        eventually("programs to end in all ways", || {
            assert_nothing_looks_lost(&pair.primary);
            world.lives.are_enough()
        });
        accidents
    });
    let mut all = Given::default();
    for given in results {
        all.ids.extend(given.ids);
        all.numbers.extend(given.numbers);
    }
    println!(
        "{} IDs, {} numbers; {:?}; {} accidents",
        all.ids.len(),
        all.numbers.len(),
        world.lives,
        accidents.len()
    );
    assert!(all.ids.len() > 1_000 && all.numbers.len() > 100);
    assert_distinct(&all.ids);
    assert_distinct(&all.numbers);
    assert_nothing_looks_lost(&pair.primary);
}
