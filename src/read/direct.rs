//! Functions that PostgreSQL calls without pgrx's wrapper. Each of these functions converts one number, an ID or a
//! time, with a layout. Queries often call these functions for every row of a table.
//!
//! The wrapper takes 3 to 4 ns, which is nearly as long as the function itself. Without the wrapper, nothing handles
//! panics and errors, so the fast path does nothing that could cause them. The fast path also avoids calls into
//! PostgreSQL and comparisons of layout names, because each of them takes about as long as the wrapper. If the layout
//! is a constant in the query, the layout is remembered for the rest of the query. [`answer_slowly`] handles all other
//! cases.

use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::prelude::*;
use snowflake_id_core::{Layout, RangeError};

use crate::config;
use crate::error::{Error, OrReport};
use crate::pg::call::Call;
use crate::read::layout_argument::LayoutArgument;

/// Computes the result of an SQL function from a layout and the function's first argument. `None` is NULL.
/// Arguments and results are represented as in a `Datum`. All argument types and result types are passed by
/// value.
pub type Reader = fn(&Layout, i64) -> Result<Option<i64>, RangeError>;

/// The source of the layout.
#[derive(Clone, Copy)]
pub enum Source {
    /// The setting `snowflake_id.layout`.
    Setting,
    /// The function's second argument.
    Argument,
}

/// Defines C functions. Each definition consists of a name, the source of the layout, and a [`Reader`]. The
/// SQL declarations are in `sql/parts/decode.sql` and `sql/parts/range.sql`.
macro_rules! direct {
    ($($name:ident: $source:ident, $reader:path;)*) => {
        $(
            $crate::pg::function::declare_c_function!($name);

            /// # Safety
            /// Only PostgreSQL may call the function, as declared in SQL.
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name(
                fcinfo: ::pgrx::pg_sys::FunctionCallInfo,
            ) -> ::pgrx::pg_sys::Datum {
                // SAFETY: by this function's contract.
                unsafe {
                    $crate::read::direct::answer(fcinfo, $crate::read::direct::Source::$source, $reader)
                }
            }
        )*
    };
}
pub(crate) use direct;

/// Computes the result for a call of a function that is defined with `direct`.
///
/// # Safety
/// `fcinfo` belongs to a call by PostgreSQL. The called function is STRICT, and its first argument is a
/// number passed by value. If `source` is [`Source::Argument`], the second argument is a text.
#[inline(always)]
pub unsafe fn answer(fcinfo: pg_sys::FunctionCallInfo, source: Source, reader: Reader) -> pg_sys::Datum {
    // SAFETY: here and below, by this function's contract. Functions defined with `direct` remember only
    // layouts.
    let (call, number) = unsafe {
        let call = Call::new(fcinfo);
        (call, call.argument(0).value() as i64)
    };
    let layout = match source {
        Source::Setting => config::valid_layout(),
        // SAFETY: as above.
        Source::Argument => unsafe { call.remembered::<Layout>() }.copied(),
    };
    match layout.map(|layout| reader(&layout, number)) {
        Some(Ok(value)) => call.result(value),
        // SAFETY: as above. The guard may be used because PostgreSQL calls this function directly.
        _ => unsafe { pgrx_extern_c_guard(|| answer_slowly(call, source, reader)) },
    }
}

/// Handles the calls that the fast path cannot handle: calls without a remembered layout, and calls that
/// raise an error.
///
/// # Safety
/// As for [`answer`].
#[cold]
unsafe fn answer_slowly(call: Call, source: Source, reader: Reader) -> pg_sys::Datum {
    let layout = match source {
        Source::Setting => config::layout().or_report(),
        Source::Argument => {
            // SAFETY: by this function's contract. Functions defined with `direct` remember only layouts.
            let remembered = unsafe { call.remembered::<Layout>() }.copied();
            // SAFETY: as above. The second argument is a text.
            remembered.unwrap_or_else(|| unsafe { named_layout(call) })
        }
    };
    // SAFETY: as above.
    let number = unsafe { call.argument(0).value() as i64 };
    call.result(reader(&layout, number).map_err(Error::from).or_report())
}

/// Returns the layout given by the second argument. If the second argument is a constant in the query, the
/// layout is remembered.
///
/// # Safety
/// The second argument is a text.
unsafe fn named_layout(call: Call) -> Layout {
    // SAFETY: by this function's contract.
    let (LayoutArgument(layout), is_constant) =
        unsafe { (LayoutArgument::from_text(call.argument(1)), call.is_constant(1)) };
    if is_constant {
        call.remember(layout);
    }
    layout
}
