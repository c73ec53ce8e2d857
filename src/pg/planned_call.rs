//! Function calls as a planner support function sees them: the place of a call, and its replacement by another call.

use std::ffi::{CStr, c_void};

use pgrx::prelude::*;

use super::list::elements;
use super::varlena::bytes;
use super::{function, relation};

/// A call that the planner is simplifying.
#[derive(Clone, Copy)]
pub struct PlannedCall(*mut pg_sys::SupportRequestSimplify);

/// An argument of the call that replaces another call.
#[derive(Clone, Copy)]
pub enum Argument {
    /// An argument of the original call.
    Original(*mut pg_sys::Const),
    /// An OID, as a value of a type such as `regclass`.
    Oid(pg_sys::Oid, pg_sys::Oid),
    /// NULL of type `internal`. Users cannot write calls with this argument, because no SQL value has this type.
    Internal,
}

impl Argument {
    fn type_oid(self) -> pg_sys::Oid {
        match self {
            // SAFETY: the planner keeps the original call while the support function runs.
            Argument::Original(constant) => unsafe { (*constant).consttype },
            Argument::Oid(type_oid, _) => type_oid,
            Argument::Internal => pg_sys::INTERNALOID,
        }
    }

    fn node(self) -> *mut pg_sys::Const {
        // SAFETY: creates nodes in the current memory context, where the planner expects them.
        unsafe {
            match self {
                Argument::Original(constant) => constant,
                Argument::Oid(type_oid, oid) => {
                    let length = size_of::<pg_sys::Oid>() as i32;
                    pg_sys::makeConst(type_oid, -1, pg_sys::InvalidOid, length, oid.into(), false, true)
                }
                Argument::Internal => pg_sys::makeNullConst(pg_sys::INTERNALOID, -1, pg_sys::InvalidOid),
            }
        }
    }
}

impl PlannedCall {
    /// Returns the call if the planner asks a support function to simplify a call.
    ///
    /// # Safety
    /// `fcinfo` is the call of a support function, whose only argument is a node.
    pub unsafe fn new(fcinfo: pg_sys::FunctionCallInfo) -> Option<PlannedCall> {
        // SAFETY: by this function's contract. A node has the type that its tag says.
        unsafe {
            let request: *mut pg_sys::Node = (*(*fcinfo).args.as_ptr()).value.cast_mut_ptr();
            pgrx::is_a(request, pg_sys::NodeTag::T_SupportRequestSimplify)
                .then(|| PlannedCall(request.cast()))
        }
    }

    /// Returns the function that is called.
    pub fn function(self) -> pg_sys::Oid {
        // SAFETY: the request is valid while the support function runs.
        unsafe { (*(*self.0).fcall).funcid }
    }

    /// Returns the first argument if it is a constant of type `text`.
    pub fn text(self) -> Option<Argument> {
        // SAFETY: as above.
        unsafe { first_argument((*self.0).fcall).map(Argument::Original) }
    }

    /// Returns whether the call is planned outside a query, for example in an expression that a command evaluates.
    pub fn has_no_query(self) -> bool {
        // SAFETY: as above.
        unsafe { (*self.0).root.is_null() }
    }

    /// Returns the relation into which the query inserts rows, if the query is an `INSERT`, or a `MERGE` that can
    /// insert rows. The call may be anywhere in the query, except in its subqueries. The executor checks the privilege
    /// to insert rows before it evaluates the call.
    pub fn target_of_insert(self) -> Option<pg_sys::Oid> {
        // SAFETY: as above. The planner works on a complete query. The lists contain nodes of these types.
        unsafe {
            let query = (*self.0).root.as_ref()?.parse;
            let inserts = match (*query).commandType {
                pg_sys::CmdType::CMD_INSERT => true,
                pg_sys::CmdType::CMD_MERGE => elements::<pg_sys::MergeAction>((*query).mergeActionList)
                    .any(|action| (*action).commandType == pg_sys::CmdType::CMD_INSERT),
                _ => false,
            };
            let target = usize::try_from((*query).resultRelation).ok()?.checked_sub(1)?;
            let target = elements::<pg_sys::RangeTblEntry>((*query).rtable).nth(target)?;
            inserts.then_some((*target).relid)
        }
    }

    /// Returns whether any column default of the relation contains the same call with the same constant text. Defaults
    /// of domains are not considered. The relation is locked during the check.
    pub fn is_in_default_of(self, relation: pg_sys::Oid) -> bool {
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        // SAFETY: the request is valid while the support function runs. The relation stays open while its defaults are
        // read. PostgreSQL stores each default as a string that represents a node. The walker is called with `wanted`,
        // which outlives the call.
        unsafe {
            let Some(argument) = first_argument((*self.0).fcall) else { return false };
            let text = bytes((*argument).constvalue.cast_mut_ptr());
            let mut wanted = Wanted { function: self.function(), text };
            let relation = pg_sys::try_relation_open(relation, lock);
            if relation.is_null() {
                return false;
            }
            let constraints = (*(*relation).rd_att).constr;
            let count = constraints.as_ref().map_or(0, |constraints| usize::from(constraints.num_defval));
            let is_found = (0..count).any(|at| {
                let stored = (*(*constraints).defval.add(at)).adbin;
                !stored.is_null() && is_wanted(pg_sys::stringToNode(stored).cast(), (&raw mut wanted).cast())
            });
            pg_sys::relation_close(relation, lock);
            is_found
        }
    }

    /// Returns a call of an internal function that returns `bigint`. Returns `None` if the function does not exist, or
    /// if the user may not execute it.
    pub fn replaced_by<const N: usize>(
        self,
        user: pg_sys::Oid,
        name: &CStr,
        arguments: [Argument; N],
    ) -> Option<*mut pg_sys::FuncExpr> {
        // SAFETY: the name is a C string. Nodes are created in the current memory context, where the planner expects
        // them.
        unsafe {
            let function =
                relation::internal_function(self.function(), name, &arguments.map(Argument::type_oid))?;
            if !function::may_execute(user, function) {
                return None;
            }
            let append = |list, argument: Argument| pg_sys::lappend(list, argument.node().cast());
            Some(pg_sys::makeFuncExpr(
                function,
                pg_sys::INT8OID,
                arguments.into_iter().fold(std::ptr::null_mut(), append),
                pg_sys::InvalidOid,
                pg_sys::InvalidOid,
                pg_sys::CoercionForm::COERCE_EXPLICIT_CALL,
            ))
        }
    }
}

/// Returns the first argument of a call if the argument is a constant of type `text` and is not NULL.
///
/// # Safety
/// The call is valid.
unsafe fn first_argument(call: *const pg_sys::FuncExpr) -> Option<*mut pg_sys::Const> {
    // SAFETY: by this function's contract. A node has the type that its tag says.
    unsafe {
        let mut node = elements::<pg_sys::Node>((*call).args).next()?;
        // A `varchar` constant is also accepted. In a stored default, the constant is below a node that relabels it as
        // `text`. In a call that is being planned, the planner has already removed this node.
        while pgrx::is_a(node, pg_sys::NodeTag::T_RelabelType) {
            node = (*node.cast::<pg_sys::RelabelType>()).arg.cast();
        }
        if !pgrx::is_a(node, pg_sys::NodeTag::T_Const) {
            return None;
        }
        let constant = node.cast::<pg_sys::Const>();
        let is_text = [pg_sys::TEXTOID, pg_sys::VARCHAROID].contains(&(*constant).consttype);
        (is_text && !(*constant).constisnull).then_some(constant)
    }
}

/// The call that is searched for in an expression.
struct Wanted<'a> {
    function: pg_sys::Oid,
    text: &'a [u8],
}

/// Returns whether an expression contains the wanted call.
///
/// # Safety
/// The first argument is an expression or null, and the second argument points to a [`Wanted`].
#[pg_guard]
unsafe extern "C-unwind" fn is_wanted(node: *mut pg_sys::Node, wanted: *mut c_void) -> bool {
    // SAFETY: by this function's contract. A node has the type that its tag says.
    unsafe {
        if node.is_null() {
            return false;
        }
        if pgrx::is_a(node, pg_sys::NodeTag::T_FuncExpr) {
            let (call, wanted) = (node.cast::<pg_sys::FuncExpr>(), &*wanted.cast::<Wanted>());
            let has_text =
                |constant: *mut pg_sys::Const| bytes((*constant).constvalue.cast_mut_ptr()) == wanted.text;
            if (*call).funcid == wanted.function && first_argument(call).is_some_and(has_text) {
                return true;
            }
        }
        walk(node, wanted)
    }
}

/// Returns whether a part of an expression contains the wanted call.
///
/// # Safety
/// As for [`is_wanted`]. The expression is not null.
unsafe fn walk(node: *mut pg_sys::Node, wanted: *mut c_void) -> bool {
    #[cfg(not(feature = "pg15"))]
    use pg_sys::expression_tree_walker_impl;
    // pgrx does not declare this function for PostgreSQL 15, whose C declaration omits the arguments of the walker.
    #[cfg(feature = "pg15")]
    unsafe extern "C-unwind" {
        #[link_name = "expression_tree_walker"]
        fn expression_tree_walker_impl(
            node: *mut pg_sys::Node,
            walker: Option<unsafe extern "C-unwind" fn(*mut pg_sys::Node, *mut c_void) -> bool>,
            context: *mut c_void,
        ) -> bool;
    }
    // SAFETY: by this function's contract. The guard turns an error of PostgreSQL into a panic, so that Rust runs the
    // destructors.
    unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| expression_tree_walker_impl(node, Some(is_wanted), wanted))
    }
}
