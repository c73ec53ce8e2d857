//! Public IDs: vectors from another implementation, invalid inputs, and how often forged IDs are detected.

use std::collections::HashSet;

use proptest::prelude::*;
use snowflake_id_core::RangeError;
use snowflake_id_core::mask::KEY_BYTES;
use snowflake_id_core::public::{
    MAX_TEXT, Prefix, PrefixError, PublicIds, PublicTextError, UuidError, Uuids,
};

/// The key of RFC 2144, appendix B.
const KEY: [u8; KEY_BYTES] = 0x0123_4567_1234_5678_2345_6789_3456_789A_u128.to_be_bytes();
const ZEROS: [u8; KEY_BYTES] = [0; KEY_BYTES];
const TWEET: i64 = 1541815603606036480;

fn prefix(text: &str) -> Prefix {
    match text {
        "" => Prefix::NONE,
        text => Prefix::new(text.as_bytes()).unwrap(),
    }
}

fn public(text: &str, key: Option<&[u8; KEY_BYTES]>) -> PublicIds {
    PublicIds::new(prefix(text), key)
}

fn uuids(key: &[u8; KEY_BYTES], text: &str) -> Uuids {
    Uuids::new(Some((key, prefix(text))))
}

fn text_of(ids: &PublicIds, id: i64) -> String {
    ids.text(id, &mut [0; MAX_TEXT]).unwrap().to_owned()
}

fn written(uuid: [u8; 16]) -> String {
    uuid::Uuid::from_bytes(uuid).to_string()
}

fn read(uuid: &str) -> [u8; 16] {
    *uuid::Uuid::parse_str(uuid).unwrap().as_bytes()
}

fn ids() -> impl Strategy<Value = i64> {
    (0..=i64::MAX, 0u32..63).prop_map(|(id, shift)| id >> shift)
}

fn prefixes() -> impl Strategy<Value = String> {
    "[a-z0-9]{1,16}"
}

#[test]
fn texts_without_a_key_never_change() {
    for (id, text) in [(0, "cus_11111111111"), (TWEET, "cus_4aaW4SzAyQK"), (i64::MAX, "cus_NQm6nKp8qFC")] {
        assert_eq!(text_of(&public("cus", None), id), text);
    }
}

/// The results for keys in the first version, checked with another implementation: KBKDF, CAST5-ECB and AES-128-ECB of
/// OpenSSL. They must never change, because public IDs are in use outside.
#[test]
fn texts_with_a_key_never_change() {
    for (key, prefix, id, text) in [
        (&KEY, "cus", TWEET, "cus_1RaoBzHuVr44yahB"),
        (&KEY, "ord", TWEET, "ord_ELBfswJNuTtjD5ic"),
        (&KEY, "cus", 0, "cus_A2M3ymL4TwA6DgyL"),
        (&KEY, "cus", i64::MAX, "cus_5ofrEJf879TF5kz3"),
        (&ZEROS, "a123456789012345", 1, "a123456789012345_6BjocA87PmVgVU63"),
    ] {
        let ids = public(prefix, Some(key));
        assert_eq!(text_of(&ids, id), text);
        assert_eq!(ids.id(text.as_bytes()), Ok(id));
    }
}

#[test]
fn uuids_without_a_key_show_the_digits_of_the_id() {
    for (id, uuid) in [
        (0, "00000000-0000-8000-8000-000000000000"),
        (1, "00000000-0000-8000-8100-000000000000"),
        (TWEET, "1565a11f-6217-8a00-8000-000000000000"),
        (0x1565b3a2c4d5e6f7, "1565b3a2-c4d5-8e6f-8700-000000000000"),
        (i64::MAX, "7fffffff-ffff-8fff-8f00-000000000000"),
    ] {
        assert_eq!(written(Uuids::new(None).uuid(id).unwrap()), uuid);
        assert_eq!(Uuids::new(None).id(&read(uuid)), Ok(id));
    }
}

/// As for texts.
#[test]
fn uuids_with_a_key_never_change() {
    for (key, prefix, id, uuid) in [
        (&KEY, "", TWEET, "abdefba1-845f-85f4-9e5f-8f0586170cb0"),
        (&KEY, "cus", TWEET, "f9a71419-76e8-823f-b10d-2949ee9b5803"),
        (&KEY, "", 0, "8205a199-04a4-8e11-8f94-021eb80381ef"),
        (&KEY, "", i64::MAX, "29b26dbb-6843-88e7-8558-534c1ce5a721"),
        (&ZEROS, "", 1, "cd0f7564-8ac9-881f-aff4-e284dbc583a0"),
    ] {
        assert_eq!(written(uuids(key, prefix).uuid(id).unwrap()), uuid);
        assert_eq!(uuids(key, prefix).id(&read(uuid)), Ok(id));
    }
}

#[test]
fn prefixes_that_are_none() {
    for (text, problem) in [
        ("", PrefixError::Empty),
        ("Cus", PrefixError::Character(1)),
        ("cu_s", PrefixError::Character(3)),
        ("cusé", PrefixError::Character(4)),
        ("a1234567890123456", PrefixError::TooLong),
        ("a123456789012345 ", PrefixError::TooLong),
    ] {
        assert_eq!(Prefix::new(text.as_bytes()), Err(problem), "{text}");
    }
    assert_eq!(Prefix::new(b"a123456789012345").unwrap().as_bytes(), b"a123456789012345");
}

#[test]
fn texts_that_are_no_public_ids() {
    let other = |text| PublicTextError::OtherPrefix(prefix(text));
    let length = |found, expected| PublicTextError::Length { found, expected };
    let cases: [(Option<&[u8; KEY_BYTES]>, &str, PublicTextError); 17] = [
        (None, "", other("cus")),
        (None, "cus", other("cus")),
        (None, "4aaW4SzAyQK", other("cus")),
        (None, "ord_4aaW4SzAyQK", other("cus")),
        (None, "cust_4aaW4SzAyQK", other("cus")),
        (None, "CUS_4aaW4SzAyQK", other("cus")),
        (None, "cus_", length(0, 11)),
        // Leading zeros must not be omitted or added.
        (None, "cus_2", length(1, 11)),
        (None, "cus_14aaW4SzAyQK", length(12, 11)),
        (None, "cus_4aaW4SzAyQ0", PublicTextError::Character(15)),
        (None, "cus_4aaW4SzAyQé", PublicTextError::Character(15)),
        (None, "cus_NQm6nKp8qFD", PublicTextError::TooLarge),
        // With a key where none was used, and vice versa.
        (None, "cus_1RaoBzHuVr44yahB", length(16, 11)),
        (Some(&KEY), "cus_4aaW4SzAyQK", length(11, 16)),
        (Some(&KEY), "cus_1RaoBzHuVr44yah-", PublicTextError::Character(20)),
        (Some(&KEY), "cus_1RaoBzHuVr44yahC", PublicTextError::Tag),
        (Some(&ZEROS), "cus_1RaoBzHuVr44yahB", PublicTextError::Tag),
    ];
    for (key, text, problem) in cases {
        assert_eq!(public("cus", key).id(text.as_bytes()), Err(problem), "{text}");
    }
    // A text of another table, with this table's prefix.
    let moved = public("cus", Some(&KEY)).id(b"cus_ELBfswJNuTtjD5ic");
    assert_eq!(moved, Err(PublicTextError::Tag));
}

#[test]
fn uuids_that_are_of_no_id() {
    for (uuid, problem) in [
        ("018f2f3c-7c10-7000-8000-000000000000", UuidError::Version(7)),
        ("1565a11f-6217-4a00-8000-000000000000", UuidError::Version(4)),
        ("1565a11f-6217-8a00-c000-000000000000", UuidError::Variant),
        ("00000000-0000-0000-0000-000000000000", UuidError::Variant),
        ("ffffffff-ffff-ffff-ffff-ffffffffffff", UuidError::Variant),
        ("1565a11f-6217-8a00-9000-000000000000", UuidError::NotPlain),
        ("1565a11f-6217-8a00-8000-000000000001", UuidError::NotPlain),
        ("1565a11f-6217-8a00-8080-000000000000", UuidError::NotPlain),
        ("80000000-0000-8000-8000-000000000000", UuidError::TooLarge),
        ("abdefba1-845f-85f4-9e5f-8f0586170cb0", UuidError::NotPlain),
    ] {
        assert_eq!(Uuids::new(None).id(&read(uuid)), Err(problem), "{uuid}");
    }
    for (uuid, problem) in [
        ("1565a11f-6217-8a00-8000-000000000000", UuidError::Tag),
        ("abdefba1-845f-45f4-9e5f-8f0586170cb0", UuidError::Version(4)),
        ("abdefba1-845f-85f4-5e5f-8f0586170cb0", UuidError::Variant),
        // The tag of the prefix "cus".
        ("f9a71419-76e8-823f-b10d-2949ee9b5803", UuidError::Tag),
    ] {
        assert_eq!(uuids(&KEY, "").id(&read(uuid)), Err(problem), "{uuid}");
    }
    assert_eq!(uuids(&ZEROS, "").id(&read("abdefba1-845f-85f4-9e5f-8f0586170cb0")), Err(UuidError::Tag));
}

#[test]
fn negative_numbers_are_refused() {
    for key in [None, Some(&KEY)] {
        let problem = public("cus", key).text(-1, &mut [0; MAX_TEXT]).map(str::to_owned);
        assert_eq!(problem, Err(RangeError::NegativeId(-1)));
        assert_eq!(Uuids::new(key.map(|key| (key, Prefix::NONE))).uuid(-1), Err(RangeError::NegativeId(-1)));
    }
}

/// Every bit matters except those of version and variant.
#[test]
fn a_uuid_of_which_one_bit_was_changed_is_refused() {
    let sealed = uuids(&KEY, "cus");
    let uuid = u128::from_be_bytes(sealed.uuid(TWEET).unwrap());
    for bit in 0..128 {
        assert!(sealed.id(&(uuid ^ (1 << bit)).to_be_bytes()).is_err(), "bit {bit}");
    }
}

#[test]
fn a_text_of_which_one_letter_was_changed_is_refused() {
    let sealed = public("cus", Some(&KEY));
    let text = text_of(&sealed, TWEET).into_bytes();
    for at in 0..text.len() {
        for letter in 0..=255 {
            let mut changed = text.clone();
            changed[at] = letter;
            assert_eq!(sealed.id(&changed).is_ok(), changed == text, "{at} {letter}");
        }
    }
}

/// Texts and UUIDs with the same key, and masks, have nothing in common that would reveal that they are of the same ID.
#[test]
fn forms_and_prefixes_of_one_id_look_unrelated() {
    let mut numbers = HashSet::new();
    let letters = |text: String| text.rsplit_once('_').unwrap().1[..11].to_owned();
    for prefix in ["cus", "ord", "c", "cu"] {
        numbers.insert(letters(text_of(&public(prefix, Some(&KEY)), TWEET)));
        let bits = u128::from_be_bytes(uuids(&KEY, prefix).uuid(TWEET).unwrap());
        let masked = bits >> 80 << 15 | (bits >> 64 & 0xFFF) << 3 | (bits >> 59 & 0x7);
        numbers.insert(letters(text_of(&public("x", None), masked as i64)));
    }
    let masked = snowflake_id_core::Mask::new(&KEY).mask(TWEET).unwrap();
    numbers.insert(letters(text_of(&public("x", None), masked)));
    assert_eq!(numbers.len(), 9);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn texts_lead_back(key in any::<Option<[u8; KEY_BYTES]>>(), prefix in prefixes(), id in ids()) {
        let ids = public(&prefix, key.as_ref());
        let text = text_of(&ids, id);
        prop_assert_eq!(text.len(), prefix.len() + if key.is_some() { 17 } else { 12 });
        prop_assert_eq!(ids.id(text.as_bytes()), Ok(id));
    }

    #[test]
    fn uuids_lead_back(key in any::<Option<[u8; KEY_BYTES]>>(), text in prefixes(), id in ids()) {
        let ids = Uuids::new(key.as_ref().map(|key| (key, prefix(&text))));
        let uuid = ids.uuid(id).unwrap();
        let parsed = uuid::Uuid::from_bytes(uuid);
        prop_assert_eq!(parsed.get_version_num(), 8);
        prop_assert_eq!(parsed.get_variant(), uuid::Variant::RFC4122);
        prop_assert_eq!(ids.id(&uuid), Ok(id));
    }

    /// An ID has exactly one text and one UUID: reading and writing are inverse.
    #[test]
    fn what_is_read_is_written_so(key in any::<Option<[u8; KEY_BYTES]>>(), text in "cus_[1-9A-Za-z]{11}([1-9A-Za-z]{5})?", bits in any::<u128>()) {
        let ids = public("cus", key.as_ref());
        if let Ok(id) = ids.id(text.as_bytes()) {
            prop_assert_eq!(text_of(&ids, id), text);
        }
        let ids = Uuids::new(key.as_ref().map(|key| (key, Prefix::NONE)));
        let version_8 = bits & !(0xF << 76 | 0b11 << 62) | 8 << 76 | 0b10 << 62;
        for uuid in [bits.to_be_bytes(), version_8.to_be_bytes()] {
            if let Ok(id) = ids.id(&uuid) {
                prop_assert_eq!(ids.uuid(id).unwrap(), uuid);
            }
        }
    }

    #[test]
    fn both_forms_without_a_key_sort_as_the_ids_do(one in ids(), other in ids()) {
        let texts = public("cus", None);
        prop_assert_eq!(text_of(&texts, one).cmp(&text_of(&texts, other)), one.cmp(&other));
        let uuids = Uuids::new(None);
        prop_assert_eq!(uuids.uuid(one).unwrap().cmp(&uuids.uuid(other).unwrap()), one.cmp(&other));
    }

    #[test]
    fn other_keys_and_prefixes_are_refused(key in any::<[u8; KEY_BYTES]>(), other in any::<[u8; KEY_BYTES]>(), id in ids()) {
        prop_assume!(key != other);
        let text = text_of(&public("cus", Some(&key)), id);
        prop_assert_eq!(public("cus", Some(&other)).id(text.as_bytes()), Err(PublicTextError::Tag));
        let uuid = uuids(&key, "cus").uuid(id).unwrap();
        prop_assert_eq!(uuids(&other, "cus").id(&uuid), Err(UuidError::Tag));
        prop_assert_eq!(uuids(&key, "ord").id(&uuid), Err(UuidError::Tag));
    }
}
