//! The state: the registry and an earlier state of it, the servers, and the checker's records.

/// The number of servers.
pub const SERVERS: usize = 2;

/// The whole state. Instants are ticks of the registry's clock. There is one identity and one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    /// The time that has passed.
    pub now: u8,
    /// How far the registry's clock is ahead of the time. The bounds say which difference is right.
    pub ahead: u8,
    /// The committed state.
    pub registry: Registry,
    /// Any earlier committed state: an old disk, a base backup, a dump, a standby.
    pub older: Registry,
    pub servers: [Server; SERVERS],
    pub forgets_left: u8,
    pub clocks_left: u8,
    pub lies_left: u8,
    pub freezes_left: u8,
    /// The start of another registry: this one has said that its leases end then.
    pub other_from: Option<u8>,
    /// Whether the registry was ever set back.
    pub has_forgotten: bool,
    /// Whether it was set back since the last end of a wait. An administrator knows that.
    pub is_older: bool,
    /// Whether a token has proved the last set-back.
    pub is_shown: bool,
    pub verdict: Verdict,
}

/// The tables of the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Registry {
    pub row: Row,
    /// The number that is granted next.
    pub next: u8,
    /// Whether no numbers are granted before an administrator says where to continue.
    pub is_closed: bool,
    /// No range begins earlier.
    pub floor: u8,
    pub wait: Option<Wait>,
    /// Nothing new is granted, and no lease extends beyond this.
    pub frozen_until: Option<u8>,
    /// Whether the present start of the registry's server has been noted. In a state that was set back it has not.
    pub is_start_noted: bool,
    /// Only in a broken protocol: a liar has made a claim, and other servers are no longer believed.
    pub is_blind: bool,
}

/// A wait, during which nothing new is granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Wait {
    /// How much is left to count.
    pub left: u8,
    /// The clock at the last count.
    pub counted_at: u8,
    /// Whether a loss is proved. The wait then lasts to its end.
    pub is_proved: bool,
    /// Whether a server has shown a token.
    pub is_witnessed: bool,
}

/// The identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub from: u8,
    pub until: u8,
    /// How often it was granted.
    pub grants: u8,
    pub holder: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    /// The lease in hand.
    pub held: Option<Range>,
    /// Its evidence of leases: the last grant, which is kept even after the lease.
    pub token: Option<Token>,
    /// Its evidence of numbers: all below this were granted.
    pub numbers: u8,
    /// Bit sets: the ticks of the identity that it was ever granted, the numbers that it was granted, and the numbers
    /// that it issued.
    pub ticks: u16,
    pub had: u8,
    pub drawn: u8,
    /// The remaining numbers.
    pub segment: Segment,
    /// Whether it was granted something since the registry was frozen.
    pub has_heard_of_freeze: bool,
    /// Whether it has called since the registry was started.
    pub is_heard: bool,
    /// Whether it is cut off from the registry.
    pub is_cut: bool,
    /// Whether its clock is far from the registry's.
    pub is_off: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    pub from: u8,
    pub until: u8,
}

/// Ranges of numbers, as in a `Segment`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Segment {
    pub current: Option<Numbers>,
    /// How many of the current ones were issued.
    pub gone: u8,
    pub next: Option<Numbers>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Numbers {
    pub first: u8,
    pub count: u8,
}

/// A signed statement of the registry that this was granted and committed.
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
    /// Two servers were granted the same tick of the identity, or a server was granted a tick that another registry may
    /// grant.
    Overlap,
    /// A number was given twice.
    Repeated,
    /// The registry concludes that it has forgotten something, but it never has.
    FalseAlarm,
}
