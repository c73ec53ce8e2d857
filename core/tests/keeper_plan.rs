//! The decisions of the keeper.

use crate::servers::*;
use proptest::prelude::*;
use snowflake_id_core::keeper_plan::{GatePlan, Loss, Seen, plan};
use snowflake_id_core::reset::{ResetRefusal, check_reset, records_before_reset};
use snowflake_id_core::track::{Begun, Horizon, Track};
use snowflake_id_core::used::{History, Scope, Uses};

#[test]
fn a_new_server_begins_above_any_id_that_ran_ahead() {
    let plan = plan(&new_server());
    assert_eq!(plan.loss, Some(Loss::NothingKnown));
    assert_eq!(floor_us(&plan), NOW_US + MAX_AHEAD_US);
    assert_eq!(horizon_us(&plan), Some(AHEAD_US));
    assert_eq!(of_zero(&plan.records), [used(1, 0)]);
    assert_eq!(plan.gate, GatePlan::Open { lease: settled(1), is_another: true });
    assert_eq!(plan.tracks[0].from_us, 0);
}

/// A horizon that could not be stored, as in the first cycle of a server without disk space, says nothing about the
/// history.
#[test]
fn a_promise_that_was_not_kept_is_no_history() {
    let mut seen = new_server();
    seen.tracks[0].promised = Horizon::new(0, NOW_US + 70);
    let plan = plan(&seen);
    assert_eq!(plan.loss, Some(Loss::NothingKnown));
    assert!(floor_us(&plan) >= NOW_US + MAX_AHEAD_US);
    assert!(horizon_us(&plan) >= Some(NOW_US + 70));
}

/// The records still exist, one of them with an end that the server has read. They do not say where the server's IDs
/// ended.
#[test]
fn a_start_without_the_stored_horizon_is_that_of_a_new_server() {
    let until_us = NOW_US - 5_000_000;
    let uses = Uses::from_iter([used(1, 0), used(2, until_us)]);
    let history = History { highest_us: until_us, ..History::default() };
    let plan = plan(&Seen { uses, history, ..new_server() });
    assert_eq!(plan.loss, Some(Loss::NothingKnown));
    assert_eq!(floor_us(&plan), NOW_US + MAX_AHEAD_US);
    assert_eq!(plan.gate, GatePlan::Open { lease: settled(1), is_another: true });
    // They do not say either which values of the clock sequence were used.
    let of_values: Vec<_> = plan.records.iter().filter(|record| record.scope != Scope::ZERO).collect();
    assert_eq!(of_values.len(), 1);
    assert!(of_values[0].until_us >= NOW_US + MAX_AHEAD_US, "{of_values:?}");
}

#[test]
fn a_start_begins_at_the_stored_horizon() {
    let seen = Seen { tracks: stored(NOW_US + 70), uses: Uses::from_iter([used(1, 0)]), ..new_server() };
    let plan = plan(&seen);
    assert_eq!((plan.loss, floor_us(&plan)), (None, NOW_US + 70));
    assert!(plan.records.is_empty());
}

#[test]
fn a_horizon_is_renewed_only_while_ids_are_made() {
    assert_eq!(horizon_us(&plan(&busy_server())), Some(AHEAD_US));
    assert_eq!(horizon_us(&plan(&Seen { is_active: false, ..busy_server() })), None);
    // A clock that is not followed does not raise the horizon.
    assert_eq!(horizon_us(&plan(&Seen { is_clock_good: false, ..busy_server() })), None);
}

#[test]
fn without_an_identity_the_gate_is_closed() {
    let plan = plan(&Seen { wanted: None, ..busy_server() });
    assert_eq!((plan.gate, horizon_us(&plan)), (GatePlan::Close, None));
}

#[test]
fn another_identity_is_recorded_before_it_is_let_in() {
    let plan = plan(&Seen { wanted: Some(settled(2)), ..busy_server() });
    assert_eq!(of_zero(&plan.records), [used(2, 0)]);
    assert_eq!(plan.gate, GatePlan::Open { lease: settled(2), is_another: true });
    assert_eq!(horizon_us(&plan), Some(AHEAD_US));
}

#[test]
fn an_identity_goes_on_above_its_own_end_or_not_at_all() {
    let with_end = |until_us| Seen {
        wanted: Some(settled(2)),
        uses: Uses::from_iter([used(1, 0), used(2, 0), used(2, until_us)]),
        ..busy_server()
    };
    let opened = plan(&with_end(AHEAD_US));
    assert_eq!(opened.gate, GatePlan::Open { lease: settled(2), is_another: true });
    assert_eq!(opened.tracks[0].from_us, AHEAD_US);
    let refused = plan(&with_end(AHEAD_US + 1));
    assert_eq!(refused.gate, GatePlan::Refuse { identity: worker(2), until_us: AHEAD_US + 1 });
    assert_eq!(horizon_us(&refused), None);
}

/// An older copy has outdated records: IDs issued since then may belong to any identity in them.
#[test]
fn the_records_of_an_older_copy_prove_nothing() {
    let history = History { highest_us: NOW_US + 9_000_000, ..busy_server().history };
    let seen = Seen {
        is_elsewhere: true,
        uses: Uses::from_iter([used(1, 0), used(2, 0)]),
        history,
        ..busy_server()
    };
    let plan = plan(&seen);
    assert_eq!(
        of_zero(&plan.records),
        [everybody(history.highest_us), used(2, history.highest_us), used(1, NOW_US + 50)]
    );
}

/// A record may be durable without the records that are written after it.
#[test]
fn a_loss_is_found_again_when_its_records_were_not_all_written() {
    let without = Seen { uses: Uses::default(), ..busy_server() };
    let horizon = Horizon::new(2, NOW_US + 20);
    let begun = Some(Begun { value: 2, floor_us: NOW_US });
    let [stored, published, promised] = [horizon; 3];
    let second = Track { begun, stored, published, promised, end_of_use_us: 0 };
    for (emptied, least) in [(without.clone(), 3), (without.with(|seen| seen.tracks[1] = second), 4)] {
        let records = plan(&emptied).records;
        assert!(records.len() >= least);
        for written in 0..records.len() {
            let seen = emptied.with(|seen| seen.uses = records[..written].iter().copied().collect());
            assert_eq!(plan(&seen).loss, Some(Loss::Stored), "{written} of {records:?}");
        }
        let seen = emptied.with(|seen| seen.uses = records.iter().copied().collect());
        assert_eq!(plan(&seen).loss, None);
    }
}

/// With a horizon margin of an hour, admitting an excluded identity would raise all slots by an hour.
#[test]
fn an_identity_that_would_wait_for_long_is_not_let_in() {
    let until_us = NOW_US + 60_000_000;
    let seen = Seen {
        horizon_margin_us: 3_600_000_000,
        wanted: Some(settled(2)),
        uses: Uses::from_iter([used(1, 0), used(2, until_us)]),
        ..busy_server()
    };
    assert_eq!(plan(&seen).gate, GatePlan::Refuse { identity: worker(2), until_us });
    // The slots start there anyway.
    let seen = seen.with(|seen| seen.tracks[0].begun = Some(Begun { value: 0, floor_us: until_us }));
    assert!(matches!(plan(&seen).gate, GatePlan::Open { .. }));
    assert_eq!(plan(&seen).tracks[0].from_us, until_us);
}

/// The history was dropped and created again, emptied, or lowered. The identity in use continues above its own horizon.
/// Every other identity may have been used up to the highest horizon that was ever reached.
#[test]
fn an_unknown_history_means_that_everything_was_used() {
    let history = History { highest_us: NOW_US + 9_000_000, ..busy_server().history };
    let elsewhere = Seen { is_elsewhere: true, uses: Uses::default(), history, ..busy_server() };
    let elsewhere = elsewhere.with(|seen| seen.tracks[0].stored = Horizon::NONE);
    let emptied = Seen { uses: Uses::default(), history, ..busy_server() };
    let lowered = Seen { history, ..busy_server() }.with(|seen| seen.tracks[0].stored = Horizon::new(0, 7));
    for seen in [elsewhere, emptied, lowered] {
        let plan = plan(&seen);
        assert_eq!(plan.loss, Some(Loss::Stored));
        assert_eq!(of_zero(&plan.records), [everybody(history.highest_us), used(1, NOW_US + 50)]);
        assert_eq!(plan.gate, GatePlan::Stay);
        assert!(horizon_us(&plan) >= Some(NOW_US + 50));
        // After that is stored, another identity is refused.
        let uses = seen.uses.iter().chain(plan.records.iter().copied()).collect();
        let again = Seen { uses, wanted: Some(settled(2)), history, ..busy_server() };
        let again = again.with(|seen| seen.tracks[0].stored = plan.tracks[0].horizon.unwrap());
        let refused = self::plan(&again);
        assert_eq!(refused.gate, GatePlan::Refuse { identity: worker(2), until_us: history.highest_us });
        assert!(refused.records.is_empty() && refused.loss.is_none());
    }
}

/// Another value was promised but not opened. The promise for the value in use is forgotten, but its IDs are not.
#[test]
fn after_a_loss_the_value_counts_as_used_up_to_what_was_published() {
    let until_us = NOW_US + 70;
    let in_use = Track {
        begun: Some(Begun { value: 1, floor_us: NOW_US }),
        stored: Horizon::NONE,
        published: Horizon::new(1, until_us),
        promised: Horizon::new(2, NOW_US + 10),
        end_of_use_us: until_us,
    };
    let seen = Seen { is_elsewhere: true, uses: Uses::default(), ..busy_server() };
    let plan = plan(&seen.with(|seen| seen.tracks[1] = in_use));
    let known = Uses::from_iter(plan.records);
    assert!(known.until_us(worker(1), 1) >= Some(until_us), "{known:?}");
}

#[test]
fn a_loss_before_the_first_cycle_raises_the_floor_to_what_was_promised() {
    let seen = Seen { open_for: None, is_elsewhere: true, ..busy_server() };
    let tracks = seen.tracks.map(|track| Track { begun: None, stored: Horizon::NONE, ..track });
    assert_eq!(floor_us(&plan(&Seen { tracks, ..seen })), NOW_US + 50);
}

/// A server without an identity fences for a reset, and publishes the floor with that. A backend crash loses what the
/// fence stores.
#[test]
fn a_loss_before_anything_was_stored_raises_the_floor_to_what_was_published() {
    let floor = Horizon::new(0, NOW_US + 70);
    let mut seen =
        Seen { uses: Uses::default(), history: History::default(), open_for: None, ..busy_server() };
    seen.tracks = [Track { published: floor, ..Track::default() }, Track::default()];
    let plan = plan(&seen);
    assert_eq!(plan.loss, Some(Loss::Stored));
    assert_eq!((floor_us(&plan), horizon_us(&plan)), (NOW_US + 70, Some(AHEAD_US)));
}

#[test]
fn a_lost_horizon_is_written_again_but_not_by_a_clock_that_is_not_followed() {
    let seen = Seen { is_elsewhere: true, is_clock_good: false, ..busy_server() };
    let seen = seen.with(|seen| seen.tracks[0].stored = Horizon::NONE);
    assert_eq!(horizon_us(&plan(&seen)), Some(NOW_US + 50));
}

#[test]
fn a_request_moves_floor_and_horizon_without_an_identity() {
    let seen = Seen { raise_floor_to_us: Some(NOW_US + 700), wanted: None, open_for: None, ..busy_server() };
    assert_eq!((floor_us(&plan(&seen)), horizon_us(&plan(&seen))), (NOW_US + 700, Some(NOW_US + 700)));
    // The request does not replace a stored horizon.
    let seen = Seen { raise_floor_to_us: Some(5), tracks: stored(NOW_US), ..new_server() };
    assert_eq!(floor_us(&plan(&seen)), NOW_US);
}

#[test]
fn everything_is_reset_only_for_an_identity_that_was_never_used() {
    let history = busy_server().history;
    let uses = Uses::from_iter([used(1, 0), used(2, 0)]);
    let check = |number, uses: &Uses| check_reset(worker(number), uses, &history, false, NOW_US);
    assert_eq!(check(1, &uses), Err(ResetRefusal::InUse));
    assert_eq!(check(2, &uses), Err(ResetRefusal::Used));
    assert_eq!(check(3, &uses), Ok(()));
    let until_us = NOW_US + 10_000_001;
    let unknown = Uses::from_iter([used(1, 0), everybody(until_us)]);
    assert_eq!(check(3, &unknown), Err(ResetRefusal::HistoryUnknown));
    assert_eq!(check(3, &Uses::from_iter([used(1, 0), everybody(until_us - 1)])), Ok(()));
    assert!(check(3, &Uses::default()).is_err());
    assert!(check_reset(worker(3), &uses, &history, true, NOW_US).is_err());
    let before_reset = |uses: &Uses| records_before_reset(uses, worker(3), 0, 5_000);
    assert_eq!(before_reset(&uses), [used(1, 5_000), used(2, 5_000)]);
    // The new identity gets no record, so it is not excluded.
    assert_eq!(before_reset(&unknown), [used(1, 5_000)]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// In every state, the horizon is never lowered, and covers all issued IDs and all promises.
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
            tracks: [track(stored.unwrap_or(0), published, floor, end_of_use), Track::default()],
            is_elsewhere,
            history: History { highest_us: published, last_identity: Some(worker(1)) },
            open_for: is_open.then_some(settled(1)),
            is_active,
            is_clock_good,
            ..new_server()
        };
        let plan = plan(&seen);
        if let Some(horizon_us) = horizon_us(&plan) {
            prop_assert!(horizon_us >= stored.unwrap_or(0).max(published).max(end_of_use).max(floor_us(&plan)));
        }
        if stored.unwrap_or(0) < published {
            prop_assert!(horizon_us(&plan).is_some());
        }
        prop_assert!(floor_us(&plan) >= floor.unwrap_or(stored.unwrap_or(0)));
    }
}
