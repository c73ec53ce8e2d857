//! SQL functions that decode IDs, return ID ranges, and convert IDs to text forms and public IDs. The
//! functions for layouts are here as well.

mod decode;
mod direct;
mod generator_sql;
mod guess;
mod id_text;
mod key_change;
pub mod layout_argument;
pub mod layouts;
mod mask;
mod mask_key;
mod public;
mod range;
mod reader_sql;
