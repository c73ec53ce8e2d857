//! Data directories are copies of a template that `initdb` makes once. A copy takes a seventh of the time.
//!
//! The template is in a directory that is removed when the process ends.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use tempfile::TempDir;

use crate::user::{as_server_user, new_dir};
use crate::{major, successful};

static SHARED: Mutex<Option<TempDir>> = Mutex::new(None);

unsafe extern "C" {
    safe fn atexit(callback: extern "C" fn()) -> i32;
}

extern "C" fn remove_shared() {
    // The process is ending, so a failure cannot be reported.
    drop(SHARED.lock().map(|mut dir| dir.take()));
}

/// The directory for files that all servers of this process share.
fn shared_dir() -> PathBuf {
    let mut dir = SHARED.lock().unwrap();
    let dir = dir.get_or_insert_with(|| {
        assert_eq!(atexit(remove_shared), 0);
        new_dir("shared.")
    });
    dir.path().into()
}

/// Fills a data directory as `initdb` does, with a unique system identifier.
pub fn copy_to(data_dir: &Path, pg_config: &Path, bin_dir: &Path) {
    static TEMPLATES: Mutex<BTreeMap<PathBuf, PathBuf>> = Mutex::new(BTreeMap::new());
    let template = {
        let mut templates = TEMPLATES.lock().unwrap();
        let number = templates.len();
        templates
            .entry(bin_dir.into())
            .or_insert_with(|| {
                let template = shared_dir().join(format!("data{number}"));
                initdb(&template, pg_config, bin_dir);
                template
            })
            .clone()
    };
    successful(Command::new("cp").args(["-a", "--reflink=auto"]).args([&template, data_dir]));
    give_identity(data_dir);
}

fn initdb(data_dir: &Path, pg_config: &Path, bin_dir: &Path) {
    let mut initdb = as_server_user(&bin_dir.join("initdb"));
    initdb.env("LC_ALL", "C").current_dir(shared_dir()).arg("--pgdata").arg(data_dir);
    initdb.args(["--username=test", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]);
    if major(pg_config) >= 18 {
        // The default before version 18. pg_upgrade requires the same choice on both sides.
        initdb.arg("--no-data-checksums");
    }
    successful(&mut initdb);
}

/// Changes the system identifier, by which the registry and the lease file tell servers apart. It is the first field of
/// pg_control, which ends in a checksum, and is repeated on the first page of the WAL.
fn give_identity(data_dir: &Path) {
    static COPIES: AtomicU64 = AtomicU64::new(1);
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
    // The lowest bits of the template's identifier are those of a process ID. The bits above them are microseconds.
    let identifier = (template + (COPIES.fetch_add(1, Ordering::Relaxed) << 12)).to_ne_bytes();
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

/// The library that shifts the clock, compiled once.
pub fn clock_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let library = shared_dir().join("clock.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/clock.c");
        successful(Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source));
        library
    })
}
