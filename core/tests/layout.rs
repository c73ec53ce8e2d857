//! Layouts: presets that never change, real IDs, and every kind of error.

use snowflake_id_core::layout::presets::{PRESETS, find};
use snowflake_id_core::message::shown;
use snowflake_id_core::time_scale::MAX_UNIT_US;
use snowflake_id_core::{Field, Identity, Layout, LayoutError, Parts, RangeError};

fn layout(text: &str) -> Layout {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> LayoutError {
    text.parse::<Layout>().expect_err(text)
}

/// Name, (field, shift, bits) from the top, unit in microseconds, epoch in milliseconds of Unix time. Existing tables
/// depend on these numbers, so they must never change.
type Pinned = (&'static str, &'static [(&'static str, u32, u32)], u64, i64);

#[rustfmt::skip]
const PINNED: &[Pinned] = &[
    ("standard", &[("time", 22, 41), ("worker", 12, 10), ("sequence", 0, 12)], 1_000, 1704067200000),
    ("twitter", &[("time", 22, 41), ("datacenter", 17, 5), ("worker", 12, 5), ("sequence", 0, 12)], 1_000, 1288834974657),
    ("leaf", &[("time", 22, 41), ("worker", 12, 10), ("sequence", 0, 12)], 1_000, 1288834974657),
    ("discord", &[("time", 22, 41), ("datacenter", 17, 5), ("worker", 12, 5), ("sequence", 0, 12)], 1_000, 1420070400000),
    ("instagram", &[("time", 23, 40), ("worker", 10, 13), ("sequence", 0, 10)], 1_000, 1314220021721),
    ("mastodon", &[("time", 16, 47), ("sequence", 0, 16)], 1_000, 0),
    ("tiktok", &[("time", 32, 31), ("sequence", 0, 32)], 1_000_000, 0),
    ("yitter", &[("time", 12, 41), ("worker", 6, 6), ("sequence", 0, 6)], 1_000, 1582136402000),
    ("shardingsphere", &[("time", 22, 41), ("worker", 12, 10), ("sequence", 0, 12)], 1_000, 1477958400000),
    ("cosid", &[("time", 22, 41), ("worker", 12, 10), ("sequence", 0, 12)], 1_000, 1577203200000),
    ("cockroachdb", &[("time", 15, 48), ("worker", 0, 15)], 10, 1420070400000),
    ("sonyflake", &[("time", 24, 39), ("sequence", 16, 8), ("worker", 0, 16)], 10_000, 1409529600000),
    ("sonyflake2", &[("time", 24, 39), ("sequence", 16, 8), ("worker", 0, 16)], 10_000, 1735689600000),
    ("baidu", &[("time", 35, 28), ("worker", 13, 22), ("sequence", 0, 13)], 1_000_000, 1463673600000),
    ("baidu_long", &[("time", 32, 31), ("worker", 9, 23), ("sequence", 0, 9)], 1_000_000, 1463673600000),
    ("baidu_restart", &[("time", 33, 30), ("worker", 6, 27), ("sequence", 0, 6)], 1_000_000, 1463673600000),
    ("redis", &[("time", 22, 41), ("worker", 10, 12), ("sequence", 0, 10)], 1_000, 0),
    ("pgedge", &[("time", 22, 41), ("worker", 12, 10), ("sequence", 0, 12)], 1_000, 1672531200000),
    ("tsid", &[("time", 22, 41), ("worker", 12, 10), ("sequence", 0, 12)], 1_000, 1577836800000),
    ("js53", &[("time", 19, 33), ("worker", 15, 4), ("sequence", 0, 15)], 1_000_000, 1577836800000),
    ("wide", &[("time", 22, 41), ("worker", 16, 6), ("sequence", 0, 16)], 1_000, 1704067200000),
    ("rollback3", &[("time", 22, 41), ("clock_seq", 19, 3), ("worker", 12, 7), ("sequence", 0, 12)], 1_000, 1704067200000),
    ("rollback2", &[("time", 22, 41), ("worker", 14, 8), ("clock_seq", 12, 2), ("sequence", 0, 12)], 1_000, 1704067200000),
];

#[test]
fn presets_are_pinned() {
    let names: Vec<_> = PRESETS.iter().map(|preset| preset.name).collect();
    let pinned: Vec<_> = PINNED.iter().map(|&(name, ..)| name).collect();
    assert_eq!(names, pinned);
    for &(name, fields, unit_us, epoch_ms) in PINNED {
        let layout = layout(name);
        let found: Vec<_> = layout
            .fields()
            .into_iter()
            .map(|(field, bits)| (field.name(), layout.shift(field), bits))
            .collect();
        assert_eq!(found, fields, "{name}");
        assert_eq!(layout.unit_us(), unit_us, "{name}");
        assert_eq!(layout.epoch_us(), epoch_ms * 1_000, "{name}");
    }
}

#[test]
fn presets_are_written_in_canonical_text() {
    for preset in PRESETS {
        assert_eq!(preset.layout().to_string(), preset.text);
    }
}

/// Microseconds of Unix time of an instant.
fn us(instant: &str) -> i64 {
    instant.parse::<jiff::Timestamp>().unwrap().as_microsecond()
}

#[test]
fn real_ids_decode() {
    // Layout, ID, time, datacenter, worker, sequence.
    let ids = [
        // A tweet.
        ("twitter", 1541815603606036480, "2022-06-28T16:07:40.105Z", Some(11), Some(26), Some(0)),
        // The example in Discord's documentation: its worker 1, process 0, increment 7.
        ("discord", 175928847299117063, "2016-04-30T11:18:25.796Z", Some(1), Some(0), Some(7)),
        // The example in the README of redis-id-generator: 1426212000000, shard 53, sequence 4.
        ("redis", 5981966696448054276, "2015-03-13T02:00:00Z", None, Some(53), Some(4)),
        // An example in pgEdge's documentation: node 1, the first of its millisecond.
        ("pgedge", 170505378935607296, "2024-04-15T12:07:30.175Z", None, Some(1), Some(0)),
        // Two neighbors in the README of tsid-creator, which notes "millisecond changed" between them, and a text from
        // there, 01226N0640J7Q.
        ("tsid", 38352658567418874, "2020-04-15T19:59:46.360Z", None, Some(421), Some(1018)),
        ("tsid", 38352658573940759, "2020-04-15T19:59:46.361Z", None, Some(989), Some(2071)),
        ("tsid", 38358284406638839, "2020-04-15T20:22:07.665Z", None, Some(4), Some(2295)),
        // The example in Mastodon's documentation, of a post that was created 52 ms later.
        ("mastodon", 103270115826048975, "2019-12-08T03:48:33.849Z", None, None, Some(40911)),
        // The example of the forensic tool Unfurl.
        ("tiktok", 6854717870488702213, "2020-07-29T02:06:13Z", None, None, Some(3657452805)),
        // Three examples in Yitter's README, "after 1 year", 3 and 5 years.
        ("yitter", 129053495681099, "2021-02-18T10:20:03.094Z", None, Some(1), Some(11)),
        ("yitter", 387750301904971, "2023-02-19T10:20:03.051Z", None, Some(1), Some(11)),
        ("yitter", 646093214093387, "2025-02-18T10:20:03.097Z", None, Some(1), Some(11)),
        // A key in a log of 2021-03-11 22:59:01.605 in China, where the epoch is eight hours earlier.
        (
            "shardingsphere epoch=2016-11-01T00:00:00+08:00",
            576906137413091329,
            "2021-03-11T22:59:01.557+08:00",
            None,
            Some(0),
            Some(1),
        ),
        // 20210623131730192-1-0 in CosId's README: the time in China, machine and sequence.
        ("cosid", 198064472869310464, "2021-06-23T13:17:30.192+08:00", None, Some(1), Some(0)),
        // Two rows of one INSERT in CockroachDB's documentation, on node 1.
        ("cockroachdb", 148656994422095873, "2016-06-09T01:48:34.411040Z", None, Some(1), None),
        ("cockroachdb", 148656994422161409, "2016-06-09T01:48:34.411060Z", None, Some(1), None),
        // An ID in the tests of bwmarrin/snowflake, and a usual example of MyBatis-Plus.
        ("leaf", 1428076403798048768, "2021-08-18T19:28:41.699Z", None, Some(0), Some(0)),
        ("twitter", 1094590409767661570, "2019-02-10T13:34:24.852Z", Some(0), Some(3), Some(2)),
    ];
    for (name, id, time, datacenter, worker, sequence) in ids {
        let decoded = layout(name).decode(id).unwrap();
        assert_eq!(decoded.generated_at, us(time), "{name}");
        assert_eq!(decoded.datacenter_id, datacenter, "{name}");
        assert_eq!(decoded.worker_id, worker, "{name}");
        assert_eq!(decoded.clock_seq, None, "{name}");
        assert_eq!(decoded.sequence, sequence, "{name}");
    }
}

#[test]
fn facts() {
    let standard = layout("standard");
    assert_eq!(standard.workers(), 1024);
    assert_eq!(standard.ids_per_second(), 4_096_000.0);
    assert_eq!(standard.end_us(), us("2093-09-06T15:47:35.552Z"));
    assert!(!standard.fits_in_53_bits());
    assert!(layout("js53").fits_in_53_bits());
    assert_eq!(layout("sonyflake").ids_per_second(), 25_600.0);
    assert_eq!(layout("twitter").workers(), 1024);
    // The last second of Baidu's default setting was 2024-11-20 21:24:15 in China.
    assert_eq!(layout("baidu").end_us(), us("2024-11-20T21:24:16+08:00"));
    assert_eq!(layout("time:41").workers(), 1);
    assert_eq!(layout("time:30 unit=10s").ids_per_second(), 0.1);
}

#[test]
fn a_preset_takes_options() {
    let twitter = layout("twitter");
    let moved = layout("twitter epoch=2024-01-01T00:00:00Z");
    assert_eq!(moved.fields(), twitter.fields());
    assert_eq!(moved.epoch_us(), us("2024-01-01T00:00:00Z"));
    assert_eq!(layout("  twitter\n\tunit=1us epoch=2024-01-01T05:30:00+05:30 ").unit_us(), 1);
}

#[test]
fn fields_have_the_unit_and_epoch_of_standard() {
    assert_eq!(layout("time:41 worker:10 sequence:12"), layout("standard"));
}

#[test]
fn errors_name_the_token_and_what_is_allowed() {
    // Text, a part of the message, a part of the allowed forms.
    let cases = [
        ("", "empty", "standard"),
        (" \t ", "empty", "standard"),
        ("twiter", "\"twiter\" is not recognized. Did you mean \"twitter\"?", "twitter"),
        ("Standard", "Did you mean \"standard\"?", "standard"),
        (
            "snowflake",
            "not recognized. The default layout is \"standard\", and the layout of Twitter's Snowflake is \"twitter\".",
            "sonyflake2",
        ),
        ("Snowflakes", "\"Snowflakes\" is not recognized.", "standard, twitter"),
        ("zzzzzzzzzz", "\"zzzzzzzzzz\" is not recognized.", "sonyflake2"),
        ("tiem:41 worker:10", "Did you mean \"time\"?", "clock_seq"),
        ("time:41 wroker:10", "\"wroker\" is not recognized. Did you mean \"worker\"?", "worker"),
        ("time:41 machine:10", "\"machine\" is not recognized.", "worker"),
        ("twitter epcoh=2024-01-01T00:00:00Z", "Did you mean \"epoch\"?", "unit, epoch"),
        ("twitter worker:3", "\"worker:3\" is misplaced: a preset already defines its fields", "options"),
        ("time:41 twitter", "\"twitter\" is misplaced", "options"),
        ("twitter leaf", "\"leaf\" is misplaced", "options"),
        ("time:41 unit=1ms worker:10", "\"worker:10\" is misplaced: fields must come before", "options"),
        ("time:41 seq", "\"seq\" is not recognized. Did you mean \"sequence\"?", "sequence"),
        ("roll", "\"roll\" is not recognized.", "rollback3"),
        ("time", "\"time\" is incomplete", "\"time:41\""),
        ("twitter sequence", "\"sequence\" is incomplete", "\"sequence:12\""),
        ("time:41 epoch", "\"epoch\" is incomplete", "\"epoch=2024"),
        ("time=41", "\"time=41\" is incomplete", "\"time:41\""),
        ("time:41 unit:1ms", "\"unit:1ms\" is incomplete", "\"unit=1ms\""),
        ("time:41,worker:10", "\"time:41,worker:10\" contains a comma", "spaces"),
        ("standard,epoch=2024-01-01T00:00:00Z", "\"standard,epoch=2024", "spaces"),
        (&"time:1 ".repeat(1_000), "too long", "at most 1000 bytes"),
        ("time:41\u{a0}worker:10", "\"time:41\\u{a0}worker:10\"", "1 to 63"),
        ("standard; wide", "\"standard;\" contains a comma or a semicolon", "spaces"),
        ("worker:10 time:41", "The first field is \"worker\"", "time:41"),
        ("unit=1ms", "There is no field \"time\"", "time:41"),
        ("time:41 worker:5 worker:5", "Field \"worker\" appears twice", "once"),
        ("time:41 time:3", "Field \"time\" appears twice", "once"),
        (
            "time:41 worker:10 sequence:13",
            "\"sequence:13\", the fields exceed 63 bits. The total is 64 bits",
            "63",
        ),
        ("time:41 worker:0", "\"worker:0\" is not a valid width", "1 to 31"),
        ("time:41 worker:32", "\"worker:32\"", "1 to 31"),
        ("time:64", "\"time:64\"", "1 to 63"),
        ("time:0", "\"time:0\"", "1 to 63"),
        ("time:-1", "\"time:-1\"", "1 to 63"),
        ("time:+41", "\"time:+41\"", "1 to 63"),
        ("time:", "\"time:\"", "1 to 63"),
        ("time:99999999999999999999", "\"time:99999999999999999999\"", "1 to 63"),
        ("time:41:3", "\"time:41:3\"", "1 to 63"),
        ("time:41 unit=0ms", "\"unit=0ms\"", "1us to 10s"),
        ("time:41 unit=11s", "\"unit=11s\"", "1us to 10s"),
        ("time:41 unit=10001ms", "\"unit=10001ms\"", "1us to 10s"),
        ("time:41 unit=1", "\"unit=1\"", "1us to 10s"),
        ("time:41 unit=ms", "\"unit=ms\"", "1us to 10s"),
        ("time:41 unit=-1ms", "\"unit=-1ms\"", "1us to 10s"),
        ("time:41 unit=1.5ms", "\"unit=1.5ms\"", "1us to 10s"),
        ("time:41 unit=18446744073709551615s", "\"unit=18446744073709551615s\"", "1us to 10s"),
        ("time:41 unit=1ms unit=1ms", "\"unit=\" appears twice", "once"),
        (
            "standard epoch=2024-01-01T00:00:00Z epoch=2024-01-01T00:00:00Z",
            "\"epoch=\" appears twice",
            "once",
        ),
        ("time:41 epoch=yesterday", "\"epoch=yesterday\"", "2024-01-01T00:00:00Z"),
        ("time:41 epoch=2024-01-01", "\"epoch=2024-01-01\"", "with a time zone"),
        ("time:41 epoch=2024-01-01T00:00:00.0000001Z", "\"epoch=2024", "six digits"),
        ("time:41 epoch=-000044-03-15T12:00:00Z", "\"epoch=-000044", "instant"),
        ("time:63 unit=1ms", "\"time:63\", the layout ends in the year 292279048", "294247"),
        ("time:63 unit=1us", "\"time:63\", the layout ends in the year 294301", "294247"),
    ];
    for (text, message, allowed) in cases {
        let error = error(text);
        assert!(error.to_string().contains(message), "{text}: {error}");
        assert!(error.allowed().contains(allowed), "{text}: {}", error.allowed());
    }
    // The longest possible layout.
    assert_eq!(layout("time:63 unit=1us epoch=1969-12-31T23:59:59.999999Z").ticks(), 1 << 63);
}

/// An error about a worker ID or datacenter ID that is too large contains the layout and the limit.
#[test]
fn an_identity_that_does_not_fit() {
    let problem = |text: &str, datacenter, worker| {
        let layout = layout(text);
        layout
            .check_identity(Identity { datacenter, worker })
            .map_err(|problem| layout.explain_misfit(&problem))
    };
    assert_eq!(problem("standard", 0, 1023), Ok(()));
    assert_eq!(problem("twitter", 31, 31), Ok(()));
    for (text, datacenter, worker, message) in [
        (
            "standard",
            0,
            5000,
            "worker ID 5000 does not fit layout \"standard\", whose worker IDs end at 1023",
        ),
        (
            "time:41 worker:10 sequence:12",
            0,
            1024,
            "worker ID 1024 does not fit layout \"standard\", whose worker IDs end at 1023",
        ),
        ("standard", 3, 1, "datacenter ID 3 does not fit layout \"standard\", which has no datacenter field"),
        (
            "twitter",
            32,
            1,
            "datacenter ID 32 does not fit layout \"twitter\", whose datacenter IDs end at 31",
        ),
        (
            "time:41 sequence:5",
            0,
            7,
            "worker ID 7 does not fit layout \"time:41 sequence:5 unit=1ms epoch=2024-01-01T00:00:00Z\", which has no worker field",
        ),
    ] {
        assert_eq!(problem(text, datacenter, worker), Err(message.into()));
    }
}

#[test]
fn hostile_text_is_shown_shortened_and_escaped() {
    let message = error(&format!("\u{7}{}", "x".repeat(900))).to_string();
    assert!(message.len() < 120 && message.contains("\\u{7}x") && message.contains("..."), "{message}");
}

/// Sixty characters, whatever their bytes are. The rest of the text is not read.
#[test]
fn the_start_of_a_text_is_shown() {
    for (character, as_shown) in [("y", "y"), ("é", "\\u{e9}"), ("\u{1f600}", "\\u{1f600}")] {
        assert_eq!(shown(character.repeat(60)), as_shown.repeat(60));
        assert_eq!(shown(character.repeat(61)), as_shown.repeat(60) + "...");
        assert_eq!(shown(character.repeat(1_000)), as_shown.repeat(60) + "...");
    }
    assert_eq!(shown([0xff; 60]), "\\u{fffd}".repeat(60));
    assert_eq!(shown([0xff; 61]), "\\u{fffd}".repeat(60) + "...");
}

#[test]
fn a_layout_is_made_from_bytes() {
    assert_eq!(Layout::from_bytes(b"js53"), Ok(layout("js53")));
    let wrong = Layout::from_bytes(b"js53\xff").unwrap_err();
    assert_eq!(wrong.to_string(), r#""js53\u{fffd}" is not recognized."#);
    assert_eq!(Layout::from_bytes(&[b' '; 1_001]), Err(LayoutError::TooLong { most: 1_000 }));
}

#[test]
fn a_layout_is_made_from_fields() {
    let fields = [(Field::Time, 41), (Field::Worker, 10), (Field::Sequence, 12)];
    let epoch_us = 1_704_067_200_000_000;
    assert_eq!(Layout::new(&fields, 1_000, epoch_us), Ok(layout("standard")));
    assert_eq!(Layout::new(&[], 1_000, epoch_us), Err(LayoutError::TimeNotFirst { found: None }));
    assert!(matches!(Layout::new(&fields, 0, epoch_us), Err(LayoutError::Unit(_))));
    assert!(matches!(Layout::new(&fields, MAX_UNIT_US + 1, epoch_us), Err(LayoutError::Unit(_))));
    assert!(matches!(Layout::new(&fields, 1_000, i64::MIN), Err(LayoutError::Epoch(_))));
    assert!(matches!(Layout::new(&fields, 1_000, i64::MAX), Err(LayoutError::Epoch(_))));
}

#[test]
fn json() {
    let text = r#"{"fields":[{"name":"time","bits":40},{"name":"sequence","bits":8}],"unit":"10ms","epoch":"2020-02-02T00:00:00Z"}"#;
    let read: Layout = serde_json::from_str(text).unwrap();
    assert_eq!(read, layout("time:40 sequence:8 unit=10ms epoch=2020-02-02T00:00:00Z"));
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    assert_eq!(serde_json::from_str::<Layout>("\"twitter\"").unwrap(), layout("twitter"));

    let decoded = serde_json::to_string(&layout("twitter").decode(1541815603606036480).unwrap());
    assert_eq!(
        decoded.unwrap(),
        r#"{"generated_at":1656432460105000,"datacenter_id":11,"worker_id":26,"clock_seq":null,"sequence":0}"#
    );

    let bad = [
        (r#""tiem:41""#, "Did you mean"),
        (r#"{"fields":[{"name":"tiem","bits":40}],"unit":"1ms","epoch":"2020-01-01T00:00:00Z"}"#, "tiem"),
        (r#"{"fields":[{"name":"time","bits":70}],"unit":"1ms","epoch":"2020-01-01T00:00:00Z"}"#, "time:70"),
        (r#"{"fields":[{"name":"time","bits":40}],"unit":"1h","epoch":"2020-01-01T00:00:00Z"}"#, "unit=1h"),
        (r#"{"fields":[{"name":"time","bits":40}],"unit":"1ms","epoch":"soon"}"#, "epoch=soon"),
        (r#"{"fields":[],"unit":"1ms","epoch":"2020-01-01T00:00:00Z"}"#, "no field \"time\""),
        (r#"{"fields":[{"name":"time","bits":40}],"unit":"1ms"}"#, "variant"),
        ("42", "variant"),
    ];
    for (json, message) in bad {
        let error = serde_json::from_str::<Layout>(json).unwrap_err().to_string();
        assert!(error.contains(message), "{json}: {error}");
    }
}

#[test]
fn packing_refuses_what_does_not_fit() {
    let twitter = layout("twitter");
    let good = Parts { tick: 367597485448, datacenter: 11, worker: 26, ..Default::default() };
    assert_eq!(twitter.pack(&good), Ok(1541815603606036480));
    assert_eq!(twitter.unpack(1541815603606036480), Ok(good));
    let bad = [
        (Parts { tick: 1 << 41, ..good }, Field::Time, 1 << 41, (1 << 41) - 1),
        (Parts { datacenter: 32, ..good }, Field::Datacenter, 32, 31),
        (Parts { worker: 32, ..good }, Field::Worker, 32, 31),
        (Parts { clock_seq: 1, ..good }, Field::ClockSeq, 1, 0),
        (Parts { sequence: 4096, ..good }, Field::Sequence, 4096, 4095),
        (Parts { sequence: u64::MAX, ..good }, Field::Sequence, i128::from(u64::MAX), 4095),
    ];
    for (parts, field, value, max) in bad {
        assert_eq!(twitter.pack(&parts), Err(RangeError::Field { field, value, max }));
    }
}

#[test]
fn unpacking_refuses_what_no_layout_or_not_this_one_made() {
    assert_eq!(layout("standard").decode(-1), Err(RangeError::NegativeId(-1)));
    assert_eq!(layout("standard").decode(i64::MIN), Err(RangeError::NegativeId(i64::MIN)));
    let max = (1 << 52) - 1;
    assert!(layout("js53").decode(max).is_ok());
    assert_eq!(layout("js53").decode(max + 1), Err(RangeError::IdPastEnd { id: max + 1, max }));
    assert!(layout("standard").decode(i64::MAX).is_ok());
    assert_eq!(layout("time:1").decode(2), Err(RangeError::IdPastEnd { id: 2, max: 1 }));
}

#[test]
fn ticks_of_instants() {
    let layout = layout("time:10 unit=1s epoch=2024-01-01T00:00:00Z");
    let epoch_us = layout.epoch_us();
    assert_eq!(layout.tick_at(epoch_us), Ok(0));
    assert_eq!(layout.tick_at(epoch_us + 999_999), Ok(0));
    assert_eq!(layout.tick_at(epoch_us + 1_000_000), Ok(1));
    assert_eq!(layout.tick_at(layout.end_us() - 1), Ok(1023));
    for outside in [epoch_us - 1, layout.end_us(), i64::MIN, i64::MAX] {
        let error = layout.tick_at(outside).unwrap_err();
        assert!(error.allowed().contains("from 2024-01-01T00:00:00Z to 2024-01-01T00:17:04Z"), "{error}");
    }
}

#[test]
fn every_preset_is_found_by_its_name() {
    for preset in PRESETS {
        assert_eq!(find(preset.name).map(|found| found.text), Some(preset.text));
    }
    assert!(find("").is_none());
}
