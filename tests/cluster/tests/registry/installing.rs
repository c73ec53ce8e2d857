//! The registry of a fleet is copied, dumped and restored, and installed by psql.

use harness::book::read;
use harness::versions::CURRENT;
use harness::*;

use super::member::{Member, granted, reason, start};

/// The database is restored from a copy made by CREATE DATABASE: on the same server and timeline, and with rows from
/// the same transactions.
#[test]
fn a_copy_of_the_database_takes_its_place() {
    let cluster = Cluster::builder().extensions(&[]).start();
    let mut admin = cluster.connect();
    admin.run("CREATE DATABASE registry");
    let mut client = cluster.connect_to("registry");
    client.run(
        "CREATE EXTENSION snowflake_id_registry;
         SELECT snowflake_registry.start_fleet(0, 1023, first_start => true);
         SELECT snowflake_registry.create_segment('shared');
         UPDATE snowflake_registry.segment SET has_left = true",
    );
    let mut early = granted(&mut client);
    drop(client);
    let copy = |admin: &mut Client, from: &str, to: &str| {
        // Backends that have exited may still count as connected for a moment.
        eventually("a copy", || admin.batch_execute(&format!("CREATE DATABASE {to} TEMPLATE {from}")).ok());
    };
    copy(&mut admin, "registry", "kept");
    let mut client = cluster.connect_to("registry");
    let lost = granted(&mut client);
    drop(client);
    eventually("the database to be dropped", || admin.batch_execute("DROP DATABASE registry").ok());
    eventually("the copy to be renamed", || {
        admin.batch_execute("ALTER DATABASE kept RENAME TO registry").ok()
    });

    let mut client = cluster.connect_to("registry");
    let answer = Member::new().acquire(&mut client, 1024).unwrap();
    assert_eq!(answer.outcome, "taken", "{answer:?}, and {} may have the same", lost.lease_id);
    assert!(reason(&mut client).contains("now in another database"), "{}", reason(&mut client));
    let segment = "SELECT state FROM snowflake_registry.segments";
    assert_eq!(single::<String>(&mut client, segment), "closed");
    assert_eq!(early.renew(&mut client).unwrap().outcome, "granted");
    client.run("SELECT snowflake_registry.end_quarantine()");
    granted(&mut client);
    // Renaming the database alone has no effect.
    drop(client);
    eventually("another name", || admin.batch_execute("ALTER DATABASE registry RENAME TO renamed").ok());
    granted(&mut cluster.connect_to("renamed"));
}

#[test]
fn a_registry_is_dumped_and_restored() {
    let old = start(Cluster::builder());
    let mut client = old.connect();
    // The owner is not a superuser, and has granted privileges.
    client.run(
        "DROP EXTENSION snowflake_id_registry CASCADE;
         CREATE ROLE keeper_of_ids LOGIN; CREATE ROLE fleet LOGIN;
         GRANT CREATE ON DATABASE postgres TO keeper_of_ids;
         SET ROLE keeper_of_ids;
         CREATE EXTENSION snowflake_id_registry;
         GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
         GRANT EXECUTE ON FUNCTION snowflake_registry.renew TO fleet;
         SELECT snowflake_registry.start_fleet(0, 1023, first_start => true);
         RESET ROLE",
    );
    let mut member = granted(&mut client);
    let dump = old.dump();
    member.renew(&mut client).unwrap();

    let restore = |cluster: &Cluster, database: &str| {
        let mut client = cluster.connect();
        client.run(&format!("CREATE DATABASE {database}"));
        cluster.restore(&dump, database);
        cluster.connect_to(database)
    };
    let new = Cluster::builder().extensions(&[]).start();
    new.connect().run("CREATE ROLE keeper_of_ids LOGIN; CREATE ROLE fleet LOGIN");
    for (cluster, database, why) in
        [(&new, "elsewhere", "another database cluster"), (&old, "beside", "restored from a dump")]
    {
        let mut client = restore(cluster, database);
        let mut member = member.clone();
        let answer = Member::new().acquire(&mut client, 1024).unwrap();
        assert_eq!(answer.outcome, "taken", "{answer:?}");
        assert!(reason(&mut client).contains(why), "{}", reason(&mut client));
        client.run("SET ROLE fleet");
        assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
        client.run("RESET ROLE");
        let (code, said) = failure(&mut client, "DROP EXTENSION snowflake_id_registry");
        assert_eq!(code, "2BP01");
        assert!(
            said.contains("SELECT snowflake_registry.end_fleet();") && !said.contains("CASCADE"),
            "{said}"
        );
        client.run("SELECT snowflake_registry.end_quarantine()");
        granted(&mut client);
        client.run("DROP EXTENSION snowflake_id_registry CASCADE");
    }
}

/// On a server where extensions cannot be installed, psql runs the file, as a role with only the privilege CREATE.
#[test]
fn the_registry_is_installed_by_psql() {
    let cluster = Cluster::builder().extensions(&[]).start();
    let mut client = cluster.connect();
    for command in [
        "CREATE ROLE ordinary LOGIN",
        "CREATE ROLE nobody_much LOGIN",
        "CREATE DATABASE managed",
        "GRANT CREATE ON DATABASE managed TO ordinary",
        "CREATE DATABASE owned OWNER ordinary",
    ] {
        client.run(command);
    }
    let script = read(&format!("sql/registry/snowflake_id_registry--{CURRENT}.sql"));
    let run = |user: &str, database: &str, script: &str| {
        let file = cluster.host().join("registry.sql");
        std::fs::write(&file, script).unwrap();
        let mut psql = cluster.program("psql");
        psql.args(["--no-psqlrc", "--quiet", "--username", user, "--dbname", database, "--host"]);
        let output = psql.arg(cluster.host()).arg("--file").arg(file).output().unwrap();
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    for database in ["managed", "owned"] {
        let mut client = cluster.connect_to(database);
        let exists = "SELECT count(*) FROM pg_namespace WHERE nspname = 'snowflake_registry'";
        let said = run("nobody_much", database, &script);
        assert!(said.contains("permission denied for database"), "{said}");
        // The last step fails: nothing is left, although psql continues after errors.
        let broken =
            script.replace("PERFORM set_config('search_path', search_path_before, true);", "PERFORM 1 / 0;");
        assert_ne!(broken, script);
        let said = run("ordinary", database, &broken);
        assert!(said.contains("division by zero"), "{said}");
        assert_eq!(single::<i64>(&mut client, exists), 0);

        assert_eq!(run("ordinary", database, &script), "");
        let said = run("ordinary", database, &script);
        assert!(said.contains("schema \"snowflake_registry\" already exists"), "{said}");
        let owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'snowflake_registry'";
        assert_eq!(single::<String>(&mut client, owner), "ordinary");
        client.run("SET ROLE ordinary; SELECT snowflake_registry.start_fleet(0, 1023, first_start => true)");
        let mut member = granted(&mut client);
        assert_eq!(member.renew(&mut client).unwrap().outcome, "granted");
        let (code, _) = failure(&mut client, "DROP SCHEMA snowflake_registry");
        assert_eq!(code, "2BP01");
        client.run("DROP SCHEMA snowflake_registry CASCADE");
    }
}

/// CREATE EXTENSION does not check the bodies of functions: a syntax error in one is raised only when it is reached.
#[test]
fn the_bodies_of_all_functions_can_be_parsed() {
    let cluster = Cluster::builder().extensions(&["snowflake_id", "snowflake_id_registry"]).start();
    let mut client = cluster.connect();
    let definitions = "SELECT pg_get_functiondef(function.oid)
                       FROM pg_proc AS function
                       JOIN pg_language AS language ON language.oid = function.prolang
                       JOIN pg_depend AS member ON member.classid = 'pg_proc'::regclass AND member.objid = function.oid
                       JOIN pg_extension AS extension ON member.refclassid = 'pg_extension'::regclass
                                                      AND extension.oid = member.refobjid
                       WHERE language.lanname IN ('plpgsql', 'sql') AND extension.extname LIKE 'snowflake%'";
    let definitions: Vec<String> =
        client.query(definitions, &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(definitions.len() > 50, "{}", definitions.len());
    client.run("SET check_function_bodies = on");
    for definition in definitions {
        let start = definition.lines().next().unwrap_or_default().to_owned();
        assert!(client.batch_execute(&definition).is_ok(), "{start}");
    }
}
