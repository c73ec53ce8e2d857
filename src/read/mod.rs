//! Functions on existing IDs: decoding, ranges, text forms and public IDs. Also functions on layouts.

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
