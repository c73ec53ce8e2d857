//! Names for which the registry's statement fails, for example because its database cannot represent them. Only these
//! names get no numbers.

use std::thread;
use std::time::{Duration, Instant};

use harness::segments::*;
use harness::*;

const GOOD: [&str; 10] =
    ["orders", "items", "users", "größe", "bills", "parcels", "notes", "events", "jobs", "files"];
const BAD: [&str; 3] = ["заказ", "注文", "παραγγελία"];

/// How often PostgreSQL said that a database cannot represent a name.
fn unrepresentable(text: &str) -> usize {
    text.matches("has no equivalent in encoding").count()
}

/// Creates a registry in a Latin 1 database of a server that may use another encoding.
fn make_latin_registry(server: &Cluster) {
    server.connect().run("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let mut client = server.connect_to("latin");
    client.run("CREATE EXTENSION snowflake_id_registry");
    for name in GOOD {
        let create = "SELECT snowflake_registry.create_segment($1, min_step => 10, max_step => 20)";
        client.execute(create, &[&name]).unwrap();
    }
}

/// A server that takes from that registry. The server's own name cannot be represented there either.
fn server_of_latin(registry: &Cluster) -> Cluster {
    make_latin_registry(registry);
    registry.connect_to("latin").run(
        "GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
         GRANT EXECUTE ON FUNCTION snowflake_registry.take TO fleet;",
    );
    let registry = connection_string(registry).replace("dbname=postgres", "dbname=latin");
    preloaded().set("snowflake_id.registry", registry).set("snowflake_id.node_name", "сервер").start()
}

/// Asks for all names at once, repeatedly: the good names get numbers, the others an error.
fn ask_for_all(server: &Cluster) {
    thread::scope(|scope| {
        for name in GOOD {
            scope.spawn(move || {
                let mut client = server.connect();
                let all: Vec<_> = (0..100).map(|_| next(&mut client, name)).collect();
                assert_eq!(all, (1..=100).collect::<Vec<_>>(), "{name}");
            });
        }
        for name in BAD {
            scope.spawn(move || {
                let mut client = server.connect();
                for _ in 0..20 {
                    let (code, said) = refusal(&mut client, name);
                    assert_eq!(code, "55000", "{said}");
                    assert!(said.contains("cannot take numbers") && unrepresentable(&said) == 1, "{said}");
                }
            });
        }
    });
    for name in BAD {
        let told = format!("could not get numbers of segment \"{name}\": ");
        assert_eq!(server.log().matches(&told).count(), 1, "{}", server.log());
    }
}

#[test]
fn a_name_that_the_registry_cannot_write_harms_no_other() {
    let registry = registry();
    let server = server_of_latin(&registry);
    ask_for_all(&server);
    // The registry logs each failure, but only a limited number of them, however often calls are repeated.
    let mut client = server.connect();
    let failures = || unrepresentable(&registry.log());
    let (before, began) = (failures(), Instant::now());
    assert!(before > 0, "{}", registry.log());
    while began.elapsed() < Duration::from_secs(4) {
        refusal(&mut client, BAD[0]);
    }
    let count = failures() - before;
    // The last call may have taken longer.
    let most = 2 * began.elapsed().as_secs() as usize;
    assert!(count <= most, "{count} and not {most}");
}

#[test]
fn nor_does_it_where_the_registry_is_in_the_servers_own_database() {
    let server =
        preloaded().set("snowflake_id.database", "latin").set("snowflake_id.node_name", "сервер").start();
    make_latin_registry(&server);
    server.connect_to("latin").run("CREATE EXTENSION snowflake_id");
    ask_for_all(&server);
}

/// Bad names free their slots for others.
#[test]
fn bad_names_take_no_place() {
    let registry = registry();
    let server = server_of_latin(&registry);
    server.configure(&[("snowflake_id.max_segments", "4")]);
    server.restart("fast");
    let mut client = server.connect();
    for at in 0..6 {
        assert_eq!(refusal(&mut client, &format!("заказ {at}")).0, "55000");
    }
    for name in &GOOD[..4] {
        next(&mut client, name);
    }
}

/// Makes the registry fail whenever it grants or raises numbers of this name.
fn fail_for(registry: &Cluster, name: &str) {
    registry.connect().run(&format!(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'the disk of this name is full' USING ERRCODE = '53100'; END $$;
         CREATE TRIGGER fail BEFORE UPDATE ON snowflake_registry.segment
         FOR EACH ROW WHEN (new.name = '{name}') EXECUTE FUNCTION fail();"
    ));
}

/// The statement may fail for any reason. When it works again, so does the name.
#[test]
fn a_name_for_which_the_registry_fails_comes_back() {
    let registry = registry_of_fifties(&["orders", "cursed"]);
    fail_for(&registry, "cursed");
    let server = server_of(&registry).start();
    let mut client = server.connect();
    let (code, said) = refusal(&mut client, "cursed");
    assert_eq!(code, "55000", "{said}");
    assert!(said.contains("the disk of this name is full"), "{said}");
    let mut other = server.connect();
    let all: Vec<_> = (0..50).map(|_| next(&mut other, "orders")).collect();
    assert_increasing(&all);
    registry.connect().run("DROP TRIGGER fail ON snowflake_registry.segment");
    let first: i64 = eventually("a number", || {
        match client.query_one("SELECT snowflake_segment_nextval('cursed')", &[]) {
            Ok(row) => Some(row.get(0)),
            Err(error) => {
                assert_eq!(error.code().unwrap().code(), "55000", "{}", text(&error));
                None
            }
        }
    });
    assert_eq!(first, 1);
}

/// A database in SQL_ASCII stores names as they are sent, so none of them is bad.
#[test]
fn a_registry_in_sql_ascii_takes_all_names() {
    let registry = registry();
    let own = preloaded().set("snowflake_id.database", "ascii").start();
    for server in [&registry, &own] {
        server.connect().run("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
        let mut client = server.connect_to("ascii");
        client.run("CREATE EXTENSION snowflake_id_registry");
        for name in GOOD.iter().chain(&BAD) {
            client.execute("SELECT snowflake_registry.create_segment($1)", &[name]).unwrap();
        }
    }
    own.connect_to("ascii").run("CREATE EXTENSION snowflake_id");
    registry.connect_to("ascii").run(
        "GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
         GRANT EXECUTE ON FUNCTION snowflake_registry.take TO fleet;",
    );
    let ascii = connection_string(&registry).replace("dbname=postgres", "dbname=ascii");
    let other =
        preloaded().set("snowflake_id.registry", ascii).set("snowflake_id.node_name", "сервер").start();
    for (server, database) in [(&own, "ascii"), (&other, "postgres")] {
        let mut client = server.connect_to(database);
        for name in GOOD.iter().chain(&BAD) {
            assert_eq!(next(&mut client, name), 1, "{name}");
        }
    }
}

/// A database in SQL_ASCII stores any bytes. It cannot send invalid UTF-8 to a server that asks in UTF-8.
#[test]
fn a_name_that_is_no_text_is_refused() {
    let registry = registry();
    registry.connect().run("CREATE DATABASE ascii ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
    let mut client = registry.connect_to("ascii");
    client.run("CREATE EXTENSION snowflake_id_registry");
    let (code, said) = failure(&mut client, "SELECT snowflake_registry.create_segment(E'\\xe9')");
    assert_eq!(code, "22021", "{said}");
    client.run("SELECT snowflake_registry.create_segment('größe')");
}

/// A server moves to a registry that cannot represent one of its names. The first statement of the report contains that
/// name, and fails; the server gets numbers of its other names nevertheless.
#[test]
fn a_bad_name_in_the_first_report() {
    let old = registry_of_fifties(&["orders", "items", "заказ"]);
    let new = registry();
    make_latin_registry(&new);
    new.connect_to("latin").run(
        "GRANT USAGE ON SCHEMA snowflake_registry TO fleet;
         GRANT EXECUTE ON FUNCTION snowflake_registry.take TO fleet;",
    );
    let latin = connection_string(&new).replace("dbname=postgres", "dbname=latin");
    assert_moves_to_latin(&server_of(&old).start(), &latin);
}

/// The same, but the new registry is in the server's own database.
#[test]
fn a_bad_name_in_the_first_report_to_a_registry_here() {
    let old = registry_of_fifties(&["orders", "items", "заказ"]);
    let server = server_of(&old).set("snowflake_id.database", "latin").start();
    make_latin_registry(&server);
    server.connect_to("latin").run("CREATE EXTENSION snowflake_id");
    assert_moves_to_latin(&server, "");
}

#[track_caller]
fn assert_moves_to_latin(server: &Cluster, latin: &str) {
    for name in ["orders", "items", "заказ"] {
        assert_eq!(next(&mut server.connect(), name), 1);
    }
    server.configure(&[("snowflake_id.registry", latin)]);
    server.restart("immediate");
    for name in ["orders", "items"] {
        assert!(next(&mut server.connect(), name) > 1);
    }
}

/// A server moves to a registry that cannot process the report about one name now. Without that report, the registry
/// could grant numbers of this name again. The server therefore gets no numbers until the registry has received it.
#[test]
fn a_name_that_cannot_be_reported_now() {
    let (old, new) = (registry_of_fifties(&["orders", "items"]), registry_of_fifties(&["orders", "items"]));
    fail_for(&new, "items");
    let server = server_of(&old).start();
    for name in ["orders", "items"] {
        assert_eq!(next(&mut server.connect(), name), 1);
    }
    server.stop_server("immediate");
    server.configure(&[("snowflake_id.registry", &connection_string(&new))]);
    server.start_server();
    eventually("the reason", || {
        let (code, said) = refusal(&mut impatient(&server), "orders");
        assert_eq!(code, "55P03", "{said}");
        said.contains("the disk of this name is full")
    });
    new.connect().run("DROP TRIGGER fail ON snowflake_registry.segment");
    some_at_last(&server, "orders", 1);
    assert!(next(&mut server_of(&new).start().connect(), "items") > 1);
}
