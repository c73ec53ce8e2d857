//! Names that must be quoted, in a database whose encoding is not UTF-8.

use harness::*;

/// The names of the extension's schema, of other schemas, of tables and of columns.
const NAMES: &str = r#"
    CREATE SCHEMA "IDs für 100%s.";
    CREATE EXTENSION snowflake_id SCHEMA "IDs für 100%s.";
    CREATE SCHEMA "Größe ""é""";
    SET search_path = "Größe ""é""";
    CREATE TABLE "Möbel" ("Öl" serial PRIMARY KEY, "%I" int REFERENCES "Möbel");
    INSERT INTO "Möbel" DEFAULT VALUES;
    SELECT "IDs für 100%s.".snowflake_adopt('"Möbel"', 'Öl', dry_run => false);
    INSERT INTO "Möbel" DEFAULT VALUES;
    CREATE TABLE "Übersicht" ("Öl" bigint) PARTITION BY RANGE ("Öl");
    SELECT "IDs für 100%s.".snowflake_create_partitions('"Übersicht"', '2026-01-01Z', '2026-03-01Z', '1 month');
    INSERT INTO "Übersicht" VALUES ("IDs für 100%s.".snowflake_min_id('2026-02-10Z'));
"#;

#[test]
fn a_database_in_latin1() {
    let cluster = Cluster::builder().worker(1).start();
    wait_for_first_id(&mut cluster.connect());
    for encoding in ["LATIN1", "UTF8"] {
        let database = encoding.to_lowercase();
        let create = format!("CREATE DATABASE {database} ENCODING '{encoding}' TEMPLATE template0");
        cluster.connect().run(&create);
        let mut client = cluster.connect_to(&database);
        client.run(NAMES);

        let worker = r#"SELECT "IDs für 100%s.".snowflake_worker(max("Öl")) FROM "Möbel""#;
        assert_eq!(single::<i32>(&mut client, worker), 1);
        let partition = r#"SELECT min(tableoid::regclass::text) FROM "Übersicht""#;
        assert_eq!(single::<String>(&mut client, partition), "\"Übersicht_p20260201\"");
        let (state, message) =
            failure(&mut client, r#"SELECT "IDs für 100%s.".snowflake_adopt('"Möbel"', '%I')"#);
        assert_eq!(state, "0A000", "{message}");
        assert!(message.contains(r#"column "%I" of table "Größe ""é"""."Möbel""#), "{message}");
        // The remaining length of the name is counted in bytes of this encoding.
        let (state, message) = failure(
            &mut client,
            &format!(
                r#"CREATE TABLE "{0}" (id bigint) PARTITION BY RANGE (id);
                   SELECT "IDs für 100%s.".snowflake_create_partitions('"{0}"', '2026-01-01Z', '2026-03-01Z', '1 month')"#,
                "ü".repeat(if encoding == "UTF8" { 27 } else { 54 })
            ),
        );
        assert_eq!(state, "42622", "{message}");
        assert!(message.contains("The name has 64 bytes"), "{message}");
    }
}
