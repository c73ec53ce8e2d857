//! Masked IDs: opaque numbers that replace IDs for public display. Without the key, a masked ID does not
//! reveal when the ID was created, or how many IDs there are.
//!
//! A mask is a permutation of the numbers from 0 to 2^63 - 1. Each key has a different permutation. No two
//! IDs have the same masked number, and the ID can be recovered with the key.
//!
//! The permutation is the block cipher CAST-128 (RFC 2144, ISO/IEC 18033-3), whose blocks have 64 bits. An ID
//! is one block, most significant byte first. As long as the first bit of the result is set, the result is
//! encrypted again. This "cycle walking" turns a permutation of the larger range into a permutation of the
//! smaller range, and is as secure (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). On
//! average, an ID is encrypted twice.
//!
//! ```
//! use snowflake_id_core::mask::Mask;
//!
//! let mask = Mask::new(&[7; 16]);
//! let masked = mask.mask(1541815603606036480)?;
//! assert_eq!(mask.unmask(masked)?, 1541815603606036480);
//! # Ok::<(), snowflake_id_core::RangeError>(())
//! ```

use cast5::Cast5;
use cast5::cipher::{Array, Block, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

use crate::error::RangeError;

/// The length of a key in bytes.
pub const KEY_BYTES: usize = 16;

/// A key prepared for masking. The key is erased from memory when this value is dropped.
pub struct Mask(Cast5);

impl Mask {
    /// Prepares a key, which takes as long as masking a few IDs.
    pub fn new(key: &[u8; KEY_BYTES]) -> Mask {
        Mask(Cast5::new(&Array::from(*key)))
    }

    /// Returns the masked number of an ID.
    ///
    /// # Errors
    /// Returns [`RangeError::NegativeId`] if the ID is negative.
    #[inline]
    pub fn mask(&self, id: i64) -> Result<i64, RangeError> {
        walk(id, |block| self.0.encrypt_block(block))
    }

    /// Returns the ID of a masked number. With any key, every non-negative number is the masked number of
    /// some ID.
    ///
    /// # Errors
    /// Returns [`RangeError::NegativeId`] if the number is negative.
    #[inline]
    pub fn unmask(&self, masked: i64) -> Result<i64, RangeError> {
        walk(masked, |block| self.0.decrypt_block(block))
    }
}

/// Applies `step` repeatedly to a non-negative number until the result is non-negative. `step` is a
/// permutation, so the sequence eventually returns to the first number and the loop ends.
#[inline]
fn walk(start: i64, step: impl Fn(&mut Block<Cast5>)) -> Result<i64, RangeError> {
    if start < 0 {
        return Err(RangeError::NegativeId(start));
    }
    let mut block = Array::from(start.to_be_bytes());
    loop {
        step(&mut block);
        let reached = i64::from_be_bytes(block.0);
        if reached >= 0 {
            return Ok(reached);
        }
    }
}
