//! Numbers in ranges: the segments worker of a server and its callers (`src/segment/` of the extension). The ranges in
//! shared memory are the product's `Segment`.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use snowflake_id_core::segment::{NEVER_ENDS, Range};

use crate::context::Context;
use crate::disk::{SEGMENTS, Write};
use crate::mutation::Mutation;
use crate::random::Random;
use crate::registry::{Answer, Ask, Call, Registry};
use crate::server::Server;

/// The record in file `snowflake_id.segments`.
#[derive(Clone, Default)]
pub struct NumbersFile {
    pub had: [i64; SEGMENTS],
    pub tokens: [Option<usize>; SEGMENTS],
}

enum Op {
    Ask(usize),
    /// Only committed grants are signed, so a second call is needed.
    AskForToken(usize, (i64, u64), i64),
    Note(usize, (i64, u64), Option<usize>),
    Commit,
    Publish(usize, (i64, u64)),
}

pub struct NumbersWorker {
    had: [i64; SEGMENTS],
    tokens: [Option<usize>; SEGMENTS],
    ops: VecDeque<Op>,
}

impl NumbersWorker {
    /// The higher value of the file and the database counts.
    pub fn new(server: &Server) -> NumbersWorker {
        let file = &server.numbers_file;
        let stored = server.disk.read.0.as_ref().map_or([0; SEGMENTS], |stored| stored.had);
        let had = std::array::from_fn(|at| file.had[at].max(stored[at]));
        NumbersWorker { had, tokens: file.tokens, ops: VecDeque::new() }
    }
}

impl Server {
    /// The segments worker takes up to `steps` steps.
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
            let op = match running.numbers.ops.pop_front() {
                Some(op) => op,
                None if step > 0 => return,
                None => {
                    running.numbers.ops.push_back(Op::Ask(at));
                    continue;
                }
            };
            if !self.step_of_numbers(cx, random, registry, op) {
                return;
            }
        }
    }

    fn ask_for_numbers(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        registry: &mut Registry,
        at: usize,
        is_wanted: bool,
    ) -> Option<Answer> {
        let running = self.running.as_ref()?;
        if self.is_cut || registry.is_down {
            return None;
        }
        let tokens = running.numbers.tokens[at].filter(|_| !cx.is(Mutation::TokenUnshown));
        let call = Call {
            server: self.at,
            registry_id: None,
            clock_us: self.clock_us(cx),
            tokens: tokens.into_iter().collect(),
            ask: Ask::Take { at, is_wanted },
        };
        match random.below(40) {
            0 => cx.count("request to the registry lost"),
            1 => {
                cx.count("request to the registry late");
                registry.strays.push(call);
            }
            2 => {
                registry.call(cx, &call, random);
                cx.count("reply of the registry lost");
            }
            _ => return Some(registry.call(cx, &call, random)),
        }
        None
    }

    fn step_of_numbers(
        &mut self,
        cx: &mut Context,
        random: &mut Random,
        registry: &mut Registry,
        op: Op,
    ) -> bool {
        match op {
            Op::Ask(at) => {
                let Some(running) = &self.running else { return false };
                let is_wanted = {
                    let standing = running.shared.segments[at].standing();
                    standing.is_unused() || standing.left == 0 || standing.is_next_wanted
                };
                let answer = self.ask_for_numbers(cx, random, registry, at, is_wanted);
                let Some(Answer { range: Some(range), life, .. }) = answer else { return true };
                self.push_number(match cx.is(Mutation::NumbersUnwaited) {
                    true => Op::Note(at, range, None),
                    false => Op::AskForToken(at, range, life),
                });
            }
            Op::AskForToken(at, range, life) => {
                let answer = self.ask_for_numbers(cx, random, registry, at, false);
                let Some(Answer { token: Some(token), life: now, .. }) = answer else { return true };
                let last = range.0 + range.1 as i64 - 1;
                if now == life && registry.shows_number(token, last) {
                    cx.ledger.give(at, last);
                    self.push_number(Op::Note(at, range, Some(token)));
                }
            }
            Op::Note(at, range, token) => {
                let Some(running) = &mut self.running else { return false };
                let worker = &mut running.numbers;
                if range.0 <= worker.had[at] {
                    return true; // The registry has granted numbers that this server had.
                }
                worker.had[at] = range.0 + range.1 as i64 - 1;
                worker.tokens[at] = token.or(worker.tokens[at]);
                self.numbers_file = NumbersFile { had: worker.had, tokens: worker.tokens };
                let had = worker.had;
                if self.disk.read.0.is_none() {
                    return true; // The range cannot be recorded in the database.
                }
                self.disk.write(Write::Had(had));
                self.push_number(Op::Commit);
                self.push_number(Op::Publish(at, range));
            }
            Op::Commit => {
                if !self.disk.commit(false) {
                    if let Some(running) = &mut self.running {
                        running.numbers.ops.push_front(Op::Commit);
                    }
                    return false;
                }
            }
            Op::Publish(at, (first, count)) => {
                let Some(running) = &mut self.running else { return false };
                let range = Range { first, increment: 1, count, ends_us: NEVER_ENDS };
                let _ = running.shared.segments[at].publish(range, count / 10);
                self.say(cx, || {
                    format!("has numbers {first} to {} of segment {at}", first + count as i64 - 1)
                });
            }
        }
        true
    }

    fn push_number(&mut self, op: Op) {
        if let Some(running) = &mut self.running {
            running.numbers.ops.push_back(op);
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
