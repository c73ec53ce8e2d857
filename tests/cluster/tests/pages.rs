//! The SQL examples of the README and of the pages in docs/, run as they stand. Where a comment follows a
//! query (`; -- 1 | 2`), it is the row that the query has to return.

use std::collections::BTreeSet;

use postgres::{Client, SimpleQueryMessage};
use snowflake_id_cluster_tests::{Cluster, WORKER_1, single, text};

const README: &str = include_str!("../../../README.md");

/// The pages in docs/ that have examples, and how many results at least they tell.
const PAGES: [(&str, &str, usize); 7] = [
    ("clients", include_str!("../../../docs/clients.md"), 4),
    ("filling", include_str!("../../../docs/copy.md"), 2),
    ("monitoring", include_str!("../../../docs/monitoring.md"), 1),
    ("moving_over", include_str!("../../../docs/moving-over.md"), 5),
    ("other_ids", include_str!("../../../docs/other-ids.md"), 13),
    ("text_and_masks", include_str!("../../../docs/text-and-masks.md"), 7),
    ("time_ranges", include_str!("../../../docs/time-ranges.md"), 7),
];

#[test]
fn examples_of_the_readme() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    client.batch_execute("DROP EXTENSION snowflake_id").unwrap();
    let checked = run_examples(&mut client, README);
    assert!(checked >= 15, "only {checked} results were checked");
}

/// Each in a database of its own, which has the extension.
#[test]
fn examples_of_the_other_pages() {
    let cluster = Cluster::start(WORKER_1);
    single::<i64>(&mut cluster.connect(), "SELECT snowflake_nextval()");
    for (page, text, at_least) in PAGES {
        cluster.connect().batch_execute(&format!("CREATE DATABASE {page}")).unwrap();
        let mut client = cluster.connect_to(page);
        client.batch_execute("CREATE EXTENSION snowflake_id").unwrap();
        let checked = run_examples(&mut client, text);
        assert!(checked >= at_least, "{page}: only {checked} results were checked");
    }
}

/// The README's table has every function that is for users, with the volatility that it has, and each has an
/// example.
#[test]
fn every_function_is_in_the_readme() {
    // What is not for users: parts of others, and what views, triggers and the planner call.
    const PARTS: &str = "snowflake_(adopt_.*|create_partitions_plan|preset_names|mask_key_of|server_status|slots|worker_check|nextval_in_copy|nextval_support)|store_past";
    let cluster = Cluster::start(WORKER_1);
    let query = "SELECT p.proname || ' ' || CASE p.provolatile
                     WHEN 'v' THEN 'volatile' WHEN 's' THEN 'stable' ELSE 'immutable' END
                 FROM pg_proc AS p
                 JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
                 JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = 'snowflake_id'
                 WHERE p.proname !~ ('^(' || $1 || ')$')";
    let functions = cluster.connect().query(query, &[&PARTS]).unwrap();
    let functions: BTreeSet<String> = functions.iter().map(|row| row.get(0)).collect();

    let (_, table) = README.split_once("\n## Functions\n").unwrap();
    let rows =
        table.lines().skip_while(|line| !line.starts_with("| `")).take_while(|line| line.starts_with('|'));
    let mut documented = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for call in cells[1].split('`').filter(|text| text.starts_with("snowflake_")) {
            let (name, _) = call.split_once('(').unwrap();
            documented.extend(cells[3].split(", ").map(|volatility| format!("{name} {volatility}")));
        }
    }
    assert_eq!(documented, functions);

    let examples: String = PAGES.iter().map(|(_, page, _)| *page).chain([README]).flat_map(blocks).collect();
    for function in functions {
        let (name, _) = function.split_once(' ').unwrap();
        assert!(examples.contains(&format!("{name}(")), "{name} has no example");
    }
}

/// The queries in the examples of the exporters' configuration: one row each, with every column that a metric
/// names.
#[test]
fn queries_of_the_exporters() {
    let cluster = Cluster::start(WORKER_1);
    let mut client = cluster.connect();
    let page = include_str!("../../../docs/monitoring.md");
    let mut checked = 0;
    for block in page.split("```yaml\n").skip(1) {
        let (block, _) = block.split_once("```").expect("an open code block");
        let Some((_, rest)) = block.split_once("query: |\n") else { continue };
        let indent = |line: &str| line.len() - line.trim_start().len();
        let depth = indent(rest);
        let query: Vec<&str> = rest.lines().take_while(|line| indent(line) >= depth).collect();
        let rows = client.query(&query.join("\n"), &[]).unwrap_or_else(|error| panic!("{}", text(&error)));
        assert_eq!(rows.len(), 1, "{query:?}");
        let columns: Vec<&str> = rows[0].columns().iter().map(|column| column.name()).collect();
        let metrics: Vec<&str> = block.lines().filter_map(column_of_metric).collect();
        assert_eq!(metrics, columns);
        checked += 1;
    }
    assert_eq!(checked, 2);
}

/// The column that a line gives a metric: `values: [ready]` of sql_exporter, `- ready: {` of
/// postgres_exporter.
fn column_of_metric(line: &str) -> Option<&str> {
    let line = line.trim();
    let values = line.strip_prefix("values: [").and_then(|rest| rest.split_once(']'));
    let metric = line.strip_prefix("- ").and_then(|rest| rest.split_once(": {"));
    values.or(metric).map(|(column, _)| column)
}

/// Runs the SQL blocks of a page; how many results were compared.
fn run_examples(client: &mut Client, page: &str) -> usize {
    let mut checked = 0;
    for block in blocks(page) {
        for (statement, expected) in statements(block) {
            let row = last_row(client, &statement);
            if !expected.is_empty() {
                assert_eq!(row, expected, "{statement}");
                checked += 1;
            }
        }
    }
    checked
}

/// The SQL blocks of a page.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("```sql\n").skip(1).map(|rest| rest.split_once("```").expect("an open code block").0)
}

/// Statements with the comments that stand behind them.
fn statements(block: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut statement = String::new();
    for line in block.lines() {
        match line.split_once(';') {
            Some((last, rest)) => {
                let expected = rest.trim().trim_start_matches("--").trim();
                all.push((format!("{statement}{last}"), expected.into()));
                statement.clear();
            }
            None => statement.extend([line, "\n"]),
        }
    }
    assert!(statement.trim().is_empty(), "no semicolon behind: {statement}");
    all
}

fn last_row(client: &mut Client, statement: &str) -> String {
    let messages =
        client.simple_query(statement).unwrap_or_else(|error| panic!("{statement}: {}", text(&error)));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let row = rows.last();
    row.map_or_else(String::new, |row| {
        (0..row.len()).map(|at| row.get(at).unwrap_or("")).collect::<Vec<_>>().join(" | ")
    })
}
