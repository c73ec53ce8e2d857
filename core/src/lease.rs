//! [`Lease`] describes the range of time for which a server has its identity.

use serde::{Deserialize, Serialize};

use crate::identity::Identity;

/// The right to create IDs under an identity for a range of time. Only ticks that start within this range may
/// be used. The registry never grants overlapping ranges of the same identity, so two servers cannot create
/// the same ID, whatever their clocks show.
///
/// All times are in microseconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// The identity.
    pub identity: Identity,
    /// The start of the range.
    pub from_us: i64,
    /// The end of the range (exclusive). Each renewal of the lease extends the range.
    pub until_us: i64,
}

impl Lease {
    /// Returns a permanent lease for an identity that comes from the settings or a table.
    pub fn for_good(identity: Identity) -> Lease {
        Lease { identity, from_us: 0, until_us: i64::MAX }
    }

    /// Returns whether the lease is permanent.
    pub fn is_for_good(&self) -> bool {
        self.until_us == i64::MAX
    }

    /// Returns whether `other` is the same lease, apart from renewals. The ranges of one identity always have
    /// different starts.
    pub fn is_same_range(&self, other: &Lease) -> bool {
        (self.identity, self.from_us) == (other.identity, other.from_us)
    }

    /// Returns whether `other` is this lease, either unchanged or renewed.
    pub fn is_renewed_by(&self, other: &Lease) -> bool {
        self.is_same_range(other) && self.until_us <= other.until_us
    }
}
