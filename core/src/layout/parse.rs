//! The text form of a layout.
//!
//! ```text
//! time:41 datacenter:5 worker:5 sequence:12 unit=1ms epoch=2010-11-04T01:42:54.657Z
//! twitter epoch=2024-01-01T00:00:00Z
//! ```
//!
//! Words are separated by ASCII white space. A layout starts with its fields (`name:bits`), most significant
//! first, or with the name of a preset. `unit=` and `epoch=` can follow, in any order. If `unit=` or `epoch=`
//! is omitted, the value is taken from the preset, or from preset `standard` if the layout starts with
//! fields. A layout is always printed in the canonical form, which lists all fields, the unit and the epoch.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use super::{Layout, presets};
use crate::error::LayoutError;
use crate::field::Field;
use crate::message::{instant, shown};
use crate::time_scale::{EPOCH_RANGE_US, MAX_UNIT_US};

const UNIT: &str = "unit";
const EPOCH: &str = "epoch";
/// The default unit of a layout that starts with fields. Preset `standard` has the same unit and epoch.
const DEFAULT_UNIT_US: u64 = 1_000;
const DEFAULT_EPOCH_US: i64 = 1_704_067_200_000_000;
/// The suffixes of a unit, longest first, with their values in microseconds.
const UNIT_SUFFIXES: [(&str, u64); 3] = [("ms", 1_000), ("us", 1), ("s", 1_000_000)];
/// The maximum length of the text form of a layout, in bytes. A layout with all fields and both options takes
/// less than 150 bytes. A longer text is rejected before any memory is allocated for it.
const MAX_TEXT_BYTES: usize = 1_000;

impl Layout {
    /// Reads a layout from its text form. The text may be in any character encoding, because only ASCII
    /// characters are valid in a layout.
    ///
    /// # Errors
    /// Returns the same errors as [`str::parse`].
    pub fn from_bytes(text: &[u8]) -> Result<Layout, LayoutError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(LayoutError::TooLong { most: MAX_TEXT_BYTES });
        }
        String::from_utf8_lossy(text).parse()
    }
}

impl FromStr for Layout {
    type Err = LayoutError;

    fn from_str(text: &str) -> Result<Layout, LayoutError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(LayoutError::TooLong { most: MAX_TEXT_BYTES });
        }
        let mut words = text.split_ascii_whitespace().peekable();
        let first = *words.peek().ok_or(LayoutError::Empty)?;
        let preset = match first.contains([':', '=']) {
            true => None,
            false => Some(preset(first)?),
        };
        if preset.is_some() {
            words.next();
        }

        let mut fields = Vec::new();
        let mut unit_us = None;
        let mut epoch_us = None;
        for word in words {
            if let Some((name, bits)) = word.split_once(':').filter(|(name, _)| !name.contains('=')) {
                let field = Field::from_name(name).ok_or_else(|| not_a_name(word, name, field_names()))?;
                let rule = if preset.is_some() {
                    Some("a preset already defines its fields")
                } else if unit_us.is_some() || epoch_us.is_some() {
                    Some("fields must come before options")
                } else {
                    None
                };
                if let Some(rule) = rule {
                    return Err(LayoutError::Misplaced { token: shown(word), rule });
                }
                fields.push((field, parse_bits(field, bits)?));
            } else if let Some((name, value)) = word.split_once('=') {
                match name {
                    UNIT => set_once(UNIT, &mut unit_us, parse_unit(value)?)?,
                    EPOCH => set_once(EPOCH, &mut epoch_us, parse_epoch(value)?)?,
                    _ => return Err(not_a_name(word, name, vec![UNIT, EPOCH])),
                }
            } else if presets::find(word).is_some() {
                return Err(LayoutError::Misplaced {
                    token: shown(word),
                    rule: "only the first word can be a preset",
                });
            } else {
                let mut candidates = field_names();
                candidates.extend([UNIT, EPOCH]);
                return Err(not_a_name(word, word, candidates));
            }
        }

        match preset {
            Some(preset) => Layout::new(
                &preset.fields(),
                unit_us.unwrap_or(preset.unit_us()),
                epoch_us.unwrap_or(preset.epoch_us()),
            ),
            None => {
                Layout::new(&fields, unit_us.unwrap_or(DEFAULT_UNIT_US), epoch_us.unwrap_or(DEFAULT_EPOCH_US))
            }
        }
    }
}

fn preset(name: &str) -> Result<Layout, LayoutError> {
    match presets::find(name) {
        Some(preset) => Ok(preset.layout()),
        None => Err(not_a_name(name, name, presets::PRESETS.iter().map(|preset| preset.name).collect())),
    }
}

/// Returns the error for a word that starts with an invalid name. `word` is the word, `name` is the invalid
/// name, and `candidates` are the names that would be valid.
fn not_a_name(word: &str, name: &str, candidates: Vec<&'static str>) -> LayoutError {
    let known = Field::from_name(name).map(Field::example).or(match name {
        UNIT => Some("unit=1ms"),
        EPOCH => Some("epoch=2024-01-01T00:00:00Z"),
        _ => None,
    });
    match known {
        _ if word.contains([',', ';']) => LayoutError::Separator { token: shown(word) },
        Some(example) => LayoutError::Form { token: shown(word), example },
        None => unknown(name, candidates),
    }
}

pub(super) fn field_names() -> Vec<&'static str> {
    Field::ALL.map(Field::name).to_vec()
}

pub(super) fn unknown(token: &str, candidates: Vec<&'static str>) -> LayoutError {
    LayoutError::UnknownName { token: shown(token), candidates }
}

fn set_once<T>(name: &'static str, option: &mut Option<T>, value: T) -> Result<(), LayoutError> {
    match option.replace(value) {
        Some(_) => Err(LayoutError::RepeatedOption(name)),
        None => Ok(()),
    }
}

/// Parses a number that consists of digits only. A sign is not accepted.
fn parse_digits<T: FromStr>(digits: &str) -> Option<T> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn parse_bits(field: Field, bits: &str) -> Result<u32, LayoutError> {
    parse_digits(bits).ok_or_else(|| match bits.contains([',', ';']) {
        true => LayoutError::Separator { token: shown(format!("{}:{bits}", field.name())) },
        false => LayoutError::FieldBits { field, bits: shown(bits) },
    })
}

pub(super) fn parse_unit(unit: &str) -> Result<u64, LayoutError> {
    UNIT_SUFFIXES
        .into_iter()
        .find_map(|(suffix, factor)| {
            let count: u64 = parse_digits(unit.strip_suffix(suffix)?)?;
            count.checked_mul(factor)
        })
        .filter(|&unit_us| (1..=MAX_UNIT_US).contains(&unit_us))
        .ok_or_else(|| LayoutError::Unit(shown(unit)))
}

pub(super) fn print_unit(unit_us: u64) -> String {
    match unit_us {
        _ if unit_us.is_multiple_of(1_000_000) => format!("{}s", unit_us / 1_000_000),
        _ if unit_us.is_multiple_of(1_000) => format!("{}ms", unit_us / 1_000),
        _ => format!("{unit_us}us"),
    }
}

pub(super) fn parse_epoch(epoch: &str) -> Result<i64, LayoutError> {
    epoch
        .parse::<Timestamp>()
        .ok()
        .filter(|instant| instant.subsec_nanosecond() % 1_000 == 0)
        .map(Timestamp::as_microsecond)
        .filter(|epoch_us| EPOCH_RANGE_US.contains(epoch_us))
        .ok_or_else(|| LayoutError::Epoch(shown(epoch)))
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (field, bits) in self.fields() {
            write!(f, "{}:{bits} ", field.name())?;
        }
        write!(f, "{UNIT}={} {EPOCH}={}", print_unit(self.unit_us()), instant(self.epoch_us()))
    }
}
