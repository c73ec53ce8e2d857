//! Leases.

use std::cell::Cell;

use snowflake_id_core::lease_answer::{Answer, LONGEST_TOKEN, MOST_CLOCK_DIFFERENCE_US, Terms};
use snowflake_id_core::lease_state::{LeaseState, Needs, Outcome};
use snowflake_id_core::reply::Reply;
use uuid::Uuid;

use crate::split_number;

/// The last time that PostgreSQL can represent, which no clock exceeds.
const LATEST_US: i64 = 9_223_371_331_200_000_000;
const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;
/// The maximum number of leases of which a server keeps evidence.
const MOST_EVIDENCE: usize = 32;

/// The registry's answers to one server, one in each line. Column `now` is the clock of the server.
pub fn answers(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut terms = Terms::default();
    let mut state = LeaseState::default();
    let count = Cell::new(0);
    let new_token = || {
        count.set(count.get() + 1);
        Uuid::from_u128(count.get())
    };
    for line in text.lines() {
        let Ok(reply) = Reply::read(line) else { continue };
        let now_us = reply.number("now").unwrap_or(0).min(LATEST_US);
        state.ask(new_token);
        let answer = match Answer::read(&reply, now_us) {
            Ok(answer) => answer,
            Err(why) => {
                assert!(why.len() < 200, "{why}");
                continue;
            }
        };
        assert!(answer.token.as_ref().is_none_or(|token| token.len() <= LONGEST_TOKEN));
        terms.note(&answer, now_us, 1000);
        assert!((0..=DAY_US).contains(&terms.lease_us), "{terms:?}");
        if let Outcome::Granted(lease) = answer.outcome {
            assert!(lease.identity.is_possible() && !lease.is_for_good(), "{lease:?}");
            let latest_us = now_us.saturating_add(DAY_US + MOST_CLOCK_DIFFERENCE_US);
            assert!(0 < lease.from_us && lease.from_us < lease.until_us, "{lease:?}");
            assert!(lease.until_us <= latest_us, "{lease:?}");
            match &state.held {
                Some(held) if held.lease.is_same_range(&lease) => state.renew(lease, new_token),
                _ => state.hold(lease, new_token),
            }
            if let Some(token) = answer.token {
                state.prove(token, now_us);
            }
        }
        if let Some(registry) = answer.registry {
            assert!(registry.renew_every_us <= registry.lease_us / 2, "{registry:?}");
            state.note(registry.id);
        }
        check(&state, now_us);
    }
}

/// The clock of the server, and the state that it finds in its file.
pub fn state(data: &[u8]) {
    let (now_us, json) = split_number(data);
    let Ok(mut state) = serde_json::from_slice::<LeaseState>(json) else { return };
    check(&state, now_us);
    let new_token = || Uuid::nil();
    state.ask(new_token);
    if let Some(held) = state.held.clone() {
        state.renew(held.lease, new_token);
        state.prove("a token".into(), now_us);
        assert!(state.is_proved());
        assert!(state.evidence.len() <= MOST_EVIDENCE);
        state.hold(held.lease, new_token);
    }
    check(&state, now_us);
    let state = state.of_an_unrecognized_server();
    assert!(state.lease_at(now_us).is_none());
}

fn check(state: &LeaseState, now_us: i64) {
    let json = serde_json::to_string(state).expect("a state can be written as JSON");
    assert_eq!(serde_json::from_str::<LeaseState>(&json).ok().as_ref(), Some(state), "{json}");
    if let Some(lease) = state.lease_at(now_us) {
        assert!(now_us < lease.until_us && state.is_proved());
    }
    let needs = Needs { worker_limit: 1024, ..Needs::default() };
    let is_met = state.held.as_ref().is_some_and(|held| needs.are_met_by(held.lease.identity));
    assert_eq!(state.has_to_acquire(&needs), !is_met);
}
