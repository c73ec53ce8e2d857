//! A malicious server speaks PostgreSQL's protocol in place of the registry.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use harness::*;

/// How it replies to a query that it has read.
type Answer = fn(&mut TcpStream) -> std::io::Result<()>;

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Starts a server that accepts any connection and answers each query in this way. Returns the connection string and a
/// count of the queries.
pub fn hostile(answer: Answer) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let queries = Arc::new(AtomicUsize::new(0));
    let count = queries.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let count = count.clone();
            // The error when the server closes the connection does not matter.
            thread::spawn(move || client.and_then(|client| serve(client, answer, &count)));
        }
    });
    // By default, libpq would ask the impostor whether its session can write.
    let string = format!(
        "host=127.0.0.1 port={port} user=fleet dbname=postgres sslmode=disable gssencmode=disable target_session_attrs=any"
    );
    (string, queries)
}

fn serve(mut client: TcpStream, answer: Answer, count: &AtomicUsize) -> std::io::Result<()> {
    let mut bytes = [0; 65536];
    let _startup = client.read(&mut bytes)?;
    client.write_all(&[message(b'R', &[0; 4]), message(b'Z', b"I")].concat())?;
    let _query = client.read(&mut bytes)?;
    count.fetch_add(1, Ordering::Relaxed);
    client.write_all(&[message(b'1', b""), message(b'2', b"")].concat())?;
    answer(&mut client)?;
    // It waits for the connection to be closed.
    while client.read(&mut bytes)? > 0 {}
    Ok(())
}

fn copy_out(client: &mut TcpStream) -> std::io::Result<()> {
    client.write_all(&message(b'H', &[0; 3]))
}

/// The description of one column of type text.
fn columns() -> Vec<u8> {
    message(b'T', b"\0\x01c\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0")
}

pub fn rows_without_end(client: &mut TcpStream) -> std::io::Result<()> {
    client.write_all(&columns())?;
    let row = message(b'D', &[&b"\0\x01\0\0\x03\xe8"[..], &[b'x'; 1000]].concat());
    let rows = row.repeat(100);
    loop {
        client.write_all(&rows)?;
    }
}

pub fn a_row_of_a_gigabyte(client: &mut TcpStream) -> std::io::Result<()> {
    client.write_all(&columns())?;
    client.write_all(b"D\x3f\xff\xff\xff\0\x01\x3f\xff\xff\xf0")?;
    let bytes = [b'x'; 1 << 16];
    loop {
        client.write_all(&bytes)?;
    }
}

pub fn notifications_without_end(client: &mut TcpStream) -> std::io::Result<()> {
    let notification = message(b'A', &[&[0; 4][..], b"channel\0", &[b'x'; 7000], b"\0"].concat());
    loop {
        client.write_all(&notification)?;
    }
}

/// The peak memory of a process, in megabytes.
pub fn peak_memory(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
}

/// Checks that the worker uses no more memory than an answer may have, reports the errors, and does not delay a stop of
/// the server.
fn assert_harmless(session: &str, cases: &[(Answer, &str)]) {
    let server = Cluster::builder().preload().start();
    for &(answer, said) in cases {
        let (string, queries) = hostile(answer);
        server.change("snowflake_id.registry", &string.replace("any", session));
        // The worker asks again after it has reported the error.
        eventually("several queries", || queries.load(Ordering::Relaxed) > 1);
        wait_for_error(&server, said);
        let pid = eventually("the registry worker", || background_pid(&server, "snowflake_id registry"));
        let peak = peak_memory(pid);
        assert!(peak < 150, "{said}: {peak} MB");
        assert_within(SLACK, time_to_stop(&server), said);
        server.configure(&[("snowflake_id.registry", "")]);
        server.start_server();
    }
}

/// libpq asks the impostor whether its session can write, and gets the same answers.
#[test]
fn a_registry_that_is_asked_while_libpq_connects() {
    let said = "the registry's greeting is too long";
    assert_harmless(
        "read-write",
        &[
            (copy_out, "\"SHOW transaction_read_only\" failed"),
            (rows_without_end, said),
            (a_row_of_a_gigabyte, said),
            (notifications_without_end, said),
        ],
    );
}

#[test]
fn a_registry_whose_answers_do_not_end() {
    assert_harmless(
        "any",
        &[
            (copy_out, "the registry's reply is not a query result"),
            (rows_without_end, "the registry's reply is too long"),
            (a_row_of_a_gigabyte, "the registry's reply is too long"),
            (notifications_without_end, "notifications"),
        ],
    );
}
