//! PostgreSQL's lists.

use pgrx::prelude::*;

/// Returns the elements of a list.
///
/// # Safety
/// The list is null, which is the empty list, or a list of pointers to values of type `T`. The list does not change
/// while the iterator is used.
pub unsafe fn elements<T>(list: *const pg_sys::List) -> impl Iterator<Item = *mut T> {
    // SAFETY: by this function's contract. A list has `length` elements.
    let count = unsafe { list.as_ref().map_or(0, |list| list.length as usize) };
    // SAFETY: as above.
    (0..count).map(move |at| unsafe { (*(*list).elements.add(at)).ptr_value.cast() })
}
