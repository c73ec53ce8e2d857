//! What a key does to an ID that is shown outside: it hides it, and proves that it was made with the key.
//!
//! Two subkeys are derived from the key, for each form (texts, UUIDs) and each prefix others. Under the first
//! the ID is [masked](crate::mask), under the second the masked number gets a tag: encrypt, then authenticate
//! (Bellare and Namprempre, "Authenticated Encryption", 2000), so that a forged one is refused before anything
//! is decrypted. Masking is a permutation, so that no two IDs get the same masked number.
//!
//! | step | is |
//! | --- | --- |
//! | subkeys | the key derivation function in counter mode of NIST SP 800-108, with AES-128-CMAC; counter and length have 32 bits, the label is that of the form, the context the prefix |
//! | masked number | CAST-128 with cycle walking, see [`mask`](crate::mask) |
//! | tag | the leftmost bits of what AES-128 makes of one block: the masked number in 8 bytes, the most significant first, and 8 zeros |
//!
//! The tag is CBC-MAC, for messages that are all of one block.

use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes128Enc};
use cmac::{Cmac, Mac};
use ctutils::CtEq;
use zeroize::Zeroizing;

use super::prefix::Prefix;
use crate::error::RangeError;
use crate::mask::{KEY_BYTES, Mask};

/// How many subkeys are derived from a key.
const SUBKEYS: u32 = 2;

/// A key made ready for one form and one prefix. It is wiped when it is dropped.
pub struct Seal {
    mask: Mask,
    tag: Aes128Enc,
}

impl Seal {
    /// Derives the subkeys. Takes as long as sealing a handful of IDs.
    ///
    /// `label`: the name of the form.
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

    /// The masked number of an ID, which is not negative, and its tag of this many bits, at most 64. A negative
    /// ID is refused.
    #[inline]
    pub fn seal(&self, id: i64, tag_bits: u32) -> Result<(i64, u64), RangeError> {
        let masked = self.mask.mask(id)?;
        Ok((masked, self.tag_of(masked, tag_bits)))
    }

    /// The ID of a masked number with its tag of this many bits, `None` if they do not belong together. Takes
    /// the same time whichever bits of the tag are wrong.
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
