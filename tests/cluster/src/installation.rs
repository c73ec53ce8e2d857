//! The PostgreSQL installation to use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{new_dir, successful};

/// The `pg_config` that the environment names.
pub fn pg_config() -> PathBuf {
    std::env::var_os("PG_CONFIG").map_or_else(|| "pg_config".into(), PathBuf::from)
}

/// The output of `pg_config` for an option such as `--bindir`.
pub fn ask_pg_config(pg_config: &Path, option: &str) -> String {
    let output = successful(Command::new(pg_config).arg(option));
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// A copy of the installation, to which a test can add extensions: its directory, its `pg_config`, and the directory for
/// the files of extensions.
pub fn copied_installation() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = new_dir("installation.");
    // PostgreSQL finds its other files relative to its programs.
    let mut copy = Command::new("cp");
    copy.args(["-R", "--reflink=auto", "--parents"]);
    for option in ["--bindir", "--sharedir"] {
        copy.arg(ask_pg_config(&pg_config(), option));
    }
    // A Python package has the libraries that its programs need in a directory beside it.
    let programs = PathBuf::from(ask_pg_config(&pg_config(), "--bindir"));
    let packages = programs.ancestors().filter(|path| path.file_name().is_some());
    copy.args(packages.map(|path| path.with_extension("libs")).filter(|path| path.is_dir()));
    // The bitcode of PostgreSQL's functions is half of the files. Only costly queries use it.
    let libraries = fs::read_dir(ask_pg_config(&pg_config(), "--pkglibdir")).unwrap();
    copy.args(libraries.map(|file| file.unwrap().path()).filter(|path| !path.ends_with("bitcode")));
    successful(copy.arg(dir.path()));
    let copied = |option: &str| dir.path().join(ask_pg_config(&pg_config(), option).trim_start_matches('/'));
    let (pg_config, extensions) =
        (copied("--bindir").join("pg_config"), copied("--sharedir").join("extension"));
    (dir, pg_config, extensions)
}

/// A copy of the installation with an extension from an unpacked Debian package: its directory and its `pg_config`.
/// `variable` names the environment variable with the directory of the package: see scripts/test.sh.
pub fn installation_with(variable: &str) -> Result<(tempfile::TempDir, PathBuf), String> {
    let major = major(&pg_config());
    if major != 15 {
        return Err(format!("Debian has it for PostgreSQL 15, not for {major}"));
    }
    let package = std::env::var_os(variable).ok_or(format!("{variable} is not set: see scripts/test.sh"))?;
    let (dir, pg_config, extensions) = copied_installation();
    let libraries = PathBuf::from(ask_pg_config(&pg_config, "--pkglibdir"));
    let package = Path::new(&package);
    for (files, to) in
        [("usr/share/postgresql/15/extension/.", &extensions), ("usr/lib/postgresql/15/lib/.", &libraries)]
    {
        successful(Command::new("cp").arg("-R").arg(package.join(files)).arg(to));
    }
    Ok((dir, pg_config))
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
