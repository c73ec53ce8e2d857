//! Takes IDs from the core alone. `scripts/instructions.sh` counts the instructions of that.
//!
//! Arguments: how many IDs, and by how many microseconds the clock moves before each of them.

use std::hint::black_box;
use std::num::NonZeroU64;

use snowflake_id_core::{Gate, Generator, Identity, Slot};

const USAGE: &str = "usage: steps IDS CLOCK_STEP_US";
const ME: Identity = Identity { datacenter: 0, worker: 1 };

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<i64>().expect(USAGE));
    let (ids, step_us) = (arguments.next().expect(USAGE), arguments.next().expect(USAGE));
    let (gate, slot) = (Gate::default(), Slot::new(0, u64::MAX));
    let generator = Generator::new("wide".parse().unwrap(), ME, 1_000_000, 0).unwrap();
    gate.open(ME);
    let mut now_us = generator.layout().epoch_us();
    let (gate, slot, generator) = black_box((&gate, &slot, &generator));
    for _ in 0..ids {
        now_us += step_us;
        let reservation = slot.reserve(gate, generator, || black_box(now_us), NonZeroU64::MIN);
        black_box(generator.first_id(reservation.expect("bug: the horizon is out of reach")));
    }
}
