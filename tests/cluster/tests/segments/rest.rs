//! The numbers that are left at a clean stop: they are used once, and only if no other server can have received them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use harness::segments::*;
use harness::*;

use crate::fleet::hostile_registry::message;

/// Locks a row, so that the registry replies to reports that a session held a lock for too long.
const LOCK_ORDERS: &str = "BEGIN; SELECT FROM snowflake_registry.segment WHERE name = 'orders' FOR UPDATE";

/// The connection string of a registry that does not exist.
const NOWHERE: &str = "host=/nowhere user=fleet";

/// A server that has taken numbers, and holds the rest of two ranges of 50. Returns the numbers as well.
fn server_with_two_ranges(registry: &Cluster) -> (Cluster, Vec<i64>) {
    let server = server_of(registry).start();
    let numbers = some(&mut server.connect(), "orders", 30);
    wait_for_next_range(&server, "orders");
    (server, numbers)
}

/// A session whose calls wait for a short time only.
fn impatient(server: &Cluster) -> Client {
    let mut client = server.connect();
    client.run("SET snowflake_id.max_wait = '2s'");
    client
}

fn position(server: &Cluster) -> Option<i64> {
    single(&mut server.connect(), "SELECT position FROM snowflake_segments WHERE name = 'orders'")
}

/// A clean stop keeps the numbers that are left. After the start they are used, although the registry does not answer.
#[test]
fn a_clean_stop_while_the_registry_is_away() {
    let registry = registry_of_fifties(&["orders"]);
    let (server, mut all) = server_with_two_ranges(&registry);
    // Another worker process continues where the first one stopped, before it fetches numbers.
    kill("TERM", worker_pid(&server));
    eventually("the numbers that were left", || {
        let position = position(&server)?;
        assert_eq!(position, 31);
        Some(())
    });
    registry.stop_server("immediate");
    for _ in 0..3 {
        server.restart("fast");
        let mut client = server.connect();
        all.extend(some(&mut client, "orders", 20));
        let issued = "SELECT numbers_issued FROM snowflake_segments";
        assert_eq!(single::<i64>(&mut client, issued), 20);
        // Another worker of the same server continues as well.
        kill("TERM", worker_pid(&server));
        all.push(next(&mut client, "orders"));
    }
    assert_eq!(all, (1..=93).collect::<Vec<_>>());
    // The remaining numbers are used, and no others.
    assert_eq!(some(&mut server.connect(), "orders", 7), (94..=100).collect::<Vec<_>>());
    assert_eq!(refusal(&mut server.connect(), "orders").0, "55P03");
    server.restart("fast");
    assert_eq!(refusal(&mut server.connect(), "orders").0, "55P03");
    registry.start_server();
    eventually("the registry", || server.try_run("SELECT snowflake_segment_nextval('orders')"));
    // A crash loses the numbers. It is not mistaken for a copy of the server.
    server.restart("fast");
    let last = next(&mut server.connect(), "orders");
    server.restart("immediate");
    assert!(next(&mut server.connect(), "orders") > last + 1);
    assert!(!server.log().contains("are not used"), "{}", server.log());
}

/// The numbers that are left are used once: not by a copy of the data directory, and not after the disk was set back.
#[test]
fn a_copy_of_a_stopped_server() {
    let registry = registry_of_fifties(&["orders"]);
    let (server, mut all) = server_with_two_ranges(&registry);
    server.stop_server("fast");
    let copy = server.duplicate();
    let file = server.data_dir().join("snowflake_id.segments");
    let earlier = std::fs::read(&file).unwrap();
    assert!(String::from_utf8_lossy(&earlier).contains("rest"));
    // The first of the two that starts has the numbers.
    server.start_server();
    all.push(next(&mut server.connect(), "orders"));
    assert_eq!(all.last(), Some(&31));
    copy.start_server();
    all.push(next(&mut copy.connect(), "orders"));
    assert!(copy.log().contains("numbers of segments that were left at the last stop are not used"));
    // The same file, with the same inode, as after a snapshot of the volume was restored.
    for mode in ["fast", "immediate"] {
        server.stop_server(mode);
        std::fs::write(&file, &earlier).unwrap();
        server.start_server();
        all.extend(some(&mut server.connect(), "orders", 120));
    }
    assert_distinct(&all);
}

/// What the server finds at the start after a stop during which another registry took over.
#[derive(Clone, Copy, PartialEq)]
enum Found {
    AnotherRegistry,
    /// A registry to which the server cannot report, because a row is locked.
    BusyRegistry,
    /// Such a registry, which is unreachable soon after.
    RegistryThatDisappears,
    /// No registry at first.
    Silence,
}

/// Numbers of another registry are not used after the start, because the new registry may have granted them.
#[test]
fn another_registry_during_the_stop() {
    use Found::*;
    for found in [AnotherRegistry, BusyRegistry, RegistryThatDisappears, Silence] {
        let registries = [0, 1].map(|_| registry_of_fifties(&["orders", "items"]));
        let (server, mut all) = server_with_two_ranges(&registries[0]);
        next(&mut server.connect(), "items");
        let other = server_of(&registries[1]).start();
        server.stop_server("fast");
        // An administrator knows only the numbers in the tables.
        administer(&registries[1], "alter_segment('orders', next_value => 31)");
        all.extend(some(&mut other.connect(), "orders", 100));
        let mut locker = registries[1].connect();
        if [BusyRegistry, RegistryThatDisappears].contains(&found) {
            locker.run(LOCK_ORDERS);
        }
        let new = connection_string(&registries[1]);
        let string = if found == Silence { NOWHERE } else { &new };
        server.configure(&[("snowflake_id.registry", string)]);
        server.start_server();
        match found {
            AnotherRegistry => {}
            BusyRegistry => {
                let (code, said) = refusal(&mut server.connect(), "orders");
                assert_eq!(code, "55P03", "{said}");
                locker.run("ROLLBACK");
            }
            RegistryThatDisappears => {
                eventually("an answer", || server.log().contains("held a lock on a segment").then_some(()));
                registries[1].stop_server("immediate");
                let (code, said) = refusal(&mut impatient(&server), "orders");
                assert_eq!(code, "55P03", "{said}");
                registries[1].start_server();
            }
            Silence => {
                next(&mut server.connect(), "items");
                server.configure(&[("snowflake_id.registry", &new)]);
                server.reload();
                let said = "the registry of segments has changed";
                eventually("the report", || server.log().contains(said).then_some(()));
            }
        }
        all.extend(some_at_last(&server, "orders", 100));
        assert_distinct(&all);
    }
}

/// A registry whose server was restarted may have lost commits and granted the numbers again, and the stopped server
/// could not prove it.
#[test]
fn a_registry_that_was_set_back_during_the_stop() {
    let registry = registry_of_fifties(&["orders"]);
    administer(&registry, "configure(witnesses => false, lease => '1 s', renew_every => '200ms')");
    let copy = registry.duplicate_in_between();
    administer(&registry, "end_quarantine()");
    let (server, mut all) = server_with_two_ranges(&registry);
    server.stop_server("fast");
    registry.stop_server("immediate");
    copy.start_server();
    administer(&copy, "end_quarantine()");
    let other = server_of(&copy).start();
    let numbers = some(&mut other.connect(), "orders", 100);
    assert!(numbers.contains(&40), "{numbers:?}");
    server.configure(&[("snowflake_id.registry", &connection_string(&copy))]);
    server.start_server();
    // The other numbers below 31 were used before. This is the one case that is not covered: a server that was away
    // while the registry was set back.
    all.retain(|number| *number > 30);
    all.extend(numbers);
    eventually("a number", || {
        let row = server.connect().query_one("SELECT snowflake_segment_nextval('orders')", &[]).ok()?;
        all.push(row.get(0));
        Some(())
    });
    assert_distinct(&all);
}

/// The registry was set back while the server ran. It has replied since then, but has not received the report about all
/// numbers before the stop.
#[test]
fn a_registry_that_has_not_received_the_report() {
    let registry = registry_of_fifties(&["orders", "items"]);
    administer(&registry, "configure(lease => '10min', renew_every => '1min')");
    let server = server_of(&registry).start();
    some(&mut server.connect(), "items", 30);
    wait_for_next_range(&server, "items");
    let copy = registry.duplicate_in_between();
    administer(&registry, "end_quarantine()");
    some(&mut server.connect(), "orders", 30);
    wait_for_next_range(&server, "orders");
    registry.give_way_to(&copy);
    administer(&registry, "end_quarantine()");
    break_reports(&registry, "orders");
    some(&mut server.connect(), "items", 40);
    wait_for_next_range(&server, "items");
    // The server reports at once, not after the usual interval.
    let began = Instant::now();
    eventually("a failed report", || copy.log().contains("ERROR:  broken").then_some(()));
    assert!(began.elapsed() < SLACK, "{:?}", began.elapsed());
    server.stop_server("fast");
    mend_reports(&registry);
    let other = server_of(&registry).start();
    let mut all = some(&mut other.connect(), "orders", 100);
    server.start_server();
    all.extend(some(&mut server.connect(), "orders", 20));
    assert_distinct(&all);
}

/// Accepts connections, and sends an error whose severity is translated.
fn registry_in_another_language() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let _startup = client.read(&mut [0; 65536]);
            let error = "SВАЖНО\0VFATAL\0C57P03\0Mthe database system is starting up\0\0";
            let _ = client.write_all(&message(b'E', error.as_bytes()));
        }
    });
    format!("host=127.0.0.1 port={port} user=fleet dbname=postgres sslmode=disable gssencmode=disable")
}

/// A server has answered, although no connection was established. It may be another registry, so the numbers that are
/// left are not used. They are kept until the registry answers.
#[test]
fn a_registry_that_gets_no_further_than_its_first_answer() {
    let registry = registry_of_fifties(&["orders"]);
    registry.connect().run("CREATE ROLE stranger LOGIN");
    let rules = "local all stranger scram-sha-256\nlocal all all trust\n";
    std::fs::write(registry.data_dir().join("pg_hba.conf"), rules).unwrap();
    registry.reload();
    let (server, _) = server_with_two_ranges(&registry);
    let string = connection_string(&registry);
    for refusing in [
        string.replace("user=fleet", "user=stranger"),
        format!("{string} requirepeer=stranger"),
        format!("{string} target_session_attrs=read-only"),
        registry_in_another_language(),
    ] {
        server.stop_server("fast");
        server.configure(&[("snowflake_id.registry", &refusing)]);
        server.start_server();
        let (code, said) = refusal(&mut impatient(&server), "orders");
        assert_eq!(code, "55P03", "{refusing}: {said}");
    }
    server.stop_server("fast");
    server.configure(&[("snowflake_id.registry", &string)]);
    server.start_server();
    assert_eq!(next(&mut server.connect(), "orders"), 31);
}

/// The process that asks the registry is caught before any server has answered.
#[test]
fn a_service_file_that_cannot_be_read() {
    let registry = registry_of_fifties(&["orders"]);
    let (server, _) = server_with_two_ranges(&registry);
    server.stop_server("fast");
    // Opening the pipe does not return.
    let pipe = server.host().join("pipe");
    successful(Command::new("mkfifo").arg(&pipe));
    server.own(&pipe);
    server.configure(&[("snowflake_id.registry", "service=registry")]);
    server.start_server_by(|mut pg_ctl| {
        pg_ctl.env("PGSERVICEFILE", &pipe);
        pg_ctl
    });
    let number: i64 = eventually("a number", || {
        server.connect().query_one("SELECT snowflake_segment_nextval('orders')", &[]).map(|row| row.get(0))
    });
    assert_eq!(number, 31);
}

/// Numbers of a period that has ended meanwhile are not used, and numbers of the next period are used when it starts.
#[test]
fn numbers_with_a_date_that_are_left() {
    let registry = registry_with_clock("2027-05-09 23:59:45");
    administer(&registry, "create_segment('orders', period => 'day', digits => 6, min_step => 500)");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    assert_eq!(next(&mut client, "orders"), 20270509000001);
    eventually("the first range of the next day", || {
        let text =
            std::fs::read_to_string(server.data_dir().join("snowflake_id.segments")).unwrap_or_default();
        text.contains("\"key\":20270510")
    });
    let number = next(&mut client, "orders");
    assert!((20270509000002..20270510000000).contains(&number), "{number}");
    drop(client);
    server.stop_server("fast");
    registry.stop_server("immediate");
    server.start_server();
    let mut client = server.connect();
    let mut all = vec![number];
    eventually("the next day", || {
        thread::sleep(Duration::from_millis(100));
        all.push(next(&mut client, "orders"));
        (*all.last()? > 20270510000000).then_some(())
    });
    assert_increasing(&all);
    assert_eq!(all.last(), Some(&20270510000001));
}
