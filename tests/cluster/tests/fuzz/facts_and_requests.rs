//! A program calls the registry's functions with random facts, requests and tokens, most of which differ from real ones
//! in a few places. Each call fails with an error of class 22 or is answered, no number is granted twice, and no range of
//! a worker ID overlaps another.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use harness::fuzz::{Rounds, literal};
use harness::*;
use postgres::SimpleQueryRow;
use serde_json::{Value, json};

const SEGMENTS: [&str; 3] = ["orders", "items", "bills"];
/// The duration of a lease, in microseconds.
const LEASE_US: i64 = 600_000_000;

/// What the registry has granted, and what a program would know of it.
#[derive(Default)]
struct Granted {
    /// By lease ID, the nonces of its last renewal.
    leases: BTreeMap<String, (String, String)>,
    /// By identity, the end of the last range, in microseconds of Unix time.
    until_us: BTreeMap<String, i64>,
    tokens: Vec<String>,
    /// By name, the first and the last number of each range.
    numbers: BTreeMap<String, BTreeMap<i64, i64>>,
    registry_id: Option<String>,
}

fn number(row: &SimpleQueryRow, column: &str) -> Option<i64> {
    row.get(column)?.parse().ok()
}

impl Granted {
    fn note_token(&mut self, row: &SimpleQueryRow) {
        if let Some(token) = row.get("token") {
            self.tokens.push(token.into());
            if self.tokens.len() > 100 {
                self.tokens.remove(0);
            }
        }
        self.registry_id = row.get("registry_id").map(Into::into).or(self.registry_id.take());
    }

    /// Checks a granted or renewed range.
    fn note_lease(&mut self, row: &SimpleQueryRow, is_renewed: bool) {
        self.note_token(row);
        if row.get("outcome") != Some("granted") {
            return;
        }
        let (from_us, until_us) =
            (number(row, "granted_from").unwrap(), number(row, "granted_until").unwrap());
        let clock_us = number(row, "registry_clock").unwrap();
        assert!(from_us < until_us && until_us <= clock_us + LEASE_US + 60_000_000, "{row:?}");
        let identity = format!("{:?}/{:?}", row.get("datacenter_id"), row.get("worker_id"));
        let known = self.until_us.entry(identity).or_default();
        assert!(is_renewed || from_us >= *known, "{row:?} overlaps a range that ends at {known}");
        *known = (*known).max(until_us);
    }

    /// Checks a granted range of numbers.
    fn note_numbers(&mut self, row: &SimpleQueryRow) {
        self.note_token(row);
        if row.get("outcome") != Some("granted") {
            return;
        }
        let (first, increment) = (number(row, "first").unwrap(), number(row, "increment").unwrap());
        let count = number(row, "count").unwrap();
        assert!(increment > 0 && count > 0, "{row:?}");
        let last = first + (count - 1) * increment;
        let known = self.numbers.entry(row.get("name").unwrap().into()).or_default();
        // A range of the next period may come before one of the current period.
        let before = known.range(..=last).next_back();
        assert!(before.is_none_or(|(_, before)| *before < first), "{row:?} repeats numbers of {before:?}");
        known.insert(first, last);
    }

    /// Some tokens, real ones and changed ones.
    fn some_tokens(&self, rounds: &mut Rounds) -> Value {
        let random = &mut rounds.random;
        let mut some = vec![];
        for _ in 0..random.below(4) {
            let token = match self.tokens.len() {
                0 => random.text(),
                known => self.tokens[random.below(known as u64) as usize].clone(),
            };
            some.push(if random.once_in(2) { random.change(&token) } else { token });
        }
        some.into()
    }

    /// The keys of all requests, with more keys, as the argument of a function. The keys that each request must have are
    /// sometimes changed or left out.
    fn request(&self, rounds: &mut Rounds, more: Value) -> String {
        let registry = match &self.registry_id {
            Some(id) if !rounds.random.once_in(10) => json!(id),
            _ if rounds.random.once_in(2) => json!(uuid(rounds)),
            _ => Value::Null,
        };
        let mut request = json!({
            "protocol": integer(rounds, 1), "registry": registry, "tokens": self.some_tokens(rounds),
            "clock": clock(rounds), "round_trip": integer(rounds, 1000),
            "facts": {
                "node_name": "a program", "host": "127.0.0.1", "port": 5432, "layout": "standard",
                "version": "0.1.0", "clock_offset": 17,
            },
        });
        if let (Value::Object(request), Value::Object(more)) = (&mut request, more) {
            request.extend(more);
        }
        changed_json(rounds, &request)
    }

    fn requests(&self, rounds: &mut Rounds) -> Value {
        let mut all = vec![];
        for _ in 0..rounds.random.below(4) {
            let name = *rounds.random.one_of(&SEGMENTS);
            let mut request = json!({"name": name});
            let had_until = self.numbers.get(name).and_then(|known| known.values().next_back());
            if let Some(had_until) = had_until.filter(|_| !rounds.random.once_in(3)) {
                request["had_until"] = json!(had_until);
                request["lasted"] = json!(rounds.random.below(10_000));
                request["count"] = json!(100);
            }
            for key in ["next", "report"] {
                if rounds.random.once_in(3) {
                    request[key] = json!(true);
                }
            }
            if rounds.random.once_in(3) {
                request["registry_id"] = json!(self.registry_id);
            }
            all.push(request);
        }
        all.into()
    }

    /// A lease ID with its nonces. Half of them are real.
    fn lease(&self, rounds: &mut Rounds) -> (String, [Value; 3]) {
        let at = rounds.random.below(self.leases.len() as u64 + 1) as usize;
        let (id, (last, next)) = match self.leases.iter().nth(at) {
            Some((id, nonces)) if !rounds.random.once_in(4) => (id.clone(), nonces.clone()),
            _ => (uuid(rounds), (uuid(rounds), uuid(rounds))),
        };
        let or_null = |rounds: &mut Rounds, uuid: &str| match rounds.random.once_in(20) {
            true => Value::Null,
            false => json!(uuid),
        };
        let arguments = [or_null(rounds, &id), or_null(rounds, &last), or_null(rounds, &next)];
        (id, arguments)
    }
}

/// JSON as it is, or changed, as an argument.
fn changed_json(rounds: &mut Rounds, value: &Value) -> String {
    match rounds.random.below(20) {
        0 => "NULL".into(),
        1 => literal(&rounds.random.change(&value.to_string())),
        2..8 => literal(&value.to_string()),
        _ => literal(&rounds.random.change_json(value)),
    }
}

fn uuid(rounds: &mut Rounds) -> String {
    format!("00000000-0000-4000-8000-{:012x}", rounds.random.below(1 << 48))
}

/// A number that is often an ordinary one.
fn integer(rounds: &mut Rounds, usual: i64) -> Value {
    match rounds.random.below(20) {
        0 => Value::Null,
        1 => json!(rounds.random.number()),
        2 => json!(rounds.random.number() as f64),
        _ => json!(usual),
    }
}

/// The clock of the program, in microseconds of Unix time.
fn clock(rounds: &mut Rounds) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    integer(rounds, now.as_micros() as i64)
}

fn call(rounds: &mut Rounds, client: &mut Client, granted: &mut Granted) {
    match rounds.random.below(5) {
        0 => {
            let (id, [lease_id, _, nonce]) = granted.lease(rounds);
            let unwanted: Vec<_> = (0..rounds.random.below(3)).map(|_| integer(rounds, 3)).collect();
            let pin = if rounds.random.once_in(2) { Value::Null } else { integer(rounds, 4) };
            let needs = json!({
                "datacenter": integer(rounds, 0), "pin": pin, "worker_limit": integer(rounds, 1024),
                "unwanted": unwanted,
            });
            let request =
                granted.request(rounds, json!({"lease_id": lease_id, "nonce": nonce, "needs": needs}));
            let query = format!("SELECT * FROM snowflake_registry.acquire({request})");
            for row in rounds.query(client, &query, &["22"]) {
                let is_known = granted.leases.contains_key(&id);
                granted.note_lease(&row, is_known);
                let nonce = nonce.as_str().unwrap_or_default().to_owned();
                granted.leases.insert(id.clone(), (uuid(rounds), nonce));
            }
        }
        1 => {
            let (id, [lease_id, last, next]) = granted.lease(rounds);
            let more = json!({"lease_id": lease_id, "last_nonce": last, "next_nonce": next});
            let request = granted.request(rounds, more);
            let query = format!("SELECT * FROM snowflake_registry.renew({request})");
            for row in rounds.query(client, &query, &["22"]) {
                granted.note_lease(&row, true);
                let last = next.as_str().unwrap_or_default().to_owned();
                granted.leases.insert(id.clone(), (last, uuid(rounds)));
            }
        }
        2 => {
            let (_, [lease_id, last, next]) = granted.lease(rounds);
            let more = json!({
                "lease_id": lease_id, "last_nonce": last, "next_nonce": next, "used_until": clock(rounds),
            });
            let request = granted.request(rounds, more);
            let query = format!("SELECT * FROM snowflake_registry.release({request})");
            for row in rounds.query(client, &query, &["22"]) {
                granted.note_token(&row);
                if row.get("outcome") == Some("released") {
                    // The rest of the range may be granted again.
                    granted.until_us.clear();
                }
            }
        }
        _ => {
            let requests = granted.requests(rounds);
            let request = granted.request(rounds, json!({"requests": requests}));
            let query = format!("SELECT * FROM snowflake_registry.take({request})");
            for row in rounds.query(client, &query, &["22"]) {
                granted.note_numbers(&row);
            }
        }
    }
}

#[test]
fn calls_of_the_registry() {
    let registry = Registry::of_programs("lease => '10min', renew_every => '1min', last_worker => 200")
        .start(Cluster::builder());
    let mut administrator = registry.connect();
    administrator.run(
        "SELECT snowflake_registry.end_quarantine();
         SELECT snowflake_registry.create_segment('orders', min_step => 10, max_step => 1000);
         SELECT snowflake_registry.create_segment('items', start => 5, increment => 7, min_step => 10, max_step => 100);
         SELECT snowflake_registry.create_segment('bills', period => 'day', digits => 9, min_step => 10, max_step => 100);",
    );
    let mut client = Client::connect(&registry.connection_string("fleet"), postgres::NoTls).unwrap();
    client.run("SET client_min_messages = error");
    let mut rounds = Rounds::new();
    let mut granted = Granted::default();
    while rounds.go_on() {
        call(&mut rounds, &mut client, &mut granted);
    }
    // The registry is unharmed: its views can be read, no real token proves a loss, and honest calls are answered.
    for view in ["status", "fleet", "segments"] {
        administrator.run(&format!("SELECT * FROM snowflake_registry.{view}"));
    }
    let states = "SELECT coalesce(string_agg(name || ' ' || state, ', '), '') FROM snowflake_registry.segments \
                  WHERE state NOT IN ('open', 'exhausted')";
    assert_eq!(single::<String>(&mut administrator, states), "");
    let honest = r#"SELECT * FROM snowflake_registry.take(
        '{"protocol": 1, "registry": null, "tokens": [], "requests": [{"name": "orders"}]}')"#;
    for row in rounds.query(&mut client, honest, &[]) {
        assert_eq!(row.get("outcome"), Some("granted"), "{row:?}");
        granted.note_numbers(&row);
    }
    rounds.finish(&[&registry]);
}
