//! What is done with IDs that were made: reading them back, ranges of them, their forms for the outside. And
//! layouts.

mod decode;
mod direct;
mod guess;
mod id_text;
mod layout_argument;
pub mod layouts;
mod mask;
mod mask_key;
mod public;
mod range;
mod reader_sql;
