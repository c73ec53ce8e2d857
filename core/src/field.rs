//! The fields of an ID, and how wide they may be.

/// The bits of an ID that may be used: the sign bit stays clear, so that IDs are non-negative `bigint`s.
pub const MAX_TOTAL_BITS: u32 = 63;
/// The widest `datacenter`, `worker` or `clock_seq` field: its values fit a PostgreSQL `integer`.
pub const MAX_IDENTITY_BITS: u32 = 31;

/// A part of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Ticks since the epoch; always the most significant field.
    Time,
    /// The upper part of the identity of the server that made the ID.
    Datacenter,
    /// The identity of the server that made the ID.
    Worker,
    /// Raised when the clock of a server was set back, as in RFC 9562's UUID version 1.
    ClockSeq,
    /// Tells apart the IDs of one server within one tick.
    Sequence,
}

impl Field {
    /// Every field, in the order in which this crate lists them.
    pub const ALL: [Field; 5] =
        [Field::Time, Field::Datacenter, Field::Worker, Field::ClockSeq, Field::Sequence];

    /// The field's name in the text form of a layout.
    pub fn name(self) -> &'static str {
        match self {
            Field::Time => "time",
            Field::Datacenter => "datacenter",
            Field::Worker => "worker",
            Field::ClockSeq => "clock_seq",
            Field::Sequence => "sequence",
        }
    }

    /// How the field is written, with a width that is often used.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Field::Time => "time:41",
            Field::Datacenter => "datacenter:5",
            Field::Worker => "worker:10",
            Field::ClockSeq => "clock_seq:2",
            Field::Sequence => "sequence:12",
        }
    }

    /// The field of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.name() == name)
    }

    /// The most bits that this field may have, whatever the other fields are.
    pub fn max_bits(self) -> u32 {
        match self {
            Field::Time => MAX_TOTAL_BITS,
            Field::Datacenter | Field::Worker | Field::ClockSeq => MAX_IDENTITY_BITS,
            Field::Sequence => MAX_TOTAL_BITS - 1,
        }
    }
}
