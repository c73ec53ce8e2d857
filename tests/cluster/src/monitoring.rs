//! Prometheus and postgres_exporter, which watch servers as the book's page on monitoring says. Both are Debian's
//! programs, in the directory that `SNOWFLAKE_ID_PROMETHEUS` names, and listen on loopback only.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::{Cluster, Run};

/// A program that is ended when the value is dropped.
pub struct Program(Child);

impl Program {
    /// Starts a program in a directory, to which it also writes its log.
    fn start(command: &mut Command, dir: &Path, log: &str) -> Program {
        let log = File::options().append(true).create(true).open(dir.join(log)).unwrap();
        // scripts/throwaway.sh finds programs that are left over by their working directory.
        command.current_dir(dir).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        Program(command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program())))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The path of one of Debian's unpacked programs.
pub fn program(name: &str) -> PathBuf {
    let dir = std::env::var_os("SNOWFLAKE_ID_PROMETHEUS")
        .expect("SNOWFLAKE_ID_PROMETHEUS: see make test-monitoring");
    PathBuf::from(dir).join(name)
}

/// An address of loopback on which nothing listens.
pub fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// A minimal HTTP client: returns the body of the reply, if there is one.
pub fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.into())
}

/// Creates the role that the page describes: a member of pg_monitor without further privileges.
pub fn make_exporter_role(cluster: &Cluster) {
    cluster.connect().run("CREATE ROLE prometheus LOGIN IN ROLE pg_monitor");
}

/// Starts an exporter with one of our files of queries. Its log is `NAME.log` in `dir`.
pub fn start_exporter(
    cluster: &Cluster,
    database: &str,
    queries: &Path,
    address: &str,
    dir: &Path,
    name: &str,
) -> Program {
    let source = format!("user=prometheus host={} dbname={database}", cluster.host().display());
    let mut exporter = Command::new(program("prometheus-postgres-exporter"));
    exporter
        .arg(format!("--web.listen-address={address}"))
        .arg(format!("--extend.query-path={}", queries.display()))
        .env("DATA_SOURCE_NAME", source);
    Program::start(&mut exporter, dir, &format!("{name}.log"))
}

/// A running Prometheus.
pub struct Prometheus {
    _program: Program,
    address: String,
    targets: PathBuf,
}

impl Prometheus {
    /// Starts Prometheus with a file of alerts. It queries the exporters every few seconds. Its files are in `dir`.
    pub fn start(alerts: &Path, every_seconds: u32, dir: &Path) -> Prometheus {
        let configuration = format!(
            "global: {{scrape_interval: {every_seconds}s, scrape_timeout: {every_seconds}s, evaluation_interval: 1s}}
rule_files: ['{}']
scrape_configs:
  - job_name: postgresql
    file_sd_configs: [{{files: [targets.json], refresh_interval: 1s}}]
",
            alerts.display()
        );
        fs::write(dir.join("prometheus.yml"), configuration).unwrap();
        let address = free_address();
        let mut prometheus = Command::new(program("prometheus"));
        prometheus
            .arg("--config.file=prometheus.yml")
            .arg("--storage.tsdb.path=data")
            .arg(format!("--web.listen-address={address}"));
        let prometheus = Program::start(&mut prometheus, dir, "prometheus.log");
        Prometheus { _program: prometheus, address, targets: dir.join("targets.json") }
    }

    /// Sets the exporters that are watched: for each, the label `instance` and the address.
    pub fn watch(&self, exporters: &[(&str, &str)]) {
        let targets: Vec<Value> = exporters
            .iter()
            .map(|(name, address)| json!({"targets": [address], "labels": {"instance": name}}))
            .collect();
        // Prometheus must not read a half of the file.
        let new = self.targets.with_extension("new");
        fs::write(&new, Value::from(targets).to_string()).unwrap();
        fs::rename(new, &self.targets).unwrap();
    }

    /// The reply to a request.
    pub fn ask(&self, path: &str) -> Option<Value> {
        let answer: Value = serde_json::from_str(&get(&self.address, path)?).ok()?;
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        Some(answer["data"].clone())
    }

    /// The samples that a query returns.
    pub fn query(&self, query: &str) -> Option<Vec<Value>> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        self.ask(&format!("/api/v1/query?query={encoded}"))?["result"].as_array().cloned()
    }
}
