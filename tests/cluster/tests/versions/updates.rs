//! `ALTER EXTENSION .. UPDATE` leads to the same objects as `CREATE EXTENSION` of the new version, and changes no data.

use harness::versions::{BEFORE, CURRENT, Installation, NEXT};
use harness::*;

/// The members of an extension with their definitions, comments and privileges, one object a line.
fn objects(client: &mut Client, extension: &str) -> Vec<String> {
    let query = include_str!("objects.sql");
    client.query(query, &[&extension]).unwrap().iter().map(|row| row.get(0)).collect()
}

/// All versions from which the default version can be reached, and the default version.
fn versions(client: &mut Client, extension: &str) -> (Vec<String>, String) {
    let older = "SELECT version FROM pg_available_extension_versions AS v, pg_available_extensions AS e
                 WHERE v.name = $1 AND e.name = v.name AND version <> default_version ORDER BY version";
    let older = client.query(older, &[&extension]).unwrap().iter().map(|row| row.get(0)).collect();
    let default = "SELECT default_version FROM pg_available_extensions WHERE name = $1";
    (older, client.query_one(default, &[&extension]).unwrap().get(0))
}

/// Whether the registry in a database knows each of the protocols 0 to 2.
fn known_protocols(client: &mut Client) -> Vec<bool> {
    let query = "SELECT array(SELECT protocol BETWEEN lowest AND highest
                              FROM snowflake_registry.protocols(), generate_series(0, 2) AS protocol ORDER BY protocol)";
    single(client, query)
}

/// Each older version is updated in a database of its own.
#[test]
fn an_updated_extension_has_the_objects_of_a_new_one() {
    let installation = Installation::copy();
    installation.add_version_before();
    installation.install_next();
    let server = installation.server().worker(1).extensions(&[]).start();
    let mut admin = server.connect();
    for extension in ["snowflake_id", "snowflake_id_registry"] {
        let (older, newest) = versions(&mut admin, extension);
        assert!(older.iter().any(|version| version == CURRENT), "{older:?}");
        assert_eq!(newest, NEXT);
        let database = format!("fresh_{extension}");
        admin.run(&format!("CREATE DATABASE {database}"));
        let mut client = server.connect_to(&database);
        client.run(&format!("CREATE EXTENSION {extension}"));
        let fresh = objects(&mut client, extension);
        assert!(fresh.len() > 30, "{} objects", fresh.len());
        for version in older {
            let database = format!("\"{extension} {version}\"");
            admin.run(&format!("CREATE DATABASE {database}"));
            let mut client = server.connect_to(database.trim_matches('"'));
            client.run(&format!("CREATE EXTENSION {extension} VERSION '{version}'"));
            if extension == "snowflake_id_registry" {
                assert_eq!(known_protocols(&mut client), [version == BEFORE, version == CURRENT, false]);
            }
            assert_ne!(objects(&mut client, extension), fresh, "{version} does not differ");
            client.run(&format!("ALTER EXTENSION {extension} UPDATE"));
            let updated = objects(&mut client, extension);
            let missing: Vec<_> = fresh.iter().filter(|object| !updated.contains(object)).collect();
            let surplus: Vec<_> = updated.iter().filter(|object| !fresh.contains(object)).collect();
            assert!(missing.is_empty() && surplus.is_empty(), "{version}: {missing:#?} {surplus:#?}");
        }
        if extension == "snowflake_id_registry" {
            assert_eq!(known_protocols(&mut client), [false, true, true]);
        }
    }
}

/// Identity, horizon and grants survive the update, which takes place while clients take IDs. The update is no loss of
/// commits: there is no quarantine.
#[test]
fn both_extensions_are_updated_under_load() {
    let installation = Installation::copy();
    let registry = Registry::of_both("").start(installation.server());
    let mut admin = registry.connect();
    admin.run("SELECT snowflake_registry.create_segment('orders')");
    let server = installation
        .server()
        .preload()
        .set("snowflake_id.registry", registry.connection_string("fleet"))
        .set("snowflake_id.max_wait", "20s")
        .start();
    let worker = leased_worker(&server);
    create_orders(&server);
    let numbers = "SELECT snowflake_segment_batch('orders', 2000)";
    let mut taken = ids(&mut server.connect(), numbers);
    installation.install_next();
    let (handed_out, ()) = under_load(&server, || {
        server.connect().run("ALTER EXTENSION snowflake_id UPDATE");
        admin.run("ALTER EXTENSION snowflake_id_registry UPDATE");
        assert_renewed_now(&server, &registry);
    });
    let mut client = server.connect();
    assert_eq!(single::<i32>(&mut client, "SELECT snowflake_made_up()"), 1);
    assert_eq!(leased_worker(&server), worker);
    taken.extend(ids(&mut client, numbers));
    assert_increasing(&taken);
    let state = "SELECT state FROM snowflake_registry.status";
    assert_eq!(single::<String>(&mut admin, state), "ready");
    assert_eq!(single::<i32>(&mut admin, "SELECT format FROM snowflake_registry.settings"), 2);
    let mut all = handed_out.all();
    all.extend(some_ids(&server));
    assert_distinct(&all);
    let stored = orders(&server);
    assert!(handed_out.rows.iter().all(|id| stored.binary_search(id).is_ok()));
}

/// Where extensions cannot be installed, psql runs the upgrade script, as the role that owns the registry. The commands
/// are those of the page.
#[test]
fn a_registry_without_an_extension_is_updated_by_psql() {
    let installation = Installation::copy();
    installation.install_next();
    let registry = installation.server().extensions(&[]).start();
    let mut admin = registry.connect();
    admin.run(
        "CREATE ROLE ordinary LOGIN; GRANT CREATE ON DATABASE postgres TO ordinary; CREATE ROLE fleet LOGIN",
    );
    // The page names the scripts of releases, in the directory of the package.
    let page = book::read("docs/run/install.md");
    let psql = |begins: &str, script: String| {
        let command = page.lines().find(|line| line.starts_with(begins)).unwrap();
        let (options, _) = command.split_once("--file").unwrap();
        let mut psql = registry.program("psql");
        psql.args(options.split_whitespace().skip(1)).arg("--host").arg(registry.host());
        psql.args(["--username=ordinary", "--dbname=postgres", "--file"]);
        successful(psql.arg(installation.extension_file(&script)));
    };
    psql("psql --no-psqlrc --file", format!("snowflake_id_registry--{CURRENT}.sql"));
    admin.run(
        "SELECT snowflake_registry.start_fleet(0, 1023, first_start => true), snowflake_registry.create_segment('orders');
         GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
         GRANT EXECUTE ON FUNCTION snowflake_registry.acquire, snowflake_registry.renew, snowflake_registry.take TO fleet",
    );
    let server =
        installation.server().preload().set("snowflake_id.registry", registry.connection_string("fleet"));
    let server = server.start();
    let worker = leased_worker(&server);
    let numbers = "SELECT snowflake_segment_batch('orders', 2000)";
    let mut taken = ids(&mut server.connect(), numbers);
    psql("psql --no-psqlrc --single-transaction", format!("snowflake_id_registry--{CURRENT}--{NEXT}.sql"));
    assert_renewed_now(&server, &registry);
    assert_eq!(leased_worker(&server), worker);
    taken.extend(ids(&mut server.connect(), numbers));
    assert_increasing(&taken);
    assert_eq!(single::<i32>(&mut admin, "SELECT format FROM snowflake_registry.settings"), 2);
    assert_eq!(single::<String>(&mut admin, "SELECT state FROM snowflake_registry.status"), "ready");
    assert_eq!(known_protocols(&mut admin), [false, true, true]);
}

fn assert_renewed_now(server: &Cluster, registry: &Cluster) {
    assert_renewed_by(server, || ask_now(server, &registry.connection_string("fleet")));
}

/// A dump of the next version is not restored into the current one, whose functions would misread the tables. The error
/// says why. The update of a registry that was restored from a dump of the current version does not hide that grants may
/// be lost.
#[test]
fn dumps_of_other_versions() {
    let installation = Installation::copy();
    let server = Registry::of_both("").start(installation.server());
    let mut admin = server.connect();
    let dump = server.dump();
    installation.install_next();
    admin.run("CREATE DATABASE restored");
    let mut client = server.connect_to("restored");
    client.run(&format!("CREATE EXTENSION snowflake_id_registry VERSION '{CURRENT}'"));
    server.restore(&dump, "restored");
    client.run("ALTER EXTENSION snowflake_id_registry UPDATE");
    let format = "SELECT format FROM snowflake_registry.settings";
    assert_eq!(single::<i32>(&mut client, format), 2);
    assert_eq!(single::<String>(&mut client, "SELECT state FROM snowflake_registry.status"), "quarantine");

    admin.run("ALTER EXTENSION snowflake_id_registry UPDATE");
    let dump = server.dump();
    let old = Cluster::builder().extensions(&[]).start();
    old.connect().run("CREATE ROLE fleet");
    let mut pg_restore = old.client_program("pg_restore");
    let output = pg_restore.args(["--exit-on-error", "--dbname=postgres"]).arg(&dump).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("these_rows_need_another_version_of_the_registry"), "{said}");
    assert_eq!(single::<i64>(&mut old.connect(), "SELECT count(*) FROM snowflake_registry.settings"), 0);
}
