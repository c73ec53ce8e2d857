//! The registry's SQL and the stand-in, side by side: each call goes to both, and answers and tables are compared.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use harness::{Cluster, Run};
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use serde_json::{Value, json};
use snowflake_id_core::Identity;
use snowflake_id_stand_in::{
    Administration, Answer, Call, Caller, Clock, Identification, LeaseAnswer, Outcome, Place, Reply, Request,
    RequestName, StandIn, Tables, TakeOutcome, Taken, Token,
};
use uuid::Uuid;

use super::lines::{DUMP, NOT_COMPARED, lines};
use super::replaced_clock::PROTOCOLS;

/// A token of both.
#[derive(Clone, Debug)]
pub struct Shown {
    pub token: Token,
    pub text: String,
}

/// A call, with the texts of its tokens.
#[derive(Clone, Debug)]
pub struct Sent {
    pub call: Call,
    pub texts: Vec<String>,
    pub transaction: Transaction,
}

/// The transaction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    OfItsOwn,
    /// The caller has written something before.
    HasWritten,
    /// The caller rolls the call back after it has the answer.
    RolledBack,
}

/// What both have answered.
#[derive(Debug)]
pub struct Agreed {
    pub answer: Answer,
    /// The texts of the new tokens, by request.
    pub texts: Vec<Option<String>>,
}

/// A difference, in words.
pub struct Difference(pub String);

type Row = HashMap<String, Value>;

pub struct Compared<'a> {
    server: &'a Cluster,
    database: String,
    owner: Client,
    fleet: Client,
    /// Reads and replaces tables. Its session lasts.
    observer: Client,
    /// Settings that each session begins with.
    hostile: String,
    sessions_calls: u32,
    pub stand_in: StandIn,
    /// Copies of the tables, from the oldest. SQL has them under these numbers.
    pub snapshots: Vec<(u32, Tables)>,
    last_snapshot: u32,
    /// The marks of leases in tokens. A mark is a hash of the lease ID.
    marks: BTreeSet<(String, Uuid)>,
    pub calls: u64,
}

/// How many calls a session lives for.
const CALLS_OF_A_SESSION: u32 = 20;

const TABLES: [&str; 4] = ["settings", "lease", "segment", "signing_key"];

impl<'a> Compared<'a> {
    /// Uses a database with a registry.
    pub fn new(server: &'a Cluster, database: &str) -> Compared<'a> {
        let mut observer = server.connect_to(database);
        observer.run(DUMP);
        observer.run(
            "CREATE UNLOGGED TABLE lockstep.old_settings (number int, old snowflake_registry.settings);
             CREATE UNLOGGED TABLE lockstep.old_lease (number int, old snowflake_registry.lease);
             CREATE UNLOGGED TABLE lockstep.old_segment (number int, old snowflake_registry.segment);
             GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
             GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew,
                 snowflake_registry.release TO fleet;",
        );
        assert_eq!(not_compared(&mut observer), NOT_COMPARED, "the dump has other columns");
        let fleet = connect(server, database, "fleet");
        Compared {
            server,
            database: database.into(),
            owner: server.connect_to(database),
            fleet,
            observer,
            hostile: String::new(),
            sessions_calls: 0,
            stand_in: StandIn::new(Uuid::nil(), Place { timeline: 1, started_us: 0 }),
            snapshots: vec![],
            last_snapshot: 0,
            marks: BTreeSet::new(),
            calls: 0,
        }
    }

    /// Begins again with an empty registry. Returns its ID.
    pub fn begin(&mut self, place: Place, now_us: i64, serves_others: bool) -> Result<Uuid, Difference> {
        self.stand_in.place = place;
        self.stand_in.clock = Clock { now_us, step_at_lock_us: 0 };
        self.snapshots.clear();
        self.marks.clear();
        self.new_sessions("");
        self.owner.run(&format!(
            "BEGIN; {} COMMIT;
             TRUNCATE lockstep.old_settings, lockstep.old_lease, lockstep.old_segment;
             DELETE FROM snowflake_registry.segment_privilege;",
            changed_by_force(
                &TABLES.map(|table| format!("DELETE FROM snowflake_registry.{table};")).concat()
            )
        ));
        self.let_others_take(serves_others);
        let query = format!("{}; SELECT snowflake_registry.configure()", self.clocks(RequestName(0)));
        self.owner.simple_query(&query).map_err(|error| failed("configure()", &error))?;
        let id: String =
            harness::single(&mut self.owner, "SELECT registry_id::text FROM snowflake_registry.settings");
        let id = id.parse().expect("a UUID");
        self.stand_in = StandIn {
            serves_others,
            protocols: PROTOCOLS,
            clock: self.stand_in.clock,
            ..StandIn::new(id, place)
        };
        self.compare_tables()?;
        Ok(id)
    }

    /// Ends the sessions. The new ones begin with these settings.
    pub fn new_sessions(&mut self, hostile: &str) {
        self.hostile = hostile.into();
        self.sessions_calls = 0;
        self.owner = self.server.connect_to(&self.database);
        self.fleet = connect(self.server, &self.database, "fleet");
        // A version may not have all of them.
        for client in [&mut self.fleet, &mut self.owner] {
            for setting in hostile.split_inclusive(';') {
                let _ = client.batch_execute(setting);
            }
        }
    }

    fn clocks(&self, request: RequestName) -> String {
        let Clock { now_us, step_at_lock_us } = self.stand_in.clock;
        let Place { timeline, started_us } = self.stand_in.place;
        format!(
            "SELECT pg_catalog.set_config('lockstep.clock', '{now_us}', false), \
             pg_catalog.set_config('lockstep.begun', '{now_us}', false), \
             pg_catalog.set_config('lockstep.step', '{step_at_lock_us}', false), \
             pg_catalog.set_config('lockstep.started', '{started_us}', false), \
             pg_catalog.set_config('lockstep.timeline', '{timeline}', false), \
             pg_catalog.set_config('lockstep.request', '{:08x}', false)",
            request.0
        )
    }

    /// Executes a call on both.
    pub fn call(&mut self, sent: &Sent) -> Result<Agreed, Difference> {
        self.calls += 1;
        self.sessions_calls += 1;
        if self.sessions_calls >= CALLS_OF_A_SESSION {
            self.new_sessions(&self.hostile.clone());
        }
        let query = format!("{}; {}", self.clocks(request_of(&sent.call)), query_of(sent));
        let query = match sent.transaction {
            Transaction::OfItsOwn => query,
            Transaction::HasWritten => format!("SELECT pg_catalog.pg_current_xact_id(); {query}"),
            Transaction::RolledBack => format!("BEGIN; {query}; ROLLBACK"),
        };
        let before = self.stand_in.tables.clone();
        self.stand_in.has_written = sent.transaction == Transaction::HasWritten;
        let is_of_fleet = match &sent.call {
            Call::Take { is_local, .. } => !is_local,
            Call::Administer(_) => false,
            _ => true,
        };
        let client = if is_of_fleet { &mut self.fleet } else { &mut self.owner };
        let result = client.simple_query(&query);
        if result.is_err() {
            // A server reports an error before it releases the locks. The next call must not find them.
            let _ = client.simple_query("");
        }
        let begun_us = self.stand_in.clock.now_us;
        let answer = self.stand_in.apply(&sent.call);
        let told_every_us = self.stand_in.call_every_us();
        if sent.transaction == Transaction::RolledBack {
            self.stand_in.tables = before;
        }
        // A transaction that fails does not end its session, and the step at the lock happened.
        let agreed = match (result, answer) {
            (Err(error), Answer::Failed(fault))
                if error.code().is_some_and(|code| code.code() == fault.sqlstate()) =>
            {
                Agreed { answer: Answer::Failed(fault), texts: vec![] }
            }
            (Err(error), answer) => {
                return Err(Difference(format!("SQL {}\nstand-in {answer:?}", failed("", &error).0)));
            }
            (Ok(messages), answer) => {
                let rows: Vec<_> = messages
                    .into_iter()
                    .filter_map(|message| match message {
                        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                        _ => None,
                    })
                    .skip(if sent.transaction == Transaction::HasWritten { 2 } else { 1 })
                    .collect();
                self.compare_answers(answer, &rows, begun_us, told_every_us)?
            }
        };
        self.compare_tables()?;
        Ok(agreed)
    }

    fn compare_answers(
        &mut self,
        answer: Answer,
        rows: &[String],
        begun_us: i64,
        told_every_us: i64,
    ) -> Result<Agreed, Difference> {
        let differ = |answer: &Answer, rows: &[String]| {
            Err(Difference(format!("SQL {}\nstand-in {answer:?}", rows.join("\n    "))))
        };
        let mut texts = vec![];
        match &answer {
            Answer::Failed(_) => return differ(&answer, rows),
            Answer::Done(reply) => {
                let said = rows.first().map_or("", String::as_str);
                let expected = match reply {
                    Reply::Nothing => String::new(),
                    Reply::Instant(us) if *us == i64::MAX => "infinity".into(),
                    Reply::Instant(us) => us.to_string(),
                    Reply::Count(count) => count.to_string(),
                };
                if said != expected {
                    return differ(&answer, rows);
                }
            }
            Answer::Lease(expected) => {
                let [row] = rows else { return differ(&answer, rows) };
                let row: Row = serde_json::from_str(row).expect("an answer in JSON");
                let text = text(&row, "token");
                let is_same_token = self.is_same_token(text.as_deref(), expected.token.as_ref());
                if !is_same_token || !self.is_of_registry(&row, begun_us) || !is_same_lease(&row, expected) {
                    return differ(&answer, rows);
                }
                texts.push(text);
            }
            Answer::Taken(expected) => {
                if rows.len() != expected.len() {
                    return differ(&answer, rows);
                }
                for (row, expected) in rows.iter().zip(expected) {
                    let row: Row = serde_json::from_str(row).expect("an answer in JSON");
                    let text = text(&row, "token");
                    let is_same_token = self.is_same_token(text.as_deref(), expected.token.as_ref());
                    if !is_same_token
                        || !self.is_of_registry(&row, begun_us)
                        || !is_same_taken(&row, expected)
                        || number(&row, "report_every") != Some(told_every_us)
                        || number(&row, "server_started") != Some(self.stand_in.place.started_us)
                    {
                        return differ(&answer, rows);
                    }
                    texts.push(text);
                }
            }
        }
        Ok(Agreed { answer, texts })
    }

    fn is_same_token(&mut self, text: Option<&str>, token: Option<&Token>) -> bool {
        match (text, token) {
            (None, None) => true,
            (Some(text), Some(token)) => {
                let Some((text, signature)) = text.split_once('.') else { return false };
                let mark = match token {
                    Token::Segment { .. } => String::new(),
                    // A lease has one mark, and a mark one lease.
                    Token::Lease { lease_id, .. } => {
                        let mark = text.split(':').nth(7).unwrap_or_default();
                        self.marks.insert((mark.into(), *lease_id));
                        let is_of_either = |(other, id): &&(String, Uuid)| other == mark || id == lease_id;
                        if self.marks.iter().filter(is_of_either).count() > 1 {
                            return false;
                        }
                        mark.into()
                    }
                };
                signature.len() == 64 && text == token_text(token, &mark)
            }
            _ => false,
        }
    }

    /// Whether the columns that all answers have are those of the registry.
    fn is_of_registry(&self, row: &Row, begun_us: i64) -> bool {
        let StandIn { protocols, tables, .. } = &self.stand_in;
        number(row, "lowest_protocol") == Some((*protocols.start()).into())
            && number(row, "highest_protocol") == Some((*protocols.end()).into())
            && text(row, "registry_id") == Some(tables.settings.registry_id.to_string())
            && number(row, "registry_clock") == Some(begun_us)
    }

    fn compare_tables(&mut self) -> Result<(), Difference> {
        let in_sql: String = harness::single(&mut self.observer, "SELECT lockstep.dump()");
        let in_sql: BTreeMap<String, String> = in_sql.lines().map(key_and_line).collect();
        let expected: BTreeMap<String, String> =
            lines(&self.stand_in.tables).iter().map(|line| key_and_line(line)).collect();
        if in_sql == expected {
            return Ok(());
        }
        let mut text = String::from("the tables differ:\n");
        for key in in_sql.keys().chain(expected.keys().filter(|key| !in_sql.contains_key(*key))) {
            let (left, right) = (in_sql.get(key), expected.get(key));
            if left != right {
                let none = String::from("none");
                text += &format!("SQL      {}\nstand-in {}\n", left.unwrap_or(&none), right.unwrap_or(&none));
            }
        }
        Err(Difference(text))
    }

    // Accidents -------------------------------------------------------------------------------------------

    /// Keeps a copy of the tables, and forgets the oldest of more than four.
    pub fn keep(&mut self) {
        self.last_snapshot += 1;
        let number = self.last_snapshot;
        self.observer.run(&format!(
            "INSERT INTO lockstep.old_settings SELECT {number}, one FROM snowflake_registry.settings AS one;
             INSERT INTO lockstep.old_lease SELECT {number}, one FROM snowflake_registry.lease AS one;
             INSERT INTO lockstep.old_segment SELECT {number}, one FROM snowflake_registry.segment AS one;"
        ));
        self.snapshots.push((number, self.stand_in.tables.clone()));
        if self.snapshots.len() > 4 {
            self.snapshots.remove(0);
        }
    }

    /// Starts the server again.
    pub fn restart(&mut self) {
        // No two starts are at the same time.
        let started_us = self.stand_in.clock.now_us.max(self.stand_in.place.started_us + 1);
        self.stand_in.place.started_us = started_us;
    }

    /// Sets the tables back. Later copies belong to a history that is gone. `is_dump` restores the rows as a dump does.
    pub fn set_back(&mut self, at: usize, is_dump: bool) {
        self.snapshots.truncate(at + 1);
        let (number, tables) = &self.snapshots[at];
        self.stand_in.tables = tables.clone();
        self.stand_in.tables.is_signed = !is_dump;
        self.stand_in.tables.are_guards_on = true;
        let mut rows = String::new();
        for table in &TABLES[..3] {
            rows += &format!(
                "DELETE FROM snowflake_registry.{table};
                 INSERT INTO snowflake_registry.{table} SELECT (old).* FROM lockstep.old_{table} WHERE number = {number};"
            );
        }
        // The row says which transaction has written it.
        let writer = if is_dump { "'3'" } else { "pg_current_xact_id()" };
        rows += &format!("UPDATE snowflake_registry.settings SET written_by = {writer};");
        self.observer.run(&format!("BEGIN; {} COMMIT;", changed_by_force(&rows)));
    }

    /// Grants the privilege to take numbers, or revokes it.
    pub fn let_others_take(&mut self, is_so: bool) {
        self.stand_in.serves_others = is_so;
        let change = if is_so { "GRANT EXECUTE" } else { "REVOKE EXECUTE" };
        let direction = if is_so { "TO" } else { "FROM" };
        self.observer.run(&format!("{change} ON FUNCTION snowflake_registry.take {direction} fleet"));
    }

    /// Switches a guard of the tables off.
    pub fn switch_guard_off(&mut self) {
        self.observer.run("ALTER TABLE snowflake_registry.lease DISABLE TRIGGER keep_the_end");
        self.stand_in.tables.are_guards_on = false;
    }
}

/// The columns of the tables that the dump leaves out.
fn not_compared(client: &mut Client) -> Vec<String> {
    let columns: String = harness::single(
        client,
        "SELECT string_agg(relname || '.' || attname, ' ' ORDER BY relname, attname)
         FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
         WHERE relnamespace = 'snowflake_registry'::regnamespace AND relkind = 'r' AND attnum > 0",
    );
    let is_compared = |column: &&str| {
        let (table, name) = column.split_once('.').expect("a table");
        let part =
            DUMP.split("UNION ALL").find(|part| part.contains(&format!("snowflake_registry.{table}\n")));
        let is_word = |word: &str| word == name;
        part.is_some_and(|part| {
            part.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(is_word)
        })
    };
    columns.split(' ').filter(|column| !is_compared(column)).map(str::to_owned).collect()
}

fn connect(server: &Cluster, database: &str, role: &str) -> Client {
    let mut config = Config::new();
    config.host_path(server.host()).user(role).dbname(database);
    config.connect(NoTls).unwrap_or_else(|error| panic!("{role}: {error}"))
}

/// Statements that the guards of the tables would refuse.
fn changed_by_force(statements: &str) -> String {
    let off =
        TABLES.map(|table| format!("ALTER TABLE snowflake_registry.{table} DISABLE TRIGGER ALL;")).concat();
    format!("{off} {statements} SELECT snowflake_registry.switch_guards_on();")
}

fn failed(what: &str, error: &postgres::Error) -> Difference {
    let state = error.code().map_or("", |code| code.code());
    Difference(format!("{what} ERROR {state}: {}", harness::text(error)))
}

fn key_and_line(line: &str) -> (String, String) {
    (line.split(' ').take(2).collect::<Vec<_>>().join(" "), line.into())
}

/// The text of a token, without its signature.
fn token_text(token: &Token, mark: &str) -> String {
    let (start, serial, requests) = match token {
        Token::Lease { identity, grant_count, from_us, until_us, serial, requests, .. } => {
            let Identity { datacenter, worker } = identity;
            (format!("lease:{datacenter}:{worker}:{grant_count}:{from_us}:{until_us}"), serial, requests)
        }
        Token::Segment { name, next, ahead, serial, requests } => {
            let hex: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
            let ahead = ahead.map_or(String::new(), |ahead| ahead.to_string());
            (format!("segment:{hex}:{next}:{ahead}"), serial, requests)
        }
    };
    let mark = if mark.is_empty() { String::new() } else { format!(":{mark}") };
    let last = requests.last.map_or(String::new(), |name| format!("{:08x}", name.0));
    let frozen = match requests.frozen_until_us {
        None => String::new(),
        Some(i64::MAX) => "infinity".into(),
        Some(us) => us.to_string(),
    };
    format!("{start}:{serial}{mark}:{last}:{frozen}")
}

fn text(row: &Row, key: &str) -> Option<String> {
    row.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn number(row: &Row, key: &str) -> Option<i64> {
    row.get(key).and_then(Value::as_i64)
}

fn is_same_lease(row: &Row, expected: &LeaseAnswer) -> bool {
    let identity = expected.identity;
    let has_range = expected.outcome == Outcome::Granted;
    text(row, "outcome").as_deref() == Some(expected.outcome.name())
        && number(row, "lease") == Some(expected.lease_us)
        && number(row, "renew_every") == Some(expected.renew_every_us)
        && number(row, "datacenter_id") == identity.map(|identity| identity.datacenter.into())
        && number(row, "worker_id") == identity.map(|identity| identity.worker.into())
        && number(row, "granted_from") == expected.range_us.map(|(from_us, _)| from_us)
        && number(row, "granted_until") == expected.range_us.map(|(_, until_us)| until_us)
        && has_range == expected.range_us.is_some()
        && number(row, "free_from") == expected.free_from_us
}

fn is_same_taken(row: &Row, expected: &Taken) -> bool {
    let is_granted = expected.outcome == TakeOutcome::Granted;
    text(row, "outcome").as_deref() == Some(expected.outcome.name())
        && number(row, "request") == expected.request.map(|request| request as i64)
        && text(row, "name") == expected.name
        && number(row, "first") == expected.range.map(|(first, _)| first)
        && number(row, "count") == expected.range.map(|(_, count)| count)
        && is_granted == expected.range.is_some()
        && number(row, "increment") == expected.shape.map(|(increment, ..)| increment)
        && number(row, "max_value") == expected.shape.map(|(_, max_value, _)| max_value)
        && number(row, "step") == expected.shape.map(|(.., step)| step)
        && number(row, "period_key") == expected.period_key
        && number(row, "period_starts") == expected.period_us.map(|(starts_us, _)| starts_us)
        && number(row, "period_ends") == expected.period_us.map(|(_, ends_us)| ends_us)
}

// Calls as SQL --------------------------------------------------------------------------------------------

fn request_of(call: &Call) -> RequestName {
    match call {
        Call::Administer(
            Administration::Reserve { name, .. }
            | Administration::StartFleet { name, .. }
            | Administration::Configure { name, .. }
            | Administration::Freeze { name, .. }
            | Administration::Unfreeze { name },
        ) => *name,
        _ => RequestName(0),
    }
}

/// The keys of each request.
fn common(caller: &Caller, texts: &[String]) -> Value {
    json!({
        "protocol": caller.protocol,
        "registry": caller.registry_id,
        "tokens": texts,
        "facts": {"node_name": caller.node_name, "by_hand": caller.by_hand},
        "clock": caller.clock_us,
        "round_trip": caller.round_trip_us,
    })
}

fn with_ids(mut body: Value, ids: &Identification) -> Value {
    body["lease_id"] = json!(ids.lease_id);
    body["last_nonce"] = json!(ids.last_nonce);
    body["next_nonce"] = json!(ids.next_nonce);
    body
}

fn query_of(Sent { call, texts, .. }: &Sent) -> String {
    let (function, body) = match call {
        Call::Administer(administration) => return administrators_query(administration),
        Call::Acquire { caller, lease_id, nonce, needs } => {
            let mut body = common(caller, texts);
            body["lease_id"] = json!(lease_id);
            body["nonce"] = json!(nonce);
            body["needs"] = json!({
                "datacenter": needs.datacenter,
                "pin": needs.pin,
                "worker_limit": needs.worker_limit,
                "unwanted": needs.unwanted,
            });
            ("acquire", body)
        }
        Call::Renew { caller, ids } => ("renew", with_ids(common(caller, texts), ids)),
        Call::Release { caller, ids, used_until_us } => {
            let mut body = with_ids(common(caller, texts), ids);
            body["used_until"] = json!(used_until_us);
            ("release", body)
        }
        Call::Take { caller, is_local, requests } => {
            let mut body = common(caller, texts);
            body["requests"] = requests.iter().map(request_json).collect();
            (if *is_local { "take_local" } else { "take" }, body)
        }
    };
    format!("SELECT pg_catalog.to_json(r)::text FROM snowflake_registry.{function}('{body}') AS r")
}

fn request_json(request: &Request) -> Value {
    let mut body = json!({"name": request.name, "next": request.is_next, "report": request.is_report});
    let numbers = [
        ("had_until", request.had_until),
        ("lasted", request.lasted_s),
        ("count", request.count),
        ("period_key", request.period_key),
    ];
    for (key, value) in numbers {
        if let Some(value) = value {
            body[key] = json!(value);
        }
    }
    if let Some(id) = request.registry_id {
        body["registry_id"] = json!(id);
    }
    body
}

/// An instant as SQL.
fn instant(us: i64) -> String {
    if us == i64::MAX { "'infinity'".into() } else { format!("lockstep.instant({us})") }
}

/// A named argument, unless it is left out.
fn argument<T>(name: &str, value: &Option<T>, sql: impl Fn(&T) -> String) -> Option<String> {
    value.as_ref().map(|value| format!("{name} => {}", sql(value)))
}

fn administrators_query(call: &Administration) -> String {
    let span = |us: &i64| format!("pg_catalog.make_interval(secs => {us} / 1000000.0)");
    let plain = |number: &u32| number.to_string();
    let number = |number: &i64| number.to_string();
    let yes = |yes: &bool| yes.to_string();
    let all = |arguments: Vec<Option<String>>| arguments.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let time = |call: String| {
        format!(
            "SELECT CASE WHEN pg_catalog.isfinite(t) THEN snowflake_registry.microseconds(t)::text ELSE 'infinity' END \
             FROM snowflake_registry.{call} AS t"
        )
    };
    let call = match call {
        Administration::StartFleet { first_worker, last_worker, not_before_us, first_start, .. } => {
            return time(format!(
                "start_fleet({})",
                all(vec![
                    argument("first_worker", first_worker, plain),
                    argument("last_worker", last_worker, plain),
                    argument("not_before", not_before_us, |us| instant(*us)),
                    Some(format!("first_start => {first_start}")),
                ])
            ));
        }
        Administration::EndFleet => "end_fleet()".into(),
        Administration::RequireProtocol { lowest } => format!("require_protocol({lowest})"),
        Administration::Configure {
            lease_us,
            renew_every_us,
            first_worker,
            last_worker,
            last_datacenter,
            synchronous,
            witnesses,
            none_by_hand,
            ..
        } => format!(
            "configure({})",
            all(vec![
                argument("lease", lease_us, span),
                argument("renew_every", renew_every_us, span),
                argument("first_worker", first_worker, plain),
                argument("last_worker", last_worker, plain),
                argument("last_datacenter", last_datacenter, plain),
                argument("synchronous", synchronous, yes),
                argument("witnesses", witnesses, yes),
                Some(format!("none_by_hand => {none_by_hand}")),
            ])
        ),
        Administration::RevokeLease(identity) => {
            return time(format!("revoke_lease({}, {})", identity.worker, identity.datacenter));
        }
        Administration::Reserve { identity, used_by, .. } => {
            return time(format!(
                "reserve({})",
                all(vec![
                    Some(format!("{}, {}", identity.worker, identity.datacenter)),
                    argument("used_by", used_by, |role| format!("'{role}'")),
                ])
            ));
        }
        Administration::GiveUpReservation(identity) => {
            format!("give_up_reservation({}, {})", identity.worker, identity.datacenter)
        }
        Administration::Freeze { until_us, .. } => return time(format!("freeze({})", instant(*until_us))),
        Administration::Unfreeze { .. } => "unfreeze()".into(),
        Administration::Quarantine => return time("quarantine()".into()),
        Administration::EndQuarantine => "end_quarantine()".into(),
        Administration::CreateSegment { name, shape } => format!(
            "create_segment({})",
            all(vec![
                Some(format!("'{name}'")),
                Some(format!("start => {}, increment => {}", shape.start, shape.increment)),
                Some(format!("min_step => {}, max_step => {}", shape.min_step, shape.max_step)),
                Some(format!("max_value => {}", shape.max_value)),
                shape.period.map(|period| format!(
                    "period => '{}', digits => {}",
                    period.unit.name(),
                    period.digits
                )),
            ])
        ),
        Administration::AlterSegment { name, min_step, max_step, max_value, next_value } => format!(
            "alter_segment({})",
            all(vec![
                Some(format!("'{name}'")),
                argument("min_step", min_step, number),
                argument("max_step", max_step, number),
                argument("max_value", max_value, number),
                argument("next_value", next_value, number),
            ])
        ),
        Administration::DropSegment { name } => format!("drop_segment('{name}')"),
        Administration::ResumeSegment { name, next_value } => {
            format!("resume_segment('{name}', {next_value})")
        }
        Administration::ResumeSegments => "resume_segments()".into(),
        Administration::GrantSegment { name } => format!("grant_segment('{name}', 'fleet')"),
        Administration::RevokeSegment { name } => format!("revoke_segment('{name}', 'fleet')"),
        Administration::GrantAllSegments => "grant_all_segments('fleet')".into(),
    };
    format!("SELECT snowflake_registry.{call}")
}
