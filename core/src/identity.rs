//! [`Identity`]: the server that creates the IDs.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::field::MAX_IDENTITY_BITS;

/// The identity of a server: the values of the `datacenter` and `worker` fields in its IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// 0 if the layout has no `datacenter` field; at most 2^31 - 1.
    pub datacenter: u32,
    /// 0 to 2^31 - 1.
    pub worker: u32,
}

impl Identity {
    /// The bit that distinguishes the word of an identity from [`Identity::NOBODY`], even if datacenter and
    /// worker are 0.
    const SOMEBODY: u64 = 1 << 63;
    /// The word that is stored if there is no identity, for example in a closed gate.
    pub const NOBODY: u64 = 0;

    /// Returns whether the identity fits at least one layout.
    pub fn is_possible(self) -> bool {
        self.datacenter.max(self.worker) >> MAX_IDENTITY_BITS == 0
    }

    /// Encodes the identity in one word. The word is never [`Identity::NOBODY`]. The identity must fit at
    /// least one layout.
    #[inline]
    pub fn to_word(self) -> u64 {
        debug_assert!(self.is_possible());
        Identity::SOMEBODY | u64::from(self.datacenter) << 32 | u64::from(self.worker)
    }

    /// Decodes an identity from a word that [`Identity::to_word`] returned. Returns `None` for
    /// [`Identity::NOBODY`].
    pub fn from_word(word: u64) -> Option<Identity> {
        let datacenter = ((word & !Identity::SOMEBODY) >> 32) as u32;
        (word != Identity::NOBODY).then_some(Identity { datacenter, worker: word as u32 })
    }
}

/// The form in messages, for example `worker ID 5` or `worker ID 5 of datacenter 2`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "worker ID {}", self.worker)?;
        match self.datacenter {
            0 => Ok(()),
            datacenter => write!(f, " of datacenter {datacenter}"),
        }
    }
}
