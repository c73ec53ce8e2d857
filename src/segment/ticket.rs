//! The ticket of the numbers that are left when the server is stopped ([`Rest`](snowflake_id_core::rest::Rest)).
//!
//! At a clean stop, the worker takes all numbers that are left, so that no call can get them, and stores them in the
//! range file. The numbers must not be used a second time if the range file is copied, or if the disk is restored to an
//! earlier state. Therefore, the range file contains a ticket, which is also part of the name of an empty file in the
//! host's shared memory. The empty file is not copied or restored together with a disk.
//!
//! The worker that removes the empty file may use the numbers. Because the file can be removed only once, no other
//! worker can use the numbers, neither on a copy of the data directory nor after the disk was restored. If the host was
//! restarted, the file does not exist, and the numbers are lost, as after a crash.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use uuid::Uuid;

use crate::pg::random::random_bytes;

/// The directory for the shared memory of the host. PostgreSQL uses it, too (see `shm_overview(7)`).
const DIRECTORY: &str = "/dev/shm";

/// Returns a new ticket.
pub fn new() -> Uuid {
    uuid::Builder::from_random_bytes(random_bytes()).into_uuid()
}

/// Creates the ticket's file. The caller must do this before it stores the numbers.
///
/// # Errors
/// Fails if the directory is not in memory, because a snapshot of the disk could then contain the ticket.
pub fn issue(ticket: Uuid) -> std::io::Result<()> {
    if !is_in_memory(DIRECTORY)? {
        return Err(std::io::Error::other(format!("\"{DIRECTORY}\" is not in memory")));
    }
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path(ticket)).map(|_| ())
}

/// Removes the ticket's file. Returns true if the file existed and belonged to the user that runs the server. The
/// numbers may be used only in this case.
pub fn redeem(ticket: Uuid) -> bool {
    let path = path(ticket);
    // SAFETY: the function has no preconditions and always succeeds.
    let user = unsafe { libc::geteuid() };
    let is_own = fs::symlink_metadata(&path).is_ok_and(|found| found.uid() == user);
    is_own && fs::remove_file(&path).is_ok()
}

fn path(ticket: Uuid) -> PathBuf {
    PathBuf::from(DIRECTORY).join(format!("snowflake_id.{ticket}"))
}

/// Returns whether a directory is in a file system of type tmpfs.
fn is_in_memory(directory: &str) -> std::io::Result<bool> {
    let path = std::ffi::CString::new(directory)?;
    let mut found = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the path is a C string, and the function writes into a value of this type.
    match unsafe { libc::statfs(path.as_ptr(), found.as_mut_ptr()) } {
        // SAFETY: the function has succeeded, so the value is initialized.
        0 => Ok(unsafe { found.assume_init() }.f_type == libc::TMPFS_MAGIC),
        _ => Err(std::io::Error::last_os_error()),
    }
}
