//! A newer version has written the rows in which a server stores its horizon, its identities and its numbers. The
//! current version issues nothing, and leaves the rows as they are: it cannot know what the newer version has issued.

use harness::segments::{refusal, registry_of_fifties, server_of, some};
use harness::versions::{formats, set_format};
use harness::*;

const PROBLEM: &str =
    "has format 2, and this version of snowflake_id knows formats up to 1: install the newer version again";

/// The paths of the files of relations, in the order of the names.
fn paths<const N: usize>(client: &mut Client, relations: [&str; N]) -> [String; N] {
    relations.map(|name| single(client, &format!("SELECT pg_relation_filepath('snowflake_internal.{name}')")))
}

#[test]
fn newer_rows_of_horizon_and_identities() {
    let server = Cluster::builder().worker(1).short_horizon().set("snowflake_id.max_wait", "500ms").start();
    let mut client = server.connect();
    let mut all = some_ids(&server);
    let relations = ["horizon", "used_identity"];
    let paths = paths(&mut client, relations);
    relations.iter().for_each(|relation| {
        let formats = formats(&mut client, relation);
        assert!(!formats.is_empty() && formats.iter().all(|format| *format == 1), "{relation}: {formats:?}");
    });
    drop(client);
    for (relation, path) in relations.iter().zip(&paths) {
        server.stop_server("fast");
        set_format(&server, path, 2);
        server.start_server();
        let said = format!("relation \"snowflake_internal.{relation}\" {PROBLEM}");
        let problem = wait_for_error(&server, &said);
        assert!(problem.contains(&said), "{problem}");
        let mut client = server.connect();
        let (state, text) = failure(&mut client, "SELECT snowflake_nextval()");
        assert_eq!(state, "55000", "{text}");
        assert!(text.contains(&said), "{text}");
        // Requests of an administrator do not write either.
        for request in ["snowflake_raise_floor(now())", "snowflake_reset_horizon(7)"] {
            failure(&mut client, &format!("SELECT {request}"));
        }
        server.change("snowflake_id.worker_id", "2");
        server.change("snowflake_id.horizon_margin", "200ms");
        assert_eq!(failure(&mut client, "SELECT snowflake_nextval()").0, "55000");
        server.restart("fast");
        server.restart("immediate");
        let stored = formats(&mut server.connect(), relation);
        assert!(!stored.is_empty() && stored.iter().all(|format| *format == 2), "{relation}: {stored:?}");
        // The newer version is installed again.
        server.stop_server("fast");
        set_format(&server, path, 1);
        server.configure(&[("snowflake_id.worker_id", "1")]);
        server.start_server();
        all.extend(some_ids(&server));
    }
    assert_increasing(&all);
}

/// A number that no version has written, or a column that a newer version has renamed, is not taken for the first format.
#[test]
fn rows_without_a_known_format() {
    let server = Cluster::builder().worker(1).short_horizon().start();
    let mut client = server.connect();
    let mut all = some_ids(&server);
    let [path] = paths(&mut client, ["horizon"]);
    let refused = |format: i32| {
        let problem = PROBLEM.replace("format 2", &format!("format {format}"));
        let said = format!("relation \"snowflake_internal.horizon\" {problem}");
        wait_for_error(&server, &said);
        assert_eq!(failure(&mut server.connect(), "SELECT snowflake_nextval()").0, "55000");
    };
    drop(client);
    for format in [0, -2, i32::MIN, i32::MAX] {
        server.stop_server("fast");
        set_format(&server, &path, format);
        server.start_server();
        refused(format);
        let stored = formats(&mut server.connect(), "horizon");
        assert!(stored.iter().all(|stored| *stored == format), "{stored:?}");
    }
    server.stop_server("fast");
    set_format(&server, &path, 1);
    server.start_server();
    all.extend(some_ids(&server));
    let rename = |from: &str, to: &str| {
        let rename = "ALTER MATERIALIZED VIEW snowflake_internal.horizon RENAME COLUMN";
        server.connect().run(&format!("{rename} {from} TO {to}"));
    };
    rename("format", "form");
    server.restart("fast");
    refused(0);
    rename("form", "format");
    all.push(wait_for_first_id(&mut server.connect()));
    assert_increasing(&all);
}

#[test]
fn newer_rows_of_numbers() {
    let registry = registry_of_fifties(&["orders"]);
    let server = server_of(&registry).set("snowflake_id.max_wait", "5s").start();
    let mut client = server.connect();
    let mut all = some(&mut client, "orders", 60);
    let [path] = paths(&mut client, ["segment_taken"]);
    assert_eq!(formats(&mut client, "segment_taken"), [1]);
    server.stop_server("fast");
    set_format(&server, &path, 2);
    server.start_server();
    let mut client = server.connect();
    let (state, text) = refusal(&mut client, "orders");
    assert_eq!(state, "55000", "{text}");
    let said = format!("elation \"snowflake_internal.segment_taken\" {PROBLEM}");
    assert!(text.contains(&said), "{text}");
    server.restart("fast");
    assert_eq!(formats(&mut server.connect(), "segment_taken"), [2]);
    server.stop_server("fast");
    set_format(&server, &path, 1);
    server.start_server();
    all.extend(some(&mut server.connect(), "orders", 60));
    assert_increasing(&all);
}

/// A primary with a newer version has written the rows of a standby with the current version, which is promoted. It
/// issues no IDs before it has the newer version.
#[test]
fn an_older_standby_is_promoted() {
    let primary = Cluster::builder().worker(1).short_horizon().start();
    let mut all = some_ids(&primary);
    let standby = primary.start_standby(&[]);
    all.extend(some_ids(&primary));
    let [path] = paths(&mut primary.connect(), ["horizon"]);
    primary.stop_server("fast");
    standby.stop_server("fast");
    set_format(&standby, &path, 2);
    standby.start_server();
    standby.promote();
    wait_for_error(&standby, PROBLEM);
    assert_eq!(failure(&mut standby.connect(), "SELECT snowflake_nextval()").0, "55000");
    standby.stop_server("fast");
    set_format(&standby, &path, 1);
    standby.start_server();
    all.extend(some_ids(&standby));
    assert_increasing(&all);
}
