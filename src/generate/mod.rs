//! Issuing IDs. A call passes through [`nextval`], [`session`], and the slot and the generator of the core.

mod copy;
pub mod nextval;
pub mod session;
pub mod wait;
