//! Errors in layouts, and in values that do not fit a layout.
//!
//! The `Display` text of an error says what is invalid. [`LayoutError::allowed`] and
//! [`RangeError::allowed`] say what is allowed. A program can show the two texts separately, as PostgreSQL
//! does with DETAIL and HINT.

use std::error::Error;
use std::fmt;

use crate::field::{Field, MAX_TOTAL_BITS};
use crate::message::{instant, nearest};

/// A list of all field names, for messages.
const FIELD_NAMES: &str = "time, datacenter, worker, clock_seq and sequence";

/// The reason why a string, a JSON object or a list of fields is not a layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The string is empty.
    Empty,
    /// The string exceeds the maximum length of a layout.
    TooLong {
        /// The maximum length, in bytes.
        most: usize,
    },
    /// A word is not a preset, `field:bits`, `unit=` or `epoch=`.
    UnknownName {
        /// The invalid word, truncated if it is long.
        token: String,
        /// The valid names at this position.
        candidates: Vec<&'static str>,
    },
    /// Two words are separated by an invalid character instead of white space.
    Separator {
        /// The invalid word, truncated if it is long.
        token: String,
    },
    /// A field or an option is incomplete or has the wrong form, for example `worker`, `worker=5` or
    /// `unit:1ms`.
    Form {
        /// The invalid word, truncated if it is long.
        token: String,
        /// The correct form.
        example: &'static str,
    },
    /// A field or an option is not allowed at its position.
    Misplaced {
        /// The invalid word, truncated if it is long.
        token: String,
        /// The rule that the word breaks.
        rule: &'static str,
    },
    /// `unit=` or `epoch=` is specified twice.
    RepeatedOption(&'static str),
    /// A field is specified twice.
    RepeatedField(Field),
    /// The first field is not `time`.
    TimeNotFirst {
        /// The first field of the layout, or `None` if the list of fields is empty.
        found: Option<&'static str>,
    },
    /// The width of a field is not a number, or is out of range.
    FieldBits {
        /// The field.
        field: Field,
        /// The width as specified.
        bits: String,
    },
    /// The fields have more than 63 bits in total.
    TooManyBits {
        /// The field at which the total width exceeds 63 bits.
        field: Field,
        /// The width of the field.
        bits: u32,
        /// The total width of all fields.
        total: u64,
    },
    /// The unit is invalid, zero, or longer than 10 seconds.
    Unit(String),
    /// The epoch is not a valid timestamp, or is not a whole number of microseconds.
    Epoch(String),
    /// The layout would end after the latest time that a `timestamptz` can hold.
    EndsTooLate {
        /// The width of the time field.
        time_bits: u32,
        /// The year in which the layout would end.
        year: i128,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayoutError::Empty => write!(f, "The layout is empty."),
            LayoutError::TooLong { .. } => write!(f, "The layout is too long."),
            LayoutError::UnknownName { token, candidates } => {
                write!(f, "\"{token}\" is not recognized.")?;
                match nearest(token, candidates) {
                    // Users try the name `snowflake` first, because these IDs are known as Snowflake IDs.
                    None if token.eq_ignore_ascii_case("snowflake") && candidates.contains(&"twitter") => {
                        write!(
                            f,
                            " The default layout is \"standard\", and the layout of Twitter's Snowflake is \"twitter\"."
                        )
                    }
                    Some(name) => write!(f, " Did you mean \"{name}\"?"),
                    None => Ok(()),
                }
            }
            LayoutError::Separator { token } => write!(f, "\"{token}\" contains a comma or a semicolon."),
            LayoutError::Form { token, .. } => write!(f, "\"{token}\" is incomplete."),
            LayoutError::Misplaced { token, rule } => write!(f, "\"{token}\" is misplaced: {rule}."),
            LayoutError::RepeatedOption(option) => write!(f, "\"{option}=\" appears twice."),
            LayoutError::RepeatedField(field) => {
                write!(f, "Field \"{}\" appears twice.", field.name())
            }
            LayoutError::TimeNotFirst { found: Some(found) } => {
                write!(f, "The first field is \"{found}\", not \"time\".")
            }
            LayoutError::TimeNotFirst { found: None } => write!(f, "There is no field \"time\"."),
            LayoutError::FieldBits { field, bits } => {
                write!(f, "\"{}:{bits}\" is not a valid width.", field.name())
            }
            LayoutError::TooManyBits { field, bits, total } => write!(
                f,
                "With \"{}:{bits}\", the fields exceed {MAX_TOTAL_BITS} bits. The total is {total} bits.",
                field.name()
            ),
            LayoutError::Unit(unit) => write!(f, "\"unit={unit}\" is not a valid unit."),
            LayoutError::Epoch(epoch) => write!(f, "\"epoch={epoch}\" is not a valid epoch."),
            LayoutError::EndsTooLate { time_bits, year } => write!(
                f,
                "With \"time:{time_bits}\", the layout ends in the year {year}, which is beyond the range of timestamps."
            ),
        }
    }
}

impl LayoutError {
    /// Returns a sentence that tells the user which layouts are allowed.
    pub fn allowed(&self) -> String {
        match self {
            LayoutError::Empty => {
                "Specify a preset, such as \"standard\", or fields, such as \"time:41 worker:10 sequence:12\".".into()
            }
            LayoutError::TooLong { most } => format!("Use at most {most} bytes."),
            LayoutError::UnknownName { candidates, .. } => {
                format!("Use one of {}.", candidates.join(", "))
            }
            LayoutError::Separator { .. } => "Separate words with spaces.".into(),
            LayoutError::Form { example, .. } => format!("Use the form \"{example}\"."),
            LayoutError::Misplaced { .. } => {
                "Specify a preset and then options, or all fields (name:bits) and then options (unit=, epoch=).".into()
            }
            LayoutError::RepeatedOption(_) => "Specify each option at most once.".into(),
            LayoutError::RepeatedField(_) => format!("Specify each of {FIELD_NAMES} at most once."),
            LayoutError::TimeNotFirst { .. } => {
                "Start with the time field, for example \"time:41\". The time field must be the most significant field, so that IDs sort by time.".into()
            }
            LayoutError::FieldBits { field, .. } => format!(
                "Field \"{}\" can have 1 to {} bits. If the field is not needed, omit it.",
                field.name(),
                field.max_bits()
            ),
            LayoutError::TooManyBits { .. } => {
                format!("Reduce the number of bits. A non-negative bigint has {MAX_TOTAL_BITS} bits.")
            }
            LayoutError::Unit(_) => {
                "Use a whole number of us, ms or s from 1us to 10s, for example \"unit=1ms\".".into()
            }
            LayoutError::Epoch(_) => {
                "Use an instant in the years 1 to 9998, with a time zone and at most six digits after the seconds, for example \"epoch=2024-01-01T00:00:00Z\".".into()
            }
            LayoutError::EndsTooLate { .. } => {
                "Use fewer time bits, a shorter unit or an earlier epoch. A layout must end before 294247-01-10."
                    .into()
            }
        }
    }
}

impl Error for LayoutError {}

/// The reason why a value does not fit a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeError {
    /// The value of a field is negative or too large. The only valid value of a field that is not in the
    /// layout is 0.
    Field {
        /// The field.
        field: Field,
        /// The value.
        value: i128,
        /// The largest value that fits.
        max: u64,
    },
    /// A timestamp is before the epoch or after the end of the layout. Timestamps are in microseconds of Unix
    /// time.
    Time {
        /// The timestamp.
        unix_us: i64,
        /// The epoch of the layout.
        from_us: i64,
        /// The end of the layout: the first timestamp that no longer fits.
        until_us: i64,
    },
    /// An ID is negative. No layout has negative IDs.
    NegativeId(i64),
    /// An ID is larger than the largest ID of the layout.
    IdPastEnd {
        /// The ID.
        id: i64,
        /// The largest ID of the layout.
        max: i64,
    },
}

impl fmt::Display for RangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RangeError::Field { field, value, .. } => {
                write!(f, "{} {value} does not fit the layout", field.name())
            }
            RangeError::Time { unix_us, from_us, .. } => {
                let side = if unix_us < from_us { "before the epoch" } else { "past the end" };
                write!(f, "the time is {side} of the layout")
            }
            RangeError::NegativeId(id) => write!(f, "snowflake ID {id} is negative"),
            RangeError::IdPastEnd { id, .. } => {
                write!(f, "snowflake ID {id} is past the end of the layout")
            }
        }
    }
}

impl RangeError {
    /// Returns a sentence that tells the user which values are allowed.
    pub fn allowed(&self) -> String {
        match self {
            RangeError::Field { field, max: 0, .. } => {
                format!("The layout has no {} field, so the value must be 0.", field.name())
            }
            RangeError::Field { max, .. } => format!("The value must be between 0 and {max}."),
            RangeError::Time { from_us, until_us, .. } => {
                format!("The layout covers times from {} to {}.", instant(*from_us), instant(*until_us))
            }
            RangeError::NegativeId(_) => "Snowflake IDs must be 0 or greater.".into(),
            RangeError::IdPastEnd { max, .. } => format!("The largest ID of the layout is {max}."),
        }
    }
}

impl Error for RangeError {}
