//! Servers that begin as a copy of another one: standbys, backups that are restored, and upgrades.

use std::fs;
use std::process::Command;

use crate::{Cluster, Settings, poll, single, successful};

impl Cluster {
    /// Takes a base backup of this server while it runs: a server with a directory and a clock of its own,
    /// which has not been started. It has the settings of this one, but for those given.
    pub fn base_backup(&self, settings: Settings) -> Cluster {
        let mut copy = Cluster::without_data(self.bin_dir.clone());
        successful(
            copy.program("pg_basebackup")
                .arg("--pgdata")
                .arg(copy.data_dir())
                .arg("--host")
                .arg(self.host())
                .args(["--username=test", "--checkpoint=fast", "--no-sync"]),
        );
        copy.give_clock();
        copy.listen_at_home();
        copy.configure(settings);
        copy
    }

    /// A copy of this server, which is not running, with a directory and a clock of its own.
    pub fn duplicate(&self) -> Cluster {
        let mut copy = Cluster::without_data(self.bin_dir.clone());
        successful(Command::new("cp").arg("-a").arg(self.data_dir()).arg(copy.data_dir()));
        copy.give_clock();
        copy.listen_at_home();
        copy
    }

    /// Starts a standby that streams from this server, and waits until it has caught up for the first time.
    pub fn start_standby(&self, settings: Settings) -> Cluster {
        let standby = self.base_backup(settings);
        let primary = format!("host={} user=test application_name=standby", self.host().display());
        standby.configure(&[("primary_conninfo", &primary)]);
        standby.signal("standby.signal");
        standby.start_server().unwrap_or_else(|log| panic!("the standby did not start:\n{log}"));
        let streams = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'";
        poll("the standby to stream", || (single::<i64>(&mut self.connect(), streams) == 1).then_some(()));
        standby
    }

    /// Has commits of this server wait for its standby, beginning with what is under way.
    pub fn replicate_synchronously(&self) {
        self.configure(&[("synchronous_standby_names", "standby")]);
        self.reload();
        let query = "SELECT count(*) FROM pg_stat_replication
                     WHERE sync_state = 'sync' AND flush_lsn >= pg_current_wal_lsn()";
        poll("the standby to be synchronous", || {
            (single::<i64>(&mut self.connect(), query) == 1).then_some(())
        });
    }

    /// Has this standby receive no more, as if the network had failed.
    pub fn stop_receiving(&self) {
        self.configure(&[("primary_conninfo", "")]);
        self.reload();
        let query = "SELECT count(*) FROM pg_stat_wal_receiver";
        poll("the WAL receiver to end", || (single::<i64>(&mut self.connect(), query) == 0).then_some(()));
    }

    /// Has this server recover from a backup and an archive, as its settings say, and waits until it has
    /// reached its target.
    pub fn recover_to_target(&self) {
        self.signal("recovery.signal");
        self.configure(&[("recovery_target_action", "pause")]);
        self.start_server().unwrap_or_else(|log| panic!("the server did not start:\n{log}"));
        let query = "SELECT pg_get_wal_replay_pause_state()";
        poll("the recovery target", || {
            (single::<String>(&mut self.connect(), query) == "paused").then_some(())
        });
    }

    /// Makes a primary of a standby, or ends a recovery that has reached its target.
    pub fn promote(&self) {
        assert!(single::<bool>(&mut self.connect(), "SELECT pg_promote()"), "{}", self.log());
    }

    /// Puts an empty file into the data directory, such as `standby.signal`.
    pub fn signal(&self, name: &str) {
        let file = self.data_dir().join(name);
        fs::write(&file, "").unwrap();
        successful(Command::new("chown").arg("--reference").arg(self.data_dir()).arg(file));
    }

    /// Has `pg_upgrade` fill this server, which is new and stopped, with what is in another, which is stopped
    /// as well; if it fails, what it said and logged.
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
        // It says no more than where it logged what went wrong.
        let mut grep = Command::new("grep");
        grep.args(["--recursive", "--no-filename", "--after-context=4", "-E", "ERROR|FATAL|error:"]);
        let errors = grep.arg(self.data_dir().join("pg_upgrade_output.d")).output().unwrap();
        let said = [output.stdout, output.stderr, errors.stdout].concat();
        Err(String::from_utf8_lossy(&said).into_owned())
    }
}
