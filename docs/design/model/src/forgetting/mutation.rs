//! The rule with one part broken. Each mutation shows the purpose of a part of the rule. Several of them describe the
//! registry before there was the rule.

use crate::forgetting::check::{DISJOINT, NO_ALARM, NO_REPEAT};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    StartUnnoticed,
    NewcomersFirst,
    NumbersUnwaited,
    NumbersUnreported,
    ProofIgnored,
    ClaimsBelieved,
    ClaimsBlind,
    SignedEarly,
    SignedUndurable,
    Overwritten,
    LapsedRenewed,
    StartAgainEndsWait,
    AcquireDeaf,
    LossForgotten,
    WaitByClock,
    FloorStays,
    FormerForgotten,
    RefusedUnheard,
    EndLowersFloor,
    FrozenRenewed,
    FreezeUntold,
    UnsignedUsed,
    PastTheEnd,
}

impl Mutation {
    pub const ALL: [Mutation; 23] = [
        Mutation::StartUnnoticed,
        Mutation::NewcomersFirst,
        Mutation::NumbersUnwaited,
        Mutation::NumbersUnreported,
        Mutation::ProofIgnored,
        Mutation::ClaimsBelieved,
        Mutation::ClaimsBlind,
        Mutation::SignedEarly,
        Mutation::SignedUndurable,
        Mutation::Overwritten,
        Mutation::LapsedRenewed,
        Mutation::StartAgainEndsWait,
        Mutation::AcquireDeaf,
        Mutation::LossForgotten,
        Mutation::WaitByClock,
        Mutation::FloorStays,
        Mutation::FormerForgotten,
        Mutation::RefusedUnheard,
        Mutation::EndLowersFloor,
        Mutation::FrozenRenewed,
        Mutation::FreezeUntold,
        Mutation::UnsignedUsed,
        Mutation::PastTheEnd,
    ];

    /// The name on the command line, and the broken part.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Mutation::StartUnnoticed => ("start-unnoticed", "there is no wait after a start"),
            Mutation::NewcomersFirst => {
                ("one-witness", "the first witness ends the wait before others are heard")
            }
            Mutation::NumbersUnwaited => ("numbers-unwaited", "after a start, numbers are granted at once"),
            Mutation::NumbersUnreported => {
                ("numbers-unreported", "a server reports its numbers only when it requests more")
            }
            Mutation::ProofIgnored => {
                ("proof-ignored", "a proved loss repairs the row and has no other effect")
            }
            Mutation::ClaimsBelieved => ("claims-believed", "unsigned claims are believed"),
            Mutation::ClaimsBlind => ("claims-blind", "an impossible claim discredits what others report"),
            Mutation::SignedEarly => ("signed-early", "uncommitted grants are signed"),
            Mutation::SignedUndurable => {
                ("signed-undurable", "grants are signed whose commit a crash may still lose")
            }
            Mutation::Overwritten => ("overwritten", "replication may overwrite rows of the registry"),
            Mutation::LapsedRenewed => {
                ("lapsed-renewed", "a lease that has ended is renewed while the registry waits")
            }
            Mutation::StartAgainEndsWait => {
                ("started-twice", "start_fleet() ends the wait of a registry that was started before")
            }
            Mutation::AcquireDeaf => ("acquire-deaf", "only renewals are heard"),
            Mutation::LossForgotten => ("loss-forgotten", "a start ends the wait after a proved loss"),
            Mutation::WaitByClock => ("wait-by-clock", "the wait is measured by the clock"),
            Mutation::FloorStays => ("floor-stays", "the end of a wait does not raise the floor"),
            Mutation::FormerForgotten => {
                ("former-untold", "a server reports the lease in hand, but no earlier one")
            }
            Mutation::RefusedUnheard => {
                ("refused-unheard", "a server whose clock is wrong is refused before it is heard")
            }
            Mutation::EndLowersFloor => {
                ("end-lowers-floor", "a request that ends the wait lowers the floor to the clock")
            }
            Mutation::FrozenRenewed => ("frozen-renewed", "a frozen registry extends leases as before"),
            Mutation::UnsignedUsed => ("unsigned-used", "a lease is used before the registry has signed it"),
            Mutation::PastTheEnd => {
                ("past-the-end", "a server takes one number more of a range than it was granted")
            }
            Mutation::FreezeUntold => ("freeze-untold", "tokens do not say that the registry is frozen"),
        }
    }

    /// The property that it violates.
    pub fn violates(self) -> &'static str {
        match self {
            Mutation::NumbersUnwaited | Mutation::NumbersUnreported | Mutation::PastTheEnd => NO_REPEAT,
            Mutation::ClaimsBelieved | Mutation::SignedEarly | Mutation::SignedUndurable => NO_ALARM,
            _ => DISJOINT,
        }
    }
}
