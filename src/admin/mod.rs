//! The views of the server's state, and the requests of administrators to the keeper.

mod requests;
mod status;
