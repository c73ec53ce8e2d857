//! Merges states that differ in nothing relevant.

use crate::lease::mutation::Mutation;
use crate::lease::protocol::Protocol;
use crate::lease::state::*;

/// More names than a state can hold.
const NAMES: usize = 32;

/// Names that are not in use.
pub const UNUSED: Name = NAMES as Name - 1;
pub const UNUSED_TOO: Name = UNUSED - 1;

impl Protocol {
    pub fn normalize(&self, state: &mut State) {
        for server in &mut state.servers {
            self.normalize_server(server);
        }
        if state.losses_left == 0 && !self.synchronous {
            state.standby = Registry::default(); // It is never read.
        }
        forget_dead_names(state);
        if state.losses_left == 0 && !state.registry.is_suspect {
            // Nonces are not forgotten from here on.
            let waiting = state.waiting.as_mut().map(|waiting| &mut waiting.after);
            for registry in [&mut state.registry, &mut state.standby].into_iter().chain(waiting) {
                registry.rows.iter_mut().for_each(|row| row.is_renewed &= row.nonce.is_none());
            }
        }
        rename(state);
        if !self.names_servers && self.servers == SERVERS {
            let mut swapped = *state;
            swap(&mut swapped);
            rename(&mut swapped);
            *state = (*state).min(swapped);
        }
    }

    fn normalize_server(&self, server: &mut Server) {
        server.counter = server.counter.min(self.end());
        // It will fail, because counters only grow.
        if server.caller.is_some_and(|(counter, _)| counter < server.counter) {
            server.caller = None;
        }
        let is_closed = server.gate.is_none() && server.caller.is_none();
        if is_closed && !matches!(server.keeper, Keeper::Ready(_) | Keeper::Uncapped) {
            (server.in_force, server.is_uncapped) = (None, false);
        }
        // Only in this case the age of a lease matters.
        let is_unknown = server.stored.horizon == 0 && server.published == 0;
        server.is_inherited &= is_unknown && server.file.held.is_some();
        let in_work = match &mut server.keeper {
            Keeper::Stored(plan) | Keeper::Fencing(plan) => plan.wanted.as_mut(),
            Keeper::Ready(published)
            | Keeper::AtShutdownHorizon(published)
            | Keeper::StoredReset(published, _) => Some(published),
            Keeper::Up | Keeper::Uncapped => None,
        };
        in_work.into_iter().chain(&mut server.in_force).for_each(|published| published.is_inherited = false);
        server.server_status.iter_mut().for_each(|published| published.is_inherited &= is_unknown);
        if !self.is(Mutation::OlderFile) {
            server.older.file = File::default(); // The file is not the original.
        }
        if !self.is_reset && !self.forgets {
            // Only the existence of records matters: identities are limited only by the horizon.
            for stored in [&mut server.stored, &mut server.older.stored] {
                if stored.uses.iter().flatten().any(|&until| until == 0) && stored.uses_of_all.is_none() {
                    stored.uses = [Some(0); IDENTITIES];
                }
            }
            server.last = server.last.map(|_| 0);
        }
        if !self.is_reset {
            server.highest = 0; // It only says which identities were used.
        }
        // The later of the two counts. The floor has a meaning of its own only where identities are refused.
        if server.floor.is_some_and(|floor| server.used <= floor) {
            server.used = 0;
        } else if !self.is_reset && !self.forgets {
            server.floor = server.floor.map(|floor| floor.max(server.used));
            server.used = 0;
        }
        if !self.is_reset && !self.crashes {
            server.used = 0; // The published horizon is beyond it.
            server.floor = server.floor.map(|_| start_of(0));
        }
    }
}

/// Forgets the names of leases that no server will name to the registry again, and names that the registry has never
/// seen: a server that asks with such a name could just as well ask with a new one.
fn forget_dead_names(state: &mut State) {
    let mut asked = Names::default();
    let mut given = Names::default();
    for server in &state.servers {
        server.file.held.iter().for_each(|held| asked.add(held.lease_id));
        server.file.asking.iter().for_each(|(lease_id, _)| asked.add(*lease_id));
        server.older.file.held.iter().for_each(|held| asked.add(held.lease_id));
        server.older.file.asking.iter().for_each(|(lease_id, _)| asked.add(*lease_id));
    }
    for call in state.stray.into_iter().chain(state.waiting.map(|waiting| waiting.call)) {
        asked.add(call.lease_id());
        given.add(call.lease_id());
    }
    let waiting = state.waiting.as_mut().map(|waiting| &mut waiting.after);
    for registry in [&mut state.registry, &mut state.standby].into_iter().chain(waiting) {
        for row in &mut registry.rows {
            match row.lease_id {
                Some(lease_id) if asked.has(lease_id) => given.add(lease_id),
                _ => (row.lease_id, row.nonce, row.is_renewed) = (None, None, false),
            }
        }
    }
    for server in &mut state.servers {
        for file in [&mut server.file, &mut server.older.file] {
            file.asking = file.asking.filter(|(lease_id, _)| given.has(*lease_id));
        }
    }
}

/// A set of names.
#[derive(Default)]
struct Names(u32);

impl Names {
    fn add(&mut self, name: Name) {
        self.0 |= 1 << name;
    }

    fn has(&self, name: Name) -> bool {
        self.0 & 1 << name != 0
    }
}

/// Renumbers the names in the order in which they are found.
fn rename(state: &mut State) {
    let mut lease_ids = Numbers::default();
    let mut nonces = Numbers::default();
    for server in &mut state.servers {
        for file in [&mut server.file, &mut server.older.file] {
            if let Some(held) = &mut file.held {
                lease_ids.number(&mut held.lease_id);
                nonces.number(&mut held.last);
                nonces.number(&mut held.next);
            }
            if let Some((lease_id, nonce)) = &mut file.asking {
                lease_ids.number(lease_id);
                nonces.number(nonce);
            }
        }
    }
    let waiting = state.waiting.as_mut().map(|waiting| &mut waiting.call);
    for call in state.stray.as_mut().into_iter().chain(waiting) {
        rename_call(call, &mut lease_ids, &mut nonces);
    }
    let waiting = state.waiting.as_mut().map(|waiting| &mut waiting.after);
    for registry in [&mut state.registry, &mut state.standby].into_iter().chain(waiting) {
        for row in &mut registry.rows {
            row.lease_id.iter_mut().for_each(|lease_id| lease_ids.number(lease_id));
            row.nonce.iter_mut().for_each(|nonce| nonces.number(nonce));
        }
    }
}

fn rename_call(call: &mut Call, lease_ids: &mut Numbers, nonces: &mut Numbers) {
    match call {
        Call::Acquire { lease_id, nonce } => {
            lease_ids.number(lease_id);
            nonces.number(nonce);
        }
        Call::Renew { lease_id, last, next, .. } | Call::Release { lease_id, last, next, .. } => {
            lease_ids.number(lease_id);
            nonces.number(last);
            nonces.number(next);
        }
    }
}

fn swap(state: &mut State) {
    state.servers.swap(0, 1);
    state.renewals.iter_mut().for_each(|counts| counts.swap(0, 1));
    let waiter = state.waiting.as_mut().and_then(|waiting| waiting.server.as_mut());
    waiter.into_iter().for_each(|server| *server = 1 - *server);
}

struct Numbers {
    new: [Option<Name>; NAMES],
    count: Name,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers { new: [None; NAMES], count: 0 }
    }
}

impl Numbers {
    fn number(&mut self, name: &mut Name) {
        *name = *self.new[usize::from(*name)].get_or_insert_with(|| {
            self.count += 1;
            self.count - 1
        });
    }
}

impl Call {
    fn lease_id(self) -> Name {
        let (Call::Acquire { lease_id, .. } | Call::Renew { lease_id, .. } | Call::Release { lease_id, .. }) =
            self;
        lease_id
    }
}
