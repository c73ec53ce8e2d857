//! IDs in other forms.

use snowflake_id_core::guess::{FIRST_US, MAX_AHEAD_US, OLDEST_US};
use snowflake_id_core::id_text::{Encoding, Fault, MAX_WIDTH};
use snowflake_id_core::public::{MAX_TEXT, Prefix, PublicIds, PublicTextError, Uuids};
use snowflake_id_core::short_mask::{Domain, ShortMask};

use crate::split_number;

const KEY: &[u8; 16] = b"a key for a test";

/// A text in the encoding that the first byte selects.
pub fn text(data: &[u8]) {
    let Some((which, text)) = data.split_first() else { return };
    let encoding = Encoding::ALL[usize::from(*which) % Encoding::ALL.len()];
    match encoding.decode(text) {
        Ok(id) => {
            let mut buffer = [0; MAX_WIDTH];
            let canonical = encoding.encode(id, &mut buffer).expect("an ID is not negative");
            assert_eq!(encoding.decode(canonical.as_bytes()), Ok(id));
            // Each encoding reads the text of another as another number or not at all, but reads its own.
            for other in Encoding::ALL {
                let mut buffer = [0; MAX_WIDTH];
                let text = other.encode(id, &mut buffer).expect("an ID is not negative");
                assert_eq!(other.decode(text.as_bytes()), Ok(id));
            }
        }
        Err(error) => {
            let (Fault::Character(at) | Fault::TooShort(at) | Fault::TooLong(at) | Fault::TooLarge(at)) =
                error.fault
            else {
                assert!(text.iter().all(|character| *character == b'-'), "{text:?} is not empty");
                return;
            };
            assert!((1..=text.len()).contains(&at), "{error} of {} characters", text.len());
            assert!(error.to_string().is_ascii());
        }
    }
    assert_eq!(Encoding::from_name(text).map(|encoding| encoding.name().as_bytes()).unwrap_or(text), text);
}

/// A public ID with a prefix: the prefix, a line break, and the text.
pub fn public(data: &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (prefix, text) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let prefix = match Prefix::new(prefix) {
        Ok(prefix) => prefix,
        Err(error) => return assert!((error.to_string() + &error.allowed()).is_ascii()),
    };
    for key in [None, Some(KEY)] {
        let ids = PublicIds::new(prefix, key);
        match ids.id(text) {
            Ok(id) => {
                // There is exactly one text for each ID.
                let mut buffer = [0; MAX_TEXT];
                assert_eq!(ids.text(id, &mut buffer).expect("an ID is not negative").as_bytes(), text);
            }
            Err(error) => {
                if let PublicTextError::Character(at) = error {
                    assert!((1..=text.len()).contains(&at));
                }
                assert!((error.to_string() + &error.allowed()).is_ascii());
            }
        }
    }
}

/// A UUID, and a number that is made a UUID.
pub fn uuid(data: &[u8]) {
    let (id, rest) = split_number(data);
    let mut uuid = [0; 16];
    let length = rest.len().min(16);
    uuid[..length].copy_from_slice(&rest[..length]);
    for key in [None, Some((KEY, Prefix::NONE))] {
        let uuids = Uuids::new(key);
        match uuids.id(&uuid) {
            Ok(id) => assert_eq!(uuids.uuid(id), Ok(uuid)),
            Err(error) => assert!((error.to_string() + error.allowed()).is_ascii()),
        }
        match uuids.uuid(id) {
            Ok(uuid) => assert_eq!(uuids.id(&uuid), Ok(id)),
            Err(_) => assert!(id < 0),
        }
    }
}

/// A number and a clock. The rest selects a mask.
pub fn guess(data: &[u8]) {
    let (id, rest) = split_number(data);
    let (now_us, rest) = split_number(rest);
    for guess in snowflake_id_core::guess::guess(id, now_us) {
        let layout = guess.preset.layout();
        assert_eq!(layout.decode(id), Ok(guess.decoded));
        let earliest_us = OLDEST_US.max(layout.epoch_us() + FIRST_US);
        let latest_us = now_us.saturating_add(MAX_AHEAD_US);
        assert!((earliest_us..=latest_us).contains(&guess.decoded.generated_at));
    }
    let digits = i32::from(rest.first().copied().unwrap_or_default());
    let Ok(domain) = Domain::digits(digits) else { return };
    let mask = ShortMask::new(KEY, domain);
    match mask.mask(id) {
        Ok(masked) => {
            assert!((0..=domain.max()).contains(&masked));
            assert_eq!(mask.unmask(masked), Ok(id));
        }
        Err(error) => {
            assert!(!(0..=domain.max()).contains(&id));
            assert!((error.to_string() + &error.allowed()).is_ascii());
        }
    }
}
