//! Calls of the registry's functions, and their answers.

use snowflake_id_core::Identity;
use snowflake_id_core::lease_state::Needs;
use uuid::Uuid;

use crate::{Period, RequestName, Token};

/// What each request of a server contains.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    pub protocol: u32,
    pub registry_id: Option<Uuid>,
    pub tokens: Vec<Token>,
    pub node_name: Option<String>,
    /// The login role.
    pub role: String,
    /// The worker IDs that the server's configuration sets by hand. Only `acquire()` reads them.
    pub by_hand: Vec<u32>,
    /// The server's clock. `take()` and `release()` do not read it.
    pub clock_us: i64,
    pub round_trip_us: i64,
}

/// The holder of a lease, as it identifies itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identification {
    pub lease_id: Uuid,
    pub last_nonce: Uuid,
    pub next_nonce: Uuid,
}

#[derive(Clone, Debug)]
pub enum Call {
    Acquire { caller: Caller, lease_id: Uuid, nonce: Uuid, needs: Needs },
    Renew { caller: Caller, ids: Identification },
    Release { caller: Caller, ids: Identification, used_until_us: Option<i64> },
    Take { caller: Caller, is_local: bool, requests: Vec<Request> },
    Administer(Administration),
}

/// A request for numbers of one segment.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub name: String,
    pub had_until: Option<i64>,
    /// The registry of these numbers: the one of the call, unless this says otherwise.
    pub registry_id: Option<Option<Uuid>>,
    pub lasted_s: Option<i64>,
    pub count: Option<i64>,
    pub period_key: Option<i64>,
    pub is_next: bool,
    pub is_report: bool,
}

/// The arguments of `create_segment()`.
#[derive(Clone, Debug)]
pub struct SegmentShape {
    pub start: i64,
    pub increment: i64,
    pub min_step: i64,
    pub max_step: i64,
    pub max_value: i64,
    pub period: Option<Period>,
}

/// A call of an administrator. `None` leaves a value as it is.
#[derive(Clone, Debug)]
pub enum Administration {
    StartFleet {
        first_worker: Option<u32>,
        last_worker: Option<u32>,
        not_before_us: Option<i64>,
        first_start: bool,
        name: RequestName,
    },
    EndFleet,
    RequireProtocol {
        lowest: u32,
    },
    Configure {
        lease_us: Option<i64>,
        renew_every_us: Option<i64>,
        first_worker: Option<u32>,
        last_worker: Option<u32>,
        last_datacenter: Option<u32>,
        synchronous: Option<bool>,
        witnesses: Option<bool>,
        none_by_hand: bool,
        name: RequestName,
    },
    RevokeLease(Identity),
    Reserve {
        identity: Identity,
        /// A login role. `None` reserves the worker ID for use by hand.
        used_by: Option<String>,
        name: RequestName,
    },
    GiveUpReservation(Identity),
    Freeze {
        until_us: i64,
        name: RequestName,
    },
    Unfreeze {
        name: RequestName,
    },
    Quarantine,
    EndQuarantine,
    CreateSegment {
        name: String,
        shape: SegmentShape,
    },
    AlterSegment {
        name: String,
        min_step: Option<i64>,
        max_step: Option<i64>,
        max_value: Option<i64>,
        next_value: Option<i64>,
    },
    DropSegment {
        name: String,
    },
    ResumeSegment {
        name: String,
        next_value: i64,
    },
    ResumeSegments,
    /// Limits the role of the callers to its segments, and grants it one.
    GrantSegment {
        name: String,
    },
    RevokeSegment {
        name: String,
    },
    GrantAllSegments,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Lease(LeaseAnswer),
    Taken(Vec<Taken>),
    Done(Reply),
    Failed(Fault),
}

/// The result of an administrator's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    Nothing,
    Instant(i64),
    Count(u64),
}

/// An error of an administrator's call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    InvalidValue,
    WrongState,
    InUse,
    NoSuchObject,
    AlreadyExists,
    NotHeld,
}

impl Fault {
    pub fn sqlstate(self) -> &'static str {
        match self {
            Fault::InvalidValue => "22023",
            Fault::WrongState => "55000",
            Fault::InUse => "55006",
            Fault::NoSuchObject => "42704",
            Fault::AlreadyExists => "42710",
            Fault::NotHeld => "P0002",
        }
    }
}

/// The outcome of `acquire()`, `renew()` and `release()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Granted,
    Released,
    Unknown,
    Twin,
    Taken,
    NotStarted,
    Quarantine,
    Clock,
    Foreign,
    RegistryTooOld,
    CallerTooOld,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Granted => "granted",
            Outcome::Released => "released",
            Outcome::Unknown => "unknown",
            Outcome::Twin => "twin",
            Outcome::Taken => "taken",
            Outcome::NotStarted => "not started",
            Outcome::Quarantine => "quarantine",
            Outcome::Clock => "clock",
            Outcome::Foreign => "foreign",
            Outcome::RegistryTooOld => "registry too old",
            Outcome::CallerTooOld => "caller too old",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct LeaseAnswer {
    pub outcome: Outcome,
    pub lease_us: i64,
    pub renew_every_us: i64,
    pub identity: Option<Identity>,
    /// The granted range.
    pub range_us: Option<(i64, i64)>,
    pub free_from_us: Option<i64>,
    pub token: Option<Token>,
}

/// The outcome of a request for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakeOutcome {
    Granted,
    Noted,
    Unknown,
    Dropped,
    Lost,
    Closed,
    Busy,
    Denied,
    Invalid,
    Ahead,
    Exhausted,
    Foreign,
    RegistryTooOld,
    CallerTooOld,
    Empty,
}

impl TakeOutcome {
    pub fn name(self) -> &'static str {
        match self {
            TakeOutcome::Granted => "granted",
            TakeOutcome::Noted => "noted",
            TakeOutcome::Unknown => "unknown",
            TakeOutcome::Dropped => "dropped",
            TakeOutcome::Lost => "lost",
            TakeOutcome::Closed => "closed",
            TakeOutcome::Busy => "busy",
            TakeOutcome::Denied => "denied",
            TakeOutcome::Invalid => "invalid",
            TakeOutcome::Ahead => "ahead",
            TakeOutcome::Exhausted => "exhausted",
            TakeOutcome::Foreign => "foreign",
            TakeOutcome::RegistryTooOld => "registry too old",
            TakeOutcome::CallerTooOld => "caller too old",
            TakeOutcome::Empty => "empty",
        }
    }
}

/// A row of the result of `take()`.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The number of the request, from 1, unless the row is about the whole call.
    pub request: Option<usize>,
    pub name: Option<String>,
    pub outcome: TakeOutcome,
    /// The first number and the count.
    pub range: Option<(i64, i64)>,
    /// The increment, the highest number and the size of the next range.
    pub shape: Option<(i64, i64, i64)>,
    pub period_key: Option<i64>,
    /// The start and the end of the period.
    pub period_us: Option<(i64, i64)>,
    pub token: Option<Token>,
}

impl Taken {
    pub(crate) fn of(outcome: TakeOutcome) -> Taken {
        Taken {
            request: None,
            name: None,
            outcome,
            range: None,
            shape: None,
            period_key: None,
            period_us: None,
            token: None,
        }
    }
}
