//! The registry's answers to requests for leases: only what a registry can say is accepted.

use std::time::Duration;

use snowflake_id_core::lease_answer::{Answer, COLUMNS, Terms};
use snowflake_id_core::lease_state::Outcome;
use snowflake_id_core::protocol::Mismatch;
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
    let names: Vec<_> = COLUMNS.split(", ").collect();
    Answer::read(
        |at| {
            let change = changes.iter().find(|(name, _)| *name == names[at]);
            let usual = usual.iter().find(|(name, _)| *name == names[at]).map(|(_, text)| *text);
            change.map_or(usual, |(_, text)| *text)
        },
        NOW_US,
    )
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
    let token = "x".repeat(401);
    assert_eq!(read(&[("token", Some(&token))]).unwrap().token, None);
    assert!(read(&[("registry_id", None)]).unwrap().registry.is_none());
}
