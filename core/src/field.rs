//! The fields of an ID, and their maximum widths.

/// The number of usable bits in an ID. The sign bit is always clear, so IDs are non-negative `bigint`s.
pub const MAX_TOTAL_BITS: u32 = 63;
/// The maximum width of a `datacenter`, `worker` or `clock_seq` field, in bits. Its values fit a PostgreSQL
/// `integer`.
pub const MAX_IDENTITY_BITS: u32 = 31;

/// A part of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// Ticks since the epoch. Always the most significant field.
    Time,
    /// The upper part of the identity of the server that created the ID.
    Datacenter,
    /// The identity of the server that created the ID.
    Worker,
    /// A number that changes when the server's clock is set back, like the clock sequence of a version 1 UUID
    /// (RFC 9562).
    ClockSeq,
    /// Distinguishes the IDs that one server creates within one tick.
    Sequence,
}

impl Field {
    /// Every field, in the order used by this crate.
    pub const ALL: [Field; 5] =
        [Field::Time, Field::Datacenter, Field::Worker, Field::ClockSeq, Field::Sequence];

    /// Returns the name of the field in the text form of a layout.
    pub fn name(self) -> &'static str {
        match self {
            Field::Time => "time",
            Field::Datacenter => "datacenter",
            Field::Worker => "worker",
            Field::ClockSeq => "clock_seq",
            Field::Sequence => "sequence",
        }
    }

    /// Returns the text form of the field with a common width.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Field::Time => "time:41",
            Field::Datacenter => "datacenter:5",
            Field::Worker => "worker:10",
            Field::ClockSeq => "clock_seq:2",
            Field::Sequence => "sequence:12",
        }
    }

    /// Returns the field with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Field> {
        Field::ALL.into_iter().find(|field| field.name() == name)
    }

    /// Returns the maximum width of this field in bits, regardless of the other fields.
    pub fn max_bits(self) -> u32 {
        match self {
            Field::Time => MAX_TOTAL_BITS,
            Field::Datacenter | Field::Worker | Field::ClockSeq => MAX_IDENTITY_BITS,
            Field::Sequence => MAX_TOTAL_BITS - 1,
        }
    }
}
