//! Compares the reference in docs/reference with the catalogs: it lists all objects for users, and no others.

use std::collections::{BTreeMap, BTreeSet};

use harness::book::{files, quoted, read, rows, section, sections};
use harness::examples::blocks;
use harness::*;

/// The compared properties of all functions of one name.
#[derive(Debug, Default, PartialEq)]
struct Function {
    /// Volatility and result type of each overload.
    forms: BTreeSet<String>,
    arguments: BTreeSet<String>,
    fewest: usize,
    most: usize,
}

impl Function {
    fn add(&mut self, forms: impl IntoIterator<Item = String>, arguments: Vec<String>, required: usize) {
        self.fewest = if self.forms.is_empty() { required } else { self.fewest.min(required) };
        self.most = self.most.max(arguments.len());
        self.forms.extend(forms);
        self.arguments.extend(arguments);
    }
}

type Functions = BTreeMap<String, Function>;

/// The functions of an extension that satisfy a condition.
fn functions_of_the_catalogs(client: &mut Client, extension: &str, condition: &str) -> Functions {
    let query = format!(
        "SELECT p.proname::text,
             CASE p.provolatile WHEN 'v' THEN 'volatile' WHEN 's' THEN 'stable' ELSE 'immutable' END,
             CASE WHEN p.prokind = 'p' OR 'o' = ANY (p.proargmodes) OR 't' = ANY (p.proargmodes) THEN 'row'
                 ELSE pg_get_function_result(p.oid) END,
             coalesce(p.proargnames[1:p.pronargs]::text[], '{{}}'),
             (p.pronargs - p.pronargdefaults)::int
         FROM pg_proc AS p
         JOIN pg_depend AS d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
         JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = $1
         WHERE {condition}"
    );
    let mut functions = Functions::new();
    for row in client.query(&query, &[&extension]).unwrap() {
        let (name, volatility, result): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let required: i32 = row.get(4);
        let form = format!("{volatility} {result}");
        functions.entry(name).or_default().add([form], row.get(3), required as usize);
    }
    functions
}

/// A type as the catalogs spell it. A result that is described in words is a row.
fn spelled_out(result: &str) -> String {
    let Some(name) = quoted(result).next() else { return "row".into() };
    match name {
        "int" => "integer".into(),
        "timestamptz" => "timestamp with time zone".into(),
        _ => name.replace("setof", "SETOF"),
    }
}

/// The functions in tables. For each one with a key, there is another one with the name of a key.
fn functions_of_the_reference(page: &str) -> Functions {
    let mut functions = Functions::new();
    for cells in rows(page) {
        let Some(call) = quoted(cells[0]).next() else { continue };
        add(&mut functions, call, cells[1], cells[2]);
        if call.contains("key bytea") {
            let named = call.replacen('(', "_named(", 1).replace("[, key bytea", ", key_name");
            add(&mut functions, &named.replace("key bytea", "key_name"), cells[1], "stable");
        }
    }
    functions
}

fn add(functions: &mut Functions, call: &str, result: &str, volatilities: &str) {
    let (name, arguments) = call.split_once('(').unwrap_or_else(|| panic!("no function: {call}"));
    let count = |arguments: &str| arguments.split(',').filter(|text| !text.trim().is_empty()).count();
    let required = count(arguments.split(['[', ')']).next().unwrap());
    let arguments = arguments.replace(['[', ']', ')'], "");
    let arguments = arguments.split(',').filter_map(|argument| argument.split_whitespace().next());
    let forms = volatilities.split(", ").map(|volatility| format!("{volatility} {}", spelled_out(result)));
    functions.entry(name.into()).or_default().add(forms, arguments.map(str::to_owned).collect(), required);
}

#[test]
fn objects_and_settings() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    functions(&mut client);
    settings(&mut client);
    views_and_tables(&mut client);
    registry(&mut client);
}

fn functions(client: &mut Client) {
    let functions =
        functions_of_the_catalogs(client, "snowflake_id", "p.pronamespace = 'public'::regnamespace");
    assert_eq!(functions_of_the_reference(&read("docs/reference/functions.md")), functions);

    let pages: String = files("docs", ".md").iter().map(|path| read(path)).collect();
    let examples: String = blocks(&pages).collect();
    for name in functions.keys() {
        assert!(examples.contains(&format!("{name}(")), "{name} has no example");
    }
}

/// Converts times, such as `3 s` to 3000 ms. Returns other values unchanged.
fn in_milliseconds(value: &str) -> String {
    let value = value.trim_matches('`').replace("empty", "");
    let Some((number, unit)) = value.split_once(' ') else { return value };
    let factor = match unit {
        "ms" => 1.0,
        "s" => 1e3,
        "h" => 3_600e3,
        "d" => 86_400e3,
        _ => panic!("which unit is {unit}?"),
    };
    format!("{}", number.parse::<f64>().unwrap() * factor)
}

fn settings(client: &mut Client) {
    let query = "SELECT name, CASE context WHEN 'sighup' THEN 'reload' WHEN 'postmaster' THEN 'restart'
                     WHEN 'user' THEN 'any user' WHEN 'internal' THEN 'never' ELSE context END,
                     CASE context WHEN 'internal' THEN '' ELSE boot_val END, coalesce(min_val || ', ' || max_val, '')
                 FROM pg_settings WHERE name LIKE 'snowflake\\_id.%'";
    let settings = client.query(query, &[]).unwrap();
    let settings: BTreeSet<[String; 4]> =
        settings.iter().map(|row| std::array::from_fn(|column| row.get(column))).collect();

    let page = read("docs/reference/settings.md");
    let documented = sections(&page).filter(|(heading, _)| heading.starts_with("`snowflake_id."));
    let documented: BTreeSet<[String; 4]> = documented
        .map(|(heading, text)| {
            let properties = text.split('*').nth(1).and_then(|text| text.strip_suffix('.')).expect(heading);
            let mut properties = properties.split("; ");
            let changed_by = properties.next().unwrap().to_owned();
            let default = properties.next().map_or("", |text| text.strip_prefix("default ").expect(heading));
            let bounds = properties.next().map(|text| text.strip_prefix("from ").expect(heading));
            let bounds =
                bounds.map(|text| text.split(" to ").map(in_milliseconds).collect::<Vec<_>>().join(", "));
            [
                heading.trim_matches('`').into(),
                changed_by,
                in_milliseconds(default),
                bounds.unwrap_or_default(),
            ]
        })
        .collect();
    assert_eq!(documented, settings);
}

/// The columns of the views and tables of an extension that satisfy a condition: `name.column type`.
fn columns_of_the_catalogs(client: &mut Client, extension: &str, condition: &str) -> BTreeSet<String> {
    let query = format!(
        "SELECT c.relname || '.' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
         FROM pg_class AS c
         JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
         JOIN pg_extension AS e ON e.oid = d.refobjid AND e.extname = $1
         JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         WHERE {condition}"
    );
    client.query(&query, &[&extension]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// The columns in sections whose heading is the name of a view or a table.
fn columns_of_the_reference(page: &str) -> BTreeSet<String> {
    let mut columns = BTreeSet::new();
    for (heading, text) in sections(page) {
        let Some((relation, _)) = heading.strip_prefix('`').and_then(|name| name.split_once('`')) else {
            continue;
        };
        for cells in rows(text).filter(|cells| cells[0].starts_with('`')) {
            for name in quoted(cells[0]) {
                columns.insert(format!("{relation}.{name} {}", spelled_out(cells[1])));
            }
        }
    }
    columns
}

fn views_and_tables(client: &mut Client) {
    let condition = "c.relkind IN ('v', 'r') AND c.relnamespace <> 'snowflake_internal'::regnamespace";
    let columns = columns_of_the_catalogs(client, "snowflake_id", condition);
    assert_eq!(columns_of_the_reference(&read("docs/reference/views.md")), columns);
}

/// Functions for other roles run with the privileges of the owner. `add_server()` creates a role as its caller.
fn registry(client: &mut Client) {
    client.run("CREATE EXTENSION snowflake_id_registry");
    let page = read("docs/reference/registry.md");
    let (_, first_view) = sections(&page).find(|(heading, _)| heading.starts_with('`')).expect("a view");
    let functions = page.split(first_view).next().unwrap();
    let called = "(p.prosecdef OR p.proname = 'add_server') AND p.prorettype <> 'trigger'::regtype";
    let called = functions_of_the_catalogs(client, "snowflake_id_registry", called);
    assert_eq!(functions_of_the_reference(functions), called);

    let columns = columns_of_the_catalogs(client, "snowflake_id_registry", "c.relkind = 'v'");
    assert_eq!(columns_of_the_reference(&page), columns);
}

/// The names of the first release remain forever: nothing is added to the user's schema by accident. All functions are in
/// the reference: see `objects_and_settings`.
#[test]
fn objects_in_the_users_schema() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    let mut members = |catalog: &str, name: &str, condition: &str| -> Vec<String> {
        let query = format!(
            "SELECT o.{name}::text FROM {catalog} AS o
             JOIN pg_depend AS d ON d.classid = '{catalog}'::regclass AND d.objid = o.oid AND d.deptype = 'e'
             JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
             WHERE e.extname = 'snowflake_id' AND {condition} ORDER BY 1"
        );
        client.query(&query, &[]).unwrap().iter().map(|row| row.get(0)).collect()
    };
    let functions = members("pg_proc", "oid::regprocedure", "pronamespace = 'public'::regnamespace");
    assert_eq!(functions.len(), 83, "{functions:#?}");
    let relations = [
        "snowflake_adopt_progress",
        "snowflake_clock_seq_status",
        "snowflake_layout_status",
        "snowflake_mask_keys",
        "snowflake_presets",
        "snowflake_segment_status",
        "snowflake_status",
        "snowflake_watermark_status",
        "snowflake_workers",
    ];
    assert_eq!(members("pg_class", "relname", "relnamespace = 'public'::regnamespace"), relations);
    // Since version 17, row types and arrays are members too.
    let types = "typnamespace = 'public'::regnamespace AND typrelid = 0 AND typelem = 0";
    assert_eq!(members("pg_type", "typname", types), ["snowflake"]);
}

/// The section names exactly the functions that are not both `STRICT` and `PARALLEL SAFE`.
#[test]
fn null_and_parallel_queries() {
    let cluster = Cluster::builder().worker(1).start();
    let mut client = cluster.connect();
    let query = "SELECT DISTINCT proname::text FROM pg_proc
                 WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'snowflake\\_%'
                   AND NOT (proisstrict AND proparallel = 's')";
    let exceptions: BTreeSet<String> =
        client.query(query, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    let page = read("docs/reference/functions.md");
    let named = quoted(section(&page, "NULL and parallel queries"))
        .filter_map(|name| name.strip_suffix("()"))
        .map(str::to_owned)
        .collect();
    assert_eq!(exceptions, named);
}

/// A role that may not take IDs under one name must not take them under the other.
#[test]
fn revocations_name_both_functions() {
    let mut revocations = 0;
    for page in files("docs", ".md") {
        for statement in read(&page).split("REVOKE ").skip(1) {
            let statement = statement.split(';').next().unwrap();
            for name in ["snowflake_next", "snowflake_segment_next"] {
                let [old, new] =
                    [format!("{name}val("), format!("{name}(")].map(|name| statement.contains(&name));
                assert_eq!(old, new, "{page}: {statement}");
                revocations += i32::from(old);
            }
        }
    }
    assert!(revocations > 0);
}

/// The identifiers that follow each `start` in a text.
fn words_after<'a>(text: &'a str, start: &'a str) -> impl Iterator<Item = &'a str> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    text.split(start).skip(1).map(move |rest| rest.split(ends).next().unwrap())
}

/// All conditions that the sources raise, by their names in PostgreSQL.
#[test]
fn errors() {
    let mut raised = BTreeSet::new();
    for path in files("src", ".rs") {
        let codes = read(&path);
        // PL/pgSQL names the conditions of external routines without this prefix.
        let names = words_after(&codes, "ERRCODE_").map(|name| name.trim_start_matches("E_R_I_E_"));
        raised.extend(names.map(str::to_lowercase));
    }
    for path in [files("sql", ".sql"), files("core/src", ".sql")].concat() {
        raised.extend(words_after(&read(&path), "ERRCODE = '").map(str::to_owned));
    }
    raised.remove("warning");
    // End a subtransaction, and are caught there.
    raised.retain(|name| !["SNOW1", "SNOWF"].contains(&&**name));

    let page = read("docs/reference/errors.md");
    let codes: BTreeMap<&str, &str> = rows(section(&page, "SQLSTATEs"))
        .filter_map(|cells| cells[0].split_once(' '))
        .map(|(code, name)| (name.trim_matches('`'), code))
        .collect();
    assert_eq!(codes.keys().copied().collect::<BTreeSet<_>>(), raised.iter().map(String::as_str).collect());

    let cluster = Cluster::builder().start();
    let mut client = cluster.connect();
    for (name, code) in codes {
        let error =
            client.batch_execute(&format!("DO 'BEGIN RAISE EXCEPTION USING ERRCODE = ''{name}''; END'"));
        assert_eq!(error.unwrap_err().code().expect("an error of the server").code(), code, "{name}");
    }
    assert_eq!(single::<i32>(&mut client, "SELECT 1"), 1);
}
