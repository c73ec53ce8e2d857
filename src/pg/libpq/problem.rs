//! The reason why a connection could not be established.

use snowflake_id_core::message::of_verbose;

use super::text::one_line;

/// The reason why no connection was established. If a server rejected the connection, `rejection` is set.
#[derive(Debug, PartialEq)]
pub struct Problem {
    pub text: String,
    pub rejection: Option<Rejection>,
}

/// The reason why a server has rejected a connection. Each reason requires a different correction by an
/// administrator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rejection {
    /// The database does not exist.
    Database,
    /// The role does not exist, has not proved its identity, or has no entry in `pg_hba.conf`.
    Login,
    /// The role may not connect to the database.
    Permission,
}

impl Problem {
    /// Creates a problem from a message of libpq with verbosity `PQERRORS_VERBOSE`.
    pub fn of_verbose(message: &str) -> Problem {
        let (text, state) = of_verbose(message);
        Problem { text: one_line(&text), rejection: state.and_then(Rejection::of) }
    }
}

impl Rejection {
    fn of(state: &str) -> Option<Rejection> {
        match state {
            "3D000" => Some(Rejection::Database),
            "42501" => Some(Rejection::Permission),
            _ if state.starts_with("28") => Some(Rejection::Login),
            _ => None,
        }
    }
}

impl From<String> for Problem {
    fn from(text: String) -> Problem {
        Problem { text, rejection: None }
    }
}

impl From<&str> for Problem {
    fn from(text: &str) -> Problem {
        text.to_owned().into()
    }
}
