//! All errors that a user can see, each with its SQLSTATE, message, DETAIL and HINT. The file is long because it is a
//! single list.

use std::time::Duration;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_id_core::mask::KEY_BYTES;
use snowflake_id_core::message::instant;
use snowflake_id_core::public::{PrefixError, PublicTextError, UuidError};
use snowflake_id_core::short_mask::{DIGITS, DomainError};
use snowflake_id_core::{Encoding, Field, Identity, Layout, LayoutError, RangeError, Stall, TextError};
use uuid::Uuid;

use crate::pg::encoding::{in_any_encoding, is_in_any_encoding};

/// The reason why a call fails. Strings from the user are always converted with
/// [`shown`](snowflake_id_core::message::shown) before an error quotes them.
#[derive(Debug)]
pub enum Error {
    NotPreloaded,
    NoWorkerId {
        database: String,
        node_name: String,
    },
    InRecovery,
    NoKeeperInRecovery,
    WatermarkInRecovery,
    WatermarkInParallelWorker,
    WatermarkOfClockSequence {
        layout: Layout,
    },
    NotCalledAsTrigger,
    /// The trigger has wrong arguments, or is not a trigger for inserted or updated rows.
    OwnIdTrigger,
    OwnIdColumn {
        column: String,
    },
    NotOwnId {
        id: i64,
        layout: Layout,
    },
    /// The identity that was requested for a reset does not fit the layout.
    ResetDoesNotFit {
        layout: Layout,
        problem: RangeError,
    },
    IdentityDoesNotFit {
        layout: Layout,
        problem: RangeError,
    },
    TooManyLayouts {
        most: usize,
        retired: usize,
    },
    InvalidLayout {
        text: String,
        problem: LayoutError,
    },
    InvalidLayoutSetting {
        text: String,
        problem: LayoutError,
    },
    NameLength {
        parameter: &'static str,
        text: String,
        bytes: usize,
        least: usize,
        most: usize,
    },
    /// The error does not quote the setting, which may contain a password.
    InvalidRegistry {
        problem: String,
    },
    PasswordInRegistry,
    InvalidSegmentList,
    /// The registry has not granted an identity to this server.
    NoLease {
        state: &'static str,
        free_from_us: i64,
    },
    LeaseEnded {
        until_us: i64,
        state: &'static str,
    },
    /// With a registry, an administrator cannot choose the identity.
    IdentityIsLeased,
    NoIdentityToReset,
    NullDatacenter,
    WaitTooLong {
        layout: Layout,
        wait: Duration,
        left: Duration,
        max_wait: Duration,
    },
    /// The gate is closed. Callers wait for the keeper and do not report this error.
    GateClosed,
    KeeperNotReady {
        report: String,
    },
    /// The current transaction has created the extension, so the keeper does not see the extension yet.
    ExtensionUncommitted,
    HorizonStalled {
        obstacle: Obstacle,
        report: String,
        max_wait: Duration,
    },
    FloorTooFar,
    NotTheKeepersDatabase {
        database: String,
    },
    IdentityUsed(Identity),
    /// A reset is not possible, because all identities that the registry may grant are blocked until a time in the
    /// future.
    NothingIsReset,
    /// It is not known which identities this server has used.
    HistoryUnknown(Identity),
    AnotherRequest,
    NotAnIdentity {
        datacenter_id: i32,
        worker_id: i32,
    },
    ClockJumped {
        jump: Duration,
    },
    Exhausted {
        layout: Layout,
    },
    BeforeEpoch {
        layout: Layout,
        wait: Duration,
    },
    BatchCount {
        count: i64,
        most: i64,
    },
    BlockCount {
        count: i64,
        most: u64,
        layout: Layout,
    },
    OutOfMemory {
        bytes: usize,
    },
    NoCurrval,
    UnknownEncoding {
        name: String,
    },
    InvalidText {
        text: String,
        problem: TextError,
    },
    InvalidPrefix {
        prefix: String,
        problem: PrefixError,
    },
    InvalidPublicId {
        text: String,
        problem: PublicTextError,
    },
    InvalidUuid {
        uuid: [u8; 16],
        problem: UuidError,
    },
    /// The key has the wrong length. The error contains the length of the key, but never the key itself.
    KeyLength(usize),
    NoMaskKey {
        name: String,
    },
    /// The error does not quote the argument, because the argument is a key.
    MaskKeyForName,
    /// A masked number does not reveal which of two keys made it.
    TwoMaskKeys {
        name: String,
    },
    NullMaskKey,
    SameMaskKey {
        name: String,
    },
    /// The key has a next key, or a previous key if the keys were switched.
    MaskKeyBeingChanged {
        name: String,
        is_switched: bool,
    },
    NoNextMaskKey {
        name: String,
        is_switched: bool,
    },
    NoPreviousMaskKey {
        name: String,
        is_prepared: bool,
    },
    Domain(DomainError),
    Range(RangeError),
    /// The errors of segments begin here. Their names are always converted with `shown`, and their details are messages
    /// from the registry.
    SegmentsInRecovery,
    /// The role is an SQL identifier.
    SegmentDenied {
        name: String,
        role: String,
    },
    /// Table `segment_grant` cannot be read, because its columns were changed.
    SegmentGrants,
    /// The default of a column requires the privilege. The function and the role are SQL identifiers.
    SegmentNextvalDenied {
        function: String,
        role: String,
    },
    SegmentName {
        name: String,
        bytes: usize,
        most: usize,
    },
    SegmentUnknown {
        name: String,
        detail: Option<String>,
        /// The name of the existing segment that the user probably meant.
        near: Option<String>,
    },
    SegmentClosed {
        name: String,
        detail: Option<String>,
    },
    SegmentExhausted {
        name: String,
        detail: Option<String>,
    },
    SegmentAhead {
        name: String,
        detail: Option<String>,
    },
    SegmentRefused {
        name: String,
        detail: Option<String>,
    },
    SegmentDeniedByRegistry {
        name: String,
        detail: Option<String>,
    },
    NoSegmentRegistry {
        problem: String,
    },
    /// The problem contains the GRANT statement to run.
    SegmentsDenied {
        problem: String,
    },
    SegmentFile {
        problem: String,
    },
    SegmentRegistryVersion {
        problem: String,
    },
    SegmentRegistryAway {
        problem: String,
        since_us: i64,
    },
    SegmentTooLate {
        name: String,
        max_wait: Duration,
        detail: String,
    },
    TooManySegments {
        most: usize,
        can_have_more: bool,
    },
    SegmentBatchCount {
        count: i64,
        most: i64,
    },
    SegmentNoCurrval {
        name: String,
    },
}

impl From<RangeError> for Error {
    fn from(problem: RangeError) -> Error {
        Error::Range(problem)
    }
}

impl From<DomainError> for Error {
    fn from(problem: DomainError) -> Error {
        Error::Domain(problem)
    }
}

/// Returns the value, or raises the error.
pub trait OrReport {
    type Value;
    fn or_report(self) -> Self::Value;
}

impl<T> OrReport for Result<T, Error> {
    type Value = T;

    #[inline]
    fn or_report(self) -> T {
        match self {
            Ok(value) => value,
            Err(error) => error.report(),
        }
    }
}

/// Describes layouts that have room for a value that does not fit in this layout.
fn with_room(problem: &RangeError) -> String {
    match problem {
        RangeError::Field { field, max: 0, .. } => format!("with a {} field", field.name()),
        RangeError::Field { field, .. } => format!("with more {} bits", field.name()),
        _ => "with larger fields".into(),
    }
}

/// The obstacle that keeps the keeper from extending the horizon.
#[derive(Clone, Copy, Debug)]
pub enum Obstacle {
    /// A commit in progress.
    Commit,
    /// An error that the keeper has reported.
    Failure,
    /// Neither a commit nor an error of the keeper is known.
    Unknown,
}

/// A hint that suits any role. Superusers and members of `pg_monitor` may read the view.
const ASK_FOR_THE_REASON: &str = "The reason is in the server log and in view snowflake_status. Superusers and members of pg_monitor can run: SELECT registry_state, last_error FROM snowflake_status;";

/// The fields of a PostgreSQL error. The strings `detail` and `hint` are empty if the error has no DETAIL or HINT.
pub struct Texts {
    pub sqlstate: PgSqlErrorCode,
    pub message: String,
    pub detail: String,
    pub hint: String,
}

fn texts(
    sqlstate: PgSqlErrorCode,
    message: impl Into<String>,
    detail: impl Into<String>,
    hint: impl Into<String>,
) -> Texts {
    Texts { sqlstate, message: message.into(), detail: detail.into(), hint: hint.into() }
}

impl Error {
    /// Returns an error if the stall of a layout will not end, however long a call waits.
    pub fn unless_it_passes(layout: &Layout, stall: Stall) -> Result<(), Error> {
        match stall {
            Stall::Exhausted => Err(Error::Exhausted { layout: *layout }),
            Stall::BeforeEpoch { wait_us } => {
                Err(Error::BeforeEpoch { layout: *layout, wait: Duration::from_micros(wait_us) })
            }
            Stall::Identity(_) | Stall::Ahead { .. } | Stall::Horizon => Ok(()),
        }
    }

    #[cold]
    fn report(self) -> ! {
        ErrorReport::from(self).report(PgLogLevel::ERROR);
        unreachable!("ERROR does not return")
    }

    /// Returns the error's messages in a form that can be sent in every client encoding.
    pub fn texts(&self) -> Texts {
        let Texts { sqlstate, message, detail, hint } = self.texts_in_utf8();
        let [message, detail, hint] = [message, detail, hint].map(in_any_encoding);
        Texts { sqlstate, message, detail, hint }
    }

    fn texts_in_utf8(&self) -> Texts {
        use PgSqlErrorCode::*;
        match self {
            Error::NotPreloaded => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "snowflake_id is not in shared_preload_libraries",
                "IDs are issued from shared memory, which only a preloaded library can allocate. IDs can be decoded without preloading the library.",
                "Add snowflake_id to shared_preload_libraries, and restart the server. SHOW shared_preload_libraries returns the libraries to keep.",
            ),
            Error::NoWorkerId { database, node_name } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server has no worker ID",
                format!(
                    "Setting snowflake_id.worker_id is -1, and table snowflake_workers in database \"{database}\" has no row with node_name \"{node_name}\"."
                ),
                format!(
                    "Assign a worker ID N that no other server of the fleet has or ever had. To use the setting: ALTER SYSTEM SET snowflake_id.worker_id = N; SELECT pg_reload_conf(); To use the table, run in database \"{database}\": INSERT INTO snowflake_workers (node_name, worker_id) VALUES ({}, N); If a registry leases worker IDs in the fleet, call snowflake_registry.add_server() there instead, and set snowflake_id.registry as its result says.",
                    literal(node_name)
                ),
            ),
            Error::InRecovery => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot issue snowflake IDs during recovery",
                "A standby would issue the same IDs as its primary.",
                "Request the IDs from the primary.",
            ),
            Error::NoKeeperInRecovery => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot send requests to the snowflake_id keeper during recovery",
                "The keeper does not run during recovery.",
                "Call the function again after the server has been promoted, for example by pg_promote().",
            ),
            Error::WatermarkInRecovery => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot compute a watermark during recovery",
                "Only the server that issues the IDs knows its watermark.",
                "Run on the primary: SELECT snowflake_watermark(), pg_current_wal_insert_lsn(); When pg_last_wal_replay_lsn() on the standby has reached this position, read the rows below the watermark in a new transaction.",
            ),
            Error::WatermarkInParallelWorker => texts(
                ERRCODE_INVALID_TRANSACTION_STATE,
                "cannot compute a watermark in a parallel worker",
                "The processes of a parallel query could get different watermarks.",
                "Declare the function that calls snowflake_watermark() as PARALLEL RESTRICTED.",
            ),
            Error::WatermarkOfClockSequence { layout } => texts(
                ERRCODE_FEATURE_NOT_SUPPORTED,
                "layouts with a clock sequence have no watermark",
                format!(
                    "After the clock is set back, IDs of layout \"{}\" can be lower than earlier ones.",
                    layout.label()
                ),
                "Use a layout without field clock_seq for tables that are read in the order of their IDs.",
            ),
            // PL/pgSQL uses the same wording.
            Error::NotCalledAsTrigger => texts(
                ERRCODE_FEATURE_NOT_SUPPORTED,
                "trigger functions can only be called as triggers",
                "",
                "Create a trigger that executes the function: CREATE TRIGGER own_id AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id');",
            ),
            Error::OwnIdTrigger => texts(
                ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "invalid use of snowflake_require_own_id()",
                "It must be called as a trigger FOR EACH ROW on INSERT or UPDATE, with the name of a column and optionally a layout.",
                "CREATE TRIGGER own_id AFTER INSERT OR UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION snowflake_require_own_id('id');",
            ),
            Error::OwnIdColumn { column } => texts(
                ERRCODE_UNDEFINED_COLUMN,
                format!("no column \"{column}\" of type bigint"),
                "The first argument of trigger function snowflake_require_own_id() is the name of the column with the ID.",
                "Create the trigger with the name of a column of type bigint.",
            ),
            Error::NotOwnId { id, layout } => texts(
                ERRCODE_CHECK_VIOLATION,
                format!("ID {id} was not taken by this transaction"),
                format!("Readers may already have passed this ID of layout \"{}\".", layout.label()),
                "Take the ID in the transaction that inserts the row, for example by the default of the column.",
            ),
            Error::ResetDoesNotFit { layout, problem } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                problem.to_string(),
                format!("{} The layout of this session is \"{}\".", problem.allowed(), layout.label()),
                format!("Specify an ID that fits, or choose a layout {}.", with_room(problem)),
            ),
            Error::IdentityDoesNotFit { layout, problem } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                problem.to_string(),
                format!("{} The layout is \"{}\".", problem.allowed(), layout.label()),
                format!(
                    "Change the worker ID or the datacenter ID, in the settings or in table snowflake_workers, or choose a layout {}.",
                    with_room(problem)
                ),
            ),
            Error::TooManyLayouts { most, retired } => texts(
                ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "too many layouts are in use",
                match retired {
                    0 => {
                        format!("All {most} entries for layouts have been used since the server was started.")
                    }
                    _ => format!(
                        "All {most} entries for layouts have been used since the server was started, {retired} of them before snowflake_reset_horizon() was called."
                    ),
                },
                "Reduce the number of different values of snowflake_id.layout. Restart the server to free the entries of layouts that are no longer used.",
            ),
            Error::InvalidLayout { text, problem } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid layout: \"{text}\""),
                problem.to_string(),
                problem.allowed(),
            ),
            Error::InvalidLayoutSetting { text, problem } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"snowflake_id.layout\": \"{text}\""),
                problem.to_string(),
                problem.allowed(),
            ),
            Error::NameLength { parameter, text, bytes, least, most } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid value for parameter \"{parameter}\": \"{text}\""),
                format!("The value has {bytes} bytes."),
                match least {
                    0 => format!("Use a name of at most {most} bytes."),
                    _ => format!("Use a name of {least} to {most} bytes."),
                },
            ),
            Error::InvalidRegistry { problem } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "invalid value for parameter \"snowflake_id.registry\"",
                problem,
                "Use a libpq connection string, for example \"host=registry1,registry2 dbname=registry user=snowflake_server target_session_attrs=read-write\".",
            ),
            Error::InvalidSegmentList => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "invalid value for parameter \"snowflake_id.prefetch_segments\"",
                "List syntax is invalid.",
                "Separate the names of segments by commas, and enclose a name in double quotes if it contains spaces, commas or quotes.",
            ),
            Error::PasswordInRegistry => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "invalid value for parameter \"snowflake_id.registry\"",
                "The value contains a password, but settings are written to logs.",
                "Store the password in a password file and specify passfile=..., or use a service.",
            ),
            Error::NoLease { state, free_from_us } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server has no lease of a worker ID",
                match *free_from_us {
                    0 => format!("The state of the registry as seen by this server is \"{state}\"."),
                    free_from_us => format!(
                        "The state of the registry as seen by this server is \"{state}\". A worker ID will be free at {}.",
                        instant(free_from_us)
                    ),
                },
                ASK_FOR_THE_REASON,
            ),
            Error::LeaseEnded { until_us, state } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the lease of this server's worker ID has ended",
                format!(
                    "The lease ended at {}. The state of the registry as seen by this server is \"{state}\".",
                    instant(*until_us)
                ),
                ASK_FOR_THE_REASON,
            ),
            Error::IdentityIsLeased => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "cannot choose a worker ID while snowflake_id.registry is set",
                "The registry assigns the worker ID.",
                "Call snowflake_reset_horizon() without arguments.",
            ),
            Error::NothingIsReset => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot reset the horizon to the current time for any worker ID",
                "snowflake_raise_floor() was called, or the history of this server is unknown. Therefore, IDs with the current time cannot be issued under any worker ID.",
                "Wait until the time that this query shows: SELECT resumes_at FROM snowflake_status;",
            ),
            Error::NullDatacenter => texts(
                ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "datacenter_id must not be null",
                "",
                "Specify the datacenter ID, or omit the argument.",
            ),
            Error::NoIdentityToReset => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "a worker ID must be specified while snowflake_id.registry is not set",
                "Without a registry, the worker ID is not assigned automatically.",
                "Choose a worker ID that no server has had and no registry may lease, and with this number instead of N: SELECT snowflake_reset_horizon(N);",
            ),
            Error::WaitTooLong { layout, wait, left, max_wait } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                "waiting for snowflake IDs would take longer than snowflake_id.max_wait",
                format!(
                    "Enough IDs will be available in {}, but only {} of snowflake_id.max_wait ({}) is left. The layout allows {:.1} IDs per second.",
                    duration(*wait),
                    duration(*left),
                    duration(*max_wait),
                    layout.ids_per_second()
                ),
                format!(
                    "Check whether the server's clock was set back.{} If IDs are requested faster than the layout allows, choose a layout with more sequence bits, or request fewer IDs at a time. To allow longer waits, increase snowflake_id.max_wait.",
                    if layout.max_clock_seq() > 0 {
                        " View snowflake_clock_seq_status shows the exhausted values of the clock sequence."
                    } else {
                        ""
                    }
                ),
            ),
            Error::GateClosed => {
                texts(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot issue snowflake IDs yet", "", "")
            }
            Error::KeeperNotReady { report } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot issue snowflake IDs yet",
                report,
                "Check the server log, or run: SELECT state, last_error FROM snowflake_status;",
            ),
            Error::ExtensionUncommitted => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot issue snowflake IDs yet",
                "Extension \"snowflake_id\" was created in this transaction, and the keeper cannot see the extension before the commit.",
                "Commit the transaction first. If a client sends several statements in one string, as psql -c does, they form one transaction. In this case, send CREATE EXTENSION separately.",
            ),
            Error::HorizonStalled { obstacle, report, max_wait } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                "could not extend the durable horizon in time",
                format!("The call waited for {} (snowflake_id.max_wait). {report}", duration(*max_wait)),
                match obstacle {
                    Obstacle::Commit => {
                        "Check whether a synchronous standby is missing or the disk is slow. Superusers and members of pg_monitor can see what the keeper waits for: SELECT wait_event_type, wait_event FROM pg_stat_activity WHERE backend_type = 'snowflake_id keeper';"
                    }
                    Obstacle::Failure => {
                        "Correct what the keeper reported. If another session holds a lock that the keeper needs, superusers and members of pg_monitor can see its process ID while the keeper waits: SELECT pg_blocking_pids(pid) FROM pg_stat_activity WHERE backend_type = 'snowflake_id keeper';"
                    }
                    Obstacle::Unknown => "Check the server log.",
                },
            ),
            Error::FloorTooFar => texts(
                ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "cannot move the floor more than one day ahead of the clock",
                "The server would issue no IDs before the clock reaches that time.",
                "Use the time of the last ID that was issued elsewhere.",
            ),
            Error::NotTheKeepersDatabase { database } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the horizon is not stored in this database",
                format!("The horizon is stored in database \"{database}\"."),
                format!("Connect to database \"{database}\" and call the function there."),
            ),
            Error::IdentityUsed(identity) => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("this server has already used {identity}"),
                "IDs would repeat when the clock reaches times for which this server has already issued IDs under this worker ID.",
                "Choose a worker ID that no server has had and no registry may lease.",
            ),
            Error::HistoryUnknown(identity) => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot determine whether this server has used {identity}"),
                "The record of used worker IDs was lost, for example by DROP EXTENSION. Any worker ID may have been used up to the highest horizon of the past.",
                "Wait until the clock has reached that horizon. If the horizon is too far in the future, and no ID with a future time is in use, drop the extension in this database, restart the server, and create the extension again.",
            ),
            Error::AnotherRequest => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                "another request to the keeper is in progress",
                "The keeper processes one request at a time.",
                "Try again when the other request has ended. View pg_stat_activity shows the session that sent the request.",
            ),
            Error::NotAnIdentity { datacenter_id, worker_id } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                match worker_id {
                    ..0 => format!("invalid worker ID: {worker_id}"),
                    _ => format!("invalid datacenter ID: {datacenter_id}"),
                },
                "Worker IDs and datacenter IDs are not negative.",
                "View snowflake_presets shows the number of bits that each layout has for them.",
            ),
            Error::ClockJumped { jump } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the clock has jumped too far ahead",
                format!(
                    "The clock jumped ahead by {}, which is more than snowflake_id.max_clock_jump.",
                    duration(*jump)
                ),
                "Correct the clock. If the clock is correct now, run as a superuser: SELECT snowflake_accept_clock();",
            ),
            Error::Exhausted { layout } => texts(
                ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                "the layout is exhausted",
                format!(
                    "The time field of {} bits ended at {}.",
                    layout.bits(Field::Time),
                    instant(layout.end_us())
                ),
                "Check the server's clock, or choose a layout with a later epoch or more time bits. View snowflake_presets lists the predefined layouts.",
            ),
            Error::BeforeEpoch { layout, wait } => texts(
                ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "the clock is before the epoch of the layout",
                format!(
                    "The epoch is {}. The clock will reach it in {}.",
                    instant(layout.epoch_us()),
                    duration(*wait)
                ),
                "Check the server's clock, or choose a layout with an earlier epoch.",
            ),
            Error::BatchCount { count, most } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("cannot issue a batch of {count} snowflake IDs"),
                format!("The count must be between 1 and {most}."),
                if count > most { "Request the IDs in several batches." } else { "Request at least one ID." },
            ),
            Error::BlockCount { count, most, layout } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("cannot issue a block of {count} snowflake IDs"),
                match most {
                    1 if layout.shift(Field::Sequence) > 0 => format!(
                        "IDs of layout \"{}\" are not consecutive numbers, because the sequence is not the last field.",
                        layout.label()
                    ),
                    1 => format!("Layout \"{}\" has one ID in each tick.", layout.label()),
                    most => format!("Layout \"{}\" has {most} consecutive IDs in each tick.", layout.label()),
                },
                match count {
                    ..=0 => "Request at least one ID.".to_owned(),
                    _ if *most > 1 => {
                        format!("Request at most {most} IDs, or call snowflake_batch({count}).")
                    }
                    _ => format!("Call snowflake_batch({count}), and use each ID that it returns."),
                },
            ),
            Error::OutOfMemory { bytes } => texts(
                ERRCODE_OUT_OF_MEMORY,
                "out of memory",
                format!("Failed on request of size {bytes}."),
                "Request the IDs in several batches.",
            ),
            Error::NoCurrval => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "snowflake_currval is not yet defined in this session",
                "No snowflake ID was issued to this session, except in parallel workers.",
                "Call snowflake_nextval() first.",
            ),
            Error::UnknownEncoding { name } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("unrecognized encoding of snowflake IDs: \"{name}\""),
                "",
                format!("Use one of {}.", Encoding::ALL.map(Encoding::name).join(", ")),
            ),
            Error::InvalidText { text, problem } => texts(
                ERRCODE_INVALID_TEXT_REPRESENTATION,
                format!("invalid {} text of a snowflake ID: \"{text}\"", problem.encoding.name()),
                problem.to_string(),
                problem.encoding.form(),
            ),
            Error::InvalidPrefix { prefix, problem } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid prefix of public IDs: \"{prefix}\""),
                problem.to_string(),
                format!("{} The prefix comes after the ID.", problem.allowed()),
            ),
            Error::InvalidPublicId { text, problem } => texts(
                ERRCODE_INVALID_TEXT_REPRESENTATION,
                format!("invalid public ID: \"{text}\""),
                problem.to_string(),
                problem.allowed(),
            ),
            Error::InvalidUuid { uuid, problem } => texts(
                ERRCODE_INVALID_TEXT_REPRESENTATION,
                format!("invalid UUID of a snowflake ID: \"{}\"", Uuid::from_bytes(*uuid)),
                problem.to_string(),
                problem.allowed(),
            ),
            Error::KeyLength(bytes) => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "invalid length of mask key",
                format!("The key has {bytes} bytes. It must have {KEY_BYTES} bytes."),
                "Create a key with uuid_send(gen_random_uuid()). To specify the name of a key in table snowflake_mask_keys, call the function whose name ends in _named, such as snowflake_mask_named().",
            ),
            Error::NoMaskKey { name } => texts(
                ERRCODE_UNDEFINED_OBJECT,
                format!("mask key \"{name}\" does not exist"),
                "Table snowflake_mask_keys has no row with this name.",
                format!(
                    "Check the name, and the order of the arguments. If nothing was ever made with this key: INSERT INTO snowflake_mask_keys (name, key) VALUES ({}, uuid_send(gen_random_uuid())); Otherwise, copy the key from a backup or another server, because a new key reads masked numbers as other IDs.",
                    literal_of_shown(name)
                ),
            ),
            Error::MaskKeyForName => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "a mask key was specified instead of the name of a key",
                "The argument contains a backslash or has 16 bytes, as keys do.",
                "Specify the name of a key in table snowflake_mask_keys. To specify the key itself, call the function whose name does not end in _named, such as snowflake_mask().",
            ),
            Error::TwoMaskKeys { name } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot unmask numbers with mask key \"{name}\" while it is being changed"),
                "The mask key has two keys, and a masked number does not show which key masked it.",
                format!(
                    "Store both keys under names of their own, and specify the name of the key that masked the number. If nothing was made with the next key on any server, you can cancel the change instead: UPDATE snowflake_mask_keys SET next_key = NULL WHERE name = {} AND next_key IS NOT NULL;",
                    literal_of_shown(name)
                ),
            ),
            Error::NullMaskKey => texts(
                ERRCODE_NULL_VALUE_NOT_ALLOWED,
                "name and key must not be null",
                "",
                "Specify the name of a key in table snowflake_mask_keys. To let the server generate the new key, omit argument new_key.",
            ),
            Error::SameMaskKey { name } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("the new key of mask key \"{name}\" is its current key"),
                "",
                "Specify another key, or omit the argument to let the server generate the key.",
            ),
            Error::MaskKeyBeingChanged { name, is_switched: false } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("mask key \"{name}\" is already being changed"),
                "The mask key has a next key.",
                use_or_cancel_next_key(name),
            ),
            Error::MaskKeyBeingChanged { name, is_switched: true } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("mask key \"{name}\" is already being changed"),
                "The mask key still has a previous key.",
                format!(
                    "When nothing that the previous key made is in use any more: SELECT snowflake_drop_previous_mask_key({});",
                    literal_of_shown(name)
                ),
            ),
            Error::NoNextMaskKey { name, is_switched } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("mask key \"{name}\" has no next key"),
                if *is_switched { "The keys were already switched." } else { "No change was prepared." },
                format!(
                    "{} SELECT {}({});",
                    if *is_switched {
                        "When nothing that the previous key made is in use any more:"
                    } else {
                        "To prepare a change:"
                    },
                    if *is_switched {
                        "snowflake_drop_previous_mask_key"
                    } else {
                        "snowflake_prepare_mask_key"
                    },
                    literal_of_shown(name)
                ),
            ),
            Error::NoPreviousMaskKey { name, is_prepared } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("mask key \"{name}\" has no previous key"),
                if *is_prepared {
                    "The mask key has a next key, which is not used yet."
                } else {
                    "The mask key has only one key."
                },
                if *is_prepared {
                    use_or_cancel_next_key(name)
                } else {
                    format!(
                        "To prepare a change of keys: SELECT snowflake_prepare_mask_key({});",
                        literal_of_shown(name)
                    )
                },
            ),
            Error::Domain(problem) => texts(
                match problem {
                    DomainError::Number { .. } => ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                    DomainError::Digits(_) | DomainError::Bits(_) => ERRCODE_INVALID_PARAMETER_VALUE,
                },
                problem.to_string(),
                problem.allowed(),
                match problem {
                    DomainError::Digits(digits) if digits < DIGITS.start() => {
                        "A mask of fewer than a million numbers is not secure. Use more digits. Shorter numbers are masked as numbers with leading zeros."
                    }
                    DomainError::Digits(_) => {
                        "Omit the number of digits. Masked IDs then have up to 19 digits."
                    }
                    DomainError::Bits(_) => "Omit the layout, or specify the number of digits instead.",
                    DomainError::Number { number: ..0, .. } => {
                        "A negative number is neither an ID nor a masked number."
                    }
                    DomainError::Number { .. } => {
                        "To mask a larger number, use more digits, or the layout of the ID. To unmask a number, use the digits or the layout with which it was masked."
                    }
                },
            ),
            Error::SegmentsInRecovery => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot take numbers from segments during recovery",
                "A standby holds no numbers.",
                "Request the numbers from the primary.",
            ),
            Error::SegmentDenied { name, role } => texts(
                ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for segment \"{name}\""),
                format!(
                    "Role \"{}\" is limited to the segments that were granted to it.",
                    role.trim_matches('"')
                ),
                format!(
                    "A superuser can grant the segment: SELECT snowflake_segment_grant({}, {});",
                    literal_of_shown(name),
                    literal(role)
                ),
            ),
            Error::SegmentNextvalDenied { function, role } => texts(
                ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for function {function}"),
                "The default of a column calls the function. Neither the owner of the table nor the current role has the privilege.",
                format!("Grant the privilege: GRANT EXECUTE ON FUNCTION {function}(text) TO {role};"),
            ),
            Error::SegmentGrants => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot read table \"snowflake_internal.segment_grant\"",
                "The table does not have a column \"role\" of type regrole and a column \"names\" of type text[].",
                "Undo the change of the table.",
            ),
            Error::SegmentName { name, bytes, most } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid segment name: \"{name}\""),
                format!("The name has {bytes} bytes."),
                format!("Use a name of 1 to {most} bytes."),
            ),
            Error::SegmentUnknown { name, detail, near: Some(near) } => texts(
                ERRCODE_UNDEFINED_OBJECT,
                format!("segment \"{name}\" does not exist"),
                said(detail),
                format!(
                    "Perhaps you meant segment \"{near}\". Names are case-sensitive. To create a new segment, run in the database of the registry: SELECT snowflake_registry.create_segment({});",
                    literal_of_shown(name)
                ),
            ),
            Error::SegmentUnknown { name, detail, near: None } => texts(
                ERRCODE_UNDEFINED_OBJECT,
                format!("segment \"{name}\" does not exist"),
                said(detail),
                format!(
                    "To list segments, run in the database of the registry: SELECT * FROM snowflake_registry.segments; To create a segment: SELECT snowflake_registry.create_segment({});",
                    literal_of_shown(name)
                ),
            ),
            Error::SegmentClosed { name, detail } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("segment \"{name}\" is closed"),
                said(detail),
                format!(
                    "If commits of the registry were lost, the administrator of the registry must specify where the segment continues: SELECT snowflake_registry.resume_segment({}, next_value); If the registry is frozen and no other registry has replaced it: SELECT snowflake_registry.unfreeze();",
                    literal_of_shown(name)
                ),
            ),
            Error::SegmentExhausted { name, detail } => texts(
                ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("segment \"{name}\" is exhausted"),
                said(detail),
                format!(
                    "If max_value was reached, the administrator of the registry can increase it: SELECT snowflake_registry.alter_segment({}, max_value => ...); If the numbers of a period are exhausted, wait for the next period, or create another segment with more digits.",
                    literal_of_shown(name)
                ),
            ),
            Error::SegmentAhead { name, detail } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                format!("segment \"{name}\" has no numbers yet"),
                said(detail),
                "Compare the clock of the registry with the clocks of the servers.",
            ),
            Error::SegmentRefused { name, detail } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot take numbers from segment \"{name}\" on this server"),
                said(detail),
                "Check the logs of this server and of the registry.",
            ),
            Error::SegmentDeniedByRegistry { name, detail } => texts(
                ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for segment \"{name}\""),
                said(detail),
                "Run the statement in DETAIL in the database of the registry, as a superuser or as the owner of the registry.",
            ),
            Error::NoSegmentRegistry { problem } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "no registry of segments is configured",
                sentence(problem),
                "For a single server, run in that database: CREATE EXTENSION snowflake_id_registry; SELECT snowflake_registry.create_segment('...'); For a fleet, set snowflake_id.registry.",
            ),
            Error::SegmentsDenied { problem } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "permission denied by the registry of segments",
                sentence(problem),
                "Run the GRANT commands in the database of the registry, as a superuser or as the owner of the registry.",
            ),
            Error::SegmentFile { problem } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "could not record which numbers of segments this server has taken",
                sentence(problem),
                "Free disk space, or repair the file in the data directory. If the extension is missing in the keeper's database, run there: CREATE EXTENSION snowflake_id; If the file is removed, this server continues above the numbers that are recorded in the keeper's database and in the registry.",
            ),
            Error::SegmentRegistryVersion { problem } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the registry of segments has another version than this server",
                sentence(problem),
                "Install the same version of snowflake_id in the registry and on all servers, in the registry first.",
            ),
            Error::SegmentRegistryAway { problem, since_us } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                "the registry of segments does not answer",
                format!("The registry has granted no numbers since {}: {problem}.", instant(*since_us)),
                "Check snowflake_id.registry and the server log. Superusers and members of pg_monitor can run: SELECT name, state, last_error FROM snowflake_segment_status;",
            ),
            Error::SegmentTooLate { name, max_wait, detail } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                format!("could not get numbers of segment \"{name}\" in time"),
                format!("The call waited for {} (snowflake_id.max_wait). {detail}", duration(*max_wait)),
                format!(
                    "If the registry reports a quarantine, although no commits were lost and no server has a worker ID of another or an earlier registry: SELECT snowflake_registry.end_quarantine(); Otherwise check the server log and view snowflake_segment_status. If numbers are used faster than this server can fetch them, larger ranges help: SELECT snowflake_registry.alter_segment({}, min_step => ..., max_step => ...);",
                    literal_of_shown(name)
                ),
            ),
            Error::TooManySegments { most, can_have_more } => texts(
                ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "too many segments are in use",
                format!(
                    "All {most} entries for segments are in use (snowflake_id.max_segments). The entry of a segment is freed after the segment is dropped."
                ),
                if *can_have_more {
                    "Increase snowflake_id.max_segments and restart the server."
                } else {
                    "Drop segments that are no longer needed, or restart the server and use fewer segments on it."
                },
            ),
            Error::SegmentBatchCount { count, most } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("cannot take a batch of {count} numbers"),
                format!("The count must be between 1 and {most}."),
                if count > most {
                    "Request the numbers in several batches."
                } else {
                    "Request at least one number."
                },
            ),
            Error::SegmentNoCurrval { name } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("snowflake_segment_currval of segment \"{name}\" is not yet defined in this session"),
                "No number of this segment was issued to this session, except in parallel workers.",
                "Call snowflake_segment_nextval() first.",
            ),
            Error::Range(problem) => texts(
                ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                problem.to_string(),
                problem.allowed(),
                match problem {
                    RangeError::NegativeId(_) => {
                        "A negative number is not a snowflake ID. Check whether it is a placeholder such as -1, the result of an overflow, or an ID of another generator."
                    }
                    RangeError::IdPastEnd { .. } => {
                        "Specify the layout of the ID, for example snowflake_decode(id, 'twitter')."
                    }
                    RangeError::Field { max: 0, .. } => "Use 0, or specify another layout.",
                    RangeError::Field { .. } | RangeError::Time { .. } => {
                        "Use a value within this range, or specify another layout."
                    }
                },
            ),
        }
    }
}

/// Returns a DETAIL that quotes the registry's message.
fn said(detail: &Option<String>) -> String {
    detail.as_deref().map_or_else(String::new, |detail| format!("The registry reported: {detail}."))
}

/// Returns the message as a sentence that begins with a capital letter. Adds a full stop at the end unless the message
/// ends with an SQL statement.
fn sentence(text: &str) -> String {
    let is_word =
        text.split(' ').next().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_lowercase()));
    let capital = text.chars().next().filter(|_| is_word).map(|first| first.to_ascii_uppercase());
    let stop = if text.ends_with(';') { "" } else { "." };
    match capital {
        Some(capital) => format!("{capital}{}{stop}", &text[1..]),
        None => format!("{text}{stop}"),
    }
}

/// Returns the hint for a mask key whose next key is not used yet.
fn use_or_cancel_next_key(name: &str) -> String {
    format!(
        "To use the next key: SELECT snowflake_switch_mask_key({0}); If nothing was made with the next key on any server, you can cancel the change: UPDATE snowflake_mask_keys SET next_key = NULL WHERE name = {0} AND next_key IS NOT NULL;",
        literal_of_shown(name)
    )
}

/// Returns the SQL literal for a name that was converted with `shown`. If `shown` has escaped or truncated the name,
/// returns a placeholder for the user to replace.
fn literal_of_shown(name: &str) -> String {
    literal(if name.contains('\\') || name.ends_with("...") { "..." } else { name })
}

/// Returns the SQL literal for a string, or a placeholder if not every encoding can represent the string.
fn literal(text: &str) -> String {
    let text = if is_in_any_encoding(text) { text } else { "..." };
    format!("'{}'", text.replace('\'', "''"))
}

/// Formats a duration for messages, rounded up.
pub fn duration(time: Duration) -> String {
    const SECONDS_PER_DAY: u128 = 86_400;
    let seconds = time.as_nanos().div_ceil(1_000_000_000);
    match time.as_nanos().div_ceil(1_000_000) {
        milliseconds @ ..100_000 => format!("{milliseconds} ms"),
        _ if seconds < 2 * SECONDS_PER_DAY => format!("{seconds} s"),
        _ => format!("{} days", seconds.div_ceil(SECONDS_PER_DAY)),
    }
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> ErrorReport {
        let Texts { sqlstate, message, detail, hint } = error.texts();
        let mut report = ErrorReport::new(sqlstate, message, "snowflake_id");
        if !detail.is_empty() {
            report = report.set_detail(detail);
        }
        if !hint.is_empty() {
            report = report.set_hint(hint);
        }
        report
    }
}
