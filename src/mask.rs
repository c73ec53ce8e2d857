//! Masked IDs: `snowflake_mask` and `snowflake_unmask`. The forms that take the name of a key are in `sql/mask.sql`.

use parking_lot::Mutex;
use pgrx::prelude::*;
use snowflake_id_core::mask::{KEY_BYTES, Mask};
use zeroize::Zeroizing;

use crate::convert::TextBytes;
use crate::error::{Error, OrReport};

/// How many masks a backend remembers.
const CACHE_SIZE: usize = 4;

type Key = Zeroizing<[u8; KEY_BYTES]>;

/// The masks of the keys that this backend used lately: to make one ready takes longer than to mask an ID.
///
/// They stay where they are until they make room for others or the backend ends. What is dropped is wiped, as far as that
/// goes: PostgreSQL's own copies of a key, in a query or in a page of the table, are not.
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

/// The error for a name that no key has; does not return.
#[pg_extern(stable, parallel_safe)]
fn snowflake_no_mask_key(key_name: TextBytes<'_>) -> i64 {
    Err(no_key(key_name.0)).or_report()
}

/// What looks like a key is not shown; see the constraint on names in `sql/mask.sql`.
fn no_key(name: &[u8]) -> Error {
    if name.starts_with(b"\\x") || name.len() == KEY_BYTES {
        return Error::MaskKeyForName;
    }
    Error::NoMaskKey { name: String::from_utf8_lossy(name).into_owned() }
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
