//! The prefix of a public ID, which tells of what kind of thing it is the ID.

use std::error::Error;
use std::fmt;

/// The longest prefix, in bytes.
pub const MAX_PREFIX: usize = 16;

/// 1 to 16 of the characters `a-z` and `0-9`; or none at all, where a prefix is not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Prefix {
    /// What follows the prefix is 0.
    bytes: [u8; MAX_PREFIX],
    length: u8,
}

impl Prefix {
    /// No prefix.
    pub const NONE: Prefix = Prefix { bytes: [0; MAX_PREFIX], length: 0 };

    /// The prefix of a text, which is not empty.
    ///
    /// # Errors
    /// A [`PrefixError`] that names the first character at fault.
    #[inline]
    pub fn new(text: &[u8]) -> Result<Prefix, PrefixError> {
        if text.is_empty() {
            return Err(PrefixError::Empty);
        }
        let is_allowed = |character: &u8| character.is_ascii_lowercase() || character.is_ascii_digit();
        // All that stands before the first fault is ASCII, so that bytes are characters.
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

    /// Its characters.
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

/// Why a text is not a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixError {
    /// There is nothing in it.
    Empty,
    /// The character at this position, counted from 1, is not allowed.
    Character(usize),
    /// It has more than [`MAX_PREFIX`] characters.
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
    /// What would have been right: a sentence for the user.
    pub fn allowed(&self) -> String {
        format!("Use 1 to {MAX_PREFIX} of the characters a-z and 0-9.")
    }
}

impl Error for PrefixError {}
