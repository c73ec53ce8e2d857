//! The file `snowflake_id.identity` in the data directory. It contains the identity that is set by hand and in use, and
//! the identities that the server has left to registries.
//!
//! The identity in use applies only to the server that [wrote the file](crate::background::own_file). The identities
//! that were left to registries also apply to copies of the server. The keeper's database contains these identities,
//! too, but would lose them if the extension were dropped and the server were then stopped.

use pgrx::log;
use serde::{Deserialize, Serialize};
use snowflake_id_core::Identity;
use snowflake_id_core::left::{Departure, Left};
use snowflake_id_core::used::Uses;
use uuid::Uuid;

use crate::background::own_file::{Found, OwnFile};
use crate::pg::clock;
use crate::registry::lease_file;

const FILE: OwnFile = OwnFile {
    name: "snowflake_id.identity",
    header: "# format 1: the worker IDs that this server uses by hand or has left to registries, written by extension snowflake_id",
};

/// The contents of the file.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct State {
    by_hand: Option<Identity>,
    registry_id: Option<Uuid>,
    left: Vec<(Identity, Departure)>,
}

/// The file of this server, and what this process knows about it.
pub struct IdentityFile {
    /// The contents that this server has written since its host was booted.
    written: Option<State>,
    /// The contents that could not be written. The server does not depend on them.
    unwritten: Option<State>,
    /// The identity, set by hand, under which this server issues IDs or issued IDs before this process was started. A
    /// copy does not take over the identity of the original.
    pub used_by_hand: Option<Identity>,
    /// The registry from which the server with this data directory last leased an identity. In a copy, this is the
    /// registry of the original at the time of the copy.
    pub registry_id: Option<Uuid>,
    pub left: Left,
}

impl IdentityFile {
    /// Reads the file. If it does not exist, an earlier version may have used leases: see
    /// [`State::of_earlier_version`].
    ///
    /// # Errors
    /// Returns the problem if another version has written the file.
    pub fn read(stored: &Left, uses: &Uses) -> Result<IdentityFile, String> {
        let (state, is_own) = match FILE.read::<State>()? {
            Found::Own(state) => (state, true),
            Found::Copy(state) => (state, false),
            Found::Nothing => (State::of_earlier_version(stored, uses)?, false),
            Found::Damaged(problem) => {
                log!("snowflake_id: {problem}");
                (State::of_earlier_version(stored, uses)?, false)
            }
        };
        Ok(IdentityFile {
            used_by_hand: state.by_hand.filter(|_| is_own),
            registry_id: state.registry_id,
            left: state.left.iter().copied().collect(),
            written: is_own.then_some(state),
            unwritten: None,
        })
    }

    /// Returns whether this server must be treated as a copy that was made before the original moved to its last
    /// registry. Once this server has leased an identity from that registry, it is no longer treated as such a copy.
    pub fn is_behind(&self, left: &Left) -> bool {
        left.latest().is_some_and(|latest| self.registry_id != Some(latest.registry_id))
    }

    /// Writes the file if the contents have changed. The contents are durable when this function returns. The exception
    /// is a server that has never leased an identity. Such a server does not need the file, so a failure to write the
    /// file is only logged. In this case, a file with an outdated identity is removed.
    pub fn write(&mut self, by_hand: Option<Identity>, left: &Left) -> Result<(), String> {
        let state = State { by_hand, registry_id: self.registry_id, left: left.iter().collect() };
        (self.used_by_hand, self.left) = (by_hand, left.clone());
        // A missing file means the same as empty contents: this server has used no identity.
        if self.written.as_ref().unwrap_or(&State::default()) == &state
            || self.unwritten.as_ref() == Some(&state)
        {
            return Ok(());
        }
        match FILE.write(&state) {
            Ok(()) => (self.written, self.unwritten) = (Some(state), None),
            Err(problem) if left.is_empty() => {
                let old = self.written.as_ref().and_then(|written| written.by_hand);
                if old.is_some() && old != by_hand {
                    FILE.remove()?;
                    self.written = None;
                }
                log!("snowflake_id: {problem}");
                self.unwritten = Some(state);
            }
            Err(problem) => return Err(problem),
        }
        Ok(())
    }
}

impl State {
    /// Returns the contents for a server on which an earlier version, which had no such file, may have leased
    /// identities. The lease file shows whether the earlier version did so. If it did, all identities that the server
    /// has used or leased belong to the registry.
    fn of_earlier_version(stored: &Left, uses: &Uses) -> Result<State, String> {
        let (Found::Own(lease) | Found::Copy(lease), _) = lease_file::read()? else {
            return Ok(State::default());
        };
        // If identities that were left are stored in the database, ignore the lease file, which may be a copy that is
        // older than these records.
        let Some(registry_id) = lease.registry_id.filter(|_| stored.is_empty()) else {
            return Ok(State::default());
        };
        let departure = Departure { registry_id, since_us: clock::clock_us() };
        let leases = lease.held.iter().map(|held| held.lease);
        let leases = leases.chain(lease.evidence.iter().map(|evidence| evidence.lease));
        let identities =
            leases.map(|lease| lease.identity).chain(uses.iter().filter_map(|record| record.identity));
        let left = identities.map(|identity| (identity, departure)).collect::<Left>().iter().collect();
        Ok(State { by_hand: None, registry_id: Some(registry_id), left })
    }
}
