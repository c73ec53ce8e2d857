//! The fields of an ID, and their maximum widths.

/// The number of usable bits in an ID. The sign bit is always clear, so IDs are non-negative `bigint`s.
pub const MAX_TOTAL_BITS: u32 = 63;
/// The maximum width of a `datacenter`, `worker` or `clock_seq` field, in bits. A value of this width fits
/// a PostgreSQL `integer`.
pub const MAX_IDENTITY_BITS: u32 = 31;

/// A part of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    /// The number of ticks since the epoch. This field is always the most significant one.
    Time,
    /// The datacenter ID of the server that created the ID.
    Datacenter,
    /// The worker ID of the server that created the ID.
    Worker,
    /// A number that changes when the server's clock is set back, like the clock sequence of a version 1 UUID
    /// (RFC 9562).
    ClockSeq,
    /// A number that distinguishes the IDs that a server creates within one tick.
    Sequence,
}

impl Field {
    /// All fields, in the order in which this crate lists them.
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

    /// Returns an example of the field in the text form of a layout.
    pub(crate) fn example(self) -> &'static str {
        match self {
            Field::Time => "time:41",
            Field::Datacenter => "datacenter:5",
            Field::Worker => "worker:10",
            Field::ClockSeq => "clock_seq:2",
            Field::Sequence => "sequence:12",
        }
    }

    /// Returns the field with the given name, or `None` if the name is unknown.
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
