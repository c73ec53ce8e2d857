//! [`Error`]: the reason why there is no ID or no number.

use std::fmt;
use std::time::Duration;

/// The reason why there is no ID or no number. No ID and no number has been taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An option is invalid. The text says which.
    Options(String),
    /// The thread of the client could not be started.
    Thread(String),
    /// The client has no lease. It requests one repeatedly.
    NoLease {
        /// Why the last request failed, if a request failed.
        why: Option<String>,
    },
    /// The clock has reached the end of the lease, and the lease was not renewed. The client tries to renew it
    /// repeatedly.
    LeaseEnded {
        /// Why the last renewal failed, if a renewal failed.
        why: Option<String>,
    },
    /// The next ID would be further ahead of the clock than `max_ahead`: the clock was set back, or IDs
    /// were taken faster than the layout allows.
    Ahead {
        /// The time until the next ID is allowed.
        wait: Duration,
    },
    /// The layout has no further IDs.
    Exhausted,
    /// The clock is before the epoch of the layout.
    BeforeEpoch,
    /// The client was closed.
    Closed,
    /// The registry grants no numbers of a segment.
    Segment {
        /// The name of the segment.
        name: String,
        /// The registry's answer: `unknown`, `dropped`, `lost`, `closed`, `exhausted`, `busy`, `ahead`, `denied` or
        /// `invalid`.
        outcome: String,
        /// The registry's explanation.
        detail: String,
    },
    /// The registry has not granted numbers of a segment in time.
    NoNumbers {
        /// The name of the segment.
        name: String,
        /// The reason.
        why: String,
    },
}

impl Error {
    /// Returns whether a later call can succeed without a change of the options.
    pub fn is_temporary(&self) -> bool {
        match self {
            Error::NoLease { .. } | Error::LeaseEnded { .. } | Error::Ahead { .. } | Error::BeforeEpoch => {
                true
            }
            Error::Segment { .. } | Error::NoNumbers { .. } => true,
            Error::Options(_) | Error::Thread(_) | Error::Exhausted | Error::Closed => false,
        }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Error::Options(problem) => write!(f, "invalid option: {problem}"),
            Error::Thread(problem) => write!(f, "could not start a thread: {problem}"),
            Error::NoLease { why: None } => f.write_str("no worker ID has been leased yet"),
            Error::NoLease { why: Some(why) } => write!(f, "no worker ID has been leased: {why}"),
            Error::LeaseEnded { why: None } => f.write_str("the lease of the worker ID has ended"),
            Error::LeaseEnded { why: Some(why) } => {
                write!(f, "the lease of the worker ID has ended, and was not renewed: {why}")
            }
            Error::Ahead { wait } => write!(f, "the next ID is too far ahead of the clock for {wait:?}"),
            Error::Exhausted => f.write_str("the layout has no further IDs"),
            Error::BeforeEpoch => f.write_str("the clock is before the epoch of the layout"),
            Error::Closed => f.write_str("the client is closed"),
            Error::Segment { name, outcome, detail } => {
                write!(f, "no numbers of segment {name:?} are available ({outcome}): {detail}")
            }
            Error::NoNumbers { name, why } => {
                write!(f, "no numbers of segment {name:?} are available: {why}")
            }
        }
    }
}
