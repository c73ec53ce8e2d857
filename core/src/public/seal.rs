//! Seals public IDs. A seal hides the ID, and proves that the public ID was created with the same key.
//!
//! Two subkeys are derived from the key. The subkeys differ for each form (text, UUID) and each prefix. The
//! ID is [masked](crate::mask) with the first subkey. The masked number gets a tag that is computed with the
//! second subkey. This method is known as encrypt-then-MAC (Bellare and Namprempre, "Authenticated
//! Encryption", 2000). A forged public ID is rejected before it is decrypted. Masking is a permutation, so
//! different IDs have different masked numbers.
//!
//! | step | algorithm |
//! | --- | --- |
//! | subkeys | see `subkey.rs`; the label is the name of the form, and the context is the prefix |
//! | masked number | CAST-128 with cycle walking, see [`mask`](crate::mask) |
//! | tag | the leftmost bits of one block encrypted with AES-128: the masked number in 8 bytes, most significant byte first, followed by 8 zero bytes |
//!
//! The tag is a CBC-MAC, which is secure here because every message consists of exactly one block.

use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use ctutils::CtEq;

use super::prefix::Prefix;
use crate::error::RangeError;
use crate::mask::{KEY_BYTES, Mask};
use crate::subkey::subkeys;

/// A key prepared for one form and one prefix. The key is erased from memory when this value is dropped.
pub struct Seal {
    mask: Mask,
    tag: Aes128Enc,
}

impl Seal {
    /// Derives the subkeys. This takes as long as sealing a few IDs.
    ///
    /// `label` is the name of the form.
    pub fn new(key: &[u8; KEY_BYTES], label: &[u8], prefix: &Prefix) -> Seal {
        let [for_mask, for_tag] = subkeys(key, label, prefix.as_bytes());
        Seal { mask: Mask::new(&for_mask), tag: Aes128Enc::new((&*for_tag).into()) }
    }

    /// Returns the masked number of an ID, and a tag of `tag_bits` bits (1 to 64). The masked number is not
    /// negative.
    ///
    /// # Errors
    /// Returns [`RangeError::NegativeId`] if the ID is negative.
    #[inline]
    pub fn seal(&self, id: i64, tag_bits: u32) -> Result<(i64, u64), RangeError> {
        let masked = self.mask.mask(id)?;
        Ok((masked, self.tag_of(masked, tag_bits)))
    }

    /// Returns the ID of a masked number, or `None` if the tag of `tag_bits` bits is invalid. Tags are
    /// compared in constant time.
    #[inline]
    pub fn open(&self, masked: i64, tag: u64, tag_bits: u32) -> Option<i64> {
        let is_genuine = self.tag_of(masked, tag_bits).ct_eq(&tag);
        if !is_genuine.to_bool() {
            return None;
        }
        self.mask.unmask(masked).ok()
    }

    #[inline]
    fn tag_of(&self, masked: i64, tag_bits: u32) -> u64 {
        let mut block = Array::from((u128::from(masked as u64) << u64::BITS).to_be_bytes());
        self.tag.encrypt_block(&mut block);
        (u128::from_be_bytes(block.0) >> (u128::BITS - tag_bits)) as u64
    }
}
