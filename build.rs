//! How the library finds libpq.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PGRX_PG_CONFIG_PATH");
    // Where the server has a libpq of its own, beside or above its libraries, that one. Whichever libpq a process loads first
    // serves all of its libraries: preloaded with the system's, which may be older, a standby could not connect to its primary.
    let Some(libraries) = ask_pg_config("--pkglibdir") else { return };
    for (directory, origin) in [(".", "$ORIGIN"), ("..", "$ORIGIN/..")] {
        if Path::new(&libraries).join(directory).join("libpq.so.5").exists() {
            println!("cargo::rustc-cdylib-link-arg=-Wl,-rpath,{origin}");
        }
    }
}

/// What pgrx's own scripts would ask as well. Without an answer the library takes the system's libpq.
fn ask_pg_config(what: &str) -> Option<String> {
    let pg_config = env::var_os("PGRX_PG_CONFIG_PATH")?;
    let output = Command::new(pg_config).arg(what).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
