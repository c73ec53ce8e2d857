//! The procedures of docs/run/replication.md and docs/examples/replication/another_writer.sql, typed as they are while all servers
//! are written to.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::book::{of_test, read};
use harness::examples::{as_blocks, block_at, query_at, run_block};
use harness::*;
use postgres::types::PgLsn;

/// Three servers that lease their worker IDs, and the blocks of the page and of the file.
struct Site {
    fleet: Fleet,
    page: String,
}

impl Site {
    fn new() -> Site {
        let file = read("docs/examples/replication/another_writer.sql");
        Site { fleet: Fleet::start(""), page: of_test("several_writers") + &as_blocks(&file) }
    }

    fn server(&self) -> Cluster {
        self.fleet
            .server()
            .settings(&[
                ("wal_level", "logical"),
                ("max_replication_slots", "20"),
                ("max_logical_replication_workers", "20"),
                ("max_worker_processes", "40"),
            ])
            .start()
    }

    /// Types a block on a server, with the addresses of the servers.
    fn run(&self, server: &Cluster, place: &str, servers: [&Cluster; 3]) {
        let mut block = block_at(&self.page, place).to_owned();
        for (name, server) in NAMES.iter().zip(servers) {
            block = block.replace(&format!("host={name} dbname=shop"), &server.connection_string("test"));
        }
        run_block(&mut server.connect(), &block);
    }

    fn wait_until_ready(&self, server: &Cluster, place: &str) {
        let query = query_at(&self.page, place);
        eventually(place, || single::<bool>(&mut server.connect(), query));
    }

    /// Finds that `beta` lacks a row of the lost server, and inserts it.
    fn repair(&self, alpha: &Cluster, beta: &Cluster, lost_worker: i32, id: i64) {
        let compare = query_at(&self.page, "on server alpha and on server beta");
        let compare = compare.replace("$1", &lost_worker.to_string());
        let rows = |server: &Cluster| -> i64 { single(&mut server.connect(), &compare) };
        assert_eq!(rows(alpha), rows(beta) + 1);
        let block = block_at(&self.page, "on server beta, for a row that only alpha has");
        run_block(&mut beta.connect(), &block.replace("$1, $2)", &format!("{id}, 'late')")));
        assert_eq!(rows(alpha), rows(beta));
    }

    /// Waits until `alpha` has all rows of `beta`.
    fn wait_for_alpha(&self, beta: &Cluster) {
        let mut client = beta.connect();
        let position = query_at(&self.page, "on server beta, the position that alpha has to reach");
        let position: PgLsn = single(&mut client, position);
        let query = query_at(&self.page, "on server beta, until alpha has reached it");
        eventually("alpha", || client.query_one(query, &[&position]).unwrap().get::<_, bool>(0));
    }
}

/// Types a block of the page, written for rows of `beta` on `alpha`, for two other servers.
pub fn run_for(block: &str, (server, name): (&Cluster, &str), (publisher, from): (&Cluster, &str)) {
    let mut block = renamed(block, name, from);
    for (name, server) in [(name, server), (from, publisher)] {
        block = block.replace(&format!("host={name} dbname=shop"), &server.connection_string("test"));
    }
    run_block(&mut server.connect(), &block);
}

/// A text about `alpha` and `beta`, with two other names. They may be the same names in another order.
pub fn renamed(text: &str, name: &str, from: &str) -> String {
    text.replace("beta", "\u{1}").replace("alpha", name).replace('\u{1}', from)
}

pub const NAMES: [&str; 3] = ["alpha", "beta", "gamma"];

/// Lets clients of the servers insert some rows on each.
pub fn some_rows(servers: &[&Cluster]) {
    servers.iter().for_each(|server| while_issuing(server, 150, Duration::ZERO));
}

/// Inserts and changes rows on the servers during an event. Returns the IDs of the committed rows.
pub fn written(servers: &[&Cluster], table: &str, event: impl FnOnce()) -> Vec<i64> {
    let clients = servers.iter().flat_map(|server| {
        [1, 7].map(|rows| {
            move |stop: &AtomicBool| {
                let mut client = server.connect();
                let columns = if table == "orders" { "item" } else { "name" };
                let insert = format!(
                    "INSERT INTO {table} ({columns}) SELECT n::text FROM generate_series(1, {rows}) AS n RETURNING id"
                );
                let mut mine = vec![];
                while !stop.load(Ordering::Relaxed) {
                    let inserted = ids(&mut client, &insert);
                    client
                        .execute(&format!("UPDATE {table} SET {columns} = 'changed' WHERE id = $1"), &[&inserted[0]])
                        .unwrap();
                    mine.extend(inserted);
                    thread::sleep(Duration::from_millis(2));
                }
                mine
            }
        })
    });
    let (written, ()) = beside(clients, event);
    written.concat()
}

/// Waits until all servers have the same rows, and checks that these include the given ones.
pub fn assert_same_rows(servers: &[&Cluster], table: &str, all: &[i64]) {
    assert_distinct(all);
    let expected: BTreeSet<i64> = all.iter().copied().collect();
    for server in servers {
        let mut client = server.connect();
        let query = format!("SELECT id FROM {table}");
        all_arrive("all rows", || ids(&mut client, &query).len() >= all.len());
        let found: BTreeSet<i64> = ids(&mut client, &query).into_iter().collect();
        assert_eq!(found, expected);
    }
    let digest = format!("SELECT md5(string_agg({table}::text, ',' ORDER BY id)) FROM {table}");
    let digests = || -> BTreeSet<String> {
        servers.iter().map(|server| single(&mut server.connect(), &digest)).collect()
    };
    all_arrive("the changes", || digests().len() == 1);
}

#[test]
fn rows_are_written_on_all_servers() {
    if major(&pg_config()) < 16 {
        println!("there is no parameter origin");
        return;
    }
    let site = Site::new();
    let (alpha, beta) = (site.server(), site.server());
    let all = [&alpha, &beta, &beta];
    for server in [&alpha, &beta] {
        site.run(server, "on each server", all);
    }
    site.run(&alpha, "on server alpha", all);
    site.run(&beta, "on server beta", all);
    let mut orders = written(&[&alpha, &beta], "orders", || some_rows(&[&alpha, &beta]));
    assert_same_rows(&[&alpha, &beta], "orders", &orders);

    // A table that has rows.
    alpha.connect().run(
        "CREATE TABLE customers (id bigserial PRIMARY KEY, name text);
         INSERT INTO customers (name) SELECT n::text FROM generate_series(1, 1000) AS n",
    );
    site.run(&alpha, "on server alpha, which has the rows", all);
    let mut customers = written(&[&alpha], "customers", || {
        wait_for_rows(&alpha, "customers", 50);
        site.run(&beta, "on server beta, with an empty table", all);
        site.wait_until_ready(&beta, "on server beta, until the result is true");
    });
    customers.extend(1..=1000);
    site.run(&beta, "on server beta, which has all rows", all);
    site.run(&alpha, "on server alpha, without a copy", all);
    customers.extend(written(&[&alpha, &beta], "customers", || {
        some_rows(&[&alpha, &beta]);
    }));
    assert_same_rows(&[&alpha, &beta], "customers", &customers);

    // A new server, then one that replaces it after its loss. Meanwhile, alpha is written to.
    let mut gamma: Option<Cluster> = None;
    for round in 0..2 {
        if let Some(lost) = gamma.take() {
            // A row that only alpha receives.
            beta.connect().run("ALTER SUBSCRIPTION beta_from_gamma DISABLE");
            let last = ids(&mut lost.connect(), "INSERT INTO orders (item) VALUES ('late') RETURNING id");
            let received = format!("SELECT count(*) > 0 FROM orders WHERE id = {}", last[0]);
            all_arrive("the row", || single::<bool>(&mut alpha.connect(), &received));
            let worker = leased_worker(&lost);
            lost.stop_server("immediate");
            drop(lost);
            site.repair(&alpha, &beta, worker, last[0]);
            orders.extend(last);
            for (server, place) in
                [(&alpha, "on server alpha, if gamma was lost"), (&beta, "on server beta, if gamma was lost")]
            {
                site.run(server, place, all);
            }
        }
        let new = gamma.insert(site.server());
        let all = [&alpha, &beta, &*new];
        assert_distinct(&all.map(|server| i64::from(leased_worker(server))));
        site.run(new, "on each server", all);
        new.connect().run(
            "CREATE TABLE customers (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), name text);
             ALTER PUBLICATION app ADD TABLE customers",
        );
        orders.extend(written(&[&alpha], "orders", || {
            site.run(new, "on server gamma, first", all);
            site.wait_for_alpha(&beta);
            site.run(new, "on server gamma, second", all);
            site.wait_until_ready(new, "on server gamma, until the result is true");
        }));
        site.run(&alpha, "on server alpha, when gamma is ready", all);
        site.run(&beta, "on server beta, when gamma is ready", all);
        orders.extend(written(&all, "orders", || some_rows(&all)));
        assert_same_rows(&all, "orders", &orders);
        assert_same_rows(&all, "customers", &customers);
        println!("round {round}: {} rows, no ID repeated", orders.len() + customers.len());
    }
    // While the subscriptions exist, their slots would delay a fast shutdown.
    for server in [&alpha, &beta].into_iter().chain(&gamma) {
        server.stop_server("immediate");
    }
}

/// Publications FOR ALL TABLES on three servers, in all directions. Rows of the tables of the extension are skipped.
#[test]
fn all_tables_of_three_servers() {
    if major(&pg_config()) < 16 {
        println!("there is no parameter origin");
        return;
    }
    let site = Site::new();
    let servers = [site.server(), site.server(), site.server()];
    let all = servers.each_ref();
    let setup = block_at(&site.page, "on each server").replace("FOR TABLE orders", "FOR ALL TABLES");
    assert!(setup.contains("FOR ALL TABLES"));
    for server in all {
        // The names of roles travel with the rows that are skipped.
        server.connect().run("CREATE ROLE shop");
        run_block(&mut server.connect(), &setup);
    }
    for (server, to) in all.into_iter().zip(NAMES) {
        for (publisher, from) in all.into_iter().zip(NAMES).filter(|(_, from)| *from != to) {
            run_for(block_at(&site.page, "on server alpha"), (server, to), (publisher, from));
        }
    }
    let orders = written(&all, "orders", || {
        all[0].connect().run(
            "INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('beta', 8), ('gamma', 9);
             INSERT INTO snowflake_mask_keys (name, key) VALUES ('orders', '\\x000102030405060708090a0b0c0d0e0f');
             SELECT snowflake_segment_grant('orders', 'shop')",
        );
        some_rows(&all);
    });
    assert_same_rows(&all, "orders", &orders);
    assert_distinct(&all.map(|server| i64::from(leased_worker(server))));
    for server in &all[1..] {
        let own =
            "SELECT (SELECT count(*) FROM snowflake_workers) + (SELECT count(*) FROM snowflake_mask_keys)
                       + (SELECT count(*) FROM snowflake_internal.segment_grant)";
        assert_eq!(single::<i64>(&mut server.connect(), own), 0);
        // Two rows of workers, one of keys, one of grants. They come from alpha alone.
        assert_eq!(server.log().matches("skipping row of another server").count(), 4, "{}", server.log());
    }
    for server in all {
        server.stop_server("immediate");
    }
}
