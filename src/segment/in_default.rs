//! The twins of `snowflake_segment_nextval()` in defaults of columns. See [`crate::defaults`].

use parking_lot::Mutex;
use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::prelude::*;

use super::checked::Checked;
use super::numbers::{take_one, try_next};
use super::privilege;
use crate::error::{Error, OrReport};
use crate::pg::call::Call;
use crate::pg::function::{self, declare_c_function};
use crate::pg::varlena::{bytes, plain_bytes};
use crate::pg::{relation, role};
use crate::shared::segment_record::LONGEST_NAME;

declare_c_function!(snowflake_segment_nextval_in_default);

/// The original function, the table (zero if only the privileges of the current user count), and the current user.
#[derive(Clone, Copy, PartialEq)]
struct Objects {
    function: pg_sys::Oid,
    table: pg_sys::Oid,
    user: pg_sys::Oid,
}

/// Calls that are known to be allowed, with the names of segments. Without this list, an `INSERT` of one row would take
/// a quarter longer.
static ALLOWED: Mutex<Checked<(Objects, Box<[u8]>)>> = Mutex::new(Checked::new());

/// Returns the next number of a segment for a column default. The arguments are the original function, the name of the
/// segment, and the table (zero if only the privileges of the current user count).
///
/// # Safety
/// Only PostgreSQL may call this function, with the arguments that [`crate::defaults`] creates. Only the last argument
/// is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_segment_nextval_in_default(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: guaranteed by this function's contract. The text remains valid until the call ends.
    let ([function, table], text, name) = unsafe {
        let call = Call::new(fcinfo);
        let text = call.argument(1).cast_mut_ptr();
        ([0, 2].map(|at| pg_sys::Oid::from(call.argument(at).value() as u32)), text, plain_bytes(text))
    };
    let objects = Objects { function, table, user: role::current_user() };
    if let Some(number) = name.filter(|name| is_known_to_be_allowed(objects, name)).and_then(try_next) {
        return pg_sys::Datum::from(number);
    }
    // SAFETY: as above. PostgreSQL calls this function directly, as the guard requires.
    unsafe {
        pgrx_extern_c_guard(|| {
            let name = bytes(text);
            check(objects, name).or_report();
            take_one(name)
        })
    }
}

fn is_known_to_be_allowed(objects: Objects, name: &[u8]) -> bool {
    let is_it = |(known, known_name): &(Objects, Box<[u8]>)| *known == objects && **known_name == *name;
    ALLOWED.lock().find(privilege::changes_of_anything(), is_it).is_some()
}

/// Returns an error unless the owner of the table or the current user may take numbers of the segment.
fn check(objects: Objects, name: &[u8]) -> Result<(), Error> {
    privilege::watch_changes();
    if is_known_to_be_allowed(objects, name) {
        return Ok(());
    }
    let as_of = privilege::changes_of_anything();
    let Objects { function, table, user } = objects;
    let owner = relation::owner_of(table);
    for role in owner.into_iter().chain([user]) {
        if function::may_execute(role, function) && privilege::allows(role, name)? {
            remember(as_of, objects, name);
            return Ok(());
        }
    }
    let role = if function::may_execute(user, function) { user } else { owner.unwrap_or(user) };
    if function::may_execute(role, function) {
        return Err(privilege::denied(role, name));
    }
    Err(Error::SegmentNextvalDenied {
        function: function::name(function).unwrap_or_default(),
        role: role::identifier(role).unwrap_or_default(),
    })
}

fn remember(as_of: u64, objects: Objects, name: &[u8]) {
    if name.len() <= LONGEST_NAME {
        ALLOWED.lock().remember(as_of, (objects, name.into())); // A longer name may be huge.
    }
}
