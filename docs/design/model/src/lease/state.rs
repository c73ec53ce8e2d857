//! The state: the registry, the servers, messages in transit, and the checker's records.

/// The number of servers.
pub const SERVERS: usize = 2;
/// The maximum number of identities.
pub const IDENTITIES: usize = 2;
/// Worker 0 or worker 1.
pub type Identity = u8;
/// A lease_id or a nonce. It is random in the product; here it is any unused number.
pub type Name = u8;

/// The whole state. All instants are ticks, and a tick has one ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub servers: [Server; SERVERS],
    /// The registry as it is committed and read.
    pub registry: Registry,
    /// The state of the registry's standby, or a dump.
    pub standby: Registry,
    /// How many more times the registry may lose commits.
    pub losses_left: u8,
    /// A commit that waits for the standby. Until the wait ends, no other transaction can read it, and it holds the
    /// locks.
    pub waiting: Option<Waiting>,
    /// A call that its sender has given up. The registry may still execute it, even twice.
    pub stray: Option<Call>,
    /// The time that has passed. Where it does not count, it stands still at its end.
    pub now: u8,
    /// Any one of the issued IDs: its identity and its tick.
    pub watched: Option<(Identity, u8)>,
    /// After the memory of a server was copied: how often each of the two has renewed its lease since.
    pub renewals: Option<[u8; SERVERS]>,
    pub verdict: Verdict,
}

/// The tables of the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Registry {
    pub rows: [Row; IDENTITIES],
    pub nothing_before: u8,
    /// Whether there is evidence that commits were lost (timeline, system identifier, xmin), or the registry is new.
    pub is_suspect: bool,
}

/// An identity. It is free from the start of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub from: u8,
    pub until: u8,
    pub lease_id: Option<Name>,
    /// Null with a lease_id after a loss, when the last nonce is not known.
    pub nonce: Option<Name>,
    /// Whether it was renewed since it was granted.
    pub is_renewed: bool,
    /// After a release: where the next range may start.
    pub used_until: Option<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Waiting {
    /// The server that waits for the reply, if any.
    pub server: Option<usize>,
    pub call: Call,
    pub answer: Answer,
    pub after: Registry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    Acquire { lease_id: Name, nonce: Name },
    Renew { identity: Identity, lease_id: Name, last: Name, next: Name },
    Release { identity: Identity, lease_id: Name, last: Name, next: Name, used_until: u8 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    Granted(Lease),
    Released,
    Twin,
}

/// A range of ID time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    pub identity: Identity,
    pub from: u8,
    pub until: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Server {
    /// On disk.
    pub file: File,
    /// On disk: the stored horizon and the records of use. The model of the keeper covers how they are written.
    pub stored: Stored,
    /// An older copy of the data directory, if it can be restored.
    pub older: Disk,
    /// The other fields are memory. The lease that the registry worker has published.
    pub server_status: Option<Published>,
    /// Whether the lease in the file was granted before the registry worker started.
    pub is_inherited: bool,
    /// The start of slots, once the keeper has determined it.
    pub floor: Option<Instant>,
    /// The last published horizon, the last promised horizon, and the highest horizon so far.
    pub published: Instant,
    pub promised: Instant,
    pub highest: Instant,
    /// The identity for which the gate was last open.
    pub last: Option<Identity>,
    /// The lease that limits slots: the lease for which the keeper has opened, or is about to open, the gate.
    pub in_force: Option<Published>,
    /// Only in a broken protocol: the lease does not limit slots.
    pub is_uncapped: bool,
    pub gate: Option<Identity>,
    pub counter: u8,
    /// The end of the IDs that were issued since the start.
    pub used: Instant,
    pub keeper: Keeper,
    /// A caller: the counter and the identity that it has loaded. It may pause forever.
    pub caller: Option<(u8, Identity)>,
}

/// An instant of ID time: 0 is none, 2t + 1 is the start of tick t, and 2t + 2 is just after that, where the use of the
/// tick ends.
pub type Instant = u8;

/// The start of a tick.
pub const fn start_of(tick: u8) -> Instant {
    2 * tick + 1
}

/// The first tick that starts at or after an instant.
pub const fn first_tick_from(instant: Instant) -> u8 {
    instant / 2
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Disk {
    pub file: File,
    pub stored: Stored,
}

/// The keeper's stored data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stored {
    pub horizon: Instant,
    /// Up to when each identity was used, if it was. 0 means up to the horizon.
    pub uses: [Option<Instant>; IDENTITIES],
    /// The same for identities without a record of their own.
    pub uses_of_all: Option<Instant>,
}

/// `snowflake_id.lease`: a `LeaseState`. Of the evidence, only whether there is any for the lease in hand. All other
/// evidence is covered by the model of a registry that forgets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct File {
    pub held: Option<Held>,
    pub is_proved: bool,
    pub asking: Option<(Name, Name)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Held {
    pub lease: Lease,
    pub lease_id: Name,
    pub last: Name,
    pub next: Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Published {
    pub lease: Lease,
    /// Whether the file contains it too.
    pub is_filed: bool,
    /// Whether it was granted before the registry worker started.
    pub is_inherited: bool,
}

/// The keeper's position between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Keeper {
    #[default]
    Up,
    /// The plan is stored.
    Stored(Plan),
    /// The gate is closed.
    Fencing(Plan),
    /// Counter and limit are set.
    Ready(Published),
    /// Only in a broken protocol: the gate is open, and slots are yet to be limited.
    Uncapped,
    /// A reset: the gate is closed, and the high-water mark is noted.
    AtShutdownHorizon(Published),
    /// A reset: the low horizon is stored, with the new start.
    StoredReset(Published, Instant),
}

/// The part of a `keeper_plan::Plan` that is carried out after the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Plan {
    pub floor: Instant,
    pub horizon: Option<Instant>,
    pub from: Instant,
    pub gate: Gate,
    /// The lease for which the plan was made.
    pub wanted: Option<Published>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Gate {
    Stay,
    Open { is_another: bool },
    Reset,
    Close,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    #[default]
    Good,
    /// An ID was issued twice.
    Repeated,
    /// An ID does not start inside a lease that is on disk, or not below the stored horizon.
    Outside,
    /// A server whose range continues, and which has no copy, was told that it has a twin.
    CalledTwin,
}

impl Lease {
    pub fn has(&self, identity: Identity, tick: u8) -> bool {
        self.identity == identity && (self.from..self.until).contains(&tick)
    }

    pub fn overlaps(&self, other: &Lease) -> bool {
        self.identity == other.identity && self.from < other.until && other.from < self.until
    }
}

impl Server {
    /// The server after a crash: only its disk is left.
    pub fn restarted(&self) -> Server {
        let Server { file, stored, older, .. } = *self;
        Server { file, stored, older, is_inherited: true, ..Server::default() }
    }

    /// The first tick that must not be used.
    pub fn limit(&self) -> u8 {
        let capped = self.in_force.filter(|_| !self.is_uncapped);
        let until = capped.map_or(Instant::MAX, |published| start_of(published.lease.until));
        first_tick_from(self.published.min(until))
    }

    /// Every lease under which this server may still act.
    pub fn leases(&self) -> impl Iterator<Item = Lease> + use<> {
        let in_work = match self.keeper {
            Keeper::Stored(plan) | Keeper::Fencing(plan) => plan.wanted,
            Keeper::Ready(lease) | Keeper::AtShutdownHorizon(lease) | Keeper::StoredReset(lease, _) => {
                Some(lease)
            }
            Keeper::Up | Keeper::Uncapped => None,
        };
        let published =
            [self.server_status, self.in_force, in_work].map(|published| published.map(|it| it.lease));
        published.into_iter().chain([self.file.held.map(|held| held.lease)]).flatten()
    }
}
