//! Functions that PostgreSQL calls without the wrapper that pgrx puts around a function: those that read one
//! number in a layout, of which whole columns are read.
//!
//! The wrapper alone takes 3 to 4 ns, most of what is left without it; so does a call into PostgreSQL, or to
//! compare the name of the layout. So a function of this kind touches nothing that could panic or raise an
//! error as long as all goes well, and remembers the layout for the rest of the query if it is a constant
//! there. What else can happen lies behind [`answer_slowly`].

use pgrx::pg_sys::panic::pgrx_extern_c_guard;
use pgrx::prelude::*;
use snowflake_id_core::{Layout, RangeError};

use crate::config;
use crate::error::{Error, OrReport};
use crate::pg::call::Call;
use crate::read::layout_argument::LayoutArgument;

/// What such a function makes of a layout and its first argument: `None` stands for NULL. Numbers are as in
/// the `Datum` of their type; all types used here are passed by value.
pub type Reader = fn(&Layout, i64) -> Result<Option<i64>, RangeError>;

/// Where the layout comes from.
#[derive(Clone, Copy)]
pub enum Source {
    /// `snowflake_id.layout`.
    Setting,
    /// The second argument.
    Argument,
}

/// Defines the C functions: their names, where the layout comes from, and the [`Reader`]. The SQL
/// declarations are in `sql/parts/decode.sql` and `sql/parts/range.sql`.
macro_rules! direct {
    ($($name:ident: $source:ident, $reader:path;)*) => {
        $(
            $crate::pg::function::declare_c_function!($name);

            /// # Safety
            /// Called by PostgreSQL alone, as it is declared in SQL.
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

/// Answers a call.
///
/// # Safety
/// `fcinfo` is that of a call by PostgreSQL of a STRICT function, whose arguments are a number passed by
/// value and, with [`Source::Argument`], a text.
#[inline(always)]
pub unsafe fn answer(fcinfo: pg_sys::FunctionCallInfo, source: Source, reader: Reader) -> pg_sys::Datum {
    // SAFETY: by this function's contract, here and below; a function remembers nothing but a layout.
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
        // SAFETY: as above. The guard may stand where PostgreSQL calls, which is here.
        _ => unsafe { pgrx_extern_c_guard(|| answer_slowly(call, source, reader)) },
    }
}

/// Finds the layout, or the error.
///
/// # Safety
/// As for [`answer`].
#[cold]
unsafe fn answer_slowly(call: Call, source: Source, reader: Reader) -> pg_sys::Datum {
    let layout = match source {
        Source::Setting => config::layout().or_report(),
        Source::Argument => {
            // SAFETY: by this function's contract; a function remembers nothing but a layout.
            let remembered = unsafe { call.remembered::<Layout>() }.copied();
            // SAFETY: as above: the second argument is a text.
            remembered.unwrap_or_else(|| unsafe { named_layout(call) })
        }
    };
    // SAFETY: as above.
    let number = unsafe { call.argument(0).value() as i64 };
    call.result(reader(&layout, number).map_err(Error::from).or_report())
}

/// The layout that the second argument names. It is remembered if every call from this place names the same.
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
