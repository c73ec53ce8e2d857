//! Views that show the state of the server, and functions by which administrators send requests to the
//! keeper.

mod requests;
mod status;
