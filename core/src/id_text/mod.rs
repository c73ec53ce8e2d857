//! IDs as text, for URLs and for JSON, whose numbers many clients read as floating point.
//!
//! | encoding | characters | digits | order kept |
//! | --- | ---: | --- | --- |
//! | [`crockford32`](Encoding::Crockford32) | 13 | `0-9`, `A-Z` without `I`, `L`, `O`, `U` | yes |
//! | [`base36`](Encoding::Base36) | 13 | `0-9a-z` | yes |
//! | [`base58`](Encoding::Base58) | 11 | `1-9`, `A-Z` without `I`, `O`, `a-z` without `l` | yes |
//! | [`base62`](Encoding::Base62) | 11 | `0-9A-Za-z` | yes |
//! | [`base64url`](Encoding::Base64url) | 11 | `A-Za-z0-9-_` | no |
//! | [`decimal`](Encoding::Decimal) | 19 | `0-9` | yes |
//! | [`hex`](Encoding::Hex) | 16 | `0-9a-f` | yes |
//!
//! Every ID has exactly one text in an encoding, and all texts of an encoding have the same length. "Order
//! kept" means that the texts, compared byte by byte, sort as the IDs do.
//!
//! In all encodings except `base64url`, the text is the number with leading zeros (in `base58`, zero is
//! written `1`). Leading zeros may be omitted when a text is read. In `base64url`, the text is the eight
//! bytes of the ID, most significant byte first, encoded as in RFC 4648 (section 5, without padding), so any
//! library can read it.
//!
//! ```
//! use snowflake_id_core::id_text::{Encoding, MAX_WIDTH};
//!
//! let mut buffer = [0; MAX_WIDTH];
//! assert_eq!(Encoding::Base58.encode(1541815603606036480, &mut buffer)?, "4aaW4SzAyQK");
//! assert_eq!(Encoding::Base58.decode(b"4aaW4SzAyQK")?, 1541815603606036480);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::error::Error;
use std::fmt;
use std::str::from_utf8;

use data_encoding::BASE64URL_NOPAD;

use crate::error::RangeError;
use alphabet::Alphabet;

pub use alphabet::Fault;

mod alphabet;

/// The maximum length of an ID in text form, in bytes. Encoding `decimal` has this length.
pub const MAX_WIDTH: usize = 19;

/// The alphabet of <https://www.crockford.com/base32.html>. A letter that looks like a digit is read as that
/// digit.
static CROCKFORD32: Alphabet<32> = Alphabet::new(b"0123456789ABCDEFGHJKMNPQRSTVWXYZ")
    .reading(b"0123456789abcdefghjkmnpqrstvwxyz")
    .reading(b"OI")
    .reading(b"oi")
    .reading(b"OL")
    .reading(b"ol")
    .ignoring(b'-');
static BASE36: Alphabet<36> =
    Alphabet::new(b"0123456789abcdefghijklmnopqrstuvwxyz").reading(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
pub(crate) static BASE58: Alphabet<58> =
    Alphabet::new(b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz");
static BASE62: Alphabet<62> =
    Alphabet::new(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
static DECIMAL: Alphabet<10> = Alphabet::new(b"0123456789");
static HEX: Alphabet<16> = Alphabet::new(b"0123456789abcdef").reading(b"0123456789ABCDEF");

/// A way of writing IDs as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Douglas Crockford's Base 32 in upper case, without a check symbol. This encoding is designed to be
    /// read aloud and typed by people. Lower case is accepted as well; `I` and `L` are read as 1, and `O` is
    /// read as 0. Hyphens are ignored at any position. `U` is rejected.
    Crockford32,
    /// Digits and lower-case letters. Upper-case letters are also accepted.
    Base36,
    /// The alphabet of Bitcoin, without characters that look alike.
    Base58,
    /// Digits, upper-case and lower-case letters.
    Base62,
    /// The eight bytes of the ID in the URL-safe alphabet of RFC 4648, without padding.
    Base64url,
    /// Decimal digits.
    Decimal,
    /// Hexadecimal digits in lower case. Upper-case digits are also accepted.
    Hex,
}

impl Encoding {
    /// All encodings, in the order of the table above.
    pub const ALL: [Encoding; 7] = [
        Encoding::Crockford32,
        Encoding::Base36,
        Encoding::Base58,
        Encoding::Base62,
        Encoding::Base64url,
        Encoding::Decimal,
        Encoding::Hex,
    ];

    /// Returns the name of the encoding.
    pub const fn name(self) -> &'static str {
        match self {
            Encoding::Crockford32 => "crockford32",
            Encoding::Base36 => "base36",
            Encoding::Base58 => "base58",
            Encoding::Base62 => "base62",
            Encoding::Base64url => "base64url",
            Encoding::Decimal => "decimal",
            Encoding::Hex => "hex",
        }
    }

    /// Returns the encoding with this name. The name can be in any character encoding that contains ASCII.
    pub const fn from_name(name: &[u8]) -> Option<Encoding> {
        Some(match name {
            b"crockford32" => Encoding::Crockford32,
            b"base36" => Encoding::Base36,
            b"base58" => Encoding::Base58,
            b"base62" => Encoding::Base62,
            b"base64url" => Encoding::Base64url,
            b"decimal" => Encoding::Decimal,
            b"hex" => Encoding::Hex,
            _ => return None,
        })
    }

    /// Returns the length of an ID in this encoding, in characters. All texts of an encoding have the same
    /// length.
    pub const fn width(self) -> usize {
        match self {
            Encoding::Base58 | Encoding::Base62 | Encoding::Base64url => 11,
            Encoding::Crockford32 | Encoding::Base36 => 13,
            Encoding::Hex => 16,
            Encoding::Decimal => MAX_WIDTH,
        }
    }

    /// Writes an ID into the buffer in text form, and returns the text.
    ///
    /// # Errors
    /// Returns [`RangeError::NegativeId`] if the ID is negative.
    #[inline]
    pub fn encode(self, id: i64, buffer: &mut [u8; MAX_WIDTH]) -> Result<&str, RangeError> {
        let number = u64::try_from(id).map_err(|_| RangeError::NegativeId(id))?;
        let text = &mut buffer[..self.width()];
        match self {
            Encoding::Crockford32 => CROCKFORD32.encode(number, text),
            Encoding::Base36 => BASE36.encode(number, text),
            Encoding::Base58 => BASE58.encode(number, text),
            Encoding::Base62 => BASE62.encode(number, text),
            Encoding::Base64url => BASE64URL_NOPAD.encode_mut(&number.to_be_bytes(), text),
            Encoding::Decimal => DECIMAL.encode(number, text),
            Encoding::Hex => HEX.encode(number, text),
        }
        Ok(from_utf8(text).expect("bug: not all digits are ASCII"))
    }

    /// Converts a text to an ID. The text can be in any character encoding in which ASCII bytes stand only
    /// for ASCII characters.
    ///
    /// Leading zeros that [`encode`](Encoding::encode) writes may be omitted, except in `base64url`.
    ///
    /// # Errors
    /// Returns a [`TextError`] that describes the leftmost error in the text.
    pub fn decode(self, text: &[u8]) -> Result<i64, TextError> {
        let width = self.width();
        match self {
            Encoding::Crockford32 => CROCKFORD32.decode(text, width),
            Encoding::Base36 => BASE36.decode(text, width),
            Encoding::Base58 => BASE58.decode(text, width),
            Encoding::Base62 => BASE62.decode(text, width),
            Encoding::Base64url => decode_base64url(text),
            Encoding::Decimal => DECIMAL.decode(text, width),
            Encoding::Hex => HEX.decode(text, width),
        }
        .map_err(|fault| TextError { encoding: self, fault })
    }

    /// Returns a sentence for the user that describes the texts of this encoding.
    pub fn form(self) -> String {
        let digits = match self {
            Encoding::Crockford32 => "0-9 and A-Z without I, L, O and U",
            Encoding::Base36 => "0-9 and a-z",
            Encoding::Base58 => "1-9, A-Z without I and O, and a-z without l",
            Encoding::Base62 => "0-9, A-Z and a-z",
            Encoding::Base64url => "A-Z, a-z, 0-9, - and _",
            Encoding::Decimal => "0-9",
            Encoding::Hex => "0-9 and a-f",
        };
        let length = if self == Encoding::Base64url { "exactly" } else { "1 to" };
        let mut buffer = [0; MAX_WIDTH];
        let largest = self.encode(i64::MAX, &mut buffer).expect("bug: the largest ID is negative");
        format!(
            "Text in {} has {length} {} of the characters {digits}. The text of the largest ID is \"{largest}\".",
            self.name(),
            self.width()
        )
    }
}

/// Decodes an ID from a `base64url` text. The digits are aligned to the left, so none of them may be omitted.
fn decode_base64url(text: &[u8]) -> Result<i64, Fault> {
    // If a text has both an invalid character and a wrong length, report the invalid character.
    let mut digits = [b'A'; Encoding::Base64url.width()];
    let present = text.len().min(digits.len());
    digits[..present].copy_from_slice(&text[..present]);
    let mut bytes = [0; 8];
    BASE64URL_NOPAD
        .decode_mut(&digits, &mut bytes)
        .map_err(|partial| Fault::Character(1 + partial.error.position))?;
    match text.len() {
        0 => Err(Fault::Empty),
        length if length < digits.len() => Err(Fault::TooShort(length)),
        length if length > digits.len() => Err(Fault::TooLong(1 + digits.len())),
        // The sign bit is part of the first character, so the error is at character 1.
        _ => u64::from_be_bytes(bytes).try_into().map_err(|_| Fault::TooLarge(1)),
    }
}

/// The error for a text that cannot be decoded to an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The expected encoding of the text.
    pub encoding: Encoding,
    /// The first error in the text.
    pub fault: Fault,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, width) = (self.encoding.name(), self.encoding.width());
        match self.fault {
            Fault::Empty => write!(f, "The text is empty."),
            Fault::Character(position) => {
                write!(f, "The character at position {position} is not allowed.")
            }
            Fault::TooShort(position) => {
                write!(f, "The text ends at position {position}, but {name} has {width} characters.")
            }
            Fault::TooLong(position) => {
                write!(
                    f,
                    "The text continues at position {position}, but {name} has at most {width} characters."
                )
            }
            Fault::TooLarge(position) => {
                write!(f, "At position {position}, the number exceeds the largest ID, {}.", i64::MAX)
            }
        }
    }
}

impl Error for TextError {}
