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
    pub const ALL: [Mutation; 22] = [
        Mutation::StartUnnoticed,
        Mutation::NewcomersFirst,
        Mutation::NumbersUnwaited,
        Mutation::NumbersUnreported,
        Mutation::ProofIgnored,
        Mutation::ClaimsBelieved,
        Mutation::ClaimsBlind,
        Mutation::SignedEarly,
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
            Mutation::StartUnnoticed => ("start-unnoticed", "nothing waits after a start"),
            Mutation::NewcomersFirst => {
                ("one-witness", "the first witness ends the wait, and others are still on their way")
            }
            Mutation::NumbersUnwaited => ("numbers-unwaited", "after a start numbers are given at once"),
            Mutation::NumbersUnreported => {
                ("numbers-unreported", "a server tells what numbers it had only when it wants more")
            }
            Mutation::ProofIgnored => {
                ("proof-ignored", "a loss that is proved repairs the row, and nothing else follows")
            }
            Mutation::ClaimsBelieved => ("claims-believed", "what is not signed is believed"),
            Mutation::ClaimsBlind => {
                ("claims-blind", "a claim that cannot be true makes what others say incredible")
            }
            Mutation::SignedEarly => ("signed-early", "what is not committed yet is signed"),
            Mutation::Overwritten => ("overwritten", "replication may overwrite rows of the registry"),
            Mutation::LapsedRenewed => {
                ("lapsed-renewed", "a lease that has ended is renewed while the registry waits")
            }
            Mutation::StartAgainEndsWait => {
                ("started-twice", "start_fleet() ends the wait of a registry that was started before")
            }
            Mutation::AcquireDeaf => ("acquire-deaf", "only renewals are listened to"),
            Mutation::LossForgotten => ("loss-forgotten", "a start ends the wait after a proved loss"),
            Mutation::WaitByClock => ("wait-by-clock", "the wait is read off the clock"),
            Mutation::FloorStays => ("floor-stays", "the end of a wait does not raise the floor"),
            Mutation::FormerForgotten => {
                ("former-untold", "a server tells the lease in hand, and none that it had")
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
                ("past-the-end", "a server takes one number more of a range than it was given")
            }
            Mutation::FreezeUntold => ("freeze-untold", "tokens do not tell that the registry is frozen"),
        }
    }

    /// The property that it violates.
    pub fn violates(self) -> &'static str {
        match self {
            Mutation::NumbersUnwaited | Mutation::NumbersUnreported | Mutation::PastTheEnd => NO_REPEAT,
            Mutation::ClaimsBelieved | Mutation::SignedEarly => NO_ALARM,
            _ => DISJOINT,
        }
    }
}
