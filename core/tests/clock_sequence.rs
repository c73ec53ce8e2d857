//! Values of the clock sequence: when another one is opened, and which.

use proptest::prelude::*;
use snowflake_id_core::clock_sequence::{
    Asked, Begun, FAR_AHEAD_US, NextValue, PastValues, SeenValues, ValueHorizon, ValueUse, ValueUses,
    next_value,
};
use snowflake_id_core::keeper_plan::{GatePlan, Past, Seen, Use, Uses, plan};
use snowflake_id_core::{Identity, Layout, Lease};

const SECOND_US: i64 = 1_000_000;
const HOUR_US: i64 = 3_600 * SECOND_US;
const NOW_US: i64 = 100 * HOUR_US;
const REACH_US: i64 = 4 * SECOND_US;
const ME: Identity = Identity { datacenter: 0, worker: 5 };
const OTHER: Identity = Identity { datacenter: 0, worker: 6 };

fn layout(text: &str) -> Layout {
    text.parse().unwrap()
}

fn used(identity: Option<Identity>, value: Option<u8>, until_us: i64) -> ValueUse {
    ValueUse { identity, value, until_us }
}

fn horizon(value: u8, until_us: i64) -> ValueHorizon {
    ValueHorizon::new(value, until_us)
}

/// A call of a layout with values up to 3, an hour after the clock was set back by as much.
fn asked() -> Asked {
    Asked {
        now_us: NOW_US,
        reach_us: REACH_US,
        max_value: 3,
        identity: ME,
        lease_us: (0, i64::MAX),
        zero_us: NOW_US + HOUR_US,
    }
}

fn in_use(value: u8, ahead_us: i64) -> SeenValues {
    let stored = horizon(value, NOW_US + ahead_us);
    SeenValues {
        stored,
        past: PastValues { published: stored, promised: stored },
        begun: Some(Begun { value, floor_us: 0 }),
        end_of_use_us: NOW_US + ahead_us,
        ..SeenValues::default()
    }
}

fn next(seen: &SeenValues, asked: &Asked) -> Option<u8> {
    next_value(seen, asked).map(|next| next.horizon.value())
}

#[test]
fn the_first_value_that_is_opened_is_1_and_0_needs_no_end() {
    assert_eq!(
        next_value(&in_use(0, 0), &asked()),
        Some(NextValue { horizon: horizon(1, NOW_US + REACH_US), floor_us: NOW_US, closing: vec![] })
    );
    assert_eq!(next_value(&in_use(0, 0), &Asked { max_value: 0, ..asked() }), None);
}

#[test]
fn nothing_is_opened_for_a_step_that_a_crash_makes_as_well() {
    for (ahead_us, value) in [(REACH_US + FAR_AHEAD_US, None), (REACH_US + FAR_AHEAD_US + 1, Some(1))] {
        assert_eq!(next(&in_use(0, 0), &Asked { zero_us: NOW_US + ahead_us, ..asked() }), value);
    }
    // With another value in use it does not matter where value 0 stands.
    assert_eq!(next(&in_use(1, REACH_US), &asked()), None);
    assert_eq!(next(&in_use(1, HOUR_US), &asked()), Some(2));
}

#[test]
fn the_end_of_the_value_in_use_is_recorded_before_it_is_left() {
    let mut seen = in_use(1, HOUR_US);
    let next = next_value(&seen, &asked()).unwrap();
    assert_eq!(next.closing, [used(None, Some(1), NOW_US + HOUR_US)]);
    seen.uses.0.extend(next.closing);
    assert_eq!(next_value(&seen, &asked()).unwrap().closing, []);
    // It went on since.
    seen.past.published = horizon(1, NOW_US + HOUR_US + SECOND_US);
    assert_eq!(
        next_value(&seen, &asked()).unwrap().closing,
        [used(None, Some(1), NOW_US + HOUR_US + SECOND_US)]
    );
}

#[test]
fn the_lowest_value_is_taken_whose_use_has_ended() {
    let with = |ends: &[(u8, i64)]| {
        let uses = ends.iter().map(|&(value, end_us)| used(None, Some(value), NOW_US + end_us)).collect();
        next(&SeenValues { uses: ValueUses(uses), ..in_use(2, HOUR_US) }, &asked())
    };
    assert_eq!(with(&[]), Some(1));
    assert_eq!(with(&[(1, 1)]), Some(3));
    assert_eq!(with(&[(1, 0)]), Some(1));
    assert_eq!(with(&[(1, 1), (3, 1)]), None);
    // Never 0, and never the one in use, whatever is recorded.
    assert_eq!(with(&[(1, 1), (2, -5), (3, 1), (0, -5)]), None);
}

#[test]
fn a_lease_that_begins_later_or_has_ended_gives_no_other_value() {
    for (lease_us, value) in
        [((NOW_US, NOW_US + 1), Some(1)), ((NOW_US + 1, i64::MAX), None), ((0, NOW_US), None)]
    {
        assert_eq!(next(&in_use(0, 0), &Asked { lease_us, ..asked() }), value);
    }
    let next = next_value(&in_use(0, 0), &Asked { lease_us: (0, NOW_US + SECOND_US), ..asked() });
    assert_eq!(next.unwrap().horizon.until_us(), NOW_US + SECOND_US);
}

#[test]
fn a_field_that_is_too_narrow_has_0() {
    let narrow = layout("time:41 clock_seq:1 worker:8 sequence:12");
    assert_eq!([0, 1, 2, 255].map(|current| narrow.clock_seq_at(current)), [0, 1, 0, 0]);
    assert_eq!(layout("standard").clock_seq_at(1), 0);
    assert_eq!(layout("time:31 clock_seq:31").max_clock_seq(), 255);
    // It asks for a value that it has room for, although the one in use is not ahead.
    assert_eq!(next(&in_use(2, 0), &Asked { max_value: 1, ..asked() }), Some(1));
    assert_eq!(next(&in_use(2, 0), &asked()), None);
}

#[test]
fn records_for_one_value_stand_before_those_for_all() {
    let mut uses = ValueUses(vec![used(None, None, 70), used(Some(ME), None, 0)]);
    assert_eq!([ME, OTHER].map(|identity| uses.until_us(identity, 1)), [0, 70]);
    // The end of a value that others may have used longer is not made earlier by that.
    let closing = uses.close(1, 50);
    assert_eq!(closing, [used(None, Some(1), 70), used(Some(ME), Some(1), 50)]);
    uses.0.extend(closing);
    assert_eq!([ME, OTHER].map(|identity| uses.until_us(identity, 1)), [50, 70]);
    assert_eq!([ME, OTHER].map(|identity| uses.until_us(identity, 2)), [0, 70]);
    assert_eq!(uses.close(1, 50), []);
    assert_eq!(uses.latest_us(), 70);
}

#[test]
fn after_a_loss_only_the_last_identity_goes_on_with_the_value_in_use() {
    let known = ValueUses(vec![used(None, Some(1), 10), used(Some(OTHER), Some(2), 20)]);
    let mut uses = known.clone();
    uses.0.extend(known.after_loss(Some(ME), horizon(2, 50_000), 90_000));
    assert_eq!([1, 2, 3].map(|value| uses.until_us(ME, value)), [90_000, 50_000, 90_000]);
    assert_eq!([1, 2, 3].map(|value| uses.until_us(OTHER, value)), [90_000; 3]);
    assert_eq!(uses.after_loss(Some(ME), horizon(2, 50_000), 90_000), []);
    // The last one had records of its own, older ones.
    let uses = ValueUses(vec![used(Some(ME), None, 0), used(Some(ME), Some(1), 7)]);
    let records = uses.after_loss(Some(ME), horizon(1, 50_000), 90_000);
    let uses = ValueUses([uses.0, records].concat());
    assert_eq!([1, 2].map(|value| uses.until_us(ME, value)), [50_000, 90_000]);
    // Without one, nobody goes on.
    let uses = ValueUses(ValueUses::default().after_loss(None, horizon(1, 50_000), 90_000));
    assert_eq!(uses.until_us(ME, 1), 90_000);
}

#[test]
fn an_identity_that_was_never_used_has_used_no_value() {
    assert_eq!(ValueUses::default().of_unused(ME, false), None);
    let mut uses = ValueUses(vec![used(None, Some(1), 70)]);
    uses.0.extend(uses.of_unused(ME, false));
    assert_eq!([ME, OTHER].map(|identity| uses.until_us(identity, 1)), [0, 70]);
}

#[test]
fn what_somebody_else_stored_is_noticed() {
    let past = |published, promised| PastValues { published, promised };
    let changed = |stored: ValueHorizon, past: PastValues, value: Option<u8>| {
        let begun = value.map(|value| Begun { value, floor_us: 0 });
        SeenValues { stored, past, begun, ..SeenValues::default() }.is_changed()
    };
    let (one, two, none) = (horizon(1, 50_000), horizon(2, 20_000), ValueHorizon::NONE);
    // At a start whatever is stored is the truth.
    assert!(!changed(one, past(none, none), None));
    assert!(!changed(one, past(none, none), Some(1)));
    assert!(changed(two, past(none, none), Some(1)));
    assert!(changed(one, past(none, none), Some(0)));
    // Lowered; another one; gone.
    assert!(!changed(one, past(one, one), Some(1)));
    assert!(changed(horizon(1, 49_000), past(one, one), Some(1)));
    assert!(changed(two, past(one, one), Some(1)));
    assert!(changed(none, past(one, one), Some(1)));
    // About to be opened.
    assert!(!changed(two, past(one, two), Some(1)));
    assert!(!changed(one, past(none, one), Some(0)));
}

fn busy_server() -> Seen {
    Seen {
        now_us: NOW_US,
        max_drift_us: SECOND_US,
        lease_us: 3 * SECOND_US,
        stored_us: Some(NOW_US + HOUR_US),
        is_elsewhere: false,
        uses: Uses(vec![Use { identity: Some(ME), until_us: 0 }]),
        values: in_use(1, SECOND_US),
        past: Past {
            published_us: NOW_US + HOUR_US,
            promised_us: NOW_US + HOUR_US,
            highest_us: NOW_US + HOUR_US,
            last_identity: Some(ME),
        },
        floor_us: Some(NOW_US + HOUR_US),
        end_of_use_us: NOW_US + HOUR_US,
        advance_to_us: None,
        wanted: Some(Lease::for_good(ME)),
        open_for: Some(Lease::for_good(ME)),
        is_lease_inherited: false,
        is_clock_confirmed: false,
        is_anew_ordered: false,
        has_room_to_begin_anew: true,
        is_active: true,
        is_clock_good: true,
    }
}

#[test]
fn the_horizon_of_the_value_is_renewed_with_the_other() {
    let busy = plan(&busy_server());
    assert_eq!(busy.horizon_us, Some(NOW_US + HOUR_US));
    assert_eq!(busy.value_horizon, Some(horizon(1, NOW_US + REACH_US)));
    assert!(busy.records.is_empty() && busy.value_records.is_empty());
    assert_eq!(plan(&Seen { is_active: false, ..busy_server() }).value_horizon, None);
    assert_eq!(plan(&Seen { values: in_use(0, 0), ..busy_server() }).value_horizon, None);
    let unfollowed = plan(&Seen { is_clock_good: false, open_for: None, ..busy_server() });
    assert_eq!(unfollowed.value_horizon, Some(horizon(1, NOW_US + SECOND_US)));
}

#[test]
fn a_start_goes_on_with_the_stored_value_at_its_horizon() {
    let values = SeenValues { stored: horizon(1, NOW_US + 500), ..SeenValues::default() };
    let start = Seen { values, past: Past::default(), floor_us: None, open_for: None, ..busy_server() };
    let start = plan(&start);
    assert_eq!(start.begun, Begun { value: 1, floor_us: NOW_US + 1_000 });
    assert_eq!((start.loss, start.value_from_us), (None, 0));
}

#[test]
fn a_lost_value_is_written_again() {
    let values = SeenValues { stored: ValueHorizon::NONE, ..in_use(1, SECOND_US) };
    let lost = plan(&Seen { values, is_active: false, ..busy_server() });
    assert_eq!(lost.value_horizon, Some(horizon(1, NOW_US + SECOND_US)));
    let uses = ValueUses(lost.value_records);
    assert_eq!([1, 2].map(|value| uses.until_us(ME, value)), [NOW_US + SECOND_US, NOW_US + HOUR_US]);
    assert_eq!(uses.until_us(OTHER, 1), NOW_US + HOUR_US);
    // After a crash of a backend: the value that was promised.
    let values = SeenValues { begun: None, ..in_use(1, SECOND_US) };
    let found = plan(&Seen { values, is_elsewhere: true, floor_us: None, open_for: None, ..busy_server() });
    assert_eq!(found.begun, Begun { value: 1, floor_us: NOW_US + SECOND_US });
    // An older copy has another one. There is none in use: that is stored.
    let values = SeenValues { stored: horizon(3, 7_000), ..in_use(0, 0) };
    let copy = plan(&Seen { values, is_elsewhere: true, ..busy_server() });
    assert_eq!(copy.value_horizon, Some(ValueHorizon::NONE));
}

#[test]
fn an_ordered_floor_holds_for_values_as_well() {
    let advance_to_us = Some(NOW_US + 60 * SECOND_US);
    let advanced = plan(&Seen { advance_to_us, is_active: false, ..busy_server() });
    assert_eq!(advanced.value_horizon, Some(horizon(1, NOW_US + 60 * SECOND_US)));
    let uses = ValueUses(advanced.value_records);
    assert_eq!(uses.until_us(ME, 2), NOW_US + 60 * SECOND_US);
    assert_eq!(next(&SeenValues { uses, ..in_use(1, HOUR_US) }, &asked()), None);
}

#[test]
fn an_identity_begins_above_its_own_use_of_the_value() {
    let mut seen = busy_server();
    seen.wanted = Some(Lease::for_good(OTHER));
    let mine = used(Some(ME), None, 0);
    seen.values.uses = ValueUses(vec![mine, used(Some(OTHER), Some(1), NOW_US + 9_000)]);
    let opened = plan(&seen);
    assert!(matches!(opened.gate, GatePlan::Open { from_us: 0, is_another: true, .. }));
    assert_eq!(opened.value_from_us, NOW_US + 9_000);
    // Nobody knows what another server did under it; and never below what holds for all.
    for (recorded_us, expected_us) in [(9_000, SECOND_US), (2 * SECOND_US, 2 * SECOND_US)] {
        seen.values.uses = ValueUses(vec![mine, used(None, Some(1), NOW_US + recorded_us)]);
        assert_eq!(plan(&seen).value_from_us, NOW_US + expected_us);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_horizon_comes_back_from_its_word_no_earlier(value in 1u8.., until_us in 0i64..) {
        let horizon = ValueHorizon::new(value, until_us);
        prop_assert!(horizon.to_word() > 0);
        prop_assert_eq!(ValueHorizon::from_word(horizon.to_word()), horizon);
        prop_assert!(horizon.until_us() >= until_us && horizon.until_us().saturating_sub(until_us) < 1_000);
        prop_assert_eq!(horizon.until_us_of(value.wrapping_add(1)), 0);
    }

    #[test]
    fn any_number_is_some_horizon(word: i64) {
        let horizon = ValueHorizon::from_word(word);
        prop_assert!(horizon.until_us() >= 0);
        prop_assert!(horizon == ValueHorizon::NONE || horizon.to_word() == word);
    }

    /// Whatever is recorded, in whatever order: no record is ever outdone by another one.
    #[test]
    fn records_only_make_ends_later(
        steps in prop::collection::vec((0u8..4, 0u8..3, 0i64..50, 0u32..3), 0..12),
    ) {
        let mut uses = ValueUses::default();
        for (kind, value, until_us, worker) in steps {
            let identity = Identity { datacenter: 0, worker };
            let before = uses.clone();
            let in_use = ValueHorizon::new(value, 1_000 * until_us);
            let new = match kind {
                0 => uses.close(value + 1, 1_000 * until_us),
                1 => uses.close_all(1_000 * until_us),
                2 => uses.after_loss(Some(identity), in_use, 60_000),
                _ => uses.of_unused(Identity { datacenter: 1, worker }, true).into_iter().collect(),
            };
            let is_new_identity = kind == 3;
            uses.0.extend(new);
            for worker in 0..3 {
                let identity = Identity { datacenter: 0, worker };
                for value in 1..4 {
                    // Only the last identity's own use of the value in use is known better than that of everybody.
                    let is_last = kind == 2 && value == in_use.value();
                    prop_assert!(is_last || is_new_identity || uses.until_us(identity, value) >= before.until_us(identity, value));
                }
            }
        }
    }
}

#[test]
fn an_identity_of_whose_past_nothing_is_known_has_used_every_value() {
    let fresh = Seen {
        stored_us: None,
        uses: Uses::default(),
        values: SeenValues::default(),
        past: Past::default(),
        floor_us: None,
        end_of_use_us: 0,
        open_for: None,
        ..busy_server()
    };
    let first = plan(&fresh);
    let all = ValueUse { identity: Some(ME), value: None, until_us: NOW_US + fresh.max_drift_us };
    assert_eq!(first.value_records, [all]);
    assert!(first.horizon_us.is_some());
    // Not if it is leased: no one else has had the range. Not if it is known that it was never used.
    let until_us = NOW_US + HOUR_US;
    let lease = Lease { identity: ME, from_us: NOW_US, until_us };
    assert_eq!(plan(&Seen { wanted: Some(lease), ..fresh.clone() }).value_records, []);
    let never = ValueUse { identity: Some(ME), value: None, until_us: 0 };
    let values = SeenValues { uses: ValueUses(vec![never]), ..SeenValues::default() };
    assert_eq!(plan(&Seen { values, ..fresh.clone() }).value_records, []);
    // Once: then it has a record.
    let uses = Uses(first.records.clone());
    assert_eq!(plan(&Seen { uses, stored_us: first.horizon_us, ..fresh }).value_records, []);
}
