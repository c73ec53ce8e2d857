//! The keeper's decisions for a leased identity.

use crate::servers::*;
use snowflake_id_core::Lease;
use snowflake_id_core::keeper_plan::{GatePlan, Seen, plan};
use snowflake_id_core::track::Track;
use snowflake_id_core::used::{History, Uses};

/// A lease of worker 3.
fn leased(from_us: i64, until_us: i64) -> Lease {
    Lease { identity: worker(3), from_us, until_us }
}

/// A server that has issued IDs as worker 3 under a lease, and continues.
fn leasing_server(lease: Lease) -> Seen {
    let history = History { last_identity: Some(worker(3)), ..busy_server().history };
    let uses = Uses::from_iter([used(3, 0)]);
    Seen { wanted: Some(lease), open_for: Some(lease), history, uses, ..busy_server() }
}

/// The keeper never raises the horizon beyond the lease, and does not write a published horizon again.
#[test]
fn a_horizon_ends_with_the_lease() {
    let ends_soon = NOW_US + 80;
    assert_eq!(horizon_us(&plan(&leasing_server(leased(5, ends_soon)))), Some(ends_soon));
    let ended = leased(5, NOW_US + 50); // The end equals the horizon.
    assert_eq!(horizon_us(&plan(&leasing_server(ended))), None);
    // A renewed lease is the same one.
    let renewed = Seen { open_for: Some(ended), ..leasing_server(leased(5, NOW_US + 60)) };
    let plan = plan(&renewed);
    assert_eq!((plan.gate, horizon_us(&plan)), (GatePlan::Stay, Some(NOW_US + 60)));
}

/// The clock is years ahead, and the registry cannot be asked: only the time of the lease is lost.
#[test]
fn a_clock_far_ahead_burns_nothing_beyond_the_lease() {
    let until_us = NOW_US + 200;
    let later = NOW_US + 1_000_000_000_000;
    let start = Seen { open_for: None, now_us: later, ..leasing_server(leased(5, until_us)) };
    let start = start.with(|seen| seen.tracks[0].begun = None);
    assert_eq!(horizon_us(&plan(&start)), Some(until_us));
    let without = Seen { wanted: None, ..start };
    assert_eq!(horizon_us(&plan(&without)), None);
}

/// Another range of the same identity starts at its own start, and so does the horizon.
#[test]
fn a_lease_begins_where_it_begins() {
    let again = leased(NOW_US + 700, NOW_US + 900);
    let seen = Seen { wanted: Some(again), ..leasing_server(leased(5, NOW_US + 60)) };
    let plan = plan(&seen);
    assert_eq!(plan.gate, GatePlan::Open { lease: again, is_another: false });
    assert_eq!(horizon_us(&plan), Some(again.from_us));
    assert!(plan.records.is_empty());
}

/// If this server may have used the leased identity beyond the start of the range, it starts after that use.
#[test]
fn a_leased_identity_that_was_used_before() {
    let lease = leased(NOW_US, NOW_US + 900);
    let with_end = |until_us| Seen {
        wanted: Some(lease),
        uses: Uses::from_iter([used(1, 0), used(3, until_us)]),
        ..busy_server()
    };
    assert_eq!(plan(&with_end(NOW_US + 20)).gate, GatePlan::Open { lease, is_another: true });
    let refused = plan(&with_end(NOW_US + 1_000_000_000));
    assert!(matches!(refused.gate, GatePlan::Refuse { .. }));
    assert!(refused.is_another_needed);
}

/// The server is an hour ahead of a clock that the registry has confirmed.
#[test]
fn a_server_far_ahead_exchanges_its_identity_and_resets() {
    const HOUR_US: i64 = 3_600_000_000;
    let ahead = NOW_US + HOUR_US;
    let lease = leased(5, NOW_US + 900);
    let stuck = Seen {
        tracks: [track(ahead, ahead, Some(NOW_US - 5_000), ahead), Track::default()],
        history: History { highest_us: ahead, last_identity: Some(worker(3)) },
        is_clock_confirmed: true,
        ..leasing_server(lease)
    };
    let first = plan(&stuck);
    assert_eq!((first.gate, first.is_another_needed), (GatePlan::Stay, true));
    let unconfirmed = plan(&Seen { is_clock_confirmed: false, ..stuck.clone() });
    assert!(!unconfirmed.is_another_needed);

    let another = Lease { identity: worker(4), ..lease };
    let exchanged = plan(&Seen { wanted: Some(another), ..stuck.clone() });
    assert_eq!((exchanged.gate, exchanged.is_another_needed), (GatePlan::Reset(another), false));
    assert_eq!((horizon_us(&exchanged), exchanged.records), (None, vec![]));

    // An identity that was used before is not suitable, and an identity from the settings cannot be exchanged.
    let uses = Uses::from_iter([used(3, 0), used(4, 0)]);
    let used_before = plan(&Seen { wanted: Some(another), uses, ..stuck.clone() });
    assert!(matches!(used_before.gate, GatePlan::Open { .. }) && used_before.is_another_needed);
    let settled = plan(&Seen { wanted: Some(settled(4)), ..stuck.clone() });
    assert!(matches!(settled.gate, GatePlan::Open { .. }) && !settled.is_another_needed);

    // On request, the identity is exchanged even if the server is not far ahead.
    let ordered = Seen { is_reset_requested: true, ..leasing_server(lease) };
    assert!(plan(&ordered).is_another_needed);
    assert_eq!(plan(&Seen { wanted: Some(another), ..ordered }).gate, GatePlan::Reset(another));
}

/// The file has a lease from the server's former history, and no stored record says how far it was used.
#[test]
fn a_lease_from_a_life_that_is_forgotten() {
    let lease = leased(5, NOW_US + 900);
    let start = Seen { wanted: Some(lease), is_lease_inherited: true, ..new_server() };
    let plan_of_start = plan(&start);
    assert_eq!(plan_of_start.gate, GatePlan::Refuse { identity: worker(3), until_us: lease.until_us });
    assert!(plan_of_start.is_another_needed);
    assert_eq!(horizon_us(&plan_of_start), None);
    // A new lease is valid, and so is an old one if the history is known.
    assert!(matches!(plan(&Seen { is_lease_inherited: false, ..start.clone() }).gate, GatePlan::Open { .. }));
    let known = Seen { tracks: stored(NOW_US), uses: Uses::from_iter([used(3, 0)]), ..start };
    assert!(matches!(plan(&known).gate, GatePlan::Open { .. }));
}

/// A floor that an administrator has requested is no reason for a reset to below it.
#[test]
fn a_requested_floor_holds_under_a_lease() {
    let floor_us = NOW_US + 60_000_000;
    let lease = leased(5, NOW_US + 900_000_000);
    let ordered =
        Seen { raise_floor_to_us: Some(floor_us), is_clock_confirmed: true, ..leasing_server(lease) };
    let first = plan(&ordered);
    assert!(!first.is_another_needed);
    assert!(first.records.contains(&everybody(floor_us)));
    // The same holds after a restart, when only the stored records say so.
    let uses = ordered.uses.iter().chain(first.records.iter().copied()).collect();
    let restarted = Seen {
        tracks: stored(horizon_us(&first).unwrap()),
        uses,
        history: History::default(),
        raise_floor_to_us: None,
        open_for: None,
        ..ordered
    };
    let again = plan(&restarted);
    assert_eq!(
        (again.tracks[0].begun.floor_us, again.is_another_needed),
        (horizon_us(&first).unwrap(), false)
    );
    let another = Lease { identity: worker(4), ..lease };
    assert!(!matches!(plan(&Seen { wanted: Some(another), ..restarted }).gate, GatePlan::Reset(_)));
}

/// A record for unknown identities excludes every identity, so another one would not help.
#[test]
fn an_unknown_history_is_no_reason_for_another_identity() {
    let until_us = NOW_US + 1_000_000_000;
    let uses = Uses::from_iter([used(1, 0), everybody(until_us)]);
    let refused = Seen { wanted: Some(leased(5, until_us)), uses, ..busy_server() };
    let plan = plan(&refused);
    assert!(matches!(plan.gate, GatePlan::Refuse { .. }));
    assert!(!plan.is_another_needed);
}
