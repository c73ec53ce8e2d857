//! The procedures of docs/apps/without-the-library.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use harness::book::of_test;
use harness::examples::{blocks, run_block};
use harness::installation::copied_installation;
use harness::*;

static PAGE: LazyLock<String> = LazyLock::new(|| of_test("without_the_library"));
const ALL_IDS: &str = "SELECT id FROM orders ORDER BY ctid";

/// A command of the page, which must be on it as it is run here.
fn on_the_page(line: &str) -> &str {
    assert!(PAGE.contains(line), "{line}");
    line
}

/// Writes the script for a worker ID to a file on another server.
fn write_script(from: &Cluster, to: &Cluster, worker: u32) -> PathBuf {
    let query =
        on_the_page("SELECT snowflake_generator_sql('standard', 5)").replace("5", &worker.to_string());
    on_the_page("psql -At -c \"SELECT snowflake_generator_sql('standard', 5)\" shop > generator.sql");
    let output = successful(from.client_program("psql").args(["-X", "-At", "-c", &query, "postgres"]));
    to.write_private(&format!("generator{worker}.sql"), std::str::from_utf8(&output.stdout).unwrap())
}

/// Creates the database and its ordinary owner, who also runs the script, and the role that inserts rows.
fn create_shop(server: &Cluster) {
    let mut client = server.connect();
    client.run("CREATE ROLE generator LOGIN; CREATE ROLE app LOGIN");
    client.run("CREATE DATABASE shop OWNER generator");
}

/// Runs the script as the owner of the database.
fn run_script(server: &Cluster, script: &Path) {
    on_the_page(
        "PGOPTIONS='-c search_path=ids' psql --single-transaction -v ON_ERROR_STOP=1 -f generator.sql",
    );
    let mut psql = server.client_program("psql");
    psql.args(["-X", "--username=generator", "--single-transaction", "-v", "ON_ERROR_STOP=1", "-f"]);
    successful(psql.arg(script).arg("shop").env("PGOPTIONS", "-c search_path=ids"));
}

/// Restores a dump of the database on another server, as a role.
fn dump_and_restore(from: &Cluster, to: &Cluster, role: &str) {
    create_shop(to);
    let file = from.host().join("dump.sql");
    successful(from.client_program("pg_dump").arg("--file").arg(&file).arg("shop"));
    let dump = to.write_private("restore.sql", &fs::read_to_string(file).unwrap());
    let mut psql = to.client_program("psql");
    successful(psql.args(["-X", "-U", role, "-v", "ON_ERROR_STOP=1", "-f"]).arg(dump).arg("shop"));
}

/// Inserts rows as role `app`. Returns the IDs of all rows in the order in which they were inserted, which must
/// increase, and the worker ID of the last.
fn insert_more(server: &Cluster, worker: &str) -> (usize, i32) {
    let mut client = server.connect_to("shop");
    client.run("SET SESSION AUTHORIZATION app");
    for _ in 0..20 {
        client.run("INSERT INTO orders (item) VALUES ('more')");
    }
    client.run("RESET SESSION AUTHORIZATION");
    let all = ids(&mut client, ALL_IDS);
    assert_increasing(&all);
    let last = all.last().unwrap();
    (all.len(), single(&mut client, &format!("SELECT {worker}({last})")))
}

#[test]
fn installing_and_moving() {
    let [create, take, extension, to_library, back, drop] = blocks(&PAGE).collect::<Vec<_>>()[..] else {
        panic!("the page has other blocks")
    };
    let without = || Cluster::builder().extensions(&[]);
    let source = Cluster::builder().worker(6).start();

    // Installing it. The database belongs to an ordinary role.
    let managed = without().start();
    create_shop(&managed);
    let mut client = managed.connect_to("shop");
    client.run("SET SESSION AUTHORIZATION generator");
    client.run(on_the_page("CREATE SCHEMA ids"));
    run_script(&managed, &write_script(&source, &managed, 5));
    run_block(&mut client, create);
    assert_eq!(run_block(&mut client, take), 2);
    assert_eq!(insert_more(&managed, "ids.snowflake_worker"), (24, 5));

    // Moving to the library.
    dump_and_restore(&managed, &source, "test");
    let mut client = source.connect_to("shop");
    assert_eq!(insert_more(&source, "ids.snowflake_worker"), (44, 5));
    for block in [extension, to_library] {
        run_block(&mut client, block.strip_prefix("-- moving to the library\n").unwrap());
    }
    assert_eq!(insert_more(&source, "public.snowflake_worker"), (64, 6));
    let different =
        "SELECT count(*) FROM orders, public.snowflake_decode(id) AS a, ids.snowflake_decode(id) AS b
                     WHERE a::text <> b::text";
    assert_eq!(single::<i64>(&mut client, different), 0);

    // Moving back, with a third worker ID.
    run_script(&source, &write_script(&source, &source, 7));
    run_block(&mut client, back.strip_prefix("-- moving back\n").unwrap());
    assert_eq!(insert_more(&source, "ids.snowflake_worker"), (84, 7));
    run_block(&mut client, drop.strip_prefix("-- moving back\n").unwrap());
    let other = without().start();
    dump_and_restore(&source, &other, "test");
    assert_eq!(insert_more(&other, "ids.snowflake_worker"), (104, 7));
}

/// The script as the script of an extension: created by an ordinary role, updated to another worker ID, and dumped.
#[test]
fn as_an_extension() {
    let source = Cluster::builder().start();
    let (_dir, pg_config, extensions) = copied_installation();
    let control = PAGE.split("```text\n").find_map(|text| text.strip_prefix("comment = ")).unwrap();
    let control = format!("comment = {}", control.split_once("```").unwrap().0);
    fs::write(extensions.join("snowflake_generator.control"), control).unwrap();
    for (worker, file) in [(5, "snowflake_generator--5.sql"), (6, "snowflake_generator--5--6.sql")] {
        let script: String =
            single(&mut source.connect(), &format!("SELECT snowflake_generator_sql('standard', {worker})"));
        fs::write(extensions.join(file), script).unwrap();
    }

    let server = Cluster::builder().of(&pg_config).extensions(&[]).start();
    create_shop(&server);
    let mut client = server.connect_to("shop");
    client.run("SET SESSION AUTHORIZATION generator; CREATE SCHEMA ids");
    client.run(on_the_page("CREATE EXTENSION snowflake_generator SCHEMA ids"));
    run_block(&mut client, blocks(&PAGE).next().unwrap());
    assert_eq!(insert_more(&server, "ids.snowflake_worker"), (20, 5));
    client.run(on_the_page("ALTER EXTENSION snowflake_generator UPDATE TO '6'"));
    assert_eq!(insert_more(&server, "ids.snowflake_worker"), (40, 6));

    // The dump contains the values of the sequences: an ID is taken far ahead of the clock.
    client.run("SELECT ids.snowflake_raise_floor(now() + interval '1 hour')");
    let other = Cluster::builder().of(&pg_config).extensions(&[]).start();
    dump_and_restore(&server, &other, "generator");
    let (code, _) = failure(&mut other.connect_to("shop"), "SELECT ids.snowflake_nextval()");
    assert_eq!(code, "55P03");
}
