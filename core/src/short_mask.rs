//! Short masked numbers: a permutation of the numbers with at most a given number of digits, or of the
//! numbers that fit in the bits of a layout.
//!
//! A [`Mask`](crate::mask::Mask) returns numbers of up to 19 digits. A short mask returns numbers of the
//! [`Domain`] that the caller chooses, such as the 10-digit numbers from 0 to 9,999,999,999. As with every
//! mask, different numbers have different masked numbers, and the key is required to convert them back. Each
//! combination of key and domain has a different permutation.
//!
//! The permutation is FF1 of NIST SP 800-38G with AES-128, radix 10 or 2, and an empty tweak. The key of FF1
//! is a subkey (see `subkey.rs`) with the label `snowflake_id FF1` and an empty context.
//!
//! ```
//! use snowflake_id_core::short_mask::{Domain, ShortMask};
//!
//! let mask = ShortMask::new(&[7; 16], Domain::digits(10)?);
//! let masked = mask.mask(1042)?;
//! assert!((0..10_000_000_000).contains(&masked));
//! assert_eq!(mask.unmask(masked)?, 1042);
//! # Ok::<(), snowflake_id_core::short_mask::DomainError>(())
//! ```

use std::error::Error;
use std::fmt;
use std::ops::RangeInclusive;

use aes::Aes128Enc;
use fpe::ff1::{FF1, NumeralString, Operations};

use crate::field::MAX_TOTAL_BITS;
use crate::layout::Layout;
use crate::mask::KEY_BYTES;
use crate::subkey::subkeys;

/// The label in the derivation of the key.
const LABEL: &[u8] = b"snowflake_id FF1";

/// The allowed numbers of digits. NIST SP 800-38G requires at least a million numbers, and a `bigint` holds
/// all numbers of 18 digits.
pub const DIGITS: RangeInclusive<i32> = 6..=18;

/// The allowed numbers of bits. A million numbers require 20 bits.
pub const BITS: RangeInclusive<u32> = 20..=MAX_TOTAL_BITS;

/// The numbers that a short mask permutes: those with at most `length` numerals in a radix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Domain {
    radix: u32,
    length: u32,
}

impl Domain {
    /// Returns the domain of the numbers from 0 to 10^`digits` - 1.
    ///
    /// # Errors
    /// Returns [`DomainError::Digits`] if the number of digits is not in [`DIGITS`].
    #[inline]
    pub fn digits(digits: i32) -> Result<Domain, DomainError> {
        if !DIGITS.contains(&digits) {
            return Err(DomainError::Digits(digits));
        }
        Ok(Domain { radix: 10, length: digits as u32 })
    }

    /// Returns the domain of the numbers from 0 to the largest ID of a layout.
    ///
    /// # Errors
    /// Returns [`DomainError::Bits`] if the number of bits of the layout is not in [`BITS`].
    #[inline]
    pub fn layout(layout: &Layout) -> Result<Domain, DomainError> {
        let bits = layout.total_bits();
        if !BITS.contains(&bits) {
            return Err(DomainError::Bits(bits));
        }
        Ok(Domain { radix: 2, length: bits })
    }

    /// Returns the largest number of the domain.
    #[inline]
    pub fn max(self) -> i64 {
        (power(self.radix, self.length) - 1) as i64
    }

    /// Returns a number as numerals.
    #[inline]
    fn numerals(self, number: i64) -> Result<Numerals, DomainError> {
        let Domain { radix, length } = self;
        match u64::try_from(number) {
            Ok(value) if number <= self.max() => Ok(Numerals { radix, length, value }),
            _ => Err(DomainError::Number { number, max: self.max() }),
        }
    }
}

/// A key prepared for the numbers of a domain. The key is erased from memory when this value is dropped.
pub struct ShortMask {
    cipher: FF1<Aes128Enc>,
    domain: Domain,
}

impl ShortMask {
    /// Derives and prepares the key of FF1.
    pub fn new(key: &[u8; KEY_BYTES], domain: Domain) -> ShortMask {
        let [key] = subkeys(key, LABEL, &[]);
        let cipher = FF1::new(&*key, domain.radix).expect("bug: FF1 does not have this radix");
        ShortMask { cipher, domain }
    }

    /// Returns the masked number of a number. Both are in the domain.
    ///
    /// # Errors
    /// Returns [`DomainError::Number`] if the number is not in the domain.
    #[inline]
    pub fn mask(&self, number: i64) -> Result<i64, DomainError> {
        let masked = self.cipher.encrypt(&[], &self.domain.numerals(number)?);
        Ok(masked.expect("bug: FF1 does not have this domain").value as i64)
    }

    /// Returns the number of a masked number. With any key, every number of the domain is the masked number
    /// of some number of the domain.
    ///
    /// # Errors
    /// Returns [`DomainError::Number`] if the masked number is not in the domain.
    #[inline]
    pub fn unmask(&self, masked: i64) -> Result<i64, DomainError> {
        let number = self.cipher.decrypt(&[], &self.domain.numerals(masked)?);
        Ok(number.expect("bug: FF1 does not have this domain").value as i64)
    }
}

/// A sequence of numerals, stored as the number that the numerals represent. The most significant numeral is
/// first.
///
/// FF1 splits a number into two halves, and calculates with the halves. A half has at most 32 bits, because a
/// number has at most 63 bits. FF1 then derives 8 bytes from each half, and adds them to the other half.
struct Numerals {
    radix: u32,
    length: u32,
    value: u64,
}

impl NumeralString for Numerals {
    type Ops = Numerals;

    #[inline]
    fn is_valid(&self, radix: u32) -> bool {
        self.radix == radix && self.value < power(radix, self.length)
    }

    #[inline]
    fn numeral_count(&self) -> usize {
        self.length as usize
    }

    #[inline]
    fn split(&self) -> (Numerals, Numerals) {
        let radix = self.radix;
        let (left, right) = (self.length / 2, self.length.div_ceil(2));
        let modulus = power(radix, right);
        (
            Numerals { radix, length: left, value: self.value / modulus },
            Numerals { radix, length: right, value: self.value % modulus },
        )
    }

    #[inline]
    fn concat(left: Numerals, right: Numerals) -> Numerals {
        Numerals {
            radix: left.radix,
            length: left.length + right.length,
            value: left.value * power(right.radix, right.length) + right.value,
        }
    }
}

impl Operations for Numerals {
    type Bytes = LastBytes;

    #[inline]
    fn numeral_count(&self) -> usize {
        self.length as usize
    }

    #[inline]
    fn to_be_bytes(&self, _radix: u32, count: usize) -> LastBytes {
        LastBytes { bytes: self.value.to_be_bytes(), count }
    }

    #[inline]
    fn add_mod_exp(self, other: impl Iterator<Item = u8>, radix: u32, length: usize) -> Numerals {
        let modulus = power(radix, length as u32);
        Numerals { value: (self.value + number_of(other) % modulus) % modulus, ..self }
    }

    #[inline]
    fn sub_mod_exp(self, other: impl Iterator<Item = u8>, radix: u32, length: usize) -> Numerals {
        let modulus = power(radix, length as u32);
        Numerals { value: (self.value + modulus - number_of(other) % modulus) % modulus, ..self }
    }
}

/// The last `count` of eight bytes.
struct LastBytes {
    bytes: [u8; 8],
    count: usize,
}

impl AsRef<[u8]> for LastBytes {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.bytes.len() - self.count..]
    }
}

/// Returns the number that 8 bytes represent, the most significant byte first.
#[inline]
fn number_of(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0, |number, byte| number << 8 | u64::from(byte))
}

#[inline]
fn power(radix: u32, exponent: u32) -> u64 {
    u64::from(radix).pow(exponent)
}

/// The reason why a number cannot be masked or unmasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DomainError {
    /// The number of digits is not in [`DIGITS`].
    Digits(i32),
    /// The number of bits of a layout is not in [`BITS`].
    Bits(u32),
    /// A number is negative or too large.
    Number {
        /// The number.
        number: i64,
        /// The largest number of the domain.
        max: i64,
    },
}

impl fmt::Display for DomainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DomainError::Digits(digits) => write!(f, "cannot mask numbers with {digits} digits"),
            DomainError::Bits(bits) => write!(f, "cannot mask IDs with {bits} bits"),
            DomainError::Number { number, .. } => write!(f, "number {number} is out of range for the mask"),
        }
    }
}

impl DomainError {
    /// Returns a sentence that tells the user which values are allowed.
    pub fn allowed(&self) -> String {
        match self {
            DomainError::Digits(_) => {
                format!("The number of digits must be between {} and {}.", DIGITS.start(), DIGITS.end())
            }
            DomainError::Bits(_) => format!("The layout must have at least {} bits.", BITS.start()),
            DomainError::Number { max, .. } => format!("The number must be between 0 and {max}."),
        }
    }
}

impl Error for DomainError {}
