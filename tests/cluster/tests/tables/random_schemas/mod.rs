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
use std::thread;
use std::time::{Duration, Instant};

use harness::{adoption::*, fuzz::literal, *};
use postgres::{Config, NoTls};

use compared::assert_same;
use schema::{CLERK, EXTENSIONS, OWNERS, SCHEMA, Schema, quoted};

/// The number of schemas under "make test".
const FEW: u64 = 3;

/// No adoption needs more calls than this.
const MOST_CALLS: u64 = 60;

/// Two databases, with the extension in these schemas. The seed decides which of them is used.
const EXTENSION_SCHEMAS: [&str; 2] = ["public", "\"Snow flake\""];

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

/// An adoption of the table of a random schema.
struct Trial<'a> {
    server: &'a Cluster,
    database: &'a str,
    schema: Schema,
    superuser: Client,
    /// The session of the tables' owner.
    client: Client,
    /// The statements so far, which are shown if the thread panics.
    story: Vec<String>,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // The server may have crashed.
            let log = self.server.log_length();
            let log = self.server.log_between(&(log.saturating_sub(5000)..log));
            eprintln!("{};\n\nThe end of the log:\n{log}", self.story.join(";\n"));
        }
    }
}

impl Trial<'_> {
    /// Creates the schema.
    fn begin<'a>(server: &'a Cluster, database: &'a str, seed: u64, has_extensions: bool) -> Trial<'a> {
        let schema = schema::draw(&mut Random::of(seed), has_extensions);
        let mut superuser = server.connect_to(database);
        let owner = quoted(schema.owner);
        superuser.run(&format!(
            "SET client_min_messages = warning; DROP PUBLICATION IF EXISTS a_few; DROP SCHEMA IF EXISTS {SCHEMA} CASCADE;
             CREATE SCHEMA {SCHEMA} AUTHORIZATION {owner}"
        ));
        let client =
            Config::new().host_path(server.host()).user(schema.owner).dbname(database).connect(NoTls);
        let story = vec![format!("-- SNOWFLAKE_ID_SEED={seed}"), format!("SET ROLE {owner}")];
        let mut trial = Trial { server, database, schema, superuser, client: client.unwrap(), story };
        for statement in trial.schema.tables.clone() {
            trial.run(&statement);
        }
        for statement in &trial.schema.extras {
            if trial.client.batch_execute(statement).is_ok() {
                trial.story.push(statement.clone());
            }
        }
        for statement in &trial.schema.by_superuser {
            if trial.superuser.batch_execute(statement).is_ok() {
                trial.story.push(format!("RESET ROLE; {statement}"));
            }
        }
        trial
    }

    fn run(&mut self, statement: &str) {
        self.story.push(statement.into());
        self.client.run(statement);
    }

    fn call(&mut self, options: &str) -> Result<Option<String>, postgres::Error> {
        let Schema { table, column, views, .. } = &self.schema;
        let (table, column) = (literal(table), literal(column));
        let arguments = format!("{table}, {column}, pause => '0', views => {views}{options}");
        self.story.push(format!("CALL snowflake_adopt_online({arguments})"));
        Ok(self.client.query_one(self.story.last().unwrap(), &[])?.get(0))
    }

    fn state(&mut self) -> Vec<String> {
        compared::state(self.server, self.database, &mut self.superuser)
    }

    /// Adopts the table. Returns how that ended, and what was in the way.
    fn adopt(&mut self) -> (&'static str, String) {
        let before = self.state();
        if let Err(error) = self.call("") {
            let refusal = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
            assert!(["0A000", "42809"].contains(&refusal.code().code()), "{}", text(&error));
            assert!(refusal.hint().is_some_and(|hint| !hint.is_empty()), "{}", text(&error));
            let again = self.call(", dry_run => false").expect_err("refused by the dry run alone");
            assert_eq!(text(&error), text(&again));
            assert_same(&before, &self.state());
            return ("refused", refusal.detail().expect("DETAIL").into());
        }
        let results = compared::outcome(&mut self.superuser, &self.schema.changes);
        for calls in 0..MOST_CALLS {
            if self.schema.abandon_after == Some(calls) {
                self.call(", dry_run => false, abandon => true").unwrap();
                assert_same(&before, &self.state());
                return ("abandoned", String::new());
            }
            let Some(command) = self.call(", dry_run => false").unwrap() else {
                self.check(before, &results);
                self.switch();
                return ("adopted", String::new());
            };
            self.run(&command);
        }
        panic!("it never ends");
    }

    /// Only the types have changed, and statements have the same results.
    fn check(&mut self, before: Vec<String>, results: &[String]) {
        let widened = |line: String| match line.split_once(compared::TYPE) {
            Some((column, _)) if self.schema.widened.contains(column) => {
                format!("{column}{}bigint", compared::TYPE)
            }
            _ => line,
        };
        let expected: Vec<String> = before.into_iter().map(widened).collect();
        assert_same(&expected, &self.state());
        assert_eq!(left_over(&mut self.superuser), 0);
        assert_same(results, &compared::outcome(&mut self.superuser, &self.schema.changes));
    }

    /// Switches the default. Then the column gets IDs.
    fn switch(&mut self) {
        let before = compared::dump(self.server, self.database, true);
        let Schema { table, column, .. } = &self.schema;
        let insert = format!("INSERT INTO {table} DEFAULT VALUES RETURNING {}", quoted(column));
        self.run(&format!(
            "SELECT snowflake_adopt({}, {}, dry_run => false)",
            literal(table),
            literal(column)
        ));
        assert_same(&before, &compared::dump(self.server, self.database, true));
        self.story.push(insert.clone());
        match self.client.query_one(&insert, &[]) {
            Ok(row) => assert!(row.get::<_, i64>(0) > 1 << 40, "{row:?}"),
            // A constraint CHECK, or a policy.
            Err(error) if error.code().is_some_and(|code| ["23514", "42501"].contains(&code.code())) => {}
            Err(error) => panic!("{}", text(&error)),
        }
    }
}

/// Each schema is adopted to the end, abandoned or refused. `SNOWFLAKE_ID_ADOPTIONS_SECONDS` sets the time, and
/// `SNOWFLAKE_ID_BASE` the first seed.
#[test]
fn adopted_refused_or_abandoned() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seconds = number("SNOWFLAKE_ID_ADOPTIONS_SECONDS");
    let base = number("SNOWFLAKE_ID_BASE").unwrap_or(0);
    let (seeds, end) = match (number("SNOWFLAKE_ID_SEED"), seconds) {
        (Some(seed), _) => (seed..seed + 1, None),
        (None, Some(seconds)) => (base..u64::MAX, Some(Instant::now() + Duration::from_secs(seconds))),
        (None, None) => (base..base + FEW, None),
    };
    let server = server();
    let ends = Mutex::new(BTreeMap::<String, u64>::new());
    thread::scope(|scope| {
        for (at, extension_schema) in EXTENSION_SCHEMAS.iter().enumerate() {
            let mine = seeds.clone().filter(move |seed| seed % 2 == at as u64);
            let (server, ends) = (&server, &ends);
            scope.spawn(move || {
                let database = format!("schemas{at}");
                let has_extensions = create(server, &database, extension_schema);
                for seed in mine.take_while(|_| end.is_none_or(|end| Instant::now() < end)) {
                    let (how, detail) = Trial::begin(server, &database, seed, has_extensions).adopt();
                    let mut ends = ends.lock().unwrap();
                    for line in std::iter::once(how.to_owned()).chain(detail.lines().map(reason)) {
                        *ends.entry(line).or_default() += 1;
                    }
                }
            });
        }
    });
    let ends = ends.into_inner().unwrap();
    for (what, count) in &ends {
        println!("{count:>6} {what}");
    }
    let count = |how: &str| ends.get(how).copied().unwrap_or(0);
    let (adopted, tried) = (count("adopted"), count("adopted") + count("refused") + count("abandoned"));
    println!("{tried} schemas from SNOWFLAKE_ID_BASE={base}");
    assert!(tried == 1 || adopted > 0 && adopted >= tried / 5, "only {adopted} of {tried} were adopted");
}

/// An obstacle without most of the names of tables and columns.
fn reason(line: &str) -> String {
    let is_word = |word: &&str| word.chars().all(|character| character.is_ascii_lowercase());
    format!("  {}", line.split(' ').filter(is_word).collect::<Vec<_>>().join(" "))
}
