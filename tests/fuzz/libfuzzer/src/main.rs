//! The program of the fuzzer. `SNOWFLAKE_ID_TARGET` selects the target.

#![no_main]

use std::sync::OnceLock;

use snowflake_id_fuzz::{Target, target};

static TARGET: OnceLock<Target> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    TARGET.get_or_init(|| {
        let name = std::env::var("SNOWFLAKE_ID_TARGET").unwrap_or_default();
        target(&name).unwrap_or_else(|| panic!("there is no target \"{name}\""))
    })(data);
});
