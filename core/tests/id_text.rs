//! IDs as text: compared with a model that divides and multiplies digit by digit, and with arbitrary input.

use proptest::prelude::*;
use snowflake_id_core::id_text::{Encoding, Fault, MAX_WIDTH, TextError};

/// The digits of an encoding, in ascending order.
fn alphabet(encoding: Encoding) -> &'static [u8] {
    match encoding {
        Encoding::Crockford32 => b"0123456789ABCDEFGHJKMNPQRSTVWXYZ",
        Encoding::Base36 => b"0123456789abcdefghijklmnopqrstuvwxyz",
        Encoding::Base58 => b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
        Encoding::Base62 => b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        Encoding::Base64url => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
        Encoding::Decimal => b"0123456789",
        Encoding::Hex => b"0123456789abcdef",
    }
}

/// The model: digits by division. The eight bytes of `base64url` are followed by two zero bits.
fn digits_of(encoding: Encoding, id: i64) -> Vec<u8> {
    let alphabet = alphabet(encoding);
    let mut left = if encoding == Encoding::Base64url { id as u128 * 4 } else { id as u128 };
    let mut digits = vec![alphabet[0]; encoding.width()];
    for digit in digits.iter_mut().rev() {
        *digit = alphabet[(left % alphabet.len() as u128) as usize];
        left /= alphabet.len() as u128;
    }
    assert_eq!(left, 0);
    digits
}

fn encode(encoding: Encoding, id: i64) -> String {
    encoding.encode(id, &mut [0; MAX_WIDTH]).unwrap().to_owned()
}

fn fault(encoding: Encoding, text: &[u8]) -> Fault {
    let TextError { encoding: named, fault } = encoding.decode(text).unwrap_err();
    assert_eq!(named, encoding);
    fault
}

fn encodings() -> impl Strategy<Value = Encoding> {
    prop::sample::select(Encoding::ALL.to_vec())
}

/// IDs of all magnitudes.
fn ids() -> impl Strategy<Value = i64> {
    (0..=i64::MAX, 0u32..63).prop_map(|(id, shift)| id >> shift)
}

#[test]
fn names_lead_back_to_their_encodings() {
    for encoding in Encoding::ALL {
        assert_eq!(Encoding::from_name(encoding.name().as_bytes()), Some(encoding));
    }
    for name in [&b""[..], b"HEX", b"hex ", b"base64", b"base32", b"\xff"] {
        assert_eq!(Encoding::from_name(name), None);
    }
}

#[test]
fn texts_of_well_known_ids() {
    let texts = |id| Encoding::ALL.map(|encoding| encode(encoding, id));
    assert_eq!(
        texts(0),
        [
            "0000000000000",
            "0000000000000",
            "11111111111",
            "00000000000",
            "AAAAAAAAAAA",
            "0000000000000000000",
            "0000000000000000"
        ]
    );
    assert_eq!(
        texts(i64::MAX),
        [
            "7ZZZZZZZZZZZZ",
            "1y2p0ij32e8e7",
            "NQm6nKp8qFC",
            "AzL8n0Y58m7",
            "f_________8",
            "9223372036854775807",
            "7fffffffffffffff"
        ]
    );
    // A tweet.
    assert_eq!(
        texts(1541815603606036480),
        [
            "1ASD13XH1F800",
            "0bppc0m3ju134",
            "4aaW4SzAyQK",
            "1ptWyK4WgZU",
            "FWWhH2IXoAA",
            "1541815603606036480",
            "1565a11f6217a000"
        ]
    );
}

#[test]
fn negative_ids_have_no_text() {
    for encoding in Encoding::ALL {
        assert!(encoding.encode(-1, &mut [0; MAX_WIDTH]).is_err());
        assert!(encoding.encode(i64::MIN, &mut [0; MAX_WIDTH]).is_err());
    }
}

#[test]
fn widths_are_those_of_the_largest_id() {
    for encoding in Encoding::ALL {
        let radix = alphabet(encoding).len() as u128;
        let width = encoding.width() as u32;
        assert!(radix.pow(width) > i64::MAX as u128 && radix.pow(width - 1) <= i64::MAX as u128);
    }
}

#[test]
fn the_next_number_after_the_largest_id_is_too_large() {
    for (encoding, text, position) in [
        (Encoding::Crockford32, "8000000000000", 1),
        (Encoding::Crockford32, "ZZZZZZZZZZZZZ", 1),
        (Encoding::Base36, "1y2p0ij32e8e8", 13),
        (Encoding::Base36, "1z00000000000", 2),
        (Encoding::Base36, "zzzzzzzzzzzzz", 1),
        (Encoding::Base58, "NQm6nKp8qFD", 11),
        (Encoding::Base58, "zzzzzzzzzzz", 1),
        (Encoding::Base62, "AzL8n0Y58m8", 11),
        (Encoding::Base62, "zzzzzzzzzzz", 1),
        (Encoding::Base64url, "gAAAAAAAAAA", 1),
        (Encoding::Base64url, "__________8", 1),
        (Encoding::Decimal, "9223372036854775808", 19),
        (Encoding::Decimal, "9999999999999999999", 2),
        (Encoding::Hex, "8000000000000000", 1),
        (Encoding::Hex, "ffffffffffffffff", 1),
    ] {
        assert_eq!(fault(encoding, text.as_bytes()), Fault::TooLarge(position), "{text}");
    }
    // Hyphens count as characters.
    assert_eq!(fault(Encoding::Crockford32, b"--8000-000-000-000"), Fault::TooLarge(3));
}

#[test]
fn crockfords_letters_that_look_like_digits() {
    let decode = |text: &str| Encoding::Crockford32.decode(text.as_bytes());
    for text in ["1AIL0O", "1ail0o", "1A1100", "1a-1l-0O", "--1AiL-oO-"] {
        assert_eq!(decode(text), decode("1A1100"), "{text}");
    }
    assert_eq!(decode("1"), Ok(1));
    assert_eq!(decode("7zzzz-zzzz-zzzz"), Ok(i64::MAX));
    for (text, position) in [("U", 1), ("u", 1), ("7--U", 4), ("1=", 2), ("1*", 2), ("1~", 2), ("1$", 2)] {
        assert_eq!(fault(Encoding::Crockford32, text.as_bytes()), Fault::Character(position), "{text}");
    }
    assert_eq!(fault(Encoding::Crockford32, b"-"), Fault::Empty);
    assert_eq!(fault(Encoding::Crockford32, b"0000-0000-0000-0-0"), Fault::TooLong(18));
}

#[test]
fn texts_that_are_none() {
    for encoding in Encoding::ALL {
        assert_eq!(fault(encoding, b""), Fault::Empty);
        let text = encode(encoding, 1);
        assert_eq!(fault(encoding, format!("{text}{text}").as_bytes()), Fault::TooLong(encoding.width() + 1));
        for bad in ["+1", "\u{e9}1", " 1", "\n", "\0", "=", "!", "\u{1f600}"] {
            assert_eq!(fault(encoding, bad.as_bytes()), Fault::Character(1), "{bad:?}");
        }
        // The text after them is not ASCII, and is invalid in every encoding that Rust supports.
        assert_eq!(fault(encoding, b"23\xe9\xff45"), Fault::Character(3));
    }
    for (encoding, text, position) in [
        (Encoding::Decimal, "-1", 1),
        (Encoding::Decimal, "1e5", 2),
        (Encoding::Decimal, "1_000", 2),
        (Encoding::Hex, "0xff", 2),
        (Encoding::Hex, "fg", 2),
        (Encoding::Base58, "2O", 2),
        (Encoding::Base58, "20", 2),
        (Encoding::Base58, "2I", 2),
        (Encoding::Base58, "2l", 2),
        (Encoding::Base62, "a-b", 2),
        (Encoding::Base64url, "AAAAAAAAA+A", 10),
        (Encoding::Base64url, "AAAAAAAAAA=", 11),
        // Two bits of the last character are left over.
        (Encoding::Base64url, "AAAAAAAAAAB", 11),
    ] {
        assert_eq!(fault(encoding, text.as_bytes()), Fault::Character(position), "{text}");
    }
    assert_eq!(fault(Encoding::Base64url, b"AAAAAAAAAA"), Fault::TooShort(10));
    assert_eq!(fault(Encoding::Base64url, b"A"), Fault::TooShort(1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn texts_are_those_of_the_model(encoding in encodings(), id in ids()) {
        prop_assert_eq!(encode(encoding, id).into_bytes(), digits_of(encoding, id));
    }

    #[test]
    fn decoding_undoes_encoding(encoding in encodings(), id in ids()) {
        prop_assert_eq!(encoding.decode(encode(encoding, id).as_bytes()), Ok(id));
    }

    #[test]
    fn leading_zeros_may_be_left_out(encoding in encodings(), id in ids()) {
        let text = encode(encoding, id);
        let zero = char::from(alphabet(encoding)[0]);
        let mut rest = &text[..];
        while let Some(shorter) = rest.strip_prefix(zero).filter(|shorter| !shorter.is_empty()) {
            rest = shorter;
            let expected = match encoding {
                Encoding::Base64url => Err(Fault::TooShort(rest.len())),
                _ => Ok(id),
            };
            prop_assert_eq!(encoding.decode(rest.as_bytes()).map_err(|error| error.fault), expected);
        }
    }

    #[test]
    fn texts_sort_as_the_ids_do(one in ids(), other in ids()) {
        for encoding in Encoding::ALL.into_iter().filter(|encoding| *encoding != Encoding::Base64url) {
            prop_assert_eq!(encode(encoding, one).cmp(&encode(encoding, other)), one.cmp(&other));
        }
    }

    #[test]
    fn case_does_not_matter_where_an_alphabet_has_one(id in ids()) {
        for encoding in [Encoding::Crockford32, Encoding::Base36, Encoding::Hex] {
            let text = encode(encoding, id);
            prop_assert_eq!(encoding.decode(text.to_ascii_lowercase().as_bytes()), Ok(id));
            prop_assert_eq!(encoding.decode(text.to_ascii_uppercase().as_bytes()), Ok(id));
        }
    }

    /// Any text with one wrong character is refused, and the error names that character.
    #[test]
    fn a_wrong_character_is_found(
        encoding in encodings(),
        id in ids(),
        at in any::<prop::sample::Index>(),
        wrong in any::<prop::sample::Index>(),
    ) {
        let is_read = |character: &u8| match encoding {
            Encoding::Crockford32 => {
                *character == b'-' || (character.is_ascii_alphanumeric() && !b"uU".contains(character))
            }
            Encoding::Base36 => character.is_ascii_alphanumeric(),
            Encoding::Hex => character.is_ascii_hexdigit(),
            _ => alphabet(encoding).contains(character),
        };
        let not_read: Vec<u8> = (0..=u8::MAX).filter(|character| !is_read(character)).collect();
        let wrong = not_read[wrong.index(not_read.len())];
        let mut text = encode(encoding, id).into_bytes();
        let at = at.index(text.len());
        text[at] = wrong;
        prop_assert_eq!(fault(encoding, &text), Fault::Character(at + 1));
        // The error names the first wrong character.
        text[at..].fill(wrong);
        prop_assert_eq!(fault(encoding, &text), Fault::Character(at + 1));
        text.push(wrong);
        prop_assert_eq!(fault(encoding, &text), Fault::Character(at + 1));
    }

    /// Random digits are either the text of an ID, or exceed the largest ID at the first position at which they differ
    /// from its text.
    #[test]
    fn any_digits_are_an_id_or_too_large(encoding in encodings(), values in prop::collection::vec(any::<u8>(), MAX_WIDTH)) {
        let known = alphabet(encoding);
        let mut text: Vec<u8> = values.iter().map(|value| known[usize::from(*value) % known.len()]).collect();
        text.truncate(encoding.width());
        if encoding == Encoding::Base64url {
            let last = usize::from(values[10] % 16) * 4;
            text[10] = known[last];
        }
        match encoding.decode(&text) {
            Ok(id) => prop_assert_eq!(digits_of(encoding, id), text),
            Err(error) => {
                let value = |digit: u8| known.iter().position(|known| *known == digit);
                let largest = digits_of(encoding, i64::MAX);
                let differs = (0..text.len()).find(|&at| text[at] != largest[at]).unwrap();
                prop_assert!(value(text[differs]) > value(largest[differs]));
                prop_assert_eq!(error.fault, Fault::TooLarge(differs + 1));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(encoding in encodings(), text in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Err(error) = encoding.decode(&text) {
            prop_assert!(!error.to_string().is_empty());
            let position = match error.fault {
                Fault::Empty => 1,
                Fault::Character(at) | Fault::TooShort(at) | Fault::TooLong(at) | Fault::TooLarge(at) => at,
            };
            prop_assert!(position >= 1 && position <= text.len().max(1));
        }
    }

    /// Strings close to a text: characters of some encoding, and hyphens.
    #[test]
    fn text_that_is_nearly_right_never_panics(encoding in encodings(), text in "[0-9A-Za-z_+=-]{0,25}") {
        if let Ok(id) = encoding.decode(text.as_bytes()) {
            let canonical = encode(encoding, id);
            prop_assert_eq!(encoding.decode(canonical.as_bytes()), Ok(id));
            let hyphens = text.bytes().filter(|byte| *byte == b'-').count();
            prop_assert!(text.len() <= canonical.len() + hyphens);
        }
    }
}
