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
    cluster.connect().run("SELECT snowflake_registry.start_fleet(0, 1023, first_start => true)");
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
        let request = self.request_of_an_identity(worker_limit, &self.tokens());
        self.ask(client, &format!("SELECT * FROM snowflake_registry.acquire({request})"))
    }

    /// The request for an identity, as an expression of SQL.
    pub fn request_of_an_identity(&self, worker_limit: i32, tokens: &[&str]) -> String {
        let needs = format!("'needs', jsonb_build_object('datacenter', 0, 'worker_limit', {worker_limit})");
        self.request(tokens, &format!("'nonce', '{}', {needs}", self.nonce))
    }

    /// A request with some tokens, and with more keys and values, as an expression of SQL.
    pub fn request(&self, tokens: &[&str], more: &str) -> String {
        let registry_id = self.registry_id.as_ref().map_or_else(|| "NULL".into(), |id| format!("'{id}'"));
        let lease_id = &self.lease_id;
        format!(
            "jsonb_build_object('protocol', 1, 'registry', {registry_id}, 'tokens', '{tokens:?}'::jsonb, 'clock', {CLOCK},
                 'lease_id', '{lease_id}', {more})"
        )
    }

    /// Renews. If that is granted, continues with the next nonce.
    pub fn renew(&mut self, client: &mut Client) -> Result<Answer, postgres::Error> {
        let token = self.token.clone();
        self.renew_and_show(client, token.as_deref().as_slice())
    }

    /// The tokens that it can show.
    pub fn tokens(&self) -> Vec<&str> {
        self.token.as_deref().into_iter().collect()
    }

    /// Renews and shows some tokens.
    pub fn renew_and_show(
        &mut self,
        client: &mut Client,
        tokens: &[&str],
    ) -> Result<Answer, postgres::Error> {
        let next = uuid();
        let request =
            self.request(tokens, &format!("'last_nonce', '{}', 'next_nonce', '{next}'", self.nonce));
        let answer = self.ask(client, &format!("SELECT * FROM snowflake_registry.renew({request})"))?;
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
