//! PostgreSQL extension `snowflake_id`: 64-bit IDs that sort by time and never repeat.
//!
//! The extension is a thin shell around the crate [`snowflake_id_core`], which holds the layouts and the
//! generator.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`error`] | every error that a user can meet |
//! | [`config`] | the settings and their hooks |
//! | [`pg`] | PostgreSQL's C side |
//! | [`shared`] | the state in shared memory, and who may touch it how |
//! | [`generate`] | `snowflake_nextval`, `snowflake_batch`, `snowflake_currval` |
//! | [`keeper`] | the background worker that writes the horizon ahead and opens the gate |
//! | [`registry`] | the background worker that leases the worker ID from a registry |
//! | [`segment`] | numbers in ranges: their functions, and the background worker that fetches the ranges |
//! | [`background`] | what background workers have in common |
//! | [`admin`] | view `snowflake_status`, and what an administrator can order |
//! | [`read`] | IDs read back, ranges, texts, masks; layouts |

use pgrx::prelude::*;

mod admin;
mod background;
mod config;
mod error;
mod generate;
mod keeper;
mod pg;
mod read;
mod registry;
mod segment;
mod shared;

::pgrx::pg_module_magic!(name, version);

// Where nothing is required, pgrx takes one or the other first, by chance. The same sources are to give the same script: what has
// nothing else to require names what comes before it, from "decode" to "adopt", and "privileges" before "past".
extension_sql_file!("../sql/catalog.sql", name = "catalog", finalize);
extension_sql_file!("../sql/copy.sql", name = "copy", requires = ["horizon"]);
extension_sql_file!("../sql/guess.sql", name = "guess", requires = [read::guess::snowflake_guess_layout]);
extension_sql_file!("../sql/horizon.sql", name = "horizon", requires = ["range"]);
extension_sql_file!("../sql/adopt_findings.sql", name = "adopt_findings", requires = ["copy"]);
extension_sql_file!("../sql/adopt.sql", name = "adopt", requires = ["adopt_findings"]);
extension_sql_file!(
    "../sql/partitions.sql",
    name = "partitions",
    requires = [read::layouts::snowflake_describe_layout, "range"]
);
extension_sql_file!("../sql/range.sql", name = "range", requires = ["decode"]);
extension_sql_file!("../sql/decode.sql", name = "decode");
extension_sql_file!(
    "../sql/status.sql",
    name = "status",
    requires = [
        snowflake_server_status,
        snowflake_slots,
        snowflake_clock_sequence_values,
        snowflake_accept_clock,
        snowflake_advance,
        snowflake_reset_horizon
    ]
);
extension_sql_file!(
    "../sql/encoding.sql",
    name = "encoding",
    requires = [read::id_text::snowflake_to_text, read::id_text::snowflake_from_text]
);
extension_sql_file!(
    "../sql/mask.sql",
    name = "mask",
    requires = [
        read::mask::snowflake_mask,
        read::mask::snowflake_unmask,
        read::mask::snowflake_mask_named,
        read::mask::snowflake_unmask_named
    ]
);
extension_sql_file!(
    "../sql/privileges.sql",
    name = "privileges",
    requires = ["horizon", store_past, "status", "mask", "outside", "segment"]
);
extension_sql_file!(
    "../sql/segment.sql",
    name = "segment",
    requires = [snowflake_segment_batch, snowflake_segment_currval, snowflake_segments_in_use]
);
extension_sql_file!("../sql/past.sql", name = "past", requires = ["horizon", store_past, "privileges"]);

/// Runs when the library is loaded: by the postmaster if it is in `shared_preload_libraries`, else by the
/// first backend that calls one of the functions. Without preloading there is no shared memory, hence no new
/// IDs; decoding works.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    config::define(generate::session::forget);
    if pg::server::is_preloading() {
        shared::request();
        keeper::register();
        config::reserve_prefix();
    }
}
