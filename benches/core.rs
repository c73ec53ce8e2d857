//! Benchmarks of the core alone, without PostgreSQL: `cargo bench -p snowflake-id-bench`.

use std::hint::black_box;
use std::num::NonZeroU64;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use snowflake_id_core::{Field, Gate, Generator, Identity, Layout, Slot};

const ME: Identity = Identity { datacenter: 0, worker: 1 };

fn generator(layout: &str) -> Generator {
    Generator::new(layout.parse().unwrap(), ME, u64::MAX, 0).unwrap()
}

fn reserve(criterion: &mut Criterion) {
    let (gate, slot, generator) = (Gate::default(), Slot::new(0, u64::MAX), generator("wide"));
    gate.open(ME);
    let epoch_us = generator.layout().epoch_us();
    for (name, n) in [("reserve one", 1), ("reserve a thousand", 1_000)] {
        let n = NonZeroU64::new(n).unwrap();
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| slot.reserve(&gate, &generator, || black_box(epoch_us), n).unwrap());
        });
    }
}

fn advance(criterion: &mut Criterion) {
    let generator = generator("standard");
    let now_us = generator.layout().epoch_us() + 1_000_000_000;
    let same_tick = 1_000_000 << 12;
    for (name, current) in [("advance within a tick", same_tick), ("advance into a new tick", 0)] {
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| generator.advance(black_box(current), now_us, u64::MAX, NonZeroU64::MIN));
        });
    }
}

fn layouts(criterion: &mut Criterion) {
    let twitter: Layout = "twitter".parse().unwrap();
    let tweet = 1541815603606036480;
    let parts = twitter.unpack(tweet).unwrap();
    criterion.bench_function("time of an ID", |bencher| bencher.iter(|| twitter.time_of(black_box(tweet))));
    criterion.bench_function("a field of an ID", |bencher| {
        bencher.iter(|| twitter.field_of(Field::Worker, black_box(tweet)));
    });
    criterion.bench_function("decode", |bencher| bencher.iter(|| twitter.decode(black_box(tweet))));
    criterion.bench_function("pack", |bencher| bencher.iter(|| twitter.pack(black_box(&parts))));
    criterion.bench_function("parse a preset", |bencher| {
        bencher.iter(|| black_box("twitter").parse::<Layout>());
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2));
    targets = reserve, advance, layouts
}
criterion_main!(benches);
