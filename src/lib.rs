//! PostgreSQL extension `snowflake_id`: 64-bit IDs that sort by time and never repeat.
//!
//! The extension is a thin shell around the crate [`snowflake_id_core`], which holds the layouts and the
//! generator.
//!
//! | module | what is in it |
//! | --- | --- |
//! | [`error`] | every error that a user can meet |
//! | [`config`] | the settings and their hooks |
//! | [`wait_event`] | what our processes wait for, as `pg_stat_activity` shows it |
//! | [`pg`] | PostgreSQL's C side, and nothing of ours |
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
mod wait_event;

::pgrx::pg_module_magic!(name, version);

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
