//! Numbers in ranges: the segments worker of a server and its callers (`src/segment/` of the extension). The product's
//! `NumberRound` determines the steps, and this module carries them out. The ranges in shared memory are the product's
//! `Segment`.

use std::num::NonZeroU64;

use snowflake_id_core::had::{End, Had};
use snowflake_id_core::number_call::Request;
use snowflake_id_core::number_round::{Effect, Event, Holder, NumberRound, Take};
use snowflake_id_core::segment_answer::Granted;
use snowflake_id_core::segment_records::{Change, SegmentRecords};

use crate::context::Context;
use crate::disk::{SEGMENTS, Write};
use crate::mutation::Mutation;
use crate::random::Random;
use crate::registry::{Answer, Ask, Call, Registry, index_of};
use crate::server::Server;

pub struct NumbersWorker {
    records: SegmentRecords,
    round: NumberRound,
    effect: Option<Effect>,
    /// The segment of the round.
    at: usize,
    /// Records that are in the file and in the database, and not committed yet.
    keeping: Option<SegmentRecords>,
}

impl NumbersWorker {
    /// The higher value of the file and the database counts.
    pub fn new(server: &Server) -> NumbersWorker {
        let mut records = server.numbers_file.clone();
        let stored = server.disk.read.0.as_ref().map_or([0; SEGMENTS], |stored| stored.had);
        for (at, until) in stored.into_iter().enumerate().filter(|(_, until)| *until > 0) {
            let now = Some(End { until, registry_id: None, period: None });
            records.segments.entry(at.to_string()).or_default().merge(Had { now, next: None });
        }
        let round = NumberRound::new(Holder::Server);
        NumbersWorker { records, round, effect: None, at: 0, keeping: None }
    }
}

/// The highest number of each segment, as the database stores them.
pub fn marks(records: &SegmentRecords) -> [i64; SEGMENTS] {
    std::array::from_fn(|at| {
        let now = records.segments.get(&at.to_string()).and_then(|had| had.now.as_ref());
        now.map_or(0, |end| end.until)
    })
}

impl Server {
    /// The segments worker takes up to `steps` steps, at most to the end of a round.
    pub fn fetch(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        registry: &mut Registry,
        at: usize,
        steps: usize,
    ) {
        for step in 0..steps {
            let Some(running) = &mut self.running else { return };
            let Some(effect) = running.numbers.effect.take() else {
                if step > 0 {
                    return; // The round is over.
                }
                self.begin_round(at);
                continue;
            };
            let event = match effect {
                Effect::Send(take) => {
                    let event = self.send_take(cx, random, registry, &take);
                    if cx.is(Mutation::NumbersUnwaited)
                        && let Event::Answered(answer) = &event
                    {
                        let granted: Vec<_> =
                            answer.about.iter().filter_map(|(_, about)| about.granted).collect();
                        self.publish_numbers(cx, granted.into_iter());
                    }
                    event
                }
                Effect::Keep(changes) => match self.keep_numbers(changes) {
                    Some(event) => event,
                    None => continue,
                },
                Effect::Publish(given) => {
                    let granted = given.into_iter().filter_map(|given| given.about.granted);
                    let is_done = cx.is(Mutation::NumbersUnwaited);
                    self.publish_numbers(cx, granted.filter(|_| !is_done));
                    Event::Published
                }
                Effect::Rest(_) => return,
            };
            let Some(running) = &mut self.running else { return };
            let NumbersWorker { round, records, effect, .. } = &mut running.numbers;
            let next = round.step(records, event, cx.now_us);
            if let Effect::Keep(changes) = &next {
                for change in changes {
                    if let Change::Had { name, had: Had { now: Some(end), .. } } = change
                        && let Ok(at) = name.parse()
                    {
                        cx.ledger.give(at, end.until);
                    }
                }
            }
            *effect = Some(next);
        }
    }

    fn begin_round(&mut self, at: usize) {
        let Some(running) = &mut self.running else { return };
        let standing = running.shared.segments[at].standing();
        let is_wanted = standing.left == 0 || standing.is_next_wanted;
        let worker = &mut running.numbers;
        worker.at = at;
        let name = at.to_string();
        let had = worker.records.segments.get(&name).and_then(|had| had.now.as_ref()).map(Into::into);
        worker.effect = Some(match is_wanted && !worker.round.is_report_urgent() {
            true => worker.round.take(&worker.records, vec![Request { name, had, ..Request::default() }]),
            false => worker.round.report(&worker.records),
        });
    }

    /// Sends a request, and returns the answer of the stand-in.
    fn send_take(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        registry: &mut Registry,
        take: &Take,
    ) -> Event {
        let failed = Event::Failed { is_of_data: false };
        let clock_us = self.clock_us(cx);
        let Some(running) = &self.running else { return failed };
        let NumbersWorker { round, records, .. } = &running.numbers;
        let tokens = match cx.is(Mutation::TokenUnshown) {
            true => vec![],
            false => round.tokens(records, take).iter().filter_map(|token| index_of(token)).collect(),
        };
        let ask = Ask::Take(take.requests.clone());
        let call = Call { server: self.at, registry_id: take.registry_id, clock_us, tokens, ask };
        match self.deliver(cx, random, registry, call) {
            Some(Answer { taken: Some(taken), .. }) => Event::Answered(taken),
            _ => failed,
        }
    }

    /// Stores the changes, and commits them in a later step. Returns `None` before the commit.
    fn keep_numbers(&mut self, changes: Vec<Change>) -> Option<Event> {
        let worker = &mut self.running.as_mut()?.numbers;
        if worker.keeping.is_none() {
            let mut records = worker.records.clone();
            changes.into_iter().for_each(|change| records.apply(change));
            self.numbers_file = records.clone();
            if self.disk.read.0.is_none() {
                return Some(Event::NotKept); // The marks cannot be stored in the database.
            }
            self.disk.write(Write::Had(marks(&records)));
            worker.keeping = Some(records);
            worker.effect = Some(Effect::Keep(vec![]));
            return None;
        }
        if !self.disk.commit(false) {
            worker.effect = Some(Effect::Keep(vec![]));
            return None;
        }
        worker.records = worker.keeping.take()?;
        Some(Event::Kept)
    }

    fn publish_numbers(&mut self, cx: &mut Context, granted: impl Iterator<Item = Granted>) {
        for granted in granted {
            let Some(running) = &mut self.running else { return };
            let (at, range) = (running.numbers.at, granted.range);
            let _ = running.shared.segments[at].publish(range, range.count / 10);
            let last = range.first + range.count as i64 - 1;
            self.say(cx, || format!("has numbers {} to {last} of segment {at}", range.first));
        }
    }

    /// A caller takes numbers.
    pub fn take_numbers(&mut self, cx: &mut Context, random: &mut Random, at: usize) {
        let Some(running) = &self.running else { return };
        let n = NonZeroU64::new(random.between(1, 400) as u64).unwrap_or(NonZeroU64::MIN);
        let Ok(taken) = running.shared.segments[at].take(|| 0, n) else { return };
        let (first, last) = (taken.first, taken.last());
        self.say(cx, || format!("issues numbers {first} to {last} of segment {at}"));
        if let Err(holder) = cx.ledger.add_numbers(at, first, last, self.at) {
            let text = format!("{first} to {last} of segment {at}: S{holder} had one of them");
            return cx.fail("no number is issued twice", text);
        }
        if first <= self.last_number[at] {
            let text = format!("{first} of segment {at}, after {}", self.last_number[at]);
            return cx.fail("the numbers of a server increase", text);
        }
        self.last_number[at] = last;
    }
}
