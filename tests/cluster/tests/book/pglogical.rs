//! Several writers with pglogical on PostgreSQL 15, by docs/examples/replication/pglogical.sql, with Debian's package.

use harness::book::read;
use harness::examples::{as_blocks, block_at, query_at};
use harness::installation::installation_with;
use harness::*;

use super::several_writers::{NAMES, assert_same_rows, renamed, run_for, some_rows, written};

/// The directory in which `postgresql-15-pglogical` is unpacked: see scripts/test.sh.
const PGLOGICAL: &str = "SNOWFLAKE_ID_PGLOGICAL";

#[test]
fn three_servers_with_pglogical() {
    let installation = installation_with(PGLOGICAL);
    let Some((_dir, pg_config)) = needs("pglogical (Debian: postgresql-15-pglogical)", installation) else {
        return;
    };
    let file = read("docs/examples/replication/pglogical.sql");
    let blocks = as_blocks(&file);
    let fleet = Fleet::start("");
    let lines = file.lines().filter_map(|line| line.strip_prefix("--     "));
    let settings: Vec<_> = lines.map(|line| line.split_once(" = ").unwrap()).collect();
    assert!(settings.len() >= 6, "{settings:?}");
    let server = || {
        let start = fleet.server().of(&pg_config);
        settings
            .iter()
            .fold(start, |server, (name, value)| server.set(name, value.trim_matches('\'')))
            .start()
    };
    let servers = [server(), server(), server()];
    let workers = servers.each_ref().map(|server| i64::from(leased_worker(server)));
    assert_distinct(&workers);
    let all = || servers.iter().zip(NAMES);
    for server in all() {
        run_for(block_at(&blocks, "on server alpha, with its own name on each server"), server, server);
    }
    for server in all() {
        for publisher in all().filter(|(_, from)| *from != server.1) {
            run_for(block_at(&blocks, "on server alpha, for each other server"), server, publisher);
            let query = query_at(&blocks, "on server alpha, until the result is true");
            let query = renamed(query, server.1, publisher.1);
            eventually(&query, || single::<bool>(&mut server.0.connect(), &query));
        }
    }
    let all = servers.each_ref();
    let orders = written(&all, "orders", || some_rows(&all));
    assert_same_rows(&all, "orders", &orders);
    println!("{} rows on three servers, no ID repeated", orders.len());
    for server in all {
        server.stop_server("immediate");
    }
}
