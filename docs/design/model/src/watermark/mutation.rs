//! The protocol with one part broken. Each mutation shows the purpose of a part of the protocol.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    MarkAfter,
    MarkedAtAll,
    PlainStore,
    WorkerLine,
    ClearFirst,
    PreparedForgotten,
    PlaceReused,
    ListFirst,
    SnapshotFirst,
    SnapshotBeforeList,
    CountersLast,
    RetiredIgnored,
    OlderIgnored,
    IdentityAlways,
    FromEarly,
    SampleKept,
    Uncovered,
    CoveredByXmax,
    AnswerForgotten,
    NullForgotten,
}

impl Mutation {
    pub const ALL: [Mutation; 20] = [
        Mutation::MarkAfter,
        Mutation::MarkedAtAll,
        Mutation::PlainStore,
        Mutation::WorkerLine,
        Mutation::ClearFirst,
        Mutation::PreparedForgotten,
        Mutation::PlaceReused,
        Mutation::ListFirst,
        Mutation::SnapshotFirst,
        Mutation::SnapshotBeforeList,
        Mutation::CountersLast,
        Mutation::RetiredIgnored,
        Mutation::OlderIgnored,
        Mutation::IdentityAlways,
        Mutation::FromEarly,
        Mutation::SampleKept,
        Mutation::Uncovered,
        Mutation::CoveredByXmax,
        Mutation::AnswerForgotten,
        Mutation::NullForgotten,
    ];

    /// The name on the command line, and the broken part.
    pub fn name(self) -> (&'static str, &'static str) {
        match self {
            Mutation::MarkAfter => ("mark-after", "a slot is marked after the first ID is taken"),
            Mutation::MarkedAtAll => {
                ("marked-at-all", "a transaction that has marked one slot takes IDs from all slots")
            }
            Mutation::PlainStore => ("plain-store", "a mark overwrites a lower mark of the same slot"),
            Mutation::WorkerLine => {
                ("worker-line", "a parallel worker has marks of its own, and clears them when it exits")
            }
            Mutation::ClearFirst => ("clear-first", "marks are cleared before the transaction ends"),
            Mutation::PreparedForgotten => {
                ("prepared-forgotten", "the marks of a transaction that is prepared are not copied")
            }
            Mutation::PlaceReused => {
                ("place-reused", "the place of a prepared transaction in the list is used again too early")
            }
            Mutation::ListFirst => {
                ("list-first", "the list of prepared transactions is read before the marks of processes")
            }
            Mutation::SnapshotFirst => ("snapshot-first", "the snapshot is taken before the marks are read"),
            Mutation::SnapshotBeforeList => (
                "snapshot-before-list",
                "the snapshot is taken before the list of prepared transactions is read",
            ),
            Mutation::CountersLast => ("counters-last", "the counters are loaded after the marks"),
            Mutation::RetiredIgnored => ("retired-ignored", "marks on retired slots are ignored"),
            Mutation::OlderIgnored => {
                ("older-ignored", "transactions that were prepared before a restart are ignored")
            }
            Mutation::IdentityAlways => {
                ("identity-always", "the watermark contains the identity even below its first counter")
            }
            Mutation::FromEarly => {
                ("from-early", "the first counter of the identity is read before the directory is locked")
            }
            Mutation::SampleKept => ("sample-kept", "a sample is kept over a reset"),
            Mutation::Uncovered => {
                ("uncovered", "a watermark answers statements whose snapshots are older than its own")
            }
            Mutation::CoveredByXmax => {
                ("covered-by-xmax", "only xmax is compared between the snapshots of a sample and a statement")
            }
            Mutation::AnswerForgotten => {
                ("answer-forgotten", "a statement that asks again gets another answer")
            }
            Mutation::NullForgotten => {
                ("null-forgotten", "a statement that has received NULL gets another answer")
            }
        }
    }
}
