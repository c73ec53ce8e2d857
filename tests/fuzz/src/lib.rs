//! The parsers of `snowflake-id-core`, each as a function of any bytes.
//!
//! A target panics if the parser panics, if it accepts something that it must not accept, or if a value changes when it
//! is written and read again. `make fuzz` looks for such inputs with the program in `libfuzzer/`, and `cargo test` runs
//! the inputs in `corpora/` again.
//!
//! | module | what it parses |
//! | --- | --- |
//! | [`ids`] | IDs in texts, public IDs, UUIDs; numbers whose layout is guessed |
//! | [`layouts`] | layouts, as text and as JSON |
//! | [`leases`] | the registry's answers to requests for leases, the state in the lease file |
//! | [`numbers`] | the registry's answers to requests for numbers, tokens, the journal with the records of numbers |

mod ids;
mod layouts;
mod leases;
mod numbers;

/// A parser, with the checks of its results.
pub type Target = fn(&[u8]);

/// All targets, by name. Each has a directory in `corpora/`.
pub const TARGETS: [(&str, Target); 11] = [
    ("guess", ids::guess),
    ("id_text", ids::text),
    ("journal", numbers::journal),
    ("layout_json", layouts::json),
    ("layout_text", layouts::text),
    ("lease_answer", leases::answers),
    ("lease_state", leases::state),
    ("number_answer", numbers::answers),
    ("number_token", numbers::tokens),
    ("public_id", ids::public),
    ("uuid", ids::uuid),
];

/// Returns the target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find_map(|(of, target)| (of == name).then_some(target))
}

/// Splits a number off the start of the input. Bytes that are missing are 0.
fn split_number(data: &[u8]) -> (i64, &[u8]) {
    let (start, rest) = data.split_at(data.len().min(8));
    let mut bytes = [0; 8];
    bytes[..start.len()].copy_from_slice(start);
    (i64::from_be_bytes(bytes), rest)
}
