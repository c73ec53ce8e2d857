//! IDs with a mask: other numbers in their place, from which nobody without the key can tell when an ID was
//! made, or how many there are.
//!
//! A mask is a permutation of the numbers from 0 to 2^63 - 1, a different one for each key: no two IDs get
//! the same masked number, and whoever has the key can take the mask off.
//!
//! It is the block cipher CAST-128 (RFC 2144, ISO/IEC 18033-3), whose blocks have 64 bits. An ID is one
//! block, the most significant byte first. If the first bit of what comes out is set, it is encrypted again,
//! until it is not; this "cycle walking" makes a permutation of the smaller range out of that of the larger
//! one, and is as hard to see through (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002). It
//! takes two steps on average.
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

/// A key made ready. It is wiped when it is dropped.
pub struct Mask(Cast5);

impl Mask {
    /// The mask of a key. Takes as long as masking a handful of IDs.
    pub fn new(key: &[u8; KEY_BYTES]) -> Mask {
        Mask(Cast5::new(&Array::from(*key)))
    }

    /// The number that stands for an ID. A negative ID is refused.
    #[inline]
    pub fn mask(&self, id: i64) -> Result<i64, RangeError> {
        walk(id, |block| self.0.encrypt_block(block))
    }

    /// The ID for which a number stands. A negative number is refused; any other stands for some ID, under
    /// any key.
    #[inline]
    pub fn unmask(&self, masked: i64) -> Result<i64, RangeError> {
        walk(masked, |block| self.0.decrypt_block(block))
    }
}

/// Takes steps from a non-negative number until there is one again. As the steps are a permutation of all
/// numbers, they come back to where they started in the end; so this ends.
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
