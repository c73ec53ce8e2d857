//! The file in which a server stores which identity it uses by hand, and which identities it has left to registries:
//! `snowflake_id.identity` in the data directory.
//!
//! The identity in use counts only for the server that [wrote the file](crate::background::own_file). The identities that
//! were left also count on copies. The keeper stores them in its database, too, but they would be lost there if the
//! extension were dropped and the server were then stopped.

use serde::{Deserialize, Serialize};
use snowflake_id_core::Identity;
use snowflake_id_core::left::{Departure, Left};

use crate::background::own_file::{Found, OwnFile};

const FILE: OwnFile = OwnFile {
    name: "snowflake_id.identity",
    header: "# format 1: the worker IDs that this server uses by hand or has left to registries, written by extension snowflake_id",
};

/// The contents of the file.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
struct State {
    by_hand: Option<Identity>,
    left: Vec<(Identity, Departure)>,
}

/// The file of this server, and what this process knows of its contents.
pub struct IdentityFile {
    /// The contents that this server has written since its host was booted.
    written: Option<State>,
    /// The identity under which this very server issues IDs by hand, or issued IDs before this process was started.
    pub used_by_hand: Option<Identity>,
    pub left: Left,
    /// True if the file does not contain the last registry that is stored in the database. The server is then a copy that
    /// was made before the move to that registry.
    pub is_behind: bool,
}

impl IdentityFile {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns the problem if another version has written the file.
    pub fn read(stored: &Left) -> Result<IdentityFile, String> {
        let (state, is_own) = match FILE.read::<State>()? {
            Found::Own(state) => (state, true),
            Found::Copy(state) => (state, false),
            Found::Nothing => (State::default(), false),
            Found::Damaged(problem) => {
                pgrx::log!("snowflake_id: {problem}");
                (State::default(), false)
            }
        };
        let in_file: Left = state.left.iter().copied().collect();
        let mut left = in_file.clone();
        left.add(stored);
        let last = |left: &Left| left.latest().map(|latest| latest.registry_id);
        Ok(IdentityFile {
            used_by_hand: state.by_hand.filter(|_| is_own),
            is_behind: last(&in_file) != last(&left),
            left,
            written: is_own.then_some(state),
        })
    }

    /// Writes the file if the contents have changed. The contents are durable when this function returns.
    pub fn write(&mut self, by_hand: Option<Identity>, left: &Left) -> Result<(), String> {
        let state = State { by_hand, left: left.iter().collect() };
        (self.used_by_hand, self.left) = (by_hand, left.clone());
        // An empty file would only say that this server has used no identity.
        if self.written.as_ref() != Some(&state) && (self.written.is_some() || state != State::default()) {
            FILE.write(&state)?;
            self.written = Some(state);
        }
        Ok(())
    }
}
