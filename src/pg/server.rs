//! Properties and state of this server.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pgrx::prelude::*;

use super::setting::setting_text;

/// Returns whether the postmaster is loading `shared_preload_libraries`.
pub fn is_preloading() -> bool {
    // SAFETY: a plain flag, which only the main thread of this process writes.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Returns whether this process is a parallel worker that is copying the settings of its leader.
pub fn is_taking_over_settings() -> bool {
    // SAFETY: a plain flag of this process.
    unsafe { pg_sys::InitializingParallelWorker }
}

/// Returns whether this is a server in single-user mode (`postgres --single`).
pub fn is_single_user() -> bool {
    // SAFETY: PostgreSQL sets the variable when the process starts.
    unsafe { !pg_sys::IsUnderPostmaster }
}

/// Returns whether the server is a standby or is replaying WAL after a crash.
pub fn is_in_recovery() -> bool {
    // SAFETY: reads shared memory, which exists in every backend.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Returns whether `pg_upgrade` runs this server.
pub fn is_binary_upgrade() -> bool {
    // SAFETY: a plain flag, set before the library is loaded.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Returns whether this session appears to restore a dump. The scripts that `pg_dump` writes turn row security off.
pub fn is_restoring() -> bool {
    // SAFETY: a plain flag of this session.
    unsafe { !pg_sys::row_security }
}

/// Returns the name of the current database, or `None` if the database was dropped.
pub fn current_database() -> Option<CString> {
    // SAFETY: the OID is that of a database. The name is a palloc'd C string. The pointer is null if the database was
    // dropped.
    let name =
        unsafe { pg_sys::get_database_name(pg_sys::MyDatabaseId).as_ref().map(|name| CStr::from_ptr(name)) };
    name.map(CStr::to_owned)
}

/// Returns the OID of the database to which this process is connected.
pub fn database_oid() -> pg_sys::Oid {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::MyDatabaseId }
}

/// Returns the data directory. The data directory is also the working directory of every process of the server.
pub fn data_directory() -> PathBuf {
    // SAFETY: set before the first process is started, and never changed.
    let path = unsafe { CStr::from_ptr(pg_sys::DataDir) };
    PathBuf::from(OsStr::from_bytes(path.to_bytes()))
}

/// Returns the permissions for a file in the data directory. The group may read the file if it may read the directory.
pub fn file_mode() -> u32 {
    // SAFETY: set before the first process is started, and never changed.
    let directory_mode = unsafe { pg_sys::data_directory_mode } as u32;
    0o600 | directory_mode & 0o040
}

/// Returns the system identifier, which is the same on all copies of a server.
pub fn system_identifier() -> u64 {
    // SAFETY: reads shared memory that exists in every process.
    unsafe { pg_sys::GetSystemIdentifier() }
}

/// Returns the timeline, which changes at a promotion. Must not be called during recovery.
pub fn timeline() -> u32 {
    // SAFETY: reads shared memory that exists in every process.
    unsafe { pg_sys::GetWALInsertionTimeLine() }
}

/// Returns the port number of the server.
pub fn port() -> i32 {
    // SAFETY: a setting that changes only at a restart.
    unsafe { pg_sys::PostPortNumber }
}

/// Returns the name of the host.
pub fn host() -> String {
    let mut name = [0; 256];
    // SAFETY: the buffer has this length. One byte is left for the NUL, because gethostname may omit the NUL after a
    // long name.
    unsafe { libc::gethostname(name.as_mut_ptr(), name.len() - 1) };
    // SAFETY: the last byte of the buffer is NUL.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
}

/// Returns the setting `cluster_name`.
pub fn cluster_name() -> &'static [u8] {
    // SAFETY: the text of a setting is a C string or null. This setting changes only at a restart.
    unsafe { setting_text(pg_sys::cluster_name) }
}

/// Returns `host:port` of this server.
pub fn host_and_port() -> String {
    format!("{}:{}", host(), port())
}
