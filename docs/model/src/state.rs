//! What there is: the disk, shared memory, the processes, and what the checker remembers. Quotations: the design.

/// "Settings", in units of the model's time.
pub const MAX_DRIFT: u8 = 1;
pub const LEASE: u8 = 1;

/// "counter: tick << sequence_bits | sequence". The functions are those of core/src/horizon.rs.
#[derive(Clone, Copy)]
pub struct Layout {
    unit: u8,
    sequence_bits: u8,
}

/// Every unit of time is a tick of one ID.
pub const FINE: Layout = Layout { unit: 1, sequence_bits: 0 };
/// Long ticks of two IDs each, so that rounding matters.
pub const COARSE: Layout = Layout { unit: 2, sequence_bits: 1 };

impl Layout {
    pub fn first_tick_from(self, time: u8) -> u8 {
        time.div_ceil(self.unit)
    }

    pub fn tick_at(self, time: u8) -> u8 {
        time / self.unit
    }

    pub fn start_of(self, tick: u8) -> u8 {
        tick * self.unit
    }

    pub fn tick(self, counter: u8) -> u8 {
        counter >> self.sequence_bits
    }

    pub fn counter_at(self, tick: u8) -> u8 {
        tick << self.sequence_bits
    }

    pub fn next_unused_tick(self, counter: u8) -> u8 {
        counter.div_ceil(1 << self.sequence_bits)
    }

    /// The instant before which every value below a counter lies.
    pub fn end_of_use(self, counter: u8) -> u8 {
        self.start_of(self.next_unused_tick(counter))
    }
}

/// Everything: the disk, shared memory, the processes, and what the checker remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub stored: Stored,
    pub shared: Shared,
    pub keeper: Keeper,
    pub callers: [Caller; 2],
    /// One ID that was handed out, any one. Whatever ID is handed out twice, in some run it is the watched one, so that
    /// the number of IDs need not be bounded.
    pub watched: Option<Id>,
    pub verdict: Verdict,
}

/// The sequence that holds the horizon. A `setval()` is read at once, even if it was rolled back; a crash takes back
/// what was not yet flushed. A commit flushes all the WAL before it, anybody else may do so at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stored {
    pub durable: u8,
    pub readable: u8,
    /// Where everything may begin anew: which identities were used, each with the time up to which it may have been when
    /// that last happened. Durable before the step after it.
    pub used: [Option<u8>; 2],
}

/// What a crash of the server wipes out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shared {
    /// "gate: one atomic word with the identity; empty = closed".
    pub gate: Option<u8>,
    /// The identity for which the gate was open last. The design does not name this word; see README.md.
    pub identity: Option<u8>,
    /// The horizon that was published last, for slots to come.
    pub published: u8,
    /// "floor: the H that was found at this start"; unknown until the keeper has read it.
    pub floor: Option<u8>,
    /// "Slots are allocated at the first nextval with that layout, starting at the floor".
    pub slots: [Option<Slot>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    pub counter: u8,
    /// The horizon in ticks: the first that may not be used.
    pub limit: u8,
}

/// What the keeper does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keeper {
    #[default]
    Down,
    /// Looks around: renews, changes the identity, stops.
    Up,
    /// `setval()` is done, the commit is not.
    Written(u8),
    /// Stores the horizon in the header (0), in slot 0 (1), in slot 1 (2).
    Publishing(u8, usize),
    /// All is published; the gate is closed.
    Opening,
    /// The gate is closed; raises the counter of this slot.
    Fencing(Then, usize),
    /// The exact end is written, but not committed.
    Sealing,
    /// Everything is about to begin anew, after a fence; the identities used so far are shut out.
    ShutOut,
    /// The low horizon, made of a clock, is written, but not committed.
    WrittenLow {
        horizon: u8,
        clock: u8,
    },
}

/// What a fence is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    Stop,
    Open(u8),
    /// Everything begins anew, for this identity.
    Reset(u8),
}

/// A caller of `snowflake_nextval()`: what its attempt holds in registers. It may stay like that for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    pub slot: Option<usize>,
    pub current: Option<u8>,
    pub identity: Option<u8>,
    pub limit: Option<u8>,
    /// Decided: this value is the caller's if the exchange succeeds.
    pub first: Option<u8>,
    /// The slot was retired under the attempt: its counter from then on.
    pub retired: Option<u8>,
}

/// In the order in which IDs sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    pub slot: usize,
    pub tick: u8,
    pub identity: u8,
    pub sequence: u8,
}

/// How the IDs handed out after the watched one compare with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    #[default]
    Larger,
    Repeated,
    Smaller,
}
