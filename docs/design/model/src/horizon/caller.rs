//! What a caller decides and takes.

use crate::horizon::protocol::Protocol;
use crate::horizon::state::*;

impl Protocol {
    /// `Generator::advance`. A stall ends the attempt, and nothing is taken: then `None`.
    pub fn decide(&self, caller: Caller, shared: &Shared, clock: u8) -> Option<Caller> {
        let slot = match caller.retired {
            Some(counter) => Slot { counter, limit: 0, end_before: None },
            None => shared.slots[caller.slot?]?,
        };
        let current = caller.current.unwrap_or(slot.counter);
        let identity = caller.identity.or(shared.gate)?;
        let limit = caller.limit.unwrap_or(slot.limit);
        let layout = self.layouts[caller.slot?];
        let first = current.max(layout.counter_at(layout.tick_at(clock)));
        let tick = layout.tick(first);
        let stalls = layout.start_of(tick) > clock + self.max_drift || tick >= limit;
        let decided = Caller {
            current: Some(current),
            identity: Some(identity),
            limit: None,
            first: Some(first),
            ..caller
        };
        (!stalls).then_some(decided)
    }

    /// The exchange. When it succeeds, the ID counts as handed out.
    pub fn exchange(&self, state: &mut State, caller: usize, watch: bool) -> Option<()> {
        let Caller { slot, current, identity, first, retired, .. } =
            std::mem::take(&mut state.callers[caller]);
        let (at, first) = (slot?, first?);
        let slot = state.shared.slots[at].as_mut();
        let counter = retired.or(slot.as_ref().map(|slot| slot.counter))?;
        if Some(counter) != current {
            return (!watch).then_some(()); // Failed: everything is loaded again.
        }
        if let (None, Some(slot)) = (retired, slot) {
            slot.counter = first + 1;
            slot.end_before = None;
        }
        let tick = self.layouts[at].tick(first);
        let id =
            Id { slot: at, tick, identity: identity?, sequence: first - self.layouts[at].counter_at(tick) };
        match state.watched {
            None if watch => state.watched = Some(id),
            Some(watched) if id == watched => state.verdict = Verdict::Repeated,
            // Who begins anew gives up the order.
            Some(watched) if !self.resets && watched.slot == at && id < watched => {
                state.verdict = Verdict::Smaller;
            }
            _ => {}
        }
        Some(())
    }
}
