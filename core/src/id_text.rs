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
//! Every ID has exactly one text in an encoding, and all texts of an encoding are of one length. "Order kept" means that
//! they sort as the IDs do, byte by byte. All but one are the number with leading zeros (in `base58` the zero is
//! written `1`), and are read without these as well. The exception is `base64url`: it has the eight bytes of the ID, the most
//! significant first, as RFC 4648 (section 5, without padding) writes bytes, so that any library can read it.
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
use std::sync::LazyLock;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER, HEXLOWER_PERMISSIVE, Specification};

use crate::error::RangeError;

/// The length of the longest text of an ID, in bytes: that of `decimal`.
pub const MAX_WIDTH: usize = 19;

/// The largest ID.
const MAX_ID: u128 = i64::MAX as u128;

/// The alphabet of <https://www.crockford.com/base32.html>, of which the letters that look like digits are read as these.
static CROCKFORD32: LazyLock<data_encoding::Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("0123456789ABCDEFGHJKMNPQRSTVWXYZ");
    specification.translate.from.push_str("abcdefghjkmnpqrstvwxyzOoIiLl");
    specification.translate.to.push_str("ABCDEFGHJKMNPQRSTVWXYZ001111");
    specification.encoding().expect("bug: the alphabet is not valid")
});

/// A way of writing IDs as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Douglas Crockford's Base 32, without a check symbol: upper case, made for people to read out and to type. Lower case is
    /// read too, `I` and `L` as 1, `O` as 0; hyphens are ignored, wherever they stand. `U` is refused.
    Crockford32,
    /// Digits and lower-case letters. Upper case is read too.
    Base36,
    /// The alphabet of Bitcoin: no characters that look alike.
    Base58,
    /// Digits, upper-case and lower-case letters.
    Base62,
    /// The eight bytes of the ID in the alphabet for URLs of RFC 4648, without padding.
    Base64url,
    /// Decimal digits.
    Decimal,
    /// Hexadecimal digits in lower case. Upper case is read too.
    Hex,
}

impl Encoding {
    /// All encodings, by name.
    pub const ALL: [Encoding; 7] = [
        Encoding::Crockford32,
        Encoding::Base36,
        Encoding::Base58,
        Encoding::Base62,
        Encoding::Base64url,
        Encoding::Decimal,
        Encoding::Hex,
    ];

    /// Its name.
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

    /// The encoding with this name, written in any encoding of characters that contains ASCII.
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

    /// The length of every text, in characters: as many as the largest ID takes.
    pub const fn width(self) -> usize {
        match self {
            Encoding::Base58 | Encoding::Base62 | Encoding::Base64url => 11,
            Encoding::Crockford32 | Encoding::Base36 => 13,
            Encoding::Hex => 16,
            Encoding::Decimal => MAX_WIDTH,
        }
    }

    /// The digit for zero.
    const fn zero(self) -> u8 {
        match self {
            Encoding::Base58 => b'1',
            Encoding::Base64url => b'A',
            _ => b'0',
        }
    }

    /// Whether a character says nothing.
    const fn ignores(self, character: u8) -> bool {
        matches!((self, character), (Encoding::Crockford32, b'-'))
    }

    /// The text of an ID, which is written into the buffer. A negative ID is refused.
    #[inline]
    pub fn encode(self, id: i64, buffer: &mut [u8; MAX_WIDTH]) -> Result<&str, RangeError> {
        let number = u64::try_from(id).map_err(|_| RangeError::NegativeId(id))?;
        let text = &mut buffer[..self.width()];
        match self {
            Encoding::Crockford32 => encode_bits(&CROCKFORD32, number, text),
            Encoding::Base36 => BASE36.encode(number, text),
            Encoding::Base58 => BASE58.encode(number, text),
            Encoding::Base62 => {
                let mut digits = [0; 11];
                let length =
                    base62::encode_bytes(number, &mut digits).expect("bug: 64 bits take more than 11 digits");
                align(&digits[..length], self.zero(), text);
            }
            Encoding::Base64url => BASE64URL_NOPAD.encode_mut(&number.to_be_bytes(), text),
            Encoding::Decimal => DECIMAL.encode(number, text),
            Encoding::Hex => encode_bits(&HEXLOWER, number, text),
        }
        Ok(from_utf8(text).expect("bug: not all digits are ASCII"))
    }

    /// The ID of a text, which can be in any encoding of characters in which the bytes of ASCII stand for nothing else.
    ///
    /// The text may be shorter than those of [`encode`](Encoding::encode) if only leading zeros are missing, except in
    /// `base64url`.
    pub fn decode(self, text: &[u8]) -> Result<i64, TextError> {
        let error = |fault| TextError { encoding: self, fault };
        // Where in the text the digit with this index stands.
        let position = |index| {
            let mut digits = text.iter().enumerate().filter(|(_, character)| !self.ignores(**character));
            1 + digits.nth(index).expect("bug: there is no such digit").0
        };

        let mut buffer = [self.zero(); MAX_WIDTH];
        let mut count = 0;
        for character in text.iter().copied().filter(|character| !self.ignores(*character)) {
            if count < self.width() {
                buffer[count] = match self {
                    Encoding::Base36 => character.to_ascii_lowercase(),
                    _ => character,
                };
            }
            count += 1;
            if count > self.width() {
                break;
            }
        }
        let digits = match self {
            // Its digits are aligned to the left: the missing ones are complained about below.
            Encoding::Base64url => &buffer[..self.width()],
            _ => &buffer[..count.min(self.width())],
        };

        // The first fault from the left is the one to report. All that stands before it is ASCII, so that bytes are
        // characters.
        let number = self.number(digits).map_err(|index| error(Fault::Character(position(index))))?;
        if count == 0 {
            return Err(error(Fault::Empty));
        }
        if count > self.width() {
            return Err(error(Fault::TooLong(position(self.width()))));
        }
        if self == Encoding::Base64url && count < self.width() {
            return Err(error(Fault::TooShort(count)));
        }
        if number > MAX_ID {
            return Err(error(Fault::TooLarge(position(self.first_too_large(digits)))));
        }
        Ok(number as i64)
    }

    /// What digits denote, at most as many as the width; or the index of the first that is none.
    #[inline]
    fn number(self, digits: &[u8]) -> Result<u128, usize> {
        match self {
            Encoding::Crockford32 => decode_bits(&CROCKFORD32, digits),
            Encoding::Base36 => BASE36.decode(digits),
            Encoding::Base58 => BASE58.decode(digits),
            Encoding::Base62 if digits.is_empty() => Ok(0),
            Encoding::Base62 => base62::decode(digits).map_err(|error| match error {
                base62::DecodeError::InvalidBase62Byte(_, index) => index,
                other => unreachable!("bug: 11 digits take more than 128 bits: {other}"),
            }),
            Encoding::Base64url => {
                let mut bytes = [0; 8];
                BASE64URL_NOPAD
                    .decode_mut(digits, &mut bytes)
                    .map(|_| u64::from_be_bytes(bytes).into())
                    .map_err(|partial| partial.error.position)
            }
            Encoding::Decimal => DECIMAL.decode(digits),
            Encoding::Hex => decode_bits(&HEXLOWER_PERMISSIVE, digits),
        }
    }

    /// The index of the digit with which a number becomes too large, whatever follows.
    #[cold]
    fn first_too_large(self, digits: &[u8]) -> usize {
        let mut start = [self.zero(); MAX_WIDTH];
        (0..digits.len())
            .find(|&index| {
                start[index] = digits[index];
                self.number(&start[..digits.len()]).is_ok_and(|number| number > MAX_ID)
            })
            .expect("bug: the number is not too large")
    }

    /// What its texts look like: a sentence for the user.
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
            "Text in {} has {length} {} of the characters {digits}; that of the largest ID is \"{largest}\".",
            self.name(),
            self.width()
        )
    }
}

/// Writes digits into a text, with zeros before them.
#[inline]
fn align(digits: &[u8], zero: u8, text: &mut [u8]) {
    let (zeros, rest) = text.split_at_mut(text.len() - digits.len());
    zeros.fill(zero);
    rest.copy_from_slice(digits);
}

/// How many digits [`data_encoding`] is given at a time: in both encodings with whole bits they are whole bytes.
const BITS_DIGITS: usize = 16;

/// Writes a number whose digits have 4 or 5 bits each.
#[inline]
fn encode_bits(encoding: &data_encoding::Encoding, number: u64, text: &mut [u8]) {
    let bytes = u128::from(number).to_be_bytes();
    let used = BITS_DIGITS * encoding.bit_width() / 8;
    let mut digits = [0; BITS_DIGITS];
    encoding.encode_mut(&bytes[bytes.len() - used..], &mut digits);
    text.copy_from_slice(&digits[BITS_DIGITS - text.len()..]);
}

#[inline]
fn decode_bits(encoding: &data_encoding::Encoding, digits: &[u8]) -> Result<u128, usize> {
    let mut aligned = [0; BITS_DIGITS];
    align(digits, b'0', &mut aligned);
    let mut bytes = [0; 16];
    let used = BITS_DIGITS * encoding.bit_width() / 8;
    let unused = bytes.len() - used;
    encoding
        .decode_mut(&aligned, &mut bytes[unused..])
        .map(|_| u128::from_be_bytes(bytes))
        .map_err(|partial| partial.error.position - (BITS_DIGITS - digits.len()))
}

/// The digits of a number, in order.
///
/// No crate does this in a text of fixed width. That for `base58`, bs58, is made for strings of bytes: it takes leading zeros for
/// bytes, does not pad, and takes several times as long. lexical-core, for radices up to 36, does not pad, and reads signs.
struct Alphabet<const RADIX: usize> {
    digits: [u8; RADIX],
    /// What each character is worth, or [`NO_DIGIT`].
    values: [u8; 256],
}

const NO_DIGIT: u8 = u8::MAX;

static BASE36: Alphabet<36> = Alphabet::new(b"0123456789abcdefghijklmnopqrstuvwxyz");
static BASE58: Alphabet<58> = Alphabet::new(b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz");
static DECIMAL: Alphabet<10> = Alphabet::new(b"0123456789");

impl<const RADIX: usize> Alphabet<RADIX> {
    const fn new(digits: &[u8; RADIX]) -> Alphabet<RADIX> {
        let mut values = [NO_DIGIT; 256];
        let mut value = 0;
        while value < RADIX {
            values[digits[value] as usize] = value as u8;
            value += 1;
        }
        Alphabet { digits: *digits, values }
    }

    /// Fills a text with the last digits of a number.
    #[inline]
    fn encode(&self, mut number: u64, text: &mut [u8]) {
        for digit in text.iter_mut().rev() {
            *digit = self.digits[(number % RADIX as u64) as usize];
            number /= RADIX as u64;
        }
    }

    /// What at most [`MAX_WIDTH`] digits denote, or the index of the first that is none.
    #[inline]
    fn decode(&self, digits: &[u8]) -> Result<u128, usize> {
        let mut number = 0;
        for (index, digit) in digits.iter().enumerate() {
            match self.values[usize::from(*digit)] {
                NO_DIGIT => return Err(index),
                value => number = number * RADIX as u128 + u128::from(value),
            }
        }
        Ok(number)
    }
}

/// Why a text is not that of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextError {
    /// How the text was read.
    pub encoding: Encoding,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a text. Positions are those of a character in the text, the first of which has position 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has no digits.
    Empty,
    /// The character at this position is no digit of the encoding; or it is the last one of `base64url` and has
    /// bits for which there is no room.
    Character(usize),
    /// It ends after the character at this position.
    TooShort(usize),
    /// The character at this position is the first that is too many.
    TooLong(usize),
    /// The largest ID is smaller, as can be seen from the character at this position on.
    TooLarge(usize),
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, width) = (self.encoding.name(), self.encoding.width());
        match self.fault {
            Fault::Empty => write!(f, "There are no digits in it."),
            Fault::Character(position) => {
                write!(f, "The character at position {position} is not allowed there.")
            }
            Fault::TooShort(position) => {
                write!(f, "It ends at position {position}, but {name} has {width} characters.")
            }
            Fault::TooLong(position) => {
                write!(f, "The character at position {position} is one too many: {name} has at most {width}.")
            }
            Fault::TooLarge(position) => {
                write!(f, "With the character at position {position} it passes the largest ID, {MAX_ID}.")
            }
        }
    }
}

impl Error for TextError {}
