//! Layouts with names. A released preset never changes, because IDs in tables depend on it.

use super::Layout;

/// A layout with a name.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name of the preset, which can replace the text of the layout.
    pub name: &'static str,
    /// The layout in canonical text form.
    pub text: &'static str,
}

impl Preset {
    /// Returns the layout of the preset.
    pub fn layout(&self) -> Layout {
        // A test parses every text in the table, so an error here would be a bug in the table.
        self.text.parse().expect("a preset is a valid layout")
    }
}

/// Returns the preset with this name, if there is one.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

/// All presets. The IDs of a preset are never negative. Some projects (Discord, Instagram, Mastodon, TikTok,
/// TSID) also use the sign bit for the time. The presets of these projects omit this bit, so they cover only
/// the first half of the project's time range. In this half, the IDs are the same.
pub static PRESETS: &[Preset] = &[
    Preset { name: "standard", text: "time:41 worker:10 sequence:12 unit=1ms epoch=2024-01-01T00:00:00Z" },
    // twitter-archive/snowflake, tag snowflake-2010, IdWorker.scala: twepoch = 1288834974657.
    Preset {
        name: "twitter",
        text: "time:41 datacenter:5 worker:5 sequence:12 unit=1ms epoch=2010-11-04T01:42:54.657Z",
    },
    // Meituan-Dianping/Leaf, SnowflakeIDGenImpl.java: The file uses Twitter's epoch and one worker field of
    // 10 bits.
    Preset { name: "leaf", text: "time:41 worker:10 sequence:12 unit=1ms epoch=2010-11-04T01:42:54.657Z" },
    // discord/discord-api-docs, Reference, Snowflakes: epoch 1420070400000. Discord's "internal worker" is
    // the datacenter here, its "internal process" the worker, and its "increment" the sequence.
    Preset {
        name: "discord",
        text: "time:41 datacenter:5 worker:5 sequence:12 unit=1ms epoch=2015-01-01T00:00:00Z",
    },
    // Instagram Engineering, "Sharding & IDs at Instagram" (2011): our_epoch = 1314220021721. The shard is
    // the worker here.
    Preset {
        name: "instagram",
        text: "time:40 worker:13 sequence:10 unit=1ms epoch=2011-08-24T21:07:01.721Z",
    },
    // mastodon/mastodon, lib/mastodon/snowflake.rb: 48 bits of Unix milliseconds, and 16 bits that distinguish
    // rows. There is no worker, so only one server can issue such IDs.
    Preset { name: "mastodon", text: "time:47 sequence:16 unit=1ms epoch=1970-01-01T00:00:00Z" },
    // TikTok and Douyin, by observation (Steel and others, arXiv 2504.13279): Unix seconds in the upper 32
    // bits. This preset precedes `redis`, whose IDs look similar and are rarer, because equally likely guesses
    // keep the order of the table.
    Preset { name: "tiktok", text: "time:31 sequence:32 unit=1s epoch=1970-01-01T00:00:00Z" },
    // yitter/IdGenerator, SnowWorkerM1: BaseTime 1582136402000, 6 bits each for worker and sequence. The time
    // has all other bits. With a time field of 41 bits, the layout lasts until 2089, and its IDs fit in 53
    // bits.
    Preset { name: "yitter", text: "time:41 worker:6 sequence:6 unit=1ms epoch=2020-02-19T18:20:02Z" },
    // apache/shardingsphere, SnowflakeKeyGenerateAlgorithm.java: The epoch is 2016-11-01 00:00 in the time
    // zone of the program. The preset assumes UTC.
    Preset {
        name: "shardingsphere",
        text: "time:41 worker:10 sequence:12 unit=1ms epoch=2016-11-01T00:00:00Z",
    },
    // Ahoo-Wang/CosId, CosId.java: COSID_EPOCH = 1577203200000.
    Preset { name: "cosid", text: "time:41 worker:10 sequence:12 unit=1ms epoch=2019-12-24T16:00:00Z" },
    // cockroachdb/cockroach, GenerateUniqueInt: units of 10 microseconds since 2015, then 15 bits of node.
    Preset { name: "cockroachdb", text: "time:48 worker:15 unit=10us epoch=2015-01-01T00:00:00Z" },
    // sony/sonyflake, sonyflake.go: 39 bits of 10 ms, 8 bits of sequence, then 16 bits of machine.
    Preset { name: "sonyflake", text: "time:39 sequence:8 worker:16 unit=10ms epoch=2014-09-01T00:00:00Z" },
    // sony/sonyflake, v2/sonyflake.go: the defaults of version 2.
    Preset { name: "sonyflake2", text: "time:39 sequence:8 worker:16 unit=10ms epoch=2025-01-01T00:00:00Z" },
    // baidu/uid-generator, DefaultUidGenerator.java: epochSeconds = 1463673600. The time field overflowed on
    // 2024-11-20, so this preset can only decode IDs.
    Preset { name: "baidu", text: "time:28 worker:22 sequence:13 unit=1s epoch=2016-05-19T16:00:00Z" },
    // baidu/uid-generator, README: two configurations, one that lasts 68 years, and one for frequent
    // restarts.
    Preset { name: "baidu_long", text: "time:31 worker:23 sequence:9 unit=1s epoch=2016-05-19T16:00:00Z" },
    Preset { name: "baidu_restart", text: "time:30 worker:27 sequence:6 unit=1s epoch=2016-05-19T16:00:00Z" },
    // hengyunabc/redis-id-generator, README: Unix milliseconds, 12 bits of shard, 10 bits of sequence.
    Preset { name: "redis", text: "time:41 worker:12 sequence:10 unit=1ms epoch=1970-01-01T00:00:00Z" },
    // pgEdge/snowflake, snowflake.c, 1.2 and later: SNOWFLAKE_NODE_SHIFT 12, epoch offset 1672531200. (In
    // version 1.1 the node was below the counter: "time:41 sequence:12 worker:10".)
    Preset { name: "pgedge", text: "time:41 worker:10 sequence:12 unit=1ms epoch=2023-01-01T00:00:00Z" },
    // f4b6a3/tsid-creator 5.2.6, Tsid.java and TsidFactory.java: 42 bits of time, TSID_EPOCH 2020-01-01, and
    // 22 lower bits. By default, the node has 10 of the lower bits, and the counter has 12.
    Preset { name: "tsid", text: "time:41 worker:10 sequence:12 unit=1ms epoch=2020-01-01T00:00:00Z" },
    Preset { name: "js53", text: "time:33 worker:4 sequence:15 unit=1s epoch=2020-01-01T00:00:00Z" },
    Preset { name: "wide", text: "time:41 worker:6 sequence:16 unit=1ms epoch=2024-01-01T00:00:00Z" },
    Preset {
        name: "rollback3",
        text: "time:41 clock_seq:3 worker:7 sequence:12 unit=1ms epoch=2024-01-01T00:00:00Z",
    },
    Preset {
        name: "rollback2",
        text: "time:41 worker:8 clock_seq:2 sequence:12 unit=1ms epoch=2024-01-01T00:00:00Z",
    },
];
