//! The programs of docs/how-to/clients.md and numbers-over-http.md, run as they are. A comment after a line that prints
//! gives the output: `an ID` stands for the ID of a row in table `orders`.
//!
//! These tests are not part of a plain `cargo test`: scripts/clients.sh installs their requirements below
//! target/clients and runs them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use harness::segments::{administer, single_server};
use harness::*;

const PAGE: &str = include_str!("../../../../docs/how-to/clients.md");

#[test]
#[ignore = "needs packages: make clients"]
fn django() {
    check("django", include_str!("../../../clients/django_orders.py"), &mut python("django_orders.py"));
}

#[test]
#[ignore = "needs packages: make clients"]
fn sqlalchemy() {
    check(
        "sqlalchemy",
        include_str!("../../../clients/sqlalchemy_orders.py"),
        &mut python("sqlalchemy_orders.py"),
    );
}

#[test]
#[ignore = "needs packages: make clients"]
fn node_postgres() {
    let source = include_str!("../../../clients/node_postgres_orders.mjs");
    check("node_postgres", source, Command::new("node").arg(installed("node_postgres_orders.mjs")));
}

#[test]
#[ignore = "needs packages: make clients"]
fn sqlx() {
    let source = include_str!("../../../clients/sqlx/src/main.rs");
    check("sqlx", source, &mut Command::new(installed("sqlx/target/debug/orders")));
}

/// Four clients take numbers while the server crashes. No number is repeated. Other requests get no number.
#[test]
#[ignore = "needs packages: make clients"]
fn number_service() {
    let source = include_str!("../../../clients/number_service.py");
    let page = include_str!("../../../../docs/how-to/numbers-over-http.md");
    assert!(
        page.contains(&format!("\n```python\n{source}```\n")),
        "the page does not show the program as it is"
    );
    let cluster = single_server().start();
    administer(&cluster, "create_segment('orders')");
    administer(&cluster, "create_segment('secret')");
    let privileges = examples::blocks(page).next().unwrap();
    cluster.connect().run(privileges);

    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let mut command = python("number_service.py");
    command.arg(port.to_string()).stderr(Stdio::null());
    command.env("PGHOST", cluster.host()).env("PGUSER", "number_service").env("PGDATABASE", "postgres");
    let _service = Service(command.spawn().unwrap());
    eventually("the service", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)));

    let ask = |request: &str| ask(port, request);
    assert_eq!(ask("POST /orders"), (200, "1\n".into()));
    for (request, status) in
        [("POST /secret", 404), ("POST /", 404), ("GET /orders", 501), ("PUT /orders", 501)]
    {
        assert_eq!(ask(request).0, status, "{request}");
    }
    let client = |_: &std::sync::atomic::AtomicBool| {
        let (mut mine, mut failures) = (Vec::new(), 0);
        while mine.len() < 200 {
            match ask("POST /orders") {
                (200, number) => mine.push(number.trim_end().parse::<i64>().unwrap()),
                (503, _) => failures += 1,
                other => panic!("{other:?}"),
            }
        }
        (mine, failures)
    };
    let (taken, ()) = beside([client; 4], || cluster.restart("immediate"));
    let failures: i32 = taken.iter().map(|(_, failures)| failures).sum();
    println!("{failures} requests without a number");
    let all: Vec<i64> = taken.into_iter().flat_map(|(mine, _)| mine).collect();
    assert_distinct(&all);
    assert!(all.iter().all(|&number| number > 1));
}

/// The running service. It ends with the test.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Sends a request without a body. Returns the status and the text of the response.
fn ask(port: u16, request: &str) -> (u16, String) {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(connection, "{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    let (head, text) = response.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{response:?}"));
    assert!(!head.starts_with("HTTP/1.0 200") || head.contains("\r\nCache-Control: no-store"), "{head}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), text.into())
}

fn python(program: &str) -> Command {
    let mut command = Command::new(installed("venv/bin/python"));
    command.arg(installed(program));
    command
}

/// The path at which scripts/clients.sh installs a file.
fn installed(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/clients").join(file)
}

/// Runs a program in a database of its own, and compares its output with its comments. The mappers create table
/// `orders` themselves. For the other programs the test creates it.
fn check(database: &str, source: &str, program: &mut Command) {
    assert!(
        PAGE.contains(&format!("\n{source}```\n")),
        "docs/how-to/clients.md does not show the program as it is"
    );
    let cluster = Cluster::builder().worker(1).start();
    cluster.connect().run(&format!("CREATE DATABASE {database}"));
    let mut client = cluster.connect_to(database);
    client.run("CREATE EXTENSION snowflake_id");
    if !["django", "sqlalchemy"].contains(&database) {
        client.run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text)");
    }

    program.env("PGHOST", cluster.host()).env("PGUSER", "test").env("PGDATABASE", database);
    let output = String::from_utf8(successful(program).stdout).unwrap();
    let printed: Vec<&str> = output.lines().collect();
    let expected: Vec<&str> = source.lines().filter_map(comment).collect();
    assert_eq!(printed.len(), expected.len(), "{output}");
    let mut ids = Vec::new();
    for (printed, expected) in printed.into_iter().zip(expected) {
        match expected {
            "an ID" => ids.push(printed.parse().unwrap_or_else(|_| panic!("{printed} is no ID"))),
            _ => assert_eq!(printed, expected),
        }
    }
    assert!(!ids.is_empty());
    assert_increasing(&ids);
    for id in ids {
        let row = "SELECT count(*) FILTER (WHERE snowflake_worker(id) = 1
                       AND snowflake_timestamp(id) > now() - interval '1 minute')
                   FROM orders WHERE id = ";
        assert_eq!(single::<i64>(&mut client, &format!("{row}{id}")), 1, "{id}");
    }
    let default = "SELECT column_default FROM information_schema.columns
                   WHERE table_name = 'orders' AND column_name = 'id' AND data_type = 'bigint'";
    assert_eq!(single::<String>(&mut client, default), "snowflake_nextval()");
}

/// The expected output in the comment of a line that prints.
fn comment(line: &str) -> Option<&str> {
    let is_print =
        ["print(", "println!(", "console.log("].iter().any(|print| line.trim_start().starts_with(print));
    let (_, comment) = line.rsplit_once("// ").or_else(|| line.rsplit_once("# "))?;
    is_print.then_some(comment)
}
