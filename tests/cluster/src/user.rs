//! The user that runs the servers, and the directory that contains them.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::successful;

pub fn work_dir() -> PathBuf {
    std::env::var_os("SNOWFLAKE_ID_WORK_DIR").map_or_else(std::env::temp_dir, PathBuf::from)
}

/// Creates a directory that belongs to the server's user. It is removed when the value is dropped.
pub fn new_dir(prefix: &str) -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(work_dir()).unwrap();
    give_to_server_user(dir.path());
    dir
}

pub fn give_to_server_user(path: &Path) {
    if is_root() {
        successful(Command::new("chown").arg(server_user()).arg(path));
    }
}

/// Returns a command that runs a program as the server's user.
pub fn as_server_user(program: &Path) -> Command {
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", &server_user(), "--"]).arg(program);
    command
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn server_user() -> String {
    std::env::var("SNOWFLAKE_ID_SERVER_USER").unwrap_or_else(|_| "postgres".into())
}
