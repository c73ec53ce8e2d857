//! Making IDs: one call goes through [`nextval`], [`session`], and the slot and the generator of the core.

pub mod nextval;
pub mod session;
pub mod wait;
