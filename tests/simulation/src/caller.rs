//! Sessions that take IDs: `src/generate/` of the extension and `Slot::reserve()`, one load after another. A caller may
//! pause forever between any two steps.

use std::num::NonZeroU64;

use snowflake_id_core::clock_sequence::{FAR_AHEAD_US, Widths};
use snowflake_id_core::{Field, Generator, Layout, SlotKey, Stall};

use crate::context::{Context, duration};
use crate::disk::{Pages, StandbyKind};
use crate::ledger::Run;
use crate::mutation::Mutation;
use crate::random::Random;
use crate::server::{Server, instant};

const MAX_WAIT_US: u64 = 5_000_000;

/// The state that a backend keeps between calls.
#[derive(Clone, Copy)]
struct Session {
    generator: Generator,
    layout_at: usize,
    slot_index: usize,
    clock_seq: u8,
    max_ahead_us: i64,
}

/// An attempt in progress: the values that it has loaded.
#[derive(Clone, Copy)]
struct Attempt {
    session: Session,
    n: NonZeroU64,
    /// The highest ID that had been returned when the call started.
    above: i64,
    word: Option<u64>,
    is_open: Option<bool>,
    limit: Option<u64>,
    now_us: Option<i64>,
}

#[derive(Default)]
pub struct Caller {
    session: Option<Session>,
    attempt: Option<Attempt>,
}

impl Server {
    /// A caller starts a call or continues the current one. It may pause in the middle.
    pub fn call(&mut self, cx: &mut Context, random: &mut Random, layouts: &[Layout]) {
        let Some(running) = &self.running else { return };
        let at = random.below(running.callers.len());
        let steps = if random.one_in(4) { random.below(6) } else { usize::MAX };
        let n = match random.below(8) {
            0 => random.between(2, 50),
            1 => random.between(2, 3000),
            _ => 1,
        };
        let layout_at = if random.one_in(6) { random.below(layouts.len()) } else { self.layout_at };
        if running.callers[at].attempt.is_none() {
            let Some(session) = self.session(cx, at, layout_at, &layouts[layout_at]) else { return };
            let above = self.last.get(&(session.layout_at, session.clock_seq)).copied().unwrap_or(-1);
            let n = NonZeroU64::new(n as u64).unwrap_or(NonZeroU64::MIN);
            let attempt = Attempt { session, n, above, word: None, is_open: None, limit: None, now_us: None };
            let Some(running) = &mut self.running else { return };
            running.callers[at].attempt = Some(attempt);
        }
        self.go_on(cx, at, steps);
    }

    /// The session of a caller, which is created if necessary.
    fn session(&mut self, cx: &Context, at: usize, layout_at: usize, layout: &Layout) -> Option<Session> {
        let now_us = self.clock_us(cx);
        let (max_ahead_us, spread, horizon_margin_us) =
            (self.max_ahead_us, self.spread, self.horizon_margin_us);
        let running = self.running.as_mut()?;
        let shared = &mut running.shared;
        if let Some(session) = running.callers[at].session {
            let entry = &shared.entries[session.slot_index];
            let is_retired = entry.slot.horizon() == 0 && shared.find(layout) != Some(session.slot_index);
            if session.layout_at == layout_at && session.max_ahead_us == max_ahead_us && !is_retired {
                return Some(session);
            }
        }
        let Some(identity) = shared.gate.identity() else {
            shared.is_wanted = true;
            return None;
        };
        let generator = Generator::new(*layout, identity, max_ahead_us as u64, spread).ok()?;
        let slot_index = match shared.find(layout) {
            Some(slot_index) => slot_index,
            None => {
                let first = shared.first_counter(&shared.key_of(layout));
                match generator.wait_us(first, now_us, NonZeroU64::MIN) {
                    Ok(wait_us) if wait_us > MAX_WAIT_US => {
                        if wait_us as i64 > horizon_margin_us + FAR_AHEAD_US {
                            ask_value(&mut running.shared.asked, layout);
                            running.shared.is_wanted = true;
                        }
                        return None;
                    }
                    Ok(_) => shared.assign(layout)?,
                    Err(_) => return None,
                }
            }
        };
        shared.name_after(layout);
        let clock_seq = shared.clock_seq(slot_index);
        let generator = generator.with_clock_seq(clock_seq);
        let session = Session { generator, layout_at, slot_index, clock_seq, max_ahead_us };
        running.callers[at].session = Some(session);
        Some(session)
    }

    /// Loads the remaining values, and exchanges.
    fn go_on(&mut self, cx: &mut Context, at: usize, mut steps: usize) {
        let now_us = self.clock_us(cx);
        let gate_first = cx.is(Mutation::GateFirst);
        let Some(running) = &mut self.running else { return };
        let shared = &mut running.shared;
        let caller = &mut running.callers[at];
        let Some(attempt) = &mut caller.attempt else { return };
        let session = attempt.session;
        let generator = session.generator;
        let slot = &shared.entries[session.slot_index].slot;
        let mut order = ["word", "gate", "horizon", "clock"];
        if gate_first {
            order.swap(0, 1);
        }
        for load in order {
            let is_due = match load {
                "word" => attempt.word.is_none(),
                "gate" => attempt.is_open.is_none(),
                "horizon" => attempt.limit.is_none(),
                _ => attempt.now_us.is_none(),
            };
            if !is_due {
                continue;
            }
            if steps == 0 {
                cx.count("caller paused in a call");
                cx.say(&self.name, || format!("caller {at} pauses before it loads the {load}"));
                return;
            }
            steps -= 1;
            match load {
                "word" => attempt.word = Some(slot.word()),
                "gate" => attempt.is_open = Some(shared.gate.identity() == Some(generator.identity())),
                "horizon" => attempt.limit = Some(slot.horizon()),
                _ => attempt.now_us = Some(now_us),
            }
        }
        if steps == 0 {
            cx.count("caller paused in a call");
            cx.say(&self.name, || format!("caller {at} pauses before its exchange"));
            return;
        }
        let Some(attempt) = caller.attempt.take() else { return };
        let (Some(word), Some(is_open), Some(limit), Some(clock_us)) =
            (attempt.word, attempt.is_open, attempt.limit, attempt.now_us)
        else {
            return;
        };
        if !is_open {
            caller.session = None;
            shared.is_wanted = true;
            return;
        }
        let counter = generator.counter_of(word);
        let reserved = match generator.advance(counter, clock_us, limit, attempt.n) {
            Ok(reserved) => reserved,
            Err(stall) => {
                let layout = generator.layout();
                let has_moved_on = layout.clock_seq_at(shared.value()) != session.clock_seq;
                match stall {
                    _ if has_moved_on => caller.session = None,
                    Stall::Horizon => shared.is_wanted = true,
                    Stall::Ahead { wait_us } if wait_us as i64 > self.horizon_margin_us + FAR_AHEAD_US => {
                        ask_value(&mut shared.asked, layout);
                        shared.is_wanted = true;
                    }
                    _ => {}
                }
                return;
            }
        };
        let run = match Run::of(session.layout_at, &generator, reserved) {
            Ok(run) => run,
            Err(what) => return cx.fail("the parts of an ID match its number", what),
        };
        // The exchange: no other process takes a step between the two lines.
        if slot.word() != word {
            return;
        }
        let key = SlotKey::at(generator.layout(), session.clock_seq);
        slot.raise(|_| key.word(session.clock_seq, run.first + run.count));
        self.check(cx, &attempt, &run, clock_us);
    }

    /// Checks the IDs that were issued.
    fn check(&mut self, cx: &mut Context, attempt: &Attempt, run: &Run, clock_us: i64) {
        let session = &attempt.session;
        let generator = &session.generator;
        let layout = generator.layout();
        let scale = layout.scale();
        let identity = generator.identity();
        let (first_us, last_us) = (scale.start_us(run.first_tick), scale.start_us(run.last_tick));
        let what = || {
            let more = if run.count > 1 { format!(" to {}", run.last_id) } else { String::new() };
            let value =
                if session.clock_seq > 0 { format!(", value {}", session.clock_seq) } else { String::new() };
            format!(
                "ID {}{more} ({identity}{value}, layout {}, tick of {})",
                run.first_id,
                session.layout_at,
                instant(first_us)
            )
        };
        self.say(cx, || format!("issues {}", what()));
        cx.ledger.latest_us = cx.ledger.latest_us.max(last_us);
        if let Err(holder) = cx.ledger.add(run, self.at, self.disk.lsn) {
            return cx.fail("no ID is issued twice", format!("{}: S{holder} had it", what()));
        }
        if run.first_id <= attempt.above {
            return cx.fail(
                "the IDs of a server increase",
                format!("{}, after {} had been returned", what(), attempt.above),
            );
        }
        if last_us > clock_us + session.max_ahead_us {
            let ahead = duration(last_us - clock_us);
            return cx.fail("no ID is further ahead than max_ahead", format!("{}: {ahead} ahead", what()));
        }
        if layout.tick_at(clock_us).is_ok_and(|tick| run.first_tick < tick) {
            return cx.fail("no ID is earlier than its call", what());
        }
        let Some(running) = &self.running else { return };
        let shared = &running.shared;
        if shared.entries[session.slot_index].layout.is_none() {
            return cx.fail("a retired slot issues no IDs", what());
        }
        let track = usize::from(session.clock_seq > 0);
        let begun = shared.begun(track);
        if begun.value == session.clock_seq && first_us < begun.floor_us {
            return cx.fail("no ID is below the floor", what());
        }
        // Dropped or emptied records are written again in the keeper's next cycle. When another value is about to be
        // opened, the end of the value in use is recorded.
        let has_lost = |pages: &Pages| match &pages.0 {
            Some(stored) if !stored.is_incomplete => {
                let recorded_us = stored.uses.until_us(identity, session.clock_seq).unwrap_or(0);
                last_us >= stored.horizons[track].until_us_of(session.clock_seq).max(recorded_us)
            }
            _ => false,
        };
        if has_lost(&self.disk.durable) {
            return cx.fail("every ID is below the durable horizon", what());
        }
        if self.disk.kind == StandbyKind::Synchronous && has_lost(&self.disk.standby.pages) {
            return cx.fail("every ID is below the horizon of a synchronous standby", what());
        }
        let is_granted = |lease: &snowflake_id_core::Lease| {
            lease.identity == identity
                && (lease.from_us..lease.until_us).contains(&first_us)
                && last_us < lease.until_us
        };
        if self.is_leased && !self.granted.iter().rev().any(is_granted) {
            return cx.fail("an ID of a leased worker ID is in the range of its lease", what());
        }
        let last = self.last.entry((session.layout_at, run.clock_seq())).or_insert(run.last_id);
        *last = (*last).max(run.last_id);
        debug_assert!(layout.bits(Field::Time) > 0);
    }
}

fn ask_value(asked: &mut Widths, layout: &Layout) {
    asked.0 |= Widths::of(layout).0;
}
