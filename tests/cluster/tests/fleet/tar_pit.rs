//! A tar pit answers in place of the registry, and never completes a connection. It does not prevent a stop of the
//! server or the creation of a database, and the server still reaches the other hosts of its list.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use harness::segments::{self, next, refusal};
use harness::*;

use super::hostile_registry::{message, peak_memory};

/// How the tar pit treats a client that connects.
type Reception = fn(&mut TcpStream) -> std::io::Result<()>;

struct TarPit {
    port: u16,
    /// When it caught its clients.
    caught: Arc<Mutex<Vec<Instant>>>,
}

impl TarPit {
    fn with(reception: Reception) -> TarPit {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let caught = Arc::new(Mutex::new(vec![]));
        let all = caught.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let all = all.clone();
                // The error when the server closes the connection does not matter.
                thread::spawn(move || -> std::io::Result<()> {
                    let mut client = client?;
                    reception(&mut client)?;
                    all.lock().unwrap().push(Instant::now());
                    while client.read(&mut [0; 65536])? > 0 {}
                    Ok(())
                });
            }
        });
        TarPit { port, caught }
    }

    fn caught(&self) -> usize {
        self.caught.lock().unwrap().len()
    }

    /// The connection string with which a server asks these hosts, each with its port: the tar pit and the hosts after it.
    fn string(&self, server: &Cluster, others: &[(&str, u16)], options: &str) -> String {
        let passwords = server.write_private("passwords", "*:*:*:*:secret\n");
        let (mut hosts, mut ports) = ("127.0.0.1".to_owned(), self.port.to_string());
        for (host, port) in others {
            hosts += &format!(",{host}");
            ports += &format!(",{port}");
        }
        format!(
            "host={hosts} port={ports} user=fleet dbname=postgres gssencmode=disable {options} passfile={}",
            passwords.display()
        )
    }

    /// A server that asks these hosts.
    fn server(&self, settings: &Builder, others: &[(&str, u16)], options: &str) -> Cluster {
        let server = settings.clone().stopped();
        server.configure(&[("snowflake_id.registry", &self.string(&server, others, options))]);
        server.start_server();
        server.connect().run("CREATE EXTENSION snowflake_id");
        server
    }
}

/// Requests two billion iterations of the password hash.
fn ask_for_a_long_computation(client: &mut TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; 65536];
    let _startup = client.read(&mut bytes)?;
    client.write_all(&message(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0"))?;
    let length = client.read(&mut bytes)?;
    let first = String::from_utf8_lossy(&bytes[..length]);
    let nonce = first.rsplit("r=").next().unwrap_or_default();
    let challenge = format!("r={nonce}more,s=c2FsdHNhbHRzYWx0c2FsdA==,i=2147483647");
    client.write_all(&message(b'R', &[b"\0\0\0\x0b", challenge.as_bytes()].concat()))
}

fn no_tls(options: &str) -> String {
    format!("sslmode=disable connect_timeout=2 {options}")
}

/// Checks that no process of the server has crashed.
fn assert_no_crash(server: &Cluster) {
    let log = server.log();
    assert!(!log.contains("terminated by signal") && !log.contains("terminating any other"), "{log}");
}

/// Checks that `DROP DATABASE`, which waits until each process has handled a barrier, succeeds.
#[track_caller]
fn assert_looks_up(server: &Cluster) {
    let start = Instant::now();
    let mut client = server.connect();
    client.run("CREATE DATABASE other");
    client.run("DROP DATABASE other");
    assert_within(SLACK, start.elapsed(), "DROP DATABASE");
}

#[track_caller]
fn assert_not_in_the_way(server: &Cluster) {
    assert_looks_up(server);
    assert_within(SLACK, time_to_stop(server), "the stop");
    assert_no_crash(server);
}

/// The tar pit neither delays a stop of the server nor keeps it busy all the time, and the status reports the error.
#[test]
fn a_registry_that_asks_for_a_long_computation() {
    let pit = TarPit::with(ask_for_a_long_computation);
    let server = pit.server(&Cluster::builder().preload(), &[], &no_tls(""));
    eventually("a connection", || pit.caught() > 0);
    assert_looks_up(&server);
    let said = format!("could not connect to 127.0.0.1:{}: libpq has been processing data", pit.port);
    wait_for_error(&server, &said);
    eventually("the next processes", || pit.caught() > 2);
    // The error stays until there is a reply.
    assert!(shown(&mut server.connect(), "last_error").unwrap_or_default().contains(&said));
    assert_eq!(shown(&mut server.connect(), "registry_state").as_deref(), Some("unreachable"));
    assert_eq!(
        server.log().matches("could not get a lease from the registry").count(),
        1,
        "{}",
        server.log()
    );
    // A process is caught for two seconds. Each new process waits before its attempt, longer each time.
    let caught = pit.caught.lock().unwrap().clone();
    assert!(caught[1] - caught[0] > Duration::from_millis(2_900), "{caught:?}");
    assert!(caught[2] - caught[1] > Duration::from_millis(3_900), "{caught:?}");
    assert_not_in_the_way(&server);
}

/// Checks that all threads of a process other than the first block all signals.
fn assert_signals_find_the_process(pid: i32) {
    let threads: Vec<_> = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(Result::unwrap).collect();
    assert!(threads.len() > 1, "there is no other thread");
    for thread in threads.iter().filter(|thread| thread.file_name() != *pid.to_string()) {
        let status = fs::read_to_string(thread.path().join("status")).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        for signal in [1, 2, 10, 14, 15, 23] {
            assert!(blocked >> (signal - 1) & 1 == 1, "signal {signal}: {blocked:x}");
        }
    }
}

/// The same while a process is caught.
#[test]
fn the_server_is_stopped_during_a_long_computation() {
    let pit = TarPit::with(ask_for_a_long_computation);
    let server = pit.server(&Cluster::builder().preload(), &[], "sslmode=disable connect_timeout=60");
    eventually("a connection", || pit.caught() > 0);
    let pid = eventually("the registry worker", || background_pid(&server, "snowflake_id registry"));
    assert_signals_find_the_process(pid);
    server.connect().execute("SELECT pg_terminate_backend($1)", &[&pid]).unwrap();
    let start = Instant::now();
    eventually("its end", || background_pid(&server, "snowflake_id registry") != Some(pid));
    assert_within(SLACK, start.elapsed(), "the end of the registry worker");
    eventually("the next process", || pit.caught() > 1);
    assert_not_in_the_way(&server);
}

/// The next hosts of the list are asked, now and later.
#[test]
fn another_host_is_the_registry() {
    let pit = TarPit::with(ask_for_a_long_computation);
    let fleet = Fleet::start(LASTING_LEASES);
    let socket = fleet.registry.host().to_str().unwrap();
    let server = pit.server(&Cluster::builder().preload(), &[(socket, 5432)], &no_tls(""));
    let worker = leased_worker(&server);
    assert!(pit.caught() > 0, "the other host came first");
    let caught = pit.caught();
    for _ in 0..3 {
        assert_renewed(&server);
    }
    assert_eq!(pit.caught(), caught, "it is asked first again");
    assert_eq!(leased_worker(&server), worker);
    assert_eq!(shown(&mut server.connect(), "last_error"), None);
    assert_not_in_the_way(&server);
}

/// The tar pit is the first of the addresses of a name.
#[test]
fn another_address_is_the_registry() {
    let pit = TarPit::with(ask_for_a_long_computation);
    let fleet = Fleet::start(LASTING_LEASES);
    let _right = network::Proxy::at(std::net::Ipv4Addr::new(127, 0, 0, 2), pit.port, &fleet.registry);
    let server = pit.server(&Cluster::builder().preload(), &[], &no_tls(""));
    server.stop_server("fast");
    let string = pit.string(&server, &[], &no_tls("")).replace("127.0.0.1", "registry.example");
    server.configure(&[("snowflake_id.registry", &string)]);
    let caught = pit.caught();
    let hosts = "127.0.0.1 registry.example\n127.0.0.2 registry.example\n";
    let started = super::connecting::start_with_file(&server, "/etc/hosts", hosts);
    let Some(()) = needs("a file system of its own (run as root)", started) else { return };
    leased_worker(&server);
    assert!(pit.caught() > caught, "the other address came first");
    assert_not_in_the_way(&server);
}

/// The process that fetches numbers of segments is caught too.
#[test]
fn numbers_while_the_first_host_is_stuck() {
    let pit = TarPit::with(ask_for_a_long_computation);
    let registry = segments::registry();
    segments::administer(&registry, "create_segment('orders')");
    let socket = registry.host().to_str().unwrap();
    let server = pit.server(&segments::preloaded(), &[(socket, 5432)], &no_tls(""));
    let mut client = server.connect();
    eventually("a number", || {
        client.query_one("SELECT snowflake_segment_nextval('orders')", &[]).map(|row| row.get::<_, i64>(0))
    });
    assert_eq!(next(&mut client, "orders"), 2);
    assert!(pit.caught() > 0, "the other host came first");
    assert_not_in_the_way(&server);
    // There is no other host.
    let server = pit.server(&segments::preloaded(), &[], &no_tls(""));
    let mut client = server.connect();
    wait_until_caught(&mut client);
    eventually("the segments worker", || background_pid(&server, "snowflake_id segments"));
    drop(client);
    assert_not_in_the_way(&server);
}

/// Waits until calls for a number report that a process was caught.
fn wait_until_caught(client: &mut Client) {
    client.run("SET snowflake_id.max_wait = '500ms'");
    eventually("a caught process", || {
        let (_, said) = refusal(client, "orders");
        said.contains("libpq has been processing data")
    });
}

/// The process that asks the registry is caught after an answer, which may come from another registry. The numbers that
/// were left at a clean stop are not used, and are kept until the registry answers.
#[test]
fn numbers_that_are_left_while_the_registry_is_stuck() {
    let pit = TarPit::with(ask_for_a_long_computation);
    let registry = segments::registry_of_fifties(&["orders"]);
    let server = segments::server_of(&registry).start();
    segments::some(&mut server.connect(), "orders", 30);
    segments::wait_for_next_range(&server, "orders");
    server.stop_server("fast");
    server.configure(&[("snowflake_id.registry", &pit.string(&server, &[], &no_tls("")))]);
    server.start_server();
    wait_until_caught(&mut server.connect());
    server.stop_server("fast");
    server.configure(&[("snowflake_id.registry", &segments::connection_string(&registry))]);
    server.start_server();
    assert_eq!(next(&mut server.connect(), "orders"), 31);
}

/// Sends one notice after the other, in pieces.
fn notices_without_end(client: &mut TcpStream) -> std::io::Result<()> {
    let _startup = client.read(&mut [0; 65536])?;
    client.write_all(&message(b'R', &[0; 4]))?;
    let notice = message(b'N', b"SNOTICE\0VNOTICE\0C00000\0Mwait\0\0");
    loop {
        client.write_all(&notice)?;
    }
}

/// Sends parameters without end, all of which have to be kept.
fn parameters_without_end(client: &mut TcpStream) -> std::io::Result<()> {
    let _startup = client.read(&mut [0; 65536])?;
    client.write_all(&message(b'R', &[0; 4]))?;
    for number in 0_u64.. {
        let parameter = format!("parameter{number}\0{}\0", "x".repeat(20_000));
        client.write_all(&message(b'S', parameter.as_bytes()))?;
    }
    Ok(())
}

/// Sends the greeting byte by byte.
fn a_byte_per_second(client: &mut TcpStream) -> std::io::Result<()> {
    let _startup = client.read(&mut [0; 65536])?;
    client.write_all(&message(b'R', &[0; 4]))?;
    for byte in message(b'S', &[b'x'; 1000]) {
        client.write_all(&[byte])?;
        thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

/// Accepts TLS, and then says nothing.
fn tls_without_a_word(client: &mut TcpStream) -> std::io::Result<()> {
    let _request = client.read(&mut [0; 65536])?;
    client.write_all(b"S")
}

/// Checks that a registry that receives the server like this costs it neither much memory nor a stop.
fn does_not_finish(reception: Reception, options: &str, said: &str) {
    let pit = TarPit::with(reception);
    let server = pit.server(&Cluster::builder().preload(), &[], &format!("{options} connect_timeout=2"));
    wait_for_error(&server, said);
    let pid = eventually("the registry worker", || background_pid(&server, "snowflake_id registry"));
    let peak = peak_memory(pid);
    assert!(peak < 150, "{peak} MB");
    assert_not_in_the_way(&server);
}

#[test]
fn a_registry_that_sends_notices_without_end() {
    does_not_finish(notices_without_end, "sslmode=disable", "no reply from 127.0.0.1|too long");
}

#[test]
fn a_registry_that_sends_parameters_without_end() {
    does_not_finish(parameters_without_end, "sslmode=disable", "too long");
}

#[test]
fn a_registry_that_sends_a_byte_per_second() {
    does_not_finish(a_byte_per_second, "sslmode=disable", "no reply from 127.0.0.1");
}

#[test]
fn a_registry_that_accepts_tls_and_says_nothing() {
    if has_tls() {
        does_not_finish(tls_without_a_word, "sslmode=require", "no reply from 127.0.0.1");
    }
}
