//! The current lease. Each change is stored in the file before the keeper learns of it.

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
    /// Whether the registry has reported that it does not know the lease. The server continues to use such a
    /// lease until the lease ends.
    is_unknown: bool,
    /// Whether the lease was granted to an earlier process.
    is_inherited: bool,
}

fn new_token() -> Uuid {
    uuid::Builder::from_random_bytes(random_bytes()).into_uuid()
}

impl Hand {
    /// Loads the state from the file.
    ///
    /// # Errors
    /// Returns the problem if a newer version has written the file.
    pub fn new(shared: &'static State) -> Result<Hand, String> {
        let (state, problem) = lease_file::read()?;
        if let Some(problem) = problem {
            log!("snowflake_id: {problem}");
        }
        Ok(Hand { shared, state, is_unknown: false, is_inherited: true })
    }

    pub fn state(&self) -> &LeaseState {
        &self.state
    }

    /// Returns the lease, unless the registry has said that the registry does not know the lease.
    pub fn known(&self) -> Option<&Held> {
        self.state.held.as_ref().filter(|_| !self.is_unknown)
    }

    /// Returns the end of the lease in microseconds of Unix time, or 0 if there is no lease.
    pub fn until_us(&self) -> i64 {
        self.state.held.as_ref().map_or(0, |held| held.lease.until_us)
    }

    /// Records which registry has granted a lease. The record is written to the file together with the next
    /// change.
    pub fn note_registry(&mut self, registry_id: Uuid) {
        self.state.note(registry_id);
    }

    /// Stores the IDs of a lease request, and returns the IDs. The caller must call the function before
    /// sending the request.
    pub fn ask(&mut self) -> Result<Asking, String> {
        self.keep(|state| state.ask(new_token))
    }

    /// Discards the request, because its lease is useless or belongs to another server.
    pub fn stop_asking(&mut self) -> Result<(), String> {
        self.keep(|state| state.asking = None)
    }

    /// Records that the requested lease was granted. The lease is not used until it has been renewed, because
    /// the registry signs only what it has committed.
    pub fn hold(&mut self, lease: Lease) -> Result<(), String> {
        self.keep(|state| state.hold(lease, new_token))?;
        self.is_unknown = false;
        self.is_inherited = false;
        Ok(())
    }

    /// Records a renewal, and the registry's signed statement of the earlier grant. Passes the lease to the
    /// keeper.
    pub fn renew(&mut self, lease: Lease, token: Option<String>) -> Result<(), String> {
        let now_us = clock::clock_us();
        self.keep(|state| {
            state.renew(lease, new_token);
            if let Some(token) = token {
                state.prove(token, now_us);
            }
        })?;
        if !self.state.is_proved() {
            return Err("the registry did not sign the lease: the registry may have an older version".into());
        }
        self.tell();
        Ok(())
    }

    /// Records that the registry does not know the lease.
    pub fn note_unknown(&mut self) {
        if let Some(Held { lease, .. }) = &self.state.held {
            log!(
                "snowflake_id: the registry does not know the lease of {}; this server uses the lease until its end",
                lease.identity
            );
        }
        self.is_unknown = true;
    }

    /// Returns whether the server can never use the lease. This is the case if the lease was granted before
    /// the last restart of the server, and the times of its use are unknown.
    pub fn is_refused(&self, needs: &Needs) -> bool {
        let is_unwanted = |held: &Held| needs.unwanted.contains(&held.lease.identity.worker);
        self.is_inherited
            && self.shared.gate.identity().is_none()
            && self.state.held.as_ref().is_some_and(is_unwanted)
    }

    /// Gives up an unusable lease. The lease ends because the worker no longer renews it. Later grants of the
    /// worker ID start after the end of this lease.
    pub fn let_go(&mut self) -> Result<(), String> {
        self.keep(|state| state.held = None)?;
        lease::tell(|lease_status| lease_status.lease = None);
        Ok(())
    }

    /// Drops a lease because another server is issuing IDs under the same lease, possibly for some time
    /// already.
    pub fn drop_twin(&mut self) -> Result<(), String> {
        lease::tell(|lease_status| lease_status.lease = None);
        self.shared.close_gate();
        self.shared.server_status.wakeup.request();
        // Drop the lease even if the file cannot be written.
        if let Some(Held { lease, .. }) = self.state.held.take() {
            ereport!(
                PgLogLevel::WARNING,
                PgSqlErrorCode::ERRCODE_WARNING,
                format!(
                    "snowflake_id: another server has the same lease of {}: one server is a copy of the other",
                    lease.identity
                )
            );
        }
        self.keep(|_| ())
    }

    /// If the keeper has no lease, passes the current lease to the keeper without contacting the registry.
    /// This is safe because the current lease belongs to this server alone.
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

    /// Changes the state. The changed state is written to the file first, and takes effect only if that
    /// succeeds.
    fn keep<T>(&mut self, change: impl FnOnce(&mut LeaseState) -> T) -> Result<T, String> {
        let mut state = self.state.clone();
        let result = change(&mut state);
        lease_file::write(&state)?;
        self.state = state;
        Ok(result)
    }
}
