//! Databases with encodings other than UTF-8. Names of servers and of databases can contain any characters, and are
//! shown correctly in each of them.

use harness::segments::{preloaded, refusal};
use harness::*;

/// Creates a database with an encoding, on a server that may use another encoding.
fn database_in(server: &Cluster, encoding: &str) -> Client {
    let name = encoding.to_lowercase();
    let create = format!("CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0");
    server.connect().run(&create);
    server.connect_to(&name)
}

/// The node name does not affect the worker ID, so the server must not lose the worker ID because of it.
#[test]
fn a_name_that_the_registry_cannot_write() {
    let registry = Cluster::builder().extensions(&[]).start();
    registry.connect().run("CREATE ROLE fleet LOGIN");
    for encoding in ["LATIN1", "EUC_KR"] {
        let mut client = database_in(&registry, encoding);
        Registry::of_leases(LASTING_LEASES).make(&mut client);
        let there = format!("dbname={}", encoding.to_lowercase());
        let string = registry.connection_string("fleet").replace("dbname=postgres", &there);
        let server = Cluster::builder()
            .preload()
            .set("snowflake_id.registry", string)
            // Neither encoding has all of these characters.
            .set("snowflake_id.node_name", "Ж-ö")
            .start();
        assert_eq!(leased_worker(&server), 0);
        assert_renewed(&server);
        assert_renewed(&server);
        let name: String = single(&mut client, "SELECT node_name FROM snowflake_registry.fleet");
        assert_eq!(name, "?-?");
        // The server asks once with this name, and not again each time.
        let failed = registry.log().matches("has no equivalent in encoding \"UTF8\"").count()
            + registry.log().matches(&format!("has no equivalent in encoding \"{encoding}\"")).count();
        assert_eq!(failed, 1, "{}", registry.log());
    }
}

/// Messages to a session come from shared memory and from the configuration, which are in UTF-8.
#[test]
fn the_state_is_shown_in_every_encoding() {
    let server = preloaded()
        .set("snowflake_id.node_name", "Ж-ö")
        .set("snowflake_id.database", "postgres")
        .set("snowflake_id.registry", "host=/nowhere/Ж-ö")
        .set("snowflake_id.max_wait", "100ms")
        .start();
    let (code, _) = refusal(&mut server.connect(), "größe-Ж");
    assert_eq!(code, "55P03");
    for (encoding, shown) in
        [("LATIN1", ["?-ö", "größe-?"]), ("EUC_KR", ["Ж-?", "gr?ße-Ж"]), ("SQL_ASCII", ["Ж-ö", "größe-Ж"])]
    {
        let mut client = database_in(&server, encoding);
        client.run("CREATE EXTENSION snowflake_id");
        let [node_name, segment] = shown;
        assert_eq!(status::<String>(&mut client, "node_name"), node_name, "{encoding}");
        let error = eventually("the error", || status::<Option<String>>(&mut client, "last_error"));
        assert!(error.contains(node_name), "{encoding}: {error}");
        let row = client
            .query_one("SELECT name, last_error FROM snowflake_segment_status WHERE name <> 'items'", &[])
            .unwrap();
        assert_eq!(row.get::<_, String>(0), segment, "{encoding}");
        assert!(row.get::<_, String>(1).contains(node_name), "{encoding}: {:?}", row.get::<_, String>(1));
        // Errors are in ASCII where they cannot be converted.
        let (code, said) = refusal(&mut client, "items");
        assert_eq!(code, "55P03", "{encoding}: {said}");
        let told = if encoding == "SQL_ASCII" { "Ж-ö" } else { "?-?" };
        assert!(said.contains(told), "{encoding}: {said}");
    }
}

/// Without a worker ID, an error quotes the names of the server and of the keeper's database.
#[test]
fn an_error_with_a_name_is_shown_in_every_encoding() {
    let server = preloaded().set("snowflake_id.node_name", "Ж-ö").start();
    for (encoding, told) in [("LATIN1", "'...'"), ("EUC_KR", "'...'"), ("UTF8", "'Ж-ö'")] {
        let mut client = database_in(&server, encoding);
        client.run("CREATE EXTENSION snowflake_id");
        let (code, said) = failure(&mut client, "SELECT snowflake_nextval()");
        assert_eq!(code, "55000", "{encoding}: {said}");
        assert!(said.contains("this server has no worker ID") && said.contains(told), "{encoding}: {said}");
    }
}

/// ALTER SYSTEM writes a name in the encoding of the session's database, as it is in the row.
#[test]
fn a_name_that_is_set_in_the_encoding_of_the_keepers_database() {
    let cluster = preloaded().set("snowflake_id.database", "latin1").extensions(&[]).start();
    let mut client = database_in(&cluster, "LATIN1");
    client.run("ALTER SYSTEM SET snowflake_id.node_name = 'köln'");
    client.run(
        "CREATE EXTENSION snowflake_id;
         INSERT INTO snowflake_workers (node_name, worker_id) VALUES ('köln', 5)",
    );
    cluster.reload();
    wait_for_first_id(&mut client);
    assert_eq!(single::<i32>(&mut client, "SELECT snowflake_worker(snowflake_currval())"), 5);
    assert_eq!(status::<String>(&mut client, "node_name"), "köln");
    // In a database with another encoding, the bytes have no known meaning.
    let mut other = cluster.connect();
    other.run("CREATE EXTENSION snowflake_id");
    assert_eq!(status::<String>(&mut other, "node_name"), "k\u{fffd}ln");
}
