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
//! the complete old version or the complete new version.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use snowflake_id_core::lease_state::LeaseState;

use crate::background::file;
use crate::pg::server;

const NAME: &str = "snowflake_id.lease";

/// The contents of the file.
#[derive(Serialize, Deserialize)]
struct Contents {
    /// An explanation of the file for administrators.
    about: String,
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
pub fn read() -> (LeaseState, Option<String>) {
    match try_to_read() {
        Ok(Some((contents, true))) => (contents.state, None),
        Ok(Some((contents, false))) => {
            let why = "the file is a copy, or the host was rebooted";
            (
                contents.state.of_an_unrecognized_server(),
                Some(format!("the lease in file \"{NAME}\" is not used: {why}")),
            )
        }
        Ok(None) => (LeaseState::default(), None),
        Err(problem) => (LeaseState::default(), Some(format!("could not read file \"{NAME}\": {problem}"))),
    }
}

/// Returns the contents of the file, and whether the file is the original. Returns `None` if the file does
/// not exist.
fn try_to_read() -> io::Result<Option<(Contents, bool)>> {
    let Some(file) = file::open(NAME)? else { return Ok(None) };
    let contents: Contents = serde_json::from_reader(io::BufReader::new(&file))?;
    let found = Original::of(&file)?;
    let is_original = found.is_complete() && found == contents.original;
    Ok(Some((contents, is_original)))
}

/// Writes the file. The new version is durable when this function returns.
pub fn write(state: &LeaseState) -> Result<(), String> {
    try_to_write(state).map_err(|problem| format!("could not write file \"{NAME}\": {problem}"))
}

fn try_to_write(state: &LeaseState) -> io::Result<()> {
    let contents = |file: &File| {
        file::json(&Contents {
            about:
                "the lease of this server's worker ID, written by extension snowflake_id; a copy of this file cannot be used"
                    .into(),
            original: Original::of(file)?,
            state: state.clone(),
        })
    };
    file::replace(NAME, contents).map(|_| ())
}
