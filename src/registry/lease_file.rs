//! The file in which a server keeps what it knows of its leases: `snowflake_id.lease` in the data directory.
//!
//! A copy of the data directory has a copy of the file, and must not use what is in it: two servers would make IDs
//! under one lease. So the file says which file it is, on which host, since which boot, and of which server it is.
//! A base backup, a rewound or promoted standby, `cp -a`, a snapshot on another host: none of them has such a file. It
//! is a stranger then, and asks for an identity of its own. What cannot be found out does not match.
//!
//! It is replaced as a whole, so that it is there in the old or in the new form, whenever the process dies.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use snowflake_id_core::lease_state::LeaseState;

use crate::background::file;
use crate::pg::server;

const NAME: &str = "snowflake_id.lease";

/// What is in the file.
#[derive(Serialize, Deserialize)]
struct Contents {
    /// Says to whoever finds the file what it is.
    about: String,
    original: Original,
    state: LeaseState,
}

/// What an original has and a copy has not.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Original {
    device: u64,
    inode: u64,
    /// When the file was made, in nanoseconds of Unix time.
    born_ns: Option<u64>,
    boot_id: Option<String>,
    system_identifier: u64,
    timeline: u32,
}

impl Original {
    /// Of a file, here and now.
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

/// The state in the file, and why nothing, or not all of it, can be used, if that is worth telling.
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

/// What is in the file, and whether it is the original; `None` if there is no file.
fn try_to_read() -> io::Result<Option<(Contents, bool)>> {
    let Some(file) = file::open(NAME)? else { return Ok(None) };
    let contents: Contents = serde_json::from_reader(io::BufReader::new(&file))?;
    let found = Original::of(&file)?;
    let is_original = found.is_complete() && found == contents.original;
    Ok(Some((contents, is_original)))
}

/// Writes the file. When it returns, that is durable.
pub fn write(state: &LeaseState) -> Result<(), String> {
    try_to_write(state).map_err(|problem| format!("could not write file \"{NAME}\": {problem}"))
}

fn try_to_write(state: &LeaseState) -> io::Result<()> {
    file::replace(NAME, |file| {
        Ok(Contents {
            about:
                "the lease of this server's worker ID, written by extension snowflake_id; a copy of this file cannot be used"
                    .into(),
            original: Original::of(file)?,
            state: state.clone(),
        })
    })
}
