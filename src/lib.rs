//! PostgreSQL extension `snowflake_id`: 64-bit IDs that sort by time and are never repeated.
//!
//! The layouts and the generator are in the crate [`snowflake_id_core`]. The extension is a thin layer around
//! that crate.
//!
//! | module | contents |
//! | --- | --- |
//! | [`error`] | every error that a user can see |
//! | [`config`] | the settings and their hooks |
//! | [`wait_event`] | the wait events that `pg_stat_activity` shows for processes that use the extension |
//! | [`pg`] | interfaces to PostgreSQL's C code, independent of this extension |
//! | [`shared`] | the state in shared memory, and which process may read or write it |
//! | [`generate`] | `snowflake_nextval`, `snowflake_batch`, `snowflake_block`, `snowflake_currval` |
//! | [`defaults`] | how calls in column defaults allow bulk `COPY` and use the privileges of the table's owner |
//! | [`watermark`] | `snowflake_watermark`, which returns an ID below which no new row can become visible |
//! | [`keeper`] | the background worker that writes the horizon ahead of the IDs and opens the gate |
//! | [`registry`] | the background worker that leases the worker ID from a registry |
//! | [`segment`] | the functions of segments, and the background worker that fetches ranges of numbers |
//! | [`background`] | code shared by the background workers |
//! | [`admin`] | view `snowflake_status`, and the requests of administrators |
//! | [`check`] | the parts of `snowflake_check()` that query the registry and read IDs from tables |
//! | [`read`] | functions that decode IDs, return ID ranges, convert IDs to text or masked numbers, or show layouts |

#![deny(clippy::disallowed_methods)] // clippy.toml lists them.

use pgrx::prelude::*;

mod admin;
mod background;
mod check;
mod config;
mod defaults;
mod error;
mod generate;
mod keeper;
mod pg;
mod read;
mod registry;
mod segment;
mod shared;
mod wait_event;
mod watermark;

::pgrx::pg_module_magic!(name, version);

/// PostgreSQL calls this function when it loads the library: in the postmaster if the library is in
/// `shared_preload_libraries`, and otherwise in each backend that calls one of the functions. Without
/// preloading, there is no shared memory, so no IDs can be issued, but decoding works.
#[pg_guard]
pub extern "C-unwind" fn _PG_init() {
    config::define(generate::session::forget);
    if pg::server::is_preloading() {
        shared::request();
        keeper::register();
        watermark::register();
        config::reserve_prefix();
    }
}
