//! What the registry decides about a call.

use crate::lease::mutation::Mutation;
use crate::lease::protocol::Protocol;
use crate::lease::state::*;

/// What a call leads to.
pub struct Decision {
    pub after: Registry,
    /// `None`: refused, or not known.
    pub answer: Option<Answer>,
    /// Whether a row was written, so that there is a commit to wait for.
    pub is_written: bool,
}

impl Protocol {
    /// `choice` is the identity that is given if one is: the order of candidates is only a preference.
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

    /// Commits may have been lost. Nobody knows who was given what since.
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
            // Without a nonce it is not known; but who has renewed has had its answer.
            if row.nonce.map_or(row.is_renewed, |known| known != nonce) {
                return Decision { after, answer: Some(Answer::Twin), is_written: false };
            } else if row.until > now {
                let granted = Lease { identity: identity as Identity, from: row.from, until: row.until };
                let is_written = !self.is(Mutation::ReadBelieved);
                return Decision { after, answer: Some(Answer::Granted(granted)), is_written };
            }
            (row.lease_id, row.nonce) = (None, None); // Nobody else gets what is left of it.
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
