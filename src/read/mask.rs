//! Masked IDs: `snowflake_mask` and `snowflake_unmask`, and their forms that take the name of a key.

use parking_lot::Mutex;
use pgrx::prelude::*;
use snowflake_id_core::mask::{KEY_BYTES, Mask};

use crate::error::{Error, OrReport};
use crate::pg::varlena::TextBytes;
use crate::read::mask_key::{Cache, checked, with_named_key};

static CACHE: Mutex<Cache<Mask, ()>> = Mutex::new(Cache::new());

#[pg_extern(immutable, parallel_safe)]
fn snowflake_mask(id: i64, key: &[u8]) -> i64 {
    checked(key).and_then(|key| mask(id, key)).or_report()
}

#[pg_extern(immutable, parallel_safe)]
fn snowflake_unmask(masked: i64, key: &[u8]) -> i64 {
    checked(key).and_then(|key| unmask(masked, key)).or_report()
}

#[pg_extern(stable, parallel_safe)]
fn snowflake_mask_named(id: i64, key_name: TextBytes<'_>, fcinfo: pg_sys::FunctionCallInfo) -> i64 {
    with_named_key(fcinfo, key_name.0, |key| mask(id, key)).or_report()
}

#[pg_extern(stable, parallel_safe)]
fn snowflake_unmask_named(masked: i64, key_name: TextBytes<'_>, fcinfo: pg_sys::FunctionCallInfo) -> i64 {
    with_named_key(fcinfo, key_name.0, |key| unmask(masked, key)).or_report()
}

#[inline]
fn mask(id: i64, key: &[u8; KEY_BYTES]) -> Result<i64, Error> {
    Ok(CACHE.lock().get(key, (), || Mask::new(key)).mask(id)?)
}

#[inline]
fn unmask(masked: i64, key: &[u8; KEY_BYTES]) -> Result<i64, Error> {
    Ok(CACHE.lock().get(key, (), || Mask::new(key)).unmask(masked)?)
}
