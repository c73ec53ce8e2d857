//! What background workers have in common: how they are started and stopped, their database and transactions, their
//! files, and the connection to the registry.

mod connecting;
pub mod database;
pub mod file;
mod hosts;
pub mod link;
pub mod start;
pub mod stop;
pub mod transaction;
