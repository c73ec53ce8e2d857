//! A server that takes ranges of segments, as the registry sees it.

use std::collections::HashMap;

use harness::*;

/// Starts a registry from which others may take.
pub fn start(registry: Builder) -> Cluster {
    let cluster = registry.extensions(&["snowflake_id_registry"]).start();
    let_others_take(&mut cluster.connect());
    cluster
}

/// Starts a registry of a fleet, with a segment from which others may take.
pub fn start_with_fleet(registry: Builder) -> Cluster {
    let cluster = super::member::start(registry);
    let mut client = cluster.connect();
    let_others_take(&mut client);
    administer(&mut client, "create_segment('orders')");
    cluster
}

/// Permits other servers to take. Without that, only the registry's own server can have taken numbers.
pub fn let_others_take(client: &mut Client) {
    client.run("CREATE ROLE takers; GRANT EXECUTE ON FUNCTION snowflake_registry.take TO takers");
}

/// Lets a transaction of the registry stay open, which the registry's functions limit.
pub fn keep_open(client: &mut Client) {
    client.run("SET LOCAL idle_in_transaction_session_timeout = 0");
}

/// Calls a function of the registry that returns nothing.
pub fn administer(client: &mut Client, call: &str) {
    client.run(&format!("SELECT snowflake_registry.{call}"));
}

/// A row of a reply.
#[derive(Clone, Debug)]
pub struct Taken {
    pub name: Option<String>,
    pub outcome: String,
    pub first: Option<i64>,
    pub increment: Option<i64>,
    pub count: Option<i64>,
    pub period_key: Option<i64>,
    pub period_starts: Option<i64>,
    pub period_ends: Option<i64>,
    pub registry_clock: i64,
    pub detail: Option<String>,
}

impl Taken {
    pub fn last(&self) -> i64 {
        self.first.unwrap() + (self.count.unwrap() - 1) * self.increment.unwrap()
    }

    pub fn numbers(&self) -> impl Iterator<Item = i64> + use<> {
        let (first, increment) = (self.first.unwrap(), self.increment.unwrap());
        (0..self.count.unwrap()).map(move |k| first + k * increment)
    }
}

/// The knowledge of a server: the registry, and the highest numbers that the server had.
#[derive(Clone, Default)]
pub struct Member {
    pub registry_id: Option<String>,
    pub had_until: HashMap<String, i64>,
    pub tokens: HashMap<String, String>,
}

impl Member {
    /// Takes by one call. Each request is a name, and the fields that the server adds to it, such as `"next": true`.
    pub fn try_take(
        &mut self,
        client: &mut Client,
        function: &str,
        requests: &[(&str, &str)],
    ) -> Result<Vec<Taken>, postgres::Error> {
        let tokens: Vec<_> = requests.iter().filter_map(|(name, _)| self.tokens.get(*name)).collect();
        let requests: Vec<_> = requests
            .iter()
            .map(|(name, more)| {
                let had_until = self.had_until.get(*name).map_or_else(|| "null".into(), i64::to_string);
                format!("{{\"name\": \"{name}\", \"had_until\": {had_until}{more}}}")
            })
            .collect();
        let registry_id = self.registry_id.as_ref().map_or_else(|| "null".into(), |id| format!("{id:?}"));
        let query = format!(
            "SELECT name, outcome, first, increment, count, period_key, period_starts, period_ends,
                    registry_clock, detail, registry_id::text, request
             FROM snowflake_registry.{function}('{{\"protocol\": 1, \"registry\": {registry_id}, \"tokens\": {tokens:?},
                 \"requests\": [{}]}}')",
            requests.join(", ")
        );
        let mut answers = Vec::new();
        let mut granted = Vec::new();
        for row in client.query(&query, &[])? {
            let taken = Taken {
                name: row.get(0),
                outcome: row.get(1),
                first: row.get(2),
                increment: row.get(3),
                count: row.get(4),
                period_key: row.get(5),
                period_starts: row.get(6),
                period_ends: row.get(7),
                registry_clock: row.get(8),
                detail: row.get(9),
            };
            if taken.outcome == "foreign" {
                self.registry_id = None;
                return Ok(vec![taken]);
            }
            self.registry_id = row.get(10);
            if taken.outcome == "granted" {
                let had = self.had_until.entry(taken.name.clone().unwrap()).or_insert(-1);
                *had = taken.last().max(*had);
                granted.push(taken.name.clone().unwrap());
            }
            if row.get::<_, Option<i32>>(11).is_some() {
                answers.push(taken);
            }
        }
        // A token is signed only after the commit.
        for name in granted.into_iter().filter(|_| function == "take") {
            let query = format!(
                "SELECT token FROM snowflake_registry.take('{{\"protocol\": 1, \"registry\": null, \"tokens\": [],
                     \"requests\": [{{\"name\": \"{name}\", \"report\": true}}]}}')"
            );
            if let Some(token) = client.query_one(&query, &[])?.get(0) {
                self.tokens.insert(name, token);
            }
        }
        Ok(answers)
    }

    pub fn take_by(&mut self, client: &mut Client, function: &str, name: &str, more: &str) -> Taken {
        let answers = self.try_take(client, function, &[(name, more)]);
        answers.unwrap_or_else(|error| panic!("{name}: {}", text(&error))).remove(0)
    }

    pub fn take(&mut self, client: &mut Client, name: &str) -> Taken {
        self.take_by(client, "take", name, "")
    }

    /// Takes a range, which must be granted.
    pub fn granted(&mut self, client: &mut Client, name: &str) -> Taken {
        let taken = self.take(client, name);
        assert_eq!(taken.outcome, "granted", "{taken:?}");
        taken
    }
}

pub fn state(client: &mut Client, name: &str) -> String {
    single(client, &format!("SELECT state FROM snowflake_registry.segments WHERE name = '{name}'"))
}

pub fn closed_reason(client: &mut Client, name: &str) -> String {
    let query = format!("SELECT closed_reason FROM snowflake_registry.segments WHERE name = '{name}'");
    single::<Option<String>>(client, &query).unwrap_or_default()
}

/// Panics if a number of one name was given twice.
pub fn assert_no_number_twice(ranges: &[Taken]) {
    let mut numbers: Vec<_> = ranges
        .iter()
        .flat_map(|range| range.numbers().map(|number| (range.name.clone().unwrap(), number)))
        .collect();
    let given = numbers.len();
    numbers.sort_unstable();
    for pair in numbers.windows(2) {
        assert_ne!(pair[0], pair[1], "given twice");
    }
    println!("{} ranges, {given} numbers", ranges.len());
}
