//! libpq without waiting: connections, and what their strings say.

mod answer;
mod connection;
mod options;
mod start;
mod text;

pub use answer::{Row, StatementError};
pub use connection::Connection;
pub use options::Options;
