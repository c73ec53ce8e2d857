//! The files of monitoring/. All objects that they query exist, and the privileges that the page names are sufficient.
//! The pages describe each metric and each alert. With Debian's Prometheus and its exporter, every query of the
//! dashboard and of the alerts returns data.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::process::Command;
use std::sync::LazyLock;

use harness::book::{quoted, read, root, rows, section, sections};
use harness::monitoring::{Prometheus, free_address, get, make_exporter_role, program, start_exporter};
use harness::segments;
use harness::*;
use serde_json::Value;

const OF_A_SERVER: &str = include_str!("../../../../monitoring/postgres_exporter.yml");
const OF_A_REGISTRY: &str = include_str!("../../../../monitoring/postgres_exporter_registry.yml");
const ALERTS: &str = include_str!("../../../../monitoring/alerts.yml");
const DASHBOARD: &str = include_str!("../../../../monitoring/dashboard.json");
static FAILS: LazyLock<String> = LazyLock::new(|| read("docs/run/when-it-fails.md"));
static METRICS: LazyLock<String> = LazyLock::new(|| read("docs/run/monitoring.md"));
/// The address of the page about failures, before the one of the book is set.
const FAILS_URL: &str = "https://BOOK/run/when-it-fails.html";

/// A query in the exporter's files.
#[derive(Clone)]
struct Query {
    /// The prefix of its metric names.
    prefix: String,
    query: String,
    /// The columns that the file describes, each with its usage: `LABEL`, `GAUGE` or `COUNTER`.
    columns: Vec<(String, String)>,
}

impl Query {
    /// The names of its metrics, each with its usage.
    fn metrics(&self) -> impl Iterator<Item = (String, &str)> {
        let metrics = self.columns.iter().filter(|(_, usage)| usage != "LABEL");
        metrics.map(|(column, usage)| (format!("{}_{column}", self.prefix), usage.as_str()))
    }
}

/// Reads one of the exporter's files. It has a block for each query and a line for each column.
fn queries(file: &str) -> Vec<Query> {
    let mut all: Vec<Query> = Vec::new();
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        if let Some(prefix) = line.strip_suffix(':').filter(|prefix| !prefix.starts_with(' ')) {
            all.push(Query { prefix: prefix.into(), query: String::new(), columns: Vec::new() });
        } else if let Some((column, description)) =
            line.strip_prefix("    - ").and_then(|line| line.split_once(": {usage: "))
        {
            let usage = description.split(',').next().unwrap();
            all.last_mut().unwrap().columns.push((column.into(), usage.into()));
        } else if let Some(line) = line.strip_prefix("    ") {
            all.last_mut().unwrap().query += &format!("{line}\n");
        }
    }
    all
}

/// Every column is described, and every described column exists.
#[test]
fn queries_of_the_exporter() {
    let fleet = watched_fleet("10min");
    for (cluster, file, at_least) in
        [(&fleet.server, OF_A_SERVER, 8), (&fleet.fleet.registry, OF_A_REGISTRY, 4)]
    {
        let queries = queries(file);
        assert!(queries.len() >= at_least);
        let mut client = cluster.connect();
        client.run("SET ROLE prometheus");
        for query in queries {
            let rows = client.query(&query.query, &[]);
            let rows = rows.unwrap_or_else(|error| panic!("{}: {}", query.prefix, text(&error)));
            assert!(!rows.is_empty(), "{} is empty", query.prefix);
            let columns: Vec<&str> = rows[0].columns().iter().map(|column| column.name()).collect();
            let described: Vec<&str> = query.columns.iter().map(|(column, _)| column.as_str()).collect();
            assert_eq!(columns, described, "{}", query.prefix);
        }
    }
    // A transaction holds the watermark back.
    let query =
        queries(OF_A_SERVER).into_iter().find(|query| query.prefix == "snowflake_id_watermark").unwrap();
    let (mut client, mut writer) = (fleet.server.connect(), fleet.server.connect());
    let shown = format!("SELECT known, held_back_seconds::float8 FROM ({}) AS shown", query.query);
    let mut held_back = || {
        let row = client.query_one(&shown, &[]).unwrap();
        (row.get::<_, i32>(0), row.get::<_, f64>(1))
    };
    eventually("a known watermark", || held_back() == (1, 0.0));
    writer.run("SET snowflake_id.layout = 'standard'; BEGIN; SELECT snowflake_nextval()");
    eventually("a transaction that holds the watermark back", || {
        let (known, seconds) = held_back();
        known == 1 && seconds > 1.0
    });
    writer.run("COMMIT");
    eventually("the next watermark", || held_back() == (1, 0.0));

    // A reserved worker ID is not granted. The default of last_worker is the highest int.
    let queries = queries(OF_A_REGISTRY);
    let query = queries.iter().find(|query| query.prefix == "snowflake_registry_datacenter").unwrap();
    let mut registry = fleet.fleet.registry.connect();
    let mut after = |change: &str| {
        registry.run(&format!("SELECT snowflake_registry.{change}"));
        registry.query_one(&query.query, &[]).unwrap().get::<_, f64>("worker_ids")
    };
    assert_eq!(after("configure(first_worker => 0, last_worker => 9, none_by_hand => true)"), 10.0);
    assert_eq!(after("reserve(9)"), 9.0);
    assert_eq!(after("reserve(10)"), 9.0);
    assert_eq!(after("configure(last_worker => 2147483647, none_by_hand => true)"), f64::INFINITY);
}

/// Each alert links to a section of the page about failures, which has the same severity, says until when the alert fires,
/// and has steps, a query, or a link to the section with the steps.
#[test]
fn every_alert_has_a_section() {
    let after = |start: &'static str| ALERTS.lines().filter_map(move |line| line.trim().strip_prefix(start));
    let alerts: Vec<&str> = after("- alert: ").collect();
    assert!(alerts.len() >= 20);

    let sections = sections(section(&FAILS, "Alerts"));
    let sections: Vec<(&str, &str)> = sections.collect();
    assert_eq!(sections.iter().map(|(heading, _)| *heading).collect::<Vec<_>>(), alerts);
    let severities = after("labels: {severity: ").map(|rest| rest.trim_end_matches('}').to_owned());
    let described = sections.iter().map(|(_, text)| text.split('*').nth(1).unwrap().to_lowercase());
    assert_eq!(described.collect::<Vec<_>>(), severities.collect::<Vec<_>>());
    for (heading, text) in &sections {
        let has_steps =
            ["\n1. ", "\n- ", "```sql\n", "Follow [", "Follow\n["].iter().any(|start| text.contains(start));
        assert!(has_steps && text.contains("* until "), "{heading}");
    }

    let links = after("runbook_url: ").map(|link| link.trim_matches('"').to_owned());
    let expected = alerts.iter().map(|name| format!("{FAILS_URL}#{}", name.to_lowercase()));
    assert_eq!(links.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

/// The alerts, each with its first step: a query, and a sentence in a comment.
fn first_steps() -> Vec<(&'static str, String)> {
    let mut steps: Vec<(&str, String)> = Vec::new();
    let mut is_step = false;
    for line in ALERTS.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("- alert: ") {
            steps.push((name, String::new()));
        } else if let Some(first) = line.strip_prefix("first_step: ") {
            is_step = true;
            steps.last_mut().unwrap().1 += first.trim_start_matches(">-").trim_matches('"');
        } else if line.starts_with("runbook_url: ") {
            is_step = false;
        } else if is_step {
            let step = &mut steps.last_mut().unwrap().1;
            *step += if step.is_empty() { "" } else { " " };
            *step += line;
        }
    }
    steps
}

/// Each query runs in the database that the top of the file names, as a member of `pg_monitor`, and returns columns.
#[test]
fn every_first_step_runs() {
    let fleet = watched_fleet("10min");
    let steps = first_steps();
    assert!(steps.len() >= 20);
    for (alert, step) in steps {
        let (query, sentence) = step.split_once("; -- ").unwrap_or_else(|| panic!("{alert}: {step}"));
        assert!(
            query.starts_with("SELECT ") && sentence.ends_with('.') && !sentence.contains(". "),
            "{step}"
        );
        let of_registry = alert.starts_with("SnowflakeRegistry");
        let cluster = if of_registry { &fleet.fleet.registry } else { &fleet.server };
        let mut client = cluster.connect();
        client.run("SET ROLE prometheus");
        // With the comment, as psql gets it.
        client.simple_query(&step).unwrap_or_else(|error| panic!("{alert}: {}", text(&error)));
    }
}

/// The page lists exactly the existing metrics. Those whose names end with `_total` are counters, as it says.
#[test]
fn every_metric_is_described() {
    let queries = [queries(OF_A_SERVER), queries(OF_A_REGISTRY)].concat();
    let metrics: Vec<(String, &str)> = queries.iter().flat_map(Query::metrics).collect();
    for (name, usage) in &metrics {
        let is_counter = name.ends_with("_total");
        assert_eq!(*usage, if is_counter { "COUNTER" } else { "GAUGE" }, "{name}");
    }
    let metrics: BTreeSet<String> = metrics.into_iter().map(|(name, _)| name).collect();
    let described: Vec<String> = rows(section(&METRICS, "Metrics"))
        .filter_map(|cells| Some(quoted(cells[0]).next()?.to_owned()))
        .collect();
    assert_eq!(described.len(), metrics.len());
    assert_eq!(described.into_iter().collect::<BTreeSet<_>>(), metrics);
}

/// A server that uses every monitored feature, and its registry.
struct Watched {
    fleet: Fleet,
    server: Cluster,
}

fn watched_fleet(lease: &str) -> Watched {
    let configuration = format!("lease => '{lease}', renew_every => '1s', last_worker => 7");
    let registry = Registry::of_both(&configuration);
    let fleet = Fleet { registry: registry.start(Cluster::builder().set("max_connections", 100)) };
    fleet.registry.connect().run(
        "SELECT snowflake_registry.create_segment('orders');
         SELECT snowflake_registry.create_segment('bills', period => 'day', digits => 9);",
    );
    let server = fleet.server().set("snowflake_id.layout", "rollback3").start();
    leased_worker(&server);
    // The layout of the server has no watermark.
    server.connect().run("SET snowflake_id.layout = 'standard'; SELECT snowflake_nextval()");
    for segment in ["orders", "bills"] {
        segments::some(&mut server.connect(), segment, 10);
    }
    make_exporter_role(&fleet.registry);
    make_exporter_role(&server);
    Watched { fleet, server }
}

/// Waits until all of these alerts are pending or firing.
fn wait_for_alerts(prometheus: &Prometheus, names: &[&str]) {
    for name in names {
        let alert = format!("ALERTS{{alertname=\"{name}\"}}");
        eventually(name, || prometheus.query(&alert)?.first().map(drop));
    }
}

/// All names of our metrics in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    let is_metric =
        |word: &&str| ["snowflake_id_", "snowflake_registry_"].iter().any(|prefix| word.starts_with(prefix));
    words.filter(is_metric).map(Into::into).collect()
}

/// The queries of a dashboard: the values of "expr" in all its objects.
fn expressions(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| expressions(value, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("expr", Value::String(expression)) => found.push(expression.clone()),
                    _ => expressions(value, found),
                }
            }
        }
        _ => {}
    }
}

#[test]
#[ignore = "needs Prometheus and postgres_exporter: make test-monitoring"]
fn everything_that_is_watched_is_there() {
    let Watched { fleet, server } = watched_fleet("20s");
    let dir = tempfile::tempdir().unwrap();
    let start = |cluster: &Cluster, name: &str| {
        let (queries, address) = (root().join("monitoring").join(format!("{name}.yml")), free_address());
        (start_exporter(cluster, "postgres", &queries, &address, dir.path(), name), address)
    };
    let (_exporter, of_server) = start(&server, "postgres_exporter");
    let (_registry_exporter, of_registry) = start(&fleet.registry, "postgres_exporter_registry");

    // The exporters provide everything that the files describe, under the right names.
    let mut told = BTreeSet::new();
    for (address, file) in [(&of_server, OF_A_SERVER), (&of_registry, OF_A_REGISTRY)] {
        let text = eventually("the exporter", || get(address, "/metrics"));
        let is_ours = |line: &&str| {
            line.trim_start_matches(['#', ' ']).split(' ').any(|word| word.starts_with("snowflake_"))
        };
        let ours: String = text.lines().filter(is_ours).flat_map(|line| [line, "\n"]).collect();
        let names: BTreeSet<String> = ours
            .lines()
            .filter_map(|line| Some(line.strip_prefix("# TYPE ")?.split_once(' ')?.0.into()))
            .collect();
        let queries = queries(file);
        assert_eq!(names, queries.iter().flat_map(Query::metrics).map(|(name, _)| name).collect());
        told.extend(names);

        let path = dir.path().join("metrics");
        fs::write(&path, ours).unwrap();
        successful(
            Command::new(program("promtool")).args(["check", "metrics"]).stdin(File::open(path).unwrap()),
        );
    }

    // Everything that is queried is provided.
    let prometheus = Prometheus::start(&root().join("monitoring/alerts.yml"), 2, dir.path());
    prometheus.watch(&[("server", &of_server), ("registry", &of_registry)]);
    eventually("a scrape", || prometheus.query("snowflake_id_ready == 1")?.pop());
    let is_text = |line: &&str| line.contains("name: ") || line.trim_start().starts_with('#');
    let alerts: String = ALERTS.lines().filter(|line| !is_text(line)).flat_map(|line| [line, "\n"]).collect();
    let is_missing = |name: &&String| !told.contains(*name) && *name != "snowflake_id_";
    for (place, text) in [("alerts.yml", alerts.as_str()), ("dashboard.json", DASHBOARD)] {
        let used = metrics_in(text);
        assert_eq!(used.iter().filter(is_missing).collect::<Vec<_>>(), [""; 0], "in {place}");
        assert!(used.len() > 20);
    }

    // The dashboard.
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut found = Vec::new();
    expressions(&dashboard["panels"], &mut found);
    assert!(found.len() >= 30);
    for expression in found {
        let filled = expression
            .replace("$__rate_interval", "1m")
            .replace("$instance", ".*")
            .replace("$registry", ".*");
        assert!(!filled.contains('$'), "{expression}");
        let answer =
            eventually(&expression, || prometheus.query(&filled).filter(|answer| !answer.is_empty()));
        assert!(answer.iter().all(|sample| sample["value"][1] != "NaN"), "{expression}: {answer:?}");
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(definition) = variable["definition"].as_str() else { continue };
        let metric =
            definition.strip_prefix("label_values(").and_then(|rest| rest.split_once(',')).unwrap().0;
        assert!(!prometheus.query(metric).unwrap().is_empty(), "{definition}");
    }

    // There is no alert while all is well, nor for a misspelled name.
    assert_eq!(segments::refusal(&mut server.connect(), "ordres").0, "42704");
    eventually("the misspelled name", || {
        prometheus.query("snowflake_id_segment_known{segment=\"ordres\"} == 0")?.pop()
    });
    eventually("the rules", || {
        let groups = prometheus.ask("/api/v1/rules")?;
        let rules: Vec<&Value> = groups["groups"]
            .as_array()?
            .iter()
            .flat_map(|group| group["rules"].as_array().unwrap())
            .collect();
        assert!(rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
        (rules.len() > 20 && rules.iter().all(|rule| rule["health"] == "ok")).then_some(())
    });
    assert_eq!(prometheus.query("ALERTS").unwrap(), [Value::Null; 0]);

    // Accidents.
    let registry = &fleet.registry;
    segments::administer(registry, "create_segment('few', max_value => 1000)");
    segments::some(&mut server.connect(), "few", 900);
    segments::administer(registry, "configure(synchronous => true, last_worker => 0)");
    wait_for_alerts(
        &prometheus,
        &[
            "SnowflakeIdSegmentNearEnd",
            "SnowflakeRegistrySegmentNearEnd",
            "SnowflakeRegistryNotSynchronous",
            "SnowflakeRegistryFewWorkerIds",
        ],
    );
    // This is the effect of restoring a dump.
    registry.connect().run("UPDATE snowflake_registry.settings SET lease = lease");
    let mut client = server.connect();
    eventually("a segment that is closed", || {
        client.batch_execute("SELECT snowflake_segment_batch('orders', 1000)").err()
    });
    wait_for_alerts(
        &prometheus,
        &[
            "SnowflakeIdSegmentClosed",
            "SnowflakeRegistrySegmentClosed",
            "SnowflakeRegistryQuarantine",
            "SnowflakeIdSegmentStopped",
        ],
    );
    fleet.lose_registry();
    wait_for_alerts(
        &prometheus,
        &[
            "SnowflakeIdRegistryUnreachable",
            "SnowflakeIdLeaseHalfExpired",
            "SnowflakeIdWarning",
            "SnowflakeIdLeaseEnded",
            "SnowflakeIdNotReady",
        ],
    );
    server.connect().run("DROP EXTENSION snowflake_id");
    wait_for_alerts(&prometheus, &["SnowflakeIdNotWatched"]);
}
