//! A registry in a database with a malicious owner.

use harness::{Cluster, Run, failure, single};

/// She creates the schema first, with a function in it that is invisible to others until she commits. It would run with
/// the privileges of the superuser who installs the registry.
#[test]
fn a_schema_that_is_there_already_is_not_taken_over() {
    let server = Cluster::builder().extensions(&[]).start();
    server.connect().run("CREATE ROLE mallory");
    server.connect().run("CREATE DATABASE hers OWNER mallory");
    let (mut superuser, mut mallory) = (server.connect_to("hers"), server.connect_to("hers"));
    mallory.run("SET ROLE mallory; CREATE SCHEMA snowflake_registry");
    mallory.run(
        "BEGIN;
         CREATE FUNCTION snowflake_registry.sign_settings(VARIADIC int[] DEFAULT '{}') RETURNS void
             LANGUAGE sql AS 'SELECT 1'",
    );
    let (code, said) = failure(&mut superuser, "CREATE EXTENSION snowflake_id_registry");
    assert_eq!(code, "42P06", "{said}");
    mallory.run("COMMIT; DROP SCHEMA snowflake_registry CASCADE");

    // She cannot create anything in the schema that the script creates.
    superuser.run("BEGIN; CREATE EXTENSION snowflake_id_registry");
    let (code, said) = failure(&mut mallory, "CREATE FUNCTION snowflake_registry.f() RETURNS int RETURN 1");
    assert_eq!(code, "3F000", "{said}");
    superuser.run("COMMIT");
    let (code, said) = failure(&mut mallory, "CREATE FUNCTION snowflake_registry.f() RETURNS int RETURN 1");
    assert_eq!(code, "42501", "{said}");
    let owner = "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'snowflake_registry'";
    assert_eq!(single::<String>(&mut superuser, owner), "test");
}
