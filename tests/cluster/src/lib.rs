//! Throw-away PostgreSQL servers for tests and benchmarks.
//!
//! Each [`Cluster`] has a directory of its own, and listens only on a Unix socket in it. It is stopped and removed when
//! it goes out of scope. These environment variables are optional:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `PG_CONFIG` | the installation to use; default: the first on the path |
//! | `SNOWFLAKE_ID_SECOND_PG_CONFIG` | an installation of another major version, to run pg_upgrade from or to |
//! | `SNOWFLAKE_ID_WORK_DIR` | the directory for all servers; default: the directory for temporary files |
//! | `SNOWFLAKE_ID_SERVER_USER` | the user that runs the servers if the tests run as root; default: postgres |
//! | `ALLOW_SKIP` | 1: a test that [needs](skip::needs) something that is missing is skipped; default: it fails |

pub mod accidents;
pub mod book;
pub mod citus;
mod cluster;
pub mod copies;
pub mod examples;
pub mod faults;
pub mod fleet;
pub mod fuzz;
pub mod installation;
pub mod load;
pub mod monitoring;
pub mod network;
pub mod patroni;
pub mod pool;
mod registry;
pub mod segments;
pub mod skip;
pub mod sql;
mod template;
mod user;
pub mod versions;

use std::error::Error;
use std::ffi::OsStr;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

pub use cluster::{Builder, Cluster, Settings};
pub use faults::*;
pub use fleet::*;
pub use installation::{ask_pg_config, major, pg_config, wait_event};
pub use load::*;
pub use postgres::Client;
pub use registry::Registry;
pub use skip::needs;
pub use sql::*;
pub use user::{as_server_user, new_dir};

/// The time after which a test stops waiting for a condition.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Extra time that an operation may take while other tests run at the same time. Tests with tighter bounds are in
/// `alone`.
pub const SLACK: Duration = Duration::from_secs(10);

/// The outcome of one check of a condition.
pub trait Answer {
    type Value;

    /// Returns the value if the condition holds, and otherwise the error, which may be empty.
    fn value(self) -> Result<Self::Value, String>;
}

impl Answer for bool {
    type Value = ();

    fn value(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(String::new)
    }
}

impl<T> Answer for Option<T> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.ok_or_else(String::new)
    }
}

impl<T, E: Error + 'static> Answer for Result<T, E> {
    type Value = T;

    fn value(self) -> Result<T, String> {
        self.map_err(|error| {
            // The text of a client error is only "db error". The details are in its causes.
            let causes = std::iter::successors(Some(&error as &dyn Error), |&error| error.source());
            causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
        })
    }
}

/// Checks repeatedly until the answer is `true`, `Some` or `Ok`.
#[track_caller]
pub fn eventually<A: Answer>(what: &str, mut ask: impl FnMut() -> A) -> A::Value {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let error = match ask().value() {
            Ok(value) => return value,
            Err(error) => error,
        };
        assert!(Instant::now() < deadline, "gave up waiting for: {what}\n{error}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a command that must succeed.
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
    // The process may have ended by itself.
    Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).output().unwrap();
}
