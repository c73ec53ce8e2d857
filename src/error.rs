//! Every error that a user can meet: message in lower case, DETAIL with the numbers, HINT with what to type.

use std::time::Duration;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use snowflake_id_core::mask::KEY_BYTES;
use snowflake_id_core::message::instant;
use snowflake_id_core::{Encoding, Field, Identity, Layout, LayoutError, RangeError, Stall, TextError};

use crate::config;
use crate::generate::nextval::MAX_BATCH;
use crate::shared::MAX_SLOTS;

/// Why a call fails. What it quotes of the user's texts has gone through [`shown`](snowflake_id_core::message::shown).
#[derive(Debug)]
pub enum Error {
    NotPreloaded,
    NoWorkerId,
    InRecovery,
    NoKeeperInRecovery,
    IdentityDoesNotFit {
        layout: Layout,
        problem: RangeError,
    },
    TooManyLayouts {
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
    NameTooLong {
        parameter: &'static str,
        text: String,
        bytes: usize,
        most: usize,
    },
    WaitTooLong {
        layout: Layout,
        wait: Duration,
        left: Duration,
        max_wait: Duration,
    },
    /// Internal: the caller waits for the keeper.
    GateClosed,
    KeeperNotReady {
        report: String,
    },
    HorizonStalled {
        report: String,
        max_wait: Duration,
    },
    AdvanceTooFar,
    NotTheKeepersDatabase,
    IdentityUsed(Identity),
    /// Which identities this server has used is not known.
    PastUnknown(Identity),
    AnotherOrder,
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
    BatchCount(i32),
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
    /// Says how long the key is, never the key itself.
    KeyLength(usize),
    NoMaskKey {
        name: String,
    },
    /// Does not say what was given, as that is a key.
    MaskKeyForName,
    Range(RangeError),
}

impl From<RangeError> for Error {
    fn from(problem: RangeError) -> Error {
        Error::Range(problem)
    }
}

/// Ends the call with the error, if there is one.
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

impl Error {
    /// The error for a stall of a layout that no wait ends.
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

    fn sqlstate(&self) -> PgSqlErrorCode {
        use PgSqlErrorCode::*;
        match self {
            Error::NotPreloaded
            | Error::NoWorkerId
            | Error::InRecovery
            | Error::NoKeeperInRecovery
            | Error::NoCurrval
            | Error::GateClosed
            | Error::KeeperNotReady { .. }
            | Error::NotTheKeepersDatabase
            | Error::PastUnknown(_)
            | Error::ClockJumped { .. } => ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            Error::WaitTooLong { .. } | Error::HorizonStalled { .. } | Error::AnotherOrder => {
                ERRCODE_LOCK_NOT_AVAILABLE
            }
            Error::Exhausted { .. } => ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
            Error::BeforeEpoch { .. } | Error::Range(_) | Error::AdvanceTooFar => {
                ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE
            }
            Error::IdentityDoesNotFit { .. }
            | Error::InvalidLayout { .. }
            | Error::InvalidLayoutSetting { .. }
            | Error::NameTooLong { .. }
            | Error::IdentityUsed(_)
            | Error::NotAnIdentity { .. }
            | Error::BatchCount(_)
            | Error::UnknownEncoding { .. }
            | Error::KeyLength(_)
            | Error::MaskKeyForName => ERRCODE_INVALID_PARAMETER_VALUE,
            Error::InvalidText { .. } => ERRCODE_INVALID_TEXT_REPRESENTATION,
            Error::NoMaskKey { .. } => ERRCODE_UNDEFINED_OBJECT,
            Error::TooManyLayouts { .. } => ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            Error::OutOfMemory { .. } => ERRCODE_OUT_OF_MEMORY,
        }
    }

    fn message(&self) -> String {
        match self {
            Error::NotPreloaded => "snowflake_id is not in shared_preload_libraries".into(),
            Error::NoWorkerId => "this server has no worker ID".into(),
            Error::InRecovery => "cannot make snowflake IDs during recovery".into(),
            Error::NoKeeperInRecovery => "the keeper of snowflake IDs does not run during recovery".into(),
            Error::IdentityDoesNotFit { problem, .. } => problem.to_string(),
            Error::TooManyLayouts { .. } => "too many layouts are in use".into(),
            Error::InvalidLayout { text, .. } => format!("invalid layout: \"{text}\""),
            Error::InvalidLayoutSetting { text, .. } => {
                format!("invalid value for parameter \"snowflake_id.layout\": \"{text}\"")
            }
            Error::NameTooLong { parameter, text, .. } => {
                format!("invalid value for parameter \"{parameter}\": \"{text}\"")
            }
            Error::WaitTooLong { .. } => "waiting for snowflake IDs would take longer than max_wait".into(),
            Error::GateClosed | Error::KeeperNotReady { .. } => "snowflake IDs cannot be made yet".into(),
            Error::HorizonStalled { .. } => "the durable horizon was not extended in time".into(),
            Error::AdvanceTooFar => "cannot move the floor further than a day ahead of the clock".into(),
            Error::NotTheKeepersDatabase => "the horizon is not kept in this database".into(),
            Error::IdentityUsed(identity) => format!("{identity} has been used by this server"),
            Error::PastUnknown(identity) => {
                format!("cannot tell whether {identity} has been used by this server")
            }
            Error::AnotherOrder => "another order to the keeper is under way".into(),
            Error::NotAnIdentity { datacenter_id, worker_id } => {
                format!("not an identity: worker ID {worker_id}, datacenter ID {datacenter_id}")
            }
            Error::ClockJumped { .. } => "the clock has jumped ahead too far to be followed".into(),
            Error::Exhausted { .. } => "the layout is exhausted".into(),
            Error::BeforeEpoch { .. } => "the clock stands before the epoch of the layout".into(),
            Error::BatchCount(count) => format!("cannot make a batch of {count} snowflake IDs"),
            Error::OutOfMemory { .. } => "out of memory".into(),
            Error::NoCurrval => "snowflake_currval is not yet defined in this session".into(),
            Error::UnknownEncoding { name } => format!("unknown encoding of snowflake IDs: \"{name}\""),
            Error::InvalidText { text, problem } => {
                format!("invalid {} text of a snowflake ID: \"{text}\"", problem.encoding.name())
            }
            Error::KeyLength(_) => "invalid length of a mask key".into(),
            Error::MaskKeyForName => "a mask key stands in place of its name".into(),
            Error::NoMaskKey { name } => format!("mask key \"{name}\" does not exist"),
            Error::Range(problem) => problem.to_string(),
        }
    }

    pub fn detail(&self) -> Option<String> {
        Some(match self {
            Error::NotPreloaded => {
                "New IDs come from shared memory, which only a preloaded library has. Decoding works without."
                    .into()
            }
            Error::NoWorkerId => format!(
                "snowflake_id.worker_id is -1, and table snowflake_worker in database \"{}\" has no row for node_name \"{}\".",
                config::database().to_string_lossy(),
                config::node_name()
            ),
            Error::InRecovery => "A standby would hand out the IDs of its primary a second time.".into(),
            Error::NoKeeperInRecovery => "There is nobody to carry this out.".into(),
            Error::IdentityDoesNotFit { layout, problem } => {
                format!("{} The layout is \"{layout}\".", problem.allowed())
            }
            Error::TooManyLayouts { retired } => {
                let places = format!("All {MAX_SLOTS} places have been taken since the server was started");
                match retired {
                    0 => format!("{places}."),
                    _ => format!("{places}, {retired} of them before snowflake_reset_horizon() was called."),
                }
            }
            Error::InvalidLayout { problem, .. } | Error::InvalidLayoutSetting { problem, .. } => {
                problem.to_string()
            }
            Error::NameTooLong { bytes, .. } => format!("It has {bytes} bytes."),
            Error::WaitTooLong { layout, wait, left, max_wait } => format!(
                "It takes {} until enough IDs are available; {} are left of snowflake_id.max_wait ({}). The layout allows {:.1} IDs per second.",
                length(*wait),
                length(*left),
                length(*max_wait),
                layout.ids_per_second()
            ),
            Error::GateClosed => return None,
            Error::KeeperNotReady { report } => report.clone(),
            Error::HorizonStalled { report, max_wait } => {
                format!("Waited {}, as snowflake_id.max_wait says. {report}", length(*max_wait))
            }
            Error::AdvanceTooFar => "No ID could be made until the clock has come so far.".into(),
            Error::NotTheKeepersDatabase => {
                format!("It is kept in database \"{}\".", config::database().to_string_lossy())
            }
            Error::IdentityUsed(_) => {
                "Its IDs would repeat when the clock comes to where it has been.".into()
            }
            Error::PastUnknown(_) => {
                "What it knew was lost, as with DROP EXTENSION. Any worker ID may have been used up to the highest horizon that there was.".into()
            }
            Error::AnotherOrder => "The keeper takes one at a time.".into(),
            Error::NotAnIdentity { .. } => "Both have to be between 0 and 2147483647.".into(),
            Error::ClockJumped { jump } => format!("It jumped by {}.", length(*jump)),
            Error::Exhausted { layout } => format!(
                "The {} bits for time ended at {}.",
                layout.bits(Field::Time),
                instant(layout.end_us())
            ),
            Error::BeforeEpoch { layout, wait } => format!(
                "The epoch is {}, which the clock reaches in {}.",
                instant(layout.epoch_us()),
                length(*wait)
            ),
            Error::BatchCount(_) => format!("The count has to be between 1 and {MAX_BATCH}."),
            Error::OutOfMemory { bytes } => format!("Failed on request of {bytes} bytes."),
            Error::NoCurrval => {
                "No snowflake ID has been taken in this session, apart from those taken by parallel workers."
                    .into()
            }
            Error::UnknownEncoding { .. } => return None,
            Error::InvalidText { problem, .. } => problem.to_string(),
            Error::KeyLength(bytes) => format!("The key has {bytes} bytes; it has to have {KEY_BYTES}."),
            Error::MaskKeyForName => "No name begins with \\x or has 16 characters, as a key may.".into(),
            Error::NoMaskKey { .. } => "Table snowflake_mask_key has no row with this name.".into(),
            Error::Range(problem) => problem.allowed(),
        })
    }

    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Error::NotPreloaded => {
                "Add snowflake_id to shared_preload_libraries in postgresql.conf and restart the server.".into()
            }
            Error::NoWorkerId => {
                format!(
                    "Give each server of the fleet a worker ID of its own: ALTER SYSTEM SET snowflake_id.worker_id = 1; SELECT pg_reload_conf(); or INSERT INTO snowflake_worker (node_name, worker_id) VALUES ('{}', 1).",
                    config::node_name().replace('\'', "''")
                )
            }
            Error::InRecovery => "Take the IDs on the primary.".into(),
            Error::NoKeeperInRecovery => "Call it again after promotion, for example by pg_promote().".into(),
            Error::IdentityDoesNotFit { problem, .. } => {
                let field = match problem {
                    RangeError::Field { field, max: 0, .. } => format!("with a {} field", field.name()),
                    RangeError::Field { field, .. } => format!("with more {} bits", field.name()),
                    _ => "with room for it".into(),
                };
                format!(
                    "Change snowflake_id.worker_id or snowflake_id.datacenter_id, or choose a layout {field}."
                )
            }
            Error::TooManyLayouts { .. } => {
                "Use fewer layouts (settings of snowflake_id.layout), and restart the server to free the places of those no longer used.".into()
            }
            Error::InvalidLayout { problem, .. } | Error::InvalidLayoutSetting { problem, .. } => {
                problem.allowed()
            }
            Error::WaitTooLong { .. } => {
                "Check whether the server's clock was set back. If IDs are taken faster than the layout allows, choose one with more sequence bits or take fewer at a time; to wait longer, raise snowflake_id.max_wait.".into()
            }
            Error::GateClosed => return None,
            Error::AdvanceTooFar => "Use the time of the last ID that was made elsewhere.".into(),
            Error::KeeperNotReady { .. } => {
                "See the server's log and view snowflake_status.".into()
            }
            Error::HorizonStalled { .. } => {
                "Look for what holds up the process \"snowflake_id keeper\": a synchronous standby that is gone, a lock, a read-only or dropped database.".into()
            }
            Error::NotTheKeepersDatabase => {
                format!("Connect to database \"{}\".", config::database().to_string_lossy())
            }
            Error::IdentityUsed(_) => "Choose a worker ID that no server of the fleet has ever used.".into(),
            Error::PastUnknown(_) => "Wait until the clock has come to that horizon, or, if that is too far in the future and no ID with a time that lies ahead is in use, drop the extension in this database, restart the server, and create it again.".into(),
            Error::AnotherOrder => "Try again when it has ended: see pg_stat_activity.".into(),
            Error::NotAnIdentity { .. } => return None,
            Error::ClockJumped { .. } => {
                "Set the clock right; or, if it is right now, have a superuser run SELECT snowflake_accept_clock().".into()
            }
            Error::Exhausted { .. } => {
                "Choose a layout with a later epoch or more time bits (see view snowflake_layouts), and check the server's clock.".into()
            }
            Error::BeforeEpoch { .. } => {
                "Check the server's clock, or choose a layout with an earlier epoch.".into()
            }
            Error::NameTooLong { most, .. } => format!("A name has at most {most} bytes."),
            Error::BatchCount(MAX_BATCH..) | Error::OutOfMemory { .. } => "Take the IDs in several batches.".into(),
            Error::BatchCount(_) => return None,
            Error::NoCurrval => "Call snowflake_nextval() first.".into(),
            Error::UnknownEncoding { .. } => {
                format!("Use one of {}.", Encoding::ALL.map(Encoding::name).join(", "))
            }
            Error::InvalidText { problem, .. } => problem.encoding.form(),
            Error::KeyLength(_) => {
                "Make a key with uuid_send(gen_random_uuid()); to use one of table snowflake_mask_key by its name, call snowflake_mask_named() or snowflake_unmask_named().".into()
            }
            Error::MaskKeyForName => {
                "Give the name that the key has in table snowflake_mask_key, or call snowflake_mask() or snowflake_unmask().".into()
            }
            Error::NoMaskKey { name } => {
                // A name that is not shown as it is, is left to the user.
                let is_shown_otherwise = name.contains('\\') || name.ends_with("...");
                let name = if is_shown_otherwise { "...".into() } else { name.replace('\'', "''") };
                format!(
                    "To make a new key: INSERT INTO snowflake_mask_key (name, key) VALUES ('{name}', uuid_send(gen_random_uuid()))."
                )
            }
            Error::Range(RangeError::NegativeId(_)) => return None,
            Error::Range(RangeError::IdPastEnd { .. }) => {
                "Name the layout that made the ID, for example snowflake_decode(id, 'twitter').".into()
            }
            Error::Range(RangeError::Field { .. } | RangeError::Time { .. }) => {
                "Use a value in that range, or name another layout.".into()
            }
        })
    }
}

/// A length of time as people read it, rounded up.
pub fn length(time: Duration) -> String {
    const SECONDS_PER_DAY: u64 = 86_400;
    match time.as_micros().div_ceil(1_000) {
        milliseconds @ ..100_000 => format!("{milliseconds} ms"),
        _ if time.as_secs() < 2 * SECONDS_PER_DAY => format!("{} s", time.as_secs() + 1),
        _ => format!("{} days", time.as_secs() / SECONDS_PER_DAY + 1),
    }
}

impl From<Error> for ErrorReport {
    fn from(error: Error) -> ErrorReport {
        let report = ErrorReport::new(error.sqlstate(), error.message(), "snowflake_id");
        let report = match error.detail() {
            Some(detail) => report.set_detail(detail),
            None => report,
        };
        match error.hint() {
            Some(hint) => report.set_hint(hint),
            None => report,
        }
    }
}
