//! Why a connection could not be established.

use snowflake_id_core::message::of_verbose;

use super::text::one_line;

/// Why no connection was established, and why a server has rejected it, if a server has.
#[derive(Debug, PartialEq)]
pub struct Problem {
    pub text: String,
    pub rejection: Option<Rejection>,
}

/// Why a server has rejected a connection: what an administrator has to correct.
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
    /// Takes a message of libpq that was made with verbosity `PQERRORS_VERBOSE`.
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
