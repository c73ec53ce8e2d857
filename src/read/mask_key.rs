//! Keys for masks, public IDs and UUIDs. Callers pass a key as bytes or by name. A backend caches prepared keys, and a
//! call site caches the keys of names. The script `sql/parts/mask.sql` creates the table of named keys.

use parking_lot::Mutex;
use pgrx::prelude::*;
use snowflake_id_core::mask::KEY_BYTES;
use snowflake_id_core::message::shown;
use zeroize::Zeroizing;

use crate::error::Error;
use crate::pg::call::Call;

/// The maximum number of entries in each cache of a backend, and of named keys at each call site.
const CACHE_SIZE: usize = 16;

/// The maximum length of a cached name, in bytes. A key with a longer name is looked up for each row.
const MAX_REMEMBERED_NAME: usize = 200;

pub type Key = Zeroizing<[u8; KEY_BYTES]>;

/// A cache of recently prepared keys. Preparing a key takes longer than using it.
///
/// An entry remains in memory until it is replaced or the backend exits. The key of a replaced entry is erased from
/// memory. PostgreSQL's own copies of the key, in a query or in a page of the table, are not erased.
pub struct Cache<Made, What> {
    entries: [Option<(Key, What, Made)>; CACHE_SIZE],
    /// The index of the oldest entry, which is replaced next.
    next: usize,
}

impl<Made, What: PartialEq> Cache<Made, What> {
    pub const fn new() -> Cache<Made, What> {
        Cache { entries: [const { None }; CACHE_SIZE], next: 0 }
    }

    /// Returns the prepared key for a purpose. Prepares the key if the cache does not contain it.
    #[inline]
    pub fn get(&mut self, key: &[u8; KEY_BYTES], what: What, make: impl FnOnce() -> Made) -> &Made {
        let is_it = |(known, purpose, _): &(Key, What, Made)| **known == *key && *purpose == what;
        let at = match self.entries.iter().position(|entry| entry.as_ref().is_some_and(is_it)) {
            Some(at) => at,
            None => {
                let next = self.next;
                self.next = (next + 1) % CACHE_SIZE;
                self.entries[next] = Some((Zeroizing::new(*key), what, make()));
                next
            }
        };
        let (_, _, made) = self.entries[at].as_ref().expect("bug: nothing is in the entry that was found");
        made
    }
}

/// Checks the length of a key argument.
#[inline]
pub fn checked(key: &[u8]) -> Result<&[u8; KEY_BYTES], Error> {
    key.try_into().map_err(|_| Error::KeyLength(key.len()))
}

/// The keys of a name. While the key of a name is being changed, the name has a second key, which is the previous or
/// the next key (see `sql/parts/key_change.sql`).
pub struct NamedKey {
    key: Key,
    second: Option<Key>,
}

impl NamedKey {
    /// Returns the key for new masked numbers, public IDs and UUIDs.
    #[inline]
    pub fn key(&self) -> &[u8; KEY_BYTES] {
        &self.key
    }

    /// Reads a public ID or a UUID, whose tag shows whether the right key is used. If the first key fails, tries the
    /// second key.
    ///
    /// # Errors
    /// Returns the error of the first key.
    #[inline]
    pub fn read<T>(&self, read: impl Fn(&[u8; KEY_BYTES]) -> Result<T, Error>) -> Result<T, Error> {
        let result = read(&self.key);
        match (&result, &self.second) {
            (Err(_), Some(second)) => read(second).or(result),
            _ => result,
        }
    }

    /// Returns the key with which a masked number was made.
    ///
    /// # Errors
    /// Returns an error if there are two keys. A masked number has no tag that shows the right key, and with the wrong
    /// key, the result could be the ID of a different row.
    #[inline]
    pub fn only(&self, name: &[u8]) -> Result<&[u8; KEY_BYTES], Error> {
        match self.second {
            None => Ok(&self.key),
            Some(_) => Err(Error::TwoMaskKeys { name: shown(name) }),
        }
    }

    /// Returns the key in the result of `snowflake_mask_key_of()`, or `None` if there is no key.
    fn of(keys: &[u8]) -> Option<NamedKey> {
        let key = |bytes: &[u8]| <[u8; KEY_BYTES]>::try_from(bytes).map(Key::new).ok();
        let (first, second) = keys.split_at_checked(KEY_BYTES)?;
        Some(NamedKey { key: key(first)?, second: key(second) })
    }
}

/// The names and keys that a call site has looked up, starting with the oldest entry.
type Named = Mutex<Vec<(Box<[u8]>, NamedKey)>>;

/// Looks up a named key, and calls `action` with the key. The call site remembers the key for the other rows of the
/// query.
pub fn with_named_key<T>(
    fcinfo: pg_sys::FunctionCallInfo,
    name: &[u8],
    action: impl FnOnce(&NamedKey) -> Result<T, Error>,
) -> Result<T, Error> {
    // SAFETY: PostgreSQL passed fcinfo to the calling function, which remembers no other type of value.
    let (call, named) = unsafe {
        let call = Call::new(fcinfo);
        (call, call.remembered::<Named>().unwrap_or_else(|| call.remember(Named::default())))
    };
    let mut named = named.lock();
    if let Some((_, key)) = named.iter().find(|(known, _)| **known == *name) {
        return action(key);
    }
    let key = key_of(call, name)?;
    let result = action(&key);
    if name.len() <= MAX_REMEMBERED_NAME {
        if named.len() == CACHE_SIZE {
            named.remove(0);
        }
        named.push((name.into(), key));
    }
    result
}

fn key_of(call: Call, name: &[u8]) -> Result<NamedKey, Error> {
    NamedKey::of(call.text_to_bytea(c"snowflake_mask_key_of", name)).ok_or_else(|| no_key(name))
}

/// Returns the error for a name that belongs to no key. The name is hidden if it may itself be a key (see the
/// constraint on names in `sql/parts/mask.sql`).
pub fn no_key(name: &[u8]) -> Error {
    if name.contains(&b'\\') || name.len() == KEY_BYTES {
        return Error::MaskKeyForName;
    }
    Error::NoMaskKey { name: shown(name) }
}
