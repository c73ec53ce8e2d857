//! IDs as UUIDs: version 8 of RFC 9562, in which all bits but those of version and variant are free to use.
//!
//! Without a key the hexadecimal digits of the ID are the first 16 digits, but for the two `8` that stand for
//! version and variant; all that follow are 0. So these UUIDs sort as the IDs do.
//!
//! ```text
//! ID                 1565b3a2c4d5e6f7
//! UUID               1565b3a2-c4d5-8e6f-8700-000000000000
//! ```
//!
//! With a key the 122 bits are the masked number, 63 bits, and 59 bits of its tag.

use std::error::Error;
use std::fmt;

use super::prefix::Prefix;
use super::seal::Seal;
use crate::error::RangeError;
use crate::mask::KEY_BYTES;

/// What stands for this form in the derivation of subkeys.
const LABEL: &[u8] = b"snowflake_id uuid";
const VERSION: u128 = 8;
const VARIANT: u128 = 0b10;
const VERSION_SHIFT: u32 = 76;
const VARIANT_SHIFT: u32 = 62;
const TAG_BITS: u32 = 59;

/// The UUIDs of IDs under one key, or none.
///
/// With a key the tag has 59 bits: of all UUIDs of version 8 that were not made with this key and prefix, one
/// in 5.8 * 10^17 is taken for an ID nevertheless.
pub struct Uuids {
    seal: Option<Seal>,
}

impl Uuids {
    /// Makes a key ready, if there is one. With another prefix, which may be empty, a key gives other UUIDs.
    #[inline]
    pub fn new(key: Option<(&[u8; KEY_BYTES], Prefix)>) -> Uuids {
        Uuids { seal: key.map(|(key, prefix)| Seal::new(key, LABEL, &prefix)) }
    }

    /// The UUID of an ID. A negative ID is refused.
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

    /// The ID of a UUID.
    ///
    /// # Errors
    /// A [`UuidError`], if it is not exactly one that [`uuid`](Uuids::uuid) gives.
    #[inline]
    pub fn id(&self, uuid: &[u8; 16]) -> Result<i64, UuidError> {
        let bits = without_version(u128::from_be_bytes(*uuid))?;
        match &self.seal {
            None => {
                let id = (bits >> 58 & !0xF | bits >> 56 & 0xF) as u64;
                // Whatever else there is in it, is not in this one.
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

/// The 122 bits of an ID without a key: 60 bits of it, two zeros beside the variant, the other 4 bits, zeros.
#[inline]
fn plain_bits(id: u64) -> u128 {
    u128::from(id >> 4) << 62 | u128::from(id & 0xF) << 56
}

/// Puts version and variant between the 122 bits.
#[inline]
fn with_version(bits: u128) -> u128 {
    let (first_48, next_12, last_62) = (bits >> 74, bits >> 62 & 0xFFF, bits & ((1 << 62) - 1));
    first_48 << 80 | VERSION << VERSION_SHIFT | next_12 << 64 | VARIANT << VARIANT_SHIFT | last_62
}

/// The 122 bits between which version and variant stand.
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

/// Why a UUID is not that of an ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UuidError {
    /// It is not of the variant of RFC 9562.
    Variant,
    /// It has this version, not 8.
    Version(u8),
    /// Bits are set that are 0 in every UUID that is made without a key.
    NotPlain,
    /// The number is larger than any ID.
    TooLarge,
    /// The tag is not that of the number.
    Tag,
}

impl fmt::Display for UuidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UuidError::Variant => write!(f, "The UUID does not have the variant of RFC 9562."),
            UuidError::Version(version) => write!(f, "The UUID has version {version}, not 8."),
            UuidError::NotPlain => {
                write!(f, "Some digits are not 0 that are 0 in every UUID made without a key.")
            }
            UuidError::TooLarge => {
                write!(f, "The number in the UUID is larger than the largest ID, {}.", i64::MAX)
            }
            UuidError::Tag => {
                write!(f, "The UUID was not made with this key and prefix, or has been changed since.")
            }
        }
    }
}

impl UuidError {
    /// What would have been right: a sentence for the user.
    pub fn allowed(&self) -> &'static str {
        match self {
            UuidError::Tag => "Use the key and the prefix with which the UUID was made.",
            UuidError::NotPlain => {
                "If the UUID was made with a key, specify that key. In a UUID that was made without a key, the last 14 digits are 0."
            }
            _ => {
                "Use a UUID that was made by snowflake_to_uuid() or snowflake_to_uuid_named(). Its version is 8."
            }
        }
    }
}

impl Error for UuidError {}
