//! A server of the fleet, as the registry of leases sees it.

use std::sync::atomic::{AtomicU32, Ordering};

use harness::*;

/// A server with enough connections for all servers of a test.
pub fn many() -> Builder {
    Cluster::builder().set("max_connections", 90)
}

/// A counter for distinct lease IDs and nonces.
pub static NEXT: AtomicU32 = AtomicU32::new(1);

/// Starts a server with the registry of a fleet.
pub fn start(registry: Builder) -> Cluster {
    let cluster = registry.extensions(&["snowflake_id_registry"]).start();
    cluster.connect().run("SELECT snowflake_registry.start_fleet()");
    cluster
}

#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub outcome: String,
    pub worker: Option<i32>,
    pub from: Option<i64>,
    pub until: Option<i64>,
    pub registry_id: String,
    pub free_from: Option<i64>,
    pub detail: Option<String>,
    /// The token that it can show the registry later.
    pub token: Option<String>,
}

/// The state of a server of the fleet.
#[derive(Clone)]
pub struct Member {
    pub lease_id: String,
    pub nonce: String,
    pub registry_id: Option<String>,
    pub token: Option<String>,
}

pub fn uuid() -> String {
    format!("00000000-0000-4000-8000-{:012}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Member {
    pub fn new() -> Member {
        Member { lease_id: uuid(), nonce: uuid(), registry_id: None, token: None }
    }

    pub fn acquire(&mut self, client: &mut Client, worker_limit: i32) -> Result<Answer, postgres::Error> {
        let query = format!(
            "SELECT * FROM snowflake_registry.acquire({}, {CLOCK}, 0, '{}', '{}', '{}', 0, NULL, \
             {worker_limit}, NULL)",
            self.quoted_registry_id(),
            self.lease_id,
            self.nonce,
            self.facts(),
        );
        self.ask(client, &query)
    }

    /// Renews. If that is granted, continues with the next nonce.
    pub fn renew(&mut self, client: &mut Client) -> Result<Answer, postgres::Error> {
        self.renew_and_say(client, &self.facts())
    }

    /// The facts that it can send.
    fn facts(&self) -> String {
        self.token.as_ref().map_or_else(|| "{}".into(), |token| format!("{{\"tokens\": [\"{token}\"]}}"))
    }

    /// Renews and sends facts, such as the end of the lease in hand.
    pub fn renew_and_say(&mut self, client: &mut Client, facts: &str) -> Result<Answer, postgres::Error> {
        let next = uuid();
        let query = format!(
            "SELECT * FROM snowflake_registry.renew({}, {CLOCK}, 0, '{}', '{}', '{next}', '{facts}')",
            self.quoted_registry_id(),
            self.lease_id,
            self.nonce,
        );
        let answer = self.ask(client, &query)?;
        if answer.outcome == "granted" {
            self.nonce = next;
        }
        Ok(answer)
    }

    pub fn ask(&mut self, client: &mut Client, query: &str) -> Result<Answer, postgres::Error> {
        let columns =
            "outcome, worker_id, granted_from, granted_until, registry_id::text, free_from, detail, token";
        let row = client.query_one(&query.replacen('*', columns, 1), &[])?;
        let answer = Answer {
            outcome: row.get(0),
            worker: row.get(1),
            from: row.get(2),
            until: row.get(3),
            registry_id: row.get(4),
            free_from: row.get(5),
            detail: row.get(6),
            token: row.get(7),
        };
        self.registry_id = Some(answer.registry_id.clone());
        if answer.outcome == "granted" && answer.token.is_some() {
            self.token.clone_from(&answer.token);
        }
        Ok(answer)
    }

    pub fn quoted_registry_id(&self) -> String {
        self.registry_id.as_ref().map_or_else(|| "NULL".into(), |id| format!("'{id}'"))
    }
}

/// An answer, or `None` if the wait for a lock timed out, as it may on a busy machine. There is no other error.
#[track_caller]
pub fn unless_locked(asked: Result<Answer, postgres::Error>) -> Option<Answer> {
    asked.inspect_err(|error| assert_eq!(sqlstate(error), "55P03", "{}", text(error))).ok()
}

pub const CLOCK: &str = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

pub fn granted(client: &mut Client) -> Member {
    let mut member = Member::new();
    let answer = member.acquire(client, 1024).unwrap();
    assert_eq!(answer.outcome, "granted", "{answer:?}");
    member
}

pub fn state(client: &mut Client) -> String {
    single(client, "SELECT state FROM snowflake_registry.status")
}

pub fn reason(client: &mut Client) -> String {
    single(client, "SELECT coalesce(quarantine_reason, '') FROM snowflake_registry.status")
}

pub fn sqlstate(error: &postgres::Error) -> &str {
    error.code().map_or("", |code| code.code())
}
