//! What there is: the registry, the servers, what is on its way between them, and what the checker remembers.

/// How many servers there are.
pub const SERVERS: usize = 2;
/// How many identities there are at most.
pub const IDENTITIES: usize = 2;
/// How far ahead of the clock a keeper writes the horizon.
pub const HORIZON_LEASE: u8 = 1;

/// Worker 0 or worker 1.
pub type Identity = u8;
/// A lease_id or a nonce. Random in truth; here any number that is not in use.
pub type Name = u8;

/// Everything. All instants are ticks, and a tick has one ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct State {
    pub servers: [Server; SERVERS],
    /// As it is committed and read.
    pub registry: Registry,
    /// What a standby of the registry has; also a dump of it.
    pub standby: Registry,
    /// How often the registry may yet lose commits.
    pub losses_left: u8,
    /// A commit that waits for the standby. Until that ends nobody reads it, and it holds the locks.
    pub waiting: Option<Waiting>,
    /// A call that its sender has given up, and that the registry may still carry out, also twice.
    pub stray: Option<Call>,
    /// The time that has passed. Where it does not count, it stands still at its end.
    pub now: u8,
    /// One ID that was handed out, any one: its identity and its tick.
    pub watched: Option<(Identity, u8)>,
    /// Once the memory of a server was copied: how often each of the two had its lease renewed since.
    pub renewals: Option<[u8; SERVERS]>,
    pub verdict: Verdict,
}

/// The tables of the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Registry {
    pub rows: [Row; IDENTITIES],
    pub nothing_before: u8,
    /// Whether anything shows that commits were lost (timeline, system identifier, xmin), or the registry is
    /// new.
    pub is_suspect: bool,
}

/// One identity. It is free from the start of time on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub from: u8,
    pub until: u8,
    pub lease_id: Option<Name>,
    /// Null with a lease_id: after a loss, when it is not known which nonce came last.
    pub nonce: Option<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Waiting {
    /// Who waits for the answer, if anybody does.
    pub server: Option<usize>,
    pub call: Call,
    pub answer: Answer,
    pub after: Registry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    Acquire { lease_id: Name, nonce: Name },
    Renew { identity: Identity, lease_id: Name, last: Name, next: Name },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Answer {
    Granted(Lease),
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
    /// On disk: the stored horizon. Of how it gets there the model of the horizon treats.
    pub horizon: u8,
    /// The rest is memory. What the registry worker has published.
    pub board: Option<Published>,
    /// The lease for which the keeper has opened, or is about to open.
    pub in_force: Option<Published>,
    pub gate: Option<Identity>,
    pub counter: u8,
    /// The published horizon: the first tick that may not be used.
    pub limit: u8,
    pub keeper: Keeper,
    /// A caller: the counter and the identity that it has loaded. It may stay like that for ever.
    pub caller: Option<(u8, Identity)>,
}

/// `snowflake_id.lease`. A copy of it, and one that was there when the host was booted, fails the check of
/// its evidence. That is as if it were not there; so a copy has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct File {
    pub held: Option<Held>,
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
    /// Whether the file says so too.
    pub is_filed: bool,
    /// Granted since this server was started, and never opened for: nothing of it was used.
    pub is_fresh: bool,
}

/// What the keeper does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Keeper {
    #[default]
    Up,
    /// A horizon at or above `from` is stored.
    Stored(Published),
    /// The gate is closed.
    Fencing(Published),
    /// Counter and horizon are set.
    Ready(Published),
    /// Only when broken: the gate is open, the horizon is yet to be capped.
    Uncapped,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    #[default]
    Good,
    /// An ID was handed out twice.
    Repeated,
    /// An ID does not start inside a lease that is on disk, or not below the stored horizon.
    Outside,
    /// A server whose range goes on, and of which there is no copy, was told that it has a twin.
    CalledTwin,
}

impl Lease {
    pub fn is_same(&self, other: &Lease) -> bool {
        (self.identity, self.from) == (other.identity, other.from)
    }

    pub fn has(&self, identity: Identity, tick: u8) -> bool {
        self.identity == identity && (self.from..self.until).contains(&tick)
    }

    pub fn overlaps(&self, other: &Lease) -> bool {
        self.identity == other.identity && self.from < other.until && other.from < self.until
    }
}

impl Server {
    /// What is left after a crash: the disk. Slots begin at the stored horizon.
    pub fn restarted(&self) -> Server {
        let Server { file, horizon, .. } = *self;
        Server { file, horizon, counter: horizon, ..Server::default() }
    }

    /// Every lease by which this server may still act.
    pub fn leases(&self) -> impl Iterator<Item = Lease> + use<> {
        let in_work = match self.keeper {
            Keeper::Stored(lease) | Keeper::Fencing(lease) | Keeper::Ready(lease) => Some(lease),
            Keeper::Up | Keeper::Uncapped => None,
        };
        let published = [self.board, self.in_force, in_work].map(|published| published.map(|it| it.lease));
        published.into_iter().chain([self.file.held.map(|held| held.lease)]).flatten()
    }
}
