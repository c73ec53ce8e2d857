//! Prints the fields of an ID:
//!
//!     cargo run -p snowflake-id-core --example decode -- twitter 1541815603606036480

use std::error::Error;

use snowflake_id_core::Layout;
use snowflake_id_core::message::instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [layout, id] = &arguments[..] else {
        return Err("usage: decode LAYOUT ID".into());
    };
    let decoded = layout.parse::<Layout>()?.decode(id.parse()?)?;
    println!("generated at {}", instant(decoded.generated_at));
    if let Some(datacenter) = decoded.datacenter_id {
        println!("datacenter ID {datacenter}");
    }
    if let Some(worker) = decoded.worker_id {
        println!("worker ID {worker}");
    }
    if let Some(sequence) = decoded.sequence {
        println!("sequence {sequence}");
    }
    Ok(())
}
