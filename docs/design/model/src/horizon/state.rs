//! What there is: the disk, shared memory, the processes, and what the checker remembers.

use crate::horizon::plan::{GatePlan, Past, Uses};

/// The setting, in units of the model's time.
pub const LEASE: u8 = 1;

/// How many identities there are at most.
pub const IDENTITIES: usize = 2;
/// Which of the configured identities: worker 0 or worker 1.
pub type Identity = u8;

/// A counter is `tick << sequence_bits | sequence`. The functions are those of core/src/slot_key.rs.
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

    pub fn next_whole_tick(self, counter: u8) -> u8 {
        self.counter_at(counter.div_ceil(1 << self.sequence_bits))
    }

    /// The least horizon that covers every value below a counter: just after the start of the last tick.
    pub fn end_of_use(self, counter: u8) -> u8 {
        match counter {
            0 => 0,
            _ => self.start_of(self.tick(counter - 1)) + 1,
        }
    }
}

/// Everything: the disk, shared memory, the processes, and what the checker remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// `None` between DROP and CREATE EXTENSION.
    pub stored: Option<Stored>,
    pub shared: Shared,
    pub keeper: Keeper,
    /// The order to begin anew that lies on the desk.
    pub order: Order,
    pub callers: [Caller; 2],
    /// One ID that was handed out, any one. Whatever ID is handed out twice, in some run it is the watched
    /// one, so that the number of IDs need not be bounded.
    pub watched: Option<Id>,
    pub verdict: Verdict,
}

/// What is stored. What is written in place is read at once, even if it was rolled back; a crash takes back what was not
/// yet flushed. A commit flushes all the WAL before it, anybody else may do so at any time. Records are seen
/// once they are committed, not before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stored {
    /// Which sequence it is: that which the server knows (0), that which the keeper has in hand (1), any
    /// other (2).
    pub place: u8,
    /// The horizon; `None` if none was ever stored.
    pub durable: Option<u8>,
    pub readable: Option<u8>,
    pub uses: Uses,
}

/// Shared memory: a crash of the server wipes it out. A crash of a backend does as well, but for the past.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shared {
    /// One word with the identity; empty, it is closed.
    pub gate: Option<Identity>,
    pub past: Past,
    /// Where the horizon was stored last, as far as the keeper has come to note it.
    pub place: Option<u8>,
    /// Where slots begin; unknown until the keeper has found that out.
    pub floor: Option<u8>,
    pub slots: [Option<Slot>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    pub counter: u8,
    /// The horizon in ticks: the first that may not be used.
    pub limit: u8,
    /// As long as nothing was taken since the counter was set: the end of what was handed out before that.
    pub end_before: Option<u8>,
}

/// What the keeper does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Keeper {
    /// Looks around. Also when there is none: until it acts, nobody can tell the difference.
    Up { has_committed: bool },
    /// Its plan is written, but not committed.
    Written(Look),
    /// The plan is committed, but not published.
    Committed(Look),
    /// All is published. The gate comes next.
    Published(GatePlan),
    /// The gate is closed; raises the counter of this slot.
    Fencing(Then, usize),
    /// Everything is fenced and this end is published, but not stored.
    Sealed(u8),
    /// This end is written, but not committed.
    WrittenEnd(u8),
    /// This end is committed, but the higher promise is not forgotten yet.
    CommittedEnd(u8),
    /// Everything is about to begin anew for this identity: the order is looked at.
    Ordered(Identity),
    /// The same, after the fence.
    ShuttingOut(Identity),
    /// The identities used so far are shut out.
    ShutOut,
    /// The low horizon, made of a clock, is written, but not committed.
    WrittenLow { horizon: u8, clock: u8 },
    /// The same, committed, but slots go on as before.
    CommittedLow { horizon: u8, clock: u8 },
}

/// What one look has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    pub place: u8,
    /// The records as they will be.
    pub uses: Uses,
    pub horizon: Option<u8>,
    pub floor: u8,
    pub gate: GatePlan,
    /// Whether this process had committed a horizon before.
    pub had_committed: bool,
}

/// What a fence is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    Open {
        identity: Identity,
        from: u8,
        is_another: bool,
    },
    Close,
    /// A clean stop, or settings that were lowered.
    Seal {
        has_committed: bool,
    },
    /// Everything begins anew, for this identity.
    BeginAnew(Identity),
}

/// An order of an administrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    #[default]
    None,
    Waiting,
    Claimed,
}

/// A caller of `snowflake_nextval()`: what its attempt holds in registers. It may stay like that for ever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Caller {
    pub slot: Option<usize>,
    pub current: Option<u8>,
    pub identity: Option<Identity>,
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
    pub identity: Identity,
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
