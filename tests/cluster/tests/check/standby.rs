//! `snowflake_check()` on a standby: tables are checked, and settings are compared with what the primary has used.

use harness::check::*;
use harness::*;

#[test]
fn settings_of_a_standby() {
    let primary = Cluster::builder().worker(3).set("fsync", "on").start();
    let mut client = primary.connect();
    wait_for_first_id(&mut client);
    let standby = primary.start_standby(&[("fsync", "on")]);
    let mut there = standby.connect();
    assert_healthy(&mut there);

    standby.change_for(&mut there, "snowflake_id.worker_id", "4");
    let problem = only_problem(&mut there);
    assert_eq!(problem.problem, "this standby has another worker ID than the primary");
    assert!(problem.detail.contains("is 3 of datacenter 0"), "{problem:?}");
    problem.follow_hint(&mut there);
    eventually("the reload", || problems(&mut there).is_empty());

    there.run("ALTER SYSTEM RESET snowflake_id.worker_id");
    standby.change_for(&mut there, "snowflake_id.worker_id", "-1");
    let problem = only_problem(&mut there);
    assert_eq!(problem.problem, "this standby has no worker ID for a promotion");
    // A row of the primary is replicated.
    let name: String = status(&mut there, "node_name");
    client.execute("INSERT INTO snowflake_workers (node_name, worker_id) VALUES ($1, 3)", &[&name]).unwrap();
    eventually("the row", || problems(&mut there).is_empty());
    // The primary has another row, so the standby is meant to have another worker ID.
    client.execute("UPDATE snowflake_workers SET worker_id = 5 WHERE node_name = $1", &[&name]).unwrap();
    all_arrive("the row", || {
        let workers = ids(&mut there, "SELECT worker_id::bigint FROM snowflake_workers");
        (workers == [5]).then_some(())
    });
    assert!(problems(&mut there).is_empty());
    client.run("DELETE FROM snowflake_workers");

    // The primary has used another worker ID in the meantime. Which one it uses now is not recorded.
    for worker in ["77", "3"] {
        primary.change("snowflake_id.worker_id", worker);
        eventually("the worker ID", || status::<i32>(&mut client, "worker_id").to_string() == worker);
        some_ids(&primary);
    }
    standby.change_for(&mut there, "snowflake_id.worker_id", "4");
    let problem = eventually("the records", || {
        problems(&mut there).into_iter().find(|row| row.detail.contains("is 77 of datacenter 0"))
    });
    assert!(!problem.hint.contains("77") && problem.hint.ends_with("as on the primary."), "{problem:?}");
    standby.change_for(&mut there, "snowflake_id.worker_id", "3");
    eventually("the worker ID", || problems(&mut there).is_empty());

    client.run(
        "CREATE TABLE orders (id int DEFAULT snowflake_nextval());
         CREATE TABLE posts (id bigint DEFAULT snowflake_nextval());
         INSERT INTO posts VALUES (snowflake_encode(now(), 1, 1, 'twitter'));
         CREATE UNLOGGED TABLE notes (id bigint DEFAULT snowflake_nextval())",
    );
    let found = all_arrive("the tables", || {
        let found: Vec<_> = problems(&mut there).into_iter().map(|row| row.problem).collect();
        (found.len() >= 2).then_some(found)
    });
    assert_eq!(
        found,
        [
            "column id of table public.orders cannot hold IDs",
            "column id of table public.posts contains IDs of another layout"
        ]
    );
    client.run("DROP TABLE orders, posts");
    eventually("the end of the tables", || problems(&mut there).is_empty());
    standby.promote();
    eventually("the promotion", || problems(&mut there).is_empty() && server_state(&mut there) == "ready");
}
