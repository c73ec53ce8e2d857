//! Tells the library its version, and where to find libpq.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PGRX_PG_CONFIG_PATH");
    // The scripts know which commit they build.
    println!("cargo::rerun-if-env-changed=SNOWFLAKE_ID_VERSION");
    let version = env::var("SNOWFLAKE_ID_VERSION")
        .unwrap_or_else(|_| concat!(env!("CARGO_PKG_VERSION"), "+unknown").into());
    println!("cargo::rustc-env=SNOWFLAKE_ID_VERSION={version}");
    // If the server has its own libpq, in or above the directory of its libraries, use that one. All
    // libraries of a process use the libpq that is loaded first. If a preloaded library loaded the system's
    // libpq, which may be older, a standby could not connect to its primary.
    let Some(libraries) = ask_pg_config("--pkglibdir") else { return };
    for (directory, origin) in [(".", "$ORIGIN"), ("..", "$ORIGIN/..")] {
        if Path::new(&libraries).join(directory).join("libpq.so.5").exists() {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,{origin}");
        }
    }
}

/// Returns what pg_config says. pgrx's own build scripts ask it as well. Without an answer, the library uses
/// the system's libpq.
fn ask_pg_config(what: &str) -> Option<String> {
    let pg_config = env::var_os("PGRX_PG_CONFIG_PATH")?;
    let output = Command::new(pg_config).arg(what).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
