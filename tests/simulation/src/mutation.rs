//! Ways of breaking the product. Each changes the input or output of one of its functions, or omits a step of the
//! shell.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    PublishFirst,
    FloorAtClock,
    RecordForgotten,
    OpenUnfenced,
    LeaseOverrun,
    ResetUnshut,
    TokenUnshown,
    PromiseLate,
    CopyBelieved,
    GateFirst,
    ShutdownUnfenced,
    NumbersUnwaited,
    KeptLate,
    PublishedFirst,
}

pub const ALL: [(Mutation, &str, &str); 14] = [
    (Mutation::PublishFirst, "publish-first", "the keeper publishes a horizon before its commit"),
    (
        Mutation::FloorAtClock,
        "floor-at-clock",
        "after a start, slots begin at the clock, not at the stored horizon",
    ),
    (
        Mutation::RecordForgotten,
        "record-forgotten",
        "the end of the value in use is not recorded when another is opened",
    ),
    (Mutation::OpenUnfenced, "open-unfenced", "the gate is opened for another identity without a fence"),
    (Mutation::LeaseOverrun, "lease-overrun", "slots may be used for a minute after the end of the lease"),
    (Mutation::ResetUnshut, "reset-unshut", "a reset does not shut out the identities used so far"),
    (Mutation::TokenUnshown, "token-unshown", "servers do not show the registry what it has signed"),
    (Mutation::PromiseLate, "promise-late", "the keeper notes a horizon after its commit"),
    (Mutation::CopyBelieved, "copy-believed", "a copy of a server uses the lease in its file"),
    (Mutation::GateFirst, "gate-first", "a call loads the gate before the word of its slot"),
    (
        Mutation::ShutdownUnfenced,
        "shutdown-unfenced",
        "a clean stop stores the high-water mark without a fence",
    ),
    (
        Mutation::NumbersUnwaited,
        "numbers-unwaited",
        "a range of numbers is used before there is a token for it",
    ),
    (Mutation::KeptLate, "kept-late", "a lease counts as stored before it is in the file"),
    (Mutation::PublishedFirst, "published-first", "a lease is published before it is stored and proved"),
];

pub fn find(name: &str) -> Option<Mutation> {
    ALL.iter().find(|(_, known, _)| *known == name).map(|(mutation, ..)| *mutation)
}

/// The mutation of a run, if there is one.
pub type Broken = Option<Mutation>;
