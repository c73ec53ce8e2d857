//! A file in the data directory that is always replaced as a whole. If the process dies during a write, the
//! file still contains either the complete old version or the complete new version.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use crate::pg::server;

/// Opens the file for reading. Returns `None` if the file does not exist.
pub fn open(name: &str) -> io::Result<Option<File>> {
    // Without `O_NONBLOCK`, opening a named pipe would block until another process opens it for writing.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(Some(file))
}

/// Replaces the file. The closure `contents` receives the new file and returns the bytes to write. The new version is
/// durable when this function returns.
pub fn replace(name: &str, contents: impl FnOnce(&File) -> io::Result<Vec<u8>>) -> io::Result<File> {
    let temporary = path(&format!("{name}.tmp"));
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file =
        OpenOptions::new().write(true).create_new(true).mode(server::file_mode()).open(&temporary)?;
    let contents = contents(&file)?;
    file.write_all(&contents)?;
    file.sync_all()?;
    fs::rename(&temporary, path(name))?;
    File::open(server::data_directory())?.sync_all()?;
    Ok(file)
}

/// Removes the file. The removal is durable when this function returns.
pub fn remove(name: &str) -> io::Result<()> {
    match fs::remove_file(path(name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::open(server::data_directory())?.sync_all()
}

pub fn path(name: &str) -> PathBuf {
    server::data_directory().join(name)
}
