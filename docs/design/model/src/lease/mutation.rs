//! The protocol of the lease with one part broken. Each mutation shows the purpose of a rule of the protocol.

use crate::lease::check::{ALONE, DISJOINT, GIVEN, GOES_ON, INSIDE, NO_REPEAT, TWINS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    SuccessorAtClock,
    FromNotStored,
    CappedLate,
    NotCapped,
    CappedBeforeKnown,
    ExchangeUnfenced,
    GateBeforeFile,
    EvidenceUnchecked,
    ReadBelieved,
    CancelledBelieved,
    UncommittedBelieved,
    FailoverUnnoticed,
    RestoreUnnoticed,
    NewRegistryTrusted,
    QuarantineTooShort,
    QuarantineForever,
    LapsedKept,
    RenewalByName,
    RevocationLowers,
    RenewalLowers,
    NoNonce,
    NonceKept,
    AnswerUnchecked,
    LeaseInHandReset,
    AnswerNeeded,
    InheritedIgnored,
    OlderFile,
    RenewalTakenTwice,
    ReleasedEarly,
    ReleasedUnfenced,
}

impl Mutation {
    pub const ALL: [Mutation; 30] = [
        Mutation::SuccessorAtClock,
        Mutation::FromNotStored,
        Mutation::CappedLate,
        Mutation::NotCapped,
        Mutation::CappedBeforeKnown,
        Mutation::ExchangeUnfenced,
        Mutation::GateBeforeFile,
        Mutation::EvidenceUnchecked,
        Mutation::ReadBelieved,
        Mutation::CancelledBelieved,
        Mutation::UncommittedBelieved,
        Mutation::FailoverUnnoticed,
        Mutation::RestoreUnnoticed,
        Mutation::NewRegistryTrusted,
        Mutation::QuarantineTooShort,
        Mutation::QuarantineForever,
        Mutation::LapsedKept,
        Mutation::RenewalByName,
        Mutation::RevocationLowers,
        Mutation::RenewalLowers,
        Mutation::NoNonce,
        Mutation::NonceKept,
        Mutation::AnswerUnchecked,
        Mutation::LeaseInHandReset,
        Mutation::AnswerNeeded,
        Mutation::InheritedIgnored,
        Mutation::OlderFile,
        Mutation::RenewalTakenTwice,
        Mutation::ReleasedEarly,
        Mutation::ReleasedUnfenced,
    ];

    /// The name on the command line, and the broken part.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Mutation::SuccessorAtClock => {
                ("successor-at-clock", "a successor starts at its clock, not at the start of its lease")
            }
            Mutation::FromNotStored => (
                "from-not-stored",
                "the gate is opened before a horizon above the start of the lease is stored",
            ),
            Mutation::CappedLate => {
                ("capped-late", "the horizon is capped to the end of the lease after the gate was opened")
            }
            Mutation::NotCapped => ("not-capped", "the horizon is not capped to the end of the lease"),
            Mutation::CappedBeforeKnown => {
                ("capped-before-known", "a stored horizon beyond the end of the lease is published as it is")
            }
            Mutation::ExchangeUnfenced => ("exchange-unfenced", "the identity is exchanged without a fence"),
            Mutation::GateBeforeFile => ("gate-before-file", "a lease is published before it is in the file"),
            Mutation::EvidenceUnchecked => ("evidence-unchecked", "a copied file is trusted"),
            Mutation::ReadBelieved => {
                ("read-believed", "a lease that is requested again is read without writing it, and used")
            }
            Mutation::CancelledBelieved => {
                ("cancelled-believed", "a grant is used although the wait for the standby was canceled")
            }
            Mutation::UncommittedBelieved => {
                ("uncommitted-believed", "a grant is used when its row arrives, before the commit")
            }
            Mutation::FailoverUnnoticed => ("failover-unnoticed", "no quarantine after a failover"),
            Mutation::RestoreUnnoticed => ("restore-unnoticed", "no quarantine after a dump was restored"),
            Mutation::NewRegistryTrusted => {
                ("new-registry-trusted", "a new registry starts without a quarantine")
            }
            Mutation::QuarantineTooShort => {
                ("quarantine-too-short", "the quarantine leaves no margin for two clocks that differ")
            }
            Mutation::QuarantineForever => {
                ("quarantine-forever", "each call to a registry that lost commits restarts the quarantine")
            }
            Mutation::LapsedKept => ("lapsed-kept", "a lapsed lease may be renewed after commits were lost"),
            Mutation::RenewalByName => {
                ("renewal-by-name", "a renewal is found by node_name, whoever holds the lease")
            }
            Mutation::RevocationLowers => ("revocation-lowers", "revoking a lease also lowers its end"),
            Mutation::RenewalLowers => {
                ("renewal-lowers", "a renewal sets the end of the lease even if that lowers it")
            }
            Mutation::NoNonce => ("no-nonce", "a renewal does not check the nonce"),
            Mutation::NonceKept => {
                ("nonce-kept", "nonces are checked even when the last one may have been lost")
            }
            Mutation::AnswerUnchecked => {
                ("answer-unchecked", "a renewal is accepted whichever lease the reply is about")
            }
            Mutation::AnswerNeeded => {
                ("answer-needed", "a restarted server continues only when the registry has replied")
            }
            Mutation::LeaseInHandReset => {
                ("lease-in-hand-reset", "a reset is made in a lease that was partly used")
            }
            Mutation::InheritedIgnored => (
                "inherited-ignored",
                "a lease from before the start is used although the stored data is gone",
            ),
            Mutation::OlderFile => ("older-file", "an older copy of the data directory is trusted"),
            Mutation::RenewalTakenTwice => {
                ("renewal-taken-twice", "a renewal that was already accepted is accepted again")
            }
            Mutation::ReleasedEarly => {
                ("released-early", "the next range starts one tick before the end of the used range")
            }
            Mutation::ReleasedUnfenced => {
                ("released-unfenced", "a program takes IDs after it has determined the end of the used range")
            }
        }
    }

    /// The property that it violates.
    pub fn violates(self) -> &'static str {
        match self {
            Mutation::GateBeforeFile => INSIDE,
            Mutation::RenewalLowers => DISJOINT,
            Mutation::QuarantineForever => GIVEN,
            Mutation::AnswerNeeded => GOES_ON,
            Mutation::NoNonce => TWINS,
            Mutation::NonceKept | Mutation::RenewalTakenTwice => ALONE,
            _ => NO_REPEAT,
        }
    }
}
