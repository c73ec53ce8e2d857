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
        let from = row.until.max(after.nothing_before);
        if from > now {
            return Decision { after, answer: None, is_written: false };
        }
        let until = now + self.lease;
        *row = Row { from, until, lease_id: Some(lease_id), nonce: Some(nonce), is_renewed: false };
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
}
