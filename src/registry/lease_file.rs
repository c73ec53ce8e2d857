//! The file in which a server stores the state of its leases: `snowflake_id.lease` in the data directory.
//!
//! A copy of the data directory contains a copy of the file. The lease in a copy must not be used, because
//! then two servers would issue IDs under one lease. The file therefore records its own identity (device,
//! inode, time of creation), the boot of the host, and the server to which it belongs. At least one of these
//! facts differs in a base backup, in a copy by `cp -a`, on a rewound or promoted standby, and in a snapshot
//! on another host. A server with a copied file is unrecognized, and requests an identity of its own. A fact
//! that cannot be determined counts as different.
//!
//! The file is always replaced as a whole. If the process dies during a write, the file still contains either
//! the complete old version or the complete new version. The file is a [`journal`] with a single change. The checksum
//! reveals a damaged file, in which a lease could seem to end later than it does.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use snowflake_id_core::journal::{self, Damage};
use snowflake_id_core::lease_state::LeaseState;

use crate::background::file;
use crate::pg::server;

const NAME: &str = "snowflake_id.lease";
const HEADER: &str = "# format 1: the lease of this server's worker ID, written by extension snowflake_id; a copy of this file cannot be used";

/// The contents of the file.
#[derive(Serialize, Deserialize)]
struct Contents {
    original: Original,
    state: LeaseState,
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

/// Returns the state in the file. If the state cannot be used completely, also returns the reason for the
/// log.
///
/// # Errors
/// Returns the problem if another version has written the file. The server must not overwrite the file: the evidence in
/// it is all that is known of the leases that the newer version has used.
pub fn read() -> Result<(LeaseState, Option<String>), String> {
    let problem_of = |problem: &dyn Display| format!("could not read file \"{NAME}\": {problem}");
    let (text, found) = match try_to_read() {
        Ok(Some(read)) => read,
        Ok(None) => return Ok((LeaseState::default(), None)),
        Err(problem) => return Ok((LeaseState::default(), Some(problem_of(&problem)))),
    };
    let mut contents: Option<Contents> = None;
    let problem = match (journal::read(&text, HEADER, |change| contents = Some(change)), contents) {
        (Ok(()), Some(contents)) if found.is_complete() && found == contents.original => {
            return Ok((contents.state, None));
        }
        (Ok(()), Some(contents)) => {
            let why = "the file is a copy, or the host was rebooted";
            return Ok((
                contents.state.of_an_unrecognized_server(),
                Some(format!("the lease in file \"{NAME}\" is not used: {why}")),
            ));
        }
        (Err(other_version @ (Damage::Newer { .. } | Damage::Unknown)), _) => {
            return Err(problem_of(&other_version));
        }
        (Err(damage), _) => damage,
        (Ok(()), None) => Damage::Line(2),
    };
    Ok((LeaseState::default(), Some(problem_of(&problem))))
}

/// Returns the text of the file, and the facts about the file. Returns `None` if the file does not exist.
fn try_to_read() -> io::Result<Option<(Vec<u8>, Original)>> {
    let Some(mut file) = file::open(NAME)? else { return Ok(None) };
    let mut text = vec![];
    file.read_to_end(&mut text)?;
    Ok(Some((text, Original::of(&file)?)))
}

/// Writes the file. The new version is durable when this function returns.
pub fn write(state: &LeaseState) -> Result<(), String> {
    try_to_write(state).map_err(|problem| format!("could not write file \"{NAME}\": {problem}"))
}

fn try_to_write(state: &LeaseState) -> io::Result<()> {
    let contents = |file: &File| {
        let contents = Contents { original: Original::of(file)?, state: state.clone() };
        Ok(journal::start(HEADER, &[contents])?)
    };
    file::replace(NAME, contents).map(|_| ())
}
