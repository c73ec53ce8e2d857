//! A newer version has written the files of a server, which is then started with the current version again. The server
//! neither uses nor overwrites the files, and names them. With the newer version, it continues.

use std::fs;
use std::os::unix::fs::MetadataExt;

use harness::segments::{
    connection_string, refusal, registry_of_fifties, segment_state, server_of, some, some_at_last,
};
use harness::versions::{change_file, file};
use harness::*;

const LEASE: &str = "snowflake_id.lease";
const SEGMENTS: &str = "snowflake_id.segments";

/// The text, the inode and the time of the last change of a file.
fn as_it_is(server: &Cluster, name: &str) -> (String, u64, i64) {
    let metadata = fs::metadata(server.data_dir().join(name)).unwrap();
    (file(server, name), metadata.ino(), metadata.mtime_nsec())
}

#[test]
fn a_newer_lease_file() {
    let fleet = Fleet::start("lease => '10min', renew_every => '300ms'");
    let server = fleet.server().short_horizon().start();
    let mut all = some_ids(&server);
    let worker = leased_worker(&server);
    server.stop_server("fast");
    assert!(file(&server, LEASE).starts_with("# format 1: "), "{}", file(&server, LEASE));
    change_file(&server, LEASE, "# format 1: ", "# format 2: ");
    let before = as_it_is(&server, LEASE);
    server.start_server();
    let why = wait_for_error(&server, "has format 2");
    let said = "could not read file \"snowflake_id.lease\": the file has format 2, and this version of snowflake_id \
                knows formats up to 1: install the newer version again, or remove the file";
    assert!(why.contains(said), "{why}");
    wait_for_registry_state(&server, "server too old");
    let mut client = server.connect();
    let (state, text) = failure(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(state, "55000", "{text}");
    assert!(text.contains("\"server too old\""), "{text}");
    let worker_pid = background_pid(&server, "snowflake_id registry");
    server.restart("immediate");
    wait_for_registry_state(&server, "server too old");
    assert!(worker_pid.is_some());
    server.stop_server("fast");
    assert_eq!(as_it_is(&server, LEASE), before);
    // The newer version is installed again. It has the same lease.
    change_file(&server, LEASE, "# format 2: ", "# format 1: ");
    server.start_server();
    all.extend(some_ids(&server));
    assert_eq!(leased_worker(&server), worker);
    // The file is removed while the server waits. The server gets another lease.
    server.stop_server("fast");
    change_file(&server, LEASE, "# format 1: ", "# format 12345678901: ");
    server.start_server();
    wait_for_error(&server, "has format 12345678901");
    fs::remove_file(lease_path(&server)).unwrap();
    all.extend(some_ids(&server));
    assert_ne!(leased_worker(&server), worker);
    // Without a registry in the settings, the server does not need the file.
    server.stop_server("fast");
    change_file(&server, LEASE, "# format 1: ", "# format 2: ");
    server.start_server();
    wait_for_registry_state(&server, "server too old");
    server.change("snowflake_id.registry", "");
    server.change("snowflake_id.worker_id", "900");
    all.extend(some_ids(&server));
    assert_eq!(leased_worker(&server), 900);
    assert!(background_pid(&server, "snowflake_id registry").is_none());
    assert_distinct(&all);
}

#[test]
fn a_newer_range_file() {
    let registry = registry_of_fifties(&["orders"]);
    let server = server_of(&registry).set("snowflake_id.max_wait", "5s").start();
    let mut client = server.connect();
    let mut all = some(&mut client, "orders", 60);
    server.stop_server("fast");
    change_file(&server, SEGMENTS, "# format 1: ", "# format 2: ");
    let before = as_it_is(&server, SEGMENTS);
    for mode in ["fast", "immediate"] {
        server.start_server();
        let mut client = server.connect();
        let (state, text) = refusal(&mut client, "orders");
        assert_eq!(state, "55000", "{text}");
        let said = "ould not read file \"snowflake_id.segments\": the file has format 2, and this version of \
                    snowflake_id knows formats up to 1: install the newer version again, or remove the file";
        assert!(text.contains(said), "{text}");
        assert_eq!(segment_state(&mut client, "orders"), "no registry");
        // Another registry does not help.
        server.change(
            "snowflake_id.registry",
            &format!("{} application_name=other", connection_string(&registry)),
        );
        assert_eq!(refusal(&mut client, "orders").0, "55000");
        server.stop_server(mode);
        assert_eq!(as_it_is(&server, SEGMENTS), before);
    }
    change_file(&server, SEGMENTS, "# format 2: ", "# format 1: ");
    server.start_server();
    all.extend(some(&mut server.connect(), "orders", 120));
    // If the file is removed, the record in the database still holds.
    server.stop_server("fast");
    change_file(&server, SEGMENTS, "# format 1: ", "# format 2: ");
    server.start_server();
    assert_eq!(refusal(&mut server.connect(), "orders").0, "55000");
    fs::remove_file(server.data_dir().join(SEGMENTS)).unwrap();
    all.extend(some_at_last(&server, "orders", 120));
    assert_increasing(&all);
}
