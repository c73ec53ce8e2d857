//! Citus: rows are inserted through the coordinator and through workers, by all ways that Citus has. The nodes are set
//! up by docs/run/platforms.md, and lease their worker IDs from a registry on the coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use harness::book::read;
use harness::citus::{Citus, is_installed, section};
use harness::examples::{blocks, last_row, run_block};
use harness::*;
use postgres::error::SqlState;

const REQUIREMENT: &str =
    "Citus: set PG_CONFIG to the pg_config of an installation of PostgreSQL that has Citus 13";

/// Starts the nodes, and creates the tables of the page.
fn start() -> Option<Citus> {
    needs(REQUIREMENT, is_installed())?;
    let citus = Citus::start();
    assert_eq!(citus.create_tables(), 2);
    Some(citus)
}

/// The rest of the text of a plan, one line each.
fn plan(client: &mut Client, query: &str) -> String {
    let rows = client.query(&format!("EXPLAIN (COSTS off) {query}"), &[]).unwrap();
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}

/// The worker IDs in the IDs of a table.
fn workers(client: &mut Client, table: &str) -> BTreeSet<i64> {
    // The accessors would run on other nodes, with the layouts of these nodes.
    ids(client, &format!("SELECT id FROM {table}")).iter().map(|id| (id >> 12) & 1023).collect()
}

/// What the nodes' copies of a table contain: the same everywhere.
fn copies(client: &mut Client, rows: &str, table: &str) -> i64 {
    let summary = format!("SELECT md5(string_agg({rows}::text, chr(10) ORDER BY id)) FROM {table}");
    let query = "SELECT count(DISTINCT result) FROM run_command_on_all_nodes($1) WHERE success";
    client.query_one(query, &[&summary]).unwrap().get(0)
}

#[test]
#[ignore = "needs Citus: make citus"]
fn all_ways_to_insert() {
    let Some(citus) = start() else { return };
    let own: Vec<i64> = citus.nodes.iter().map(|node| leased_worker(node).into()).collect();
    let mut coordinator = citus.nodes[0].connect();
    coordinator.run(
        "CREATE TABLE staging (tenant_id bigint PRIMARY KEY, page text);
         SELECT create_distributed_table('staging', 'tenant_id', colocate_with => 'visits');
         INSERT INTO staging SELECT n, 'page ' || n FROM generate_series(1, 1000) AS n",
    );
    let mut rows = 2; // Those of the page.
    for (node, server) in citus.nodes.iter().take(2).enumerate() {
        let mut client = server.connect();
        client.run("INSERT INTO orders (item) VALUES ('single'); INSERT INTO orders (item) VALUES ('a'), ('b'), ('c')");
        let insert = |client: &mut Client, method: &str, select: &str| {
            let insert = format!("INSERT INTO orders (item) {select}");
            assert!(plan(client, &insert).contains(method), "{}", plan(client, &insert));
            client.run(&insert);
        };
        insert(&mut client, "pull to coordinator", "SELECT n::text FROM generate_series(1, 1000) AS n");
        let repartitioned = "INSERT/SELECT method: repartition";
        insert(&mut client, repartitioned, "SELECT page FROM staging");
        client.run("COPY orders (item) FROM PROGRAM 'seq 1000'");
        // From the sixth execution on with a generic plan.
        let statement = client.prepare("INSERT INTO orders (item) VALUES ($1) RETURNING id").unwrap();
        let given: Vec<i64> =
            (0..10).map(|n| client.query_one(&statement, &[&n.to_string()]).unwrap().get(0)).collect();
        assert_increasing(&given);
        client.run("BEGIN; INSERT INTO orders (item) VALUES ('lost'); ROLLBACK");
        rows += 1 + 3 + 3 * 1000 + 10;
        assert_eq!(single::<i64>(&mut client, "SELECT count(*) FROM orders"), rows, "node {node}");
        assert!(given.iter().all(|id| (id >> 12) & 1023 == own[node]));

        // By tenant: the same, although the rows stay on their shard.
        let visits = "INSERT INTO visits (tenant_id, page) SELECT tenant_id + 1, page FROM staging";
        assert!(plan(&mut client, visits).contains(repartitioned));
        client.run(visits);
        let visits = "INSERT INTO visits (tenant_id, page) SELECT tenant_id, page FROM staging";
        assert!(plan(&mut client, visits).contains(repartitioned));
        client.run(visits);
        // The only query that Citus pushes down is one without the default.
        let pushed = format!(
            "INSERT INTO visits (tenant_id, id, page) SELECT tenant_id, {node}, page FROM staging WHERE tenant_id < 9"
        );
        assert!(plan(&mut client, &pushed).contains("Insert on visits"), "{}", plan(&mut client, &pushed));

        client.run(
            "INSERT INTO readings (value) VALUES (1), (2); COPY readings (value) FROM PROGRAM 'seq 100';
             INSERT INTO readings (value) SELECT tenant_id FROM staging;
             INSERT INTO kinds (name) VALUES ('x'), ('y'); COPY kinds (name) FROM PROGRAM 'seq 100';
             INSERT INTO kinds (name) SELECT page FROM staging LIMIT 20",
        );
        for update in
            ["UPDATE orders SET id = snowflake_nextval()", "UPDATE kinds SET id = snowflake_nextval()"]
        {
            let (state, message) = failure(&mut client, update);
            assert!(state == "0A000" && message.contains("must not be VOLATILE"), "{state}: {message}");
        }
    }
    let mut all = Vec::new();
    for (table, count) in [("orders", rows), ("visits", 4000), ("readings", 2 * 1102), ("kinds", 2 * 122)] {
        let found = ids(&mut coordinator, &format!("SELECT id FROM {table}"));
        assert_eq!(found.len() as i64, count, "{table}");
        all.extend(found);
    }
    assert_distinct(&all);
    println!("{} IDs, all different", all.len());
    // Workers generate the IDs when rows are repartitioned.
    assert_eq!(workers(&mut coordinator, "orders"), own.iter().copied().collect());
    assert_eq!(copies(&mut coordinator, "kinds", "kinds"), 1);
}

/// The condition reaches the index of each shard, also below partitions.
#[test]
#[ignore = "needs Citus: make citus"]
fn time_ranges_use_the_indexes_of_shards() {
    let Some(citus) = start() else { return };
    for node in &citus.nodes[..2] {
        let mut client = node.connect();
        client.run(
            "COPY orders (item) FROM PROGRAM 'seq 20000'; COPY readings (value) FROM PROGRAM 'seq 20000'",
        );
        client.run("SET citus.explain_all_tasks = on");
        for table in ["orders", "readings"] {
            let query = format!("SELECT id FROM {table} WHERE snowflake_since(id, now() + interval '1 min')");
            let plan = plan(&mut client, &query);
            let tasks = plan.matches("->  Task").count();
            assert_eq!(tasks, 32, "{plan}");
            assert!(plan.matches("Index Cond: (id >= snowflake_min_id(").count() >= tasks, "{plan}");
            assert!(!plan.contains("Seq Scan") && !plan.contains("Filter"), "{plan}");
        }
    }
}

/// `COPY` inserts into the shards in bulk. The IDs arrive there as values, so no default is involved.
#[test]
#[ignore = "needs Citus: make citus"]
fn copy_inserts_in_bulk() {
    let Some(citus) = start() else { return };
    for node in &citus.nodes[..2] {
        let mut worker = citus.nodes[1].connect_to("template1");
        worker.run("CREATE EXTENSION IF NOT EXISTS pg_walinspect");
        let start: String = single(&mut worker, "SELECT pg_current_wal_insert_lsn()::text");
        node.connect().run("COPY orders (item) FROM PROGRAM 'seq 20000'");
        let records = |worker: &mut Client, kind: &str| -> i64 {
            let query = "SELECT coalesce(sum(count), 0)::bigint
                         FROM pg_get_wal_stats($1::text::pg_lsn, pg_current_wal_flush_lsn(), true) AS s (kind, count)
                         WHERE kind LIKE $2";
            worker.query_one(query, &[&start, &kind]).unwrap().get(0)
        };
        let in_bulk = records(&mut worker, "Heap2/MULTI_INSERT%");
        let one_by_one = records(&mut worker, "Heap/INSERT%");
        assert!(in_bulk > 16 && one_by_one < 500, "{in_bulk} in bulk, {one_by_one} one by one");
    }
}

/// IDs with sequence 0 are distributed evenly, without `sequence_spread`.
#[test]
#[ignore = "needs Citus: make citus"]
fn ids_with_sequence_zero_are_distributed_evenly() {
    let Some(citus) = start() else { return };
    let query = "SELECT count(*) FROM (
                     SELECT snowflake_min_id(now() - n * interval '1 s') AS id FROM generate_series(1, 32000) AS n
                 ) AS all_ids GROUP BY get_shard_id_for_distribution_column('orders', id)";
    let counts = ids(&mut citus.nodes[0].connect(), query);
    println!("rows in a shard: {:?} to {:?}", counts.iter().min(), counts.iter().max());
    assert!(counts.len() == 32 && counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
}

/// The rest of the page, as it is written: a node is added and shards are moved, a worker is lost and its standby is
/// promoted, all while clients insert through the coordinator and through a worker.
#[test]
#[ignore = "needs Citus: make citus"]
fn nodes_are_added_moved_and_lost_under_load() {
    let Some(mut citus) = start() else { return };
    citus.start_node();
    let standby = citus.start_standby(2);
    citus.nodes[2].replicate_synchronously();
    let lost = leased_worker(&citus.nodes[2]);
    let got = Mutex::new(BTreeMap::<usize, Vec<i64>>::new());
    let wait_for_rows = || {
        for node in 0..2 {
            let count = || got.lock().unwrap().get(&node).map_or(0, Vec::len);
            let wanted = count() + 500;
            eventually("more rows", || count() >= wanted);
        }
    };
    let insert = "INSERT INTO orders (item) VALUES ('one'), ('two') RETURNING id";
    let mut taken = ids(&mut citus.nodes[2].connect(), insert);
    let inserting = [0, 1, 0, 1].map(|node| {
        let (server, got) = (&citus.nodes[node], &got);
        move |stop: &AtomicBool| insert_until(server, node, got, stop)
    });
    beside(inserting, || {
        wait_for_rows();
        for block in blocks(section("Adding and moving nodes")) {
            citus.run(block);
        }
        leased_worker(&citus.nodes[3]);
        wait_for_rows();
        taken.extend(ids(&mut citus.nodes[3].connect(), insert));
        taken.extend(ids(&mut citus.nodes[2].connect(), insert));
        kill_server(&citus.nodes[2]);
        standby.promote();
        for block in blocks(section("A lost worker")) {
            assert_eq!(citus.run(block), 1);
        }
        wait_for_rows();
    });
    let mut coordinator = citus.nodes[0].connect();
    let shards =
        "SELECT string_agg(DISTINCT nodename, ' ') FROM citus_shards WHERE table_name = 'orders'::regclass";
    println!("shards are on {}", single::<String>(&mut coordinator, shards));
    let count = "SELECT count(DISTINCT nodename) FROM citus_shards WHERE table_name = 'orders'::regclass";
    assert_eq!(single::<i64>(&mut coordinator, count), 3, "no shard was moved to the new node");
    // The promoted worker generates IDs, under a worker ID of its own.
    assert_ne!(leased_worker(&standby), lost);
    taken.extend(ids(&mut standby.connect(), insert));

    eventually("transactions to be recovered", || {
        single::<i64>(&mut coordinator, "SELECT recover_prepared_transactions()::bigint") == 0
    });
    taken.extend(got.into_inner().unwrap().into_values().flatten());
    assert_distinct(&taken);
    let stored: BTreeSet<i64> = ids(&mut coordinator, "SELECT id FROM orders").into_iter().collect();
    assert_eq!(stored.len() as i64, single::<i64>(&mut coordinator, "SELECT count(*) FROM orders"));
    assert!(taken.iter().all(|id| stored.contains(id)), "a row is missing");
    let workers = workers(&mut coordinator, "orders");
    println!("{} rows under the worker IDs {workers:?}", stored.len());
    assert_eq!(workers.len(), 5);

    // The last limit of the page.
    coordinator.run("INSERT INTO kinds (name) SELECT generate_series(1, 100)");
    run_block(&mut coordinator, &read("docs/examples/platforms/citus-new-column.sql"));
    assert_eq!(copies(&mut coordinator, "public_id", "kinds"), 1);
    coordinator.run("ALTER TABLE kinds ADD COLUMN other bigint DEFAULT snowflake_nextval()");
    assert!(copies(&mut coordinator, "other", "kinds") > 1, "the warning about new columns is out of date");
    println!(
        "{}",
        plan(&mut coordinator, "SELECT * FROM orders WHERE snowflake_since(id, now() - interval '1 hour')")
    );
}

/// Inserts rows through a node, and notes the IDs that it returns. Continues after the errors that a lost worker causes.
fn insert_until(server: &Cluster, node: usize, got: &Mutex<BTreeMap<usize, Vec<i64>>>, stop: &AtomicBool) {
    let statements = [
        "INSERT INTO orders (item) VALUES ('one') RETURNING id",
        "INSERT INTO orders (item) VALUES ('one'), ('two'), ('three') RETURNING id",
        "INSERT INTO orders (item) SELECT 'many' FROM generate_series(1, 20) RETURNING id",
    ];
    let mut client = server.connect();
    client.run("SET statement_timeout = '20s'");
    for statement in statements.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        match client.query(*statement, &[]) {
            Ok(rows) => {
                let taken = rows.iter().map(|row| row.get::<_, i64>(0));
                got.lock().unwrap().entry(node).or_default().extend(taken);
            }
            Err(error) => {
                assert_ne!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "{}", text(&error));
                if client.is_closed() {
                    client = server.connect();
                }
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The reason for the limit: the coordinator's watermark passes a row that its worker has prepared but not committed.
/// Events in a local table are below the watermark as soon as they are visible.
#[test]
#[ignore = "needs Citus: make citus"]
fn the_watermark_does_not_cover_distributed_tables() {
    let Some(citus) = start() else { return };
    citus.nodes[0].change("citus.recover_2pc_interval", "-1");
    let mut client = citus.nodes[0].connect();
    client.run("CREATE TABLE outbox (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), what text)");
    let waiting =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE 'COMMIT%'";
    citus.nodes[0].lose_the_standby();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = citus.nodes[0].connect();
            writer.run("BEGIN; INSERT INTO outbox (what) VALUES ('event')");
            writer.run("INSERT INTO orders (item) SELECT generate_series(1, 200)");
            writer.run("COMMIT");
        });
        // All workers have prepared their part, and the coordinator is about to commit.
        eventually("the commit", || single::<i64>(&mut client, waiting) == 1);
        kill_server(&citus.nodes[1]);
        citus.nodes[0].change("synchronous_standby_names", "");
        writer.join().unwrap();
    });
    citus.nodes[1].start_server();
    let mut client = citus.nodes[0].connect();
    wait_for_first_id(&mut client);
    let event = "SELECT count(*) FROM outbox WHERE id < (SELECT snowflake_watermark())";
    eventually("the event", || single::<i64>(&mut client, event) == 1);
    let watermark: i64 = single(&mut client, "SELECT snowflake_watermark()");
    let rows = format!("SELECT count(*) FROM orders WHERE id < {watermark}");
    assert!(single::<i64>(&mut client, &rows) < 202, "the worker has committed");
    assert!(single::<i64>(&mut client, "SELECT recover_prepared_transactions()::bigint") >= 1);
    // A reader that continues at the watermark has skipped these rows.
    assert_eq!(single::<i64>(&mut client, &rows), 202);
}

/// Another limit: a session's layout does not reach the workers.
#[test]
#[ignore = "needs Citus: make citus"]
fn the_layout_of_a_session_is_unknown_to_the_workers() {
    let Some(citus) = start() else { return };
    let mut client = citus.nodes[0].connect();
    client.run(
        "INSERT INTO visits (tenant_id) SELECT generate_series(1, 100);
         TRUNCATE orders;
         SET snowflake_id.layout = 'js53'",
    );
    client.run("INSERT INTO orders (item) VALUES ('js53')");
    client.run("INSERT INTO orders (item) SELECT 'standard' FROM visits");
    let recent =
        "SELECT string_agg(DISTINCT item, ' ') FROM orders WHERE snowflake_since(id, now() - interval '1 h'";
    assert_eq!(last_row(&mut client, &format!("{recent})")), "standard");
    assert_eq!(last_row(&mut client, &format!("{recent}, 'js53') AND id < 9007199254740992")), "js53");
}

/// Tables that have a sequence are moved over before they are distributed, or by the commands of the page.
#[test]
#[ignore = "needs Citus: make citus"]
fn tables_with_a_sequence() {
    let Some(citus) = start() else { return };
    let mut client = citus.nodes[0].connect();
    client.run(
        "CREATE TABLE local (id bigserial PRIMARY KEY, what text);
         INSERT INTO local (what) SELECT generate_series(1, 10);
         SELECT snowflake_adopt('local', 'id', dry_run => false);
         SELECT create_distributed_table('local', 'id');
         CREATE TABLE customers (id bigserial PRIMARY KEY, what text);
         SELECT create_distributed_table('customers', 'id');
         CREATE TABLE notes (tenant_id bigint, id bigserial, what text, PRIMARY KEY (tenant_id, id));
         SELECT create_distributed_table('notes', 'tenant_id');
         INSERT INTO customers (what) SELECT generate_series(1, 10);
         INSERT INTO notes (tenant_id, what) SELECT n, n FROM generate_series(1, 10) AS n",
    );
    for table in ["customers", "notes"] {
        let (_, message) =
            failure(&mut client, &format!("SELECT snowflake_adopt('{table}', 'id', dry_run => false)"));
        assert!(message.contains("Altering a distributed sequence is currently not supported"), "{message}");
    }
    let (_, message) =
        failure(&mut client, "ALTER TABLE customers ALTER COLUMN id SET DEFAULT snowflake_nextval()");
    assert!(message.contains("involving partition column"), "{message}");
    run_block(&mut client, &read("docs/examples/platforms/citus-sequences.sql"));
    for node in &citus.nodes[..2] {
        node.connect().run(
            "INSERT INTO local (what) VALUES ('new'); INSERT INTO customers (what) VALUES ('new');
             INSERT INTO notes (tenant_id, what) VALUES (1, 'new')",
        );
    }
    for table in ["local", "customers", "notes"] {
        let query = format!(
            "SELECT count(*), count(*) FILTER (WHERE snowflake_since(id, now() - interval '1 h')) FROM {table}"
        );
        assert_eq!(last_row(&mut client, &query), "12 | 2", "{table}");
    }
}

/// Prints the CPU time of all nodes for inserting rows with this default, relative to a sequence.
#[test]
#[ignore = "needs Citus: make citus"]
fn cpu_time_of_rows() {
    const ROUNDS: usize = 3;
    let Some(citus) = start() else { return };
    citus.nodes[0].connect().run(
        "CREATE TABLE numbered (id bigserial PRIMARY KEY, item text);
         SELECT create_distributed_table('numbered', 'id');
         CREATE TABLE staging (id bigint PRIMARY KEY, item text);
         SELECT create_distributed_table('staging', 'id');
         INSERT INTO staging SELECT n, n FROM generate_series(1, 50000) AS n",
    );
    let mut clients = [0, 1].map(|node| citus.nodes[node].connect());
    let select = "INSERT INTO $ (item) SELECT item FROM staging";
    let more = "INSERT INTO $ (item) SELECT item FROM staging, generate_series(1, 10)";
    for (what, setting, statement, times) in [
        ("INSERT of one row", "on", "INSERT INTO $ (item) VALUES ('x')", 1500),
        ("COPY of 50,000 rows", "on", "COPY $ (item) FROM PROGRAM 'seq 50000'", 1),
        ("INSERT .. SELECT of 50,000 rows", "on", select, 1),
        ("the same without repartitioning", "off", select, 1),
        ("INSERT .. SELECT of 500,000 rows", "on", more, 1),
        ("the same without repartitioning", "off", more, 1),
    ] {
        for (place, client) in ["coordinator", "worker"].iter().zip(&mut clients) {
            client.run(&format!("SET citus.enable_repartitioned_insert_select = {setting}"));
            let mut spent = [vec![], vec![]];
            for round in 0..=ROUNDS {
                for (table, spent) in ["numbered", "orders"].iter().zip(&mut spent) {
                    let statement = statement.replace('$', table);
                    let before = cpu_time(&citus);
                    (0..times).for_each(|_| client.run(&statement));
                    // The first round fills caches.
                    if round > 0 {
                        spent.push(cpu_time(&citus) - before);
                    }
                }
            }
            let [sequence, default] = spent.map(|mut spent| {
                spent.sort();
                spent[ROUNDS / 2].as_secs_f64()
            });
            client.run("TRUNCATE numbered, orders");
            let ratio = default / sequence;
            println!(
                "{what} through the {place}: {default:.2} s, bigserial {sequence:.2} s, ratio {ratio:.2}"
            );
        }
    }
}

/// The CPU time that the processes of all nodes have used, including ended processes.
fn cpu_time(citus: &Citus) -> Duration {
    let spent = |node: &Cluster| -> u64 {
        let fields = |pid: i32| {
            // A process may have ended. Its time is then in that of the postmaster.
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
            let fields: Vec<u64> =
                fields.split_whitespace().skip(11).take(4).map(|field| field.parse().unwrap()).collect();
            fields.iter().sum::<u64>()
        };
        processes(node).into_iter().map(fields).sum()
    };
    Duration::from_millis(10 * citus.nodes.iter().map(spent).sum::<u64>())
}
