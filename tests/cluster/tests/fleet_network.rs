//! What lies between a server and its registry fails in all the ways in which a network can: IDs go on to the end of
//! the lease, none comes twice, nothing hangs, and all goes on by itself.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::Client;
use snowflake_id_cluster_tests::faults::WalReceiver;
use snowflake_id_cluster_tests::fleet::{
    Fleet, SHORT_LEASES, lease_left, leased_worker, status, wait_for_registry_state,
};
use snowflake_id_cluster_tests::load::{create_orders, under_load};
use snowflake_id_cluster_tests::network::{Fault, Network, Proxy};
use snowflake_id_cluster_tests::{
    Cluster, PATIENCE, assert_distinct, failure, ids, kill, poll, single, successful,
};

/// Leases that last while servers start.
const LEASES: &str = "lease => '30s', renew_every => '500ms'";

/// A host that the server asks before the right one refuses, says nothing, or is a standby.
#[test]
fn the_registry_is_the_second_of_the_hosts() {
    let fleet = Fleet::start(LEASES);
    let standby = fleet.registry.start_standby(&[]);
    let (dead, right) = (Proxy::to(&fleet.registry), Proxy::to(&fleet.registry));
    dead.set_fault(Fault::Silence);
    let to_standby = Proxy::to(&standby);
    let cases = [
        ("refuses", unused_port(), "", Duration::from_secs(2)),
        ("says nothing", dead.port(), "", Duration::from_secs(8)),
        ("says nothing, for a short time", dead.port(), "connect_timeout=2", Duration::from_secs(5)),
        ("standby", to_standby.port(), "target_session_attrs=read-write", Duration::from_secs(2)),
    ];
    let servers: Vec<Cluster> = cases
        .iter()
        .map(|(case, first, options, _)| {
            let hosts = format!("host=127.0.0.1,127.0.0.1 port={first},{}", right.port());
            fleet.server(&[
                ("snowflake_id.registry", &format!("{hosts} user=fleet dbname=postgres {options}")),
                ("cluster_name", case),
                ("snowflake_id.node_name", case),
            ])
        })
        .collect();
    for ((case, _, _, bound), server) in cases.iter().zip(&servers) {
        server.stop_server("fast");
        fs::remove_file(server.data_dir().join("snowflake_id.lease")).unwrap_or_default();
        let start = Instant::now();
        server.start_server().unwrap();
        leased_worker(server);
        let time = start.elapsed();
        println!("{case}: first ID after {time:?}");
        assert!(time < *bound + Duration::from_secs(2), "{case}: {time:?}");
    }
    // The list does not say that a primary is wanted: what the standby answers does.
    let lost = fleet.server(&[("snowflake_id.registry", &to_standby.connection_string())]);
    wait_for_error(&lost, "this server is a standby of the registry");
}

/// A host name with two addresses, of which the first says nothing.
#[test]
fn a_host_with_two_addresses() {
    let fleet = Fleet::start(LEASES);
    let dead = Proxy::to(&fleet.registry);
    dead.set_fault(Fault::Silence);
    let _right = Proxy::at(Ipv4Addr::new(127, 0, 0, 2), dead.port(), &fleet.registry);
    let string = format!("host=registry.example port={} user=fleet dbname=postgres", dead.port());
    let server = fleet.stopped_server(&[("snowflake_id.registry", &string)]);
    let hosts = "127.0.0.1 registry.example\n127.0.0.2 registry.example\n";
    if !starts_with_file(&server, "/etc/hosts", hosts) {
        return;
    }
    server.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    leased_worker(&server);
    assert!(dead.made() > 0, "the other address came first");
}

/// The name server says nothing, and a lookup cannot be interrupted.
#[test]
fn the_name_server_says_nothing() {
    let address = Ipv4Addr::new(127, 53, (std::process::id() >> 8) as u8, std::process::id() as u8);
    let Ok(name_server) = UdpSocket::bind((address, 53)) else {
        println!("skipped: only root can be a name server");
        return;
    };
    name_server.set_read_timeout(Some(PATIENCE)).unwrap();
    let fleet = Fleet::start(LEASES);
    let server = fleet.stopped_server(&[("snowflake_id.registry", "host=registry.example user=fleet")]);
    if !starts_with_file(&server, "/etc/resolv.conf", &format!("nameserver {address}\n")) {
        return;
    }
    name_server.recv(&mut [0; 512]).unwrap();
    server.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    wait_for_error(&server, "could not translate host name");
    name_server.set_nonblocking(true).unwrap();
    while name_server.recv(&mut [0; 512]).is_ok() {}
    poll("another lookup", || name_server.recv(&mut [0; 512]).ok());
    let start = Instant::now();
    server.stop_server("fast");
    let time = start.elapsed();
    println!("stopped after {time:?}");
    assert!(time < Duration::from_secs(4), "a fast stop took {time:?}");
}

/// Of two addresses the first is a black hole.
#[test]
fn the_first_address_is_a_black_hole() {
    let Some(network) = network() else { return };
    let registry = Cluster::stopped(&[]);
    network.start_server(&registry);
    let fleet = Fleet::make_on(registry, LEASES);
    let dead = Network::make().unwrap();
    dead.lose_all();
    let addresses = format!("hostaddr={},{}", dead.address(), network.address());
    let registry = format!("host=registry,registry {addresses} user=fleet dbname=postgres");
    let server = fleet.server(&[("snowflake_id.registry", &registry)]);
    leased_worker(&server);
}

/// What libpq finds elsewhere: a service, a password, certificates, an address.
#[test]
fn whatever_libpq_can() {
    let registry = Cluster::stopped(&[]);
    let address = format!("127.77.{}.{}", std::process::id() % 250, std::process::id() / 250 % 250);
    registry.configure(&[("listen_addresses", &address), ("ssl", "on")]);
    // Who connects to another address of this host comes from 127.0.0.1.
    let hba = "local all all trust\nhostssl all fleet 127.0.0.1/32 scram-sha-256\n";
    fs::write(registry.data_dir().join("pg_hba.conf"), hba).unwrap();
    let authority = certificates(&registry, "registry.example");
    let fleet = Fleet::start_on(registry, LEASES);
    fleet.registry.connect().batch_execute("ALTER ROLE fleet PASSWORD 'Gänse füßchen'").unwrap();
    let try_with = |string: &str, service: Option<&str>| {
        let server = fleet.stopped_server(&[("snowflake_id.registry", string)]);
        let files = server.host();
        write_private(&server, "passwords", "registry.example:*:*:fleet:Gänse füßchen\n");
        if let Some(service) = service {
            write_private(&server, "services", service);
        }
        let environment = [
            ("PGSERVICEFILE", files.join("services")),
            ("PGPASSFILE", files.join("passwords")),
            ("PGSSLROOTCERT", authority.clone()),
        ];
        start_with_environment(&server, &environment);
        server.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
        server
    };
    let whole =
        format!("host=registry.example hostaddr={address} user=fleet dbname=postgres sslmode=verify-full");
    leased_worker(&try_with(&whole, None));
    let service = format!(
        "[registry]\nhost=registry.example,registry.example\nhostaddr=127.0.0.1,{address}\nport={},5432\n\
         user=fleet\ndbname=postgres\nsslmode=verify-full\n",
        unused_port()
    );
    leased_worker(&try_with("service=registry", Some(&service)));
    let url = format!("postgresql://fleet@registry.example/postgres?hostaddr={address}&sslmode=verify-full");
    leased_worker(&try_with(&url, None));
    // What is wrong is told in libpq's words, and no password with it.
    for (string, said) in [
        (whole.replace("registry.example", "other.example"), "does not match host name \"other.example\""),
        (format!("{whole} passfile=/nonexistent"), "password authentication failed|no password supplied"),
        (format!("{whole} sslrootcert=/nonexistent/root.crt"), "root certificate"),
        ("service=nowhere".into(), "service"),
    ] {
        let server = try_with(&string, Some(&service));
        let error = wait_for_error(&server, said);
        assert_eq!(status(&mut server.connect(), "registry_state").as_deref(), Some("unreachable"));
        assert!(!error.contains("füßchen") && !server.log().contains("füßchen"), "{error}");
        assert_eq!(failure(&mut server.connect(), "SELECT snowflake_nextval()").0, "55000");
    }
}

/// Servers share two connections to the registry, by a pool that gives them out for one transaction each.
#[test]
fn a_pool_of_connections() {
    let fleet = Fleet::start(LEASES);
    let Some(pool) = Pool::start(&fleet.registry) else { return };
    let string = format!("host=127.0.0.1 port={} user=fleet dbname=postgres", pool.port);
    let servers: Vec<Cluster> = (0..5)
        .map(|_| fleet.server(&[("snowflake_id.registry", &string), ("shared_buffers", "1MB")]))
        .collect();
    let workers: Vec<i64> = servers.iter().map(|server| leased_worker(server).into()).collect();
    assert_distinct(&workers);
    assert_distinct(&take_from(&servers));
    for server in &servers {
        assert_renewed(server);
    }
    let mut registry = fleet.registry.connect();
    assert!(fleet_connections(&mut registry) <= 2);
    // The pool is started again: all go on.
    drop(pool);
    wait_for_registry_state(&servers[0], "unreachable");
    let _pool = Pool::start_at(&fleet.registry, string_port(&string)).unwrap();
    for (server, worker) in servers.iter().zip(workers) {
        assert_renewed(server);
        assert_eq!(i64::from(leased_worker(server)), worker);
    }
}

/// Between renewals nobody is connected to the registry; it is killed and comes back.
#[test]
fn the_registry_is_killed() {
    let fleet = Fleet::start("lease => '30s', renew_every => '1s'");
    let server = fleet.server(&[]);
    create_orders(&server);
    let worker = leased_worker(&server);
    let mut registry = fleet.registry.connect();
    assert_renewed(&server);
    let connected = (0..200).filter(|_| {
        thread::sleep(Duration::from_millis(10));
        fleet_connections(&mut registry) > 0
    });
    let connected = connected.count();
    assert!(connected < 60, "connected in {connected} of 200 looks");
    drop(registry);
    let (handed_out, ()) = under_load(&server, || {
        for mode in ["immediate", "fast"] {
            fleet.registry.stop_server(mode);
            wait_for_registry_state(&server, "unreachable");
            fleet.registry.start_server().unwrap();
            assert_renewed(&server);
        }
    });
    assert_distinct(&handed_out.all());
    assert_eq!(leased_worker(&server), worker);
    assert_eq!(grants(&fleet), 1);
}

/// Packets to the registry and back are lost without a word.
#[test]
fn all_packets_are_lost() {
    let Some(network) = network() else { return };
    let registry = Cluster::stopped(&[]);
    network.start_server(&registry);
    let fleet = Fleet::make_on(registry, "lease => '12s', renew_every => '500ms'");
    let string = format!("host={} user=fleet dbname=postgres", network.address());
    let server = fleet.server(&[("snowflake_id.registry", &string)]);
    create_orders(&server);
    let worker = leased_worker(&server);
    assert_renewed(&server);
    let mut client = server.connect();
    let (handed_out, ()) = under_load(&server, || {
        network.lose_all();
        // A stop does not wait for anybody in the network, in whatever step the worker is.
        wait_for_registry_state(&server, "unreachable");
    });
    assert!(lease_left(&mut client) > Duration::from_secs(1));
    let mut all = handed_out.all();
    assert_stops_at_once(&server);
    server.start_server().unwrap();
    // Without an answer the lease in the file goes on.
    let start = Instant::now();
    assert_eq!(leased_worker(&server), worker);
    println!("first ID after {:?}", start.elapsed());
    let mut client = server.connect();
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    poll("the end of the lease", || {
        (status(&mut client, "state").as_deref() == Some("lease ended")).then_some(())
    });
    assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000");
    network.mend();
    assert_eq!(leased_worker(&server), worker);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_distinct(&all);
    // The worker waits for an answer.
    let hold = hold_up(&fleet);
    poll("the worker to wait", || (fleet_connections(&mut fleet.registry.connect()) > 0).then_some(()));
    network.lose_all();
    assert_stops_at_once(&server);
    drop(hold);
}

/// The registry takes 5 s for each answer: that is enough.
#[test]
fn each_answer_takes_5_seconds() {
    let fleet = Fleet::start(LEASES);
    let proxy = Proxy::to(&fleet.registry);
    let server = fleet.server(&[("snowflake_id.registry", &proxy.connection_string())]);
    leased_worker(&server);
    proxy.set_fault(Fault::Delay(Duration::from_secs(5)));
    let mut client = server.connect();
    let first = status(&mut client, "lease_renewed_at");
    let start = Instant::now();
    let mut renewals = std::collections::BTreeSet::new();
    while start.elapsed() < Duration::from_secs(17) {
        let left = lease_left(&mut client);
        assert!(left > Duration::from_secs(15), "{left:?}");
        renewals.extend(status(&mut client, "lease_renewed_at").filter(|at| Some(at) != first.as_ref()));
        assert_eq!(status(&mut client, "warning"), None);
        thread::sleep(Duration::from_millis(100));
    }
    // One may be under way without a delay at the beginning.
    assert!(renewals.len() >= 2, "{renewals:?}");
    assert!(proxy.open() <= 1);
    assert_stops_at_once(&server);
}

/// The synchronous standby of the registry is gone: nothing is granted, and connections do not pile up.
#[test]
fn the_standby_of_the_registry_is_gone() {
    let fleet = Fleet::start(SHORT_LEASES);
    let standby = WalReceiver::start(&fleet.registry, "standby");
    fleet.registry.replicate_synchronously();
    let servers: Vec<Cluster> = (0..3).map(|_| fleet.server(&[])).collect();
    servers.iter().for_each(assert_renewed);
    let mut all = take_from(&servers);
    let newcomer = fleet.stopped_server(&[]);
    drop(standby);
    let mut registry = fleet.registry.connect();
    poll("a commit that waits", || {
        (waiting_commits(&mut registry).is_empty().then_some(()).is_none()).then_some(())
    });
    newcomer.start_server().unwrap();
    newcomer.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
    let mut clients: Vec<Client> = servers.iter().map(Cluster::connect).collect();
    let mut most = 0;
    poll("the ends of the leases", || {
        most = most.max(fleet_connections(&mut registry));
        clients
            .iter_mut()
            .all(|client| status(client, "state").as_deref() == Some("lease ended"))
            .then_some(())
    });
    // For longer than an answer may take.
    let until = Instant::now() + Duration::from_secs(16);
    while Instant::now() < until {
        most = most.max(fleet_connections(&mut registry));
        thread::sleep(Duration::from_millis(50));
    }
    println!("at most {most} connections");
    // Each server has one that waits for the standby, and one that waits for the first.
    assert!(most <= 8, "{most} connections");
    assert_eq!(failure(&mut newcomer.connect(), "SELECT snowflake_nextval()").0, "55000");
    let _standby = WalReceiver::start(&fleet.registry, "standby2");
    fleet.registry.configure(&[("synchronous_standby_names", "standby2")]);
    fleet.registry.reload();
    servers.iter().chain([&newcomer]).for_each(|server| ask_now(server, &fleet.connection_string()));
    // Leases have lapsed: who comes first may have any of them.
    let everybody: Vec<Cluster> = servers.into_iter().chain([newcomer]).collect();
    let workers: Vec<i64> = everybody.iter().map(|server| leased_worker(server).into()).collect();
    assert_distinct(&workers);
    all.extend(take_from(&everybody));
    assert_distinct(&all);
    poll("connections to go", || (fleet_connections(&mut registry) <= 4).then_some(()));
}

/// A wait for the standby is cut short: the registry warns, and what it grants may be lost with it. The server asks
/// again, for the same.
#[test]
fn a_grant_with_a_warning() {
    let fleet = Fleet::start("lease => '30s', renew_every => '500ms'");
    let mut registry = fleet.registry.connect();
    fleet.registry.configure(&[("synchronous_standby_names", "standby")]);
    fleet.registry.reload();
    let server = fleet.server(&[]);
    let mut client = server.connect();
    for round in 0..3 {
        let pid = waiting_commit(&mut registry);
        registry.execute("SELECT pg_cancel_backend($1)", &[&pid]).unwrap();
        poll("the next question", || {
            waiting_commits(&mut registry).iter().any(|other| *other != pid).then_some(())
        });
        assert_eq!(status(&mut client, "lease_until"), None, "round {round}");
        assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000");
        wait_for_error(&server, "may not be durable|lock timeout");
    }
    assert!(server.log().contains("may not be durable"), "{}", server.log());
    // The same lease each time, though it was committed here three times.
    assert_eq!(grants(&fleet), 1);
    let standby = WalReceiver::start(&fleet.registry, "standby");
    let worker = leased_worker(&server);
    assert_renewed(&server);
    assert_eq!(grants(&fleet), 1);

    drop(standby);
    let mut renewals = 0;
    let before = poll("a renewal that waits", || {
        let pid = waiting_commit(&mut registry);
        // Ends that were granted before the standby was gone may come yet.
        let before = status(&mut client, "lease_until");
        registry.execute("SELECT pg_cancel_backend($1)", &[&pid]).unwrap();
        poll("the next question", || {
            waiting_commits(&mut registry).iter().any(|other| *other != pid).then_some(())
        });
        assert_eq!(status(&mut client, "lease_until"), before);
        renewals += 1;
        (renewals == 3).then_some(before)
    });
    let stored: String = single(&mut registry, "SELECT granted_until::text FROM snowflake_registry.lease");
    assert!(stored > before.unwrap(), "nothing was committed that should not be believed");
    let _standby = WalReceiver::start(&fleet.registry, "standby2");
    fleet.registry.configure(&[("synchronous_standby_names", "standby2")]);
    fleet.registry.reload();
    assert_renewed(&server);
    assert_eq!(leased_worker(&server), worker);
    assert_eq!(grants(&fleet), 1);
}

/// Connections are cut, at each byte of an answer, and answers lost: the registry has granted one lease, again and
/// again.
#[test]
fn answers_are_lost() {
    let fleet = Fleet::start("lease => '10min', renew_every => '200ms'");
    let proxy = Proxy::to(&fleet.registry);
    proxy.set_fault(Fault::CutAfterQuery);
    let server = fleet.server(&[("snowflake_id.registry", &proxy.connection_string())]);
    let mut faults: Vec<Fault> = vec![Fault::CutAfterQuery, Fault::Garbage, Fault::GarbageAtOnce];
    // The answer to an empty query is as long; an answer ends with CommandComplete and ReadyForQuery.
    faults.extend((1..800).step_by(97).map(Fault::CutAnswer));
    let mut client = server.connect();
    let mut has_lease = false;
    let mut all = vec![];
    for turn in 0..2 {
        for &fault in &faults {
            proxy.set_fault(fault);
            for _ in 0..2 {
                let made = proxy.made();
                ask_now(&server, &proxy.connection_string());
                poll("a question", || (proxy.made() > made).then_some(()));
            }
            if !has_lease && status(&mut client, "lease_until").is_some() {
                println!("turn {turn}: a lease under {fault:?}");
                has_lease = true;
            }
            if has_lease {
                all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
            }
            assert!(grants(&fleet) <= 1, "{fault:?}");
        }
        proxy.set_fault(Fault::None);
        assert_renewed(&server);
        has_lease = true;
    }
    assert_eq!(grants(&fleet), 1);
    // Nor is it a stranger to the registry after all that.
    assert!(!server.log().contains("does not know the lease"), "{}", server.log());
    proxy.set_fault(Fault::NoAnswer);
    assert_renewed_no_more(&server);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_distinct(&all);
    assert_stops_at_once(&server);
}

/// Something else answers in the registry's place.
#[test]
fn the_registry_answers_nonsense() {
    let fleet = Fleet::start("lease => '5min', renew_every => '200ms'");
    let mut registry = fleet.registry.connect();
    let server = fleet.server(&[]);
    let worker = leased_worker(&server);
    let mut client = server.connect();
    let mut all = vec![];
    registry
        .batch_execute(
            "CREATE SCHEMA kept;
             ALTER FUNCTION snowflake_registry.renew SET SCHEMA kept;
             ALTER FUNCTION snowflake_registry.acquire SET SCHEMA kept;",
        )
        .unwrap();
    registry.batch_execute(&fake("SELECT * FROM answer(NULL)")).unwrap();
    let newcomer = fleet.server(&[]);
    let least = i64::MIN;
    let most = i64::MAX;
    let not_understood = "cannot be understood";
    // What is left out is NULL.
    let answers: Vec<(String, &str)> = vec![
        ("outcome => NULL".into(), not_understood),
        ("outcome => 'maybe'".into(), not_understood),
        ("outcome => 'granted'".into(), not_understood),
        (format!("outcome => 'granted', worker => -1, since => 1, til => {most} - 1"), not_understood),
        (
            format!("outcome => 'granted', worker => 2147483648, since => 1, til => {most} - 1"),
            not_understood,
        ),
        (format!("outcome => 'granted', worker => 5, since => 1, til => {most}"), not_understood),
        (format!("outcome => 'granted', worker => 5, since => ({least}), til => -1"), not_understood),
        (format!("outcome => 'clock', registry_clock => ({least})"), "differ by"),
        (format!("outcome => 'clock', registry_clock => {most}"), "differ by"),
        (
            format!("outcome => 'taken', free_from => {most}, lease => ({least}), renew_every => ({least})"),
            "year 294247",
        ),
        (
            format!("outcome => 'taken', free_from => ({least}), lease => {most}, renew_every => {most}"),
            "year -290307",
        ),
        (format!("outcome => 'taken', serial => ({least}), renew_every => 0, lease => 0"), "no worker ID"),
        ("outcome => 'quarantine', renew_every => 0, lease => 0".into(), "gives out nothing"),
        (
            "outcome => 'foreign', registry_id => 'deadbeef-0000-0000-0000-000000000000'".into(),
            "another registry",
        ),
        ("outcome => 'taken', detail => repeat('Lorem ipsum %s \u{1F600} ', 100)".into(), "Lorem ipsum %s"),
        (
            "outcome => 'taken', detail => repeat('Lorem ipsum %s \u{1F600} ', 500000)".into(),
            "a value is too long",
        ),
        ("outcome => repeat('granted', 1000000)".into(), "a value is too long"),
    ];
    let answers = answers.iter().map(|(answer, said)| (format!("SELECT * FROM answer({answer})"), *said));
    let rows = [
        ("SELECT * FROM answer('granted') LIMIT 0", "not answered with one row"),
        ("SELECT a.* FROM answer('granted') AS a, generate_series(1, 2)", "not answered with one row"),
        ("SELECT a.* FROM answer('granted') AS a, generate_series(1, 300000)", "not answered with one row"),
        ("SELECT 1 / 0", "division by zero"),
    ];
    for (body, said) in answers.chain(rows.map(|(body, said)| (body.to_owned(), said))) {
        registry.batch_execute(&fake(&body)).unwrap();
        // The second question shows that the answer to the first one did no harm.
        for _ in 0..2 {
            for (server, function) in [(&server, "renew"), (&newcomer, "acquire")] {
                let before = calls(&mut registry, function);
                ask_now(server, &fleet.connection_string());
                poll(&body, || (calls(&mut registry, function) > before).then_some(()));
            }
        }
        all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
        wait_for_error(&newcomer, said);
        assert_eq!(failure(&mut newcomer.connect(), "SELECT snowflake_nextval()").0, "55000", "{body}");
    }
    // Another range is not that in hand: the server goes on with that, and asks for another worker ID as well.
    let far_ahead = format!("outcome => 'granted', worker => 5, since => {most} - 1, til => {most} - 1");
    registry.batch_execute(&fake(&format!("SELECT * FROM answer({far_ahead})"))).unwrap();
    [&server, &newcomer].into_iter().for_each(|server| ask_now(server, &fleet.connection_string()));
    for server in [&server, &newcomer] {
        wait_for_error(server, "what no registry grants");
    }
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    // It is asked no more often than a registry can want.
    registry.batch_execute(&fake("SELECT * FROM answer('taken', renew_every => -1, lease => -1)")).unwrap();
    ask_now(&newcomer, &fleet.connection_string());
    let before = calls(&mut registry, "acquire");
    thread::sleep(Duration::from_secs(2));
    let asked = calls(&mut registry, "acquire") - before;
    assert!((1..50).contains(&asked), "asked {asked} times in 2 s");
    assert_eq!(leased_worker(&server), worker);
    assert!(lease_left(&mut client) < Duration::from_secs(300), "nonsense was believed");
    for server in [&server, &newcomer] {
        let log = server.log();
        assert!(!log.contains("panicked") && !log.contains("terminated by signal"), "{log}");
        assert!(!log.contains("attempt to"), "{log}");
        let longest = log.lines().map(str::len).max().unwrap();
        assert!(longest < 10_000, "a line of {longest} bytes in the log");
    }
    registry
        .batch_execute(
            "DROP FUNCTION snowflake_registry.renew, snowflake_registry.acquire;
             ALTER FUNCTION kept.renew SET SCHEMA snowflake_registry;
             ALTER FUNCTION kept.acquire SET SCHEMA snowflake_registry;",
        )
        .unwrap();
    [&server, &newcomer].into_iter().for_each(|server| ask_now(server, &fleet.connection_string()));
    assert_renewed(&server);
    assert_ne!(leased_worker(&newcomer), leased_worker(&server));
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    all.extend(ids(&mut newcomer.connect(), "SELECT snowflake_batch(1000)"));
    assert_distinct(&all);
}

/// The process that asks the registry is ended in several ways, and its setting changed.
#[test]
fn the_registry_worker_ends() {
    let fleet = Fleet::start(LEASES);
    let server = fleet.server(&[]);
    create_orders(&server);
    let worker = leased_worker(&server);
    let mut client = server.connect();
    let (handed_out, ()) = under_load(&server, || {
        let pid = worker_pid(&mut client);
        client.execute("SELECT pg_terminate_backend($1)", &[&pid]).unwrap();
        poll("another worker", || (worker_pid(&mut client) != pid).then_some(()));
        assert_renewed(&server);
    });
    let mut all = handed_out.all();
    let pid = worker_pid(&mut client);
    kill("KILL", pid);
    poll("the server", || server.try_connect("postgres").ok()?.batch_execute("SELECT 1").ok());
    poll("another worker", || (worker_pid(&mut server.try_connect("postgres").ok()?) != pid).then_some(()));
    let mut client = server.connect();
    assert_eq!(leased_worker(&server), worker);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_renewed(&server);

    // What is wrong is refused, and all stays as it is.
    for wrong in ["host=registry nonsense=1", "host='", "postgresql://[", "host=registry password=secret"] {
        server.configure(&[("snowflake_id.registry", wrong)]);
        server.reload();
        let start = Instant::now();
        poll("the refusal", || {
            server.log().contains("invalid value for parameter \"snowflake_id.registry\"").then_some(())
        });
        assert!(start.elapsed() < Duration::from_secs(5));
        assert_renewed(&server);
        let shown: String = single(&mut server.connect(), "SHOW snowflake_id.registry");
        assert_eq!(shown, fleet.connection_string(), "{wrong}");
    }
    // Emptied and set again.
    server.configure(&[("snowflake_id.registry", "")]);
    server.reload();
    poll("the worker to go", || has_no_worker(&mut client).then_some(()));
    poll("no IDs", || client.batch_execute("SELECT snowflake_nextval()").err());
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
    assert!(!message.contains("registry has"), "{message}");
    assert_eq!(status(&mut client, "registry_state"), None);
    assert_eq!(status(&mut client, "state").as_deref(), Some("no worker id"));
    server.configure(&[("snowflake_id.registry", &fleet.connection_string())]);
    server.reload();
    assert_eq!(leased_worker(&server), worker);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_renewed(&server);
    // Quickly, one after the other: the last one counts.
    for _ in 0..5 {
        for string in ["", &fleet.connection_string()] {
            server.configure(&[("snowflake_id.registry", string)]);
            server.reload();
        }
    }
    assert_renewed(&server);
    assert_eq!(leased_worker(&server), worker);
    all.extend(ids(&mut client, "SELECT snowflake_batch(1000)"));
    assert_distinct(&all);
    assert_eq!(grants(&fleet), 1);
}

/// There is no process left for the registry worker. It says so, as long as that is so.
#[test]
fn no_background_worker_is_left() {
    let fleet = Fleet::start(LEASES);
    // Those of the keeper and of logical replication.
    let server = fleet.server(&[("max_worker_processes", "2")]);
    let mut client = server.connect();
    let wanted = "needs one of max_worker_processes";
    let error =
        poll("the error", || status(&mut client, "last_error").filter(|error| error.contains(wanted)));
    println!("{error}");
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        let said = status(&mut client, "last_error").unwrap_or_default();
        assert!(said.contains(wanted), "{said:?}");
        thread::sleep(Duration::from_millis(20));
    }
    let (state, message) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{message}");
    assert!(message.contains(wanted), "{message}");
    let said = server.log().matches(wanted).count();
    assert!(said <= 2, "said {said} times:\n{}", server.log());
    // The launcher of logical replication is not started again before the next start of the server.
    server.configure(&[("max_logical_replication_workers", "0")]);
    server.stop_server("fast");
    server.start_server().unwrap();
    leased_worker(&server);
    poll("the error to go", || status(&mut server.connect(), "last_error").is_none().then_some(()));
}

/// IDs of servers, each of which has a lease.
fn take_from(servers: &[Cluster]) -> Vec<i64> {
    let take = |server: &Cluster| {
        leased_worker(server);
        ids(&mut server.connect(), "SELECT snowflake_batch(10000)")
    };
    servers.iter().flat_map(take).collect()
}

/// How often the registry has given a worker ID to somebody.
fn grants(fleet: &Fleet) -> i64 {
    single(
        &mut fleet.registry.connect(),
        "SELECT coalesce(sum(hands), 0)::bigint FROM snowflake_registry.lease",
    )
}

/// How many connections servers of the fleet have to the registry.
fn fleet_connections(registry: &mut Client) -> i64 {
    single(registry, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'fleet'")
}

/// The processes of the registry that wait for its standby, on behalf of servers.
fn waiting_commits(registry: &mut Client) -> Vec<i32> {
    let query = "SELECT pid FROM pg_stat_activity WHERE usename = 'fleet' AND wait_event = 'SyncRep'";
    registry.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
}

fn waiting_commit(registry: &mut Client) -> i32 {
    poll("a commit that waits for the standby", || waiting_commits(registry).first().copied())
}

/// Waits until the lease of a server was renewed again.
fn assert_renewed(server: &Cluster) {
    let mut client = server.connect();
    let before = status(&mut client, "lease_renewed_at");
    poll("a renewal", || {
        let is_new = status(&mut client, "lease_renewed_at") > before;
        (is_new && status(&mut client, "registry_state").as_deref() == Some("granted")).then_some(())
    });
}

/// Waits until a server tells why it has no lease: in one of the words that are given, between bars.
fn wait_for_error(server: &Cluster, said: &str) -> String {
    let mut client = server.connect();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let error = status(&mut client, "last_error").unwrap_or_default();
        if said.split('|').any(|said| error.contains(said)) {
            return error;
        }
        assert!(Instant::now() < deadline, "not {said:?} but {error:?}:\n{}", server.log());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Has a server ask at once, however long it has been told to wait, by another name of its connections.
fn ask_now(server: &Cluster, string: &str) {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = COUNT.fetch_add(1, Ordering::Relaxed);
    let string = format!("{string} application_name=turn{name}");
    server.configure(&[("snowflake_id.registry", &string)]);
    server.reload();
}

/// Waits until it is clear that the lease of a server is not renewed any more.
fn assert_renewed_no_more(server: &Cluster) {
    let mut client = server.connect();
    poll("the end of renewals", || {
        let before = status(&mut client, "lease_renewed_at");
        thread::sleep(Duration::from_millis(1500));
        (status(&mut client, "lease_renewed_at") == before).then_some(())
    });
}

/// A fast stop takes no longer because of the registry.
fn assert_stops_at_once(server: &Cluster) {
    let start = Instant::now();
    server.stop_server("fast");
    let time = start.elapsed();
    println!("stopped after {time:?}");
    assert!(time < Duration::from_secs(2), "a fast stop took {time:?}:\n{}", server.log());
}

const WORKERS: &str = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_id registry'";

/// The process that asks the registry.
fn worker_pid(client: &mut Client) -> i32 {
    poll("the registry worker", || Some(client.query(WORKERS, &[]).ok()?.first()?.get(0)))
}

fn has_no_worker(client: &mut Client) -> bool {
    client.query(WORKERS, &[]).unwrap().is_empty()
}

/// Keeps the registry from answering, until it goes out of scope.
fn hold_up(fleet: &Fleet) -> Client {
    let mut client = fleet.registry.connect();
    // No rows are locked for so long, as lock_timeout ends that.
    client
        .batch_execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(8); RETURN NEW; END';
             CREATE TRIGGER slow BEFORE UPDATE ON snowflake_registry.lease FOR EACH ROW EXECUTE FUNCTION slow();",
        )
        .unwrap();
    client
}

/// Functions in place of those of the registry that count how often they are called, and answer something else.
fn fake(body: &str) -> String {
    format!(
        "CREATE SEQUENCE IF NOT EXISTS kept.acquire_calls;
         CREATE SEQUENCE IF NOT EXISTS kept.renew_calls;
         SET search_path = kept, snowflake_registry, public;
         DROP FUNCTION IF EXISTS snowflake_registry.renew, snowflake_registry.acquire;
         CREATE OR REPLACE FUNCTION kept.answer(
             outcome text, worker bigint DEFAULT NULL, since bigint DEFAULT NULL, til bigint DEFAULT NULL,
             registry_id uuid DEFAULT NULL, serial bigint DEFAULT 1, registry_clock bigint DEFAULT 1,
             lease bigint DEFAULT 1, renew_every bigint DEFAULT 1, free_from bigint DEFAULT NULL,
             detail text DEFAULT NULL,
             OUT outcome text, OUT surplus text, OUT datacenter_id bigint, OUT worker_id bigint,
             OUT granted_from bigint, OUT granted_until bigint, OUT registry_id uuid, OUT serial bigint,
             OUT registry_clock bigint, OUT lease bigint, OUT renew_every bigint, OUT free_from bigint,
             OUT detail text)
         LANGUAGE sql AS
         'SELECT $1, NULL::text, 0::bigint, $2, $3, $4, coalesce($5, s.registry_id), $6, $7, $8, $9, $10, $11
          FROM (SELECT registry_id FROM snowflake_registry.settings) AS s';
         {}
         {}
         GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew TO fleet;
         RESET search_path;",
        fake_function(
            "acquire",
            "uuid, bigint, bigint, bigint, uuid, uuid, jsonb, int, int, int, int[]",
            body
        ),
        fake_function("renew", "uuid, bigint, bigint, bigint, uuid, uuid, uuid, jsonb", body),
    )
}

fn fake_function(name: &str, arguments: &str, body: &str) -> String {
    format!(
        "CREATE FUNCTION snowflake_registry.{name}({arguments})
         RETURNS TABLE (outcome text, surplus text, datacenter_id bigint, worker_id bigint, granted_from bigint,
             granted_until bigint, registry_id uuid, serial bigint, registry_clock bigint, lease bigint,
             renew_every bigint, free_from bigint, detail text)
         SECURITY DEFINER SET search_path = kept, snowflake_registry, public
         LANGUAGE plpgsql AS $fake$
         #variable_conflict use_column
         BEGIN
             PERFORM nextval('kept.{name}_calls');
             RETURN QUERY {body};
         END $fake$;"
    )
}

/// How often a function that [`fake`] makes was called.
fn calls(registry: &mut Client, function: &str) -> i64 {
    single(registry, &format!("SELECT last_value FROM kept.{function}_calls"))
}

/// A port on which nobody listens.
fn unused_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A network of its own for a registry, if we may make one.
fn network() -> Option<Network> {
    Network::make().map_err(|why| println!("skipped: cannot make a network namespace: {why}")).ok()
}

/// Starts a server with a file of the host replaced for it alone. False, and says so, if that is not possible.
fn starts_with_file(server: &Cluster, file: &str, text: &str) -> bool {
    fs::write(server.host().join("file"), text).unwrap();
    // In a file system of its own, which ends with the server.
    let mut start = Command::new("unshare");
    start.args(["--mount", "sh", "-c", "mount --bind file \"$0\" && exec \"$@\"", file]);
    let program = server.program("pg_ctl");
    start.arg(program.get_program()).args(program.get_args()).current_dir(server.host());
    start.arg("--pgdata").arg(server.data_dir()).arg("--log").arg(server.host().join("log"));
    let output = start.args(["--silent", "--wait", "start"]).output().unwrap();
    if !output.status.success() {
        println!("skipped: no file system of its own: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// Starts a server with variables in its environment.
fn start_with_environment(server: &Cluster, environment: &[(&str, PathBuf)]) {
    let mut start = server.program("pg_ctl");
    start.envs(environment.iter().map(|(name, value)| (name, value)));
    start.arg("--pgdata").arg(server.data_dir()).arg("--log").arg(server.host().join("log"));
    successful(start.args(["--silent", "--wait", "start"]));
}

/// Writes a file in a server's directory that only the server's user can read.
fn write_private(server: &Cluster, name: &str, text: &str) -> PathBuf {
    let file = server.host().join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let metadata = fs::metadata(server.data_dir()).unwrap();
    let (owner, group) =
        (std::os::unix::fs::MetadataExt::uid(&metadata), std::os::unix::fs::MetadataExt::gid(&metadata));
    std::os::unix::fs::chown(&file, Some(owner), Some(group)).unwrap();
    file
}

/// Gives a server a key and a certificate for a host name; the certificate of who has signed it.
fn certificates(server: &Cluster, host: &str) -> PathBuf {
    let dir = server.host();
    let openssl = |arguments: &str| {
        successful(Command::new("openssl").args(arguments.split_whitespace()).current_dir(dir));
    };
    let new = "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(&format!("{new} -x509 -days 2 -subj /CN=authority -keyout authority.key -out authority.crt"));
    openssl(&format!("{new} -subj /CN={host} -keyout server.key -out server.csr"));
    openssl(
        "x509 -req -in server.csr -CA authority.crt -CAkey authority.key -CAcreateserial -days 2 -out server.crt",
    );
    for file in ["server.key", "server.crt"] {
        let text = fs::read_to_string(dir.join(file)).unwrap();
        let written = write_private(server, file, &text);
        fs::rename(written, server.data_dir().join(file)).unwrap();
    }
    dir.join("authority.crt")
}

/// PgBouncer in front of a registry, in transaction mode, with two connections to it.
struct Pool {
    process: Child,
    port: u16,
}

impl Pool {
    /// Starts one, if it is installed: see scripts/test.sh.
    fn start(registry: &Cluster) -> Option<Pool> {
        Pool::start_at(registry, unused_port())
    }

    fn start_at(registry: &Cluster, port: u16) -> Option<Pool> {
        if Command::new("pgbouncer").arg("--version").output().is_err() {
            assert!(std::env::var_os("CI").is_none(), "PgBouncer is not installed");
            println!("skipped: PgBouncer is not installed");
            return None;
        }
        let users = write_private(registry, "users.txt", "\"fleet\" \"\"\n");
        let configuration = format!(
            "[databases]\npostgres = host={} port=5432\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 2\n\
             logfile = {}\n",
            registry.host().display(),
            users.display(),
            registry.host().join("pgbouncer.log").display()
        );
        let configuration = write_private(registry, "pgbouncer.ini", &configuration);
        let process = Pool::command(registry)
            .arg(configuration)
            .current_dir(registry.host())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pool = Pool { process, port };
        poll("PgBouncer", || std::net::TcpStream::connect(("127.0.0.1", port)).ok());
        Some(pool)
    }

    /// PgBouncer, which refuses root, as the server's user.
    fn command(registry: &Cluster) -> Command {
        let program = registry.program("pg_ctl");
        if Path::new(program.get_program()).file_name().is_some_and(|name| name == "runuser") {
            let mut command = Command::new("runuser");
            command.args(program.get_args().take(3)).arg("pgbouncer");
            return command;
        }
        Command::new("pgbouncer")
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // At once; runuser passes it on.
        kill("TERM", self.process.id() as i32);
        let _ = self.process.wait();
    }
}

fn string_port(string: &str) -> u16 {
    let port = string.split_whitespace().find_map(|option| option.strip_prefix("port="));
    port.unwrap().parse().unwrap()
}
