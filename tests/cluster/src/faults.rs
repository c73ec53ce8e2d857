//! Faults that a test causes in a server. A fault ends when its value is dropped, even if the test panics.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use postgres::Client;

use crate::load::Random;
use crate::user::{give_to_server_user, new_dir};
use crate::{Cluster, Run, eventually, kill, single, status, successful};

/// The longest time for which processes are paused. A paused process may hold a lock that the test waits for, so
/// without a limit the test would hang.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Processes that are stopped (SIGSTOP) wherever they happen to be, and continue when this value is dropped.
pub struct Paused {
    end: Option<Sender<()>>,
    waker: Option<JoinHandle<()>>,
}

impl Paused {
    /// Pauses processes.
    pub fn new(pids: Vec<i32>) -> Paused {
        Paused::at_most(LONGEST_PAUSE, pids)
    }

    /// Pauses processes, with another limit.
    pub fn at_most(limit: Duration, pids: Vec<i32>) -> Paused {
        let (end, ended) = channel::<()>();
        for &pid in &pids {
            kill("STOP", pid);
        }
        let waker = thread::spawn(move || {
            // Nothing is ever sent. An error of either kind ends the pause.
            let _ = ended.recv_timeout(limit);
            pids.into_iter().for_each(|pid| kill("CONT", pid));
        });
        Paused { end: Some(end), waker: Some(waker) }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        self.end.take();
        // This fails only if `kill` cannot be run.
        let _ = self.waker.take().map(JoinHandle::join);
    }
}

/// A disk of some megabytes that a test can fill: a file system in memory.
pub struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts a disk for the server's user. If that is not permitted, returns the reason.
    pub fn mount(megabytes: u32) -> Result<SmallDisk, String> {
        let dir = new_dir("disk.");
        let options = format!("size={megabytes}m,mode=755");
        let mut mount = Command::new("mount");
        let output =
            mount.args(["-t", "tmpfs", "-o", &options, "snowflake_id_test"]).arg(dir.path()).output();
        match output {
            Ok(output) if output.status.success() => {}
            Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).trim().into()),
            Err(error) => return Err(error.to_string()),
        }
        let disk = SmallDisk { dir };
        give_to_server_user(disk.path());
        Ok(disk)
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Enlarges the disk.
    pub fn grow(&self, megabytes: u32) {
        let options = format!("remount,size={megabytes}m");
        successful(Command::new("mount").args(["-o", &options]).arg(self.path()));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because a server that is still shutting down may have files open.
        let _ = Command::new("umount").arg("--lazy").arg(self.path()).output();
    }
}

/// A standby that only receives WAL and reports to the primary which WAL it has flushed.
pub struct WalReceiver(Child);

impl WalReceiver {
    /// Starts a receiver with this `application_name`.
    pub fn start(cluster: &Cluster, name: &str) -> WalReceiver {
        let dir = cluster.host().join(name);
        fs::create_dir(&dir).unwrap();
        cluster.own(&dir);
        let source = format!("{} application_name={name}", cluster.connection_string("test"));
        let mut program = cluster.program("pg_receivewal");
        program.args(["--synchronous", "--no-loop", "--dbname", &source, "--directory"]).arg(dir);
        WalReceiver(program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for WalReceiver {
    fn drop(&mut self) {
        kill("TERM", self.0.id() as i32);
        let _ = self.0.wait();
    }
}

/// The process ID of the keeper, after it has opened the gate.
#[track_caller]
pub fn keeper_pid(client: &mut Client) -> i32 {
    eventually("the keeper", || {
        let query =
            "SELECT keeper_pid FROM snowflake_status WHERE keeper_pid IS NOT NULL AND worker_id IS NOT NULL";
        Some(client.query(query, &[]).ok()?.first()?.get(0))
    })
}

/// Terminates the keeper. Another keeper starts a second later; returns when it has opened the gate.
#[track_caller]
pub fn replace_keeper(client: &mut Client) {
    let old = keeper_pid(client);
    client.execute("SELECT pg_terminate_backend($1)", &[&old]).unwrap();
    eventually("the next keeper", || keeper_pid(client) != old);
}

/// The process ID of a server's process of this kind, as `pg_stat_activity` names it, if there is one.
pub fn background_pid(server: &Cluster, kind: &str) -> Option<i32> {
    let query = "SELECT pid FROM pg_stat_activity WHERE backend_type = $1";
    Some(server.try_connect("postgres").ok()?.query_opt(query, &[&kind]).ok()??.get(0))
}

/// Sends a signal to one process of a server that satisfies a condition, if the server is up.
pub fn signal_one(server: &Cluster, signal: &str, condition: &str, random: &mut Random) {
    let query = format!("SELECT pid FROM pg_stat_activity WHERE {condition} AND pid <> pg_backend_pid()");
    let rows = server.try_connect("postgres").and_then(|mut client| client.query(&query, &[]));
    let rows = rows.unwrap_or_default();
    if !rows.is_empty() {
        kill(signal, rows[random.below(rows.len() as u64) as usize].get(0));
    }
}

/// Simulates a power failure of the server's host.
pub fn cut_power(server: &Cluster) {
    if let Some(pid) = postmaster(server) {
        kill("KILL", pid);
    }
}

/// Sets the clock to the time at which, according to the status view, generation can continue. Returns the shift of the
/// clock, in seconds.
pub fn set_clock_as_needed(cluster: &Cluster) -> f64 {
    let resumes_at: f64 = status(&mut cluster.connect(), "extract(epoch FROM resumes_at)::float8");
    let shift = resumes_at - SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    cluster.set_clock(shift);
    shift
}

/// Kills all processes of a server. When this returns, none of them is running.
pub fn kill_server(server: &Cluster) {
    let all = processes(server);
    assert!(!all.is_empty(), "the server is down already");
    for &pid in &all {
        kill("KILL", pid);
    }
    let runs = |pid: &i32| Path::new("/proc").join(pid.to_string()).join("exe").read_link().is_ok();
    eventually("the end of all processes", || !all.iter().any(runs));
    // At the next start another process may have this process ID.
    let _ = fs::remove_file(server.data_dir().join("postmaster.pid"));
    let _ = fs::remove_file(server.host().join(".s.PGSQL.5432.lock"));
}

/// Sends a signal to all processes of a server, the postmaster first.
pub fn signal_all(server: &Cluster, signal: &str) {
    for pid in processes(server) {
        kill(signal, pid);
    }
}

/// The process ID of a server's postmaster, read from `postmaster.pid`; `None` if the server is down.
pub fn postmaster(server: &Cluster) -> Option<i32> {
    let file = fs::read_to_string(server.data_dir().join("postmaster.pid")).ok()?;
    file.lines().next()?.parse().ok()
}

/// The process IDs of a server, the postmaster first. Empty if the server is down.
pub fn processes(server: &Cluster) -> Vec<i32> {
    let Some(postmaster) = postmaster(server) else { return vec![] };
    let list = Command::new("ps").args(["-o", "pid=", "--ppid", &postmaster.to_string()]).output().unwrap();
    let children = String::from_utf8(list.stdout).unwrap();
    [postmaster].into_iter().chain(children.split_whitespace().map(|pid| pid.parse().unwrap())).collect()
}

/// Stops a server in fast mode, and returns how long that took.
pub fn time_to_stop(server: &Cluster) -> Duration {
    let start = Instant::now();
    server.stop_server("fast");
    println!("stopped after {:?}", start.elapsed());
    start.elapsed()
}

/// Sets a server's transaction IDs forward until 30 million are left before they wrap around, and starts it again. From
/// then on, the server warns each time it assigns one: PostgreSQL 15 to 18 do from 40 million on, 19 from 100 million.
pub fn use_up_transaction_ids(server: &Cluster) {
    const LEFT: u32 = 30_000_000;
    /// The number of transactions whose states are in one file.
    const PER_FILE: u32 = 1 << 20;
    server.connect().run("CREATE DATABASE unvacuumed");
    let mut client = server.connect_to("unvacuumed");
    client.run("CREATE TABLE damaged (number int)");
    let damaged: String = single(&mut client, "SELECT pg_relation_filepath('damaged')");
    let oldest: String = single(&mut client, "SELECT oldest_xid::text FROM pg_control_checkpoint()");
    let next = (oldest.parse::<u32>().unwrap() + (1 << 31) - LEFT).next_multiple_of(PER_FILE);
    server.stop_server("fast");
    // Without its file, the table cannot be vacuumed, so the warnings go on.
    fs::remove_file(server.data_dir().join(damaged)).unwrap();
    let states = server.data_dir().join(format!("pg_xact/{:04X}", next / PER_FILE));
    fs::write(&states, vec![0; PER_FILE as usize / 4]).unwrap();
    server.own(&states);
    let mut reset = server.program("pg_resetwal");
    successful(reset.arg("--next-transaction-id").arg(next.to_string()).arg(server.data_dir()));
    server.start_server();
}
