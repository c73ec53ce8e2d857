//! Functions that PostgreSQL calls without pgrx's wrapper. Each function reads one number in a layout, and is often
//! called for every row of a table.
//!
//! The wrapper takes 3 to 4 ns, which is nearly as long as the rest of the function. A call into PostgreSQL or a
//! comparison of the layout's name takes about the same time. Therefore, the fast path of these functions does
//! nothing that could panic or raise an error. If the layout is a constant in the query, it is remembered for the
//! rest of the query. [`answer_slowly`] handles all other cases.

use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::prelude::*;
use snowflake_id_core::{Layout, RangeError};

use crate::config;
use crate::error::{Error, OrReport};
use crate::pg::call::Call;
use crate::read::layout_argument::LayoutArgument;

/// Computes the result of such a function from a layout and its first argument. `None` is NULL. Numbers are
/// represented as in a `Datum`. All types used here are passed by value.
pub type Reader = fn(&Layout, i64) -> Result<Option<i64>, RangeError>;

/// The source of the layout.
#[derive(Clone, Copy)]
pub enum Source {
    /// The setting `snowflake_id.layout`.
    Setting,
    /// The function's second argument.
    Argument,
}

/// Defines a C function for each given name, source of the layout, and [`Reader`]. The SQL declarations are in
/// `sql/parts/decode.sql` and `sql/parts/range.sql`.
macro_rules! direct {
    ($($name:ident: $source:ident, $reader:path;)*) => {
        $(
            $crate::pg::function::declare_c_function!($name);

            /// # Safety
            /// To be called by PostgreSQL only, as declared in SQL.
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

/// Answers a call of a function that `direct` defines.
///
/// # Safety
/// `fcinfo` belongs to a call by PostgreSQL. The function is STRICT. Its first argument is a number passed by value.
/// If `source` is [`Source::Argument`], the second argument is a text.
#[inline(always)]
pub unsafe fn answer(fcinfo: pg_sys::FunctionCallInfo, source: Source, reader: Reader) -> pg_sys::Datum {
    // SAFETY: here and below, by this function's contract. Functions defined by `direct` remember only layouts.
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
        // SAFETY: as above. PostgreSQL calls this function directly, as the guard requires.
        _ => unsafe { pgrx_extern_c_guard(|| answer_slowly(call, source, reader)) },
    }
}

/// Answers a call for which no layout is remembered yet, or which raises an error.
///
/// # Safety
/// As for [`answer`].
#[cold]
unsafe fn answer_slowly(call: Call, source: Source, reader: Reader) -> pg_sys::Datum {
    let layout = match source {
        Source::Setting => config::layout().or_report(),
        Source::Argument => {
            // SAFETY: by this function's contract. Functions defined by `direct` remember only layouts.
            let remembered = unsafe { call.remembered::<Layout>() }.copied();
            // SAFETY: as above. The second argument is a text.
            remembered.unwrap_or_else(|| unsafe { named_layout(call) })
        }
    };
    // SAFETY: as above.
    let number = unsafe { call.argument(0).value() as i64 };
    call.result(reader(&layout, number).map_err(Error::from).or_report())
}

/// Returns the layout given by the second argument. If that argument is a constant in the query, the layout is
/// remembered.
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
