//! Subkeys, which are derived from a key so that each use has keys of its own.
//!
//! The algorithm is the key derivation function in counter mode of NIST SP 800-108, with AES-128-CMAC. The
//! counter and the length have 32 bits.

use std::array;

use aes::Aes128;
use cmac::{Cmac, KeyInit, Mac};
use zeroize::Zeroizing;

use crate::mask::KEY_BYTES;

/// Derives `COUNT` subkeys from a key. The subkeys are erased from memory when they are dropped. The subkeys
/// differ for each label and each context.
pub fn subkeys<const COUNT: usize>(
    key: &[u8; KEY_BYTES],
    label: &[u8],
    context: &[u8],
) -> [Zeroizing<[u8; KEY_BYTES]>; COUNT] {
    let derivation = Cmac::<Aes128>::new(key.into());
    let bits = 8 * KEY_BYTES * COUNT;
    array::from_fn(|index| {
        let mut mac = derivation.clone();
        mac.update(&(index as u32 + 1).to_be_bytes());
        mac.update(label);
        mac.update(&[0]);
        mac.update(context);
        mac.update(&(bits as u32).to_be_bytes());
        Zeroizing::new(mac.finalize().into_bytes().into())
    })
}
