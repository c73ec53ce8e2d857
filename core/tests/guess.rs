//! Guessing the layout of an ID: known IDs, and properties of every ID.

use proptest::prelude::*;
use snowflake_id_core::guess::{FIRST_US, MAX_AHEAD_US, OLDEST_US, guess};
use snowflake_id_core::layout::presets::PRESETS;
use snowflake_id_core::{Field, Layout, Parts};

/// 2026-01-01, in microseconds of Unix time.
const NOW_US: i64 = 1_767_225_600_000_000;

fn names(id: i64) -> Vec<&'static str> {
    guess(id, NOW_US).iter().map(|guess| guess.preset.name).collect()
}

/// The ID of a preset for an instant and fields.
fn encoded(preset: &str, instant: &str, worker: u64, sequence: u64) -> i64 {
    let layout: Layout = preset.parse().unwrap();
    let unix_us = instant.parse::<jiff::Timestamp>().unwrap().as_microsecond();
    let tick = layout.tick_at(unix_us).unwrap();
    layout.pack(&Parts { tick, worker, sequence, ..Default::default() }).unwrap()
}

#[test]
fn known_ids() {
    // A tweet of 2022-06-28. Leaf has Twitter's epoch and bits, but one worker field.
    assert_eq!(names(1541815603606036480), ["twitter", "leaf", "baidu", "instagram", "baidu_restart"]);
    let tweet = guess(1541815603606036480, NOW_US)[0].decoded;
    assert_eq!(tweet.generated_at, 1_656_432_460_105_000);
    assert_eq!((tweet.datacenter_id, tweet.worker_id, tweet.sequence), (Some(11), Some(26), Some(0)));
    // The example in Discord's documentation, of 2016, process 0 and increment 7. Twitter had the same number
    // in 2012.
    let discord = names(175928847299117063);
    assert_eq!(discord[..6], ["wide", "cockroachdb", "standard", "twitter", "leaf", "discord"]);
    // The example in the README of redis-id-generator: Unix time, far beyond what the others have reached.
    assert_eq!(names(5981966696448054276), ["redis", "tiktok", "baidu"]);
    // The example in pgEdge's documentation, of 2024: node 1, sequence 0. Its layout is that of `standard`.
    let pgedge = names(170505378935607296);
    assert_eq!(pgedge[..4], ["standard", "twitter", "leaf", "discord"]);
    assert!(pgedge.contains(&"pgedge"));
    // The example in "Sharding & IDs at Instagram": 1387263000 ms, shard 1341, sequence 905.
    let instagram = 1387263000 << 23 | 1341 << 10 | 905;
    let found = guess(instagram, NOW_US);
    let found = found.iter().find(|guess| guess.preset.name == "instagram").unwrap().decoded;
    assert_eq!((found.worker_id, found.sequence), (Some(1341), Some(905)));
}

/// Public examples of other generators. The right layout is the first guess, or among those of the same rank.
#[test]
fn public_examples() {
    let first = |id| names(id)[0];
    assert_eq!(first(103270115826048975), "mastodon");
    assert_eq!(first(6854717870488702213), "tiktok");
    assert!([129053495681099, 387750301904971, 646093214093387].iter().all(|&id| first(id) == "yitter"));
    assert!(
        [148656994422095873, 148656994422161409, 148656994422194177]
            .iter()
            .all(|&id| first(id) == "cockroachdb")
    );
    // bwmarrin/snowflake and MyBatis-Plus, with Twitter's epoch and bits.
    assert_eq!(names(1428076403798048768)[..2], ["twitter", "leaf"]);
    assert_eq!(names(1094590409767661570)[..2], ["twitter", "leaf"]);
    // The same bits and other epochs, which only the time can tell apart.
    let same_bits = ["twitter", "leaf", "discord", "shardingsphere", "cosid"];
    let rank =
        |id, right| names(id).iter().filter(|name| same_bits.contains(name)).position(|name| *name == right);
    assert_eq!(rank(576906137413091329, "shardingsphere"), Some(3));
    assert_eq!(rank(198064472869310464, "cosid"), Some(4));
}

#[test]
fn low_numbers_of_servers_are_likely() {
    let at = |preset, worker, sequence| encoded(preset, "2025-10-01T12:00:00.123Z", worker, sequence);
    for worker in [0, 1, 7, 8, 63, 1023] {
        for sequence in 0..3 {
            assert_eq!(names(at("standard", worker, sequence))[0], "standard", "{worker} {sequence}");
        }
    }
    // CockroachDB numbers its nodes from 1.
    assert!((1..8).all(|node| names(at("cockroachdb", node, 0))[0] == "cockroachdb"));
    assert_ne!(names(at("cockroachdb", 0, 0))[0], "cockroachdb");
}

#[test]
fn ids_of_a_few_presets_come_first() {
    assert_eq!(names(encoded("standard", "2025-10-01T12:00:00.123Z", 7, 0))[0], "standard");
    assert_eq!(names(encoded("js53", "2025-10-01T12:00:00Z", 7, 0))[0], "js53");
    assert_eq!(names(encoded("redis", "2025-10-01T12:00:00.123Z", 7, 0))[0], "redis");
    // The worker of a Sonyflake is half an IP address, 10.0.171.205.
    assert_eq!(names(encoded("sonyflake", "2025-10-01T12:00:00.12Z", 0xabcd, 0))[0], "sonyflake");
    assert_eq!(names(encoded("wide", "2025-10-01T12:00:00.123Z", 1, 3))[0], "wide");
}

#[test]
fn an_id_of_no_preset_may_look_like_one() {
    // Mastodon: Unix milliseconds above 16 bits that are as good as random.
    let mastodon = 1_669_037_000_123 << 16 | 0xabcd;
    let unix_ms: Layout = "time:47 sequence:16 epoch=1970-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(unix_ms.time_of(mastodon), Ok(1_669_037_000_123_000));
    assert!(!names(mastodon).is_empty());
    // An ordinary sequence gives small numbers, which are not recognized as IDs.
    assert!([0, 1, 1_000_000, 2_147_483_647, 45_000_000_000].iter().all(|&id| names(id).is_empty()));
    assert!(names(-1).is_empty() && names(i64::MIN).is_empty());
    // The largest number is the last ID of the only preset that has ended.
    assert_eq!(names(i64::MAX), ["baidu"]);
}

#[test]
fn the_oldest_and_the_newest_time() {
    let is_guessed = |name: &str, unix_us: i64| {
        let id = name.parse::<Layout>().unwrap().min_id(unix_us);
        guess(id, NOW_US).iter().any(|guess| guess.preset.name == name)
    };
    assert!(is_guessed("redis", OLDEST_US) && !is_guessed("redis", OLDEST_US - 1_000));
    let newest_us = NOW_US + MAX_AHEAD_US;
    assert!(is_guessed("redis", newest_us) && !is_guessed("redis", newest_us + 1_000));
    let first_us = "standard".parse::<Layout>().unwrap().epoch_us() + FIRST_US;
    assert!(is_guessed("standard", first_us) && !is_guessed("standard", first_us - 1_000));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_guess_is_a_preset_that_gives_a_plausible_time(id in any::<i64>(), now_us in any::<i64>()) {
        let guesses = guess(id, now_us);
        for (at, guess) in guesses.iter().enumerate() {
            prop_assert_eq!(guess.preset.layout().decode(id), Ok(guess.decoded));
            prop_assert!(guess.decoded.generated_at >= OLDEST_US);
            prop_assert!(guess.decoded.generated_at <= now_us.saturating_add(MAX_AHEAD_US));
            prop_assert!(guesses[..at].iter().all(|other| other.preset.name != guess.preset.name));
        }
    }

    /// An ID made with a preset has this preset among its guesses, with its time and fields.
    #[test]
    fn the_right_preset_is_among_the_guesses(
        at in 0..PRESETS.len(), age_us in 0..NOW_US - OLDEST_US, worker in any::<u64>(), sequence in any::<u64>(),
    ) {
        let layout = PRESETS[at].layout();
        let earliest_us = OLDEST_US.max(layout.epoch_us() + FIRST_US) + layout.unit_us() as i64;
        let made_us = (NOW_US - age_us).clamp(earliest_us, layout.end_us() - 1);
        let tick = layout.tick_at(made_us).unwrap();
        let parts = Parts {
            tick,
            worker: worker & layout.max(Field::Worker),
            sequence: sequence & layout.max(Field::Sequence),
            ..Default::default()
        };
        prop_assert!(names(layout.pack(&parts).unwrap()).contains(&PRESETS[at].name));
    }
}
