//! Throw-away PostgreSQL servers for tests and benchmarks.
//!
//! Each [`Cluster`] lives in a directory of its own, listens on a Unix socket in it and nowhere else, and is
//! stopped and removed when it goes out of scope. The environment, all of it optional:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `PG_CONFIG` | the installation to use; default: the one on the path |
//! | `SNOWFLAKE_ID_SECOND_PG_CONFIG` | one of another major version, which pg_upgrade is to go from or to |
//! | `SNOWFLAKE_ID_WORK_DIR` | where the directories are made; default: that for temporary files |
//! | `SNOWFLAKE_ID_SERVER_USER` | who runs the server if we are root; default: postgres |

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use postgres::{Client, Config, NoTls};

pub mod book;
pub mod copies;
pub mod faults;
pub mod fleet;
pub mod load;
pub mod network;
pub mod segments;

/// How long anything may take before a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A PostgreSQL server of our own.
pub struct Cluster {
    dir: tempfile::TempDir,
    bin_dir: PathBuf,
    /// Whether the clock can be set.
    has_clock: bool,
}

/// Settings in the form of postgresql.conf.
pub type Settings<'a> = &'a [(&'a str, &'a str)];

/// What most tests want: the library preloaded, a worker ID.
pub const WORKER_1: Settings =
    &[("shared_preload_libraries", "snowflake_id"), ("snowflake_id.worker_id", "1")];

/// Has the keeper work in a database of its own: see [`Cluster::start_with_home`].
pub const IN_HOME: (&str, &str) = ("snowflake_id.database", "home");

impl Cluster {
    /// Makes a cluster with these settings and starts it; the extension is created in database `postgres`.
    pub fn start(settings: Settings) -> Cluster {
        Cluster::start_of(&pg_config(), settings)
    }

    /// The same, from the installation that a `pg_config` belongs to.
    pub fn start_of(pg_config: &Path, settings: Settings) -> Cluster {
        let cluster = Cluster::stopped_of(pg_config, settings);
        cluster.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
        cluster
    }

    /// Makes a cluster whose clock can be set with [`Cluster::set_clock`], and starts it.
    pub fn start_with_clock(settings: Settings) -> Cluster {
        let mut cluster = Cluster::stopped(settings);
        cluster.give_clock();
        cluster.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_id").unwrap();
        cluster
    }

    /// Starts a server, which has been made with [`IN_HOME`], and gives it that database with the extension in
    /// it. The extension is in `postgres` as well. Waits for the first ID.
    pub fn start_with_home(&self) -> Client {
        self.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
        let mut client = self.connect();
        client.batch_execute("CREATE DATABASE home").unwrap();
        for database in ["home", "postgres"] {
            self.connect_to(database).batch_execute("CREATE EXTENSION snowflake_id").unwrap();
        }
        poll("an ID", || client.batch_execute("SELECT snowflake_nextval()").ok());
        client
    }

    /// From its next start on the server has a clock of its own, which can be set with
    /// [`Cluster::set_clock`].
    pub fn give_clock(&mut self) {
        self.has_clock = true;
        self.set_clock(0.0);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clock.c");
        successful(
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(self.clock_library()).arg(source),
        );
    }

    /// Has the server's clock, of all its processes and at once, differ from the real one by so many seconds.
    pub fn set_clock(&self, seconds: f64) {
        let mut file =
            fs::OpenOptions::new().create(true).truncate(false).write(true).open(self.clock_file()).unwrap();
        file.write_all(&((seconds * 1e6) as i64).to_ne_bytes()).unwrap();
    }

    fn clock_library(&self) -> PathBuf {
        self.host().join("clock.so")
    }

    fn clock_file(&self) -> PathBuf {
        self.host().join("clock")
    }

    /// Makes a cluster with these settings and does not start it.
    pub fn stopped(settings: Settings) -> Cluster {
        Cluster::stopped_of(&pg_config(), settings)
    }

    /// The same with the PostgreSQL installation of this `pg_config`.
    pub fn stopped_of(pg_config: &Path, settings: Settings) -> Cluster {
        let cluster = Cluster::without_data(ask_pg_config(pg_config, "--bindir").into());
        let options = ["--username=test", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"];
        let mut initdb = cluster.program("initdb");
        initdb.arg("--pgdata").arg(cluster.data_dir()).args(options);
        if major(pg_config) >= 18 {
            // As before 18: pg_upgrade wants the same on both sides.
            initdb.arg("--no-data-checksums");
        }
        successful(&mut initdb);
        cluster.listen_at_home();
        cluster.configure(&[
            ("fsync", "off"),
            // No test may hang.
            ("statement_timeout", "2min"),
            ("max_connections", "40"),
        ]);
        cluster.configure(settings);
        cluster
    }

    /// A directory and nothing in it.
    fn without_data(bin_dir: PathBuf) -> Cluster {
        let dir = tempfile::Builder::new().prefix("cluster.").tempdir_in(work_dir()).unwrap();
        give_to_server_user(dir.path());
        Cluster { dir, bin_dir, has_clock: false }
    }

    /// Has the server listen in its own directory and nowhere else.
    fn listen_at_home(&self) {
        self.configure(&[
            ("listen_addresses", ""),
            ("unix_socket_directories", self.host().to_str().unwrap()),
            ("port", "5432"),
        ]);
    }

    /// Has the server, which is stopped, keep its WAL in another directory.
    pub fn move_wal(&self, to: &Path) {
        let from = self.data_dir().join("pg_wal");
        let to = to.join("pg_wal");
        successful(Command::new("mv").args([&from, &to]));
        std::os::unix::fs::symlink(to, from).unwrap();
    }

    /// Adds settings to postgresql.conf. They take effect at the next start or reload.
    pub fn configure(&self, settings: Settings) {
        let mut file =
            fs::OpenOptions::new().append(true).open(self.data_dir().join("postgresql.conf")).unwrap();
        for (name, value) in settings {
            writeln!(file, "{name} = '{}'", value.replace('\'', "''")).unwrap();
        }
    }

    /// Starts the server; if it does not start, what it logged.
    pub fn start_server(&self) -> Result<(), String> {
        let before = self.log().len();
        let mut pg_ctl = self.pg_ctl();
        if self.has_clock {
            pg_ctl.env("LD_PRELOAD", self.clock_library()).env("SNOWFLAKE_ID_CLOCK", self.clock_file());
        }
        match pg_ctl.arg("--log").arg(self.log_file()).args(["--wait", "start"]).output().unwrap() {
            output if output.status.success() => Ok(()),
            _ => Err(self.log()[before..].into()),
        }
    }

    /// Stops the server: `smart`, `fast` or `immediate`.
    pub fn stop_server(&self, mode: &str) {
        successful(self.pg_ctl().args(["--wait", "--mode", mode, "stop"]));
    }

    /// Stops the server if it runs; false if it has not ended within a minute.
    pub fn try_to_stop(&self, mode: &str) -> bool {
        let output = self.pg_ctl().args(["--wait", "--mode", mode, "stop"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_stopped = !said.contains("does not shut down");
        if !is_stopped {
            println!("{said}{}", self.log());
        }
        is_stopped
    }

    /// Has the server read its configuration again.
    pub fn reload(&self) {
        successful(self.pg_ctl().arg("reload"));
    }

    /// All that the server has logged.
    pub fn log(&self) -> String {
        // Before the first start there is none.
        fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Where the server keeps its data.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A connection to database `postgres`.
    pub fn connect(&self) -> Client {
        self.connect_to("postgres")
    }

    /// A connection to a database.
    pub fn connect_to(&self, database: &str) -> Client {
        self.try_connect(database).unwrap_or_else(|error| panic!("{database}: {error}"))
    }

    /// A connection to a database, or why there is none.
    pub fn try_connect(&self, database: &str) -> Result<Client, postgres::Error> {
        Config::new()
            .host_path(self.dir.path())
            .user("test")
            .dbname(database)
            .application_name("cluster test")
            .connect_timeout(PATIENCE)
            .connect(NoTls)
    }

    /// One of PostgreSQL's programs, as the server's user.
    pub fn program(&self, name: &str) -> Command {
        let program = self.bin_dir.join(name);
        let mut command = match is_root() {
            true => {
                let mut command = Command::new("runuser");
                command.args(["-u", &server_user(), "--"]).arg(program);
                command
            }
            false => Command::new(program),
        };
        // Errors are compared as text.
        command.env("LC_ALL", "C").env_remove("RUST_BACKTRACE").current_dir(self.dir.path());
        command
    }

    /// The socket's directory, for the programs' `--host`.
    pub fn host(&self) -> &Path {
        self.dir.path()
    }

    fn pg_ctl(&self) -> Command {
        let mut command = self.program("pg_ctl");
        command.arg("--pgdata").arg(self.data_dir()).arg("--silent");
        command
    }

    fn log_file(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.data_dir().join("postmaster.pid").exists() {
            // While a test panics there is nobody to tell; the script that runs the tests stops what is left
            // over.
            let _ = self.pg_ctl().args(["--wait", "--mode", "immediate", "stop"]).output();
        }
    }
}

/// The installation to use.
pub fn pg_config() -> PathBuf {
    std::env::var_os("PG_CONFIG").map_or_else(|| "pg_config".into(), PathBuf::from)
}

/// Has a server let in whoever connects from these addresses. It has to be started or reloaded.
pub fn trust_hosts(server: &Cluster, addresses: &str) {
    let file = server.data_dir().join("pg_hba.conf");
    let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
    writeln!(file, "host all all {addresses} trust").unwrap();
}

/// What `pg_config` answers to an option such as `--bindir`.
pub fn ask_pg_config(pg_config: &Path, option: &str) -> String {
    let output = successful(Command::new(pg_config).arg(option));
    String::from_utf8(output.stdout).unwrap().trim().into()
}

fn work_dir() -> PathBuf {
    std::env::var_os("SNOWFLAKE_ID_WORK_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

fn give_to_server_user(dir: &Path) {
    if is_root() {
        successful(Command::new("chown").arg(server_user()).arg(dir));
    }
}

/// The major version of an installation.
pub fn major(pg_config: &Path) -> u32 {
    let version = ask_pg_config(pg_config, "--version");
    let number = version.trim_start_matches("PostgreSQL ");
    number.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// What `pg_stat_activity` shows for a wait event of ours: an extension can name its own since version 17.
pub fn wait_event(name: &str) -> &str {
    if major(&pg_config()) >= 17 { name } else { "Extension" }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| std::os::unix::fs::MetadataExt::uid(&process) == 0)
}

fn server_user() -> String {
    std::env::var("SNOWFLAKE_ID_SERVER_USER").unwrap_or_else(|_| "postgres".into())
}

/// Runs a command that has to succeed.
pub fn successful(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
    assert!(
        output.status.success(),
        "{:?} {:?} failed:\n{}{}",
        command.get_program(),
        command.get_args().collect::<Vec<&OsStr>>(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Sends a signal to a process.
pub fn kill(signal: &str, pid: i32) {
    // It may have ended by itself.
    Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).output().unwrap();
}

/// Kills a backend, and waits until the server has made its shared memory anew and can be connected to.
pub fn crash_a_backend(cluster: &Cluster) {
    let mut victim = cluster.connect();
    let pid: i32 = single(&mut victim, "SELECT pg_backend_pid()");
    kill("KILL", pid);
    poll("the victim to be gone", || victim.batch_execute("SELECT 1").is_err().then_some(()));
    poll("the server", || cluster.try_connect("postgres").ok()?.batch_execute("SELECT 1").ok());
}

/// Asks again and again until the answer is `Some`.
#[track_caller]
pub fn poll<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "gave up waiting for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The first column of the only row.
pub fn single<T: for<'a> postgres::types::FromSql<'a>>(client: &mut Client, query: &str) -> T {
    client.query_one(query, &[]).unwrap_or_else(|error| panic!("{query}: {}", text(&error))).get(0)
}

/// The first column of all rows: IDs.
pub fn ids(client: &mut Client, query: &str) -> Vec<i64> {
    let rows = client.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {}", text(&error)));
    rows.iter().map(|row| row.get(0)).collect()
}

/// The SQLSTATE with which a statement has to fail, and all that the error says.
pub fn failure(client: &mut Client, query: &str) -> (String, String) {
    match client.batch_execute(query) {
        Ok(()) => panic!("{query} did not fail"),
        Err(error) => (error.code().map_or_else(String::new, |code| code.code().into()), text(&error)),
    }
}

/// All that an error says: message, DETAIL and HINT, a line each.
pub fn text(error: &postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => [Some(error.message()), error.detail(), error.hint()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n"),
        None => error.to_string(),
    }
}

/// Fails if an ID is there twice.
pub fn assert_distinct<'a>(ids: impl IntoIterator<Item = &'a i64>) {
    let mut seen = HashSet::new();
    for id in ids {
        assert!(seen.insert(*id), "ID {id} came twice");
    }
}

/// Fails if an ID is not larger than the one before it.
pub fn assert_increasing(ids: &[i64]) {
    for pair in ids.windows(2) {
        assert!(pair[0] < pair[1], "ID {} came before {}", pair[0], pair[1]);
    }
}
