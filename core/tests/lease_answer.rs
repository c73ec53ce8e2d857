//! The registry's answers to requests for leases: only what a registry can say is accepted.

use std::collections::BTreeMap;
use std::time::Duration;

use snowflake_id_core::lease_answer::{Answer, Terms};
use snowflake_id_core::lease_state::Outcome;
use snowflake_id_core::protocol::Mismatch;
use snowflake_id_core::reply::Reply;
use snowflake_id_core::{Identity, Lease};

const NOW_US: i64 = 1_795_000_000_000_000;
const MINUTE_US: i64 = 60_000_000;

/// The columns of a valid answer, with changes by name.
fn read(changes: &[(&str, Option<&str>)]) -> Result<Answer, String> {
    let (from, until) = ((NOW_US - MINUTE_US).to_string(), (NOW_US + 10 * MINUTE_US).to_string());
    let now = NOW_US.to_string();
    let usual = [
        ("outcome", "granted"),
        ("datacenter_id", "0"),
        ("worker_id", "7"),
        ("granted_from", &from),
        ("granted_until", &until),
        ("registry_id", "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
        ("registry_clock", &now),
        ("lease", "600000000"),
        ("renew_every", "60000000"),
        ("token", "lease:0:7.abc"),
    ];
    let mut columns: BTreeMap<_, _> = usual.map(|(name, text)| (name, Some(text))).into();
    columns.extend(changes.iter().copied());
    let columns = columns.into_iter().map(|(name, text)| (name, text.map(str::to_owned)));
    Answer::read(&Reply::of(columns), NOW_US)
}

#[test]
fn a_grant() {
    let answer = read(&[]).unwrap();
    let lease = Lease {
        identity: Identity { datacenter: 0, worker: 7 },
        from_us: NOW_US - MINUTE_US,
        until_us: NOW_US + 10 * MINUTE_US,
    };
    assert_eq!(answer.outcome, Outcome::Granted(lease));
    assert_eq!(answer.token.as_deref(), Some("lease:0:7.abc"));
    let mut terms = Terms::default();
    terms.note(&answer, NOW_US + 5_000, 2_000);
    assert_eq!(terms.renew_every, Duration::from_secs(60));
    assert_eq!(terms.clock_offset_us, Some(6_000));
}

#[test]
fn grants_that_no_registry_makes() {
    let day = (NOW_US + 24 * 60 * MINUTE_US + 2 * MINUTE_US).to_string();
    for changes in [
        ("granted_until", Some(day.as_str())),
        ("granted_until", Some("9223372036854775807")),
        ("granted_until", Some("1")),
        ("granted_until", None),
        ("granted_from", Some("0")),
        ("granted_from", Some("-5")),
        ("worker_id", Some("-1")),
        ("worker_id", Some("4294967295")),
        ("datacenter_id", None),
        ("registry_clock", Some("noon")),
        ("outcome", Some("GRANTED")),
        ("outcome", None),
    ] {
        assert!(read(&[changes]).is_err(), "{changes:?}");
    }
}

/// The registry does not know the protocol. Other outcomes that this version does not know are invalid.
#[test]
fn other_protocols() {
    for (outcome, mismatch) in
        [("registry too old", Mismatch::RegistryTooOld), ("caller too old", Mismatch::CallerTooOld)]
    {
        let answer = read(&[("outcome", Some(outcome)), ("detail", Some("protocol 2"))]).unwrap();
        assert_eq!(answer.outcome, Outcome::Mismatch(mismatch));
        assert_eq!(answer.detail.as_deref(), Some("protocol 2"));
    }
    for outcome in ["too old", "registry too old ", "Registry too old", "server too old", "protocol 2"] {
        assert!(read(&[("outcome", Some(outcome))]).is_err(), "{outcome}");
    }
}

#[test]
fn settings_stay_in_their_limits() {
    for (lease, renew_every, every_us) in [
        ("0", "0", 100_000),
        ("9223372036854775807", "9223372036854775807", 12 * 60 * MINUTE_US),
        ("-1", "600000000", 500_000),
    ] {
        let registry =
            read(&[("lease", Some(lease)), ("renew_every", Some(renew_every))]).unwrap().registry.unwrap();
        assert_eq!(registry.renew_every_us, every_us, "{lease} {renew_every}");
    }
    for token in ["x".repeat(401), "a\"b\u{7f}".into(), "a b".into(), "é".into()] {
        assert_eq!(read(&[("token", Some(&token))]).unwrap().token, None, "{token}");
    }
    assert!(read(&[("registry_id", None)]).unwrap().registry.is_none());
}

/// Each answer chooses the protocol of the next request.
#[test]
fn the_highest_protocol_that_both_know() {
    let mut terms = Terms::default();
    for (lowest, highest) in
        [("1", "1"), ("0", "7"), ("2", "7"), ("0", "0"), ("7", "0"), ("-1", "x"), ("", "1")]
    {
        let answer = read(&[("lowest_protocol", Some(lowest)), ("highest_protocol", Some(highest))]).unwrap();
        terms.note(&answer, NOW_US, 0);
        assert_eq!(serde_json::json!(terms.protocol), 1, "{lowest} to {highest}");
    }
}

/// What a registry may send instead of a row.
#[test]
fn rows() {
    assert_eq!(
        Reply::read(r#"{"later": {"a": [1]}, "is": true, "n": 9223372036854775807}"#).unwrap().number("n"),
        Some(i64::MAX)
    );
    let long = format!(r#"{{"detail": "{}"}}"#, "x".repeat(8192));
    let deep = format!(r#"{{"detail": {}"#, "[".repeat(4000));
    for json in ["", "null", "[]", "1", r#"{"a": 1"#, r#"{"a": NaN}"#, long.as_str(), deep.as_str()] {
        assert!(Reply::read(json).is_err(), "{json}");
    }
    for number in ["1.5", "1e3", "9223372036854775808", r#""""#, "null"] {
        assert_eq!(Reply::read(&format!(r#"{{"n": {number}}}"#)).unwrap().number("n"), None, "{number}");
    }
}
