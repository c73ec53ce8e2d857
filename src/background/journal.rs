//! A file in the data directory to which changes are appended. [`snowflake_id_core::journal`] describes its lines.
//!
//! When the file has grown much larger than it was after its last replacement, the file is replaced as a whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use serde::Serialize;
use serde::de::DeserializeOwned;
use snowflake_id_core::journal;

use super::file;

/// The number of bytes by which any file may grow before it is replaced.
const LEAST_GROWTH: u64 = 1 << 20;

/// A journal and what is known about its file.
#[derive(Debug)]
pub struct Journal {
    name: &'static str,
    /// The first line, without the line break.
    header: &'static str,
    /// The state of the file at the end of the last call, or `None` if the file must be replaced.
    written: Option<Written>,
}

#[derive(Debug)]
struct Written {
    inode: u64,
    length: u64,
    /// The length of the file when it was last replaced.
    length_at_first: u64,
}

impl Journal {
    /// Reads the file, and passes all changes to the closure `apply` in order. The first call of [`Journal::append`]
    /// replaces the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is damaged, or was written by a newer version. The caller must not
    /// replace such a file.
    pub fn read<C: DeserializeOwned>(
        name: &'static str,
        header: &'static str,
        apply: impl FnMut(C),
    ) -> io::Result<Journal> {
        let journal = Journal { name, header, written: None };
        let Some(mut file) = file::open(name)? else { return Ok(journal) };
        let mut text = vec![];
        file.read_to_end(&mut text)?;
        journal::read(&text, header, apply)
            .map_err(|damage| io::Error::new(io::ErrorKind::InvalidData, damage))?;
        Ok(journal)
    }

    /// Appends `changes`. If the file must be replaced, calls the closure `all`, which returns the changes that lead to
    /// the state before `changes`. The changes are durable when this function returns. If the function fails, the file
    /// may contain the changes, and the next call replaces the file.
    pub fn append<C: Serialize>(&mut self, changes: &[C], all: impl FnOnce() -> Vec<C>) -> io::Result<()> {
        let written = match self.written.take().filter(|written| written.may_grow() && self.is_there(written))
        {
            Some(written) => written,
            None => self.replace(&all())?,
        };
        let line = journal::line(changes)?;
        let mut file =
            OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(file::path(self.name))?;
        file.write_all(&line)?;
        file.sync_data()?;
        self.written = Some(Written { length: written.length + line.len() as u64, ..written });
        Ok(())
    }

    /// Returns whether the file is still the one that was last written. An administrator may have replaced it.
    fn is_there(&self, written: &Written) -> bool {
        fs::symlink_metadata(file::path(self.name))
            .is_ok_and(|found| found.ino() == written.inode && found.len() == written.length)
    }

    fn replace<C: Serialize>(&self, all: &[C]) -> io::Result<Written> {
        let text = journal::start(self.header, all)?;
        let length = text.len() as u64;
        let file = file::replace(self.name, |_| Ok(text))?;
        Ok(Written { inode: file.metadata()?.ino(), length, length_at_first: length })
    }
}

impl Written {
    fn may_grow(&self) -> bool {
        self.length < 2 * self.length_at_first + LEAST_GROWTH
    }
}
