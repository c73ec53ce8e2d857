//! A server: creating, starting, changing and stopping it.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{SystemTime, UNIX_EPOCH};

use postgres::types::FromSql;
use postgres::{Client, Config, NoTls};

use crate::user::{as_server_user, give_to_server_user, new_dir};
use crate::{
    Run, TIMEOUT, ask_pg_config, eventually, kill, pg_config, single, successful, template, wait_for_first_id,
};

/// A PostgreSQL server that a test creates.
pub struct Cluster {
    dir: tempfile::TempDir,
    pub(crate) bin_dir: PathBuf,
    /// Whether the clock can be set.
    has_clock: bool,
}

const EXTENSION: &str = "snowflake_id";

/// Settings in the form of postgresql.conf.
pub type Settings<'a> = &'a [(&'a str, &'a str)];

/// The properties of a server to be created. By default it is an ordinary server without preloading, with the extension
/// in database `postgres`.
#[derive(Clone)]
pub struct Builder {
    pg_config: PathBuf,
    settings: Vec<(String, String)>,
    clock: Option<f64>,
    extensions: Vec<String>,
}

impl Builder {
    /// Uses the installation that a `pg_config` belongs to.
    pub fn of(mut self, pg_config: &Path) -> Builder {
        self.pg_config = pg_config.into();
        self
    }

    /// Adds a setting. If a name is set twice, the last value counts.
    pub fn set(mut self, name: &str, value: impl ToString) -> Builder {
        self.settings.push((name.into(), value.to_string()));
        self
    }

    /// Adds several settings.
    pub fn settings(self, settings: Settings) -> Builder {
        settings.iter().fold(self, |builder, (name, value)| builder.set(name, value))
    }

    /// Preloads the library.
    pub fn preload(self) -> Builder {
        self.set("shared_preload_libraries", "snowflake_id")
    }

    /// Preloads the library and sets the worker ID.
    pub fn worker(self, id: impl ToString) -> Builder {
        self.preload().set("snowflake_id.worker_id", id)
    }

    /// Reduces the horizon margin to half a second, so that IDs are available sooner after a crash.
    pub fn short_horizon(self) -> Builder {
        self.set("snowflake_id.horizon_margin", "500ms")
    }

    /// Lets calls wait for a minute, so that none fails because the machine is busy.
    pub fn patient(self) -> Builder {
        self.set("snowflake_id.max_wait", "1min")
    }

    /// Gives the keeper a database of its own: see [`Cluster::start_with_home`].
    pub fn home(self) -> Builder {
        self.set("snowflake_id.database", "home")
    }

    /// Gives the server a clock that [`Cluster::set_clock`] can set.
    pub fn clock(self) -> Builder {
        self.clock_at(0.0)
    }

    /// Gives the server such a clock, which differs by this number of seconds from the start.
    pub fn clock_at(mut self, seconds: f64) -> Builder {
        self.clock = Some(seconds);
        self
    }

    /// Gives the server a clock that can be moved ahead by hours, as if they had passed.
    pub fn following_clock(self) -> Builder {
        self.short_horizon().set("snowflake_id.max_clock_jump", "1d").clock()
    }

    /// Creates these extensions at the start.
    pub fn extensions(mut self, names: &[&str]) -> Builder {
        self.extensions = names.iter().map(|name| (*name).into()).collect();
        self
    }

    /// Creates the server without starting it, and without extensions.
    pub fn stopped(self) -> Cluster {
        self.created_by(template::copy_to)
    }

    fn created_by(self, fill: impl FnOnce(&Path, &Path, &Path)) -> Cluster {
        let mut cluster = Cluster::without_data(ask_pg_config(&self.pg_config, "--bindir").into());
        fill(&cluster.data_dir(), &self.pg_config, &cluster.bin_dir);
        cluster.listen_at_home();
        // No test may hang forever.
        cluster.configure(&[("fsync", "off"), ("statement_timeout", "2min"), ("max_connections", "40")]);
        // Memory that takes time at each start, and memory that would remain after a server was killed.
        cluster.configure(&[("shared_buffers", "16MB"), ("dynamic_shared_memory_type", "mmap")]);
        // A publisher or a primary may start later.
        cluster.configure(&[("wal_retrieve_retry_interval", "100ms")]);
        for (name, value) in &self.settings {
            cluster.configure(&[(name, value)]);
        }
        if let Some(seconds) = self.clock {
            cluster.give_clock();
            cluster.set_clock(seconds);
        }
        cluster
    }

    /// Creates and starts the server, and creates the extensions.
    #[track_caller]
    pub fn start(self) -> Cluster {
        let extensions = self.extensions.clone();
        // A copied installation may have another version of them.
        if self.pg_config == pg_config() && !extensions.is_empty() {
            let cluster = self.created_by(|data_dir, pg_config, bin_dir| {
                template::copy_with_extensions_to(&extensions, data_dir, pg_config, bin_dir);
            });
            cluster.start_server();
            return cluster;
        }
        let cluster = self.stopped();
        cluster.start_server();
        for name in extensions {
            cluster.connect().run(&format!("CREATE EXTENSION {name}"));
        }
        cluster
    }
}

impl Cluster {
    pub fn builder() -> Builder {
        Builder { pg_config: pg_config(), settings: vec![], clock: None, extensions: vec![EXTENSION.into()] }
    }

    /// Starts a server that was created with [`Builder::home`], and creates its keeper's database with the extension.
    /// The extension is in `postgres` too. Waits for the first ID.
    pub fn start_with_home(&self) -> Client {
        self.start_server();
        let mut client = self.connect();
        client.run("CREATE DATABASE home");
        for database in ["home", "postgres"] {
            self.connect_to(database).run("CREATE EXTENSION snowflake_id");
        }
        wait_for_first_id(&mut client);
        client
    }

    /// Gives the server, from its next start on, a clock of its own that [`Cluster::set_clock`] can set.
    pub(crate) fn give_clock(&mut self) {
        self.has_clock = true;
        self.set_clock(0.0);
    }

    /// Sets the difference between the server's clock and the real clock, in seconds, for all processes at once.
    pub fn set_clock(&self, seconds: f64) {
        self.write_clock(0, &[(seconds * 1e6) as i64]);
        self.hold_clock(0, 0);
    }

    /// Stops the clock at an instant of Unix time, until it is set. It moves by a step each time a process reads it.
    pub fn hold_clock(&self, instant_us: i64, step_us: i64) {
        self.write_clock(1, &[instant_us, step_us]);
    }

    /// Writes some of the numbers in the clock's file, from this one on.
    fn write_clock(&self, first: u64, numbers: &[i64]) {
        // Processes have the file mapped. If it were truncated, they would read beyond its end, which is fatal.
        let file =
            fs::OpenOptions::new().create(true).truncate(false).write(true).open(self.clock_file()).unwrap();
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        file.write_all_at(&bytes, 8 * first).unwrap();
    }

    /// Moves a clock that can be set to the start of the next tick. `tick` is its length in seconds.
    pub fn set_clock_to_next(&self, tick: f64) {
        let file = fs::read(self.clock_file()).unwrap();
        let shift = i64::from_ne_bytes(file[..8].try_into().unwrap()) as f64 / 1e6;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64() + shift;
        self.set_clock(shift + tick - now % tick + 0.01);
    }

    fn clock_file(&self) -> PathBuf {
        self.host().join("clock")
    }

    /// Creates an empty directory for a server.
    pub(crate) fn without_data(bin_dir: PathBuf) -> Cluster {
        Cluster { dir: new_dir("cluster."), bin_dir, has_clock: false }
    }

    /// Makes the server listen in its own directory only.
    pub(crate) fn listen_at_home(&self) {
        self.configure(&[
            ("listen_addresses", ""),
            ("unix_socket_directories", self.host().to_str().unwrap()),
            ("port", "5432"),
        ]);
    }

    /// Moves the WAL of a stopped server to another directory.
    pub fn move_wal(&self, to: &Path) {
        let from = self.data_dir().join("pg_wal");
        let to = to.join("pg_wal");
        // Without the holes of the template, so that the segment occupies its whole size.
        successful(Command::new("cp").args(["-a", "--sparse=never"]).args([&from, &to]));
        fs::remove_dir_all(&from).unwrap();
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

    /// Changes a setting and reloads the configuration.
    pub fn change(&self, name: &str, value: &str) {
        self.configure(&[(name, value)]);
        self.reload();
    }

    /// Like [`Cluster::change`], but waits until this session sees the new value.
    #[track_caller]
    pub fn change_for(&self, client: &mut Client, name: &str, value: &str) {
        self.change(name, value);
        eventually("the reload", || single::<String>(client, &format!("SHOW {name}")) == value);
    }

    /// Allows all connections from these addresses, after the next start or reload.
    pub fn trust_hosts(&self, addresses: &str) {
        let file = self.data_dir().join("pg_hba.conf");
        let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
        writeln!(file, "host all all {addresses} trust").unwrap();
    }

    /// Starts the server.
    #[track_caller]
    pub fn start_server(&self) {
        self.start_server_by(|pg_ctl| pg_ctl);
    }

    /// Starts the server by a command derived from the usual one.
    #[track_caller]
    pub fn start_server_by(&self, change: impl FnOnce(Command) -> Command) {
        self.try_to_start_by(change).unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
    }

    /// Starts the server. Returns its log if it does not start.
    pub fn try_to_start(&self) -> Result<(), String> {
        self.try_to_start_by(|pg_ctl| pg_ctl)
    }

    /// Like [`Cluster::try_to_start`], by a command derived from the usual one.
    pub fn try_to_start_by(&self, change: impl FnOnce(Command) -> Command) -> Result<(), String> {
        let before = self.log_length();
        let mut pg_ctl = self.pg_ctl();
        pg_ctl.arg("--log").arg(self.log_file()).args(["--wait", "start"]);
        self.spread_clock(&mut pg_ctl);
        let output = change(pg_ctl).output().unwrap();
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "{}{}",
                String::from_utf8_lossy(&output.stderr),
                self.log_between(&(before..u64::MAX))
            )),
        }
    }

    /// Starts the server under a program such as Valgrind, given with its options, and does not wait for the start.
    pub fn spawn_under(&self, program: &[&str]) -> Child {
        let mut command = as_server_user(Path::new(program[0]));
        command.args(&program[1..]).arg(self.bin_dir.join("postgres")).arg("-D").arg(self.data_dir());
        command.env("LC_ALL", "C").current_dir(self.host());
        self.spread_clock(&mut command);
        let log = fs::OpenOptions::new().append(true).create(true).open(self.log_file()).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    fn spread_clock(&self, command: &mut Command) {
        if self.has_clock {
            command.env("LD_PRELOAD", template::clock_library()).env("SNOWFLAKE_ID_CLOCK", self.clock_file());
        }
    }

    /// Stops the server in a mode: `smart`, `fast` or `immediate`.
    #[track_caller]
    pub fn stop_server(&self, mode: &str) {
        successful(self.pg_ctl().args(["--wait", "--mode", mode, "stop"]));
    }

    /// Restarts the server.
    #[track_caller]
    pub fn restart(&self, mode: &str) {
        self.stop_server(mode);
        self.start_server();
    }

    /// Stops the server if it is running. Returns false if it has not stopped within a minute.
    pub fn try_to_stop(&self, mode: &str) -> bool {
        let output = self.pg_ctl().args(["--wait", "--mode", mode, "stop"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_stopped = !said.contains("does not shut down");
        if !is_stopped {
            println!("{said}{}", self.log());
        }
        is_stopped
    }

    /// Reloads the configuration of the server.
    pub fn reload(&self) {
        successful(self.pg_ctl().arg("reload"));
    }

    /// The whole log of the server.
    pub fn log(&self) -> String {
        self.log_between(&(0..u64::MAX))
    }

    /// The part of the log between two positions, in bytes.
    pub fn log_between(&self, positions: &Range<u64>) -> String {
        // There is no log before the first start.
        let log = fs::read(self.log_file()).unwrap_or_default();
        let [from, to] = [positions.start, positions.end].map(|at| log.len().min(at as usize));
        String::from_utf8_lossy(&log[from..to]).into_owned()
    }

    /// The length of the log, in bytes.
    pub fn log_length(&self) -> u64 {
        fs::metadata(self.log_file()).map_or(0, |file| file.len())
    }

    /// The data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Connects to database `postgres`.
    #[track_caller]
    pub fn connect(&self) -> Client {
        self.connect_to("postgres")
    }

    /// Connects to a database.
    #[track_caller]
    pub fn connect_to(&self, database: &str) -> Client {
        self.try_connect(database).unwrap_or_else(|error| panic!("{database}: {error}"))
    }

    /// Connects to a database, or returns the error.
    pub fn try_connect(&self, database: &str) -> Result<Client, postgres::Error> {
        Config::new()
            .host_path(self.dir.path())
            .user("test")
            .dbname(database)
            .application_name("cluster test")
            .connect_timeout(TIMEOUT)
            .connect(NoTls)
    }

    /// The libpq connection string of a role for database `postgres`.
    pub fn connection_string(&self, role: &str) -> String {
        format!("host={} user={role} dbname=postgres", self.host().display())
    }

    /// A session of database `postgres` that connects again after it has lost the server.
    pub fn session(&self) -> Session<'_> {
        Session { server: self, client: None }
    }

    /// Runs statements that may fail, for example because the server is down. Returns whether they succeeded.
    pub fn try_run(&self, statements: &str) -> bool {
        self.try_connect("postgres").is_ok_and(|mut client| client.batch_execute(statements).is_ok())
    }

    /// Waits until the server, which is starting by itself, accepts connections.
    #[track_caller]
    pub fn wait_until_up(&self) {
        eventually("the server", || self.try_run("SELECT 1"));
    }

    /// Starts the server if it is down, once all its earlier processes have ended.
    #[track_caller]
    pub fn bring_up(&self) {
        eventually("the server", || {
            let _ = self.try_to_start();
            self.try_run("SELECT 1")
        });
    }

    /// Kills a backend, and waits until the server has reinitialized its shared memory and accepts connections. The
    /// postmaster notices the death only some time after the process has ended, and then ends all other processes.
    pub fn crash_a_backend(&self) {
        let (mut victim, mut other) = (self.connect(), self.connect());
        kill("KILL", single(&mut victim, "SELECT pg_backend_pid()"));
        eventually("all backends to be gone", || other.batch_execute("SELECT 1").is_err());
        self.wait_until_up();
    }

    /// Returns a command that runs one of PostgreSQL's programs as the server's user.
    pub fn program(&self, name: &str) -> Command {
        let mut command = as_server_user(&self.bin_dir.join(name));
        // Tests compare errors as text.
        command.env("LC_ALL", "C").current_dir(self.dir.path());
        command
    }

    /// Returns a command that runs one of PostgreSQL's client programs, connected to the server.
    pub fn client_program(&self, name: &str) -> Command {
        let mut command = self.program(name);
        command.arg("--host").arg(self.host()).arg("--username=test");
        command
    }

    /// The directory of the socket, for the programs' option `--host`.
    pub fn host(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file in the server's directory that only the server's user can read.
    pub fn write_private(&self, name: &str, text: &str) -> PathBuf {
        let file = self.host().join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        self.own(&file);
        file
    }

    /// Makes the server's user the owner of a file in the server's directory.
    pub fn own(&self, path: &Path) {
        give_to_server_user(path);
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

/// A session that connects when it has to: see [`Cluster::session`].
pub struct Session<'a> {
    server: &'a Cluster,
    client: Option<Client>,
}

impl Session<'_> {
    /// The first column of the only row of a query.
    pub fn ask<T: for<'b> FromSql<'b>>(&mut self, query: &str) -> Result<T, postgres::Error> {
        let mut client = match self.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.server.try_connect("postgres")?,
        };
        let answer = client.query_one(query, &[]).map(|row| row.get(0));
        self.client = Some(client);
        answer
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A client may have taken the error for that of a server that is away, and have waited for another.
        if std::thread::panicking() && self.log().contains("duplicate key value violates unique constraint") {
            eprintln!("panicked at the log of a server:\na unique key was violated");
        }
        if self.data_dir().join("postmaster.pid").exists() {
            // An error cannot be reported while a test panics. The script that runs the tests stops servers that are
            // left over.
            let _ = self.pg_ctl().args(["--wait", "--mode", "immediate", "stop"]).output();
        }
    }
}
