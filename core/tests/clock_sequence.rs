//! Values of the clock sequence: when another value is opened, and which.

use proptest::prelude::*;
use snowflake_id_core::clock_sequence::{Asked, FAR_AHEAD_US, NextValue, Widths, next_value};
use snowflake_id_core::keeper_plan::{GatePlan, Plan, Seen, plan};
use snowflake_id_core::reset::records_before_reset;
use snowflake_id_core::track::{Begun, Horizon, Track};
use snowflake_id_core::used::{History, Scope, Use, Uses};
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

fn used(identity: Option<Identity>, value: Option<u8>, until_us: i64) -> Use {
    Use { identity, scope: value.map_or(Scope::Others, Scope::Value), until_us }
}

fn horizon(value: u8, until_us: i64) -> Horizon {
    Horizon::new(value, until_us)
}

/// The record that exists before the first ID.
fn mine() -> Uses {
    Uses::from_iter([used(Some(ME), Some(0), 0)])
}

/// A call of a layout with values up to 3.
fn asked() -> Asked {
    Asked { now_us: NOW_US, reach_us: REACH_US, widths: Widths(0b10), lease: Lease::for_good(ME) }
}

/// A track whose whole horizon has been used.
fn track(value: u8, until_us: i64) -> Track {
    let stored = horizon(value, until_us);
    let begun = Some(Begun { value, floor_us: if value > 0 { 1 } else { until_us } });
    Track { begun, stored, published: stored, promised: stored, end_of_use_us: until_us }
}

/// A server whose clock has been set back by an hour. Its value of the clock sequence is this far ahead of the clock.
fn in_use(value: u8, ahead_us: i64) -> [Track; 2] {
    let second = Track { begun: Some(Begun::NONE), ..Track::default() };
    [track(0, NOW_US + HOUR_US), if value > 0 { track(value, NOW_US + ahead_us) } else { second }]
}

fn next_of(tracks: &[Track; 2], uses: &Uses, asked: &Asked) -> Option<u8> {
    next_value(tracks, uses, asked).map(|next| next.horizon.value())
}

fn next(tracks: &[Track; 2], asked: &Asked) -> Option<u8> {
    next_of(tracks, &mine(), asked)
}

#[test]
fn the_first_value_that_is_opened_is_1_and_0_needs_no_end() {
    assert_eq!(
        next_value(&in_use(0, 0), &mine(), &asked()),
        Some(NextValue { horizon: horizon(1, NOW_US + REACH_US), floor_us: NOW_US, closing: vec![] })
    );
    assert_eq!(next(&in_use(0, 0), &Asked { widths: Widths::default(), ..asked() }), None);
}

/// The records are emptied between two transactions of the keeper.
#[test]
fn nothing_is_opened_without_the_record_of_who_makes_ids() {
    assert_eq!(next_of(&in_use(2, HOUR_US), &Uses::default(), &asked()), None);
    let of_another = Uses::from_iter([used(Some(OTHER), Some(0), 0), used(None, Some(0), 0)]);
    assert_eq!(next_of(&in_use(2, HOUR_US), &of_another, &asked()), None);
}

#[test]
fn nothing_is_opened_for_a_step_that_a_crash_makes_as_well() {
    for (ahead_us, value) in [(REACH_US + FAR_AHEAD_US, None), (REACH_US + FAR_AHEAD_US + 1, Some(1))] {
        let tracks = [track(0, NOW_US + ahead_us), in_use(0, 0)[1]];
        assert_eq!(next(&tracks, &asked()), value);
    }
    // If another value is in use, the position of value 0 does not matter.
    assert_eq!(next(&in_use(1, REACH_US), &asked()), None);
    assert_eq!(next(&in_use(1, HOUR_US), &asked()), Some(2));
}

#[test]
fn the_end_of_the_value_in_use_is_recorded_before_it_is_left() {
    let mut tracks = in_use(1, HOUR_US);
    let mut uses = mine();
    let next = next_value(&tracks, &uses, &asked()).unwrap();
    assert_eq!(next.closing, [used(None, Some(1), NOW_US + HOUR_US)]);
    uses.add(next.closing);
    assert_eq!(next_value(&tracks, &uses, &asked()).unwrap().closing, []);
    // The value was used further since.
    tracks[1].published = horizon(1, NOW_US + HOUR_US + SECOND_US);
    assert_eq!(
        next_value(&tracks, &uses, &asked()).unwrap().closing,
        [used(None, Some(1), NOW_US + HOUR_US + SECOND_US)]
    );
}

#[test]
fn the_lowest_value_is_taken_whose_use_has_ended() {
    let with = |ends: &[(u8, i64)]| {
        let mut uses = mine();
        uses.add(ends.iter().map(|&(value, end_us)| used(None, Some(value), NOW_US + end_us)));
        next_of(&in_use(2, HOUR_US), &uses, &asked())
    };
    assert_eq!(with(&[]), Some(1));
    assert_eq!(with(&[(1, 1)]), Some(3));
    assert_eq!(with(&[(1, 0)]), Some(1));
    assert_eq!(with(&[(1, 1), (3, 1)]), None);
    // Neither 0 nor the value in use, whatever is recorded.
    assert_eq!(with(&[(1, 1), (2, -5), (3, 1), (0, -5)]), None);
}

/// A value of the clock sequence is in use before the clock is set back for the first time. 3 bits have eight values.
#[test]
fn three_bits_are_enough_for_seven_set_backs() {
    for (preset, most) in [("rollback3", 7), ("rollback2", 3)] {
        let asked = Asked { widths: Widths::of(&layout(preset)), ..asked() };
        let (mut uses, mut value, mut opened) = (mine(), 0, vec![]);
        while let Some(next) = next_value(&in_use(value, HOUR_US), &uses, &asked) {
            uses.add(next.closing);
            value = next.horizon.value();
            opened.push(value);
        }
        assert_eq!(opened, (1..=most).collect::<Vec<_>>());
    }
}

#[test]
fn a_lease_that_begins_later_or_has_ended_gives_no_other_value() {
    let with = |from_us, until_us| Asked { lease: Lease { identity: ME, from_us, until_us }, ..asked() };
    for (horizon_margin_us, value) in
        [((NOW_US, NOW_US + 1), Some(1)), ((NOW_US + 1, i64::MAX), None), ((0, NOW_US), None)]
    {
        assert_eq!(next(&in_use(0, 0), &with(horizon_margin_us.0, horizon_margin_us.1)), value);
    }
    let next = next_value(&in_use(0, 0), &mine(), &with(0, NOW_US + SECOND_US));
    assert_eq!(next.unwrap().horizon.until_us(), NOW_US + SECOND_US);
}

#[test]
fn a_field_that_is_too_narrow_has_0() {
    let narrow = layout("time:41 clock_seq:1 worker:8 sequence:12");
    assert_eq!([0, 1, 2, 255].map(|current| narrow.clock_seq_at(current)), [0, 1, 0, 0]);
    assert_eq!(layout("standard").clock_seq_at(1), 0);
    assert_eq!(layout("time:31 clock_seq:31").max_clock_seq(), 255);
    // It requests a value that it has room for, although the value in use is not ahead.
    let narrow = Widths::of(&narrow);
    assert_eq!(next(&in_use(2, 0), &Asked { widths: narrow, ..asked() }), Some(1));
    assert_eq!(next(&in_use(2, 0), &asked()), None);
}

#[test]
fn no_layout_asks_over_another_one() {
    let widths = ["standard", "time:41 clock_seq:1", "time:41 clock_seq:2", "time:31 clock_seq:31"];
    assert_eq!(widths.map(|text| Widths::of(&layout(text)).0), [0, 1, 0b10, 1 << 7]);
    assert_eq!(Widths(0b1000_0011).max_values().collect::<Vec<_>>(), [1, 3, 255]);
    // One value for both if there is one. Otherwise a value for the layout that can have one.
    let both = Asked { widths: Widths(0b11), ..asked() };
    assert_eq!(next(&in_use(2, HOUR_US), &both), Some(1));
    let mut one_is_used = mine();
    one_is_used.add([used(None, Some(1), NOW_US + 1)]);
    assert_eq!(next_of(&in_use(2, HOUR_US), &one_is_used, &both), Some(3));
    // The narrow layout, which has value 0, requests another value. The wide one is not ahead and does not.
    assert_eq!(next_of(&in_use(2, 0), &one_is_used, &both), None);
    assert_eq!(next(&in_use(2, 0), &both), Some(1));
}

/// Up to when this server and another server may have used a value.
fn ends_us(uses: &Uses, value: u8) -> [i64; 2] {
    [ME, OTHER].map(|identity| uses.until_us(identity, value).unwrap_or(0))
}

fn after_loss(uses: &Uses, last: Option<Identity>, in_use: (u8, i64), highest_us: i64) -> Vec<Use> {
    uses.clone().add(uses.after_loss(last, [(0, 40_000), in_use], highest_us))
}

#[test]
fn records_for_one_value_stand_before_those_for_all() {
    let mut uses = Uses::from_iter([used(None, None, 70), used(Some(ME), None, 0)]);
    assert_eq!(ends_us(&uses, 1), [0, 70]);
    // If others may have used the value longer, the record for them keeps its later end.
    let closing = uses.close(1, 50);
    assert_eq!(closing, [used(None, Some(1), 70), used(Some(ME), Some(1), 50)]);
    uses.add(closing);
    assert_eq!([1, 2].map(|value| ends_us(&uses, value)), [[50, 70], [0, 70]]);
    assert_eq!(uses.clone().add(uses.close(1, 50)), []);
    assert_eq!(uses.latest_us(), 70);
}

#[test]
fn after_a_loss_only_the_last_identity_goes_on_with_the_values_in_use() {
    let known = Uses::from_iter([
        used(None, Some(1), 10),
        used(Some(OTHER), Some(2), 20),
        used(Some(OTHER), Some(0), 0),
    ]);
    let mut uses = known.clone();
    uses.add(after_loss(&known, Some(ME), (2, 50_000), 90_000));
    let ends = [0, 1, 2, 3].map(|value| ends_us(&uses, value));
    assert_eq!(ends, [[40_000, 90_000], [90_000; 2], [50_000, 90_000], [90_000; 2]]);
    assert_eq!(after_loss(&uses, Some(ME), (2, 50_000), 90_000), []);
    // The last identity already had older records of its own.
    let mut uses = Uses::from_iter([used(Some(ME), None, 0), used(Some(ME), Some(1), 7)]);
    uses.add(after_loss(&uses, Some(ME), (1, 50_000), 90_000));
    assert_eq!([1, 2].map(|value| ends_us(&uses, value)[0]), [50_000, 90_000]);
    // Without a last identity, every identity counts as used up to the highest horizon.
    let uses = Uses::from_iter(after_loss(&Uses::default(), None, (1, 50_000), 90_000));
    assert_eq!([0, 1].map(|value| ends_us(&uses, value)[0]), [90_000; 2]);
}

#[test]
fn an_identity_that_was_never_used_has_used_no_value() {
    let mut uses = Uses::from_iter([used(Some(OTHER), Some(0), 0)]);
    assert_eq!(records_before_reset(&uses, ME, 0, 70), [used(Some(OTHER), Some(0), 70)]);
    uses.add([used(None, Some(1), 60)]);
    uses.add(records_before_reset(&uses, ME, 2, 70));
    assert_eq!([1, 2].map(|value| ends_us(&uses, value)), [[0, 60], [0, 70]]);
    // The same holds if the reset was interrupted and is requested again.
    uses.add(records_before_reset(&uses, ME, 2, 80));
    assert_eq!([1, 2].map(|value| ends_us(&uses, value)), [[0, 60], [0, 80]]);
}

#[test]
fn what_somebody_else_stored_is_noticed() {
    let history = |published, promised| (published, promised);
    let changed = |stored: Horizon, (published, promised): (Horizon, Horizon), value: Option<u8>| {
        let begun = value.map(|value| Begun { value, floor_us: 0 });
        Track { stored, published, promised, begun, end_of_use_us: 0 }.is_changed()
    };
    let (one, two, none) = (horizon(1, 50_000), horizon(2, 20_000), Horizon::NONE);
    // At a start the stored horizon is taken as it is.
    assert!(!changed(one, history(none, none), None));
    assert!(!changed(one, history(none, none), Some(1)));
    assert!(changed(two, history(none, none), Some(1)));
    assert!(changed(one, history(none, none), Some(0)));
    // The horizon was lowered, replaced by that of another value, or removed.
    assert!(!changed(one, history(one, one), Some(1)));
    assert!(changed(horizon(1, 49_000), history(one, one), Some(1)));
    assert!(changed(two, history(one, one), Some(1)));
    assert!(changed(none, history(one, one), Some(1)));
    // The value is about to be opened.
    assert!(!changed(two, history(one, two), Some(1)));
    assert!(!changed(one, history(none, one), Some(0)));
}

fn busy_server() -> Seen {
    Seen {
        now_us: NOW_US,
        max_ahead_us: SECOND_US,
        horizon_margin_us: 3 * SECOND_US,
        tracks: in_use(1, SECOND_US),
        is_elsewhere: false,
        copied_us: 0,
        uses: Uses::from_iter([used(Some(ME), Some(0), 0)]),
        history: History { highest_us: NOW_US + HOUR_US, last_identity: Some(ME) },
        raise_floor_to_us: None,
        wanted: Some(Lease::for_good(ME)),
        open_for: Some(Lease::for_good(ME)),
        is_lease_inherited: false,
        is_clock_confirmed: false,
        is_reset_requested: false,
        has_room_for_reset: true,
        is_active: true,
        is_clock_good: true,
    }
}

fn of_values(plan: &Plan) -> Vec<Use> {
    plan.records.iter().filter(|record| record.scope != Scope::ZERO).copied().collect()
}

#[test]
fn each_track_is_renewed() {
    let busy = plan(&busy_server());
    assert_eq!(busy.tracks[0].horizon, Some(horizon(0, NOW_US + HOUR_US)));
    assert_eq!(busy.tracks[1].horizon, Some(horizon(1, NOW_US + REACH_US)));
    assert!(busy.records.is_empty());
    assert_eq!(plan(&Seen { is_active: false, ..busy_server() }).tracks[1].horizon, None);
    assert_eq!(plan(&Seen { tracks: in_use(0, 0), ..busy_server() }).tracks[1].horizon, None);
    let unfollowed = plan(&Seen { is_clock_good: false, open_for: None, ..busy_server() });
    assert_eq!(unfollowed.tracks[1].horizon, Some(horizon(1, NOW_US + SECOND_US)));
}

#[test]
fn a_start_goes_on_with_the_stored_value_at_its_horizon() {
    let stored = [horizon(0, NOW_US), horizon(1, NOW_US + 500)];
    let tracks = stored.map(|stored| Track { stored, ..Track::default() });
    let start = plan(&Seen { tracks, history: History::default(), open_for: None, ..busy_server() });
    assert_eq!(start.tracks[1].begun, Begun { value: 1, floor_us: NOW_US + 500 });
    assert_eq!((start.loss, start.tracks[1].from_us), (None, 0));
}

#[test]
fn a_lost_value_is_written_again() {
    let mut seen = Seen { is_active: false, ..busy_server() };
    seen.tracks[1].stored = Horizon::NONE;
    let lost = plan(&seen);
    assert_eq!(lost.tracks[1].horizon, Some(horizon(1, NOW_US + SECOND_US)));
    let uses = Uses::from_iter(lost.records);
    assert_eq!([1, 2].map(|value| ends_us(&uses, value)[0]), [NOW_US + SECOND_US, NOW_US + HOUR_US]);
    assert_eq!(ends_us(&uses, 1)[1], NOW_US + HOUR_US);
    // After a backend crash the promised value is used.
    let tracks = in_use(1, SECOND_US).map(|track| Track { begun: None, ..track });
    let found = plan(&Seen { tracks, is_elsewhere: true, open_for: None, ..busy_server() });
    assert_eq!(found.tracks[1].begun, Begun { value: 1, floor_us: NOW_US + SECOND_US });
    // An older copy has another value, but none is in use, so that is stored.
    let mut tracks = in_use(0, 0);
    tracks[1].stored = horizon(3, 7_000);
    let copy = plan(&Seen { tracks, is_elsewhere: true, ..busy_server() });
    assert_eq!(copy.tracks[1].horizon, Some(Horizon::NONE));
}

#[test]
fn a_requested_floor_holds_for_each_track() {
    let raise_floor_to_us = Some(NOW_US + 2 * HOUR_US);
    let raised = plan(&Seen { raise_floor_to_us, is_active: false, ..busy_server() });
    assert_eq!(
        raised.tracks.map(|track| track.horizon),
        [0, 1].map(|value| Some(horizon(value, NOW_US + 2 * HOUR_US)))
    );
    let uses = Uses::from_iter(of_values(&raised));
    assert_eq!(ends_us(&uses, 2)[0], NOW_US + 2 * HOUR_US);
    assert_eq!(next_of(&in_use(1, HOUR_US), &uses, &asked()), None);
    // There is no second track.
    let without = plan(&Seen { raise_floor_to_us, tracks: in_use(0, 0), ..busy_server() });
    assert_eq!((without.tracks[1].begun, without.tracks[1].horizon), (Begun::NONE, None));
}

#[test]
fn an_identity_begins_above_its_own_use_of_the_value() {
    let mut seen = busy_server();
    seen.wanted = Some(Lease::for_good(OTHER));
    let mine = [used(Some(ME), Some(0), 0), used(Some(ME), None, 0)];
    seen.uses = Uses::from_iter([&mine[..], &[used(Some(OTHER), Some(1), NOW_US + 9_000)]].concat());
    let opened = plan(&seen);
    assert!(matches!(opened.gate, GatePlan::Open { is_another: true, .. }));
    assert_eq!(opened.tracks.map(|track| track.from_us), [0, NOW_US + 9_000]);
    // What other servers did under this identity is not known. The start is never below the floor for all.
    for (recorded_us, expected_us) in [(9_000, SECOND_US), (2 * SECOND_US, 2 * SECOND_US)] {
        seen.uses = Uses::from_iter([&mine[..], &[used(None, Some(1), NOW_US + recorded_us)]].concat());
        assert_eq!(plan(&seen).tracks[1].from_us, NOW_US + expected_us);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_horizon_comes_back_from_its_word(value: u8, until_us in 0i64..) {
        let horizon = Horizon::new(value, until_us);
        prop_assert_eq!(Horizon::from_word(horizon.to_word()), horizon);
        let last_us = if value > 0 { Horizon::LAST_US } else { i64::MAX };
        prop_assert_eq!(horizon.until_us(), until_us.min(last_us));
        prop_assert_eq!(horizon.until_us_of(value.wrapping_add(1)), 0);
    }

    #[test]
    fn any_word_is_some_horizon(word: u64) {
        let horizon = Horizon::from_word(word);
        prop_assert!(horizon.until_us() >= 0);
        prop_assert!(horizon == Horizon::NONE || horizon.to_word() == word);
    }

    /// Records may be made in any order, but none makes an end earlier.
    #[test]
    fn records_only_make_ends_later(
        steps in prop::collection::vec((0u8..4, 0u8..3, 0i64..50, 0u32..3), 0..12),
    ) {
        let mut uses = Uses::default();
        for (kind, value, until_us, worker) in steps {
            let identity = Identity { datacenter: 0, worker };
            let before = uses.clone();
            let records = match kind {
                0 => uses.close(value + 1, until_us),
                1 => uses.close_all(until_us),
                2 => uses.after_loss(Some(identity), [(0, until_us), (value, until_us)], 60),
                _ => records_before_reset(&uses, Identity { datacenter: 1, worker }, value, until_us),
            };
            uses.add(records);
            for worker in 0..3 {
                let identity = Identity { datacenter: 0, worker };
                for other in 0..4 {
                    // Only for the last identity's own use of the values in use may a more exact record replace that
                    // for everybody.
                    let is_last = kind == 2 && [0, value].contains(&other);
                    prop_assert!(is_last || uses.until_us(identity, other) >= before.until_us(identity, other));
                }
            }
        }
    }
}

#[test]
fn an_identity_with_unknown_history_has_used_every_value() {
    let fresh = Seen {
        tracks: Default::default(),
        uses: Uses::default(),
        history: History::default(),
        open_for: None,
        ..busy_server()
    };
    let first = plan(&fresh);
    let all = used(Some(ME), None, NOW_US + fresh.max_ahead_us);
    assert_eq!(of_values(&first), [all]);
    assert!(first.tracks[0].horizon.is_some());
    // A leased identity has not used them, because no other server has had the range. Nor has an identity that is known
    // to be unused.
    let until_us = NOW_US + HOUR_US;
    let lease = Lease { identity: ME, from_us: NOW_US, until_us };
    assert_eq!(of_values(&plan(&Seen { wanted: Some(lease), ..fresh.clone() })), []);
    let mut known = fresh.clone();
    known.tracks[0].stored = horizon(0, NOW_US);
    known.uses = Uses::from_iter([used(Some(ME), None, 0), used(Some(OTHER), Some(0), 0)]);
    assert_eq!(of_values(&plan(&known)), []);
    // This happens only once: after that the identity has a record.
    let mut again = Seen { uses: Uses::from_iter(first.records.clone()), ..fresh };
    again.tracks[0].stored = first.tracks[0].horizon.unwrap();
    assert_eq!(of_values(&plan(&again)), []);
}
