//! The SQL of docs/run/platforms.md and the settings of docs/examples/platforms/kubernetes.yaml, on ordinary servers. The registry has the address, the
//! certificate and the password files that the operator provides. No operator runs here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use harness::book::{of_test, read};
use harness::examples::{block_at, last_row, run_block, statements};
use harness::*;

use crate::fleet::connecting::certificates;

const CLUSTERS: [&str; 2] = ["orders", "customers"];
/// The directory into which the operator writes the password file and the certificate of the registry.
const FILES: &str = "/controller/external/registry";

/// The YAML document of a cluster.
fn definition<'a>(page: &'a str, name: &str) -> &'a str {
    let start = format!("kind: Cluster\nmetadata:\n  name: {name}\n");
    let (_, rest) = page.split_once(&start).unwrap_or_else(|| panic!("no cluster {name}"));
    let end = ["\n---\n", "```"].iter().filter_map(|end| rest.find(end)).min().unwrap();
    &rest[..end]
}

/// The entries below the line `parameters:`. A value `>-` is the text of the lines below it, joined by spaces.
fn parameters(definition: &str) -> Vec<(String, String)> {
    let (_, lines) = definition.split_once("\n    parameters:\n").expect("parameters");
    let mut found: Vec<(String, String)> = vec![];
    for line in lines.lines() {
        let indent = line.len() - line.trim_start().len();
        match (indent, found.last_mut()) {
            (6, _) => {
                let (name, value) = line.trim().split_once(": ").unwrap();
                found.push((name.into(), value.trim_matches('"').trim_start_matches(">-").into()));
            }
            (8, Some((_, value))) => {
                *value = [value.as_str(), line.trim()].join(" ").trim().into();
            }
            _ => break,
        }
    }
    found
}

/// Writes the files that the operator writes: see createPgPassFile() and dumpSecretKeyRefToFile() of CloudNativePG.
fn write_files(server: &Cluster, user: &str, authority: &Path) {
    server.write_private("pgpass", &format!("registry-rw:*:*:{user}:password of {user}\n"));
    server.write_private("registry-ca_ca.crt", &fs::read_to_string(authority).unwrap());
}

/// A cluster of the page.
fn start(page: &str, name: &str, address: &str, authority: &Path) -> Cluster {
    let mut builder = Cluster::builder().preload().set("cluster_name", name);
    let mut registry = String::new();
    for (parameter, value) in parameters(definition(page, name)) {
        match parameter.as_str() {
            "snowflake_id.registry" => registry = value,
            _ => builder = builder.set(&parameter, value),
        }
    }
    let server = builder.stopped();
    write_files(&server, name, authority);
    // Names are not resolved here.
    let here = registry.replace(FILES, server.host().to_str().unwrap()) + " hostaddr=" + address;
    assert_eq!(here.matches(server.host().to_str().unwrap()).count(), 2, "{registry}");
    server.configure(&[("snowflake_id.registry", &here)]);
    server.start_server();
    run_block(&mut server.connect(), block_at(page, "on each cluster, in database postgres"));
    // The operator creates the database and the extension in it.
    for statement in ["CREATE ROLE app LOGIN", "CREATE DATABASE app OWNER app"] {
        server.connect().run(statement);
    }
    server.connect_to("app").run("CREATE EXTENSION snowflake_id");
    server
}

/// Waits for an ID. Returns its worker ID.
fn worker(server: &Cluster) -> i32 {
    let query = "SELECT snowflake_worker(snowflake_nextval())";
    eventually("an ID", || -> Result<i32, postgres::Error> {
        server.try_connect("app")?.query_one(query, &[]).map(|row| row.get(0))
    })
}

#[test]
fn two_clusters_and_a_registry() {
    if !has_tls() {
        return;
    }
    let page = of_test("kubernetes") + &read("docs/examples/platforms/kubernetes.yaml");
    let registry = Cluster::builder().stopped();
    let address = format!("127.76.{}.{}", std::process::id() % 250, std::process::id() / 250 % 250);
    registry.configure(&[("listen_addresses", &address), ("ssl", "on"), ("cluster_name", "registry")]);
    fs::write(
        registry.data_dir().join("pg_hba.conf"),
        "local all all trust\nhost all all all scram-sha-256\n",
    )
    .unwrap();
    let authority = certificates(&registry, "registry-rw");
    registry.start_server();
    registry.connect().run("CREATE ROLE fleet");
    for name in CLUSTERS {
        registry.connect().run(&format!(
            "CREATE ROLE {name} LOGIN PASSWORD 'password of {name}' CONNECTION LIMIT 10 IN ROLE fleet"
        ));
    }
    run_block(&mut registry.connect(), block_at(&page, "on the registry"));

    let servers = CLUSTERS.map(|name| start(&page, name, &address, &authority));
    let first = servers.each_ref().map(worker);
    for server in &servers {
        // On a busy machine, a warning appears for a moment.
        let (query, expected) = statements(block_at(&page, "on a cluster")).remove(0);
        eventually(&expected, || last_row(&mut server.connect(), &query) == expected);
    }
    let shown = block_at(&page, "on the registry, when both clusters are ready");
    assert_eq!(run_block(&mut registry.connect(), shown), 1);

    // The container is restarted in its pod.
    servers[0].restart("immediate");
    assert_eq!(worker(&servers[0]), first[0]);

    // Another instance is promoted, while the old primary still runs.
    let standby = servers[0].start_standby(&[]);
    let held = "SELECT count(*) FROM snowflake_registry.fleet WHERE state = 'held'";
    assert_eq!(single::<i64>(&mut registry.connect(), held), 2);
    standby.promote();
    let workers: BTreeSet<i32> = [worker(&standby), worker(&servers[0]), worker(&servers[1])].into();
    assert_eq!(workers.len(), 3, "{workers:?}");
    assert!(workers.contains(&first[0]) && workers.contains(&first[1]));
}
