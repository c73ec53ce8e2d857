//! The twins of `snowflake_segment_nextval()` in defaults of columns. See [`crate::defaults`].

use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::prelude::*;

use super::numbers::{take_one, try_next};
use super::privilege;
use crate::error::{Error, OrReport};
use crate::pg::call::Call;
use crate::pg::function::{self, declare_c_function};
use crate::pg::varlena::{bytes, plain_bytes};
use crate::pg::{relation, role};

declare_c_function!(snowflake_segment_nextval_in_default);

/// Remembered by a call site whose privileges were checked.
struct Checked;

/// Returns the next number of a segment for a column default. The arguments are the original function, the name of the
/// segment, and the table or zero.
///
/// The arguments are constants in a plan, and a plan is executed by one role. Therefore, the privileges are checked once
/// for each call site in an execution of a plan.
///
/// # Safety
/// Only PostgreSQL may call this function, with the arguments that [`crate::defaults`] creates. None but the last is
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn snowflake_segment_nextval_in_default(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: by this function's contract. The text remains valid until the call ends. The call site remembers no other
    // value.
    let (call, name, is_checked) = unsafe {
        let call = Call::new(fcinfo);
        let name = plain_bytes(call.argument(1).cast_mut_ptr());
        (call, name, call.remembered::<Checked>().is_some())
    };
    if let Some(number) = name.filter(|_| is_checked).and_then(try_next) {
        return pg_sys::Datum::from(number);
    }
    // SAFETY: as above. PostgreSQL calls this function directly, as the guard requires.
    unsafe {
        pgrx_extern_c_guard(|| {
            let name = bytes(call.argument(1).cast_mut_ptr());
            if !is_checked {
                let [function, table] = [0, 2].map(|at| pg_sys::Oid::from(call.argument(at).value() as u32));
                check(function, name, table).or_report();
                call.remember(Checked);
            }
            take_one(name)
        })
    }
}

/// Returns an error unless the owner of the table or the current user may take numbers of the segment.
fn check(function: pg_sys::Oid, name: &[u8], table: pg_sys::Oid) -> Result<(), Error> {
    let owner = relation::owner_of(table);
    let user = role::current_user();
    for role in owner.into_iter().chain([user]) {
        if function::may_execute(role, function) && privilege::allows(role, name)? {
            return Ok(());
        }
    }
    let role = if function::may_execute(user, function) { user } else { owner.unwrap_or(user) };
    if function::may_execute(role, function) {
        return Err(privilege::denied(role, name));
    }
    Err(Error::SegmentNextvalDenied { role: role::identifier(role).unwrap_or_default() })
}
