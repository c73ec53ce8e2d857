//! Issuing IDs. A call passes through [`nextval`], [`session`], and then the slot and the generator in the
//! core crate.

pub mod nextval;
pub mod session;
pub mod wait;
