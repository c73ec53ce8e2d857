//! The registry's decision on a call.

use crate::lease::mutation::Mutation;
use crate::lease::protocol::Protocol;
use crate::lease::state::*;

/// The result of a call.
pub struct Decision {
    pub after: Registry,
    /// `None` if the call is refused or the lease is not known.
    pub answer: Option<Answer>,
    /// Whether a row was written, so that the call has to wait for a commit.
    pub is_written: bool,
}

impl Protocol {
    /// Decides on a call. `choice` is the identity that is granted if one is: the order of candidates is only a
    /// preference.
    pub fn decide(&self, registry: &Registry, call: Call, now: u8, choice: Identity) -> Decision {
        let mut after = *registry;
        if after.is_suspect {
            self.quarantine(&mut after, now);
        }
        match call {
            Call::Acquire { lease_id, nonce } => self.acquire(after, lease_id, nonce, now, choice),
            Call::Renew { identity, lease_id, last, next } => {
                self.renew(after, identity, lease_id, [last, next], now)
            }
            Call::Release { identity, lease_id, last, next, used_until } => {
                self.release(after, identity, lease_id, [last, next], used_until, now)
            }
        }
    }

    /// Commits may have been lost. Grants made since then are not known.
    fn quarantine(&self, registry: &mut Registry, now: u8) {
        let margin = if self.is(Mutation::QuarantineTooShort) { 0 } else { self.late };
        registry.is_suspect = self.is(Mutation::QuarantineForever);
        registry.nothing_before = now + self.lease + margin;
        for row in &mut registry.rows {
            if row.until <= now + margin && !self.is(Mutation::LapsedKept) {
                (row.lease_id, row.nonce) = (None, None);
            }
            if !self.is(Mutation::NonceKept) {
                row.nonce = None;
            }
        }
    }

    fn acquire(
        &self,
        mut after: Registry,
        lease_id: Name,
        nonce: Name,
        now: u8,
        choice: Identity,
    ) -> Decision {
        if let Some(identity) = after.rows.iter().position(|row| row.lease_id == Some(lease_id)) {
            let row = &mut after.rows[identity];
            if row.used_until.is_some() {
                return Decision { after, answer: Some(Answer::Twin), is_written: false };
            }
            // If the nonce is not known, a server that has renewed is a twin: it has received its reply and would not
            // ask again.
            if row.nonce.map_or(row.is_renewed, |known| known != nonce) {
                return Decision { after, answer: Some(Answer::Twin), is_written: false };
            } else if row.until > now {
                let granted = Lease { identity: identity as Identity, from: row.from, until: row.until };
                let is_written = !self.is(Mutation::ReadBelieved);
                return Decision { after, answer: Some(Answer::Granted(granted)), is_written };
            }
            (row.lease_id, row.nonce) = (None, None); // The rest of the range is granted to no other server.
        }
        let row = &mut after.rows[usize::from(choice)];
        let free = match row.used_until {
            // The end of a range is not before an earlier end.
            Some(used_until) => used_until.max(row.until.saturating_sub(self.lease)),
            None => row.until,
        };
        let from = free.max(after.nothing_before);
        if from > now {
            return Decision { after, answer: None, is_written: false };
        }
        let until = now + self.lease;
        *row = Row { from, until, lease_id: Some(lease_id), nonce: Some(nonce), ..Row::default() };
        let granted = Answer::Granted(Lease { identity: choice, from, until });
        Decision { after, answer: Some(granted), is_written: true }
    }

    fn renew(
        &self,
        mut after: Registry,
        identity: Identity,
        lease_id: Name,
        nonces: [Name; 2],
        now: u8,
    ) -> Decision {
        let is_in_quarantine = now < after.nothing_before && !self.is(Mutation::LapsedKept);
        let row = &mut after.rows[usize::from(identity)];
        let is_known = row.lease_id == Some(lease_id) || self.is(Mutation::RenewalByName);
        if !is_known || (row.until <= now && is_in_quarantine) {
            return Decision { after, answer: None, is_written: false };
        }
        if row.used_until.is_some() {
            return Decision { after, answer: Some(Answer::Twin), is_written: false };
        }
        let is_any = self.is(Mutation::NoNonce) || self.is(Mutation::RenewalByName);
        if !is_any && row.nonce.is_some_and(|nonce| !nonces.contains(&nonce)) {
            return Decision { after, answer: Some(Answer::Twin), is_written: false };
        }
        let until = now + self.lease;
        row.until = if self.is(Mutation::RenewalLowers) { until } else { row.until.max(until) };
        (row.nonce, row.is_renewed) = (Some(nonces[1]), true);
        let granted = Answer::Granted(Lease { identity, from: row.from, until: row.until });
        Decision { after, answer: Some(granted), is_written: true }
    }

    fn release(
        &self,
        mut after: Registry,
        identity: Identity,
        lease_id: Name,
        nonces: [Name; 2],
        used_until: u8,
        now: u8,
    ) -> Decision {
        let row = &mut after.rows[usize::from(identity)];
        // If the last nonce is not known, a copy may be calling.
        let is_holder =
            row.lease_id == Some(lease_id) && row.nonce.is_some_and(|nonce| nonces.contains(&nonce));
        if !is_holder {
            return Decision { after, answer: None, is_written: false };
        }
        // The past is not handed back, and no two ranges have the same start.
        let least = if self.is(Mutation::ReleasedEarly) { 0 } else { now.max(row.from + 1) };
        let early = u8::from(self.is(Mutation::ReleasedEarly));
        let used_until = used_until.saturating_sub(early).max(least).clamp(row.from, row.until);
        row.used_until.get_or_insert(used_until);
        Decision { after, answer: Some(Answer::Released), is_written: true }
    }
}
