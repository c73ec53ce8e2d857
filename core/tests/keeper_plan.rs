//! What the keeper decides.

use proptest::prelude::*;
use snowflake_id_core::clock_sequence::SeenValues;
use snowflake_id_core::keeper_plan::{
    GatePlan, Loss, Past, ResetRefusal, Seen, Use, Uses, check_reset, plan, records_before_reset,
};
use snowflake_id_core::{Identity, Lease};

const NOW_US: i64 = 1_000_000;
const MAX_DRIFT_US: i64 = 100;
const LEASE_US: i64 = 300;
const AHEAD_US: i64 = NOW_US + MAX_DRIFT_US + LEASE_US;

fn worker(worker: u32) -> Identity {
    Identity { datacenter: 0, worker }
}

/// The lease of a worker ID that the settings give.
fn settled(number: u32) -> Lease {
    Lease::for_good(worker(number))
}

fn used(number: u32, until_us: i64) -> Use {
    Use { identity: Some(worker(number)), until_us }
}

fn everybody(until_us: i64) -> Use {
    Use { identity: None, until_us }
}

/// A server that has just been started for the first time, and has worker ID 1.
fn new_server() -> Seen {
    Seen {
        now_us: NOW_US,
        max_drift_us: MAX_DRIFT_US,
        lease_us: LEASE_US,
        stored_us: None,
        is_elsewhere: false,
        uses: Uses::default(),
        values: SeenValues::default(),
        past: Past::default(),
        floor_us: None,
        end_of_use_us: 0,
        advance_to_us: None,
        wanted: Some(settled(1)),
        open_for: None,
        is_lease_inherited: false,
        is_clock_confirmed: false,
        is_anew_ordered: false,
        has_room_to_begin_anew: true,
        is_active: false,
        is_clock_good: true,
    }
}

/// One that has made IDs as worker 1 up to `NOW_US`, and goes on.
fn busy_server() -> Seen {
    let horizon_us = NOW_US + 50;
    Seen {
        stored_us: Some(horizon_us),
        uses: Uses(vec![used(1, 0)]),
        past: Past {
            published_us: horizon_us,
            promised_us: horizon_us,
            highest_us: horizon_us,
            last_identity: Some(worker(1)),
        },
        floor_us: Some(NOW_US - 5_000),
        end_of_use_us: NOW_US + 1,
        open_for: Some(settled(1)),
        is_active: true,
        ..new_server()
    }
}

#[test]
fn a_new_server_begins_where_no_drift_can_have_been() {
    let plan = plan(&new_server());
    assert_eq!(plan.loss, Some(Loss::NothingKnown));
    assert_eq!(plan.floor_us, NOW_US + MAX_DRIFT_US);
    assert_eq!(plan.horizon_us, Some(AHEAD_US));
    assert_eq!(plan.records, [used(1, 0)]);
    assert_eq!(plan.gate, GatePlan::Open { lease: settled(1), from_us: 0, is_another: false });
}

#[test]
fn a_start_begins_at_the_stored_horizon() {
    let seen = Seen { stored_us: Some(NOW_US + 70), uses: Uses(vec![used(1, 0)]), ..new_server() };
    let plan = plan(&seen);
    assert_eq!((plan.loss, plan.floor_us), (None, NOW_US + 70));
    assert!(plan.records.is_empty());
}

#[test]
fn a_horizon_is_renewed_only_while_ids_are_made() {
    assert_eq!(plan(&busy_server()).horizon_us, Some(AHEAD_US));
    assert_eq!(plan(&Seen { is_active: false, ..busy_server() }).horizon_us, None);
    // A clock that is not followed burns nothing.
    assert_eq!(plan(&Seen { is_clock_good: false, ..busy_server() }).horizon_us, None);
}

#[test]
fn without_an_identity_the_gate_is_closed() {
    let plan = plan(&Seen { wanted: None, ..busy_server() });
    assert_eq!((plan.gate, plan.horizon_us), (GatePlan::Close, None));
}

#[test]
fn another_identity_is_recorded_before_it_is_let_in() {
    let plan = plan(&Seen { wanted: Some(settled(2)), ..busy_server() });
    assert_eq!(plan.records, [used(2, 0)]);
    assert_eq!(plan.gate, GatePlan::Open { lease: settled(2), from_us: 0, is_another: true });
    assert_eq!(plan.horizon_us, Some(AHEAD_US));
}

#[test]
fn an_identity_goes_on_above_its_own_end_or_not_at_all() {
    let with_end = |until_us| Seen {
        wanted: Some(settled(2)),
        uses: Uses(vec![used(1, 0), used(2, 0), used(2, until_us)]),
        ..busy_server()
    };
    assert_eq!(
        plan(&with_end(AHEAD_US)).gate,
        GatePlan::Open { lease: settled(2), from_us: AHEAD_US, is_another: true }
    );
    let refused = plan(&with_end(AHEAD_US + 1));
    assert_eq!(refused.gate, GatePlan::Refuse { identity: worker(2), until_us: AHEAD_US + 1 });
    assert_eq!(refused.horizon_us, None);
}

/// An older copy has records that are out of date: what was used since counts for all of them.
#[test]
fn the_records_of_an_older_copy_prove_nothing() {
    let past = Past { highest_us: NOW_US + 9_000_000, ..busy_server().past };
    let seen = Seen { is_elsewhere: true, uses: Uses(vec![used(1, 0), used(2, 0)]), past, ..busy_server() };
    let plan = plan(&seen);
    assert_eq!(
        plan.records,
        [everybody(past.highest_us), used(1, past.promised_us), used(2, past.highest_us)]
    );
}

/// With a lease of an hour an identity that was shut out would lift all slots by an hour.
#[test]
fn an_identity_that_would_wait_for_long_is_not_let_in() {
    let until_us = NOW_US + 60_000_000;
    let seen = Seen {
        lease_us: 3_600_000_000,
        wanted: Some(settled(2)),
        uses: Uses(vec![used(1, 0), used(2, until_us)]),
        ..busy_server()
    };
    assert_eq!(plan(&seen).gate, GatePlan::Refuse { identity: worker(2), until_us });
    // Slots begin there anyway.
    let seen = Seen { floor_us: Some(until_us), ..seen };
    assert!(matches!(plan(&seen).gate, GatePlan::Open { from_us, .. } if from_us == until_us));
}

/// Dropped and created again, emptied, or lowered: the identity in use goes on above its own horizon, each
/// other one may have been used up to the highest horizon that there ever was.
#[test]
fn an_unknown_past_means_that_everything_was_used() {
    let past = Past { highest_us: NOW_US + 9_000_000, ..busy_server().past };
    let elsewhere =
        Seen { is_elsewhere: true, stored_us: None, uses: Uses::default(), past, ..busy_server() };
    let emptied = Seen { uses: Uses::default(), past, ..busy_server() };
    let lowered = Seen { stored_us: Some(7), past, ..busy_server() };
    for seen in [elsewhere, emptied, lowered] {
        let plan = plan(&seen);
        assert_eq!(plan.loss, Some(Loss::Stored));
        assert_eq!(plan.records, [everybody(past.highest_us), used(1, past.promised_us)]);
        assert_eq!(plan.gate, GatePlan::Stay);
        assert!(plan.horizon_us >= Some(past.promised_us));
        // Once that is stored, another one is refused.
        let uses = Uses([seen.uses.0, plan.records].concat());
        let again =
            Seen { uses, stored_us: plan.horizon_us, wanted: Some(settled(2)), past, ..busy_server() };
        let refused = self::plan(&again);
        assert_eq!(refused.gate, GatePlan::Refuse { identity: worker(2), until_us: past.highest_us });
        assert!(refused.records.is_empty() && refused.loss.is_none());
    }
}

#[test]
fn a_loss_before_the_first_look_raises_the_floor_to_what_was_promised() {
    let seen = Seen { floor_us: None, open_for: None, is_elsewhere: true, stored_us: None, ..busy_server() };
    assert_eq!(plan(&seen).floor_us, seen.past.promised_us);
}

#[test]
fn a_lost_horizon_is_written_again_but_not_by_a_clock_that_is_not_followed() {
    let seen = Seen { is_elsewhere: true, stored_us: None, is_clock_good: false, ..busy_server() };
    assert_eq!(plan(&seen).horizon_us, Some(seen.past.promised_us));
}

#[test]
fn an_order_moves_floor_and_horizon_also_without_an_identity() {
    let seen = Seen { advance_to_us: Some(NOW_US + 700), wanted: None, open_for: None, ..busy_server() };
    assert_eq!((plan(&seen).floor_us, plan(&seen).horizon_us), (NOW_US + 700, Some(NOW_US + 700)));
    // It takes the place of nothing that is stored.
    let seen = Seen { advance_to_us: Some(5), stored_us: Some(NOW_US), ..new_server() };
    assert_eq!(plan(&seen).floor_us, NOW_US);
}

#[test]
fn everything_begins_anew_only_for_an_identity_that_was_never_used() {
    let past = busy_server().past;
    let uses = Uses(vec![used(1, 0), used(2, 0)]);
    let check = |number, uses: &Uses| check_reset(worker(number), uses, &past, false, NOW_US);
    assert_eq!(check(1, &uses), Err(ResetRefusal::InUse));
    assert_eq!(check(2, &uses), Err(ResetRefusal::Used));
    assert_eq!(check(3, &uses), Ok(()));
    let until_us = NOW_US + 10_000_001;
    let unknown = Uses(vec![used(1, 0), everybody(until_us)]);
    assert_eq!(check(3, &unknown), Err(ResetRefusal::PastUnknown { until_us }));
    assert_eq!(check(3, &Uses(vec![used(1, 0), everybody(until_us - 1)])), Ok(()));
    assert!(check(3, &Uses::default()).is_err());
    assert!(check_reset(worker(3), &uses, &past, true, NOW_US).is_err());
    assert_eq!(records_before_reset(&uses, 5_000), [used(1, 5_000), used(2, 5_000)]);
    // The new identity has no record, and is not shut out.
    assert_eq!(records_before_reset(&unknown, 5_000), [used(1, 5_000)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Whatever is seen: the horizon is never lowered, and covers all that was handed out or promised.
    #[test]
    fn the_horizon_is_never_lower_than_what_is_known(
        stored in proptest::option::of(0i64..1000),
        published in 0i64..1000,
        end_of_use in 0i64..1000,
        floor in proptest::option::of(1i64..1000),
        now in 0i64..1000,
        is_elsewhere: bool, is_active: bool, is_clock_good: bool, is_open: bool,
    ) {
        let seen = Seen {
            now_us: now,
            stored_us: stored,
            is_elsewhere,
            past: Past { published_us: published, promised_us: published, highest_us: published, last_identity: Some(worker(1)) },
            floor_us: floor,
            end_of_use_us: end_of_use,
            open_for: is_open.then_some(settled(1)),
            is_active,
            is_clock_good,
            ..new_server()
        };
        let plan = plan(&seen);
        if let Some(horizon_us) = plan.horizon_us {
            prop_assert!(horizon_us >= stored.unwrap_or(0).max(published).max(end_of_use).max(plan.floor_us));
        }
        if stored.unwrap_or(0) < published {
            prop_assert!(plan.horizon_us.is_some());
        }
        prop_assert!(plan.floor_us >= floor.unwrap_or(stored.unwrap_or(0)));
    }
}

/// A lease of worker 3.
fn leased(from_us: i64, until_us: i64) -> Lease {
    Lease { identity: worker(3), from_us, until_us }
}

/// One that has made IDs as worker 3 under a lease, and goes on.
fn leasing_server(lease: Lease) -> Seen {
    let past = Past { last_identity: Some(worker(3)), ..busy_server().past };
    let uses = Uses(vec![used(3, 0)]);
    Seen { wanted: Some(lease), open_for: Some(lease), past, uses, ..busy_server() }
}

/// The horizon never goes beyond the lease for its sake, and what is published already is not written again.
#[test]
fn a_horizon_ends_with_the_lease() {
    let ends_soon = NOW_US + 80;
    assert_eq!(plan(&leasing_server(leased(5, ends_soon))).horizon_us, Some(ends_soon));
    let ended = leased(5, NOW_US + 50); // Where the horizon is.
    assert_eq!(plan(&leasing_server(ended)).horizon_us, None);
    // A renewed lease is the same one.
    let renewed = Seen { open_for: Some(ended), ..leasing_server(leased(5, NOW_US + 60)) };
    let plan = plan(&renewed);
    assert_eq!((plan.gate, plan.horizon_us), (GatePlan::Stay, Some(NOW_US + 60)));
}

/// A clock that is years ahead, and no registry to say so: nothing is burnt but the lease.
#[test]
fn a_clock_far_ahead_burns_nothing_beyond_the_lease() {
    let until_us = NOW_US + 200;
    let later = NOW_US + 1_000_000_000_000;
    let start = Seen { open_for: None, now_us: later, floor_us: None, ..leasing_server(leased(5, until_us)) };
    assert_eq!(plan(&start).horizon_us, Some(until_us));
    let without = Seen { wanted: None, ..start };
    assert_eq!(plan(&without).horizon_us, None);
}

/// Another range of the same identity begins where it begins, and so does the horizon.
#[test]
fn a_lease_begins_where_it_begins() {
    let again = leased(NOW_US + 700, NOW_US + 900);
    let seen = Seen { wanted: Some(again), ..leasing_server(leased(5, NOW_US + 60)) };
    let plan = plan(&seen);
    assert_eq!(plan.gate, GatePlan::Open { lease: again, from_us: again.from_us, is_another: false });
    assert_eq!(plan.horizon_us, Some(again.from_us));
    assert!(plan.records.is_empty());
}

/// Where this server itself may have used the leased identity further than that, it begins there.
#[test]
fn a_leased_identity_that_was_used_before() {
    let lease = leased(NOW_US, NOW_US + 900);
    let with_end = |until_us| Seen {
        wanted: Some(lease),
        uses: Uses(vec![used(1, 0), used(3, until_us)]),
        ..busy_server()
    };
    assert_eq!(
        plan(&with_end(NOW_US + 20)).gate,
        GatePlan::Open { lease, from_us: NOW_US + 20, is_another: true }
    );
    let refused = plan(&with_end(NOW_US + 1_000_000_000));
    assert!(matches!(refused.gate, GatePlan::Refuse { .. }));
    assert!(refused.is_another_needed);
}

/// The server stands an hour ahead of a clock that the registry confirms.
#[test]
fn a_server_far_ahead_exchanges_its_identity_and_begins_anew() {
    const HOUR_US: i64 = 3_600_000_000;
    let ahead = NOW_US + HOUR_US;
    let lease = leased(5, NOW_US + 900);
    let stuck = Seen {
        stored_us: Some(ahead),
        past: Past {
            published_us: ahead,
            promised_us: ahead,
            highest_us: ahead,
            last_identity: Some(worker(3)),
        },
        end_of_use_us: ahead,
        is_clock_confirmed: true,
        ..leasing_server(lease)
    };
    let first = plan(&stuck);
    assert_eq!((first.gate, first.is_another_needed), (GatePlan::Stay, true));
    let unconfirmed = plan(&Seen { is_clock_confirmed: false, ..stuck.clone() });
    assert!(!unconfirmed.is_another_needed);

    let another = Lease { identity: worker(4), ..lease };
    let exchanged = plan(&Seen { wanted: Some(another), ..stuck.clone() });
    assert_eq!((exchanged.gate, exchanged.is_another_needed), (GatePlan::BeginAnew(another), false));
    assert_eq!((exchanged.horizon_us, exchanged.records), (None, vec![]));

    // One that was used before will not do, nor is there anything to exchange for an identity of the settings.
    let uses = Uses(vec![used(3, 0), used(4, 0)]);
    let used_before = plan(&Seen { wanted: Some(another), uses, ..stuck.clone() });
    assert!(matches!(used_before.gate, GatePlan::Open { .. }) && used_before.is_another_needed);
    let settled = plan(&Seen { wanted: Some(settled(4)), ..stuck.clone() });
    assert!(matches!(settled.gate, GatePlan::Open { .. }) && !settled.is_another_needed);

    // By order also where nothing is far ahead.
    let ordered = Seen { is_anew_ordered: true, ..leasing_server(lease) };
    assert!(plan(&ordered).is_another_needed);
    assert_eq!(plan(&Seen { wanted: Some(another), ..ordered }).gate, GatePlan::BeginAnew(another));
}

/// The file has a lease from an earlier life of the server, and nothing that is stored says how far it was used.
#[test]
fn a_lease_from_a_life_that_is_forgotten() {
    let lease = leased(5, NOW_US + 900);
    let start = Seen { wanted: Some(lease), is_lease_inherited: true, ..new_server() };
    let plan_of_start = plan(&start);
    assert_eq!(plan_of_start.gate, GatePlan::Refuse { identity: worker(3), until_us: lease.until_us });
    assert!(plan_of_start.is_another_needed);
    assert_eq!(plan_of_start.horizon_us, None);
    // One that is granted now is good, and so is an old one where the past is known.
    assert!(matches!(plan(&Seen { is_lease_inherited: false, ..start.clone() }).gate, GatePlan::Open { .. }));
    let known = Seen { stored_us: Some(NOW_US), uses: Uses(vec![used(3, 0)]), ..start };
    assert!(matches!(plan(&known).gate, GatePlan::Open { .. }));
}

/// A floor that an administrator has ordered is no reason to begin anew below it.
#[test]
fn an_ordered_floor_holds_under_a_lease() {
    let floor_us = NOW_US + 60_000_000;
    let lease = leased(5, NOW_US + 900_000_000);
    let ordered = Seen { advance_to_us: Some(floor_us), is_clock_confirmed: true, ..leasing_server(lease) };
    let first = plan(&ordered);
    assert!(!first.is_another_needed);
    assert!(first.records.contains(&everybody(floor_us)));
    // Nor is it one after a restart, when only what is stored says so.
    let uses = Uses([ordered.uses.0.as_slice(), &first.records].concat());
    let restarted = Seen {
        stored_us: first.horizon_us,
        uses,
        past: Past::default(),
        floor_us: None,
        advance_to_us: None,
        open_for: None,
        ..ordered
    };
    let again = plan(&restarted);
    assert_eq!((again.floor_us, again.is_another_needed), (first.horizon_us.unwrap(), false));
    let another = Lease { identity: worker(4), ..lease };
    assert!(!matches!(plan(&Seen { wanted: Some(another), ..restarted }).gate, GatePlan::BeginAnew(_)));
}

/// What is not known of anybody shuts out every identity: another one would not help.
#[test]
fn an_unknown_past_is_no_reason_for_another_identity() {
    let until_us = NOW_US + 1_000_000_000;
    let uses = Uses(vec![used(1, 0), everybody(until_us)]);
    let refused = Seen { wanted: Some(leased(5, until_us)), uses, ..busy_server() };
    let plan = plan(&refused);
    assert!(matches!(plan.gate, GatePlan::Refuse { .. }));
    assert!(!plan.is_another_needed);
}
