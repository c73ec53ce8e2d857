//! Non-blocking use of libpq: connections, and parsing of connection strings.

mod answer;
mod connection;
mod options;
mod problem;
mod start;
mod text;

pub use answer::StatementError;
pub use connection::Connection;
pub use options::Options;
pub use problem::{Problem, Rejection};
