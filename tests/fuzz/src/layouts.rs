//! Layouts.

use snowflake_id_core::error::LayoutError;
use snowflake_id_core::{Identity, Layout};

/// More than any error has.
const MOST_TEXT: usize = 1_000;

/// A layout as text, in any encoding.
pub fn text(data: &[u8]) {
    match Layout::from_bytes(data) {
        Ok(layout) => check(&layout),
        Err(error) => check_error(&error),
    }
}

/// A layout as JSON.
pub fn json(data: &[u8]) {
    match serde_json::from_slice::<Layout>(data) {
        Ok(layout) => check(&layout),
        Err(error) => drop(error.to_string()),
    }
}

fn check(layout: &Layout) {
    let text = layout.to_string();
    assert_eq!(text.parse().as_ref(), Ok(layout), "{text}");
    let json = serde_json::to_string(layout).expect("a layout can be written as JSON");
    assert_eq!(serde_json::from_str::<Layout>(&json).ok().as_ref(), Some(layout), "{json}");
    assert!((1..=63).contains(&layout.total_bits()));
    let largest = i64::MAX >> (63 - layout.total_bits());
    for id in [0, 1, largest / 3, largest / 2, largest] {
        let parts = layout.unpack(id).expect("the ID is in the layout");
        assert_eq!(layout.pack(&parts), Ok(id), "{text}");
        let decoded = layout.decode(id).expect("the ID is in the layout");
        assert!((layout.epoch_us()..layout.end_us()).contains(&decoded.generated_at), "{text}");
        assert!(
            layout.min_id(decoded.generated_at) <= id && id <= layout.max_id(decoded.generated_at),
            "{text}"
        );
        assert_eq!(layout.tick_at(decoded.generated_at), Ok(parts.tick), "{text}");
    }
    for id in [-1, i64::MIN] {
        assert!(layout.decode(id).is_err(), "{text}");
    }
    for instant in [i64::MIN, 0, i64::MAX] {
        assert!(layout.min_id(instant) <= layout.max_id(instant).saturating_add(1), "{text}");
    }
    assert!(layout.workers() > 0 && layout.ids_per_second() > 0.0);
    assert!(layout.label().is_ascii());
    assert!(layout.reader_sql().is_ascii());
    let identity = Identity { datacenter: 0, worker: 1 };
    match layout.generator_sql(identity) {
        Ok(script) => assert!(script.is_ascii()),
        Err(problem) => drop(layout.explain_misfit(&problem)),
    }
}

fn check_error(error: &LayoutError) {
    let text = error.to_string() + &error.allowed();
    assert!(text.is_ascii() && text.len() < MOST_TEXT, "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
}
