//! Access to parts of PostgreSQL's C interface that pgrx binds but does not wrap. This module does not depend
//! on the rest of this extension.

pub mod backend_local;
pub mod bigint;
pub mod call;
pub mod clock;
pub mod condition;
pub mod encoding;
pub mod function;
pub mod helper;
pub mod libpq;
pub mod list;
pub mod planned_call;
pub mod process;
pub mod random;
pub mod relation;
pub mod role;
pub mod row;
pub mod rows;
pub mod running_copy;
pub mod sample;
pub mod server;
pub mod set_returning;
pub mod setting;
pub mod snapshot;
mod syscache;
pub mod timestamp;
pub mod transaction_end;
pub mod varlena;
pub mod wait;
