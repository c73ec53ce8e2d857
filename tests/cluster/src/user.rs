//! The user that runs the servers, and the directories of a run of the tests.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::successful;

/// The directory of this run, which belongs to the server's user.
pub fn work_dir() -> PathBuf {
    let dir = std::env::var_os("SNOWFLAKE_ID_WORK_DIR");
    dir.expect(
        "SNOWFLAKE_ID_WORK_DIR must name a directory for servers: run scripts/test.sh, which makes one",
    )
    .into()
}

/// Creates a directory that belongs to the server's user. It is removed when the value is dropped.
pub fn new_dir(prefix: &str) -> tempfile::TempDir {
    let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(work_dir()).unwrap();
    give_to_server_user(dir.path());
    dir
}

/// Returns a file or a directory that all tests of this run share. The first test that needs it makes it at a temporary
/// path, while others wait.
pub fn shared(name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let dir = work_dir().join("shared");
    fs::create_dir_all(&dir).unwrap();
    give_to_server_user(&dir);
    let lock = File::create(dir.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let path = dir.join(name);
    if !path.exists() {
        // A test that was killed may have left a part of it, so each test has a path of its own.
        let new = dir.join(format!("{name}.{}", std::process::id()));
        make(&new);
        fs::rename(&new, &path).unwrap();
    }
    path
}

pub fn give_to_server_user(path: &Path) {
    if let Some(user) = server_user() {
        std::os::unix::fs::chown(path, Some(user.uid), None).unwrap();
    }
}

/// Returns a command that runs a program as the server's user.
pub fn as_server_user(program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some(user) = server_user() {
        // It may not read the home directory of root, in which libpq looks for certificates.
        command.uid(user.uid).gid(user.gid).env("HOME", work_dir());
    }
    command
}

/// Makes a command that runs as root run another one, as the server's user: the program and arguments of the second
/// one follow those of the first.
pub fn then_as_server_user(root: &mut Command, command: &Command) {
    if let Some(user) = server_user() {
        root.args(["runuser", "-u", &user.name, "--"]);
    }
    root.arg(command.get_program()).args(command.get_args());
    root.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
}

struct User {
    name: String,
    uid: u32,
    gid: u32,
}

/// The user that runs the servers if the tests run as root.
fn server_user() -> Option<&'static User> {
    static USER: OnceLock<Option<User>> = OnceLock::new();
    USER.get_or_init(|| {
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        is_root.then(|| {
            let name = std::env::var("SNOWFLAKE_ID_SERVER_USER").unwrap_or_else(|_| "postgres".into());
            let id = |option: &str| -> u32 {
                let output = successful(Command::new("id").args([option, &name]));
                String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
            };
            User { uid: id("-u"), gid: id("-g"), name }
        })
    })
    .as_ref()
}
