//! The SQL examples of the README and of the pages in docs/, run as they are.

use std::collections::{BTreeMap, BTreeSet};

use harness::book::{Page, Runner, files, of_test, pages, quoted, read, rows, section, words};
use harness::examples::{blocks, blocks_at, last_row, run_block, run_examples};
use harness::*;

/// A server whose first IDs may come late.
fn server() -> Cluster {
    Cluster::builder().worker(1).short_horizon().set("snowflake_id.max_wait", "1min").start()
}

/// On a server with its registry in the same database.
#[test]
fn examples_of_segments() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run("DROP EXTENSION snowflake_id");
    run_examples(&mut client, &of_test("examples_of_segments"), 16);
}

/// Each site has a registry. Servers get worker IDs and numbers of their site, even if they request others.
#[test]
fn examples_of_several_sites() {
    let page = &of_test("examples_of_several_sites");
    let sites = ["all sites", "site A", "site B"];
    let fleets = sites.map(|site| {
        let registry = Registry::of_both("renew_every => '500ms'").not_started().start(Cluster::builder());
        let place = format!("on the registry of {site}");
        let mine: Vec<&str> = blocks_at(page, &place).collect();
        assert_eq!(mine.len(), 2, "{site}");
        mine.iter().for_each(|block| {
            run_block(&mut registry.connect(), block);
        });
        Fleet { registry }
    });
    assert_eq!(blocks(page).count(), 2 * sites.len());

    let [_, a, b] = &fleets;
    for (fleet, workers, numbers) in [(a, 0..=511, [1, 3]), (b, 512..=1023, [2, 4])] {
        let server = fleet.server().start();
        let worker = leased_worker(&server);
        assert!(workers.contains(&worker), "{worker}");
        let mut client = server.connect();
        assert_eq!(ids(&mut client, "SELECT snowflake_segment_batch('orders', 2)"), numbers);
    }
    let of_b = a.server().set("snowflake_id.worker_id", "600").start();
    assert!((0..=511).contains(&leased_worker(&of_b)));
}

/// GET requests of PostgREST, which are read-only transactions, get no numbers.
#[test]
fn example_of_postgrest() {
    let cluster = segments::single_server().start();
    let mut client = cluster.connect();
    client.run("SELECT snowflake_registry.create_segment('orders')");
    client.run(&read("docs/examples/segments/postgrest.sql"));
    client.run("SET ROLE web");
    assert_eq!(failure(&mut client, "SELECT snowflake_segment_nextval('orders')").0, "42501");
    assert_eq!(single::<i64>(&mut client, "SELECT api.next_order()"), 1);
    client.run("BEGIN READ ONLY");
    assert_eq!(failure(&mut client, "SELECT api.next_order()").0, "25006");
    client.run("ROLLBACK; RESET ROLE; BEGIN READ ONLY");
    // The reason for the check.
    assert_eq!(single::<i64>(&mut client, "SELECT snowflake_segment_nextval('orders')"), 2);
}

/// The README starts with a new server.
#[test]
fn examples_of_the_readme() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run("DROP EXTENSION snowflake_id");
    run_examples(&mut client, &read("README.md"), 1);
}

/// Includes the crash in the sixth step, in which a transaction is lost.
#[test]
fn examples_of_the_tutorial() {
    let page = of_test("examples_of_the_tutorial");
    let (before, after) = page.split_once("stop -m immediate").expect("the tutorial has no crash");
    let cluster = server();
    let mut client = cluster.connect();
    run_examples(&mut client, before, 8);
    client.run("BEGIN");
    let lost: i64 = single(&mut client, "INSERT INTO orders (item) VALUES ('lost') RETURNING id");

    cluster.restart("immediate");
    let mut client = cluster.connect();
    run_examples(&mut client, after, 2);
    assert!(single::<i64>(&mut client, "SELECT snowflake_nextval()") > lost);
}

/// The query that the first pages share with the page about installing, and the other examples of that page.
#[test]
fn the_library_is_appended_to_those_that_are_preloaded() {
    let page = of_test("the_library_is_appended_to_those_that_are_preloaded");
    let (append, others): (Vec<_>, Vec<_>) = blocks(&page).partition(|block| block.contains(r"\gexec"));
    let [append] = append[..] else { panic!("not one query") };
    for (before, after) in [
        ("", "snowflake_id"),
        ("plpgsql", "plpgsql, snowflake_id"),
        ("plpgsql,\"dict_snowball\"", "plpgsql, dict_snowball, snowflake_id"),
        ("snowflake_id, plpgsql", "snowflake_id, plpgsql"),
    ] {
        let cluster = Cluster::builder().set("shared_preload_libraries", before).start();
        run_block(&mut cluster.connect(), append);
        cluster.restart("fast");
        let mut client = cluster.connect();
        assert_eq!(single::<String>(&mut client, "SHOW shared_preload_libraries"), after);
        others.iter().for_each(|block| {
            run_block(&mut client, block);
        });
    }

    let query = append.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    for page in ["README.md", "docs/run/install.md", "docs/start/two-servers.md"] {
        assert!(read(page).contains(&query), "{page} has another query");
    }
}

/// A page that showed the setting with only this library would switch off all others.
#[test]
fn no_page_replaces_the_libraries_that_are_preloaded() {
    for Page { path, text, .. } in pages() {
        assert!(!text.contains("shared_preload_libraries = 'snowflake_id'"), "{path}");
    }
}

/// Run in the keeper's database. The last part gives the server another worker ID.
#[test]
fn examples_for_administrators() {
    let cluster = server();
    let mut client = cluster.connect();
    single::<i64>(&mut client, "SELECT snowflake_nextval()");
    run_examples(&mut client, &of_test("examples_for_administrators"), 1);
}

/// The other parts of the pages, each in a database of its own with the extension, or in a schema of its own in the
/// keeper's database of another server, because both create roles.
#[test]
fn examples_of_the_pages() {
    let [cluster, keeper] = [server(), server()];
    single::<i64>(&mut cluster.connect(), "SELECT snowflake_nextval()");
    cluster.connect().run("CREATE DATABASE empty");
    cluster.connect_to("empty").run("CREATE EXTENSION snowflake_id");
    let mut wrong = Vec::new();
    for Page { path, checked, parts, .. } in pages() {
        println!("{path}");
        let mut compared = 0;
        for (number, part) in parts.iter().enumerate() {
            let place = format!("{path} {number}");
            let mut client = match part.runner {
                Runner::Database => {
                    cluster.connect().run(&format!("CREATE DATABASE \"{place}\" TEMPLATE empty"));
                    cluster.connect_to(&place)
                }
                Runner::Keeper => {
                    let mut client = keeper.connect();
                    client.run(&format!("CREATE SCHEMA \"{place}\"; SET search_path = \"{place}\", public"));
                    client
                }
                Runner::None | Runner::Test(_) | Runner::Make(_) => continue,
            };
            compared += blocks(&part.text).map(|block| run_block(&mut client, block)).sum::<usize>();
        }
        if compared != checked {
            wrong.push(format!("{path}: checked={compared}"));
        }
    }
    assert!(wrong.is_empty(), "the headers of these pages have other numbers:\n{}", wrong.join("\n"));
}

/// What runs a part exists, and reads it.
#[test]
fn no_part_is_left_out() {
    let tests = files("tests/cluster", ".rs").iter().map(|path| read(path)).collect::<String>();
    let makefile = read("Makefile");
    for Page { path, parts, .. } in pages() {
        for part in parts {
            let is_run = match part.runner {
                Runner::None => blocks(&part.text).next().is_none(),
                Runner::Database | Runner::Keeper => blocks(&part.text).next().is_some(),
                Runner::Test(name) => tests.contains(&format!("of_test(\"{name}\")")),
                Runner::Make(target) => {
                    tests.contains(&format!("of_make(\"{target}\")"))
                        && makefile.contains(&format!("\n{target}:"))
                }
            };
            assert!(is_run, "{path}: the examples are not run, or there are none in\n{}", part.text);
        }
    }
}

/// The maximum of all pages for users, and of all pages for contributors.
const BUDGETS: [usize; 2] = [45_000, 20_000];

#[test]
fn no_page_exceeds_its_budget() {
    let mut totals = [0; 2];
    for Page { path, text, budget, .. } in pages() {
        let words = words(&text);
        assert!(words <= budget, "{path}: {words} words, of {budget}");
        totals[usize::from(path.starts_with("docs/design/"))] += words;
    }
    println!("{totals:?} words");
    assert!(totals[0] <= BUDGETS[0] && totals[1] <= BUDGETS[1], "{totals:?} words, of {BUDGETS:?}");
}

/// A term in code that begins a row of a table is explained there. That must be on one page.
#[test]
fn a_fact_is_told_once() {
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // The tables of figures explain nothing.
    let without = ["docs/design/", "docs/concepts/performance.md"];
    let explains = |page: &Page| !without.iter().any(|path| page.path.starts_with(path));
    for Page { path, text, .. } in pages().into_iter().filter(explains) {
        let mut place = String::new();
        for line in text.lines() {
            if line.starts_with('#') {
                // The columns of a view are explained below its name.
                place = quoted(line).map(|name| format!("{name}: ")).collect();
            }
            for term in rows(line).flat_map(|cells| quoted(cells[0]).collect::<Vec<_>>()) {
                told.entry(format!("{place}{term}")).or_default().insert(path.clone());
            }
        }
    }
    let twice: Vec<_> = told.iter().filter(|(_, pages)| pages.len() > 1).collect();
    assert!(told.len() > 500 && twice.is_empty(), "of {} terms, two pages explain {twice:#?}", told.len());
}

/// The page about fleets, from top to bottom: each block begins with a comment that says where it is run. The server is
/// started for the first block that is run on one.
#[test]
fn examples_of_a_fleet() {
    let page = &of_test("examples_of_a_fleet");
    let registry = Cluster::builder().stopped();
    registry.start_server();
    let mut server = None;
    let mut checked = 0;
    for block in blocks(page) {
        let (place, block) = block.split_once('\n').unwrap();
        checked += match place {
            "-- on the registry" => run_block(&mut registry.connect(), block),
            "-- on a server" => {
                let server = server.get_or_insert_with(|| start_server_of(&registry, page));
                run_block(&mut server.connect(), block)
            }
            _ => panic!("where is this run? {place}"),
        };
    }
    assert!(checked >= 3, "only {checked} results were checked");
    assert!(server.is_some());
}

/// The layouts for large fleets have the worker IDs, the rate and the end that the server computes.
#[test]
fn layouts_of_large_fleets() {
    let cluster = server();
    let page = read("docs/run/registry.md");
    let mut compared = 0;
    for cells in rows(section(&page, "How many worker IDs")).skip(1) {
        let layout = quoted(cells[1]).next().expect("a layout");
        let query = format!(
            "SELECT workers, ids_per_second, extract(year FROM exhausted_at) FROM snowflake_describe_layout('{layout}')"
        );
        let shown = [0, 2, 3].map(|at| cells[at].replace(',', "")).join(" | ");
        assert_eq!(last_row(&mut cluster.connect(), &query), shown, "{layout}");
        compared += 1;
    }
    assert!(compared > 3, "only {compared} layouts are compared");
}

/// The page about programs: each block begins with a comment that says where it is run. The client's doctests compile
/// the program.
#[test]
fn examples_of_programs() {
    let page = &of_test("examples_of_programs");
    let registry = super::super::client::program::registry("last_worker => 1023").registry;
    let server = server();
    let mut checked = 0;
    for block in blocks(page) {
        let (place, block) = block.split_once('\n').unwrap();
        checked += match place {
            "-- on the registry" => run_block(&mut registry.connect(), block),
            "-- on a server" => run_block(&mut server.connect(), block),
            _ => panic!("where is this run? {place}"),
        };
    }
    assert!(checked >= 5, "only {checked} results were checked");
    let roles = "SELECT count(*) FROM pg_proc WHERE pronamespace = 'snowflake_registry'::regnamespace
                 AND has_function_privilege('billing', oid, 'EXECUTE')";
    assert_eq!(single::<i64>(&mut registry.connect(), roles), 4);
}

/// The transcript of the protocol, from top to bottom.
#[test]
fn examples_of_the_protocol() {
    let cluster = Cluster::builder().extensions(&[]).start();
    run_examples(&mut cluster.connect(), &of_test("examples_of_the_protocol"), 11);
}

/// A server with the connection string on the page, except that the registry is local.
fn start_server_of(registry: &Cluster, page: &str) -> Cluster {
    let server = Cluster::builder().preload().stopped();
    let mut lines = page.lines().filter_map(|line| line.split_once(" = "));
    let (name, value) =
        lines.find(|(name, _)| *name == "snowflake_id.registry").expect("no connection string");
    let here = format!("host={}", registry.host().display());
    server.configure(&[(name, &value.trim_matches('\'').replace("host=registry1,registry2", &here))]);
    server.start_server();
    server.connect().run("CREATE EXTENSION snowflake_id");
    leased_worker(&server);
    server
}
