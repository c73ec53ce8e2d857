//! IDs as UUIDs of version 8 (RFC 9562), in which all bits except version and variant are free to use.
//!
//! A UUID made without a key begins with the 16 hexadecimal digits of the ID. Two digits are inserted among
//! these digits: an `8` for the version, and a digit for the variant. All other digits of the UUID are 0.
//! These UUIDs therefore sort in the same order as the IDs.
//!
//! ```text
//! ID                 1565b3a2c4d5e6f7
//! UUID               1565b3a2-c4d5-8e6f-8700-000000000000
//! ```
//!
//! With a key, the 122 free bits are the masked number (63 bits) and its tag (59 bits).

use std::error::Error;
use std::fmt;

use super::prefix::Prefix;
use super::seal::Seal;
use crate::error::RangeError;
use crate::mask::KEY_BYTES;

/// The name of this form in the derivation of subkeys.
const LABEL: &[u8] = b"snowflake_id uuid";
const VERSION: u128 = 8;
const VARIANT: u128 = 0b10;
const VERSION_SHIFT: u32 = 76;
const VARIANT_SHIFT: u32 = 62;
const TAG_BITS: u32 = 59;

/// Converts IDs to UUIDs and back, with or without a key.
///
/// With a key, the tag has 59 bits. Of all UUIDs of version 8 that were not made with this key and prefix,
/// one in 5.8 * 10^17 is accepted as an ID by chance.
pub struct Uuids {
    seal: Option<Seal>,
}

impl Uuids {
    /// Creates a converter with an optional key. The key comes with a prefix, which may be empty. The same
    /// key gives different UUIDs for different prefixes.
    #[inline]
    pub fn new(key: Option<(&[u8; KEY_BYTES], Prefix)>) -> Uuids {
        Uuids { seal: key.map(|(key, prefix)| Seal::new(key, LABEL, &prefix)) }
    }

    /// Returns the UUID of an ID.
    ///
    /// # Errors
    /// Returns [`RangeError::NegativeId`] if the ID is negative.
    #[inline]
    pub fn uuid(&self, id: i64) -> Result<[u8; 16], RangeError> {
        let bits = match &self.seal {
            None => plain_bits(u64::try_from(id).map_err(|_| RangeError::NegativeId(id))?),
            Some(seal) => {
                let (masked, tag) = seal.seal(id, TAG_BITS)?;
                (masked as u128) << TAG_BITS | u128::from(tag)
            }
        };
        Ok(with_version(bits).to_be_bytes())
    }

    /// Returns the ID of a UUID.
    ///
    /// # Errors
    /// Returns a [`UuidError`] if the UUID is not a result of [`uuid`](Uuids::uuid).
    #[inline]
    pub fn id(&self, uuid: &[u8; 16]) -> Result<i64, UuidError> {
        let bits = without_version(u128::from_be_bytes(*uuid))?;
        match &self.seal {
            None => {
                let id = (bits >> 58 & !0xF | bits >> 56 & 0xF) as u64;
                // The bits that do not belong to the ID must be 0.
                if plain_bits(id) != bits {
                    return Err(UuidError::NotPlain);
                }
                i64::try_from(id).map_err(|_| UuidError::TooLarge)
            }
            Some(seal) => {
                let tag = (bits & ((1 << TAG_BITS) - 1)) as u64;
                seal.open((bits >> TAG_BITS) as i64, tag, TAG_BITS).ok_or(UuidError::Tag)
            }
        }
    }
}

/// Returns the 122 free bits of a UUID made without a key. The free bits are the upper 60 bits of the ID, two
/// zero bits that complete the digit of the variant, the lower 4 bits of the ID, and zeros.
#[inline]
fn plain_bits(id: u64) -> u128 {
    u128::from(id >> 4) << 62 | u128::from(id & 0xF) << 56
}

/// Inserts the version and the variant into the 122 free bits of a UUID.
#[inline]
fn with_version(bits: u128) -> u128 {
    let (first_48, next_12, last_62) = (bits >> 74, bits >> 62 & 0xFFF, bits & ((1 << 62) - 1));
    first_48 << 80 | VERSION << VERSION_SHIFT | next_12 << 64 | VARIANT << VARIANT_SHIFT | last_62
}

/// Checks the version and the variant of a UUID, and returns its 122 free bits.
#[inline]
fn without_version(uuid: u128) -> Result<u128, UuidError> {
    let (version, variant) = (uuid >> VERSION_SHIFT & 0xF, uuid >> VARIANT_SHIFT & 0b11);
    if variant != VARIANT {
        return Err(UuidError::Variant);
    }
    if version != VERSION {
        return Err(UuidError::Version(version as u8));
    }
    Ok(uuid >> 80 << 74 | (uuid >> 64 & 0xFFF) << 62 | uuid & ((1 << 62) - 1))
}

/// The error for a UUID that does not represent an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UuidError {
    /// The UUID does not have the variant of RFC 9562.
    Variant,
    /// The version of the UUID is not 8. The field contains the actual version.
    Version(u8),
    /// The UUID has nonzero bits where a UUID made without a key has only zeros.
    NotPlain,
    /// The number is larger than any ID.
    TooLarge,
    /// The tag does not belong to the number.
    Tag,
}

impl fmt::Display for UuidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UuidError::Variant => write!(f, "The UUID does not have the variant of RFC 9562."),
            UuidError::Version(version) => write!(f, "The UUID has version {version}, not 8."),
            UuidError::NotPlain => {
                write!(f, "Some bits are set that are 0 in every UUID made without a key.")
            }
            UuidError::TooLarge => {
                write!(f, "The number in the UUID is larger than the largest ID, {}.", i64::MAX)
            }
            UuidError::Tag => {
                write!(f, "The UUID was not made with this key and prefix, or it was changed later.")
            }
        }
    }
}

impl UuidError {
    /// Returns a sentence for the user that says what is allowed.
    pub fn allowed(&self) -> &'static str {
        match self {
            UuidError::Tag => "Use the key and the prefix with which the UUID was made.",
            UuidError::NotPlain => {
                "If the UUID was made with a key, specify that key. In a UUID that was made without a key, the last 14 digits are 0."
            }
            _ => "Use a UUID that was made by snowflake_to_uuid() or snowflake_to_uuid_named().",
        }
    }
}

impl Error for UuidError {}
