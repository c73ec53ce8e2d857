//! What background workers have in common: how they are started and stopped, their database and transactions, their
//! files, the connection to the registry, and the rounds in which it is asked.

mod connecting;
pub mod connection;
pub mod database;
pub mod file;
mod hosts;
pub mod rounds;
pub mod start;
pub mod stop;
pub mod transaction;
