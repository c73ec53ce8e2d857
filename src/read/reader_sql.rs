//! `snowflake_reader_sql`: a script with which servers without the extension read IDs.

use pgrx::prelude::*;

use crate::read::layout_argument::LayoutArgument;

extension_sql_file!("../../sql/reader.sql", name = "reader", requires = [snowflake_reader_sql]);

#[pg_extern(immutable, parallel_safe)]
fn snowflake_reader_sql(layout: LayoutArgument) -> String {
    layout.0.reader_sql()
}
