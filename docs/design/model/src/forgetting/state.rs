//! What there is: the registry and an earlier state of it, the servers, and what the checker remembers.

/// How many servers there are.
pub const SERVERS: usize = 2;

/// Everything. Instants are ticks of the registry's clock. There is one identity and one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    /// The time that has passed.
    pub now: u8,
    /// How far the registry's clock is ahead of it. What is right is up to the bounds.
    pub ahead: u8,
    /// As it is committed.
    pub registry: Registry,
    /// Any earlier committed state: an old disk, a base backup, a dump, a standby.
    pub older: Registry,
    pub servers: [Server; SERVERS],
    pub forgets_left: u8,
    pub clocks_left: u8,
    pub lies_left: u8,
    pub freezes_left: u8,
    /// Where another registry begins: this one has said that its leases end there.
    pub other_from: Option<u8>,
    /// Whether the registry was ever set back.
    pub has_forgotten: bool,
    /// Whether it was set back since a wait has ended the last time. An administrator knows.
    pub is_older: bool,
    /// Whether a token has shown, since it was set back the last time, that it was.
    pub is_shown: bool,
    pub verdict: Verdict,
}

/// The tables of the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Registry {
    pub row: Row,
    /// The number that is given next.
    pub next: u8,
    /// No numbers before an administrator says where to go on.
    pub is_closed: bool,
    /// No range begins earlier.
    pub floor: u8,
    pub wait: Option<Wait>,
    /// Nothing new is given, and no lease reaches further.
    pub frozen_until: Option<u8>,
    /// Whether the present start of its server is noted. In a state that was set back it is not.
    pub is_start_noted: bool,
    /// Only when broken: a liar has said something, and others are not believed any more.
    pub is_blind: bool,
}

/// Nothing new is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wait {
    /// How much is left to count.
    pub left: u8,
    /// The clock when it was counted last.
    pub counted_at: u8,
    /// A loss is proved: it lasts to its end.
    pub is_proved: bool,
    /// Somebody has shown a token.
    pub is_witnessed: bool,
}

/// The identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub from: u8,
    pub until: u8,
    /// How often it was given.
    pub grants: u8,
    pub holder: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    /// The lease in hand.
    pub held: Option<Range>,
    /// What it can prove of leases: the last grant, kept also when the lease is not in hand any more.
    pub token: Option<Token>,
    /// What it can prove of numbers: all below this were given.
    pub numbers: u8,
    /// The ticks of the identity that it was ever given, the numbers that it was given, and those that it has handed out: a
    /// bit for each.
    pub ticks: u16,
    pub had: u8,
    pub drawn: u8,
    /// What is left of the numbers.
    pub segment: Segment,
    /// Whether it was granted something since the registry was frozen.
    pub has_heard_of_freeze: bool,
    /// Whether it has called since the registry was started.
    pub is_heard: bool,
    /// It does not reach the registry.
    pub is_cut: bool,
    /// Its clock is far from the registry's.
    pub is_off: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    pub from: u8,
    pub until: u8,
}

/// Ranges of numbers, as a `Segment` has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment {
    pub current: Option<Numbers>,
    /// How many of the current ones are gone.
    pub gone: u8,
    pub next: Option<Numbers>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Numbers {
    pub first: u8,
    pub count: u8,
}

/// A signed statement of the registry: this was given, and is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token {
    pub grants: u8,
    pub range: Range,
    pub frozen_until: Option<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    #[default]
    Good,
    /// Two servers were given the same tick of the identity, or one what another registry may give.
    Overlap,
    /// A number was given twice.
    Repeated,
    /// The registry believes that it has forgotten something, and it never has.
    FalseAlarm,
}
