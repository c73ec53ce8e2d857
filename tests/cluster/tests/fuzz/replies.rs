//! A peer between a server and its registry changes the registry's replies at random: values, rows, and the bytes of
//! messages. Whatever the server is told, no process crashes, the server never repeats an ID or a number, and no lease
//! lasts longer than a registry can grant.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use harness::fuzz::Rounds;
use harness::segments::preloaded;
use harness::*;

/// A message of the server in PostgreSQL's protocol.
struct Message {
    kind: u8,
    body: Vec<u8>,
}

impl Message {
    fn read(from: &mut impl Read) -> std::io::Result<Message> {
        let mut head = [0; 5];
        from.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        from.read_exact(&mut body)?;
        Ok(Message { kind: head[0], body })
    }

    fn bytes(&self) -> Vec<u8> {
        let length = (self.body.len() as u32 + 4).to_be_bytes();
        [&[self.kind], &length[..], &self.body].concat()
    }
}

/// The values of a row.
fn values(mut body: &[u8]) -> Vec<Option<String>> {
    let mut take = |count: usize| {
        let (taken, rest) = body.split_at(count);
        body = rest;
        taken
    };
    let count = u16::from_be_bytes(take(2).try_into().unwrap());
    let mut value = || {
        let length = i32::from_be_bytes(take(4).try_into().unwrap());
        Some(String::from_utf8_lossy(take(usize::try_from(length).ok()?)).into_owned())
    };
    (0..count).map(|_| value()).collect()
}

fn row(values: &[Option<String>]) -> Message {
    let mut body = (values.len() as u16).to_be_bytes().to_vec();
    for value in values {
        match value {
            None => body.extend((-1_i32).to_be_bytes()),
            Some(text) => {
                body.extend((text.len() as u32).to_be_bytes());
                body.extend(text.as_bytes());
            }
        }
    }
    Message { kind: b'D', body }
}

/// Returns what is sent in place of a message.
fn changed(random: &mut Random, message: Message) -> Vec<u8> {
    if message.kind != b'D' {
        // The greeting stays as it is most of the time, so that there is a reply.
        let mut bytes = message.bytes();
        if random.once_in(200) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
        return bytes;
    }
    let mut values = values(&message.body);
    match random.below(20) {
        0 => return vec![],
        1 => return message.bytes().repeat(2),
        2 => drop(values.pop()),
        3 => values.push(None),
        4 => {
            let mut bytes = message.bytes();
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
            return bytes;
        }
        5..9 => {}
        _ => {
            for _ in 0..=random.below(2) {
                let at = random.below(values.len() as u64) as usize;
                values[at] = match (&values[at], random.below(5)) {
                    (_, 0) => None,
                    (_, 1) => Some(random.number().to_string()),
                    (Some(text), 2) => {
                        text.parse::<i64>().ok().map(|number| number.wrapping_add(1).to_string())
                    }
                    (Some(text), _) => Some(random.change(text)),
                    (None, _) => Some(random.text()),
                };
            }
        }
    }
    row(&values).bytes()
}

/// Starts the peer. Returns its port.
fn start_peer(registry: PathBuf, random: &'static Mutex<Random>, changes: &'static AtomicU64) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let registry = registry.clone();
            // Connections are expected to fail.
            thread::spawn(move || client.and_then(|client| pass_on(client, &registry, random, changes)));
        }
    });
    port
}

fn pass_on(
    client: TcpStream,
    registry: &PathBuf,
    random: &Mutex<Random>,
    changes: &AtomicU64,
) -> std::io::Result<()> {
    let mut registry = UnixStream::connect(registry)?;
    let (mut from, mut to) = (client.try_clone()?, registry.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let mut client = client;
    let mut reply = || {
        let message = Message::read(&mut registry)?;
        let before = message.bytes();
        let after = changed(&mut random.lock().unwrap(), message);
        changes.fetch_add(u64::from(before != after), Ordering::Relaxed);
        client.write_all(&after)
    };
    while reply().is_ok() {}
    client.shutdown(std::net::Shutdown::Both)
}

#[test]
fn changed_replies() {
    static CHANGES: AtomicU64 = AtomicU64::new(0);
    let mut rounds = Rounds::new();
    let random = Box::leak(Box::new(Mutex::new(Random::of(rounds.random.below(u64::MAX)))));
    let registry = Registry::of_both("lease => '1min', renew_every => '100ms'").start(Cluster::builder());
    registry.connect().run(
        "SELECT snowflake_registry.end_quarantine();
         SELECT snowflake_registry.create_segment('orders', min_step => 10, max_step => 50);
         SELECT snowflake_registry.create_segment('bills', period => 'day', digits => 9, min_step => 10, max_step => 50);",
    );
    let port = start_peer(registry.host().join(".s.PGSQL.5432"), random, &CHANGES);
    let string = format!(
        "host=127.0.0.1 port={port} user=fleet dbname=postgres sslmode=disable gssencmode=disable connect_timeout=2"
    );
    let server =
        preloaded().set("snowflake_id.registry", &string).set("snowflake_id.max_wait", "300ms").start();
    let mut client = server.connect();
    let started = "SELECT pg_postmaster_start_time()::text";
    let before: String = single(&mut client, started);
    let (mut taken, mut numbers) = (vec![], vec![]);
    // A lease lasts at most 24 hours, from a clock that differs by at most 1 minute.
    let is_too_long = "coalesce(lease_until > clock_timestamp() + interval '24 hours 1 minute', false)";
    while rounds.go_on() {
        let several = rounds.query(&mut client, "SELECT snowflake_batch(100)", &["55"]);
        taken.extend(several.iter().map(|row| row.get(0).unwrap().parse::<i64>().unwrap()));
        for name in ["orders", "bills"] {
            let query = format!("SELECT '{name}', snowflake_segment_batch('{name}', 20)");
            let some = rounds.query(&mut client, &query, &["55", "42704", "42501", "2200H"]);
            numbers.extend(some.iter().map(|row| (name, row.get(1).unwrap().parse::<i64>().unwrap())));
        }
        assert!(!status::<bool>(&mut client, is_too_long));
        if rounds.random.once_in(5) {
            ask_now(&server, &string);
        }
    }
    assert_distinct(&taken);
    let count = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), count, "a number came twice");
    assert_eq!(single::<String>(&mut client, started), before);
    println!("{} IDs, {count} numbers, {} changed messages", taken.len(), CHANGES.load(Ordering::Relaxed));
    rounds.finish(&[&server, &registry]);
}
