//! Code shared by the background workers: start and stop, database and transactions, files, the connection to
//! the registry, and the rounds in which the registry is asked.

mod connecting;
pub mod connection;
pub mod database;
pub mod file;
mod hosts;
pub mod rounds;
pub mod start;
pub mod stop;
pub mod transaction;
