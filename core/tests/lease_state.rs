//! A server's knowledge of its leases.

use std::cell::Cell;

use snowflake_id_core::lease_state::{LeaseState, Needs};
use snowflake_id_core::{Identity, Lease};
use uuid::Uuid;

fn lease(worker: u32, from_us: i64, until_us: i64) -> Lease {
    Lease { identity: Identity { datacenter: 0, worker }, from_us, until_us }
}

/// Gives tokens 1, 2, 3 ...
fn tokens() -> impl Fn() -> Uuid {
    let last = Cell::new(0);
    move || {
        last.set(last.get() + 1);
        Uuid::from_u128(last.get())
    }
}

fn anybody() -> Needs {
    Needs { worker_limit: 1024, ..Needs::default() }
}

#[test]
fn a_lost_answer_is_asked_for_again() {
    let new_token = tokens();
    let mut state = LeaseState::default();
    assert!(state.has_to_acquire(&anybody()));
    let first = state.ask(&new_token);
    assert_eq!(state.ask(&new_token), first);
    state.hold(lease(3, 10, 20), &new_token);
    let held = state.held.clone().unwrap();
    assert_eq!((held.lease_id, held.last_nonce), (first.lease_id, first.nonce));
    assert_ne!(held.next_nonce, held.last_nonce);
    assert_eq!(state.asking, None);
    assert!(!state.has_to_acquire(&anybody()));
}

#[test]
fn a_renewal_moves_the_nonces_on_and_the_end_never_back() {
    let new_token = tokens();
    let mut state = LeaseState::default();
    state.ask(&new_token);
    state.hold(lease(3, 10, 20), &new_token);
    let before = state.held.clone().unwrap();
    state.renew(lease(3, 10, 15), &new_token);
    let after = state.held.clone().unwrap();
    assert_eq!((after.last_nonce, after.lease), (before.next_nonce, lease(3, 10, 20)));
    assert!(![before.last_nonce, before.next_nonce].contains(&after.next_nonce));
    state.renew(lease(3, 10, 30), &new_token);
    assert_eq!(state.held.unwrap().lease, lease(3, 10, 30));
}

#[test]
fn a_lease_can_be_used_until_it_ends() {
    let new_token = tokens();
    let mut state = LeaseState::default();
    state.ask(&new_token);
    state.hold(lease(3, 10, 20), &new_token);
    assert_eq!(state.lease_at(19), None, "nobody could tell the registry");
    state.prove("signed".into(), 15);
    assert_eq!(state.lease_at(19), Some(lease(3, 10, 20)));
    assert_eq!(state.lease_at(20), None);
}

#[test]
fn an_identity_that_will_not_do_is_exchanged() {
    let new_token = tokens();
    let mut state = LeaseState::default();
    state.ask(&new_token);
    state.hold(lease(500, 10, 20), &new_token);
    assert!(!state.has_to_acquire(&Needs { pin: Some(500), ..anybody() }));
    assert!(state.has_to_acquire(&Needs { pin: Some(7), ..anybody() }));
    assert!(state.has_to_acquire(&Needs { worker_limit: 500, ..anybody() }));
    assert!(state.has_to_acquire(&Needs { datacenter: 1, ..anybody() }));
    assert!(state.has_to_acquire(&Needs { unwanted: vec![500], ..anybody() }));
}

#[test]
fn a_copy_holds_nothing_but_knows_the_registry() {
    let new_token = tokens();
    let mut state = LeaseState::default();
    state.note(Uuid::from_u128(77));
    state.ask(&new_token);
    state.hold(lease(3, 10, 20), &new_token);
    state.ask(&new_token);
    let stranger = state.of_an_unrecognized_server();
    assert_eq!(stranger.registry_id, Some(Uuid::from_u128(77)));
    assert_eq!((stranger.held, stranger.asking), (None, None));
}

#[test]
fn it_comes_back_from_its_file() {
    let new_token = tokens();
    let mut state = LeaseState::default();
    state.note(new_token());
    state.ask(&new_token);
    state.hold(lease(3, 10, 20), &new_token);
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<LeaseState>(&text).unwrap(), state);
}

#[test]
fn evidence_outlives_the_lease_and_is_replaced_by_later_evidence() {
    let new_token = tokens();
    let mut state = LeaseState::default();
    for (worker, until_us) in [(3, 20), (4, 40)] {
        state.ask(&new_token);
        state.hold(lease(worker, 10, until_us), &new_token);
        state.prove(format!("first of {worker}"), 15);
        state.renew(lease(worker, 10, until_us + 5), &new_token);
        state.prove(format!("second of {worker}"), 15);
    }
    let told = |state: &LeaseState| state.evidence.iter().map(|it| it.token.clone()).collect::<Vec<_>>();
    assert_eq!(told(&state), ["second of 4", "second of 3"]);
    // A copy may show the evidence, but holds no lease.
    let mut stranger = state.clone().of_an_unrecognized_server();
    assert_eq!(told(&stranger), told(&state));
    assert!(!stranger.is_proved());
    stranger.prove("of nothing".into(), 15);
    assert_eq!(told(&stranger), told(&state));
    // Evidence of leases that ended long ago is dropped.
    state.prove("last".into(), 25 + 50 * 3_600_000_000);
    assert_eq!(told(&state), ["last"]);
}

/// Of many leases, evidence is kept for those that end last. Evidence of the lease in hand is always kept, because the
/// server cannot use the lease without it.
#[test]
fn evidence_of_the_lease_in_hand_is_never_pushed_out() {
    let new_token = tokens();
    let mut state = LeaseState::default();
    for worker in 0..100 {
        state.ask(&new_token);
        state.hold(lease(worker, 10, 1_000 + i64::from(worker)), &new_token);
        state.prove(format!("of {worker}"), 15);
    }
    state.ask(&new_token);
    state.hold(lease(100, 10, 20), &new_token);
    state.prove("of the last".into(), 15);
    assert!(state.is_proved());
    assert_eq!(state.lease_at(15), Some(lease(100, 10, 20)));
    let told: Vec<_> = state.evidence.iter().map(|it| it.token.as_str()).collect();
    assert!(told.len() < 50 && told.contains(&"of 99") && !told.contains(&"of 0"), "{told:?}");
}
