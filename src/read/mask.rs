//! Masked IDs: `snowflake_mask` and `snowflake_unmask`, and their forms that take the name of a key. Each function has
//! forms for all IDs, for numbers with few digits, and for the IDs of a layout.

use parking_lot::Mutex;
use pgrx::prelude::*;
use snowflake_id_core::mask::{KEY_BYTES, Mask};
use snowflake_id_core::short_mask::{Domain, ShortMask};

use crate::error::{Error, OrReport};
use crate::pg::varlena::TextBytes;
use crate::read::layout_argument::LayoutArgument;
use crate::read::mask_key::{Cache, checked, with_named_key};

static CACHE: Mutex<Cache<Mask, ()>> = Mutex::new(Cache::new());
static SHORT_MASKS: Mutex<Cache<ShortMask, Domain>> = Mutex::new(Cache::new());

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
    with_named_key(fcinfo, key_name.0, |named| mask(id, named.key())).or_report()
}

#[pg_extern(stable, parallel_safe)]
fn snowflake_unmask_named(masked: i64, key_name: TextBytes<'_>, fcinfo: pg_sys::FunctionCallInfo) -> i64 {
    with_named_key(fcinfo, key_name.0, |named| unmask(masked, named.only(key_name.0)?)).or_report()
}

#[pg_extern(name = "snowflake_mask", immutable, parallel_safe)]
fn snowflake_mask_digits(id: i64, key: &[u8], digits: i32) -> i64 {
    checked(key).and_then(|key| short_mask(id, key, Domain::digits(digits)?)).or_report()
}

#[pg_extern(name = "snowflake_mask", immutable, parallel_safe)]
fn snowflake_mask_layout(id: i64, key: &[u8], layout: LayoutArgument) -> i64 {
    checked(key).and_then(|key| short_mask(id, key, Domain::layout(&layout.0)?)).or_report()
}

#[pg_extern(name = "snowflake_unmask", immutable, parallel_safe)]
fn snowflake_unmask_digits(masked: i64, key: &[u8], digits: i32) -> i64 {
    checked(key).and_then(|key| short_unmask(masked, key, Domain::digits(digits)?)).or_report()
}

#[pg_extern(name = "snowflake_unmask", immutable, parallel_safe)]
fn snowflake_unmask_layout(masked: i64, key: &[u8], layout: LayoutArgument) -> i64 {
    checked(key).and_then(|key| short_unmask(masked, key, Domain::layout(&layout.0)?)).or_report()
}

#[pg_extern(name = "snowflake_mask_named", stable, parallel_safe)]
fn snowflake_mask_named_digits(
    id: i64,
    key_name: TextBytes<'_>,
    digits: i32,
    fcinfo: pg_sys::FunctionCallInfo,
) -> i64 {
    with_named_key(fcinfo, key_name.0, |named| short_mask(id, named.key(), Domain::digits(digits)?))
        .or_report()
}

#[pg_extern(name = "snowflake_mask_named", stable, parallel_safe)]
fn snowflake_mask_named_layout(
    id: i64,
    key_name: TextBytes<'_>,
    layout: LayoutArgument,
    fcinfo: pg_sys::FunctionCallInfo,
) -> i64 {
    with_named_key(fcinfo, key_name.0, |named| short_mask(id, named.key(), Domain::layout(&layout.0)?))
        .or_report()
}

#[pg_extern(name = "snowflake_unmask_named", stable, parallel_safe)]
fn snowflake_unmask_named_digits(
    masked: i64,
    key_name: TextBytes<'_>,
    digits: i32,
    fcinfo: pg_sys::FunctionCallInfo,
) -> i64 {
    with_named_key(fcinfo, key_name.0, |named| {
        short_unmask(masked, named.only(key_name.0)?, Domain::digits(digits)?)
    })
    .or_report()
}

#[pg_extern(name = "snowflake_unmask_named", stable, parallel_safe)]
fn snowflake_unmask_named_layout(
    masked: i64,
    key_name: TextBytes<'_>,
    layout: LayoutArgument,
    fcinfo: pg_sys::FunctionCallInfo,
) -> i64 {
    with_named_key(fcinfo, key_name.0, |named| {
        short_unmask(masked, named.only(key_name.0)?, Domain::layout(&layout.0)?)
    })
    .or_report()
}

#[inline]
fn mask(id: i64, key: &[u8; KEY_BYTES]) -> Result<i64, Error> {
    Ok(CACHE.lock().get(key, (), || Mask::new(key)).mask(id)?)
}

#[inline]
fn unmask(masked: i64, key: &[u8; KEY_BYTES]) -> Result<i64, Error> {
    Ok(CACHE.lock().get(key, (), || Mask::new(key)).unmask(masked)?)
}

#[inline]
fn short_mask(id: i64, key: &[u8; KEY_BYTES], domain: Domain) -> Result<i64, Error> {
    Ok(SHORT_MASKS.lock().get(key, domain, || ShortMask::new(key, domain)).mask(id)?)
}

#[inline]
fn short_unmask(masked: i64, key: &[u8; KEY_BYTES], domain: Domain) -> Result<i64, Error> {
    Ok(SHORT_MASKS.lock().get(key, domain, || ShortMask::new(key, domain)).unmask(masked)?)
}
