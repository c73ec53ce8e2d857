//! The PostgreSQL installation to use.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::successful;

/// The `pg_config` that the environment names.
pub fn pg_config() -> PathBuf {
    std::env::var_os("PG_CONFIG").map_or_else(|| "pg_config".into(), PathBuf::from)
}

/// The output of `pg_config` for an option such as `--bindir`.
pub fn ask_pg_config(pg_config: &Path, option: &str) -> String {
    let output = successful(Command::new(pg_config).arg(option));
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// The major version of an installation.
pub fn major(pg_config: &Path) -> u32 {
    let version = ask_pg_config(pg_config, "--version");
    let number = version.trim_start_matches("PostgreSQL ");
    number.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap()
}

/// The name of one of our wait events in `pg_stat_activity`. Extensions can define their own names since version 17.
pub fn wait_event(name: &str) -> &str {
    if major(&pg_config()) >= 17 { name } else { "Extension" }
}
