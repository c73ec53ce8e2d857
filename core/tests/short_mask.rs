//! Short masks: FF1 compared with the samples of NIST, and the permutations made from it.

use std::iter::repeat_n;

use aes::Aes128;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use cmac::{Cmac, Mac};
use proptest::prelude::*;
use snowflake_id_core::Layout;
use snowflake_id_core::mask::KEY_BYTES;
use snowflake_id_core::short_mask::{BITS, DIGITS, Domain, DomainError, ShortMask};

/// The key of RFC 2144, appendix B, as in the tests of other masks.
const KEY: [u8; KEY_BYTES] = 0x0123_4567_1234_5678_2345_6789_3456_789A_u128.to_be_bytes();

fn digits(key: &[u8; KEY_BYTES], digits: i32) -> ShortMask {
    ShortMask::new(key, Domain::digits(digits).unwrap())
}

fn layout_with(bits: u32) -> Layout {
    format!("time:{} sequence:1 unit=1ms epoch=2020-01-01T00:00:00Z", bits - 1).parse().unwrap()
}

/// Encryption as NIST SP 800-38G describes it (algorithm 7), with the names used there.
fn ff1(key: &[u8; 16], tweak: &[u8], radix: u32, n: u32, number: u64) -> u64 {
    let cipher = Aes128::new(key.into());
    let power = |m: u32| u128::from(radix).pow(m);
    let (u, v) = (n / 2, n - n / 2);
    let (mut a, mut b) = (u128::from(number) / power(v), u128::from(number) % power(v));
    let bits = (1..).find(|&bits| 1 << bits >= power(v)).unwrap();
    let bytes = usize::div_ceil(bits, 8);
    let d = 4 * bytes.div_ceil(4) + 4;
    assert!(d <= 16, "one block is enough");
    let mut p = vec![1, 2, 1];
    p.extend(&radix.to_be_bytes()[1..]);
    p.extend([10, u as u8]);
    p.extend(n.to_be_bytes());
    p.extend((tweak.len() as u32).to_be_bytes());
    for i in 0..10 {
        let mut text = p.clone();
        text.extend(tweak);
        text.extend(repeat_n(0, (16 - (tweak.len() + bytes + 1) % 16) % 16));
        text.push(i);
        text.extend(&b.to_be_bytes()[16 - bytes..]);
        let mut r = Array::from([0; 16]);
        for block in text.chunks_exact(16) {
            r.iter_mut().zip(block).for_each(|(byte, other)| *byte ^= other);
            cipher.encrypt_block(&mut r);
        }
        let y = r[..d].iter().fold(0, |y, &byte| y << 8 | u128::from(byte));
        let m = if i % 2 == 0 { u } else { v };
        let c = (a + y % power(m)) % power(m);
        (a, b) = (b, c);
    }
    (a * power(v) + b) as u64
}

/// The key derivation of NIST SP 800-108 for one key of 128 bits.
fn derived(key: &[u8; KEY_BYTES]) -> [u8; 16] {
    let mut mac = Cmac::<Aes128>::new(key.into());
    mac.update(b"\0\0\0\x01snowflake_id FF1\0\0\0\0\x80");
    mac.finalize().into_bytes().into()
}

/// Samples 1 and 2 of NIST, for the other implementation in this file.
#[test]
fn the_other_implementation_gives_the_samples_of_the_standard() {
    let key = 0x2B7E_1516_28AE_D2A6_ABF7_1588_09CF_4F3C_u128.to_be_bytes();
    assert_eq!(ff1(&key, &[], 10, 10, 123456789), 2433477484);
    assert_eq!(ff1(&key, b"9876543210", 10, 10, 123456789), 6124200773);
}

/// The masks of the first version, checked with another implementation: the key derivation and AES of OpenSSL, and FF1
/// in Python. They must never change, because masked numbers are in use outside.
#[test]
fn masked_numbers_never_change() {
    let layout = |text: &str| Domain::layout(&text.parse().unwrap());
    for (domain, key, number, masked) in [
        (Domain::digits(6), KEY, 1042, 536587),
        (Domain::digits(10), KEY, 0, 6836980986),
        (Domain::digits(10), KEY, 1, 74886913),
        (Domain::digits(10), KEY, 9999999999, 3084453853),
        (Domain::digits(10), [0; KEY_BYTES], 1042, 6766600001),
        (Domain::digits(18), KEY, 999999999999999999, 583706655728928718),
        (layout("js53"), KEY, 61572651155456, 678236497352166),
        (layout("js53"), KEY, 4503599627370495, 4296846929784711),
        (layout("twitter"), KEY, 1541815603606036480, 8564131801150887885),
    ] {
        let mask = ShortMask::new(&key, domain.unwrap());
        assert_eq!((mask.mask(number), mask.unmask(masked)), (Ok(masked), Ok(number)));
    }
}

#[test]
fn a_domain_has_at_least_a_million_numbers() {
    for number in [i32::MIN, -1, 0, 5, 19, i32::MAX] {
        assert_eq!(Domain::digits(number), Err(DomainError::Digits(number)));
    }
    for bits in [2, 19] {
        assert_eq!(Domain::layout(&layout_with(bits)), Err(DomainError::Bits(bits)));
    }
    for (domain, max) in [
        (Domain::digits(6), 999_999),
        (Domain::digits(10), 9_999_999_999),
        (Domain::digits(18), 999_999_999_999_999_999),
        (Domain::layout(&layout_with(20)), (1 << 20) - 1),
        (Domain::layout(&"js53".parse().unwrap()), (1 << 52) - 1),
        (Domain::layout(&"standard".parse().unwrap()), i64::MAX),
    ] {
        assert_eq!(domain.unwrap().max(), max);
    }
}

#[test]
fn numbers_outside_the_domain_are_refused() {
    for domain in [Domain::digits(6), Domain::digits(18), Domain::layout(&"js53".parse().unwrap())] {
        let domain = domain.unwrap();
        let (mask, max) = (ShortMask::new(&KEY, domain), domain.max());
        for number in [i64::MIN, -1, max + 1, i64::MAX] {
            let refused = Err(DomainError::Number { number, max });
            assert_eq!((mask.mask(number), mask.unmask(number)), (refused, refused));
        }
        for number in [0, max] {
            assert_eq!(mask.unmask(mask.mask(number).unwrap()), Ok(number));
        }
    }
}

/// No two numbers of the smallest domains have the same masked number.
#[test]
fn each_number_of_a_domain_is_the_mask_of_one_number() {
    for domain in [Domain::digits(6), Domain::layout(&layout_with(20))] {
        let domain = domain.unwrap();
        let mask = ShortMask::new(&KEY, domain);
        let mut is_taken = vec![false; domain.max() as usize + 1];
        for number in 0..=domain.max() {
            let taken = &mut is_taken[mask.mask(number).unwrap() as usize];
            assert!(!*taken, "{number}");
            *taken = true;
        }
        assert!(is_taken.iter().all(|&taken| taken));
    }
}

/// The masks of consecutive numbers are not in order, and their digits are evenly distributed.
#[test]
fn consecutive_numbers_look_random() {
    const COUNT: usize = 100_000;
    let mask = digits(&KEY, 10);
    let masked: Vec<i64> = (1..).take(COUNT).map(|number| mask.mask(number).unwrap()).collect();
    // Ten standard deviations.
    let in_order = masked.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(in_order.abs_diff(COUNT / 2) < 1_600, "{in_order}");
    for place in 0..10 {
        let mut counts = [0usize; 10];
        masked.iter().for_each(|number| counts[(number / 10i64.pow(place) % 10) as usize] += 1);
        assert!(counts.iter().all(|count| count.abs_diff(COUNT / 10) < 1_000), "place {place}: {counts:?}");
    }
}

fn domains() -> impl Strategy<Value = (u32, u32, Domain)> {
    let of_digits = DIGITS.prop_map(|count| (10, count as u32, Domain::digits(count).unwrap()));
    // With a unit of 1 ms, times of more than 47 bits are later than any timestamp.
    let of_layouts = (20..=48u32).prop_map(|bits| (2, bits, Domain::layout(&layout_with(bits)).unwrap()));
    let largest = Just((2, *BITS.end(), Domain::layout(&"standard".parse().unwrap()).unwrap()));
    prop_oneof![of_digits, of_layouts, largest]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn masks_are_ff1_with_the_derived_key(
        key in any::<[u8; KEY_BYTES]>(), (radix, length, domain) in domains(), number in 0..=i64::MAX,
    ) {
        let number = number % domain.max();
        let mask = ShortMask::new(&key, domain);
        let masked = mask.mask(number).unwrap();
        prop_assert!((0..=domain.max()).contains(&masked));
        prop_assert_eq!(masked as u64, ff1(&derived(&key), &[], radix, length, number as u64));
        prop_assert_eq!(mask.unmask(masked), Ok(number));
        // In the other direction too: every number is the mask of some number.
        prop_assert_eq!(mask.mask(mask.unmask(number).unwrap()), Ok(number));
    }

    /// Different keys and different domains give different masks: not all of ten numbers agree.
    #[test]
    fn keys_and_domains_differ(
        one in any::<[u8; KEY_BYTES]>(), other in any::<[u8; KEY_BYTES]>(),
        (_, _, domain) in domains(), (_, _, other_domain) in domains(),
    ) {
        let masked = |key, domain| (0..10).map(|number| ShortMask::new(key, domain).mask(number).unwrap()).collect::<Vec<_>>();
        prop_assume!(one != other && domain != other_domain);
        prop_assert_ne!(masked(&one, domain), masked(&other, domain));
        prop_assert_ne!(masked(&one, domain), masked(&one, other_domain));
    }
}
