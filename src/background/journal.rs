//! A file in the data directory to which changes are appended.
//!
//! The first line describes the file and its format. Each further line consists of a checksum and of changes, as JSON.
//! The second line is written together with the first one, and contains the changes that lead to the state at that
//! time. Every other line contains the changes of one call. A line is durable when the call returns, so only the last
//! line can be incomplete after a crash, and no caller has relied on its changes. When the file has grown to more than
//! twice the size of its first contents, it is replaced as a whole.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::file;

/// The number of bytes by which a file may grow in any case before it is replaced.
const LEAST_GROWTH: u64 = 1 << 20;
/// The length of a checksum in hexadecimal digits, with the space that follows it.
const CHECKSUM: usize = 9;

/// A journal and what is known about its file.
#[derive(Debug)]
pub struct Journal {
    name: &'static str,
    /// The first line, without the line break.
    header: &'static str,
    /// The file at the end of the last call, or `None` if the file must be replaced.
    written: Option<Written>,
}

#[derive(Debug)]
struct Written {
    inode: u64,
    length: u64,
    /// The length of the file when it was replaced.
    length_at_first: u64,
}

impl Journal {
    /// Reads the file, and passes all changes to the closure `apply` in their order. The file is replaced before the
    /// first change is appended.
    pub fn read<C: DeserializeOwned>(
        name: &'static str,
        header: &'static str,
        mut apply: impl FnMut(C),
    ) -> io::Result<Journal> {
        let journal = Journal { name, header, written: None };
        let Some(mut file) = file::open(name)? else { return Ok(journal) };
        let mut text = vec![];
        file.read_to_end(&mut text)?;
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        let lines: Vec<&[u8]> = text.split(|&byte| byte == b'\n').collect();
        if lines[0] != header.as_bytes() {
            return Err(damaged("the first line is not that of this version".into()));
        }
        for (at, line) in lines.iter().enumerate().skip(1) {
            let damaged = || damaged(format!("line {} is damaged", at + 1));
            match json_of(line) {
                // With a valid checksum, only another version can have written JSON that is not valid.
                Some(json) => serde_json::from_slice::<Vec<C>>(json)
                    .map_err(|_| damaged())?
                    .into_iter()
                    .for_each(&mut apply),
                None if at > 1 && at + 1 == lines.len() => {} // The last line may be incomplete.
                None => return Err(damaged()),
            }
        }
        Ok(journal)
    }

    /// Appends changes. If the file must be replaced, the closure `all` returns the changes that lead to the state
    /// before these changes. The changes are durable when this function returns. If the function fails, the file may
    /// contain the changes, and is replaced by the next call.
    pub fn append<C: Serialize>(&mut self, changes: &[C], all: impl FnOnce() -> Vec<C>) -> io::Result<()> {
        let written = match self.written.take().filter(|written| written.may_grow() && self.is_there(written))
        {
            Some(written) => written,
            None => self.replace(&all())?,
        };
        let line = line_of(changes)?;
        let mut file =
            OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(file::path(self.name))?;
        file.write_all(&line)?;
        file.sync_data()?;
        self.written = Some(Written { length: written.length + line.len() as u64, ..written });
        Ok(())
    }

    /// Returns whether the file is the one that was written last. An administrator may have replaced it.
    fn is_there(&self, written: &Written) -> bool {
        fs::symlink_metadata(file::path(self.name))
            .is_ok_and(|found| found.ino() == written.inode && found.len() == written.length)
    }

    fn replace<C: Serialize>(&self, all: &[C]) -> io::Result<Written> {
        let text = [format!("{}\n", self.header).into_bytes(), line_of(all)?].concat();
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

fn damaged(problem: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem)
}

fn line_of<C: Serialize>(changes: &[C]) -> io::Result<Vec<u8>> {
    let json = serde_json::to_string(changes)?;
    Ok(format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes())).into_bytes())
}

/// Returns the part of a line after the checksum, if the checksum is valid.
fn json_of(line: &[u8]) -> Option<&[u8]> {
    let (checksum, json) = line.split_at_checked(CHECKSUM)?;
    let expected = format!("{:08x} ", crc32fast::hash(json));
    (checksum == expected.as_bytes()).then_some(json)
}
