//! Relations that belong to an extension, reached without SQL.
//!
//! The database may belong to somebody hostile. A name that a query looks up can mean another thing when the
//! query has waited for a lock: a view in the place of a table, with a function in it that then runs with the
//! rights of whoever asked. So a relation is found by its OID, locked, and only then checked: it has to be
//! what it is meant to be, and a member of the extension, which only a superuser makes it. Then it is read
//! row by row, or written, without a planner, a trigger, a policy or an operator ([`super::rows`]): nobody's code can
//! run.
//!
//! All of this is called in a transaction. After an error PostgreSQL closes and unlocks what is open, with
//! the transaction.

use std::ffi::CStr;

use pgrx::prelude::*;

/// An extension of the database to which this process is connected.
#[derive(Clone, Copy)]
pub struct Extension(pg_sys::Oid);

/// The kinds of relations that can be looked for.
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

    /// The lock that what is done to it here takes.
    fn lock(self) -> pg_sys::LOCKMODE {
        let lock = match self {
            Kind::Table => pg_sys::AccessShareLock,
            Kind::MaterializedView => pg_sys::RowExclusiveLock,
        };
        lock as pg_sys::LOCKMODE
    }
}

impl Extension {
    /// The extension of this name, if it is there.
    pub fn find(name: &CStr) -> Option<Extension> {
        // SAFETY: the name is a C string.
        let oid = unsafe { pg_sys::get_extension_oid(name.as_ptr(), true) };
        (oid != pg_sys::InvalidOid).then_some(Extension(oid))
    }

    /// The schema in which its objects are, unless its script names another.
    pub fn schema(self) -> Option<pg_sys::Oid> {
        let mut schema = None;
        // Version 15 has no function for it that could be called from here.
        const OID_COLUMNS: [(&CStr, pg_sys::Oid); 2] =
            [(c"oid", pg_sys::OIDOID), (c"extnamespace", pg_sys::OIDOID)];
        Relation(pg_sys::ExtensionRelationId).for_each_row(OID_COLUMNS, |[oid, namespace]| {
            if oid == Some(self.0.into()) {
                schema = namespace.map(|namespace| pg_sys::Oid::from(namespace.value() as u32));
            }
        });
        schema
    }

    /// Whether this transaction has made it, so that nobody else sees it yet. (Or has altered it: then others see it as it was.)
    pub fn is_uncommitted(self) -> bool {
        // SAFETY: pg_extension stays open until after the last row. Without a snapshot of the caller's, catalogs are read
        // with one of their own, also by parallel workers. The rows of this catalog are of this type.
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

    /// The function of this name and of these arguments that is the extension's own, locked until the end of the
    /// transaction. Not if somebody else than its owner, or a superuser, could put other objects beside it: it names
    /// some.
    pub fn function(self, schema: pg_sys::Oid, name: &CStr, arguments: &[pg_sys::Oid]) -> Option<Function> {
        use pg_sys::SysCacheIdentifier::{NAMESPACEOID, PROCNAMEARGSNSP, PROCOID};
        // SAFETY: the name is a C string, and the number of arguments is as said. The entries of these caches are rows
        // of these catalogs.
        unsafe {
            let find = || {
                let vector = pg_sys::buildoidvector(arguments.as_ptr(), arguments.len() as i32);
                pg_sys::GetSysCacheOid(
                    PROCNAMEARGSNSP as i32,
                    pg_sys::Anum_pg_proc_oid as pg_sys::AttrNumber,
                    pg_sys::Datum::from(name.as_ptr()),
                    pg_sys::Datum::from(vector),
                    pg_sys::Datum::from(schema),
                    pg_sys::Datum::null(),
                )
            };
            let oid = find();
            if oid == pg_sys::InvalidOid {
                return None;
            }
            let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
            pg_sys::LockDatabaseObject(pg_sys::ProcedureRelationId, oid, 0, lock);
            let is_own =
                find() == oid && pg_sys::getExtensionOfObject(pg_sys::ProcedureRelationId, oid) == self.0;
            let owner = cached(PROCOID, oid, |row: &pg_sys::FormData_pg_proc| row.proowner)?;
            let neighbour = cached(NAMESPACEOID, schema, |row: &pg_sys::FormData_pg_namespace| row.nspowner)?;
            let is_safe = neighbour == owner || pg_sys::superuser_arg(neighbour);
            (is_own && is_safe).then_some(Function { oid, owner })
        }
    }

    /// The relation of this name and kind that is the extension's own, locked until the end of the
    /// transaction. Rows are read and written as those of a heap, so it has to be one.
    pub fn lock(self, schema: pg_sys::Oid, name: &CStr, kind: Kind) -> Option<Relation> {
        // SAFETY: the name is a C string. Once the lock is there, the relation cannot change.
        unsafe {
            let oid = pg_sys::get_relname_relid(name.as_ptr(), schema);
            if oid == pg_sys::InvalidOid {
                return None;
            }
            pg_sys::LockRelationOid(oid, kind.lock());
            let is_own = pg_sys::get_relname_relid(name.as_ptr(), schema) == oid
                && pg_sys::get_rel_relkind(oid) as u8 == kind.relkind()
                && pg_sys::get_rel_persistence(oid) as u8 == pg_sys::RELPERSISTENCE_PERMANENT
                && is_heap(oid)
                && pg_sys::getExtensionOfObject(pg_sys::RelationRelationId, oid) == self.0;
            is_own.then_some(Relation(oid))
        }
    }
}

/// A function that is locked, and whose it is.
#[derive(Clone, Copy)]
pub struct Function {
    pub oid: pg_sys::Oid,
    pub owner: pg_sys::Oid,
}

/// The schema of this name, if it is there.
pub fn schema(name: &CStr) -> Option<pg_sys::Oid> {
    // SAFETY: the name is a C string.
    let oid = unsafe { pg_sys::get_namespace_oid(name.as_ptr(), true) };
    (oid != pg_sys::InvalidOid).then_some(oid)
}

/// A relation that is locked, or that belongs to PostgreSQL itself.
#[derive(Clone, Copy)]
pub struct Relation(pub(super) pg_sys::Oid);

impl Relation {
    pub fn oid(self) -> pg_sys::Oid {
        self.0
    }
}

/// Has what follows run with the rights of a role and no others, whoever this process is (a
/// database can have it be somebody else by `ALTER DATABASE .. SET role`), until it goes out of scope.
pub struct RightsOf {
    user: pg_sys::Oid,
    context: i32,
}

impl RightsOf {
    pub fn role(role: pg_sys::Oid) -> RightsOf {
        let mut before = RightsOf { user: pg_sys::InvalidOid, context: 0 };
        // SAFETY: the pointers are to places for the two.
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
        // SAFETY: sets what was there.
        unsafe { pg_sys::SetUserIdAndSecContext(self.user, self.context) };
    }
}

/// Whether the database of this process, a schema in it and a relation belong to superusers. Who owns one of them may
/// drop what is in it.
pub fn belongs_to_superusers(schema: pg_sys::Oid, relation: Relation) -> bool {
    use pg_sys::SysCacheIdentifier::{DATABASEOID, NAMESPACEOID, RELOID};
    // SAFETY: the entries of these caches are rows of these catalogs, and are copied before they are
    // released.
    let owners = unsafe {
        [
            cached(DATABASEOID, pg_sys::MyDatabaseId, |row: &pg_sys::FormData_pg_database| row.datdba),
            cached(NAMESPACEOID, schema, |row: &pg_sys::FormData_pg_namespace| row.nspowner),
            cached(RELOID, relation.0, |row: &pg_sys::FormData_pg_class| row.relowner),
        ]
    };
    // This role stands for the owner of the database.
    let owner_of_database = pg_sys::Oid::from(pg_sys::ROLE_PG_DATABASE_OWNER);
    // SAFETY: takes any OID.
    owners
        .into_iter()
        .flatten()
        .all(|owner| owner == owner_of_database || unsafe { pg_sys::superuser_arg(owner) })
}

/// Whether the rows of a relation are stored in a heap, PostgreSQL's own way.
fn is_heap(oid: pg_sys::Oid) -> bool {
    use pg_sys::SysCacheIdentifier::RELOID;
    // SAFETY: the entries of this cache are rows of this catalog.
    let access_method = unsafe { cached(RELOID, oid, |row: &pg_sys::FormData_pg_class| row.relam) };
    access_method == Some(pg_sys::HEAP_TABLE_AM_OID)
}

/// What `read` takes from the row of a catalog with this OID.
///
/// # Safety
/// The entries of the cache are rows of type `Row`, and found by one OID.
unsafe fn cached<Row, T>(
    cache: pg_sys::SysCacheIdentifier::Type,
    oid: pg_sys::Oid,
    read: impl FnOnce(&Row) -> T,
) -> Option<T> {
    // SAFETY: by this function's contract; the entry stays until it is released.
    unsafe {
        let row = pg_sys::SearchSysCache1(cache as i32, pg_sys::Datum::from(oid));
        if row.is_null() {
            return None;
        }
        let value = read(&*pg_sys::GETSTRUCT(row).cast::<Row>());
        pg_sys::ReleaseSysCache(row);
        Some(value)
    }
}
