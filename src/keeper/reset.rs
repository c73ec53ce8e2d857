//! `snowflake_reset_horizon`: puts a server back to work whose horizon was burnt into the far future, by a clock that was
//! years ahead at its start.
//!
//! It begins anew at the present, and so may hand out times of which it has made IDs before. That repeats nothing as long as it
//! does so under an identity that it has never used; which ones it has used is noted in a table, before the gate opens.
//! Identities that were used stay shut out until the stored horizon has come back to where it was.

use std::sync::atomic::Ordering;

use pgrx::prelude::*;
use snowflake_id_core::Identity;

use super::process::{is_stopping, transaction};
use super::{Keeper, Problem};
use crate::error::{Error, OrReport, name_of};
use crate::shared::Closed;
use crate::store::Stored;
use crate::wait::{Order, Patience, not_followed};
use crate::{compat, config, identity, status, store};

/// Asks the keeper to begin anew, and waits until it has.
#[pg_extern(volatile, parallel_unsafe)]
fn snowflake_reset_horizon(worker_id: i32, datacenter_id: default!(i32, 0)) {
    let identity = wanted_identity(worker_id, datacenter_id).or_report();
    let words = status::keeper();
    if compat::current_database() != Some(config::database()) {
        Err(Error::NotTheKeepersDatabase).or_report()
    }
    let is_used = identity::is_used(identity).unwrap_or_else(|problem| error!("{problem}"));
    if is_used || words.last_identity.identity() == Some(identity) {
        Err(Error::IdentityUsed(identity)).or_report()
    }
    let resets = words.resets.load(Ordering::Acquire);
    let looked = {
        words.reset_for.open(identity);
        let _order = Order::until_withdrawn_by(|| {
            if words.reset_for.identity() == Some(identity) {
                words.reset_for.close();
            }
        });
        Patience::of_order().wait_for_look()
    };
    let is_done = words.resets.load(Ordering::Acquire) != resets;
    if !is_done || words.last_reset_for.identity() != Some(identity) {
        looked.or_report();
        Err(not_followed(words)).or_report()
    }
    notice!("snowflake IDs can be made as soon as this server has {}", name_of(identity));
}

fn wanted_identity(worker_id: i32, datacenter_id: i32) -> Result<Identity, Error> {
    match (u32::try_from(worker_id), u32::try_from(datacenter_id)) {
        (Ok(worker), Ok(datacenter)) => Ok(Identity { datacenter, worker }),
        _ => Err(Error::NotAnIdentity { datacenter_id, worker_id }),
    }
}

impl Keeper {
    /// Begins anew, if an administrator has asked for it.
    ///
    /// What happens when the process dies: after the first commit, identities are shut out up to where the stored horizon
    /// is anyway. After the second, a keeper that comes next in the same shared memory writes the high horizon again; one
    /// after a restart finds the low one, with the identities shut out.
    pub(super) fn begin_anew_if_asked(&mut self) -> Result<(), Problem> {
        let words = &self.shared.keeper;
        let Some(wanted) = words.reset_for.identity() else { return Ok(()) };
        words.reset_for.close();
        if words.last_identity.identity() == Some(wanted) {
            return Err(Problem(format!("{} is in use by this server", name_of(wanted))));
        }
        let end_us = self.shared.fence(0, |_, _| 0).max(words.horizon_us.load(Ordering::Acquire));
        words.set_closed(Closed::Problem);
        self.committed = None;
        let sequence = transaction(|| {
            if identity::is_used(wanted)? {
                return Err(Problem(format!("{} has been used by this server", name_of(wanted))));
            }
            let stored = store::read()?.ok_or_else(|| Problem("there is no stored horizon".into()))?;
            identity::shut_out_until(stored.horizon_us.map_or(end_us, |stored_us| stored_us.max(end_us)))?;
            Ok(stored.sequence)
        })?;
        if is_stopping() {
            return Ok(());
        }
        let now_us = compat::clock_us();
        let horizon_us = self.next_horizon_us(now_us, []);
        transaction(|| Ok(store::write(sequence, horizon_us)?))?;
        if is_stopping() {
            return Ok(());
        }
        self.committed = Some(Stored { sequence, horizon_us: Some(horizon_us) });
        words.clock_offset_us.store(0, Ordering::Relaxed); // The clock is taken as it is, as at a start.
        words.advance_to_us.store(0, Ordering::Release); // What was ordered by a wrong clock.
        words.advanced_to_us.store(0, Ordering::Release);
        self.shared.begin_anew(now_us, horizon_us);
        words.last_reset_for.open(wanted);
        words.resets.fetch_add(1, Ordering::Release);
        log!("snowflake_id: the horizon was reset to the present, for {}", name_of(wanted));
        Ok(())
    }
}
