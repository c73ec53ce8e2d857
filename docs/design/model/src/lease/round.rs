//! Compares the model's server with `LeaseRound` of the product: for each state of the file and each reply, both write
//! the same file and publish the same lease. The model does not contain a `LeaseRound`, because its steps between two
//! calls would multiply the states.

use snowflake_id_core::lease_answer::Answer as ProductAnswer;
use snowflake_id_core::lease_round::{Effect, Event, LeaseRound, Now, Request};
use snowflake_id_core::lease_state::{Needs, Outcome};

use crate::lease::border::{instant_us, new_token};
use crate::lease::check;
use crate::lease::protocol::Delivery;
use crate::lease::state::*;

/// Names in the files and the calls.
const ASKING: (Name, Name) = (1, 2);
const LEASE_ID: Name = 3;
const NONCES: [Name; 2] = [4, 5];
/// No lease of this comparison is longer than up to this tick.
const END: u8 = 4;

/// Compares all cases, and returns their number.
///
/// # Panics
/// Panics if the model and the product differ.
pub fn compare() -> usize {
    let mut cases = 0;
    for file in files() {
        for (call, answer) in replies(&file) {
            assert_eq!(of_model(file, call, answer), of_product(file, call, answer), "{file:?} {answer:?}");
            cases += 1;
        }
    }
    cases
}

fn leases() -> impl Iterator<Item = Lease> {
    (0..IDENTITIES as Identity)
        .flat_map(|identity| (1..END).map(move |from| (identity, from)))
        .flat_map(|(identity, from)| (from + 1..=END).map(move |until| Lease { identity, from, until }))
}

fn files() -> impl Iterator<Item = File> {
    let held = leases()
        .map(|lease| Some(Held { lease, lease_id: LEASE_ID, last: NONCES[0], next: NONCES[1] }))
        .chain([None]);
    held.flat_map(|held| [(held, false), (held, held.is_some())])
        .flat_map(|(held, is_proved)| [None, Some(ASKING)].map(|asking| File { held, is_proved, asking }))
}

/// Returns the replies to the calls that a server with this file may have sent.
fn replies(file: &File) -> Vec<(Call, Answer)> {
    let acquire = file.asking.map(|(lease_id, nonce)| Call::Acquire { lease_id, nonce });
    let renew = file.held.map(|Held { lease: Lease { identity, .. }, lease_id, last, next }| Call::Renew {
        identity,
        lease_id,
        last,
        next,
    });
    let answers = || leases().map(Answer::Granted).chain([Answer::Twin]);
    acquire.into_iter().chain(renew).flat_map(|call| answers().map(move |answer| (call, answer))).collect()
}

/// The file afterwards, and the lease that the keeper knows.
type Effects = (File, Option<Lease>);

fn of_model(file: File, call: Call, answer: Answer) -> Effects {
    let (.., protocol) = check::CORRECT[0];
    let mut server = Server { file, is_inherited: true, ..Server::default() };
    protocol.receive(&mut server, call, answer, Delivery::Filed);
    (server.file, server.server_status.map(|published| published.lease))
}

fn of_product(file: File, call: Call, answer: Answer) -> Effects {
    let (mut kept, mut published) = (file, None);
    let mut round = LeaseRound::new(file.to_product(), false);
    let mut effect = round.begin(Needs { worker_limit: IDENTITIES as u32, ..Needs::default() });
    let mut answer = Some(answer);
    loop {
        let event = match effect {
            Effect::Connect => Event::Connected,
            Effect::Send(request) => match (request, call, answer) {
                // The reply to this call comes in another step of the model.
                (Request::Renew(_), Call::Acquire { .. }, Some(_)) => answered(Outcome::Unknown),
                (_, _, Some(Answer::Granted(lease))) => answered(Outcome::Granted(lease.to_product())),
                (_, _, Some(_)) => answered(Outcome::Twin),
                (_, _, None) => return (kept, published),
            },
            // The next request is another step of the model.
            Effect::Keep(state) if answer.is_none() && file.asking.is_none() && state.asking.is_some() => {
                return (kept, published);
            }
            Effect::Keep(state) => {
                kept.change(|file| *file = *state);
                Event::Kept
            }
            Effect::Publish(lease) => {
                published = Some(Lease::of(&lease));
                Event::Published { wants_another: false }
            }
            Effect::Withdraw => {
                published = None;
                Event::Withdrawn
            }
            Effect::Rest(_) | Effect::End => return (kept, published),
        };
        if let Event::Answered { answer: given, .. } = &event
            && given.outcome != Outcome::Unknown
        {
            answer = None;
        }
        // No lease starts in the distant future of this clock.
        let mut now = Now { us: instant_us(start_of(END)), random: &mut new_token() };
        effect = round.step(event, &mut now);
    }
}

fn answered(outcome: Outcome) -> Event {
    let answer = ProductAnswer {
        outcome,
        protocols: None,
        registry_clock_us: 0,
        registry: None,
        detail: None,
        token: Some(String::new()),
    };
    Event::Answered { answer, sent_us: 0, round_trip_us: 0 }
}
