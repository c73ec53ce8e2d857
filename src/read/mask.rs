//! Masked IDs: `snowflake_mask` and `snowflake_unmask`, and the forms that take the name of a key. The table
//! of the keys is in `sql/mask.sql`.

use parking_lot::Mutex;
use pgrx::prelude::*;
use snowflake_id_core::mask::{KEY_BYTES, Mask};
use snowflake_id_core::message::shown;
use zeroize::Zeroizing;

use crate::error::{Error, OrReport};
use crate::pg::call::Call;
use crate::pg::varlena::TextBytes;

/// How many masks a backend remembers, and how many keys with names one place of a query.
const CACHE_SIZE: usize = 16;

/// The longest name that is remembered, in bytes. Keys with longer ones are looked up for each row.
const MAX_REMEMBERED_NAME: usize = 200;

type Key = Zeroizing<[u8; KEY_BYTES]>;

/// The masks of the keys that this backend used lately: to make one ready takes longer than to mask an ID.
///
/// They stay where they are until they make room for others or the backend ends. What is dropped is wiped, as
/// far as that goes: PostgreSQL's own copies of a key, in a query or in a page of the table, are not.
struct Cache {
    masks: [Option<(Key, Mask)>; CACHE_SIZE],
    /// The place of the next new mask: that of the oldest.
    next: usize,
}

static CACHE: Mutex<Cache> = Mutex::new(Cache { masks: [const { None }; CACHE_SIZE], next: 0 });

#[pg_extern(immutable, parallel_safe)]
fn snowflake_mask(id: i64, key: &[u8]) -> i64 {
    with_mask(key, |mask| Ok(mask.mask(id)?)).or_report()
}

#[pg_extern(immutable, parallel_safe)]
fn snowflake_unmask(masked: i64, key: &[u8]) -> i64 {
    with_mask(key, |mask| Ok(mask.unmask(masked)?)).or_report()
}

#[pg_extern(stable, parallel_safe)]
fn snowflake_mask_named(id: i64, key_name: TextBytes<'_>, fcinfo: pg_sys::FunctionCallInfo) -> i64 {
    with_named_mask(fcinfo, key_name.0, |mask| Ok(mask.mask(id)?)).or_report()
}

#[pg_extern(stable, parallel_safe)]
fn snowflake_unmask_named(masked: i64, key_name: TextBytes<'_>, fcinfo: pg_sys::FunctionCallInfo) -> i64 {
    with_named_mask(fcinfo, key_name.0, |mask| Ok(mask.unmask(masked)?)).or_report()
}

/// The keys that were looked up at one place in a query, with their names, the newest last.
type Named = Mutex<Vec<(Box<[u8]>, Key)>>;

/// Looks a key up, once for all rows of a query that name it.
fn with_named_mask<T>(
    fcinfo: pg_sys::FunctionCallInfo,
    name: &[u8],
    action: impl FnOnce(&Mask) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: PostgreSQL passed fcinfo to the calling function, which remembers nothing else.
    let (call, named) = unsafe {
        let call = Call::new(fcinfo);
        (call, call.remembered::<Named>().unwrap_or_else(|| call.remember(Named::default())))
    };
    let mut named = named.lock();
    if let Some((_, key)) = named.iter().find(|(known, _)| **known == *name) {
        return with_mask(&key[..], action);
    }
    let key = key_of(call, name)?;
    let result = with_mask(&key[..], action);
    if name.len() <= MAX_REMEMBERED_NAME {
        if named.len() == CACHE_SIZE {
            named.remove(0);
        }
        named.push((name.into(), key));
    }
    result
}

fn key_of(call: Call, name: &[u8]) -> Result<Key, Error> {
    let key = call.text_to_bytea(c"snowflake_mask_key_of", name);
    <[u8; KEY_BYTES]>::try_from(key).map(Key::new).map_err(|_| no_key(name))
}

/// What looks like a key is not shown; see the constraint on names in `sql/mask.sql`.
fn no_key(name: &[u8]) -> Error {
    if name.starts_with(b"\\x") || name.len() == KEY_BYTES {
        return Error::MaskKeyForName;
    }
    Error::NoMaskKey { name: shown(name) }
}

#[inline]
fn with_mask<T>(key: &[u8], action: impl FnOnce(&Mask) -> Result<T, Error>) -> Result<T, Error> {
    let key: &[u8; KEY_BYTES] = key.try_into().map_err(|_| Error::KeyLength(key.len()))?;
    let mut cache = CACHE.lock();
    if let Some((_, mask)) = cache.masks.iter().flatten().find(|(known, _)| **known == *key) {
        return action(mask);
    }
    let next = cache.next;
    cache.next = (next + 1) % CACHE_SIZE;
    let (_, mask) = cache.masks[next].insert((Zeroizing::new(*key), Mask::new(key)));
    action(mask)
}
