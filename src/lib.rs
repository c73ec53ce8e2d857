//! PostgreSQL extension `snowflake_id`: 64-bit IDs that sort by time and never repeat.
//!
//! The extension is a thin shell around the crate [`snowflake_id_core`], which holds the layouts and the generator.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`config`] | the settings and their hooks |
//! | [`shared`] | the state in shared memory, and who may touch it how |
//! | [`keeper`] | the background worker that writes the horizon ahead and opens the gate |
//! | [`store`] | the durable horizon |
//! | [`identity`] | who this server is |
//! | [`session`] | what this backend remembers: its generator and its last ID |
//! | [`nextval`] | `snowflake_nextval`, `snowflake_batch`, `snowflake_currval` |
//! | [`wait`] | waiting for the clock: bounded, cancellable, visible |
//! | [`decode`] | `snowflake_decode`, `snowflake_encode` and the accessors |
//! | [`layouts`] | layouts given as text, and the view `snowflake_layouts` |
//! | [`convert`] | between SQL and Rust: a row as a result, a layout as an argument |
//! | [`status`] | view `snowflake_status`, and what an administrator can order |
//! | [`error`] | every error that a user can meet |
//! | [`compat`] | what is particular to PostgreSQL's C side |

use pgrx::prelude::*;

mod compat;
mod config;
mod convert;
mod decode;
mod error;
mod identity;
mod keeper;
mod layouts;
mod nextval;
mod session;
mod shared;
mod status;
mod store;
mod wait;

::pgrx::pg_module_magic!(name, version);

extension_sql_file!("../sql/catalog.sql", name = "catalog", finalize);
extension_sql_file!("../sql/horizon.sql", name = "horizon");
extension_sql_file!(
    "../sql/promised.sql",
    name = "promised",
    requires = ["horizon", snowflake_server_status]
);

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
