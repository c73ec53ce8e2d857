//! What administrators see of the server, and what they can order its keeper to do.

mod requests;
mod status;
