//! Defines `snowflake_reader_sql`, which returns a script for servers without the extension. The script lets
//! these servers read IDs.

use pgrx::prelude::*;

use crate::read::layout_argument::LayoutArgument;

#[pg_extern(immutable, parallel_safe)]
fn snowflake_reader_sql(layout: LayoutArgument) -> String {
    layout.0.reader_sql()
}
