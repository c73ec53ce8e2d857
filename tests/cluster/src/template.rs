//! Data directories are copies of a template that `initdb` makes once for each run of the tests. A copy takes a seventh
//! of the time.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::user::{as_server_user, new_dir, shared, work_dir};
use crate::{major, successful};

/// Fills a data directory as `initdb` does, with a unique system identifier.
pub fn copy_to(data_dir: &Path, pg_config: &Path, bin_dir: &Path) {
    copy(&initialized(major(pg_config), bin_dir), data_dir);
}

/// Like [`copy_to`], with these extensions in database `postgres`. Creating one takes longer than starting a server.
pub fn copy_with_extensions_to(extensions: &[String], data_dir: &Path, pg_config: &Path, bin_dir: &Path) {
    let major = major(pg_config);
    let initialized = initialized(major, bin_dir);
    let template = shared(&format!("data{major}.{}", extensions.join(".")), |template| {
        successful(Command::new("cp").arg("-a").args([&initialized, template]));
        let sockets = new_dir("template.");
        let program = |name: &str| {
            let mut command = as_server_user(&bin_dir.join(name));
            command.env("LC_ALL", "C").current_dir(sockets.path());
            command
        };
        let options = format!("-c listen_addresses= -c unix_socket_directories={}", sockets.path().display());
        let log = sockets.path().join("log");
        let pg_ctl = || {
            let mut pg_ctl = program("pg_ctl");
            pg_ctl.arg("--pgdata").arg(template).args(["--silent", "--wait"]);
            pg_ctl
        };
        successful(pg_ctl().args(["--options", &options, "--log"]).arg(log).arg("start"));
        let mut psql = program("psql");
        psql.args(["--quiet", "--username=test", "--dbname=postgres", "--host"]).arg(sockets.path());
        successful(psql.args(extensions.iter().map(|name| format!("--command=CREATE EXTENSION {name}"))));
        successful(pg_ctl().arg("stop"));
    });
    copy(&template, data_dir);
}

/// The template that `initdb` makes.
fn initialized(major: u32, bin_dir: &Path) -> PathBuf {
    shared(&format!("data{major}"), |template| initdb(template, major, bin_dir))
}

fn copy(template: &Path, data_dir: &Path) {
    successful(Command::new("cp").args(["-a", "--reflink=auto"]).args([template, data_dir]));
    give_identity(data_dir);
}

fn initdb(data_dir: &Path, major: u32, bin_dir: &Path) {
    let mut initdb = as_server_user(&bin_dir.join("initdb"));
    initdb.env("LC_ALL", "C").current_dir(work_dir()).arg("--pgdata").arg(data_dir);
    initdb.args(["--username=test", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]);
    if major >= 18 {
        // The default before version 18. pg_upgrade requires the same choice on both sides.
        initdb.arg("--no-data-checksums");
    }
    successful(&mut initdb);
    // The first segment of the WAL is almost empty. Holes are not copied.
    let wal = data_dir.join("pg_wal/000000010000000000000001");
    successful(Command::new("fallocate").arg("--dig-holes").arg(wal));
}

/// Changes the system identifier, by which the registry and the lease file tell servers apart. It is the first field of
/// pg_control, which ends in a checksum, and is repeated on the first page of the WAL.
fn give_identity(data_dir: &Path) {
    let open = |file: &str| OpenOptions::new().read(true).write(true).open(data_dir.join(file)).unwrap();
    let (control, wal) = (open("global/pg_control"), open("pg_wal/000000010000000000000001"));
    let mut bytes = [0; 512];
    control.read_exact_at(&mut bytes, 0).unwrap();
    // The position of the checksum depends on the version.
    let end = (8..bytes.len() - 4).step_by(4).find(|&end| bytes[end..end + 4] == crc32c(&bytes[..end]));
    let end = end.expect("a checksum in pg_control");
    let template = read_u64(&control, 0);
    // The offset after the header of every page.
    const WAL_IDENTIFIER: u64 = 24;
    assert_eq!(read_u64(&wal, WAL_IDENTIFIER), template, "the WAL has another system identifier");
    // The lowest twelve bits of an identifier are those of a process ID. The bits above them are a time. An identifier is
    // shown as a bigint, so the highest bit stays 0.
    let identifier = (template & 0xfff | fastrand::u64(..1 << 51) << 12).to_ne_bytes();
    bytes[..8].copy_from_slice(&identifier);
    control.write_all_at(&identifier, 0).unwrap();
    control.write_all_at(&crc32c(&bytes[..end]), end as u64).unwrap();
    wal.write_all_at(&identifier, WAL_IDENTIFIER).unwrap();
}

fn read_u64(file: &File, offset: u64) -> u64 {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, offset).unwrap();
    u64::from_ne_bytes(bytes)
}

/// The CRC as PostgreSQL stores it: Castagnoli's polynomial, reflected.
fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let crc = bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    });
    (!crc).to_ne_bytes()
}

/// The library that shifts the clock.
pub fn clock_library() -> PathBuf {
    shared("clock.so", |library| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clock.c");
        successful(Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(library).arg(source));
    })
}
