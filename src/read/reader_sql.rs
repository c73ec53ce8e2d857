//! `snowflake_reader_sql`: a script that lets servers without the extension read IDs.

use pgrx::prelude::*;

use crate::read::layout_argument::LayoutArgument;

#[pg_extern(immutable, parallel_safe)]
fn snowflake_reader_sql(layout: LayoutArgument) -> String {
    layout.0.reader_sql()
}
