//! Sealing of public IDs, which hides the ID and proves that the public ID was created with the same key.
//!
//! Two subkeys are derived from the key. The subkeys differ for each form (text, UUID) and each prefix. The
//! ID is [masked](crate::mask) with the first subkey. The masked number gets a tag that is computed with the
//! second subkey. This method is known as encrypt-then-MAC (Bellare and Namprempre, "Authenticated
//! Encryption", 2000). A forged public ID is rejected before it is decrypted. Masking is a permutation, so
//! different IDs have different masked numbers.
//!
//! | step | algorithm |
//! | --- | --- |
//! | subkeys | the key derivation function in counter mode of NIST SP 800-108, with AES-128-CMAC; counter and length have 32 bits, the label is that of the form, the context is the prefix |
//! | masked number | CAST-128 with cycle walking, see [`mask`](crate::mask) |
//! | tag | the leftmost bits of one block encrypted with AES-128: the masked number in 8 bytes, most significant byte first, followed by 8 zero bytes |
//!
//! The tag is a CBC-MAC of messages that always consist of one block.

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes128Enc};
use cmac::{Cmac, Mac};
use ctutils::CtEq;
use zeroize::Zeroizing;

use super::prefix::Prefix;
use crate::error::RangeError;
use crate::mask::{KEY_BYTES, Mask};

/// The number of subkeys derived from a key.
const SUBKEYS: u32 = 2;

/// A key prepared for one form and one prefix. The key is erased from memory when this value is dropped.
pub struct Seal {
    mask: Mask,
    tag: Aes128Enc,
}

impl Seal {
    /// Derives the subkeys, which takes as long as sealing a few IDs.
    ///
    /// `label` is the name of the form.
    pub fn new(key: &[u8; KEY_BYTES], label: &[u8], prefix: &Prefix) -> Seal {
        let derivation = Cmac::<Aes128>::new(key.into());
        let subkey = |counter: u32| {
            let mut mac = derivation.clone();
            mac.update(&counter.to_be_bytes());
            mac.update(label);
            mac.update(&[0]);
            mac.update(prefix.as_bytes());
            mac.update(&(SUBKEYS * 8 * KEY_BYTES as u32).to_be_bytes());
            Zeroizing::new(<[u8; KEY_BYTES]>::from(mac.finalize().into_bytes()))
        };
        Seal { mask: Mask::new(&subkey(1)), tag: Aes128Enc::new((&*subkey(2)).into()) }
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
