//! [`Lease`]: for which times a server has its identity.

use serde::{Deserialize, Serialize};

use crate::identity::Identity;

/// A right to make IDs under an identity, for a range of ID time: under it a tick may be used only if it starts
/// in the range. The registry never gives two ranges of one identity that overlap. So two servers cannot make
/// the same ID, whatever their clocks say.
///
/// Instants are microseconds of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Lease {
    /// Whose.
    pub identity: Identity,
    /// Where the range begins.
    pub from_us: i64,
    /// Where it ends; it is not part of the range. It moves on when the lease is renewed.
    pub until_us: i64,
}

impl Lease {
    /// The lease of an identity that nobody leases: the settings or a table give it, for good.
    pub fn for_good(identity: Identity) -> Lease {
        Lease { identity, from_us: 0, until_us: i64::MAX }
    }

    /// Whether it ends at all.
    pub fn is_for_good(&self) -> bool {
        self.until_us == i64::MAX
    }

    /// Whether another lease is this one, renewed or not. Each range of an identity begins elsewhere.
    pub fn is_same_range(&self, other: &Lease) -> bool {
        (self.identity, self.from_us) == (other.identity, other.from_us)
    }

    /// Whether another lease is this one, at most renewed since.
    pub fn is_renewed_by(&self, other: &Lease) -> bool {
        self.is_same_range(other) && self.until_us <= other.until_us
    }
}
