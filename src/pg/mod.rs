//! PostgreSQL's C side, and nothing of ours: what pgrx binds but does not wrap.

pub mod relation;
