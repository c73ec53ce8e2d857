//! Drivers of random events, which count what has happened.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use uuid::Uuid;

/// How often each event has happened.
pub type Counts = BTreeMap<&'static str, u64>;

/// Random numbers that a seed determines.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.below(1 << 31) << 32 | self.below(1 << 31), self.below(1 << 31))
    }
}

/// Runs a driver with each seed, and prints the seed of a failure. So many kinds of events must have happened, each of them
/// in more than a hundredth of the runs on average.
pub fn count_all(runs: u64, kinds: usize, run: impl Fn(u64) -> Counts) {
    let mut counts = Counts::new();
    for seed in 0..runs {
        let counted = catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|panic| {
            eprintln!("seed {seed}");
            resume_unwind(panic)
        });
        for (what, count) in counted {
            *counts.entry(what).or_insert(0) += count;
        }
    }
    println!("{counts:?}");
    let rarest = counts.values().min();
    assert!(counts.len() == kinds && rarest > Some(&(runs / 100)), "{counts:?}");
}
