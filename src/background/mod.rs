//! Code that the background workers share, for startup and shutdown, transactions, files, and requests to the
//! registry.

mod connecting;
pub mod connection;
pub mod database;
pub mod file;
mod hosts;
pub mod journal;
pub mod own_file;
pub mod rounds;
pub mod start;
pub mod stop;
pub mod transaction;
pub mod versions;
