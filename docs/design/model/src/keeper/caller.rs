//! The decisions of a caller, and its exchange.

use snowflake_id_core::SlotKey;

use crate::keeper::mutation::Mutation;
use crate::keeper::protocol::Protocol;
use crate::keeper::state::*;

impl Protocol {
    /// The slot at an index.
    pub fn slot_of(&self, slot_index: u8) -> usize {
        if self.is(Mutation::KeyWithoutValue) { 0 } else { slot_index.into() }
    }

    /// Loads the counter *first*, for IDs with a value. `None` if the attempt cannot succeed.
    pub fn load(&self, shared: &Shared, slot_index: u8, value: u8) -> Option<Caller> {
        let Slot { word, limit, .. } = shared.slots[self.slot_of(slot_index)]?;
        let at = Some((slot_index, value));
        if self.is(Mutation::GateBeforeCounter) {
            return Some(Caller {
                at,
                identity: Some(shared.gate?),
                limit: Some(limit),
                ..Caller::default()
            });
        }
        // A word with another value is past the end of the layout.
        let slot_shape = self.slot_shape(slot_index);
        let generator = self.generator(slot_shape, 0, value, self.most_ahead_us());
        self.advance(slot_shape, &generator, word, Instant::of_clock(self.last_clock()), u8::MAX)?;
        Some(Caller { at, current: Some(word), ..Caller::default() })
    }

    /// Loads gate and limit, reads the clock, and decides. A stall ends the attempt and takes nothing: the result is
    /// `None`.
    pub fn decide(
        &self,
        caller: Caller,
        shared: &Shared,
        clock: Instant,
        max_ahead_us: i64,
    ) -> Option<Caller> {
        let (at, value) = caller.at?;
        let slot = match caller.retired {
            Some(word) => Slot { word, limit: 0, end_before: None },
            None => shared.slots[self.slot_of(at)]?,
        };
        let current = caller.current.unwrap_or(slot.word);
        let identity = caller.identity.or(shared.gate)?;
        let limit = caller.limit.unwrap_or(slot.limit);
        let slot_shape = self.slot_shape(at);
        let generator = self.generator(slot_shape, identity, value, max_ahead_us);
        let taken = Some(self.advance(slot_shape, &generator, current, clock, limit)?);
        Some(Caller { current: Some(current), identity: Some(identity), limit: None, taken, ..caller })
    }

    /// The exchange. If it succeeds, the ID has been issued.
    pub fn exchange(&self, state: &mut State, caller: usize, watch: bool) -> Option<()> {
        let Caller { at, current, identity, taken, retired, .. } = std::mem::take(&mut state.callers[caller]);
        let ((at, value), identity, (number, next)) = (at?, identity?, taken?);
        let slot = state.shared.slots[self.slot_of(at)].as_mut();
        let word = retired.or(slot.as_ref().map(|slot| slot.word))?;
        if Some(word) != current {
            return (!watch).then_some(()); // It failed: everything is loaded again.
        }
        if let (None, Some(slot)) = (retired, slot) {
            slot.word.counter = next;
            slot.end_before = None;
        }
        let layout = &self.slot_shape(at).layout;
        let starts = layout.time_of(number.into()).expect("bug: its own ID");
        let (key, starts) = (SlotKey::at(layout, value), self.instant(starts));
        let slot_index =
            self.slot_shapes().position(|(_, slot_shape)| slot_shape.key == key).unwrap_or(at.into()) as u8;
        let id = Id { slot_index, value, identity, number, starts };
        match state.watched {
            None if watch => state.watched = Some(id),
            Some(watched) if (id.slot_index, id.number) == (watched.slot_index, watched.number) => {
                state.verdict = Verdict::Repeated;
            }
            // A reset gives up the order.
            Some(watched)
                if !self.resets
                    && (watched.slot_index, watched.value) == (slot_index, value)
                    && number < watched.number =>
            {
                state.verdict = Verdict::Smaller;
            }
            _ => {}
        }
        if starts < state.raised {
            state.verdict = Verdict::Early;
        }
        if !self.is_leased(state, identity, starts) {
            state.verdict = Verdict::Outside;
        }
        Some(())
    }

    /// Whether the registry has granted an identity for this time.
    fn is_leased(&self, state: &State, identity: Identity, starts: Instant) -> bool {
        self.leases.is_empty()
            || (0..self.leases.len()).any(|at| {
                self.granted(state, at).is_some_and(|lease| {
                    lease.identity == identity && (lease.range.from..lease.range.until).contains(&starts)
                })
            })
    }
}
