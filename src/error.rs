//! Every error that a user can see, one arm each: SQLSTATE, message, DETAIL with the numbers, HINT with what
//! to type. The file is long because it is a single list.

use std::time::Duration;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_id_core::mask::KEY_BYTES;
use snowflake_id_core::message::instant;
use snowflake_id_core::public::{PrefixError, PublicTextError, UuidError};
use snowflake_id_core::{Encoding, Field, Identity, Layout, LayoutError, RangeError, Stall, TextError};
use uuid::Uuid;

use crate::pg::encoding::{in_any_encoding, is_in_any_encoding};

/// The reason why a call fails. Texts of the user have passed through
/// [`shown`](snowflake_id_core::message::shown) before they are quoted here.
#[derive(Debug)]
pub enum Error {
    NotPreloaded,
    NoWorkerId {
        database: String,
        node_name: String,
    },
    InRecovery,
    NoKeeperInRecovery,
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
    /// The text is not quoted, as it may contain a password.
    InvalidRegistry {
        problem: String,
    },
    PasswordInRegistry,
    /// The server has no identity, because the registry has not granted one.
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
    WaitTooLong {
        layout: Layout,
        wait: Duration,
        left: Duration,
        max_wait: Duration,
    },
    /// Internal: the caller waits for the keeper and does not report this.
    GateClosed,
    KeeperNotReady {
        report: String,
    },
    /// The extension was created in this transaction, so the keeper does not see it yet.
    ExtensionUncommitted,
    HorizonStalled {
        report: String,
        max_wait: Duration,
    },
    AdvanceTooFar,
    NotTheKeepersDatabase {
        database: String,
    },
    IdentityUsed(Identity),
    /// Every identity that the registry may grant is blocked up to a later time.
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
        count: i32,
        most: i32,
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
    /// The key has the wrong length. The error contains the length, never the key itself.
    KeyLength(usize),
    NoMaskKey {
        name: String,
    },
    /// The argument is not quoted, as it is a key.
    MaskKeyForName,
    Range(RangeError),
    /// Errors of segments. Names have passed through `shown`. Details are texts from the registry.
    SegmentsInRecovery,
    SegmentName {
        name: String,
        bytes: usize,
        most: usize,
    },
    SegmentUnknown {
        name: String,
        detail: Option<String>,
        /// The name of an existing segment of which this name is probably a misspelling.
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
    NoSegmentRegistry {
        problem: String,
    },
    /// The problem contains the GRANT to run.
    SegmentsDenied {
        problem: String,
    },
    SegmentFile {
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
    },
    SegmentBatchCount {
        count: i32,
        most: i32,
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

/// Unwraps the value, or raises the error.
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

/// The fields of an error as PostgreSQL shows it. An empty text means that the error has no DETAIL or no
/// HINT.
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
    /// Returns an error if waiting cannot end the stall of a layout.
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

    /// Returns the texts of the error in a form that can be sent in every client encoding.
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
                "New IDs come from shared memory, which only a preloaded library has. Decoding works without.",
                "Add snowflake_id to shared_preload_libraries in postgresql.conf and restart the server.",
            ),
            Error::NoWorkerId { database, node_name } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server has no worker ID",
                format!(
                    "snowflake_id.worker_id is -1, and table snowflake_worker in database \"{database}\" has no row for node_name \"{node_name}\"."
                ),
                format!(
                    "Give each server of the fleet a worker ID of its own: ALTER SYSTEM SET snowflake_id.worker_id = 1; SELECT pg_reload_conf(); or INSERT INTO snowflake_worker (node_name, worker_id) VALUES ({}, 1).",
                    literal(node_name)
                ),
            ),
            Error::InRecovery => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot make snowflake IDs during recovery",
                "A standby would hand out the IDs of its primary a second time.",
                "Take the IDs on the primary.",
            ),
            Error::NoKeeperInRecovery => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the keeper of snowflake IDs does not run during recovery",
                "There is nobody to carry this out.",
                "Call it again after promotion, for example by pg_promote().",
            ),
            Error::IdentityDoesNotFit { layout, problem } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                problem.to_string(),
                format!("{} The layout is \"{layout}\".", problem.allowed()),
                format!(
                    "Change snowflake_id.worker_id or snowflake_id.datacenter_id, or choose a layout {}.",
                    match problem {
                        RangeError::Field { field, max: 0, .. } => format!("with a {} field", field.name()),
                        RangeError::Field { field, .. } => format!("with more {} bits", field.name()),
                        _ => "with room for it".into(),
                    }
                ),
            ),
            Error::TooManyLayouts { most, retired } => texts(
                ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "too many layouts are in use",
                match retired {
                    0 => format!("All {most} places have been taken since the server was started."),
                    _ => format!(
                        "All {most} places have been taken since the server was started, {retired} of them before snowflake_reset_horizon() was called."
                    ),
                },
                "Use fewer layouts (settings of snowflake_id.layout), and restart the server to free the places of those no longer used.",
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
                format!("It has {bytes} bytes."),
                match least {
                    0 => format!("A name has at most {most} bytes."),
                    _ => format!("A name has {least} to {most} bytes."),
                },
            ),
            Error::InvalidRegistry { problem } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "invalid value for parameter \"snowflake_id.registry\"",
                problem,
                "Use a connection string of libpq, for example \"host=registry1,registry2 dbname=registry user=snowflake_server target_session_attrs=read-write\".",
            ),
            Error::PasswordInRegistry => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "invalid value for parameter \"snowflake_id.registry\"",
                "There is a password in it, and settings show up in logs.",
                "Put the password into a password file, and name that with passfile=..., or use a service.",
            ),
            Error::NoLease { state, free_from_us } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server has no lease of a worker ID",
                match *free_from_us {
                    0 => format!("The state of the registry, as this server sees it, is \"{state}\"."),
                    free_from_us => format!(
                        "The state of the registry, as this server sees it, is \"{state}\": a worker ID will be free at {}.",
                        instant(free_from_us)
                    ),
                },
                "See view snowflake_status, and the server's log.",
            ),
            Error::LeaseEnded { until_us, state } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the lease of this server's worker ID has ended",
                format!(
                    "It ended at {}. The state of the registry, as this server sees it, is \"{state}\".",
                    instant(*until_us)
                ),
                "See view snowflake_status, and the server's log.",
            ),
            Error::IdentityIsLeased => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "the worker ID is leased, and cannot be chosen",
                "snowflake_id.registry is set, so that the registry gives another worker ID.",
                "Call snowflake_reset_horizon() without arguments.",
            ),
            Error::NothingIsReset => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "no worker ID can begin at the present",
                "A floor that snowflake_advance() has set, or a past of which nothing is known, holds for every worker ID up to a time that lies ahead.",
                "Wait until then: see column resumes_at of view snowflake_status.",
            ),
            Error::NoIdentityToReset => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "a worker ID is needed that this server has never used",
                "Without snowflake_id.registry nobody gives one.",
                "Call snowflake_reset_horizon(worker_id) with such a worker ID.",
            ),
            Error::WaitTooLong { layout, wait, left, max_wait } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                "waiting for snowflake IDs would take longer than max_wait",
                format!(
                    "It takes {} until enough IDs are available; {} are left of snowflake_id.max_wait ({}). The layout allows {:.1} IDs per second.",
                    duration(*wait),
                    duration(*left),
                    duration(*max_wait),
                    layout.ids_per_second()
                ),
                format!(
                    "Check whether the server's clock was set back{}. If IDs are taken faster than the layout allows, choose one with more sequence bits or take fewer at a time; to wait longer, raise snowflake_id.max_wait.",
                    if layout.max_clock_seq() > 0 {
                        ": view snowflake_clock_sequence shows whether all values are used up"
                    } else {
                        ""
                    }
                ),
            ),
            Error::GateClosed => {
                texts(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "snowflake IDs cannot be made yet", "", "")
            }
            Error::KeeperNotReady { report } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "snowflake IDs cannot be made yet",
                report,
                "See the server's log and view snowflake_status.",
            ),
            Error::ExtensionUncommitted => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "snowflake IDs cannot be made yet",
                "Extension snowflake_id was created by this transaction, and the keeper sees it once that is committed.",
                "COMMIT first. Statements that a client sends in one string, such as that of psql -c, are one transaction: send CREATE EXTENSION by itself.",
            ),
            Error::HorizonStalled { report, max_wait } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                "the durable horizon was not extended in time",
                format!("Waited {}, as snowflake_id.max_wait says. {report}", duration(*max_wait)),
                "Look for what holds up the process \"snowflake_id keeper\": a synchronous standby that is gone, a lock, a read-only or dropped database.",
            ),
            Error::AdvanceTooFar => texts(
                ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "cannot move the floor further than a day ahead of the clock",
                "No ID could be made until the clock has come so far.",
                "Use the time of the last ID that was made elsewhere.",
            ),
            Error::NotTheKeepersDatabase { database } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the horizon is not kept in this database",
                format!("It is kept in database \"{database}\"."),
                format!("Connect to database \"{database}\"."),
            ),
            Error::IdentityUsed(identity) => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("{identity} has been used by this server"),
                "Its IDs would repeat when the clock comes to where it has been.",
                "Choose a worker ID that no server of the fleet has ever used.",
            ),
            Error::HistoryUnknown(identity) => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot tell whether {identity} has been used by this server"),
                "What it knew was lost, as with DROP EXTENSION. Any worker ID may have been used up to the highest horizon that there was.",
                "Wait until the clock has come to that horizon. If that is too far in the future, and no ID with a time that lies ahead is in use: drop the extension in this database, restart the server, and create it again.",
            ),
            Error::AnotherRequest => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                "another order to the keeper is under way",
                "The keeper takes one at a time.",
                "Try again when it has ended: see pg_stat_activity.",
            ),
            Error::NotAnIdentity { datacenter_id, worker_id } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("not an identity: worker ID {worker_id}, datacenter ID {datacenter_id}"),
                "Both have to be between 0 and 2147483647.",
                "",
            ),
            Error::ClockJumped { jump } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the clock has jumped ahead too far to be followed",
                format!("It jumped by {}.", duration(*jump)),
                "Set the clock right; or, if it is right now, have a superuser run SELECT snowflake_accept_clock().",
            ),
            Error::Exhausted { layout } => texts(
                ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                "the layout is exhausted",
                format!(
                    "The {} bits for time ended at {}.",
                    layout.bits(Field::Time),
                    instant(layout.end_us())
                ),
                "Choose a layout with a later epoch or more time bits (see view snowflake_layouts), and check the server's clock.",
            ),
            Error::BeforeEpoch { layout, wait } => texts(
                ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                "the clock stands before the epoch of the layout",
                format!(
                    "The epoch is {}, which the clock reaches in {}.",
                    instant(layout.epoch_us()),
                    duration(*wait)
                ),
                "Check the server's clock, or choose a layout with an earlier epoch.",
            ),
            Error::BatchCount { count, most } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("cannot make a batch of {count} snowflake IDs"),
                format!("The count has to be between 1 and {most}."),
                if count > most { "Take the IDs in several batches." } else { "Ask for one ID at least." },
            ),
            Error::OutOfMemory { bytes } => texts(
                ERRCODE_OUT_OF_MEMORY,
                "out of memory",
                format!("Failed on request of {bytes} bytes."),
                "Take the IDs in several batches.",
            ),
            Error::NoCurrval => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "snowflake_currval is not yet defined in this session",
                "No snowflake ID has been taken in this session, apart from those taken by parallel workers.",
                "Call snowflake_nextval() first.",
            ),
            Error::UnknownEncoding { name } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("unknown encoding of snowflake IDs: \"{name}\""),
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
                problem.allowed(),
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
                "invalid length of a mask key",
                format!("The key has {bytes} bytes; it has to have {KEY_BYTES}."),
                "Make a key with uuid_send(gen_random_uuid()); to use one of table snowflake_mask_key by its name, call the function whose name ends in _named, such as snowflake_mask_named().",
            ),
            Error::NoMaskKey { name } => texts(
                ERRCODE_UNDEFINED_OBJECT,
                format!("mask key \"{name}\" does not exist"),
                "Table snowflake_mask_key has no row with this name.",
                format!(
                    "To make a new key: INSERT INTO snowflake_mask_key (name, key) VALUES ({}, uuid_send(gen_random_uuid())).",
                    literal_of_shown(name)
                ),
            ),
            Error::MaskKeyForName => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                "a mask key stands in place of its name",
                "No name begins with \\x or has 16 characters, as a key may.",
                "Give the name that the key has in table snowflake_mask_key, or call the function whose name does not end in _named, such as snowflake_mask().",
            ),
            Error::SegmentsInRecovery => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot take numbers of segments during recovery",
                "A standby has no numbers of its own.",
                "Take them on the primary.",
            ),
            Error::SegmentName { name, bytes, most } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("invalid name of a segment: \"{name}\""),
                format!("It has {bytes} bytes."),
                format!("A name has 1 to {most} bytes."),
            ),
            Error::SegmentUnknown { name, detail, near: Some(near) } => texts(
                ERRCODE_UNDEFINED_OBJECT,
                format!("segment \"{name}\" does not exist"),
                said(detail),
                format!(
                    "Perhaps you meant segment \"{near}\"; names are case-sensitive. To make a new one in the database of the registry: SELECT snowflake_registry.create_segment({}).",
                    literal_of_shown(name)
                ),
            ),
            Error::SegmentUnknown { name, detail, near: None } => texts(
                ERRCODE_UNDEFINED_OBJECT,
                format!("segment \"{name}\" does not exist"),
                said(detail),
                format!(
                    "See view snowflake_registry.segments in the database of the registry. To make one there: SELECT snowflake_registry.create_segment({}).",
                    literal_of_shown(name)
                ),
            ),
            Error::SegmentClosed { name, detail } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("segment \"{name}\" is closed"),
                said(detail),
                format!(
                    "If commits of the registry were lost, have its administrator say where it goes on: SELECT snowflake_registry.resume_segment({}, next_value).",
                    literal_of_shown(name)
                ),
            ),
            Error::SegmentExhausted { name, detail } => texts(
                ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("segment \"{name}\" is exhausted"),
                said(detail),
                format!(
                    "Have the administrator of the registry raise its max_value (SELECT snowflake_registry.alter_segment({}, max_value => ...)), or make a segment with more digits.",
                    literal_of_shown(name)
                ),
            ),
            Error::SegmentAhead { name, detail } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                format!("segment \"{name}\" has no numbers yet"),
                said(detail),
                "Compare the clock of the registry with those of the servers.",
            ),
            Error::SegmentRefused { name, detail } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("segment \"{name}\" gives no numbers to this server"),
                said(detail),
                "See the logs of this server and of the registry.",
            ),
            Error::NoSegmentRegistry { problem } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "there is no registry of segments",
                sentence(problem),
                "For a single server: CREATE EXTENSION snowflake_id_registry in that database, and SELECT snowflake_registry.create_segment('...'). For a fleet: set snowflake_id.registry.",
            ),
            Error::SegmentsDenied { problem } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "the registry of segments denies this server its numbers",
                sentence(problem.trim_end_matches(';')),
                "Run the GRANT in the database of the registry, as a superuser or as the owner of the registry.",
            ),
            Error::SegmentFile { problem } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "this server cannot note which numbers of segments it has had",
                sentence(problem),
                "Make room on the disk, run CREATE EXTENSION snowflake_id in the keeper's database if it is not there, or see to the file in the data directory. Without a file, numbers go on above those that the keeper's database knows of and the registry has given.",
            ),
            Error::SegmentRegistryAway { problem, since_us } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                "the registry of segments does not answer",
                format!("It has not answered since {}: {problem}", instant(*since_us)),
                "See snowflake_id.registry, view snowflake_segments, and the server's log.",
            ),
            Error::SegmentTooLate { name, max_wait, detail } => texts(
                ERRCODE_LOCK_NOT_AVAILABLE,
                format!("numbers of segment \"{name}\" did not come in time"),
                format!("Waited {}, as snowflake_id.max_wait says. {detail}", duration(*max_wait)),
                "See the server's log and view snowflake_segments. If numbers are taken faster than they are fetched, raise the segment's max_step.",
            ),
            Error::TooManySegments { most } => texts(
                ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "too many segments are in use",
                format!("All {most} places have been taken since the server was started."),
                "Raise snowflake_id.max_segments, and restart the server.",
            ),
            Error::SegmentBatchCount { count, most } => texts(
                ERRCODE_INVALID_PARAMETER_VALUE,
                format!("cannot take a batch of {count} numbers"),
                format!("The count has to be between 1 and {most}."),
                if count > most {
                    "Take the numbers in several batches."
                } else {
                    "Ask for one number at least."
                },
            ),
            Error::SegmentNoCurrval { name } => texts(
                ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("snowflake_segment_currval of segment \"{name}\" is not yet defined in this session"),
                "No number of it has been taken in this session, apart from those taken by parallel workers.",
                "Call snowflake_segment_nextval() first.",
            ),
            Error::Range(problem) => texts(
                ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
                problem.to_string(),
                problem.allowed(),
                match problem {
                    RangeError::NegativeId(_) => {
                        "No layout uses the sign bit, so this is no snowflake ID. Look for a placeholder such as -1, an overflow, or another generator."
                    }
                    RangeError::IdPastEnd { .. } => {
                        "Name the layout that made the ID, for example snowflake_decode(id, 'twitter')."
                    }
                    RangeError::Field { .. } | RangeError::Time { .. } => {
                        "Use a value in that range, or name another layout."
                    }
                },
            ),
        }
    }
}

/// Returns a DETAIL that quotes the message of the registry.
fn said(detail: &Option<String>) -> String {
    detail.as_deref().map_or_else(String::new, |detail| format!("The registry says: {detail}."))
}

/// Adds a full stop.
fn sentence(text: &str) -> String {
    format!("{text}.")
}

/// Returns the SQL literal of a name that has passed through `shown`. If `shown` escaped or truncated the
/// name, the literal is a placeholder for the user to replace.
fn literal_of_shown(name: &str) -> String {
    literal(if name.contains('\\') || name.ends_with("...") { "..." } else { name })
}

/// Returns a text as an SQL literal. If the text cannot be represented in every encoding, the literal is a
/// placeholder.
fn literal(text: &str) -> String {
    let text = if is_in_any_encoding(text) { text } else { "..." };
    format!("'{}'", text.replace('\'', "''"))
}

/// Formats a length of time for messages, rounded up.
pub fn duration(time: Duration) -> String {
    const SECONDS_PER_DAY: u64 = 86_400;
    match time.as_micros().div_ceil(1_000) {
        milliseconds @ ..100_000 => format!("{milliseconds} ms"),
        _ if time.as_secs() < 2 * SECONDS_PER_DAY => format!("{} s", time.as_secs() + 1),
        _ => format!("{} days", time.as_secs() / SECONDS_PER_DAY + 1),
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
