//! Masks: the cipher compared with its standard, and the permutation of IDs made from it.

use std::collections::HashSet;

use cast5::Cast5;
use cast5::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use proptest::prelude::*;
use snowflake_id_core::mask::{KEY_BYTES, Mask};
use snowflake_id_core::{Layout, Parts, RangeError};

/// The key of RFC 2144, appendix B.
const KEY: [u8; KEY_BYTES] = 0x0123_4567_1234_5678_2345_6789_3456_789A_u128.to_be_bytes();

fn encrypt(key: &[u8; KEY_BYTES], block: u64) -> u64 {
    let mut block = Array::from(block.to_be_bytes());
    Cast5::new(&Array::from(*key)).encrypt_block(&mut block);
    u64::from_be_bytes(block.0)
}

fn ids() -> impl Strategy<Value = i64> {
    (0..=i64::MAX, 0u32..63).prop_map(|(id, shift)| id >> shift)
}

/// RFC 2144, appendix B.1.
#[test]
fn the_cipher_gives_the_single_vector_of_its_standard() {
    assert_eq!(encrypt(&KEY, 0x0123_4567_89AB_CDEF), 0x238B_4FE5_847E_44B2);
    let mut block = Array::from(0x238B_4FE5_847E_44B2_u64.to_be_bytes());
    Cast5::new(&Array::from(KEY)).decrypt_block(&mut block);
    assert_eq!(u64::from_be_bytes(block.0), 0x0123_4567_89AB_CDEF);
}

/// The masks of the first version, checked with another implementation (CAST5 of OpenSSL in ECB mode). They must never
/// change, because masked IDs are in use outside.
#[test]
fn masked_ids_never_change() {
    let mask = Mask::new(&KEY);
    for (id, masked) in [
        (0, 3877918020290857650),
        (1, 1829345981326065705),
        (2, 6234484493262867458),
        // These two need two steps.
        (1541815603606036480, 221274310923782015),
        (i64::MAX, 2277571381837204430),
    ] {
        assert_eq!((id, mask.mask(id)), (id, Ok(masked)));
        assert_eq!(mask.unmask(masked), Ok(id));
    }
    assert_eq!(Mask::new(&[0; KEY_BYTES]).mask(0), Ok(1424547826378291313));
}

#[test]
fn negative_numbers_are_refused() {
    let mask = Mask::new(&KEY);
    for number in [-1, i64::MIN] {
        assert_eq!(mask.mask(number), Err(RangeError::NegativeId(number)));
        assert_eq!(mask.unmask(number), Err(RangeError::NegativeId(number)));
    }
}

/// Consecutive IDs of a server: no two masks are equal, and their order is lost.
#[test]
fn a_run_of_ids_is_masked_without_duplicates_and_out_of_order() {
    const COUNT: usize = 200_000;
    let layout: Layout = "standard".parse().unwrap();
    let first = layout.pack(&Parts { tick: 1_000_000_000, worker: 7, ..Default::default() }).unwrap();
    let mask = Mask::new(&KEY);
    let masked: Vec<i64> = (first..).take(COUNT).map(|id| mask.mask(id).unwrap()).collect();
    assert_eq!(masked.iter().collect::<HashSet<_>>().len(), COUNT);
    // Half of the pairs of neighbors are in order, give or take ten standard deviations.
    let in_order = masked.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(in_order.abs_diff(COUNT / 2) < 1_500, "{in_order}");
}

/// The share of the 63 bits that differ, over many pairs of masked IDs.
fn share_of_differing_bits(pairs: impl Iterator<Item = (i64, i64)>) -> f64 {
    let (mut bits, mut count) = (0, 0);
    for (one, other) in pairs {
        bits += (one ^ other).count_ones();
        count += 63;
    }
    f64::from(bits) / f64::from(count)
}

/// Flipping any one bit of the ID, or of the key, flips half of the bits.
#[test]
fn one_bit_changes_half_of_the_bits() {
    const IDS: [i64; 4] = [0, 1, 1541815603606036480, i64::MAX];
    let mask = Mask::new(&KEY);
    for bit in 0..63 {
        let ids = (0..50).flat_map(|step| IDS.map(|id| id ^ (step << 7)));
        let pairs = ids.map(|id| (mask.mask(id).unwrap(), mask.mask(id ^ (1 << bit)).unwrap()));
        let share = share_of_differing_bits(pairs);
        assert!((0.46..0.54).contains(&share), "bit {bit} of the ID: {share}");
    }
    for bit in 0..8 * KEY_BYTES {
        let mut key = KEY;
        key[bit / 8] ^= 1 << (bit % 8);
        let other = Mask::new(&key);
        let ids = (0..50).flat_map(|step| IDS.map(|id| id ^ (step << 7)));
        let pairs = ids.map(|id| (mask.mask(id).unwrap(), other.mask(id).unwrap()));
        let share = share_of_differing_bits(pairs);
        assert!((0.46..0.54).contains(&share), "bit {bit} of the key: {share}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn unmasking_undoes_masking(key in any::<[u8; KEY_BYTES]>(), id in ids()) {
        let mask = Mask::new(&key);
        let masked = mask.mask(id).unwrap();
        prop_assert!(masked >= 0);
        prop_assert_eq!(mask.unmask(masked), Ok(id));
        // In the other direction too: every number is the mask of some ID.
        let unmasked = mask.unmask(id).unwrap();
        prop_assert!(unmasked >= 0);
        prop_assert_eq!(mask.mask(unmasked), Ok(id));
    }

    /// The definition, in terms of the cipher alone.
    #[test]
    fn a_masked_id_is_the_first_that_is_not_negative(key in any::<[u8; KEY_BYTES]>(), id in ids()) {
        let mut number = encrypt(&key, id as u64);
        while number >> 63 == 1 {
            number = encrypt(&key, number);
        }
        prop_assert_eq!(Mask::new(&key).mask(id), Ok(number as i64));
    }
}
