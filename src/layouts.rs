//! Layouts that are given as text, and the view `snowflake_layouts`.

use std::cell::Cell;
use std::sync::Arc;

use parking_lot::Mutex;
use pgrx::prelude::*;
use snowflake_id_core::presets::PRESETS;
use snowflake_id_core::text::{MAX_TEXT_BYTES, shown};
use snowflake_id_core::{Field, Layout};

use crate::compat::BackendLocal;
use crate::convert::LayoutArgument;
use crate::decode::timestamptz;
use crate::error::Error;

/// How many parsed layouts a backend remembers.
const CACHE_SIZE: usize = 8;

/// A text and the layout that it describes.
struct Known {
    text: Box<[u8]>,
    layout: Layout,
}

/// The layout that was named last: a query names the same one in each row. It is reached without the lock, which would
/// take longer than all the rest.
static LATEST: BackendLocal<Cell<Option<Arc<Known>>>> = BackendLocal::new(Cell::new(None));
/// The layouts that this backend parsed lately, the newest last, for queries that name several.
static CACHE: Mutex<Vec<Arc<Known>>> = Mutex::new(Vec::new());

/// The layout that a text describes, if it is the one that was named last.
#[inline]
pub fn latest(text: &[u8]) -> Option<Layout> {
    let latest = LATEST.take();
    let layout = latest.as_ref().filter(|known| *known.text == *text).map(|known| known.layout);
    LATEST.set(latest);
    layout
}

/// The layout that a text describes, in whatever encoding the database has. It becomes the latest.
#[cold]
pub fn parse(text: &[u8]) -> Result<Layout, Error> {
    let mut cache = CACHE.lock();
    let known = match cache.iter().find(|known| *known.text == *text) {
        Some(known) => Arc::clone(known),
        None => {
            let known = Arc::new(Known { text: text.into(), layout: parse_anew(text)? });
            if cache.len() == CACHE_SIZE {
                cache.remove(0);
            }
            cache.push(Arc::clone(&known));
            known
        }
    };
    let layout = known.layout;
    LATEST.set(Some(known));
    Ok(layout)
}

fn parse_anew(text: &[u8]) -> Result<Layout, Error> {
    // What is longer is refused whatever it says, and need not be read to its end.
    let text = String::from_utf8_lossy(&text[..text.len().min(MAX_TEXT_BYTES + 1)]);
    text.parse().map_err(|problem| Error::InvalidLayout { text: shown(&text), problem })
}

/// The names of the presets, for the view.
#[pg_extern(immutable, parallel_safe)]
fn snowflake_preset_names() -> Vec<&'static str> {
    PRESETS.iter().map(|preset| preset.name).collect()
}

/// What there is to know about a layout.
#[pg_extern(immutable, parallel_safe)]
#[allow(clippy::type_complexity)] // pgrx reads the columns from the type itself.
fn snowflake_describe_layout(
    layout: LayoutArgument,
) -> TableIterator<
    'static,
    (
        name!(layout, String),
        name!(time_bits, i32),
        name!(datacenter_bits, i32),
        name!(worker_bits, i32),
        name!(clock_seq_bits, i32),
        name!(sequence_bits, i32),
        name!(unit, Interval),
        name!(epoch, TimestampWithTimeZone),
        name!(workers, i64),
        name!(ids_per_second, f64),
        name!(exhausted_at, TimestampWithTimeZone),
        name!(fits_in_53_bits, bool),
    ),
> {
    let LayoutArgument(layout) = layout;
    let bits = |field: Field| layout.bits(field) as i32;
    TableIterator::once((
        layout.to_string(),
        bits(Field::Time),
        bits(Field::Datacenter),
        bits(Field::Worker),
        bits(Field::ClockSeq),
        bits(Field::Sequence),
        Interval::from_micros(layout.unit_us() as i64),
        timestamptz(layout.epoch_us()),
        layout.workers() as i64,
        layout.ids_per_second(),
        timestamptz(layout.end_us()),
        layout.fits_in_53_bits(),
    ))
}
