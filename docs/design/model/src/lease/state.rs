//! What there is: the registry, the servers, what is on its way between them, and what the checker remembers.

/// How many servers there are.
pub const SERVERS: usize = 2;
/// How many identities there are at most.
pub const IDENTITIES: usize = 2;
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
    /// Whether it was renewed since it was given.
    pub is_renewed: bool,
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
    /// On disk: the stored horizon and the records of use. Of how they get there the model of the horizon treats.
    pub stored: Stored,
    /// What an older copy of the data directory has, where it can be restored.
    pub older: Disk,
    /// The rest is memory. What the registry worker has published.
    pub server_status: Option<Published>,
    /// Whether the lease in the file was granted before the registry worker began.
    pub is_inherited: bool,
    /// Where slots begin, once the keeper has found that out.
    pub floor: Option<Instant>,
    /// The horizon that was published last, that which was promised last, and the highest one ever.
    pub published: Instant,
    pub promised: Instant,
    pub highest: Instant,
    /// The identity for which the gate was open last.
    pub last: Option<Identity>,
    /// The lease that limits slots: that for which the keeper has opened, or is about to open.
    pub in_force: Option<Published>,
    /// Only when broken: it does not.
    pub is_uncapped: bool,
    pub gate: Option<Identity>,
    pub counter: u8,
    /// The end of what was handed out since the start.
    pub used: Instant,
    pub keeper: Keeper,
    /// A caller: the counter and the identity that it has loaded. It may stay like that for ever.
    pub caller: Option<(u8, Identity)>,
}

/// An instant of ID time: 0 is none; 2t + 1 is the start of tick t, and 2t + 2 just after it, which is where the use of
/// the tick ends.
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

/// What the keeper has stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Stored {
    pub horizon: Instant,
    /// Up to when an identity was used, if it was. 0: up to the horizon.
    pub uses: [Option<Instant>; IDENTITIES],
    /// The same of those without a record of their own.
    pub uses_of_all: Option<Instant>,
}

/// `snowflake_id.lease`: a `LeaseState`. Of evidence only whether there is some of the lease in hand; what else a server can
/// show is in the model of a registry that forgets.
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
    /// Whether the file says so too.
    pub is_filed: bool,
    /// Whether it was granted before the registry worker began.
    pub is_inherited: bool,
}

/// What the keeper does next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Keeper {
    #[default]
    Up,
    /// What is planned is stored.
    Stored(Plan),
    /// The gate is closed.
    Fencing(Plan),
    /// Counter and limit are set.
    Ready(Published),
    /// Only when broken: the gate is open, slots are yet to be limited.
    Uncapped,
    /// Everything is to begin anew: the gate is closed, and what was handed out is noted.
    AtShutdownHorizon(Published),
    /// The same: the low horizon is stored, which begins here.
    StoredReset(Published, Instant),
}

/// The part of a `keeper_plan::Plan` that is carried out after the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Plan {
    pub floor: Instant,
    pub horizon: Option<Instant>,
    pub from: Instant,
    pub gate: Gate,
    /// The lease that it was made with.
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
    /// An ID was handed out twice.
    Repeated,
    /// An ID does not start inside a lease that is on disk, or not below the stored horizon.
    Outside,
    /// A server whose range goes on, and of which there is no copy, was told that it has a twin.
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
    /// What is left after a crash: the disk.
    pub fn restarted(&self) -> Server {
        let Server { file, stored, older, .. } = *self;
        Server { file, stored, older, is_inherited: true, ..Server::default() }
    }

    /// The first tick that may not be used.
    pub fn limit(&self) -> u8 {
        let capped = self.in_force.filter(|_| !self.is_uncapped);
        let until = capped.map_or(Instant::MAX, |published| start_of(published.lease.until));
        first_tick_from(self.published.min(until))
    }

    /// Every lease by which this server may still act.
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
