//! The test vectors of docs/design/writing-a-client.md, computed by the code of servers and of the client crate.

use std::num::NonZeroU64;

use harness::book::{of_test, rows, section};
use serde_json::{Map, Value};
use snowflake_id_core::lease_answer::Answer;
use snowflake_id_core::lease_round::{Effect, Event, LeaseRound, Now, Request};
use snowflake_id_core::lease_state::{LeaseState, Needs};
use snowflake_id_core::reply::Reply;
use snowflake_id_core::{Gate, Generator, Identity, Layout, Slot, SlotKey, Stall};
use uuid::Uuid;

/// The instant F of the page.
const F_US: i64 = 1_795_000_000_000_000;
const MAX_AHEAD_US: u64 = 1_000_000;

fn page() -> String {
    of_test("writing_a_client")
}

/// The rows of the table below a heading.
fn vectors(page: &str, heading: &str) -> Vec<Vec<String>> {
    let cells = |row: Vec<&str>| row.into_iter().map(|cell| cell.replace('`', "")).collect();
    rows(section(page, heading)).skip(1).map(cells).collect()
}

/// The layout of a cell: a preset, or one to which the page gives a letter.
fn layout(page: &str, cell: &str) -> Layout {
    let lettered = page.split_once(&format!("\n- {cell}: `")).and_then(|(_, rest)| rest.split('`').next());
    lettered.unwrap_or(cell).parse().unwrap()
}

/// An instant of the page, as microseconds after F.
fn at(offset: &str) -> i64 {
    F_US + offset.parse::<i64>().unwrap()
}

/// The counter after an ID, or the first counter of a lease.
fn next_counter(layout: &Layout, key: &SlotKey, last: &str, from_us: i64) -> u64 {
    if last == "none" {
        return key.first_counter_from(from_us);
    }
    let parts = layout.unpack(last.parse().unwrap()).unwrap();
    key.counter_at(parts.tick) + parts.sequence + 1
}

#[test]
fn ids() {
    let page = page();
    let vectors = vectors(&page, "IDs");
    assert!(vectors.len() >= 16);
    for vector in vectors {
        let [name, worker, last, from, until, clock, result] = vector.try_into().unwrap();
        let layout = layout(&page, &name);
        let identity = Identity { datacenter: 0, worker: worker.parse().unwrap() };
        let key = SlotKey::of(&layout);
        let (gate, generator) = (Gate::default(), Generator::new(layout, identity, MAX_AHEAD_US, 0).unwrap());
        gate.open(identity);
        let slot = Slot::new(next_counter(&layout, &key, &last, at(&from)), key.first_tick_from(at(&until)));
        let reserved = slot.reserve(&gate, &generator, || at(&clock), NonZeroU64::MIN);
        let computed = match reserved {
            Ok(reservation) => generator.first_id(reservation).to_string(),
            Err(Stall::Ahead { .. }) => "too far ahead".into(),
            Err(Stall::Horizon) => "lease ended".into(),
            Err(Stall::Exhausted) => "no ticks left".into(),
            other => format!("{other:?}"),
        };
        assert_eq!(computed, result, "{name}, {last}, {from}, {until}, {clock}");
    }
}

#[test]
fn used_until() {
    let page = page();
    let vectors = vectors(&page, "used_until");
    assert!(vectors.len() >= 4);
    for vector in vectors {
        let [name, last, result] = vector.try_into().unwrap();
        let layout = layout(&page, &name);
        let key = SlotKey::of(&layout);
        let used_until_us = match last.as_str() {
            "none" => F_US,
            last => key.end_of_use_us(next_counter(&layout, &key, last, F_US)),
        };
        assert_eq!(used_until_us, at(&result), "{last}");
    }
}

/// Carries out effects until there is one that a vector is about.
fn settled(round: &mut LeaseRound, mut effect: Effect) -> Effect {
    loop {
        let event = match effect {
            Effect::Connect => Event::Connected,
            Effect::Keep(_) => Event::Kept,
            effect => return effect,
        };
        effect = round.step(event, &mut Now { us: F_US, random: &mut Uuid::new_v4 });
    }
}

/// Answers a request with the answer of the page, changed by a vector.
fn answered(round: &mut LeaseRound, changes: &Map<String, Value>) -> Effect {
    let page = page();
    let (_, block) = page.split_once("```json\n").unwrap();
    let mut answer: Map<String, Value> = serde_json::from_str(block.split("```").next().unwrap()).unwrap();
    for (name, value) in changes {
        // "8192 x" stands for a long text.
        let long = value.as_str().and_then(|text| text.strip_suffix(" x")).and_then(|n| n.parse().ok());
        answer.insert(name.clone(), long.map_or(value.clone(), |n: usize| "x".repeat(n).into()));
    }
    let answer = Reply::read(&Value::from(answer).to_string()).and_then(|reply| Answer::read(&reply, F_US));
    let event = match answer {
        Ok(answer) => Event::Answered { answer, sent_us: F_US, round_trip_us: 0 },
        Err(why) => Event::Failed(why),
    };
    let effect = round.step(event, &mut Now { us: F_US, random: &mut Uuid::new_v4 });
    settled(round, effect)
}

fn begin(round: &mut LeaseRound) -> Effect {
    let effect = round.begin(Needs { datacenter: 0, pin: None, worker_limit: 1024, unwanted: vec![] });
    settled(round, effect)
}

/// A conversation that has sent its first request, and the lease ID of this request.
fn asked() -> (LeaseRound, Uuid) {
    let mut round = LeaseRound::new(LeaseState::default(), true);
    match begin(&mut round) {
        Effect::Send(Request::Acquire(asking, _)) => (round, asking.lease_id),
        effect => panic!("{effect:?}"),
    }
}

#[test]
fn answers() {
    let page = page();
    let vectors = vectors(&page, "Answers");
    assert!(vectors.len() >= 24);
    let granted = Map::new();
    for vector in vectors {
        let [call, changes, result] = vector.try_into().unwrap();
        let changes_of: Map<String, Value> = serde_json::from_str(&changes).unwrap();
        let (mut round, first) = asked();
        let mut is_used = false;
        let effect = match call.as_str() {
            "acquire()" => answered(&mut round, &changes_of),
            "renew()" => {
                answered(&mut round, &granted);
                answered(&mut round, &changes_of)
            }
            "renew() in use" => {
                is_used = true;
                answered(&mut round, &granted);
                answered(&mut round, &granted);
                let published = Event::Published { wants_another: false };
                round.step(published, &mut Now { us: F_US, random: &mut Uuid::new_v4 });
                begin(&mut round);
                answered(&mut round, &changes_of)
            }
            _ => panic!("{call}"),
        };
        let (is_failure, effect) = match effect {
            Effect::Rest(_) => (true, begin(&mut round)),
            effect => (false, effect),
        };
        let next = match effect {
            Effect::Publish(lease) => format!("use until F + {}", lease.until_us - F_US),
            Effect::Withdraw => "stop at once".into(),
            Effect::Send(Request::Acquire(asking, _)) if asking.lease_id != first => "acquire another".into(),
            Effect::Send(Request::Renew(_)) if !is_failure => "renew".into(),
            Effect::Send(_) if is_failure => "repeat".into(),
            effect => format!("{effect:?}"),
        };
        let stays_in_use = is_used && !next.starts_with("use") && next != "stop at once";
        let computed = if stays_in_use { format!("use to the end, {next}") } else { next };
        assert_eq!(computed, result, "{call}: {changes}");
    }
}
