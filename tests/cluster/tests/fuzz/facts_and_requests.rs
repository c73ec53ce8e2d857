//! A program calls the registry's functions with random facts, requests and tokens, most of which differ from real ones
//! in a few places. Each call fails with an error of class 22 or is answered, no number is granted twice, and no range of
//! a worker ID overlaps another.

use std::collections::BTreeMap;

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

    fn facts(&self, rounds: &mut Rounds) -> String {
        let facts = json!({
            "node_name": "a program", "host": "127.0.0.1", "port": 5432, "layout": "standard", "version": "0.1.0",
            "clock_offset": 17, "tokens": self.some_tokens(rounds),
        });
        changed_json(rounds, &facts)
    }

    fn requests(&self, rounds: &mut Rounds) -> String {
        let mut all = vec![];
        for _ in 0..rounds.random.below(4) {
            let name = *rounds.random.one_of(&SEGMENTS);
            let mut request = json!({"name": name, "tokens": self.some_tokens(rounds)});
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
        changed_json(rounds, &Value::from(all))
    }

    fn registry(&self, rounds: &mut Rounds) -> String {
        match &self.registry_id {
            Some(id) if !rounds.random.once_in(10) => literal(id),
            _ => optional_uuid(rounds),
        }
    }

    /// A lease ID with its nonces. Half of them are real.
    fn lease(&self, rounds: &mut Rounds) -> (String, [String; 3]) {
        let at = rounds.random.below(self.leases.len() as u64 + 1) as usize;
        let (id, (last, next)) = match self.leases.iter().nth(at) {
            Some((id, nonces)) if !rounds.random.once_in(4) => (id.clone(), nonces.clone()),
            _ => (uuid(rounds), (uuid(rounds), uuid(rounds))),
        };
        let or_null = |rounds: &mut Rounds, uuid: &str| match rounds.random.once_in(20) {
            true => "NULL".into(),
            false => literal(uuid),
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

fn optional_uuid(rounds: &mut Rounds) -> String {
    if rounds.random.once_in(2) { "NULL".into() } else { literal(&uuid(rounds)) }
}

/// A number that is often NULL or an ordinary one.
fn integer(rounds: &mut Rounds, usual: i64) -> String {
    match rounds.random.below(10) {
        0 => "NULL".into(),
        1 => (rounds.random.number() as i32).to_string(),
        _ => usual.to_string(),
    }
}

/// The clock of the program, in microseconds of Unix time.
fn clock(rounds: &mut Rounds) -> String {
    match rounds.random.below(20) {
        0 => "NULL".into(),
        1 => literal(&rounds.random.number().to_string()),
        _ => "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint".into(),
    }
}

fn call(rounds: &mut Rounds, client: &mut Client, granted: &mut Granted) {
    match rounds.random.below(5) {
        0 => {
            let (id, [lease_id, _, nonce]) = granted.lease(rounds);
            let unwanted: Vec<String> = (0..rounds.random.below(3)).map(|_| integer(rounds, 3)).collect();
            let query = format!(
                "SELECT * FROM snowflake_registry.acquire({}, {}, {}, {lease_id}, {nonce}, {}, {}, {}, {}, '{{{}}}')",
                granted.registry(rounds),
                clock(rounds),
                integer(rounds, 1000),
                granted.facts(rounds),
                integer(rounds, 0),
                if rounds.random.once_in(2) { "NULL".into() } else { integer(rounds, 4) },
                integer(rounds, 1024),
                unwanted.join(",")
            );
            for row in rounds.query(client, &query, &["22"]) {
                let is_known = granted.leases.contains_key(&id);
                granted.note_lease(&row, is_known);
                granted.leases.insert(id.clone(), (uuid(rounds), nonce.trim_matches('\'').into()));
            }
        }
        1 => {
            let (id, [lease_id, last, next]) = granted.lease(rounds);
            let query = format!(
                "SELECT * FROM snowflake_registry.renew({}, {}, {}, {lease_id}, {last}, {next}, {})",
                granted.registry(rounds),
                clock(rounds),
                integer(rounds, 1000),
                granted.facts(rounds)
            );
            for row in rounds.query(client, &query, &["22"]) {
                granted.note_lease(&row, true);
                let last = next.trim_matches('\'').to_owned();
                granted.leases.insert(id.clone(), (last, uuid(rounds)));
            }
        }
        2 => {
            let (_, [lease_id, last, next]) = granted.lease(rounds);
            let query = format!(
                "SELECT * FROM snowflake_registry.release({}, {lease_id}, {last}, {next}, {}, {})",
                granted.registry(rounds),
                clock(rounds),
                granted.facts(rounds)
            );
            for row in rounds.query(client, &query, &["22"]) {
                granted.note_token(&row);
                if row.get("outcome") == Some("released") {
                    // The rest of the range may be granted again.
                    granted.until_us.clear();
                }
            }
        }
        _ => {
            let query = format!(
                "SELECT * FROM snowflake_registry.take({}, {}, {})",
                granted.registry(rounds),
                granted.requests(rounds),
                literal(&rounds.random.text())
            );
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
    let honest = r#"SELECT * FROM snowflake_registry.take(NULL, '[{"name": "orders"}]', 'honest')"#;
    for row in rounds.query(&mut client, honest, &[]) {
        assert_eq!(row.get("outcome"), Some("granted"), "{row:?}");
        granted.note_numbers(&row);
    }
    rounds.finish(&[&registry]);
}
