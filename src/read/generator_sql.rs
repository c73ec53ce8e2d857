//! Defines `snowflake_generator_sql`, which returns a script for servers without the extension. The script lets
//! these servers generate and read IDs.

use pgrx::prelude::*;
use snowflake_id_core::Identity;

use crate::error::{Error, OrReport};
use crate::read::layout_argument::LayoutArgument;

#[pg_extern(immutable, parallel_safe)]
fn snowflake_generator_sql(
    layout: LayoutArgument,
    worker_id: i32,
    datacenter_id: default!(i32, 0),
) -> String {
    let identity = match (u32::try_from(datacenter_id), u32::try_from(worker_id)) {
        (Ok(datacenter), Ok(worker)) => Ok(Identity { datacenter, worker }),
        _ => Err(Error::NotAnIdentity { datacenter_id, worker_id }),
    };
    let script = identity.and_then(|identity| layout.0.generator_sql(identity).map_err(Error::Range));
    script.or_report()
}
