//! Public IDs as text: a prefix, `_`, and Base58 characters, such as `cus_4aaW4SzAyQK`.
//!
//! | | Base58 characters |
//! | --- | --- |
//! | without a key | 11 for the ID |
//! | with a key | 11 for the masked number, 5 for its tag |
//!
//! There is exactly one text for each ID, prefix and key, because leading zeros are not omitted, and case
//! matters.

use std::error::Error;
use std::fmt;
use std::str::from_utf8;

use super::prefix::{MAX_PREFIX, Prefix};
use super::seal::Seal;
use crate::error::RangeError;
use crate::id_text::{BASE58, Encoding, Fault};
use crate::mask::KEY_BYTES;

/// The label of public IDs in the derivation of subkeys.
const LABEL: &[u8] = b"snowflake_id public";
const SEPARATOR: u8 = b'_';
const ID_LETTERS: usize = Encoding::Base58.width();
/// Five characters hold 29 bits: 58^5 is 1.2 times 2^29.
const TAG_LETTERS: usize = 5;
const TAG_BITS: u32 = 29;

/// The length of the longest text, in bytes.
pub const MAX_TEXT: usize = MAX_PREFIX + 1 + ID_LETTERS + TAG_LETTERS;

/// Converts IDs to texts and back, with a given prefix and an optional key.
///
/// If there is a key, each text contains a tag of 29 bits. Of the well-formed strings that were made with
/// another key or prefix, about one in 537 million is accepted.
pub struct PublicIds {
    prefix: Prefix,
    seal: Option<Seal>,
}

impl PublicIds {
    /// Creates a converter with a prefix and an optional key.
    ///
    /// # Panics
    /// Panics if the prefix is empty.
    #[inline]
    pub fn new(prefix: Prefix, key: Option<&[u8; KEY_BYTES]>) -> PublicIds {
        assert!(!prefix.as_bytes().is_empty(), "a public ID has a prefix");
        PublicIds { prefix, seal: key.map(|key| Seal::new(key, LABEL, &prefix)) }
    }

    /// Writes the text of an ID into the buffer, and returns it.
    ///
    /// # Errors
    /// Returns [`RangeError::NegativeId`] if the ID is negative.
    #[inline]
    pub fn text<'a>(&self, id: i64, buffer: &'a mut [u8; MAX_TEXT]) -> Result<&'a str, RangeError> {
        let prefix = self.prefix.as_bytes();
        buffer[..prefix.len()].copy_from_slice(prefix);
        buffer[prefix.len()] = SEPARATOR;
        let letters = &mut buffer[prefix.len() + 1..][..ID_LETTERS + TAG_LETTERS];
        match &self.seal {
            None => BASE58.encode(
                u64::try_from(id).map_err(|_| RangeError::NegativeId(id))?,
                &mut letters[..ID_LETTERS],
            ),
            Some(seal) => {
                let (masked, tag) = seal.seal(id, TAG_BITS)?;
                BASE58.encode(masked as u64, &mut letters[..ID_LETTERS]);
                BASE58.encode(tag, &mut letters[ID_LETTERS..]);
            }
        }
        let text = &buffer[..prefix.len() + 1 + self.letters()];
        Ok(from_utf8(text).expect("bug: not all characters are ASCII"))
    }

    /// Returns the ID of a text. The text can be in any character encoding in which ASCII bytes stand only
    /// for ASCII characters.
    ///
    /// # Errors
    /// Returns a [`PublicTextError`] if the text is not exactly the [text](PublicIds::text) of an ID.
    #[inline]
    pub fn id(&self, text: &[u8]) -> Result<i64, PublicTextError> {
        let letters =
            text.strip_prefix(self.prefix.as_bytes()).and_then(|rest| rest.strip_prefix(&[SEPARATOR]));
        let letters = letters.ok_or(PublicTextError::OtherPrefix(self.prefix))?;
        let before = text.len() - letters.len();
        // An invalid character is reported before a wrong length.
        let (number, tag) = letters.split_at(letters.len().min(ID_LETTERS));
        let number = BASE58.decode(number, ID_LETTERS).map_err(|fault| self.fault(fault, before))?;
        let expected = self.letters();
        if letters.len() != expected {
            return Err(PublicTextError::Length { found: letters.len(), expected });
        }
        match &self.seal {
            None => Ok(number),
            Some(seal) => {
                let tag = BASE58
                    .decode(tag, TAG_LETTERS)
                    .map_err(|fault| self.fault(fault, before + ID_LETTERS))?;
                seal.open(number, tag as u64, TAG_BITS).ok_or(PublicTextError::Tag)
            }
        }
    }

    /// Returns the number of characters after the prefix and the underscore.
    fn letters(&self) -> usize {
        match self.seal {
            None => ID_LETTERS,
            Some(_) => ID_LETTERS + TAG_LETTERS,
        }
    }

    /// Converts a fault to an error. `before` is the number of characters that precede the decoded part of
    /// the text.
    #[cold]
    fn fault(&self, fault: Fault, before: usize) -> PublicTextError {
        match fault {
            Fault::Character(position) => PublicTextError::Character(before + position),
            Fault::TooLarge(_) => PublicTextError::TooLarge,
            // Only `Empty` occurs, if nothing follows the underscore. The decoded part never exceeds the
            // given width.
            Fault::Empty | Fault::TooShort(_) | Fault::TooLong(_) => {
                PublicTextError::Length { found: 0, expected: self.letters() }
            }
        }
    }
}

/// The reason why a text is not a public ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicTextError {
    /// The text does not start with this prefix and an underscore.
    OtherPrefix(Prefix),
    /// The character at this position, counted from 1, is not a Base58 character.
    Character(usize),
    /// The number of characters is wrong.
    Length {
        /// The number of bytes after the prefix and the underscore.
        found: usize,
        /// The correct number of characters.
        expected: usize,
    },
    /// The number exceeds the largest ID.
    TooLarge,
    /// The tag is wrong for this number.
    Tag,
}

impl fmt::Display for PublicTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublicTextError::OtherPrefix(prefix) => write!(f, "The text does not begin with \"{prefix}_\"."),
            PublicTextError::Character(position) => {
                write!(f, "The character at position {position} is not allowed.")
            }
            PublicTextError::Length { found, expected } => {
                write!(f, "The part after the prefix has length {found} instead of {expected}.")
            }
            PublicTextError::TooLarge => {
                write!(f, "The number after the prefix is larger than the largest ID, {}.", i64::MAX)
            }
            PublicTextError::Tag => {
                write!(f, "The text was not made with this key, or it was changed later.")
            }
        }
    }
}

impl PublicTextError {
    /// Returns a sentence that tells the user which texts are allowed.
    pub fn allowed(&self) -> String {
        let with_key = ID_LETTERS + TAG_LETTERS;
        match self {
            PublicTextError::Tag => "Use the key with which the text was made.".into(),
            _ => format!(
                "A public ID consists of the prefix, \"_\", and {ID_LETTERS} characters, or {with_key} characters if it was made with a key. These characters are 1-9, A-Z without I and O, and a-z without l."
            ),
        }
    }
}

impl Error for PublicTextError {}
