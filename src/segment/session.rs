//! The segments that this backend has used, with the slot of each segment and the last number taken.
//!
//! If a slot is assigned to another name, the place that a backend remembers yields no more numbers.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::pg::backend_local::BackendLocal;
use crate::shared::segment_table::{Place, Slot};

/// A segment that this session has used.
pub struct Known {
    /// The name in the encoding of this database.
    name: Box<[u8]>,
    place: BackendLocal<Cell<(Place, &'static Slot)>>,
    last: BackendLocal<Cell<i64>>,
}

impl Known {
    /// Returns the place of the name, and its slot.
    #[inline]
    pub fn place(&self) -> (Place, &'static Slot) {
        self.place.get()
    }

    /// Returns the last number that this session took.
    pub fn last(&self) -> i64 {
        self.last.get()
    }

    #[inline]
    pub fn set_last(&self, number: i64) {
        self.last.set(number);
    }
}

/// The segment used last.
static CURRENT: BackendLocal<Cell<Option<&Known>>> = BackendLocal::new(Cell::new(None));
/// All segments that this session has used, by name. Entries are not freed during the session, and need about 150 bytes
/// for each name.
static ALL: LazyLock<Mutex<HashMap<&[u8], &Known>>> = LazyLock::new(Mutex::default);

/// Returns the segment with this name if this session has used the segment.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Known> {
    match CURRENT.get() {
        Some(known) if *known.name == *name => Some(known),
        _ => find_another(name),
    }
}

fn find_another(name: &[u8]) -> Option<&'static Known> {
    let known = *ALL.lock().get(name)?;
    CURRENT.set(Some(known));
    Some(known)
}

/// Remembers the place from which a number of this name was taken.
pub fn remember(name: &[u8], place: Place) -> &'static Known {
    let place = (place, place.slot());
    if let Some(known) = find(name) {
        known.place.set(place);
        return known;
    }
    let known: &Known = Box::leak(Box::new(Known {
        name: name.into(),
        place: BackendLocal::new(Cell::new(place)),
        last: BackendLocal::default(),
    }));
    ALL.lock().insert(&known.name, known);
    CURRENT.set(Some(known));
    known
}
