//! The numbers that are left at a clean stop: they are used once, and only if no other server can have received them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::thread;
use std::time::Duration;

use harness::segments::*;
use harness::*;

use crate::fleet::hostile_registry::message;

/// The connection string of a registry that does not exist.
const NOWHERE: &str = "host=/nowhere user=fleet";

/// Takes numbers, so that the server holds the rest of two ranges of 50.
fn take_of_two_ranges(server: &Cluster, name: &str) -> Vec<i64> {
    let numbers = some(&mut server.connect(), name, 30);
    wait_for_next_range(server, name);
    numbers
}

/// A server that holds the rest of two ranges. Returns the numbers that it has taken as well.
fn server_with_two_ranges(registry: &Cluster) -> (Cluster, Vec<i64>) {
    let server = server_of(registry).start();
    let numbers = take_of_two_ranges(&server, "orders");
    (server, numbers)
}

fn position(server: &Cluster) -> Option<i64> {
    single(&mut server.connect(), "SELECT position FROM snowflake_segment_status WHERE name = 'orders'")
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
    for _ in 0..2 {
        server.restart("fast");
        let mut client = server.connect();
        all.extend(some(&mut client, "orders", 20));
        let issued = "SELECT numbers_issued FROM snowflake_segment_status";
        assert_eq!(single::<i64>(&mut client, issued), 20);
        // Another worker of the same server continues as well.
        kill("TERM", worker_pid(&server));
        client.run("SET snowflake_id.max_wait = '1min'");
        all.push(next(&mut client, "orders"));
    }
    assert_eq!(all, (1..=72).collect::<Vec<_>>());
    // The remaining numbers are used, and no others.
    assert_eq!(some(&mut server.connect(), "orders", 28), (73..=100).collect::<Vec<_>>());
    assert_eq!(refusal(&mut impatient(&server), "orders").0, "55P03");
    server.restart("fast");
    assert_eq!(refusal(&mut impatient(&server), "orders").0, "55P03");
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
    let cases = [AnotherRegistry, BusyRegistry, RegistryThatDisappears, Silence];
    let names: Vec<_> = (0..8).map(|at| format!("segment {at}")).collect();
    let registries = [0, 1].map(|_| registry_of_fifties(&names));
    let server = server_of(&registries[0]).start();
    let others = [0, 1].map(|at: usize| server_of(&registries[at]).start());
    // The server moves to and fro. In each case it has other names.
    for (round, (found, names)) in cases.into_iter().zip(names.chunks(2)).enumerate() {
        let (name, item) = (&names[0], &names[1]);
        let (registry, other) = (&registries[1 - round % 2], &others[1 - round % 2]);
        let mut all = take_of_two_ranges(&server, name);
        next(&mut server.connect(), item);
        server.stop_server("fast");
        // An administrator knows only the numbers in the tables.
        administer(registry, &format!("alter_segment('{name}', next_value => 31)"));
        all.extend(some_at_last(other, name, 100));
        let mut locker = registry.connect();
        let is_busy = [BusyRegistry, RegistryThatDisappears].contains(&found);
        if is_busy {
            locker.run(&format!(
                "BEGIN; SELECT FROM snowflake_registry.segment WHERE name = '{name}' FOR UPDATE"
            ));
        }
        let new = connection_string(registry);
        server.configure(&[("snowflake_id.registry", if found == Silence { NOWHERE } else { &new })]);
        let from = server.log_length();
        let said = |text: &str| {
            eventually("the report", || server.log_between(&(from..u64::MAX)).contains(text));
        };
        server.start_server();
        if is_busy {
            said("held a lock on a segment");
            if found == RegistryThatDisappears {
                registry.stop_server("immediate");
            }
            let (code, said) = refusal(&mut impatient(&server), name);
            assert_eq!(code, "55P03", "{said}");
            if found == RegistryThatDisappears {
                registry.start_server();
            } else {
                locker.run("ROLLBACK");
            }
        } else if found == Silence {
            next(&mut server.connect(), item);
            server.change("snowflake_id.registry", &new);
            said("the registry of segments has changed");
        }
        all.extend(some_at_last(&server, name, 100));
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
    all.extend(some_at_last(&server, "orders", 1));
    assert_distinct(&all);
}

/// The registry was set back while the server ran. It has replied since then, but has not received the report about all
/// numbers before the stop.
#[test]
fn a_registry_that_has_not_received_the_report() {
    let registry = registry_of_fifties(&["orders", "items"]);
    administer(&registry, "configure(lease => '24h', renew_every => '1h')");
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
    eventually("a failed report", || copy.log().contains("ERROR:  broken"));
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
        let from = server.log_length();
        server.start_server();
        eventually("an attempt", || {
            server.log_between(&(from..u64::MAX)).contains("could not get numbers of segments")
        });
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
    assert_eq!(some_at_last(&server, "orders", 1), [31]);
}

/// Numbers of a period that has ended meanwhile are not used, and numbers of the next period are used when it starts.
#[test]
fn numbers_with_a_date_that_are_left() {
    let registry = registry_with_clock("2027-05-09 23:59:05");
    administer(&registry, "create_segment('orders', period => 'day', digits => 6, min_step => 500)");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    assert_eq!(next(&mut client, "orders"), 20270509000001);
    wait_for_period(&server, 20270510);
    let number = next(&mut client, "orders");
    assert!((20270509000002..20270510000000).contains(&number), "{number}");
    drop(client);
    hold_clock_at(&registry, "2027-05-09 23:59:57");
    wait_for_report(&registry);
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
