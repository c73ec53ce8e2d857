//! Servers that start as a copy of another server: standbys, restored backups and upgrades.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{Cluster, Run, Settings, beside, eventually, single, successful};

impl Cluster {
    /// Takes a base backup of this running server. Returns a server with its own directory and clock that has not been
    /// started. Its settings are those of this server, except for the given ones.
    pub fn base_backup(&self, settings: Settings) -> Cluster {
        let mut copy = Cluster::without_data(self.bin_dir.clone());
        let mut pg_basebackup = self.client_program("pg_basebackup");
        pg_basebackup.args(["--checkpoint=fast", "--no-sync", "--pgdata"]).arg(copy.data_dir());
        successful(&mut pg_basebackup);
        copy.give_clock();
        copy.listen_at_home();
        copy.configure(settings);
        copy
    }

    /// Copies this stopped server. The copy has its own directory and clock.
    pub fn duplicate(&self) -> Cluster {
        let mut copy = Cluster::without_data(self.bin_dir.clone());
        successful(Command::new("cp").arg("-a").arg(self.data_dir()).arg(copy.data_dir()));
        copy.give_clock();
        copy.listen_at_home();
        copy
    }

    /// Copies this running server. The server is stopped for a moment, so its connections are lost.
    pub fn duplicate_in_between(&self) -> Cluster {
        self.stop_server("fast");
        let copy = self.duplicate();
        self.start_server();
        copy
    }

    /// Stops this server, and starts a copy that listens in its place.
    pub fn give_way_to(&self, copy: &Cluster) {
        self.stop_server("fast");
        copy.configure(&[("unix_socket_directories", self.host().to_str().unwrap())]);
        copy.start_server();
    }

    /// Dumps database `postgres`. Returns the path of the dump.
    pub fn dump(&self) -> PathBuf {
        let dump = self.host().join("dump");
        let format = ["--format=custom", "--dbname=postgres", "--file"];
        successful(self.client_program("pg_dump").args(format).arg(&dump));
        dump
    }

    /// Restores a dump into a database.
    pub fn restore(&self, dump: &Path, database: &str) {
        let mut pg_restore = self.client_program("pg_restore");
        successful(pg_restore.args(["--exit-on-error", "--dbname", database]).arg(dump));
    }

    /// Starts a standby that streams from this server. Waits until it has caught up for the first time.
    pub fn start_standby(&self, settings: Settings) -> Cluster {
        let standby = self.base_backup(settings);
        let primary = format!("{} application_name=standby", self.connection_string("test"));
        standby.configure(&[("primary_conninfo", &primary)]);
        standby.signal("standby.signal");
        standby.start_server();
        let streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        let mut client = self.connect();
        eventually("the standby to stream", || single::<i64>(&mut client, streams) == 1);
        standby
    }

    /// Makes commits of this server wait for its standby, including those in progress.
    pub fn replicate_synchronously(&self) {
        self.change("synchronous_standby_names", "standby");
        let query = "SELECT count(*) FROM pg_stat_replication
                     WHERE sync_state = 'sync' AND flush_lsn >= pg_current_wal_lsn()";
        let mut client = self.connect();
        eventually("the standby to be synchronous", || single::<i64>(&mut client, query) == 1);
    }

    /// Makes commits of this server wait for a standby that does not exist, starting with the next commit. A reload
    /// alone is not enough: commits wait only after the checkpointer has read the setting.
    #[track_caller]
    pub fn lose_the_standby(&self) {
        self.change("synchronous_standby_names", "gone");
        let mut client = self.connect();
        let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE application_name = 'waits' AND wait_event = 'SyncRep'";
        let commit = |stop: &AtomicBool| {
            let mut client = self.connect();
            client.run("SET application_name = 'waits'");
            let commit = "SELECT pg_logical_emit_message(true, '', '')";
            while !stop.load(Ordering::Relaxed) && client.batch_execute(commit).is_ok() {}
        };
        beside([commit], || {
            eventually("a commit to wait", || !client.query(ended, &[]).unwrap().is_empty());
        });
    }

    /// Stops WAL reception on this standby, as a network failure would.
    pub fn stop_receiving(&self) {
        self.change("primary_conninfo", "");
        let query = "SELECT count(*) FROM pg_stat_wal_receiver";
        let mut client = self.connect();
        eventually("the WAL receiver to end", || single::<i64>(&mut client, query) == 0);
    }

    /// Waits until the WAL that this server has written so far is archived.
    pub fn archive_all(&self) {
        let mut client = self.connect();
        let last: String = single(&mut client, "SELECT pg_walfile_name(pg_switch_wal())");
        let query = format!("SELECT coalesce(last_archived_wal >= '{last}', false) FROM pg_stat_archiver");
        eventually("the archive", || single::<bool>(&mut client, &query));
    }

    /// Recovers this server from a backup and an archive, as its settings say. Waits until it has reached its target.
    pub fn recover_to_target(&self) {
        self.signal("recovery.signal");
        self.configure(&[("recovery_target_action", "pause")]);
        self.start_server();
        self.wait_until_paused();
    }

    /// Makes a standby replay no more WAL until `pg_wal_replay_resume()`.
    pub fn pause_replay(&self) {
        self.connect().run("SELECT pg_wal_replay_pause()");
        self.wait_until_paused();
    }

    fn wait_until_paused(&self) {
        let query = "SELECT pg_get_wal_replay_pause_state()";
        let mut client = self.connect();
        eventually("the end of the replay", || single::<String>(&mut client, query) == "paused");
    }

    /// Promotes a standby, or ends a recovery that has reached its target.
    pub fn promote(&self) {
        assert!(single::<bool>(&mut self.connect(), "SELECT pg_promote()"), "{}", self.log());
    }

    /// Creates an empty file in the data directory, such as `standby.signal`.
    pub fn signal(&self, name: &str) {
        let file = self.data_dir().join(name);
        fs::write(&file, "").unwrap();
        self.own(&file);
    }

    /// Upgrades another server into this new one by `pg_upgrade`. Both must be stopped. If the upgrade fails, returns
    /// the output and logs of `pg_upgrade`.
    pub fn upgrade_from(&self, old: &Cluster) -> Result<(), String> {
        let mut pg_upgrade = self.program("pg_upgrade");
        pg_upgrade
            .arg("--old-bindir")
            .arg(&old.bin_dir)
            .arg("--new-bindir")
            .arg(&self.bin_dir)
            .arg("--old-datadir")
            .arg(old.data_dir())
            .arg("--new-datadir")
            .arg(self.data_dir())
            .args(["--username=test", "--no-sync"]);
        let output = pg_upgrade.output().unwrap();
        if output.status.success() {
            return Ok(());
        }
        // The output names only the log files in which the errors are.
        let mut grep = Command::new("grep");
        grep.args(["--recursive", "--no-filename", "--after-context=4", "-E", "ERROR|FATAL|error:"]);
        let errors = grep.arg(self.data_dir().join("pg_upgrade_output.d")).output().unwrap();
        let said = [output.stdout, output.stderr, errors.stdout].concat();
        Err(String::from_utf8_lossy(&said).into_owned())
    }
}
