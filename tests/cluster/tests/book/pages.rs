//! The SQL examples of the README and of the pages in docs/, run as they are.

use harness::book::{files, read};
use harness::examples::{blocks, blocks_at, run_block, run_examples};
use harness::*;

/// The pages in docs/ that have examples, and the minimum number of results that each shows.
const PAGES: [(&str, &str, usize); 19] = [
    ("clients", include_str!("../../../../docs/how-to/clients.md"), 2),
    ("clients_javascript", include_str!("../../../../docs/how-to/clients-javascript.md"), 0),
    ("clock_sequence", include_str!("../../../../docs/explanation/clock-sequence.md"), 1),
    ("columns", include_str!("../../../../docs/how-to/columns.md"), 6),
    ("converting_tables", include_str!("../../../../docs/how-to/converting-tables.md"), 7),
    ("copy", include_str!("../../../../docs/how-to/copy.md"), 2),
    ("faq", include_str!("../../../../docs/explanation/faq.md"), 4),
    ("functions", include_str!("../../../../docs/reference/functions.md"), 12),
    ("public_ids", include_str!("../../../../docs/how-to/public-ids.md"), 17),
    ("json", include_str!("../../../../docs/how-to/json.md"), 10),
    ("layouts", include_str!("../../../../docs/reference/layouts.md"), 2),
    ("monitoring", include_str!("../../../../docs/how-to/monitoring.md"), 1),
    ("other_ids", include_str!("../../../../docs/how-to/other-ids.md"), 26),
    ("reading_elsewhere", include_str!("../../../../docs/how-to/reading-elsewhere.md"), 3),
    ("runbooks", include_str!("../../../../docs/how-to/runbooks.md"), 0),
    ("status", include_str!("../../../../docs/reference/states.md"), 0),
    ("text_and_masks", include_str!("../../../../docs/how-to/text-and-masks.md"), 12),
    ("time_ranges", include_str!("../../../../docs/how-to/time-ranges.md"), 5),
    ("troubleshooting", include_str!("../../../../docs/how-to/troubleshooting.md"), 0),
];

/// The pages about moving from other systems, and about choosing.
const PAGES_FROM_ELSEWHERE: [(&str, &str, usize); 9] = [
    ("auto-increment", include_str!("../../../../docs/how-to/from/auto-increment.md"), 7),
    ("baidu", include_str!("../../../../docs/how-to/from/baidu.md"), 7),
    ("leaf", include_str!("../../../../docs/how-to/from/leaf.md"), 7),
    ("redis", include_str!("../../../../docs/how-to/from/redis.md"), 5),
    ("sonyflake", include_str!("../../../../docs/how-to/from/sonyflake.md"), 5),
    ("tinyid", include_str!("../../../../docs/how-to/from/tinyid.md"), 5),
    ("twitter", include_str!("../../../../docs/how-to/from/twitter.md"), 3),
    ("uuid", include_str!("../../../../docs/how-to/from/uuid.md"), 5),
    ("choosing", include_str!("../../../../docs/choosing-an-id-type.md"), 5),
];

/// A server whose first IDs may come late.
fn server() -> Cluster {
    Cluster::builder().worker(1).short_horizon().set("snowflake_id.max_wait", "1min").start()
}

const SEGMENTS: &str = include_str!("../../../../docs/how-to/segments.md");

/// On a server with its registry in the same database. The examples of moving from other systems are run in
/// `registry_segments.rs`.
#[test]
fn examples_of_segments() {
    let cluster = server();
    let mut client = cluster.connect();
    client.run("DROP EXTENSION snowflake_id");
    run_examples(&mut client, SEGMENTS, 10);
}

/// Each site has a registry. Servers get worker IDs and numbers of their site, even if they request others.
#[test]
fn examples_of_several_datacenters() {
    let page = include_str!("../../../../docs/how-to/several-datacenters.md");
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

/// GET requests of PostgREST, which are read-only transactions, get no numbers. `client::numbers_over_http` tests the
/// service of the page.
#[test]
fn examples_of_numbers_over_http() {
    let cluster = segments::single_server().start();
    let mut client = cluster.connect();
    blocks(include_str!("../../../../docs/how-to/numbers-over-http.md")).for_each(|block| client.run(block));
    client.run("SET ROLE web");
    assert_eq!(failure(&mut client, "SELECT snowflake_segment_nextval('orders')").0, "42501");
    assert_eq!(single::<i64>(&mut client, "SELECT api.next_order()"), 1);
    client.run("BEGIN READ ONLY");
    assert_eq!(failure(&mut client, "SELECT api.next_order()").0, "25006");
    client.run("ROLLBACK; RESET ROLE; BEGIN READ ONLY");
    // The reason for the check.
    assert_eq!(single::<i64>(&mut client, "SELECT snowflake_segment_nextval('orders')"), 2);
}

/// The examples of Patroni's page are run by `make fleet-patroni`, and those of the page about Citus by `make citus`. The
/// procedures of the other pages have a test of their own: `changing_keys`, `fleet::moves`, `functions_in_postgresql`,
/// `kubernetes`, `pglogical`, `reading_in_order`, `reading_on_other_servers`, `several_writers`, `switching_servers` and
/// `without_the_library`.
#[test]
fn no_page_is_left_out() {
    let elsewhere = [
        "docs/how-to/changing-keys.md",
        "docs/how-to/citus.md",
        "docs/how-to/from/functions-in-postgresql.md",
        "docs/how-to/kubernetes.md",
        "docs/how-to/moving-a-fleet.md",
        "docs/how-to/patroni.md",
        "docs/how-to/reading-in-order.md",
        "docs/how-to/several-writers.md",
        "docs/how-to/switching-servers.md",
        "docs/how-to/without-the-library.md",
    ];
    for page in files("docs", ".md").iter().filter(|page| !elsewhere.contains(&page.as_str())) {
        let is_run = include_str!("pages.rs").contains(&format!("../{page}\")"));
        assert!(is_run || !read(page).contains("```sql\n"), "the examples of {page} are not run");
    }
}

/// The README and the first page of the book start with a new server.
#[test]
fn examples_of_the_first_pages() {
    for (page, at_least) in
        [(include_str!("../../../../README.md"), 1), (include_str!("../../../../docs/README.md"), 0)]
    {
        let cluster = server();
        let mut client = cluster.connect();
        client.run("DROP EXTENSION snowflake_id");
        run_examples(&mut client, page, at_least);
    }
}

/// Includes the crash in the sixth step, in which a transaction is lost.
#[test]
fn examples_of_the_tutorial() {
    let page = include_str!("../../../../docs/tutorial/fifteen-minutes.md");
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

/// The query that the first pages and the page about packages share.
#[test]
fn the_library_is_appended_to_those_that_are_preloaded() {
    let page = include_str!("../../../../docs/how-to/setting-up.md");
    let append = blocks(page).next().expect("no query");
    for (before, after) in [
        ("", "snowflake_id"),
        ("plpgsql", "plpgsql, snowflake_id"),
        ("plpgsql,\"dict_snowball\"", "plpgsql, dict_snowball, snowflake_id"),
        ("snowflake_id, plpgsql", "snowflake_id, plpgsql"),
    ] {
        let cluster = Cluster::builder().set("shared_preload_libraries", before).start();
        run_block(&mut cluster.connect(), append);
        cluster.restart("fast");
        assert_eq!(single::<String>(&mut cluster.connect(), "SHOW shared_preload_libraries"), after);
    }

    let query = append.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    for page in ["README.md", "docs/README.md", "docs/how-to/packages.md"] {
        assert!(read(page).contains(&query), "{page} has another query");
    }
}

/// Run in the keeper's database. The second page gives the server another worker ID.
#[test]
fn examples_for_administrators() {
    let cluster = server();
    let mut client = cluster.connect();
    single::<i64>(&mut client, "SELECT snowflake_nextval()");
    run_examples(&mut client, include_str!("../../../../docs/how-to/setting-up.md"), 0);
    run_examples(&mut client, include_str!("../../../../docs/how-to/accidents.md"), 1);
}

/// Each page runs in a database of its own with the extension.
#[test]
fn examples_of_the_other_pages() {
    let cluster = server();
    single::<i64>(&mut cluster.connect(), "SELECT snowflake_nextval()");
    cluster.connect().run("CREATE DATABASE empty");
    cluster.connect_to("empty").run("CREATE EXTENSION snowflake_id");
    for (page, text, at_least) in PAGES {
        cluster.connect().run(&format!("CREATE DATABASE {page} TEMPLATE empty"));
        let mut client = cluster.connect_to(page);
        println!("{page}");
        run_examples(&mut client, text, at_least);
    }
}

/// Each page runs in a schema of its own in the keeper's database, because the server looks for segments there.
#[test]
fn examples_of_the_pages_from_elsewhere() {
    let cluster = server();
    for (page, text, at_least) in PAGES_FROM_ELSEWHERE {
        let mut client = cluster.connect();
        client.run(&format!("CREATE SCHEMA \"{page}\"; SET search_path = \"{page}\", public"));
        println!("{page}");
        run_examples(&mut client, text, at_least);
    }
}

/// The page about fleets, from top to bottom: each block begins with a comment that says where it is run. The server is
/// started for the first block that needs one.
#[test]
fn examples_of_a_fleet() {
    let page = include_str!("../../../../docs/how-to/fleet.md");
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

/// The page about programs: each block begins with a comment that says where it is run. The client's doctests compile
/// the program.
#[test]
fn examples_of_programs() {
    let page = include_str!("../../../../docs/how-to/ids-in-the-application.md");
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
    run_examples(&mut cluster.connect(), include_str!("../../../../docs/reference/protocol.md"), 11);
}

/// A server with the lines of `postgresql.conf` on the page, except that the registry is local.
fn start_server_of(registry: &Cluster, page: &str) -> Cluster {
    let server = Cluster::builder().stopped();
    for name in ["shared_preload_libraries", "snowflake_id.registry"] {
        let mut lines = page.lines().filter_map(|line| line.trim_start().split_once(" = "));
        let value = lines.find(|(found, _)| *found == name);
        let value = value.unwrap_or_else(|| panic!("{name} is not on the page")).1.trim_matches('\'');
        let host = registry.host().display().to_string();
        server.configure(&[(name, &value.replace("host=registry1,registry2", &format!("host={host}")))]);
    }
    server.start_server();
    server.connect().run("CREATE EXTENSION snowflake_id");
    leased_worker(&server);
    server
}
