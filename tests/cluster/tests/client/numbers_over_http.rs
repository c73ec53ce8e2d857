//! Example `numbers` of the client crate, with its README.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use harness::book::read;
use harness::examples::{block_at, blocks, run_block};
use harness::segments::administer;
use harness::*;

use super::program::*;

static PAGE: LazyLock<String> = LazyLock::new(|| read("client/examples/numbers/README.md"));
const TOKEN: &str = "token=0f673adf80504e2eaa552f5d791b644c";

/// The service takes numbers from a registry with the segments and the role of the page. Clients get what the page shows,
/// and other requests are refused. At its end, the service answers the last request.
#[test]
fn examples_of_the_page() {
    let fleet = with_segments_of_page();
    let service = Service::start(&fleet, "127.0.0.1:0");
    let before = real_us();
    let mut compared = 0;
    for line in block("sh").filter(|line| line.starts_with("curl ")) {
        let (command, expected) = line.rsplit_once(" # ").expect("an expected response");
        let response = service.curl(command);
        match expected {
            "an ID" => {
                let decoded =
                    "leaf".parse::<Layout>().unwrap().decode(response.text.parse().unwrap()).unwrap();
                assert!((decoded.generated_at - before).abs() < 60_000_000, "{decoded:?}");
            }
            expected => assert_eq!(response.text, expected, "{command}"),
        }
        compared += 1;
    }
    assert_eq!(compared, 7);

    for (request, status) in [
        // Names that are not in the file, and tokens of others.
        ("GET /api/segment/get/secret", 403),
        ("GET /api/snowflake/get/test", 403),
        ("GET /api/segment/get/", 403),
        ("POST /tinyid/id/nextIdSimple?bizType=test&token=-", 403),
        ("POST /tinyid/id/nextIdSimple?bizType=test&token=", 403),
        ("POST /tinyid/id/nextSegmentId?bizType=test", 403),
        // A comment grants nothing.
        ("POST /tinyid/id/nextSegmentId?bizType=secret&token=%23", 403),
        (&format!("POST /tinyid/id/nextIdSimple?bizType=test&batchSize=0&{TOKEN}"), 400),
        (&format!("POST /tinyid/id/nextIdSimple?bizType=test&batchSize=-1&{TOKEN}"), 400),
        ("GET /", 404),
        ("HEAD /api/segment/get/orders", 405),
        ("PUT /api/segment/get/orders", 405),
        // A name with a character that the path encodes. The segment does not exist.
        ("POST /api/segment/get/a%2Fb", 503),
    ] {
        assert_eq!(service.ask(request).unwrap().status, status, "{request}");
    }
    // A form that is not a form.
    let malformed = send_body(
        &service.address,
        "POST /tinyid/id/nextSegmentId",
        "Transfer-Encoding: chunked\r\n",
        "?\r\n",
    );
    assert_eq!(malformed.unwrap().status, 400);
    // No request that was refused has taken a number.
    assert_eq!(service.ask("GET /api/segment/get/orders").unwrap().text, "3");
    let simple = format!("GET /tinyid/id/nextIdSimple?bizType=test&batchSize=&{TOKEN}");
    assert_eq!(service.ask(&simple).unwrap().text, "6");

    let metrics = service.ask("GET /metrics").unwrap().text;
    for line in [
        "snowflake_numbers_requests_total{path=\"/api/segment/get\",status=\"200\"} 3",
        "snowflake_numbers_requests_total{path=\"/api/segment/get\",status=\"503\"} 1",
        "snowflake_numbers_requests_total{path=\"/tinyid/id/nextId\",status=\"403\"} 1",
        "snowflake_numbers_issued_total{kind=\"segment\",name=\"test\"} 6",
        "snowflake_numbers_issued_total{kind=\"id\",name=\"orders\"} 1",
        "snowflake_numbers_has_lease 1",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} is not in\n{metrics}");
    }
    for name in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()) {
        assert!(PAGE.contains(&format!("\n| `{name}")), "the page does not explain {name}");
    }
    end_cleanly(&fleet, service);
}

/// The files for the clients of Leaf and Tinyid.
#[test]
fn files_in_place_of_leaf_and_tinyid() {
    let fleet = with_segments_of_page();
    let mut client = fleet.registry.connect();
    client.run(
        "CREATE TABLE leaf_alloc (biz_tag text);
         INSERT INTO leaf_alloc VALUES ('leaf-riders'), ('leaf-orders');
         CREATE TABLE tiny_id_token (token text, biz_type text);
         INSERT INTO tiny_id_token VALUES ('0f673adf80504e2eaa552f5d791b644c', 'test'),
                                          ('0f673adf80504e2eaa552f5d791b644c', 'test_odd')",
    );
    for place in ["on a copy of Leaf's table", "on a copy of Tinyid's table"] {
        assert_eq!(run_block(&mut client, block_at(&PAGE, place)), 1);
    }
}

/// Without a layout, there are no IDs and no worker ID.
#[test]
fn without_a_layout() {
    let fleet = with_segments_of_page();
    let service = Service::start_with(&fleet, "127.0.0.1:0", &[]);
    assert_eq!(service.ask("GET /api/segment/get/orders").unwrap().text, "1");
    assert_eq!(service.ask("GET /api/snowflake/get/orders").unwrap().status, 404);
    assert!(!service.ask("GET /metrics").unwrap().text.contains("has_lease"));
    service.end();
}

/// Four clients take numbers on all paths while the registry crashes, and while the service is stopped and started. No
/// number is repeated.
#[test]
fn numbers_do_not_repeat() {
    let fleet = with_segments_of_page();
    // A client of Tinyid takes a whole range.
    administer(&fleet.registry, "alter_segment('test_odd', max_step => 1000)");
    let service = Service::start(&fleet, "127.0.0.1:0");
    let address = service.address.clone();
    a_client_that_never_reads_is_closed(&address);
    let taken = AtomicUsize::new(0);
    let client = |stop: &AtomicBool| {
        let mut mine = Vec::new();
        for round in 0.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let path = ["nextIdSimple?batchSize=7", "nextSegmentIdSimple?"][round % 2];
            let response = ask(&address, &format!("POST /tinyid/id/{path}&bizType=test_odd&{TOKEN}"));
            match response {
                Ok(Response { status: 200, text }) => {
                    let numbers = text.split(',').map(|number| number.parse().unwrap());
                    mine.extend(if round % 2 == 0 { numbers.collect() } else { counted(numbers.collect()) });
                    taken.fetch_add(1, Ordering::Relaxed);
                }
                Ok(response) => assert_eq!(response.status, 503),
                // The service is being started.
                Err(_) => {}
            }
            thread::sleep(pause_between_queries());
        }
        mine
    };
    let wait_for_some = || {
        let before = taken.load(Ordering::Relaxed);
        all_arrive("numbers", || taken.load(Ordering::Relaxed) > before + 20);
    };
    let (all, ()) = beside([client; 4], || {
        wait_for_some();
        fleet.registry.restart("immediate");
        fleet.registry.connect().run("SELECT snowflake_registry.end_quarantine()");
        wait_for_some();
        service.end();
        let service = Service::start(&fleet, &address);
        wait_for_some();
        service.end();
    });
    let all = all.concat();
    assert!(all.iter().all(|number| number % 2 == 1));
    assert_distinct(&all);
}

/// The service closes the connection of a client that requests more than the buffers of both ends hold, and reads nothing.
fn a_client_that_never_reads_is_closed(address: &str) {
    let mut connection = TcpStream::connect(address).unwrap();
    let request = format!(
        "GET /tinyid/id/nextIdSimple?bizType=test_odd&batchSize=100000&{TOKEN} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    );
    connection.write_all(request.repeat(40).as_bytes()).unwrap();
    eventually("the end of the connection", || connection.write_all(b"\r\n").is_err());
}

/// After SIGTERM, the service answers the request that it has received, and releases its worker ID.
fn end_cleanly(fleet: &Fleet, mut service: Service) {
    assert_eq!(fleet_column(fleet, 0, "state"), "held");
    let mut connection = TcpStream::connect(&service.address).unwrap();
    // The service requests the rest of the request.
    let head = "POST /tinyid/id/nextIdSimple HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n\
                Content-Type: application/x-www-form-urlencoded\r\n";
    let form = format!("bizType=test&{TOKEN}");
    write!(connection, "{head}Content-Length: {}\r\n\r\n", form.len()).unwrap();
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");

    kill("TERM", service.process.id() as i32);
    eventually("the end of new connections", || TcpStream::connect(&service.address).is_err());
    // A service that does not wait for the request would have ended by now.
    thread::sleep(Duration::from_millis(300));
    connection.write_all(form.as_bytes()).unwrap();
    let mut response = String::new();
    reader.read_to_string(&mut response).unwrap();
    assert!(response.contains("HTTP/1.1 200 OK\r\n") && response.ends_with("\r\n\r\n7"), "{response:?}");
    assert!(service.process.wait().unwrap().success());
    assert_ne!(fleet_column(fleet, 0, "state"), "held");
}

/// The numbers of a response of Tinyid, as its Java client counts them (`SegmentId.java`).
fn counted(range: Vec<i64>) -> Vec<i64> {
    let [mut current, _, max, delta, remainder] = range[..] else { panic!("{range:?}") };
    if current % delta != remainder {
        current = (current + 1..).find(|id| id % delta == remainder).unwrap() - delta;
    }
    (1..).map(|n| current + n * delta).take_while(|&number| number <= max).collect()
}

/// A registry with the segments and the role of the page.
fn with_segments_of_page() -> Fleet {
    let fleet = registry(LEASES);
    fleet.registry.connect().run(blocks(&PAGE).next().unwrap());
    fleet
}

/// The lines of the blocks of the page in this language.
fn block(language: &str) -> impl Iterator<Item = &str> {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    blocks.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n')).flat_map(str::lines)
}

/// The running service. It ends with the test.
struct Service {
    process: Child,
    address: String,
    /// The service would fail to write to a pipe without a reader.
    _output: BufReader<ChildStdout>,
    _directory: tempfile::TempDir,
}

impl Service {
    /// Starts the service with the file of the page.
    fn start(fleet: &Fleet, address: &str) -> Service {
        Service::start_with(fleet, address, &["leaf"])
    }

    /// The same, with this layout or none.
    fn start_with(fleet: &Fleet, address: &str, layout: &[&str]) -> Service {
        let directory = tempfile::tempdir().unwrap();
        let clients = directory.path().join("clients.txt");
        let lines: Vec<&str> = block("text").chain(["- a/b", "  # secret"]).collect();
        fs::write(&clients, lines.join("\n")).unwrap();
        let mut command = Command::new(program());
        command.arg(address).arg(clients).args(layout).stdout(Stdio::piped()).stderr(Stdio::null());
        command.env("REGISTRY", fleet.registry.connection_string("number_service"));
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let address =
            line.trim_end().strip_prefix("The service listens on ").and_then(|line| line.strip_suffix('.'));
        let address = address.unwrap_or_else(|| panic!("{line:?}")).to_owned();
        Service { process, address, _output: output, _directory: directory }
    }

    fn ask(&self, request: &str) -> io::Result<Response> {
        ask(&self.address, request)
    }

    /// Sends the request of a command line of curl.
    fn curl(&self, command: &str) -> Response {
        // The shell splits the line.
        let script = format!("curl() {{ printf '%s\\n' \"$@\"; }}; {command}");
        let words = String::from_utf8(successful(Command::new("sh").args(["-c", &script])).stdout).unwrap();
        let (mut method, mut header, mut form, mut path) = ("GET", "", "", "");
        let mut words = words.lines();
        while let Some(word) = words.next() {
            match word {
                "-X" => method = words.next().unwrap(),
                "-H" => header = words.next().unwrap(),
                "-d" => (method, form) = ("POST", words.next().unwrap()),
                url => path = url.strip_prefix("http://127.0.0.1:8080").unwrap(),
            }
        }
        let header = if header.is_empty() { String::new() } else { format!("{header}\r\n") };
        send(&self.address, &format!("{method} {path}"), &header, form).unwrap()
    }

    /// Ends the service cleanly.
    fn end(mut self) {
        kill("TERM", self.process.id() as i32);
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program, which cargo builds together with the tests of the client crate.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.parent().unwrap().parent().unwrap().join("examples/numbers");
    assert!(program.exists(), "cargo build -p snowflake-id-client --example numbers");
    program
}

struct Response {
    status: u16,
    text: String,
}

/// Sends a request without a body.
fn ask(address: &str, request: &str) -> io::Result<Response> {
    send(address, request, "", "")
}

/// Sends a request with these lines of its head, and with this form. No response may be stored.
fn send(address: &str, request: &str, header: &str, form: &str) -> io::Result<Response> {
    send_body(address, request, &format!("{header}Content-Length: {}\r\n", form.len()), form)
}

/// The same, with the line that says how long the body is.
fn send_body(address: &str, request: &str, header: &str, body: &str) -> io::Result<Response> {
    let mut connection = TcpStream::connect(address)?;
    write!(
        connection,
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\
         Content-Type: application/x-www-form-urlencoded\r\n\r\n{body}"
    )?;
    let mut response = String::new();
    connection.read_to_string(&mut response)?;
    // The service ended before it received the request.
    let Some((head, text)) = response.split_once("\r\n\r\n") else {
        return Err(io::ErrorKind::UnexpectedEof.into());
    };
    assert!(head.to_ascii_lowercase().contains("\r\ncache-control: no-store"), "{head}");
    Ok(Response { status: head.split(' ').nth(1).unwrap().parse().unwrap(), text: text.into() })
}
