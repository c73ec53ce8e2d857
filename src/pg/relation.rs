//! Access to an extension's relations without SQL.
//!
//! The database may have a malicious owner. While a query waits for a lock on a table, the owner could replace the
//! table with a view that calls a function. The function would run with the rights of the user who runs the query.
//! Therefore, this module looks up the OID of a relation and locks the relation by its OID. Then it checks that the
//! name still refers to this relation, and that the relation has the right kind and is a member of the extension. Only
//! a superuser can add members. The rows are read and written without the planner, triggers, policies or operators
//! ([`super::rows`]), so user-defined code cannot run.
//!
//! All functions must be called in a transaction. After an error, the end of the transaction closes and unlocks all
//! relations.

use std::ffi::CStr;

use pgrx::prelude::*;

use super::function::{self, function_in};
use super::syscache::cached;

/// An extension in the current database.
#[derive(Clone, Copy)]
pub struct Extension(pg_sys::Oid);

/// The kinds of relations that can be locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Table,
    MaterializedView,
}

impl Kind {
    fn relkind(self) -> u8 {
        match self {
            Kind::Table => pg_sys::RELKIND_RELATION,
            Kind::MaterializedView => pg_sys::RELKIND_MATVIEW,
        }
    }

    /// Returns the lock mode for operations on relations of this kind.
    fn lock(self) -> pg_sys::LOCKMODE {
        let lock = match self {
            Kind::Table => pg_sys::AccessShareLock,
            Kind::MaterializedView => pg_sys::RowExclusiveLock,
        };
        lock as pg_sys::LOCKMODE
    }
}

impl Extension {
    /// Returns the extension with this name, if such an extension exists.
    pub fn find(name: &CStr) -> Option<Extension> {
        // SAFETY: the name is a C string.
        let oid = unsafe { pg_sys::get_extension_oid(name.as_ptr(), true) };
        (oid != pg_sys::InvalidOid).then_some(Extension(oid))
    }

    /// Returns the schema in which the extension's script creates objects by default.
    pub fn schema(self) -> Option<pg_sys::Oid> {
        let mut schema = None;
        // PostgreSQL 15 does not export a function that looks up the schema of an extension.
        const OID_COLUMNS: [(&CStr, pg_sys::Oid); 2] =
            [(c"oid", pg_sys::OIDOID), (c"extnamespace", pg_sys::OIDOID)];
        Relation(pg_sys::ExtensionRelationId).for_each_row(OID_COLUMNS, |[oid, namespace]| {
            if oid == Some(self.0.into()) {
                schema = namespace.map(|namespace| pg_sys::Oid::from(namespace.value() as u32));
            }
        });
        schema
    }

    /// Returns whether the current transaction has created or altered the extension. Other sessions then see the old
    /// version of the extension, or do not see the extension yet.
    pub fn is_uncommitted(self) -> bool {
        // SAFETY: pg_extension remains open until all rows have been read. No snapshot is passed, so PostgreSQL reads
        // the catalog with a catalog snapshot, even in parallel workers. The rows of pg_extension have this type.
        unsafe {
            let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
            let catalog = pg_sys::relation_open(pg_sys::ExtensionRelationId, lock);
            let scan = pg_sys::systable_beginscan(
                catalog,
                pg_sys::InvalidOid,
                false,
                std::ptr::null_mut(),
                0,
                std::ptr::null_mut(),
            );
            let mut is_uncommitted = false;
            loop {
                let row = pg_sys::systable_getnext(scan);
                if row.is_null() {
                    break;
                }
                if (*pg_sys::GETSTRUCT(row).cast::<pg_sys::FormData_pg_extension>()).oid == self.0 {
                    let header = &*(*row).t_data;
                    let is_frozen =
                        u32::from(header.t_infomask) & pg_sys::HEAP_XMIN_FROZEN == pg_sys::HEAP_XMIN_FROZEN;
                    let writer = header.t_choice.t_heap.t_xmin;
                    is_uncommitted = !is_frozen && pg_sys::TransactionIdIsCurrentTransactionId(writer);
                }
            }
            pg_sys::systable_endscan(scan);
            pg_sys::relation_close(catalog, lock);
            is_uncommitted
        }
    }

    /// Finds a function of the extension by its name and argument types, and locks the function until the end of the
    /// transaction. Returns `None` if the schema belongs to a role that is neither the owner of the function nor a
    /// superuser. Such a role could replace objects that the function refers to.
    pub fn function(self, schema: pg_sys::Oid, name: &CStr, arguments: &[pg_sys::Oid]) -> Option<Function> {
        use pg_sys::SysCacheIdentifier::NAMESPACEOID;
        let find = || function_in(schema, name, arguments);
        // SAFETY: the cache entry is a row of the corresponding catalog.
        unsafe {
            let oid = find();
            if oid == pg_sys::InvalidOid {
                return None;
            }
            let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
            pg_sys::LockDatabaseObject(pg_sys::ProcedureRelationId, oid, 0, lock);
            let is_own =
                find() == oid && pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, oid) == self.0;
            let owner = function::owner(oid)?;
            let neighbour = cached(NAMESPACEOID, schema, |row: &pg_sys::FormData_pg_namespace| row.nspowner)?;
            let is_safe = neighbour == owner || pg_sys::superuser_arg(neighbour);
            (is_own && is_safe).then_some(Function { oid, owner })
        }
    }

    /// Finds a relation of the extension by its name and kind, and locks the relation until the end of the
    /// transaction. The relation must be a heap, because its rows are read and written as heap tuples.
    pub fn lock(self, schema: pg_sys::Oid, name: &CStr, kind: Kind) -> Option<Relation> {
        self.lock_by(schema, name, kind, |oid| {
            // SAFETY: accepts any OID.
            unsafe { pg_sys::LockRelationOid(oid, kind.lock()) };
            true
        })
    }

    /// Works like [`Extension::lock`], but also returns `None` if another session holds a conflicting lock.
    pub fn lock_if_free(self, schema: pg_sys::Oid, name: &CStr, kind: Kind) -> Option<Relation> {
        // SAFETY: accepts any OID.
        self.lock_by(schema, name, kind, |oid| unsafe {
            pg_sys::ConditionalLockRelationOid(oid, kind.lock())
        })
    }

    fn lock_by(
        self,
        schema: pg_sys::Oid,
        name: &CStr,
        kind: Kind,
        lock: impl FnOnce(pg_sys::Oid) -> bool,
    ) -> Option<Relation> {
        // SAFETY: the name is a C string. The relation cannot change after it is locked.
        unsafe {
            let oid = pg_sys::get_relname_relid(name.as_ptr(), schema);
            if oid == pg_sys::InvalidOid || !lock(oid) {
                return None;
            }
            let is_own = pg_sys::get_relname_relid(name.as_ptr(), schema) == oid
                && pg_sys::get_rel_relkind(oid) as u8 == kind.relkind()
                && pg_sys::get_rel_persistence(oid) as u8 == pg_sys::RELPERSISTENCE_PERMANENT
                && is_heap(oid)
                && pg_sys::getExtensionOfObject(pg_sys::RelationRelationId, oid) == self.0;
            is_own.then_some(Relation(oid))
        }
    }
}

/// A locked function and its owner.
#[derive(Clone, Copy)]
pub struct Function {
    pub oid: pg_sys::Oid,
    pub owner: pg_sys::Oid,
}

/// Returns the schema with this name, if such a schema exists.
pub fn schema(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: the name is a C string.
    let oid = unsafe { pg_sys::get_namespace_oid(name.as_ptr(), true) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// Returns the schema of the internal objects of extension `snowflake_id`, if it exists.
pub fn internal_schema() -> Option<pg_sys::Oid> {
    schema(c"snowflake_internal")
}

/// Returns the internal function with this name and these argument types. `caller` is the function of the extension
/// that needs it. Returns `None` if the two functions have different owners, because the extension can be dropped while
/// the caller runs, and a role that may create schemas could then replace the internal schema and its functions.
pub fn internal_function(caller: pg_sys::Oid, name: &CStr, arguments: &[pg_sys::Oid]) -> Option<pg_sys::Oid> {
    let function = function_in(internal_schema()?, name, arguments);
    (function::owner(function)? == function::owner(caller)?).then_some(function)
}

/// A locked relation or a system catalog.
#[derive(Clone, Copy)]
pub struct Relation(pub(super) pg_sys::Oid);

impl Relation {
    pub fn oid(self) -> pg_sys::Oid {
        self.0
    }

    /// Releases the lock before the end of the transaction. `kind` is the kind for which the relation was locked.
    pub fn unlock(self, kind: Kind) {
        // SAFETY: releases a lock that this transaction holds.
        unsafe { pg_sys::UnlockRelationOid(self.0, kind.lock()) };
    }
}

/// Restricts the process to the rights of one role, in a security-restricted operation, until this value is dropped.
/// The process may have had a different role before, for example because of `ALTER DATABASE .. SET role`.
pub struct RightsOf {
    user: pg_sys::Oid,
    context: i32,
}

impl RightsOf {
    pub fn role(role: pg_sys::Oid) -> RightsOf {
        let mut before = RightsOf { user: pg_sys::InvalidOid, context: 0 };
        // SAFETY: the pointers are to variables for the results.
        unsafe {
            pg_sys::GetUserIdAndSecContext(&mut before.user, &mut before.context);
            let restricted = before.context | pg_sys::SECURITY_RESTRICTED_OPERATION as i32;
            pg_sys::SetUserIdAndSecContext(role, restricted);
        }
        before
    }
}

impl Drop for RightsOf {
    fn drop(&mut self) {
        // SAFETY: restores the previous values.
        unsafe { pg_sys::SetUserIdAndSecContext(self.user, self.context) };
    }
}

/// Returns whether the current database, the schema and the relation all belong to superusers. The owner of a database,
/// schema or relation can drop it with its contents.
pub fn belongs_to_superusers(schema: pg_sys::Oid, relation: Relation) -> bool {
    use pg_sys::SysCacheIdentifier::{DATABASEOID, NAMESPACEOID, RELOID};
    // SAFETY: the cache entries are rows of the corresponding catalogs. The values are copied before the entries are
    // released.
    let owners = unsafe {
        [
            cached(DATABASEOID, pg_sys::MyDatabaseId, |row: &pg_sys::FormData_pg_database| row.datdba),
            cached(NAMESPACEOID, schema, |row: &pg_sys::FormData_pg_namespace| row.nspowner),
            cached(RELOID, relation.0, |row: &pg_sys::FormData_pg_class| row.relowner),
        ]
    };
    // The role pg_database_owner represents the owner of the database.
    let owner_of_database = pg_sys::Oid::from(pg_sys::ROLE_PG_DATABASE_OWNER);
    // SAFETY: accepts any OID.
    owners
        .into_iter()
        .flatten()
        .all(|owner| owner == owner_of_database || unsafe { pg_sys::superuser_arg(owner) })
}

/// Returns the owner of a relation, or `None` if the relation does not exist.
pub fn owner_of(oid: pg_sys::Oid) -> Option<pg_sys::Oid> {
    use pg_sys::SysCacheIdentifier::RELOID;
    // SAFETY: the cache entries are rows of the corresponding catalog.
    unsafe { cached(RELOID, oid, |row: &pg_sys::FormData_pg_class| row.relowner) }
}

/// Returns whether a relation uses heap, PostgreSQL's built-in table access method.
fn is_heap(oid: pg_sys::Oid) -> bool {
    use pg_sys::SysCacheIdentifier::RELOID;
    // SAFETY: the cache entries are rows of the corresponding catalog.
    let access_method = unsafe { cached(RELOID, oid, |row: &pg_sys::FormData_pg_class| row.relam) };
    access_method == Some(pg_sys::HEAP_TABLE_AM_OID)
}
