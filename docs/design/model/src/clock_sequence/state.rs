//! What there is: the disk, shared memory, the processes, and what the checker remembers.
//!
//! Two layouts: one with the field, whose values are 0 to 2, and one without, which shares the slot of value 0. A tick has
//! one ID, so that a counter is a tick.

/// The setting, in units of the model's time; `max_drift` is 0.
pub const LEASE: u8 = 1;
/// How many values there are, 0 included.
pub const VALUES: usize = 3;
pub type Value = u8;

/// `ValueHorizon`: a value with its horizon, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Horizon {
    pub value: Value,
    pub until: u8,
}

impl Horizon {
    pub const NONE: Horizon = Horizon { value: 0, until: 0 };

    pub fn until_of(self, value: Value) -> u8 {
        if self.value == value { self.until } else { 0 }
    }
}

/// The records of use of values, those that hold for the one identity that there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uses {
    pub every: Option<u8>,
    pub own: [Option<u8>; VALUES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// `None` between DROP and CREATE EXTENSION.
    pub stored: Option<Stored>,
    pub shared: Shared,
    pub keeper: Keeper,
    pub callers: [Caller; 2],
    /// One ID that was handed out, any one.
    pub watched: Option<Id>,
    pub verdict: Verdict,
}

/// What is stored. What is written in place is read at once, and is durable after its commit, or whenever somebody flushes the WAL;
/// records are there after their commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Whether it is where the server stored last, as far as the keeper has come to note it; and whether it is where the
    /// keeper stores what it has in hand.
    pub is_known: bool,
    pub is_in_hand: bool,
    /// The horizon of value 0. How that is written is in the model of the horizon: here it is durable at the commit.
    pub zero: u8,
    pub durable: Horizon,
    pub readable: Horizon,
    pub uses: Uses,
}

/// Shared memory: a crash of the server wipes it out. A crash of a backend leaves the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shared {
    pub past: Past,
    /// Found out at the first look: the gate is open from then on.
    pub begun: Option<Begun>,
    /// The slot of each value.
    pub slots: [Option<Slot>; VALUES],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Past {
    pub has_place: bool,
    pub has_identity: bool,
    pub highest: u8,
    pub zero: u8,
    pub published: Horizon,
    pub promised: Horizon,
}

/// The value in use, and where slots begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Begun {
    pub value: Value,
    pub floor: u8,
    /// Where slots with value 0 begin.
    pub zero_floor: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Whose horizon it has.
    pub value: Value,
    pub counter: u8,
    /// The first tick that may not be used.
    pub limit: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keeper {
    #[default]
    Up,
    /// Its plan is written, but not committed.
    Written(Look),
    /// It is committed, but not published.
    Committed(Look),
}

/// What a look has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    pub zero: Option<u8>,
    pub horizon: Option<Horizon>,
    pub uses: Uses,
    pub begun: Begun,
    /// Whether another value is opened.
    pub opens: bool,
}

/// What an attempt holds in registers. It may stay like that for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller {
    pub at: Option<(usize, Value)>,
    pub current: u8,
    pub first: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub value: Value,
    pub tick: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    #[default]
    Larger,
    Repeated,
    Smaller,
}
