//! The prefix of a public ID, which indicates the kind of object.

use std::error::Error;
use std::fmt;

/// The maximum length of a prefix, in bytes.
pub const MAX_PREFIX: usize = 16;

/// A prefix of up to 16 characters from `a-z` and `0-9`. Only the prefix of a UUID may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// The characters of the prefix, padded with zeros.
    bytes: [u8; MAX_PREFIX],
    length: u8,
}

impl Prefix {
    /// The empty prefix.
    pub const NONE: Prefix = Prefix { bytes: [0; MAX_PREFIX], length: 0 };

    /// Creates a prefix from a string, which must not be empty.
    ///
    /// # Errors
    /// Returns a [`PrefixError`] if the string is not a valid prefix. An invalid character is reported with
    /// its position.
    #[inline]
    pub fn new(text: &[u8]) -> Result<Prefix, PrefixError> {
        if text.is_empty() {
            return Err(PrefixError::Empty);
        }
        let is_allowed = |character: &u8| character.is_ascii_lowercase() || character.is_ascii_digit();
        // All characters before the first invalid character are ASCII, so byte positions equal character
        // positions.
        match text.iter().take(MAX_PREFIX).position(|character| !is_allowed(character)) {
            Some(at) => Err(PrefixError::Character(at + 1)),
            None if text.len() > MAX_PREFIX => Err(PrefixError::TooLong),
            None => {
                let mut bytes = [0; MAX_PREFIX];
                bytes[..text.len()].copy_from_slice(text);
                Ok(Prefix { bytes, length: text.len() as u8 })
            }
        }
    }

    /// Returns the characters of the prefix.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|&character| write!(f, "{}", char::from(character)))
    }
}

/// The reason why a string is not a valid prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// The string is empty.
    Empty,
    /// The string contains an invalid character at this position, counted from 1.
    Character(usize),
    /// The string has more than [`MAX_PREFIX`] characters.
    TooLong,
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrefixError::Empty => write!(f, "The prefix is empty."),
            PrefixError::Character(position) => {
                write!(f, "The character at position {position} is not allowed.")
            }
            PrefixError::TooLong => write!(f, "The prefix has more than {MAX_PREFIX} characters."),
        }
    }
}

impl PrefixError {
    /// Returns a sentence for the user that says what is allowed.
    pub fn allowed(&self) -> String {
        format!("Use 1 to {MAX_PREFIX} characters from a-z and 0-9.")
    }
}

impl Error for PrefixError {}
