//! A file in the data directory that is valid only for the server that wrote it.
//!
//! A copy of the data directory contains a copy of the file. Therefore, the file records facts about itself (device,
//! inode, time of creation), the boot of the host, and the server to which it belongs. At least one fact differs in a
//! base backup, in a copy by `cp -a`, on a rewound or promoted standby, and in a snapshot on another host. A fact that
//! cannot be determined counts as different.
//!
//! The file is always replaced as a whole. If the process dies during a write, the file still contains either the
//! complete old version or the complete new version. The file is a [`journal`] with a single change. The journal's
//! checksum reveals a damaged file.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use snowflake_id_core::journal::{self, Damage};

use super::file;
use crate::pg::server;

/// A file, given by its name and its first line.
pub struct OwnFile {
    pub name: &'static str,
    pub header: &'static str,
}

/// The result of reading the file.
pub enum Found<T> {
    /// The file does not exist.
    Nothing,
    /// This server has written this state since its host was booted.
    Own(T),
    /// Another server may have written this state.
    Copy(T),
    /// The file is unreadable, for this reason.
    Damaged(String),
}

/// The contents of the file.
#[derive(Serialize, Deserialize)]
struct Contents<T> {
    original: Original,
    state: T,
}

/// Facts that distinguish the original file from a copy.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Original {
    device: u64,
    inode: u64,
    /// The creation time of the file, in nanoseconds of Unix time.
    born_ns: Option<u64>,
    boot_id: Option<String>,
    system_identifier: u64,
    timeline: u32,
}

impl Original {
    /// Returns the facts about an open file on this host.
    fn of(file: &File) -> io::Result<Original> {
        let metadata = file.metadata()?;
        let born = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Ok(Original {
            device: metadata.dev(),
            inode: metadata.ino(),
            born_ns: born.map(|born| born.as_nanos() as u64),
            boot_id: fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .ok()
                .map(|text| text.trim().into()),
            system_identifier: server::system_identifier(),
            timeline: server::timeline(),
        })
    }

    fn is_complete(&self) -> bool {
        self.born_ns.is_some() && self.boot_id.is_some()
    }
}

impl OwnFile {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns the problem if another version has written the file. The server must not overwrite such a file.
    pub fn read<T: DeserializeOwned>(&self) -> Result<Found<T>, String> {
        let problem_of = |problem: &dyn Display| format!("could not read file \"{}\": {problem}", self.name);
        let (text, found) = match self.try_to_read() {
            Ok(Some(read)) => read,
            Ok(None) => return Ok(Found::Nothing),
            Err(problem) => return Ok(Found::Damaged(problem_of(&problem))),
        };
        let mut contents: Option<Contents<T>> = None;
        let damage = match (journal::read(&text, self.header, |change| contents = Some(change)), contents) {
            (Ok(()), Some(contents)) if found.is_complete() && found == contents.original => {
                return Ok(Found::Own(contents.state));
            }
            (Ok(()), Some(contents)) => return Ok(Found::Copy(contents.state)),
            (Err(other_version @ (Damage::Newer { .. } | Damage::Unknown)), _) => {
                return Err(problem_of(&other_version));
            }
            (Err(damage), _) => damage,
            (Ok(()), None) => Damage::Line(2),
        };
        Ok(Found::Damaged(problem_of(&damage)))
    }

    /// Returns the contents of the file, and the facts about it. Returns `None` if the file does not exist.
    fn try_to_read(&self) -> io::Result<Option<(Vec<u8>, Original)>> {
        let Some(mut file) = file::open(self.name)? else { return Ok(None) };
        let mut text = vec![];
        file.read_to_end(&mut text)?;
        Ok(Some((text, Original::of(&file)?)))
    }

    /// Removes the file. The removal is durable when this function returns.
    pub fn remove(&self) -> Result<(), String> {
        file::remove(self.name)
            .map_err(|problem| format!("could not remove file \"{}\": {problem}", self.name))
    }

    /// Writes the file. The new version is durable when this function returns.
    pub fn write<T: Serialize>(&self, state: T) -> Result<(), String> {
        let contents = |file: &File| {
            Ok(journal::start(self.header, &[Contents { original: Original::of(file)?, state }])?)
        };
        match file::replace(self.name, contents) {
            Ok(_) => Ok(()),
            Err(problem) => Err(format!("could not write file \"{}\": {problem}", self.name)),
        }
    }
}
