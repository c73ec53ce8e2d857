//! Throw-away PostgreSQL servers for tests and benchmarks.
//!
//! Each [`Cluster`] has a directory of its own, and listens only on a Unix socket in it. It is stopped and removed when
//! it goes out of scope. scripts/test.sh sets these environment variables:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `PG_CONFIG` | the installation to use; default: the first on the path |
//! | `SNOWFLAKE_ID_SECOND_PG_CONFIG` | an installation of another major version, to run pg_upgrade from or to |
//! | `SNOWFLAKE_ID_WORK_DIR` | the directory for all servers of a run |
//! | `SNOWFLAKE_ID_SERVER_USER` | the user that runs the servers if the tests run as root; default: postgres |
//! | `ALLOW_SKIP` | 1: a test that [needs](skip::needs) something that is missing is skipped; default: it fails |

pub mod accidents;
pub mod adoption;
pub mod book;
pub mod check;
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
mod time;
mod user;
pub mod versions;

use std::ffi::OsStr;
use std::process::{Command, Output};

pub use cluster::{Builder, Cluster, Settings};
pub use faults::*;
pub use fleet::*;
pub use installation::{ask_pg_config, major, pg_config, wait_event};
pub use load::*;
pub use postgres::Client;
pub use registry::Registry;
pub use skip::{has_tls, needs};
pub use sql::*;
pub use time::{SLACK, TIMEOUT, all_arrive, assert_within, eventually, too_slow};
pub use user::{as_server_user, new_dir, then_as_server_user};

/// The page whose programs use snowflake-id-client. Documentation tests compile them here, because the packaged crate does
/// not contain the page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/apps/rust.md")]
struct Page;

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
