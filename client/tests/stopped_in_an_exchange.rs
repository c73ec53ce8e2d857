//! A program that is closed in the middle of an exchange, at a stand-in for a registry.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use serde_json::{Value, json};
use snowflake_id_client::{Client, Options};

mod wire;

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

/// The program has used a lease, and is closed when another one was granted but not yet published. Each lease is released
/// with its own end: until the last ID, and not at all.
#[tokio::test]
async fn each_lease_is_released_with_its_own_end() {
    let registry = Arc::new(Mutex::new(Registry::default()));
    let (silent, is_silent) = mpsc::channel();
    let shared = registry.clone();
    let port = wire::listen("127.0.0.1", 0, move |stream| {
        wire::serve(stream, |statement, parameters| {
            let function = statement.split("snowflake_registry.").nth(1)?.split('(').next()?;
            let request = &parameters[parameters.find('{')?..=parameters.rfind('}')?];
            let request = serde_json::from_str(request).unwrap();
            let answer = shared.lock().unwrap().answer(function, &request);
            if answer.is_none() {
                silent.send(()).unwrap();
            }
            Some(answer?.to_string())
        });
    });

    let ahead_us = 30_000_000;
    let clock = Arc::new(AtomicI64::new(NOW_US + ahead_us));
    let read = clock.clone();
    let string = format!("host=127.0.0.1 port={port} user=program sslmode=disable");
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
