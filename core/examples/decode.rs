//! Prints the fields of an ID:
//!
//!     cargo run -p snowflake-id-core --example decode -- twitter 1541815603606036480

use std::error::Error;
use std::process::ExitCode;

use snowflake_id_core::message::instant;
use snowflake_id_core::{Decoded, Layout};

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let [layout, id] = &arguments[..] else {
        eprintln!("usage: decode LAYOUT ID");
        return ExitCode::from(2);
    };
    match decode(layout, id) {
        Ok(Decoded { generated_at, datacenter_id, worker_id, clock_seq, sequence }) => {
            println!("generated at {}", instant(generated_at));
            let fields = [
                ("datacenter ID", datacenter_id.map(u64::from)),
                ("worker ID", worker_id.map(u64::from)),
                ("clock sequence", clock_seq.map(u64::from)),
                ("sequence", sequence),
            ];
            for (name, value) in fields {
                if let Some(value) = value {
                    println!("{name} {value}");
                }
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn decode(layout: &str, id: &str) -> Result<Decoded, Box<dyn Error>> {
    Ok(layout.parse::<Layout>()?.decode(id.parse()?)?)
}
