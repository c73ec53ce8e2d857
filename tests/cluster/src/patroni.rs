//! Clusters of two servers under Patroni. The configuration is that of docs/run/platforms.md and docs/examples/platforms. The
//! programs come from Debian packages.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use postgres::config::{Config, TargetSessionAttrs};
use serde_json::Value;
use tempfile::TempDir;

use crate::book::{of_make, read};
use crate::user::{as_server_user, new_dir};
use crate::{Cluster, ask_pg_config, cut_power, eventually, pg_config, successful};

static PAGE: LazyLock<String> = LazyLock::new(|| of_make("fleet-patroni"));

/// The block of the page that begins with this text, without the line that names its language.
pub fn block(beginning: &str) -> &'static str {
    let block = PAGE.split("```").find(|block| block.starts_with(beginning));
    block.and_then(|block| block.split_once('\n')).unwrap_or_else(|| panic!("no block {beginning:?}")).1
}

/// A program in the background. It logs to `program.log` in the directory in which it was started.
struct Program {
    process: Child,
    log: PathBuf,
}

impl Program {
    /// Starts the program as the server's user.
    fn start(site: &Path, dir: &Path, command: &str) -> Program {
        let mut shell = shell(site, dir, &format!("exec {command} >>program.log 2>&1"));
        shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Program { process: shell.spawn().unwrap(), log: dir.join("program.log") }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            let _ = Command::new("tail").args(["-v", "-n", "20"]).arg(&self.log).status();
        }
    }
}

fn shell(site: &Path, dir: &Path, script: &str) -> Command {
    let mut shell = as_server_user(Path::new("/bin/sh"));
    shell.env("PYTHONPATH", site.join("usr/lib/python3/dist-packages")).env("LC_ALL", "C.UTF-8");
    shell.args(["-c", script]).current_dir(dir);
    shell
}

/// etcd and the directory of all programs. Each server has its own address; all use the same ports.
pub struct Site {
    _etcd: Program,
    dir: TempDir,
    /// The ports of etcd, Patroni and PostgreSQL.
    ports: [u16; 3],
}

impl Site {
    /// Starts etcd. The environment must say where scripts/test.sh has unpacked the packages.
    pub fn start() -> Result<Site, std::env::VarError> {
        let packages = std::env::var("SNOWFLAKE_ID_PATRONI")?;
        let dir = new_dir("patroni.");
        // The server's user may not have access to the directory in which they were unpacked.
        successful(Command::new("cp").args(["-R", &format!("{packages}/usr")]).arg(dir.path()));
        let sockets = [(); 4].map(|()| TcpListener::bind("0.0.0.0:0").unwrap());
        let [peers, ports @ ..] = sockets.map(|socket| socket.local_addr().unwrap().port());
        let (peers, clients) =
            (format!("http://127.0.0.1:{peers}"), format!("http://127.0.0.1:{}", ports[0]));
        let etcd = format!(
            "usr/bin/etcd --data-dir etcd --log-level error --initial-cluster default={peers} \
             --listen-peer-urls {peers} --initial-advertise-peer-urls {peers} \
             --listen-client-urls {clients} --advertise-client-urls {clients}"
        );
        Ok(Site { _etcd: Program::start(dir.path(), dir.path(), &etcd), dir, ports })
    }

    /// Starts a cluster of the page. Its servers have the addresses 127.0.0.`network`1 and 127.0.0.`network`2.
    /// `standby` is the role of a standby in the output of this version of Patroni.
    pub fn cluster(&self, scope: &'static str, network: &str, standby: &'static str) -> PatroniCluster<'_> {
        let mut config = Config::new();
        config.port(self.ports[2]).user("postgres").password("change-me").dbname("postgres");
        config.target_session_attrs(TargetSessionAttrs::ReadWrite).connect_timeout(Duration::from_secs(3));
        let servers = [1, 2].map(|number| {
            config.host(&format!("127.0.0.{network}{number}"));
            Server { patroni: None, postgresql: self.server(scope, network, number) }
        });
        let mut cluster = PatroniCluster { site: self, scope, standby, config, servers };
        cluster.start_patronis();
        cluster
    }

    /// Writes the files of a server. The second server differs from the first, which is on the page, in its name and
    /// address.
    fn server(&self, scope: &str, network: &str, number: usize) -> Cluster {
        let bin_dir = ask_pg_config(&pg_config(), "--bindir");
        let server = Cluster::without_data(bin_dir.clone().into());
        let dir = server.host().to_str().unwrap();
        let [etcd_port, rest_port, port] = self.ports;
        let mut yaml = read(&format!("docs/examples/platforms/patroni-{scope}1.yml"));
        for (from, to) in [
            (&*format!("{scope}1"), &*format!("{scope}{number}")),
            (&format!("10.0.0.{network}1"), &format!("10.0.0.{network}{number}")),
            ("10.0.0.", "127.0.0."),
            ("5432", &port.to_string()),
            (":8008", &format!(":{rest_port}")),
            (":2379", &format!(":{etcd_port}")),
            ("/usr/lib/postgresql/15/bin", &bin_dir),
            (&format!("/var/lib/postgresql/15/{scope}"), &format!("{dir}/data")),
            ("/var/lib/postgresql", dir),
            ("/var/run/postgresql", dir),
        ] {
            yaml = yaml.replace(from, to);
        }
        fs::write(server.host().join("config.yml"), yaml).unwrap();
        let password = PAGE.lines().find(|line| line.starts_with("*:")).unwrap();
        let script = format!("umask 077; echo '{password}' >fleet.pass");
        successful(&mut shell(self.dir.path(), server.host(), &script));
        server
    }
}

/// Fields are dropped in this order: Patroni must end first, because it would start PostgreSQL again.
struct Server {
    patroni: Option<Program>,
    postgresql: Cluster,
}

/// A cluster of two servers. Either may be the primary.
pub struct PatroniCluster<'a> {
    site: &'a Site,
    scope: &'static str,
    standby: &'static str,
    /// The connection settings for the primary.
    pub config: Config,
    servers: [Server; 2],
}

impl PatroniCluster<'_> {
    /// Starts Patroni on each server on which it is not running.
    pub fn start_patronis(&mut self) {
        let site = self.site.dir.path();
        for Server { patroni, postgresql } in &mut self.servers {
            let command = "/usr/bin/python3 -m patroni config.yml";
            patroni.get_or_insert_with(|| Program::start(site, postgresql.host(), command));
        }
    }

    /// The first column of the only row, if the primary answers.
    pub fn ask<T: postgres::types::FromSqlOwned>(&self, query: &str) -> Option<T> {
        self.config.connect(postgres::NoTls).ok()?.query_one(query, &[]).ok()?.try_get(0).ok()
    }

    /// Waits until this condition holds on the primary.
    #[track_caller]
    pub fn wait_for(&self, condition: &str) {
        eventually(condition, || self.ask(&format!("SELECT {condition}")) == Some(true));
    }

    /// Waits until Patroni has a standby on the primary's timeline. A killed primary first comes back on its old
    /// timeline. It streams for a moment, but cannot take over before Patroni has rewound it.
    #[track_caller]
    pub fn wait_for_standby(&self) {
        let timeline = "SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int";
        eventually("a standby", || {
            let timeline: i32 = self.ask(timeline)?;
            let list = self.patronictl("list --format=json").output().unwrap().stdout;
            let members: Vec<Value> = serde_json::from_slice(&list).ok()?;
            members.into_iter().find(|member| {
                // The word for a standby that receives WAL depends on the version of Patroni.
                let is_up = member["State"] == "running" || member["State"] == "streaming";
                is_up && member["Role"] == self.standby && member["TL"] == timeline
            })
        });
    }

    /// Waits until there is a primary. Returns its number.
    #[track_caller]
    pub fn primary(&self) -> i32 {
        eventually("a primary", || self.ask("SELECT right(host(inet_server_addr()), 1)::int"))
    }

    /// Switches the roles of the primary and its standby.
    pub fn switch_over(&mut self, primary: i32) {
        let scope = self.scope;
        successful(&mut self.patronictl(&format!("switchover {scope} --leader {scope}{primary} --force")));
    }

    /// Kills Patroni on a server.
    pub fn kill_patroni(&mut self, number: i32) {
        self.servers[number as usize - 1].patroni = None;
    }

    /// Kills PostgreSQL on a server.
    pub fn kill_postgresql(&mut self, number: i32) {
        cut_power(&self.servers[number as usize - 1].postgresql);
    }

    fn patronictl(&self, arguments: &str) -> Command {
        let program = "/usr/bin/python3 -c 'from patroni.ctl import ctl; ctl()' --config-file config.yml";
        shell(self.site.dir.path(), self.servers[0].postgresql.host(), &format!("exec {program} {arguments}"))
    }
}
