//! PostgreSQL extension `snowflake_id`: 64-bit IDs that sort by time and never repeat.
//!
//! The extension is a thin shell around the crate [`snowflake_id_core`], which holds the layouts and the generator.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`config`] | the settings and their hooks |
//! | [`shared`] | the state in shared memory, and who may touch it how |
//! | [`keeper`] | the background worker that writes the horizon ahead and opens the gate |
//! | [`generate`] | `snowflake_nextval`, `snowflake_batch`, `snowflake_currval` |
//! | [`admin`] | view `snowflake_status`, and what an administrator can order |
//! | [`copy`] | has `COPY` insert rows in bulk |
//! | [`decode`] | `snowflake_decode`, `snowflake_encode` and the accessors |
//! | [`range`] | `snowflake_min_id`, `snowflake_max_id`: ranges of time as ranges of IDs |
//! | [`guess`] | `snowflake_guess_layout`: which preset an ID may be of |
//! | [`encoding`] | `snowflake_to_text`, `snowflake_from_text` |
//! | [`mask`] | `snowflake_mask`, `snowflake_unmask` |
//! | [`layouts`] | layouts given as text, and the view `snowflake_layouts` |
//! | [`direct`] | functions without a wrapper of pgrx, for those that read whole columns |
//! | [`call`] | what PostgreSQL tells a function about its call |
//! | [`convert`] | between SQL and Rust: a row as a result, a layout or bytes as an argument |
//! | [`error`] | every error that a user can meet |
//! | [`pg`], [`compat`] | what is particular to PostgreSQL's C side |

use pgrx::prelude::*;

mod admin;
mod call;
mod compat;
mod config;
mod convert;
mod copy;
mod decode;
mod direct;
mod encoding;
mod error;
mod generate;
mod guess;
mod keeper;
mod layouts;
mod mask;
mod pg;
mod range;
mod shared;

::pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/catalog.sql", name = "catalog", finalize);
extension_sql_file!("../sql/copy.sql", name = "copy", requires = ["horizon"]);
extension_sql_file!("../sql/guess.sql", name = "guess", requires = [guess::snowflake_guess_layout]);
extension_sql_file!("../sql/horizon.sql", name = "horizon");
extension_sql_file!("../sql/adopt_findings.sql", name = "adopt_findings");
extension_sql_file!("../sql/adopt.sql", name = "adopt", requires = ["adopt_findings"]);
extension_sql_file!(
    "../sql/partitions.sql",
    name = "partitions",
    requires = [layouts::snowflake_describe_layout, "range"]
);
extension_sql_file!("../sql/range.sql", name = "range");
extension_sql_file!("../sql/decode.sql", name = "decode");
extension_sql_file!(
    "../sql/status.sql",
    name = "status",
    requires = [
        snowflake_server_status,
        snowflake_slots,
        snowflake_accept_clock,
        snowflake_advance,
        snowflake_reset_horizon
    ]
);
extension_sql_file!(
    "../sql/encoding.sql",
    name = "encoding",
    requires = [encoding::snowflake_to_text, encoding::snowflake_from_text]
);
extension_sql_file!(
    "../sql/mask.sql",
    name = "mask",
    requires = [
        mask::snowflake_mask,
        mask::snowflake_unmask,
        mask::snowflake_mask_named,
        mask::snowflake_unmask_named
    ]
);
extension_sql_file!(
    "../sql/privileges.sql",
    name = "privileges",
    requires = ["horizon", store_past, "status", "mask"]
);
extension_sql_file!("../sql/past.sql", name = "past", requires = ["horizon", store_past]);

/// Runs when the library is loaded: by the postmaster if it is in `shared_preload_libraries`, else by the first backend
/// that calls one of the functions. Without preloading there is no shared memory, hence no new IDs; decoding works.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    config::define();
    if compat::is_preloading() {
        shared::request();
        keeper::register();
        config::reserve_prefix();
    }
}
