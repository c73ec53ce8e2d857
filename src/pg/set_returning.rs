//! Calling set-returning functions without SQL. No object is looked up by name.

use std::ffi::{CStr, CString};

use pgrx::PgTupleDesc;
use pgrx::prelude::*;

use super::relation::{Function, RightsOf};

/// The maximum length of a value, in bytes.
const LONGEST_VALUE: usize = 8_192;

/// Calls a set-returning function with a composite result type. The function runs with the rights of its owner, in a
/// security-restricted operation. Returns the values of the given columns as UTF-8 strings. A column that does not
/// exist in the result is NULL. At most `most` rows are returned, and the rest is ignored.
///
/// # Errors
/// Returns an error if a value is longer than 8192 bytes.
///
/// # Safety
/// The caller is in a transaction with an active snapshot. The arguments have the types that the function
/// takes. The function can return all rows at once, as functions in PL/pgSQL do.
pub unsafe fn call<const N: usize>(
    function: Function,
    arguments: &[Option<pg_sys::Datum>],
    columns: [&str; N],
    most: usize,
) -> Result<Vec<Vec<Option<String>>>, String> {
    let _rights = RightsOf::role(function.owner);
    // SAFETY: by this function's contract. The structures passed to PostgreSQL are built as in its own
    // executor, and remain valid until the rows have been read.
    unsafe {
        let mut flinfo = pg_sys::FmgrInfo::default();
        pg_sys::fmgr_info(function.oid, &mut flinfo);
        let row_type = pg_sys::get_func_rettype(function.oid);
        let mut rows = pg_sys::ReturnSetInfo {
            type_: pg_sys::NodeTag::T_ReturnSetInfo,
            econtext: pg_sys::CreateStandaloneExprContext(),
            expectedDesc: pg_sys::lookup_rowtype_tupdesc_copy(row_type, -1),
            allowedModes: pg_sys::SetFunctionReturnMode::SFRM_Materialize as i32,
            returnMode: pg_sys::SetFunctionReturnMode::SFRM_ValuePerCall,
            ..Default::default()
        };
        let size = size_of::<pg_sys::FunctionCallInfoBaseData>()
            + arguments.len() * size_of::<pg_sys::NullableDatum>();
        let call = pg_sys::palloc0(size).cast::<pg_sys::FunctionCallInfoBaseData>();
        (*call).flinfo = &mut flinfo;
        (*call).resultinfo = (&raw mut rows).cast();
        (*call).nargs = arguments.len() as i16;
        let slots = (*call).args.as_mut_ptr();
        for (at, argument) in arguments.iter().enumerate() {
            *slots.add(at) = pg_sys::NullableDatum {
                value: argument.unwrap_or(pg_sys::Datum::null()),
                isnull: argument.is_none(),
            };
        }
        let code = flinfo.fn_addr.expect("bug: fmgr_info has not found the function");
        pg_sys::ffi::pg_guard_ffi_boundary(|| code(call));
        if rows.returnMode != pg_sys::SetFunctionReturnMode::SFRM_Materialize || rows.setResult.is_null() {
            return Ok(vec![]);
        }
        read(rows.setResult, rows.setDesc, columns, most)
    }
}

/// Reads the first rows from the tuplestore that a function has filled.
///
/// # Safety
/// The rows in the tuplestore match the descriptor.
unsafe fn read<const N: usize>(
    store: *mut pg_sys::Tuplestorestate,
    descriptor: pg_sys::TupleDesc,
    columns: [&str; N],
    most: usize,
) -> Result<Vec<Vec<Option<String>>>, String> {
    let mut rows = vec![];
    // SAFETY: by this function's contract. Only attributes in the descriptor are read.
    unsafe {
        let attributes = PgTupleDesc::from_pg_unchecked(descriptor);
        let indexes = columns.map(|name| attributes.iter().position(|attribute| attribute.name() == name));
        let slot = pg_sys::MakeSingleTupleTableSlot(descriptor, &raw const pg_sys::TTSOpsMinimalTuple);
        while rows.len() < most && pg_sys::tuplestore_gettupleslot(store, true, false, slot) {
            pg_sys::slot_getsomeattrs_int(slot, attributes.len() as i32);
            let value = |index: Option<usize>| {
                let at = index.filter(|&at| !*(*slot).tts_isnull.add(at))?;
                let attribute = attributes.get(at)?;
                let value = *(*slot).tts_values.add(at);
                let is_too_long =
                    attribute.attlen == -1 && pg_sys::toast_raw_datum_size(value) > LONGEST_VALUE;
                let text = || text_of(value, attribute.atttypid);
                Some(if is_too_long { Err("a value is too long".to_owned()) } else { Ok(text()) })
            };
            rows.push(indexes.map(|index| value(index).transpose()).into_iter().collect::<Result<_, _>>()?);
        }
        pg_sys::ExecDropSingleTupleTableSlot(slot);
    }
    Ok(rows)
}

/// Converts a value to a UTF-8 string.
///
/// # Safety
/// The value has type `type_oid`.
unsafe fn text_of(value: pg_sys::Datum, type_oid: pg_sys::Oid) -> String {
    let (mut output, mut is_varlena) = (pg_sys::InvalidOid, false);
    // SAFETY: by this function's contract. The functions return C strings.
    unsafe {
        pg_sys::getTypeOutputInfo(type_oid, &mut output, &mut is_varlena);
        let text = pg_sys::OidOutputFunctionCall(output, value);
        let length = CStr::from_ptr(text).count_bytes() as i32;
        let text = pg_sys::pg_server_to_any(text, length, pg_sys::pg_enc::PG_UTF8 as i32);
        CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

/// Converts a string to a value of a type. Returns `None` if the string contains a NUL. Raises an error of class 22 if
/// the database encoding cannot represent the string.
///
/// # Safety
/// The caller is in a transaction.
pub unsafe fn value_of(text: &str, type_oid: pg_sys::Oid) -> Option<pg_sys::Datum> {
    let utf8 = CString::new(text).ok()?;
    let (mut input, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
    // SAFETY: the string is a C string of this length. The conversion returns a C string, too. The function `input` is
    // the input function of the type.
    unsafe {
        let text = pg_sys::pg_any_to_server(utf8.as_ptr(), text.len() as i32, pg_sys::pg_enc::PG_UTF8 as i32);
        pg_sys::getTypeInputInfo(type_oid, &mut input, &mut parameter);
        Some(pg_sys::OidInputFunctionCall(input, text, parameter, -1))
    }
}
