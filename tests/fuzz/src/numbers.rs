//! Numbers of segments.

use std::num::NonZeroU64;

use snowflake_id_core::had::{End, Had};
use snowflake_id_core::journal::{self, Damage};
use snowflake_id_core::reply::Reply;
use snowflake_id_core::segment::Segment;
use snowflake_id_core::segment_answer::{Answer, Granted, LONGEST_TOKEN};
use snowflake_id_core::segment_records::{Change, SegmentRecords};
use snowflake_id_core::signed::{Signed, proves};
use uuid::Uuid;

const HEADER: &str = "# format 1";

/// The registry's answers to one server about one segment. Each row is a line, and empty lines separate the answers.
/// The server takes the first and the last number of each range that it accepts.
pub fn answers(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut had = Had::default();
    let segment = Segment::default();
    let mut last = -1;
    for answer in text.split("\n\n") {
        let rows: Vec<_> = answer.lines().filter_map(|line| Reply::read(line).ok()).collect();
        let Ok(answer) = Answer::read(&rows) else { continue };
        assert!(answer.about.len() <= rows.len());
        for (_, about) in answer.about {
            assert!(about.token.is_none_or(|token| token.len() <= LONGEST_TOKEN));
            let Some(granted) = about.granted else { continue };
            if had.bound(&granted).is_some_and(|bound| granted.range.first <= bound) {
                continue;
            }
            let until = granted.range.last().expect("only valid ranges are read");
            had.enter(Some(End { until, registry_id: answer.registry_id, period: granted.period }));
            assert_eq!(had.now.as_ref().map(|end| end.until), Some(until));
            segment.publish(granted.range, 1).expect("there is room");
            let all = NonZeroU64::new(granted.range.count).expect("a range has numbers");
            if let Ok(taken) = segment.take(|| 0, all) {
                assert!(last < taken.first && taken.first <= taken.last(), "{taken:?} after {last}");
                last = taken.last();
                assert_eq!(last, until);
            }
            // The range may have ended.
            segment.drain();
        }
        check_marks(&had);
    }
}

/// Tokens, one in each line, with their registry and the name of their segment. The first line is a range.
pub fn tokens(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.lines();
    let row = Reply::read(lines.next().unwrap_or_default()).unwrap_or_default();
    let granted = Granted::read(&row);
    let mut signed = Signed::default();
    for line in lines {
        let mut parts = line.splitn(3, '\t');
        let registry_id = parts.next().and_then(|text| text.parse().ok());
        let (name, token) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        if let Some(granted) = &granted {
            proves(token, granted);
        }
        signed.note(registry_id, name, token.into());
        assert!(signed.is_last(registry_id, name, token));
        assert!(signed.tokens(registry_id, name).iter().any(|known| known == token));
    }
    let mut again = Signed::default();
    signed.all().for_each(|(registry_id, name, token)| again.note(registry_id, name, token.into()));
    assert_eq!(format!("{again:?}"), format!("{signed:?}"));
}

/// The journal of a server: once as it is, once as lines of JSON that get valid checksums.
pub fn journal(data: &[u8]) {
    replay(data);
    let mut text = HEADER.as_bytes().to_vec();
    for json in data.split(|byte| *byte == b'\n') {
        let Ok(json) = serde_json::from_slice::<serde_json::Value>(json) else { continue };
        let line = journal::line(&[json]).expect("JSON can be written as JSON");
        text.push(b'\n');
        text.extend(line.strip_suffix(b"\n").unwrap_or(&line));
    }
    replay(&text);
}

/// Reads a journal. What it contains is the same after it is written and read again.
fn replay(text: &[u8]) {
    let mut records = SegmentRecords::default();
    let mut rest = None;
    let read = journal::read(text, HEADER, |change| {
        rest = None;
        match change {
            Change::Rest(left) => rest = Some(left),
            change => records.apply(change),
        }
    });
    match read {
        Err(Damage::Header | Damage::Unknown | Damage::Newer { .. }) => return,
        Err(Damage::Line(at)) => assert!(at >= 2),
        Ok(()) => {}
    }
    records.segments.values().for_each(check_marks);
    if let Some(rest) = &mut rest {
        let names: Vec<String> = rest.names().map(str::to_owned).collect();
        for name in names {
            for granted in rest.take(&name) {
                assert!(granted.range.last().is_some());
                // Only ranges that can be published are read.
                let _ = Segment::default().publish(granted.range, 1);
            }
        }
        assert!(rest.is_empty());
    }
    let written = journal::start(HEADER, &records.as_changes()).expect("changes can be written as JSON");
    let mut again = SegmentRecords::default();
    journal::read(&written, HEADER, |change| again.apply(change)).expect("what was written can be read");
    assert_eq!(format!("{again:?}"), format!("{records:?}"));
}

/// Marks never shrink, whatever they are merged with.
fn check_marks(had: &Had) {
    let other =
        |until| Had { now: Some(End { until, registry_id: Some(Uuid::nil()), period: None }), next: None };
    for until in [i64::MIN, 0, i64::MAX] {
        let mut merged = had.clone();
        merged.merge(other(until));
        let highest = had.ends().map(|end| end.until).chain([until]).max();
        assert_eq!(merged.ends().map(|end| end.until).max(), highest);
    }
}
