//! The lease in hand: it is noted in the file first, and then told to the keeper.

use pgrx::prelude::*;
use snowflake_id_core::Lease;
use snowflake_id_core::lease_state::{Asking, Held, LeaseState, Needs};
use snowflake_id_core::message::instant;
use uuid::Uuid;

use super::lease_file;
use crate::pg::clock;
use crate::pg::random::random_bytes;
use crate::shared::lease;
use crate::shared::memory::State;

pub struct Hand {
    shared: &'static State,
    state: LeaseState,
    /// Whether the registry does not know the lease. It is used to its end all the same.
    is_unknown: bool,
    /// Whether the lease was granted before this process began.
    is_inherited: bool,
}

fn new_token() -> Uuid {
    uuid::Builder::from_random_bytes(random_bytes()).into_uuid()
}

impl Hand {
    /// With what is in the file.
    pub fn new(shared: &'static State) -> Hand {
        let (state, problem) = lease_file::read();
        if let Some(problem) = problem {
            log!("snowflake_id: {problem}");
        }
        Hand { shared, state, is_unknown: false, is_inherited: true }
    }

    pub fn state(&self) -> &LeaseState {
        &self.state
    }

    /// The lease, if the registry, as far as is known, knows it as well.
    pub fn known(&self) -> Option<&Held> {
        self.state.held.as_ref().filter(|_| !self.is_unknown)
    }

    /// When the lease ends; 0 without one.
    pub fn until_us(&self) -> i64 {
        self.state.held.as_ref().map_or(0, |held| held.lease.until_us)
    }

    /// Notes who has granted something. That goes into the file with the next change.
    pub fn note_registry(&mut self, registry_id: Uuid) {
        self.state.note(registry_id);
    }

    /// Notes that a lease is going to be asked for, and under which IDs.
    pub fn ask(&mut self) -> Result<Asking, String> {
        self.keep(|state| state.ask(new_token))
    }

    /// What was asked for is of no use, or somebody else's.
    pub fn stop_asking(&mut self) -> Result<(), String> {
        self.keep(|state| state.asking = None)
    }

    /// What was asked for is granted. Only what is committed is signed, so that it takes a renewal to use it.
    pub fn hold(&mut self, lease: Lease) -> Result<(), String> {
        self.keep(|state| state.hold(lease, new_token))?;
        self.is_unknown = false;
        self.is_inherited = false;
        Ok(())
    }

    /// The lease is renewed, and the registry has signed what it has granted before. Tells the keeper.
    pub fn renew(&mut self, lease: Lease, token: Option<String>) -> Result<(), String> {
        let now_us = clock::clock_us();
        self.keep(|state| {
            state.renew(lease, new_token);
            if let Some(token) = token {
                state.prove(token, now_us);
            }
        })?;
        if !self.state.is_proved() {
            return Err("the registry did not sign the lease: it may be an older version".into());
        }
        self.tell();
        Ok(())
    }

    /// The registry does not know the lease.
    pub fn note_unknown(&mut self) {
        if let Some(Held { lease, .. }) = &self.state.held {
            log!(
                "snowflake_id: the registry does not know the lease of {}; the lease is used until it ends",
                lease.identity
            );
        }
        self.is_unknown = true;
    }

    /// Whether nothing can be done with the lease, now or later: it was granted in an earlier life of the server, of which
    /// nobody knows what it was used for.
    pub fn is_refused(&self, needs: &Needs) -> bool {
        let is_unwanted = |held: &Held| needs.unwanted.contains(&held.lease.identity.worker);
        self.is_inherited
            && self.shared.gate.identity().is_none()
            && self.state.held.as_ref().is_some_and(is_unwanted)
    }

    /// Nothing can be done with the lease. As nobody renews it, it ends, and what is granted then begins above it.
    pub fn let_go(&mut self) -> Result<(), String> {
        self.keep(|state| state.held = None)?;
        lease::tell(|lease_status| lease_status.lease = None);
        Ok(())
    }

    /// Somebody else makes IDs under this very lease, and may have done so for some time.
    pub fn drop_twin(&mut self) -> Result<(), String> {
        lease::tell(|lease_status| lease_status.lease = None);
        self.shared.close_gate();
        self.shared.server_status.wakeup.request();
        // Also if that cannot be written down.
        if let Some(Held { lease, .. }) = self.state.held.take() {
            ereport!(
                PgLogLevel::WARNING,
                PgSqlErrorCode::ERRCODE_WARNING,
                format!(
                    "snowflake_id: another server has the same lease of {}: one of the two servers is a copy of the other",
                    lease.identity
                )
            );
        }
        self.keep(|_| ())
    }

    /// Tells the keeper of the lease without an answer of the registry, if it knows of none: what is in hand is this
    /// server's alone, whatever the registry says.
    pub fn go_on(&self) {
        if let (None, Some(lease)) = (lease::lease_status().lease, self.state.lease_at(clock::clock_us())) {
            log!(
                "snowflake_id: continuing with the lease of {}, which ends at {}",
                lease.identity,
                instant(lease.until_us)
            );
            self.tell();
        }
    }

    fn tell(&self) {
        let lease = self.state.lease_at(clock::clock_us());
        lease::tell(|lease_status| {
            (lease_status.lease, lease_status.is_inherited) = (lease, self.is_inherited)
        });
        self.shared.server_status.wakeup.request();
    }

    /// Changes what is known, and writes it down first: nothing counts that is not in the file.
    fn keep<T>(&mut self, change: impl FnOnce(&mut LeaseState) -> T) -> Result<T, String> {
        let mut state = self.state.clone();
        let result = change(&mut state);
        lease_file::write(&state)?;
        self.state = state;
        Ok(result)
    }
}
