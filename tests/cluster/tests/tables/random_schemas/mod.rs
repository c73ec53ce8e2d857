//! Tables of random schemas are adopted by their owner, who is no superuser. Afterwards, everything must be as before, except
//! for the types of the columns and their order. Otherwise, the call must have refused the tables before it changed anything.
//! `make adoptions` tries more schemas.
//!
//! Schemas are tried one after the other, and the number of each is its seed. So a run tries the same schemas as the run before,
//! and `SNOWFLAKE_ID_SEED` tries one of them again.

mod compared;
mod schema;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::*;
use postgres::{Config, NoTls};

use schema::{CLERK, EXTENSIONS, OWNERS, SCHEMA, Schema, quoted};

/// The number of schemas under "make test".
const FEW: u64 = 3;

/// No adoption needs more calls than this.
const MOST_CALLS: u64 = 60;

/// How an adoption ended.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    Adopted,
    Abandoned,
    Refused,
}

/// Shows the seed and the end of the server's log if the thread panics, for example because the server has crashed.
struct TellOfCrash<'a>(&'a Cluster, u64);

impl Drop for TellOfCrash<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.0.log();
            let start = log.len().saturating_sub(5000);
            eprintln!("SNOWFLAKE_ID_SEED={}\n{}", self.1, String::from_utf8_lossy(&log.as_bytes()[start..]));
        }
    }
}

fn server() -> Cluster {
    let settings =
        [("autovacuum", "off"), ("jit", "off"), ("full_page_writes", "off"), ("wal_level", "logical")];
    let server = Cluster::builder().worker(1).settings(&settings).start();
    let mut client = server.connect();
    for role in OWNERS.iter().chain([&CLERK]) {
        client.run(&format!("CREATE ROLE {} LOGIN", quoted(role)));
    }
    client.run(&format!("GRANT SET ON PARAMETER session_replication_role TO {}", OWNERS[1]));
    client.run("SET allow_in_place_tablespaces = on");
    client.run("CREATE TABLESPACE fast LOCATION ''");
    client.run("GRANT CREATE ON TABLESPACE fast TO PUBLIC");
    server
}

/// Creates a database. Returns whether the extensions with operator classes are available.
fn create(server: &Cluster, database: &str, extension_schema: &str) -> bool {
    server.connect().run(&format!("CREATE DATABASE {database}"));
    let mut client = server.connect_to(database);
    client.run(&format!(
        "CREATE SCHEMA IF NOT EXISTS {extension_schema}; GRANT USAGE ON SCHEMA {extension_schema} TO PUBLIC;
         CREATE EXTENSION snowflake_id SCHEMA {extension_schema};
         ALTER DATABASE {database} SET search_path = public, {extension_schema}"
    ));
    wait_for_first_id(&mut server.connect_to(database));
    let available = "SELECT count(*) FROM pg_available_extensions WHERE name = ANY ($1)";
    let available: i64 = client.query_one(available, &[&&EXTENSIONS[..]]).unwrap().get(0);
    let has_extensions = available == EXTENSIONS.len() as i64;
    if has_extensions {
        for name in EXTENSIONS {
            client.run(&format!("CREATE EXTENSION {name} SCHEMA public"));
        }
    }
    has_extensions
}

fn connect(server: &Cluster, role: &str, database: &str) -> Client {
    let client = Config::new().host_path(server.host()).user(role).dbname(database).connect(NoTls);
    client.unwrap_or_else(|error| panic!("{role}: {}", text(&error)))
}

/// Creates a schema, and adopts its table. Returns how that ended, and what was in the way.
fn run(server: &Cluster, database: &str, seed: u64, has_extensions: bool) -> Result<(End, String), String> {
    let mut random = Random::of(seed);
    let schema = schema::draw(&mut random, has_extensions);
    let mut superuser = server.connect_to(database);
    let owner = quoted(schema.owner);
    superuser.run(&format!(
        "SET client_min_messages = warning; DROP PUBLICATION IF EXISTS a_few; DROP SCHEMA IF EXISTS {SCHEMA} CASCADE;
         CREATE SCHEMA {SCHEMA} AUTHORIZATION {owner}"
    ));
    let mut client = connect(server, schema.owner, database);
    let mut story = vec![format!("-- SNOWFLAKE_ID_SEED={seed}"), format!("SET ROLE {owner}")];
    for statement in &schema.tables {
        story.push(statement.clone());
        client.batch_execute(statement).map_err(|error| told(&story, &format!("ERROR: {}", text(&error))))?;
    }
    for (role, statement) in &schema.extras {
        let client = if role.is_none() { &mut client } else { &mut superuser };
        if client.batch_execute(statement).is_ok() {
            story.push(statement.clone());
        }
    }
    adopt(server, database, &schema, client, &mut superuser, &mut story)
        .map_err(|failure| told(&story, &failure))
}

fn told(story: &[String], failure: &str) -> String {
    format!("{};\n{failure}", story.join(";\n"))
}

/// Everything that is compared.
#[derive(PartialEq)]
struct State {
    dump: Vec<String>,
    rows: BTreeMap<String, String>,
    types: BTreeMap<(String, String), String>,
    actions: Vec<String>,
}

impl State {
    fn of(server: &Cluster, database: &str, superuser: &mut Client) -> State {
        State {
            dump: compared::dump(server, database, false),
            rows: compared::rows(superuser),
            types: compared::types(superuser),
            actions: compared::actions(superuser),
        }
    }

    /// Fails if anything except for the types has changed.
    fn compare(&self, later: &State, when: &str) -> Result<(), String> {
        compare(when, "dump", &self.dump, &later.dump)?;
        compare(when, "order of actions", &self.actions, &later.actions)?;
        compare(when, "rows", &lines(&self.rows), &lines(&later.rows))
    }
}

fn lines<K: std::fmt::Debug, V: std::fmt::Debug>(map: &BTreeMap<K, V>) -> Vec<String> {
    map.iter().map(|entry| format!("{entry:?}")).collect()
}

fn compare(when: &str, what: &str, before: &[String], after: &[String]) -> Result<(), String> {
    if before == after {
        return Ok(());
    }
    let gone = before.iter().filter(|line| !after.contains(line)).map(|line| format!("- {line}"));
    let new = after.iter().filter(|line| !before.contains(line)).map(|line| format!("+ {line}"));
    let mut difference: Vec<String> = gone.chain(new).collect();
    if difference.is_empty() {
        difference = [before, &["became".into()], after].concat();
    }
    Err(format!("{when}, the {what} differs:\n{}", difference.join("\n")))
}

fn adopt(
    server: &Cluster,
    database: &str,
    schema: &Schema,
    mut client: Client,
    superuser: &mut Client,
    story: &mut Vec<String>,
) -> Result<(End, String), String> {
    let before = State::of(server, database, superuser);
    let results = compared::outcome(superuser, &schema.changes)?;
    let column = fuzz::literal(&schema.column);
    let arguments =
        format!("{}, {column}, pause => '0', views => {}", fuzz::literal(&schema.table), schema.views);
    let dry_run = format!("CALL snowflake_adopt_online({arguments})");
    story.push(dry_run.clone());
    let refused = client.batch_execute(&dry_run).err();
    if let Some(error) = refused {
        let db_error = error.as_db_error().ok_or_else(|| text(&error))?;
        let is_told =
            [db_error.detail(), db_error.hint()].iter().all(|part| part.is_some_and(|part| !part.is_empty()));
        if !is_told || !["0A000", "42809"].contains(&db_error.code().code()) {
            return Err(format!("refused: {} {}", db_error.code().code(), text(&error)));
        }
        match adopt_once(&mut client, &arguments) {
            Err(again) if text(&again) == text(&error) => {}
            Err(again) => {
                return Err(format!("refused by the dry run: {}\nand later: {}", text(&error), text(&again)));
            }
            Ok(_) => return Err(format!("refused by the dry run alone: {}", text(&error))),
        }
        before.compare(&State::of(server, database, superuser), "after the call was refused")?;
        return Ok((End::Refused, db_error.detail().unwrap_or_default().into()));
    }

    let mut calls = 0;
    loop {
        if schema.abandon_after == Some(calls) {
            let arguments = format!("{arguments}, abandon => true");
            story.push(format!("CALL snowflake_adopt_online({arguments}, dry_run => false)"));
            adopt_once(&mut client, &arguments)
                .map_err(|error| format!("when it was abandoned: {}", text(&error)))?;
            let after = State::of(server, database, superuser);
            before.compare(&after, "after it was abandoned")?;
            compare("after it was abandoned", "types", &lines(&before.types), &lines(&after.types))?;
            return Ok((End::Abandoned, String::new()));
        }
        story.push(format!("CALL snowflake_adopt_online({arguments}, dry_run => false)"));
        let command = adopt_once(&mut client, &arguments);
        let command = command.map_err(|error| format!("after {calls} calls: {}", text(&error)))?;
        let Some(command) = command else { break };
        story.push(command.clone());
        client.batch_execute(&command).map_err(|error| text(&error))?;
        calls += 1;
        if calls == MOST_CALLS {
            return Err("it never ends".into());
        }
    }

    let after = State::of(server, database, superuser);
    before.compare(&after, "at the end")?;
    let mut types = before.types.clone();
    for column in &schema.widened {
        types.insert(column.clone(), "bigint".into());
    }
    compare("at the end", "types", &lines(&types), &lines(&after.types))?;
    let left: i64 = single(superuser, LEFT_OVER);
    if left > 0 {
        return Err(format!("{left} objects are left over"));
    }
    let results_after = compared::outcome(superuser, &schema.changes)?;
    compare("at the end", "errors of statements", &results.0, &results_after.0)?;
    compare("after statements", "rows", &lines(&results.1), &lines(&results_after.1))?;
    switch(server, database, schema, &mut client, story)?;
    Ok((End::Adopted, String::new()))
}

/// Switches the default. Then the column gets IDs.
fn switch(
    server: &Cluster,
    database: &str,
    schema: &Schema,
    client: &mut Client,
    story: &mut Vec<String>,
) -> Result<(), String> {
    let before = compared::dump(server, database, true);
    let call = format!(
        "SELECT snowflake_adopt({}, {}, dry_run => false)",
        fuzz::literal(&schema.table),
        fuzz::literal(&schema.column)
    );
    story.push(call.clone());
    client
        .batch_execute(&call)
        .map_err(|error| format!("when the default was switched: {}", text(&error)))?;
    compare("after the switch", "dump", &before, &compared::dump(server, database, true))?;
    let id = quoted(&schema.column);
    let insert = format!("INSERT INTO {} DEFAULT VALUES RETURNING {id}", schema.table);
    story.push(insert.clone());
    match client.query_one(&insert, &[]) {
        Ok(row) if row.get::<_, i64>(0) > 1 << 40 => Ok(()),
        Ok(row) => Err(format!("ID {} is not new", row.get::<_, i64>(0))),
        // A constraint CHECK, or a policy.
        Err(error) if error.code().is_some_and(|code| ["23514", "42501"].contains(&code.code())) => Ok(()),
        Err(error) => Err(format!("the first ID: {}", text(&error))),
    }
}

/// Each schema is adopted to the end, abandoned or refused. `SNOWFLAKE_ID_ADOPTIONS_SECONDS` sets the time, and
/// `SNOWFLAKE_ID_BASE` the first seed.
#[test]
fn adopted_refused_or_abandoned() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let server = server();
    if let Some(seed) = number("SNOWFLAKE_ID_SEED") {
        let has_extensions = create(&server, "one", "public");
        let (end, detail) =
            run(&server, "one", seed, has_extensions).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{end:?} {detail}");
        return;
    }
    let base = number("SNOWFLAKE_ID_BASE").unwrap_or(0);
    let seconds = number("SNOWFLAKE_ID_ADOPTIONS_SECONDS");
    let next = AtomicU64::new(base);
    let began = Instant::now();
    let goes_on = |seed: u64| match seconds {
        Some(seconds) => began.elapsed() < Duration::from_secs(seconds),
        None => seed < base + FEW,
    };
    let ends = Mutex::new(BTreeMap::<String, u64>::new());
    let failures = Mutex::new(vec![]);
    let databases: &[(&str, &str)] = match seconds {
        Some(_) => &[("schemas0", "public"), ("schemas1", "\"Snow flake\"")],
        None => &[("schemas1", "\"Snow flake\"")],
    };
    thread::scope(|scope| {
        for (database, extension_schema) in databases {
            let (server, next, ends, failures, goes_on) = (&server, &next, &ends, &failures, &goes_on);
            scope.spawn(move || {
                let has_extensions = create(server, database, extension_schema);
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !goes_on(seed) || failures.lock().unwrap().len() >= 5 {
                        return;
                    }
                    let _told = TellOfCrash(server, seed);
                    match run(server, database, seed, has_extensions) {
                        Ok((end, detail)) => {
                            let mut ends = ends.lock().unwrap();
                            for line in std::iter::once(format!("{end:?}")).chain(detail.lines().map(reason))
                            {
                                *ends.entry(line).or_default() += 1;
                            }
                        }
                        Err(failure) => failures.lock().unwrap().push(failure),
                    }
                }
            });
        }
    });
    let (ends, failures) = (ends.into_inner().unwrap(), failures.into_inner().unwrap());
    let tried = next.into_inner() - base - databases.len() as u64;
    println!("{tried} schemas from SNOWFLAKE_ID_BASE={base} in {:?}:", began.elapsed());
    for (what, count) in &ends {
        println!("{count:>6} {what}");
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n\n"));
    let adopted = ends.get("Adopted").copied().unwrap_or(0);
    assert!(adopted > 0 && (tried < 20 || adopted >= tried / 5), "only {adopted} of {tried} were adopted");
}

/// An obstacle without the names of tables and columns.
fn reason(line: &str) -> String {
    let words = line.split(|character: char| !character.is_ascii_lowercase());
    let known = [
        "bigint",
        "become",
        "cannot",
        "children",
        "class",
        "columns",
        "constraint",
        "created",
        "depends",
        "domain",
        "enabled",
        "fire",
        "function",
        "generated",
        "identity",
        "index",
        "level",
        "materialized",
        "may",
        "not",
        "operator",
        "owned",
        "partitioned",
        "policy",
        "publication",
        "replaced",
        "row",
        "rule",
        "security",
        "sequence",
        "statistics",
        "trigger",
        "triggers",
        "type",
        "update",
        "uses",
        "valid",
        "view",
        "would",
    ];
    let words: Vec<&str> = words.filter(|word| known.contains(word)).take(6).collect();
    format!("       {}", words.join(" "))
}
