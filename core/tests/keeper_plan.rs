//! What the keeper decides.

mod servers;

use proptest::prelude::*;
use servers::*;
use snowflake_id_core::keeper_plan::{
    GatePlan, Loss, Past, ResetRefusal, Seen, Uses, check_reset, plan, records_before_reset,
};

#[test]
fn a_new_server_begins_where_no_drift_can_have_been() {
    let plan = plan(&new_server());
    assert_eq!(plan.loss, Some(Loss::NothingKnown));
    assert_eq!(plan.floor_us, NOW_US + MAX_DRIFT_US);
    assert_eq!(plan.horizon_us, Some(AHEAD_US));
    assert_eq!(plan.records, [used(1, 0)]);
    assert_eq!(plan.gate, GatePlan::Open { lease: settled(1), from_us: 0, is_another: false });
}

/// The records are there still, also one with an end, which the server has read: they do not say where its IDs ended.
#[test]
fn a_start_without_the_stored_horizon_is_that_of_a_new_server() {
    let until_us = NOW_US - 5_000_000;
    let uses = Uses(vec![used(1, 0), used(2, until_us)]);
    let past = Past { highest_us: until_us, ..Past::default() };
    let plan = plan(&Seen { uses, past, ..new_server() });
    assert_eq!(plan.loss, Some(Loss::NothingKnown));
    assert_eq!(plan.floor_us, NOW_US + MAX_DRIFT_US);
    assert_eq!(plan.gate, GatePlan::Open { lease: settled(1), from_us: 0, is_another: false });
    // Nor do they say which values of the clock sequence were used.
    assert_eq!(plan.value_records.len(), 1);
    assert!(plan.value_records[0].until_us >= NOW_US + MAX_DRIFT_US, "{:?}", plan.value_records);
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
