//! A program that is closed in the middle of an exchange, at a stand-in for a registry that speaks just enough of
//! PostgreSQL's protocol.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use serde_json::{Value, json};
use snowflake_id_client::{Client, Options};

const NOW_US: i64 = 1_795_000_000_000_000;
const LEASE_US: i64 = 600_000_000;

/// The stand-in: the IDs of the granted leases, in order, and the releases. The worker ID of a lease is its position.
#[derive(Default)]
struct Registry {
    leases: Vec<Value>,
    releases: Vec<(usize, i64)>,
}

fn from_us(worker: usize) -> i64 {
    NOW_US - 1_000 + worker as i64
}

impl Registry {
    /// Answers a request, except the renewal of the second lease.
    fn answer(&mut self, function: &str, request: &Value) -> Option<Value> {
        let id = &request["lease_id"];
        let worker = self.leases.iter().position(|known| known == id).unwrap_or_else(|| {
            self.leases.push(id.clone());
            self.leases.len() - 1
        });
        match function {
            "renew" if worker == 1 => return None,
            "release" => self.releases.push((worker, request["used_until"].as_i64().unwrap())),
            _ => {}
        }
        let outcome = if function == "release" { "released" } else { "granted" };
        Some(json!({
            "outcome": outcome, "datacenter_id": 0, "worker_id": worker, "granted_from": from_us(worker),
            "granted_until": NOW_US + LEASE_US, "registry_id": "6f9619ff-8b86-d011-b42d-00c04fc964ff",
            "registry_clock": NOW_US, "lease": LEASE_US, "renew_every": LEASE_US / 2, "token": "token",
        }))
    }
}

fn read_message(stream: &mut TcpStream, has_tag: bool) -> Option<(u8, Vec<u8>)> {
    let (mut tag, mut length) = ([0], [0; 4]);
    if has_tag {
        stream.read_exact(&mut tag).ok()?;
    }
    stream.read_exact(&mut length).ok()?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some((tag[0], body))
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn serve(mut stream: TcpStream, registry: &Mutex<Registry>, silent: &mpsc::Sender<()>) -> Option<()> {
    read_message(&mut stream, false)?;
    stream.write_all(&[message(b'R', &[0; 4]), message(b'Z', b"I")].concat()).ok()?;
    loop {
        let (mut function, mut request) = (String::new(), Value::Null);
        loop {
            let (tag, body) = read_message(&mut stream, true)?;
            let text = String::from_utf8_lossy(&body).into_owned();
            match tag {
                b'P' => function = text.split("snowflake_registry.").nth(1)?.split('(').next()?.into(),
                b'B' => request = serde_json::from_str(&text[text.find('{')?..=text.rfind('}')?]).ok()?,
                b'S' => break,
                _ => {}
            }
        }
        let Some(answer) = registry.lock().unwrap().answer(&function, &request) else {
            silent.send(()).ok()?;
            let _ = read_message(&mut stream, true); // Until the program closes the connection.
            return None;
        };
        let answer = answer.to_string();
        let text_type = [0, 0, 0, 25];
        let column = [b"\0\x01reply\0\0\0\0\0\0\0", &text_type[..], b"\xff\xff\xff\xff\xff\xff\0\0"].concat();
        let row = [b"\0\x01", &(answer.len() as u32).to_be_bytes()[..], answer.as_bytes()].concat();
        let reply = [
            message(b'1', b""),
            message(b'2', b""),
            message(b't', &[b"\0\x01", &text_type[..]].concat()),
            message(b'T', &column),
            message(b'D', &row),
            message(b'C', b"SELECT 1\0"),
            message(b'Z', b"I"),
        ];
        stream.write_all(&reply.concat()).ok()?;
    }
}

/// The program has used a lease, and is closed when another one was granted but not yet published. Each lease is released
/// with its own end: until the last ID, and not at all.
#[tokio::test]
async fn each_lease_is_released_with_its_own_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let registry = Arc::new(Mutex::new(Registry::default()));
    let (silent, is_silent) = mpsc::channel();
    let shared = registry.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (registry, silent) = (shared.clone(), silent.clone());
            thread::spawn(move || serve(stream.unwrap(), &registry, &silent));
        }
    });

    let ahead_us = 30_000_000;
    let clock = Arc::new(AtomicI64::new(NOW_US + ahead_us));
    let read = clock.clone();
    let string = format!("host=127.0.0.1 port={} user=program sslmode=disable", address.port());
    let options = Options::new(&string).clock(move || read.load(Ordering::Relaxed));
    let client = Client::start(options).await.unwrap();
    client.next_id().unwrap();
    // The clock is corrected, and the program exchanges the lease.
    clock.store(NOW_US, Ordering::Relaxed);
    client.next_id().unwrap_err();
    tokio::task::spawn_blocking(move || is_silent.recv().unwrap()).await.unwrap();
    client.close().await;

    let mut releases = registry.lock().unwrap().releases.clone();
    releases.sort_unstable();
    let [(0, used_until_us), (1, unused_us)] = releases[..] else { panic!("{releases:?}") };
    assert!((NOW_US + ahead_us..NOW_US + ahead_us + 10_000).contains(&used_until_us), "{releases:?}");
    assert_eq!(unused_us, from_us(1), "{releases:?}");
}
