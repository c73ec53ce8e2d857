//! What a server stores about numbers: the lines of its journal, and the changes in them.

use proptest::prelude::*;
use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::had::{End, Had};
use snowflake_id_core::journal::{self, Damage};
use snowflake_id_core::reply::Reply;
use snowflake_id_core::rest::{Origin, Rest};
use snowflake_id_core::segment::{NEVER_ENDS, Range};
use snowflake_id_core::segment_answer::{Granted, Period};
use snowflake_id_core::segment_records::{Change, SegmentRecords};
use uuid::Uuid;

const HEADER: &str = "# format 1";

fn had(until: i64) -> Had {
    let period = Some(Period { key: 20261125, starts_us: 0 });
    Had { now: Some(End { until, registry_id: Some(Uuid::from_u128(7)), period }), next: None }
}

fn change(which: u8, name: &str, number: i64) -> Change {
    let registry_id = Some(Uuid::from_u128(number as u128 % 12));
    match which % 3 {
        0 => Change::Registry(registry_id),
        1 => Change::Had { name: name.into(), had: had(number) },
        _ => Change::Token { registry_id, name: name.into(), token: format!("segment:6f:{number}::9:.00") },
    }
}

fn changes() -> impl Strategy<Value = Vec<(u8, String, i64)>> {
    prop::collection::vec((any::<u8>(), "[ab\n\"\u{e9}]{0,3}", 0..i64::MAX), 0..20)
}

fn applied(text: &[u8]) -> (SegmentRecords, Result<(), Damage>) {
    let mut records = SegmentRecords::default();
    let read = journal::read(text, HEADER, |change| records.apply(change));
    (records, read)
}

proptest! {
    /// Records are the same after they were written and read.
    #[test]
    fn changes_lead_to_the_same_records(made in changes()) {
        let mut records = SegmentRecords::default();
        made.iter().for_each(|(which, name, number)| records.apply(change(*which, name, *number)));
        let text = journal::start(HEADER, &records.as_changes()).unwrap();
        let (again, read) = applied(&text);
        prop_assert_eq!(read, Ok(()));
        prop_assert_eq!(format!("{again:?}"), format!("{records:?}"));
    }

    /// A crash during a write leaves a part of the last line. The rest of its length may have been stored as zeros. All
    /// earlier changes are read.
    #[test]
    fn an_incomplete_last_line_is_ignored(
        made in changes(),
        last in changes(),
        cut in any::<prop::sample::Index>(),
        has_zeros in any::<bool>(),
    ) {
        let of = |made: &[(u8, String, i64)]| -> Vec<Change> {
            made.iter().map(|(which, name, number)| change(*which, name, *number)).collect()
        };
        let before = journal::start(HEADER, &of(&made)).unwrap();
        let line = journal::line(&of(&last)).unwrap();
        let (records, _) = applied(&before);
        let mut part = line[..cut.index(line.len() - 1)].to_vec();
        if has_zeros {
            part.resize(line.len(), 0);
        }
        let (again, read) = applied(&[before, part].concat());
        prop_assert_eq!(read, Ok(()));
        prop_assert_eq!(format!("{again:?}"), format!("{records:?}"));
    }

    /// A byte that changes anywhere before the last line break is detected. Without this line break, the last line would
    /// be incomplete.
    #[test]
    fn a_changed_byte_is_detected(made in changes(), at in any::<prop::sample::Index>(), bit in 0..8) {
        let mut text = journal::start(HEADER, &[change(0, "", 2)]).unwrap();
        let of = made.iter().map(|(which, name, number)| change(*which, name, *number)).collect::<Vec<_>>();
        text.extend(journal::line(&of).unwrap());
        text.extend(journal::line(&[change(0, "", 1)]).unwrap());
        let at = at.index(text.len() - 1);
        text[at] ^= 1_u8 << bit;
        prop_assert!(applied(&text).1.is_err());
    }
}

/// A last line with a line break was written completely. Its changes may have been used, so it is not ignored.
#[test]
fn a_damaged_last_line_is_an_error() {
    let before = journal::start(HEADER, &[change(1, "a", 1)]).unwrap();
    let line = journal::line(&[change(1, "a", 2)]).unwrap();
    let (sum, end) = (line[0], line.len() - 1);
    let damaged: [&[u8]; 4] = [
        b"\n",
        &line[9..],
        &[&[sum ^ 1], &line[1..]].concat(),
        &[&line[..9], &vec![0; end - 9], b"\n"].concat(),
    ];
    for damaged in damaged {
        assert_eq!(applied(&[&before, damaged].concat()).1, Err(Damage::Line(3)), "{damaged:?}");
        // The changes of the lines before the damaged one were read.
        assert_eq!(applied(&[&before, damaged].concat()).0.segments["a"], had(1));
    }
    // An editor may have removed the line break of a valid line.
    assert_eq!(applied(&[&before, &line[..end]].concat()).0.segments["a"], had(2));
}

#[test]
fn a_line_of_another_version_is_refused() {
    let mut text = journal::start::<Change>(HEADER, &[]).unwrap();
    text.extend(journal::line(&["later"]).unwrap());
    assert_eq!(applied(&text).1, Err(Damage::Unknown));
    assert_eq!(applied(b"").1, Err(Damage::Header));
    // The first changes are written together with the first line, so they are never incomplete or missing.
    assert_eq!(applied(b"# format 1\n").1, Err(Damage::Line(2)));
    assert_eq!(applied(b"# format 1\n0123").1, Err(Damage::Line(2)));
}

#[test]
fn a_text_of_a_newer_version_is_not_read() {
    let mut text = b"# format 2: what this version does not know\n".to_vec();
    text.extend(journal::line(&[change(0, "", 2)]).unwrap());
    let (records, read) = applied(&text);
    assert_eq!(read, Err(Damage::Newer { found: 2, known: 1 }));
    assert_eq!(format!("{records:?}"), format!("{:?}", SegmentRecords::default()));
    // These are no numbers of formats.
    for format in ["0", "2a", "", " 1", "99999999999999999999"] {
        assert_eq!(applied(format!("# format {format}: ..\n").as_bytes()).1, Err(Damage::Unknown));
    }
    assert_eq!(applied(b"{}").1, Err(Damage::Header));
}

#[test]
fn a_rest_is_read_as_it_was_written() {
    let mut rest = Rest::new(
        Uuid::from_u128(1),
        Origin { registry_id: None, server_started_us: Some(1) },
        ClockOffset::from_us(-5),
    );
    let range = Range { first: 7, increment: 3, count: 2, ends_us: NEVER_ENDS };
    rest.add("orders", Granted { range, period: None });
    rest.add("orders", Granted { range: Range { increment: 0, ..range }, period: None });
    let text = serde_json::to_string(&rest).unwrap();
    let mut again: Rest = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (again.ticket, again.origin, again.registry_clock),
        (rest.ticket, rest.origin, ClockOffset::from_us(-5))
    );
    // The second range is none.
    let ranges: Vec<Range> = again.take("orders").iter().map(|granted| granted.range).collect();
    assert_eq!(ranges, [range]);
    assert!(again.is_empty());
}

/// A key below 0 is invalid, because -1 stands for no period in the database.
#[test]
fn the_key_of_a_period() {
    let granted = |key: i64| {
        let row = format!(
            r#"{{"first":1,"increment":1,"count":10,"period_key":{key},"period_starts":0,"period_ends":1}}"#
        );
        Granted::read(&Reply::read(&row).unwrap())
    };
    assert_eq!(granted(20261127).unwrap().period.unwrap().key, 20261127);
    assert!(granted(-1).is_none());
}
