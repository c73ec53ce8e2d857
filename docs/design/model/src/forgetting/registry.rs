//! The rule: the registry's actions in each call.

use crate::forgetting::mutation::Mutation;
use crate::forgetting::protocol::{Ask, Lie, Protocol};
use crate::forgetting::state::*;

/// The longest gap between two calls that is counted.
const MOST_COUNTED: u8 = 1;

impl Protocol {
    /// The start of every call: notes a restart, counts, and evaluates the evidence. The result is committed even if
    /// the call is refused.
    pub fn call(&self, state: &mut State, at: usize, ask: Ask) {
        self.note_start(state);
        self.count(state);
        let server = state.servers[at];
        state.servers[at].is_heard = true;
        if !(self.is(Mutation::RefusedUnheard) && server.is_off) {
            self.listen(state, at, ask);
        }
        self.end_wait(state);
        if server.is_off {
            return; // The server is told that its clock is wrong.
        }
        match ask {
            Ask::Acquire => self.acquire(state, at),
            Ask::Renew => self.renew(state, at),
            Ask::Take => self.take(state, at),
            Ask::Report => {}
        }
    }

    /// The disk may have been replaced by an older one before a start.
    pub fn note_start(&self, state: &mut State) {
        let clock = self.clock(state);
        let registry = &mut state.registry;
        if std::mem::replace(&mut registry.is_start_noted, true) || self.is(Mutation::StartUnnoticed) {
            return;
        }
        let was_proved = registry.wait.is_some_and(|wait| wait.is_proved);
        registry.wait = Some(Wait {
            left: self.longest_wait(),
            counted_at: clock,
            is_proved: was_proved && !self.is(Mutation::LossForgotten),
            is_witnessed: false,
        });
    }

    fn longest_wait(&self) -> u8 {
        self.lease + self.margin
    }

    fn count(&self, state: &mut State) {
        let clock = self.clock(state);
        let Some(wait) = &mut state.registry.wait else { return };
        let passed = clock.saturating_sub(wait.counted_at);
        if self.is(Mutation::WaitByClock) {
            wait.left = wait.left.saturating_sub(passed);
        } else {
            wait.left = wait.left.saturating_sub(passed.min(MOST_COUNTED));
        }
        wait.counted_at = clock;
    }

    fn end_wait(&self, state: &mut State) {
        let clock = self.clock(state);
        let Some(wait) = state.registry.wait else { return };
        // Every server that is not cut off calls regularly, and the wait is longer than the interval.
        let all_are_heard = state.servers.iter().all(|server| server.is_heard || server.is_cut);
        let is_shortened = self.shortens && wait.is_witnessed && !wait.is_proved;
        let is_over = match self.cuts {
            true => wait.left == 0 || is_shortened && all_are_heard,
            false => all_are_heard && (wait.left == 0 || is_shortened),
        };
        let is_over = is_over || self.is(Mutation::NewcomersFirst) && is_shortened;
        // A clock that is still wrong when the wait ends is not covered.
        if is_over && (!self.cuts || state.ahead == self.clocks[0]) {
            let registry = &mut state.registry;
            registry.wait = None;
            if !self.is(Mutation::FloorStays) {
                registry.floor = registry.floor.max(clock);
            }
            state.is_older = false;
        }
    }

    /// A server shows its tokens.
    fn listen(&self, state: &mut State, at: usize, ask: Ask) {
        let server = state.servers[at];
        let mut has_lost = false;
        if let Some(token) = server.token.filter(|_| !self.is_deaf_to_lease(ask)) {
            has_lost |= self.listen_to_lease(state, at, token);
        }
        let tells_numbers = ask == Ask::Take || !self.is(Mutation::NumbersUnreported);
        if server.numbers > 0 && tells_numbers && !state.registry.is_blind {
            let registry = &mut state.registry;
            has_lost |= server.numbers > registry.next;
            registry.next = registry.next.max(server.numbers);
            registry.wait.iter_mut().for_each(|wait| wait.is_witnessed = true);
        }
        if has_lost {
            state.is_shown = true;
            if !self.is(Mutation::ProofIgnored) {
                self.prove(state);
            }
        }
    }

    fn is_deaf_to_lease(&self, ask: Ask) -> bool {
        self.is(Mutation::AcquireDeaf) && ask == Ask::Acquire
    }

    /// Evaluates a token. Returns whether it proves a loss. The row is repaired, so that the token does so only once.
    fn listen_to_lease(&self, state: &mut State, at: usize, token: Token) -> bool {
        let registry = &mut state.registry;
        if registry.is_blind {
            return false;
        }
        registry.wait.iter_mut().for_each(|wait| wait.is_witnessed = true);
        let is_freeze_lost = token.frozen_until.is_some() && registry.frozen_until.is_none();
        if is_freeze_lost {
            registry.frozen_until = token.frozen_until;
        }
        let row = &mut registry.row;
        let Range { from, until } = token.range;
        if token.grants > row.grants {
            let goes_on = state.servers[at].held.is_some_and(|held| held.from == from);
            *row = Row {
                from,
                until: until.max(row.until),
                grants: token.grants,
                holder: goes_on.then_some(at).filter(|_| row.until <= from),
            };
        } else if token.grants == row.grants && from == row.from {
            if until <= row.until {
                return is_freeze_lost;
            }
            row.until = until;
        } else if until > row.from {
            // It was granted to two servers. Both continue to their ends, and no server holds it.
            let until = until.max(row.until);
            *row = Row { from: until, until, grants: row.grants + 1, holder: None };
        } else {
            return is_freeze_lost;
        }
        true
    }

    /// An administrator will let another registry grant the same identity from the returned time on.
    pub fn freeze(&self, state: &mut State) {
        self.note_start(state);
        let until = self.clock(state).max(state.registry.row.until);
        state.registry.frozen_until = Some(until);
        state.other_from = Some(until);
    }

    /// A loss is proved.
    pub fn prove(&self, state: &mut State) {
        let (left, counted_at) = (self.longest_wait(), self.clock(state));
        let registry = &mut state.registry;
        registry.is_closed = true;
        registry.wait = Some(Wait { left, counted_at, is_proved: true, is_witnessed: true });
        if !state.has_forgotten {
            state.verdict = Verdict::FalseAlarm;
        }
    }

    fn acquire(&self, state: &mut State, at: usize) {
        let clock = self.clock(state);
        let registry = &mut state.registry;
        let from = registry.row.until.max(registry.floor);
        if registry.wait.is_some() || from > clock || registry.frozen_until.is_some() {
            return;
        }
        let range = Range { from, until: clock + self.lease };
        let grants = registry.row.grants + 1;
        registry.row = Row { from, until: range.until, grants, holder: Some(at) };
        let has_another_heard = state.servers.iter().any(|server| server.has_heard_of_freeze);
        self.give(state, at, range, from, false, has_another_heard);
    }

    fn renew(&self, state: &mut State, at: usize) {
        let clock = self.clock(state);
        let Some(held) = state.servers[at].held else { return };
        let registry = &mut state.registry;
        let row = &mut registry.row;
        if row.holder != Some(at) || row.from != held.from {
            return; // The holder is not known. The lease continues to its end.
        }
        // Renewing after a gap is effectively a new grant.
        let is_lapsed = row.until <= clock;
        let is_frozen = registry.frozen_until.is_some();
        let is_below = row.until < registry.floor || is_lapsed && (registry.wait.is_some() || is_frozen);
        if is_below && !self.is(Mutation::LapsedRenewed) {
            return;
        }
        let reach = (clock + self.lease).min(match registry.frozen_until {
            Some(until) if !self.is(Mutation::FrozenRenewed) => until,
            _ => u8::MAX,
        });
        row.until = row.until.max(reach);
        let range = Range { from: row.from, until: row.until };
        let has_heard = state.servers[at].has_heard_of_freeze;
        self.give(state, at, range, held.until, true, has_heard);
    }

    /// Grants a range to the server. The new part of it begins at `new_from`. A server may know that the registry is
    /// frozen when the registry does not.
    fn give(
        &self,
        state: &mut State,
        at: usize,
        range: Range,
        new_from: u8,
        is_renewal: bool,
        has_heard: bool,
    ) {
        let clock = self.clock(state);
        let grants = state.registry.row.grants;
        let counts = self.counts(state);
        let frozen_until = state.registry.frozen_until;
        let is_known = frozen_until.is_some() || has_heard;
        if range.until > new_from && is_known && state.other_from.is_some_and(|from| range.until > from) {
            state.verdict = Verdict::Overlap;
        }
        let server = &mut state.servers[at];
        let told = frozen_until.filter(|_| !self.is(Mutation::FreezeUntold));
        let token = Token { grants, range, frozen_until: told };
        let is_signed = is_renewal || !self.is(Mutation::UnsignedUsed);
        let is_used = server.take_grant(range, is_renewal, is_signed.then_some(token), clock);
        if !is_used && !self.is(Mutation::UnsignedUsed) {
            return;
        }
        server.has_heard_of_freeze |= frozen_until.is_some();
        let new = (new_from..range.until).fold(0, |ticks, tick| ticks | 1 << tick);
        server.ticks |= new;
        if state.servers[1 - at].ticks & new != 0 && counts {
            state.verdict = Verdict::Overlap;
        }
    }

    /// Whether the state is covered. A holder that is cut off while a witness shortens the wait is not, unless others
    /// prove the loss.
    fn counts(&self, state: &State) -> bool {
        !(self.cuts && self.shortens) || state.is_shown
    }

    fn take(&self, state: &mut State, at: usize) {
        let registry = &mut state.registry;
        let waits = registry.wait.is_some() && !self.is(Mutation::NumbersUnwaited);
        if registry.is_closed || waits || registry.next >= self.numbers {
            return;
        }
        let (first, count) = (registry.next, self.step);
        registry.next += count;
        state.servers[at].numbers = registry.next;
        let new = (first..first + count).fold(0, |numbers, number| numbers | 1 << number);
        let is_repeated = state.servers.iter().any(|server| (server.had | server.drawn) & new != 0);
        state.servers[at].had |= new;
        if is_repeated && self.counts(state) {
            state.verdict = Verdict::Repeated;
        }
        let count = if self.is(Mutation::PastTheEnd) { count + 1 } else { count };
        self.draw(state, at, Some(Numbers { first, count }));
    }

    /// A server issues a number, from those that it has and those that it was just given.
    pub fn draw(&self, state: &mut State, at: usize, granted: Option<Numbers>) {
        let Some(number) = state.servers[at].segment.draw(granted) else { return };
        let number: u8 = 1 << number;
        let other = &state.servers[1 - at];
        let is_repeated = (other.had | other.drawn | state.servers[at].drawn) & number != 0;
        if is_repeated && self.counts(state) {
            state.verdict = Verdict::Repeated;
        }
        state.servers[at].drawn |= number;
    }

    /// A liar has the privileges of a server but is not one.
    pub fn lie(&self, state: &mut State, lie: Lie) {
        self.note_start(state);
        self.count(state);
        match lie {
            // An unsigned claim proves nothing.
            Lie::Claim if self.is(Mutation::ClaimsBelieved) => self.prove(state),
            Lie::Claim if self.is(Mutation::ClaimsBlind) => state.registry.is_blind = true,
            Lie::RolledBack if self.is(Mutation::SignedEarly) => self.prove(state),
            Lie::Undurable => {
                // Everything that other servers were granted is durable.
                self.restart(state);
                self.note_start(state);
                if self.is(Mutation::SignedUndurable) {
                    self.prove(state);
                }
            }
            Lie::Witness => {
                state.registry.wait.iter_mut().for_each(|wait| wait.is_witnessed = true);
            }
            Lie::Claim | Lie::RolledBack => {}
        }
        self.end_wait(state);
    }
}
