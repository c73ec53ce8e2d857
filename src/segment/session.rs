//! What this backend remembers of segments between calls: the slot of each name, and the last number of it.
//!
//! A slot that has had a number stays with its name, so that what was found once can be kept.

use std::cell::Cell;

use parking_lot::Mutex;

use crate::pg::backend_local::BackendLocal;
use crate::shared::segments::Slot;

/// A segment of which this session has taken a number.
pub struct Known {
    /// As this database writes it.
    name: Box<[u8]>,
    pub slot: &'static Slot,
    last: BackendLocal<Cell<i64>>,
}

impl Known {
    /// The last number that this session took.
    pub fn last(&self) -> i64 {
        self.last.get()
    }

    #[inline]
    pub fn set_last(&self, number: i64) {
        self.last.set(number);
    }
}

/// The one that was asked for last.
static CURRENT: BackendLocal<Cell<Option<&Known>>> = BackendLocal::new(Cell::new(None));
/// All of them. They are never freed: there are no more than slots.
static ALL: Mutex<Vec<&Known>> = Mutex::new(Vec::new());

/// What is known of a name.
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Known> {
    match CURRENT.get() {
        Some(known) if *known.name == *name => Some(known),
        _ => find_another(name),
    }
}

fn find_another(name: &[u8]) -> Option<&'static Known> {
    let all = ALL.lock();
    let known = *all.iter().find(|known| *known.name == *name)?;
    CURRENT.set(Some(known));
    Some(known)
}

/// Remembers the slot of a name, of which a number was just taken.
pub fn remember(name: &[u8], slot: &'static Slot) -> &'static Known {
    if let Some(known) = find(name) {
        return known;
    }
    let known: &Known = Box::leak(Box::new(Known { name: name.into(), slot, last: BackendLocal::default() }));
    ALL.lock().push(known);
    CURRENT.set(Some(known));
    known
}
