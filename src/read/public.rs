//! The functions `snowflake_to_public` and `snowflake_to_uuid`, the inverse functions, and the variants that take the
//! name of a key.

use parking_lot::Mutex;
use pgrx::prelude::*;
use snowflake_id_core::mask::KEY_BYTES;
use snowflake_id_core::message::shown;
use snowflake_id_core::public::{MAX_TEXT, Prefix, PublicIds, PublicTextError, Uuids};

use crate::error::{Error, OrReport};
use crate::pg::varlena::{Text, TextBytes};
use crate::read::mask_key::{Cache, checked, with_named_key};

static PUBLIC_IDS: Mutex<Cache<PublicIds, Prefix>> = Mutex::new(Cache::new());
static UUIDS: Mutex<Cache<Uuids, Prefix>> = Mutex::new(Cache::new());

#[pg_extern(name = "snowflake_to_public", immutable, parallel_safe)]
fn snowflake_to_public(id: i64, prefix: TextBytes<'_>) -> Text {
    required(prefix.0).and_then(|prefix| to_text(&PublicIds::new(prefix, None), id)).or_report()
}

#[pg_extern(name = "snowflake_to_public", immutable, parallel_safe)]
fn snowflake_to_public_with_key(id: i64, prefix: TextBytes<'_>, key: &[u8]) -> Text {
    checked(key).and_then(|key| to_public(id, prefix.0, key)).or_report()
}

#[pg_extern(stable, parallel_safe)]
fn snowflake_to_public_named(
    id: i64,
    prefix: TextBytes<'_>,
    key_name: TextBytes<'_>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> Text {
    with_named_key(fcinfo, key_name.0, |named| to_public(id, prefix.0, named.key())).or_report()
}

#[pg_extern(name = "snowflake_from_public", immutable, parallel_safe)]
fn snowflake_from_public(text: TextBytes<'_>, prefix: TextBytes<'_>) -> i64 {
    required(prefix.0).and_then(|prefix| from_text(&PublicIds::new(prefix, None), text.0)).or_report()
}

#[pg_extern(name = "snowflake_from_public", immutable, parallel_safe)]
fn snowflake_from_public_with_key(text: TextBytes<'_>, prefix: TextBytes<'_>, key: &[u8]) -> i64 {
    checked(key).and_then(|key| from_public(text.0, prefix.0, key)).or_report()
}

#[pg_extern(stable, parallel_safe)]
fn snowflake_from_public_named(
    text: TextBytes<'_>,
    prefix: TextBytes<'_>,
    key_name: TextBytes<'_>,
    fcinfo: pg_sys::FunctionCallInfo,
) -> i64 {
    with_named_key(fcinfo, key_name.0, |named| named.read(|key| from_public(text.0, prefix.0, key)))
        .or_report()
}

#[pg_extern(name = "snowflake_to_uuid", immutable, parallel_safe)]
fn snowflake_to_uuid(id: i64) -> pgrx::Uuid {
    as_uuid(&Uuids::new(None), id).or_report()
}

#[pg_extern(name = "snowflake_to_uuid", immutable, parallel_safe)]
fn snowflake_to_uuid_with_key(id: i64, key: &[u8], prefix: default!(TextBytes<'_>, "''")) -> pgrx::Uuid {
    checked(key).and_then(|key| to_uuid(id, key, prefix.0)).or_report()
}

#[pg_extern(stable, parallel_safe)]
fn snowflake_to_uuid_named(
    id: i64,
    key_name: TextBytes<'_>,
    prefix: default!(TextBytes<'_>, "''"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> pgrx::Uuid {
    with_named_key(fcinfo, key_name.0, |named| to_uuid(id, named.key(), prefix.0)).or_report()
}

#[pg_extern(name = "snowflake_from_uuid", immutable, parallel_safe)]
fn snowflake_from_uuid(uuid: pgrx::Uuid) -> i64 {
    from_bytes(&Uuids::new(None), &uuid).or_report()
}

#[pg_extern(name = "snowflake_from_uuid", immutable, parallel_safe)]
fn snowflake_from_uuid_with_key(uuid: pgrx::Uuid, key: &[u8], prefix: default!(TextBytes<'_>, "''")) -> i64 {
    checked(key).and_then(|key| from_uuid(&uuid, key, prefix.0)).or_report()
}

#[pg_extern(stable, parallel_safe)]
fn snowflake_from_uuid_named(
    uuid: pgrx::Uuid,
    key_name: TextBytes<'_>,
    prefix: default!(TextBytes<'_>, "''"),
    fcinfo: pg_sys::FunctionCallInfo,
) -> i64 {
    with_named_key(fcinfo, key_name.0, |named| named.read(|key| from_uuid(&uuid, key, prefix.0))).or_report()
}

fn to_public(id: i64, prefix: &[u8], key: &[u8; KEY_BYTES]) -> Result<Text, Error> {
    let prefix = required(prefix)?;
    to_text(PUBLIC_IDS.lock().get(key, prefix, || PublicIds::new(prefix, Some(key))), id)
}

fn from_public(text: &[u8], prefix: &[u8], key: &[u8; KEY_BYTES]) -> Result<i64, Error> {
    let prefix = required(prefix)?;
    from_text(PUBLIC_IDS.lock().get(key, prefix, || PublicIds::new(prefix, Some(key))), text)
}

fn to_uuid(id: i64, key: &[u8; KEY_BYTES], prefix: &[u8]) -> Result<pgrx::Uuid, Error> {
    let prefix = optional(prefix)?;
    as_uuid(UUIDS.lock().get(key, prefix, || Uuids::new(Some((key, prefix)))), id)
}

fn from_uuid(uuid: &pgrx::Uuid, key: &[u8; KEY_BYTES], prefix: &[u8]) -> Result<i64, Error> {
    let prefix = optional(prefix)?;
    from_bytes(UUIDS.lock().get(key, prefix, || Uuids::new(Some((key, prefix)))), uuid)
}

#[inline]
fn to_text(ids: &PublicIds, id: i64) -> Result<Text, Error> {
    Ok(Text::new(ids.text(id, &mut [0; MAX_TEXT])?))
}

#[inline]
fn from_text(ids: &PublicIds, text: &[u8]) -> Result<i64, Error> {
    ids.id(text).map_err(|problem| invalid(text, problem))
}

#[inline]
fn as_uuid(uuids: &Uuids, id: i64) -> Result<pgrx::Uuid, Error> {
    Ok(pgrx::Uuid::from_bytes(uuids.uuid(id)?))
}

#[inline]
fn from_bytes(uuids: &Uuids, uuid: &pgrx::Uuid) -> Result<i64, Error> {
    uuids.id(uuid.as_bytes()).map_err(|problem| Error::InvalidUuid { uuid: *uuid.as_bytes(), problem })
}

#[inline]
fn required(prefix: &[u8]) -> Result<Prefix, Error> {
    Prefix::new(prefix).map_err(|problem| Error::InvalidPrefix { prefix: shown(prefix), problem })
}

#[inline]
fn optional(prefix: &[u8]) -> Result<Prefix, Error> {
    match prefix {
        [] => Ok(Prefix::NONE),
        prefix => required(prefix),
    }
}

#[cold]
fn invalid(text: &[u8], problem: PublicTextError) -> Error {
    Error::InvalidPublicId { text: shown(text), problem }
}
