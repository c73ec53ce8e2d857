//! Layouts as arguments of functions.

use parking_lot::Mutex;
use pgrx::callconv::{Arg, ArgAbi};
use pgrx::prelude::*;
use snowflake_id_core::Layout;
use snowflake_id_core::message::shown;

use crate::error::{Error, OrReport};
use crate::pg::varlena::bytes;

/// A layout that was passed to a function as an argument of type `text`.
pub struct LayoutArgument(pub Layout);

pgrx::pgrx_sql_entity_graph::impl_sql_translatable!(LayoutArgument, "text");

// SAFETY: the argument is declared as text, so the datum is a varlena. Functions with such an argument are strict, so
// the datum is not null.
unsafe impl<'fcx> ArgAbi<'fcx> for LayoutArgument {
    #[inline]
    unsafe fn unbox_arg_unchecked(arg: Arg<'_, 'fcx>) -> LayoutArgument {
        // SAFETY: any argument can be read as a plain datum.
        let datum: Option<pg_sys::Datum> = unsafe { arg.unbox_arg_using_from_datum() };
        let datum = datum.expect("bug: a function with a layout is not strict");
        // SAFETY: the datum points to a varlena that outlives the call.
        unsafe { LayoutArgument::from_text(datum) }
    }
}

impl LayoutArgument {
    /// Returns the layout that a string describes. Raises an error if the string is not a valid layout.
    ///
    /// # Safety
    /// The datum is a text.
    pub unsafe fn from_text(datum: pg_sys::Datum) -> LayoutArgument {
        // SAFETY: by this function's contract. The text is not kept.
        let text = unsafe { bytes(datum.cast_mut_ptr()) };
        LayoutArgument(parse(text).or_report())
    }
}

/// The maximum number of parsed layouts in the cache of a backend.
const CACHE_SIZE: usize = 8;

/// The layouts that this backend has parsed, with their strings, starting with the oldest.
static CACHE: Mutex<Vec<(Box<[u8]>, Layout)>> = Mutex::new(Vec::new());

/// Parses a string in the encoding of the database. Recently parsed layouts come from the cache.
pub fn parse(text: &[u8]) -> Result<Layout, Error> {
    let mut cache = CACHE.lock();
    if let Some((_, layout)) = cache.iter().find(|(known, _)| **known == *text) {
        return Ok(*layout);
    }
    let layout =
        Layout::from_bytes(text).map_err(|problem| Error::InvalidLayout { text: shown(text), problem })?;
    if cache.len() == CACHE_SIZE {
        cache.remove(0);
    }
    cache.push((text.into(), layout));
    Ok(layout)
}
