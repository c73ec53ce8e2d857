//! What this server is, and in which state.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pgrx::prelude::*;

use super::setting::setting_text;
use super::timestamp::unix_us;

/// Whether the postmaster is loading `shared_preload_libraries`.
pub fn is_preloading() -> bool {
    // SAFETY: a plain flag that only the main thread of this process writes.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Whether this process is a parallel worker that takes over the settings of its leader.
pub fn is_taking_over_settings() -> bool {
    // SAFETY: a plain flag of this process.
    unsafe { pg_sys::InitializingParallelWorker }
}

/// Whether the server is a standby or still replays WAL.
pub fn is_in_recovery() -> bool {
    // SAFETY: reads shared memory that exists in every backend; no preconditions.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Whether pg_upgrade runs this server.
pub fn is_binary_upgrade() -> bool {
    // SAFETY: a plain flag, set before the library is loaded.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// Whether a dump is being restored, whose script switches row security off.
pub fn is_restoring() -> bool {
    // SAFETY: a plain flag of this session.
    unsafe { !pg_sys::row_security }
}

/// The database to which this process is connected.
pub fn current_database() -> Option<CString> {
    // SAFETY: the OID is that of a database; the name is a C string that is ours, or null if it was dropped.
    let name =
        unsafe { pg_sys::get_database_name(pg_sys::MyDatabaseId).as_ref().map(|name| CStr::from_ptr(name)) };
    name.map(CStr::to_owned)
}

/// The OID of that database.
pub fn database_oid() -> pg_sys::Oid {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::MyDatabaseId }
}

/// The directory in which the server keeps its data. It is also the working directory of every process.
pub fn data_directory() -> PathBuf {
    // SAFETY: set before the first process is started, and never again.
    let path = unsafe { CStr::from_ptr(pg_sys::DataDir) };
    PathBuf::from(OsStr::from_bytes(path.to_bytes()))
}

/// Which permissions a file in that directory has: the group may read it where it may read the directory.
pub fn file_mode() -> u32 {
    // SAFETY: set before the first process is started, and never again.
    let directory_mode = unsafe { pg_sys::data_directory_mode } as u32;
    0o600 | directory_mode & 0o040
}

/// The system identifier, which all copies of a server share.
pub fn system_identifier() -> u64 {
    // SAFETY: reads shared memory that exists in every process.
    unsafe { pg_sys::GetSystemIdentifier() }
}

/// The timeline, which a promotion changes. Not during recovery.
pub fn timeline() -> u32 {
    // SAFETY: reads shared memory that exists in every process.
    unsafe { pg_sys::GetWALInsertionTimeLine() }
}

/// When the server was started, in microseconds of Unix time.
pub fn start_us() -> i64 {
    // SAFETY: a plain variable that only the postmaster writes.
    unix_us(unsafe { pg_sys::PgStartTime })
}

/// The port on which the server listens.
pub fn port() -> i32 {
    // SAFETY: a setting that changes only at a restart.
    unsafe { pg_sys::PostPortNumber }
}

/// The name of the host.
pub fn host() -> String {
    let mut name = [0; 256];
    // SAFETY: the buffer has this length; one byte is left for the NUL, which a long name would lack.
    unsafe { libc::gethostname(name.as_mut_ptr(), name.len() - 1) };
    // SAFETY: there is a NUL at the end of the buffer at the latest.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
}

/// The setting `cluster_name`.
pub fn cluster_name() -> &'static [u8] {
    // SAFETY: a setting's text is a C string or null; it changes only at a restart.
    unsafe { setting_text(pg_sys::cluster_name) }
}

/// `host:port` of this server.
pub fn host_and_port() -> String {
    format!("{}:{}", host(), port())
}
