//! The rules for changing keys. The script `sql/parts/key_change.sql` creates the functions that change a named key.

use pgrx::prelude::*;
use snowflake_id_core::mask::KEY_BYTES;
use snowflake_id_core::message::shown;

use crate::error::{Error, OrReport};
use crate::pg::varlena::TextBytes;
use crate::read::mask_key::{checked, no_key};

/// Raises an error unless the step is allowed for a named key. `state` is the result of `snowflake_mask_key_state()`,
/// which is NULL if the key does not exist.
#[pg_extern(schema = "snowflake_internal", volatile, parallel_unsafe)]
fn snowflake_mask_key_step(
    step: Option<TextBytes<'_>>,
    key_name: Option<TextBytes<'_>>,
    new_key: Option<&[u8]>,
    state: Option<TextBytes<'_>>,
) {
    let state = state.map(|state| state.0);
    match step.map(|step| step.0) {
        Some(b"prepare") => check_key(new_key).and_then(|()| prepare(key_name, state)),
        Some(b"generate") => prepare(key_name, state),
        Some(b"switch") => switch(key_name, state),
        _ => drop_previous(key_name, state),
    }
    .or_report()
}

fn check_key(new_key: Option<&[u8]>) -> Result<(), Error> {
    let _: &[u8; KEY_BYTES] = checked(new_key.ok_or(Error::NullMaskKey)?)?;
    Ok(())
}

fn prepare(key_name: Option<TextBytes<'_>>, state: Option<&[u8]>) -> Result<(), Error> {
    let name = existing(key_name, state)?;
    match state {
        Some(b"prepared") => Err(Error::MaskKeyBeingChanged { name, is_switched: false }),
        Some(b"switched") => Err(Error::MaskKeyBeingChanged { name, is_switched: true }),
        Some(b"same") => Err(Error::SameMaskKey { name }),
        _ => Ok(()),
    }
}

fn switch(key_name: Option<TextBytes<'_>>, state: Option<&[u8]>) -> Result<(), Error> {
    let name = existing(key_name, state)?;
    match state {
        Some(b"prepared") => Ok(()),
        state => Err(Error::NoNextMaskKey { name, is_switched: state == Some(b"switched") }),
    }
}

fn drop_previous(key_name: Option<TextBytes<'_>>, state: Option<&[u8]>) -> Result<(), Error> {
    let name = existing(key_name, state)?;
    match state {
        Some(b"switched") => Ok(()),
        state => Err(Error::NoPreviousMaskKey { name, is_prepared: state == Some(b"prepared") }),
    }
}

/// Returns the name of an existing key, for messages.
fn existing(key_name: Option<TextBytes<'_>>, state: Option<&[u8]>) -> Result<String, Error> {
    let name = key_name.ok_or(Error::NullMaskKey)?.0;
    state.map(|_| shown(name)).ok_or_else(|| no_key(name))
}
