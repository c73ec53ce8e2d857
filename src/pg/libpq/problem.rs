//! Why a connection could not be established.

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
    NoDatabase,
    /// The role does not exist, has failed to prove its identity, or has no entry in `pg_hba.conf`.
    NoLogin,
}

impl Problem {
    /// Takes a message of libpq, in one line, that was made with verbosity `PQERRORS_VERBOSE`. libpq does not return the
    /// SQLSTATE of a failed connection in any other way. If a server has sent the message, the SQLSTATE precedes its text,
    /// and the place in the server's sources follows it. Both are removed.
    pub fn of_verbose(message: &str) -> Problem {
        let parts = message.split_once(":  ").and_then(|(before, rest)| {
            let (state, text) = rest.split_at_checked(5)?;
            let is_state = state.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
            let text = text.strip_prefix(": ").filter(|_| is_state)?;
            Some((before, state, text))
        });
        let Some((before, state, text)) = parts else { return message.to_owned().into() };
        // The label of the place is translated.
        let text = match text.rsplit_once("; ") {
            Some((text, place)) if is_place(place) => text,
            _ => text,
        };
        let rejection = match state {
            "3D000" => Some(Rejection::NoDatabase),
            _ if state.starts_with("28") => Some(Rejection::NoLogin),
            _ => None,
        };
        Problem { text: format!("{before}:  {text}"), rejection }
    }
}

/// Returns whether a line ends with a place such as `InitPostgres, postinit.c:1005`.
fn is_place(line: &str) -> bool {
    line.rsplit_once(".c:").is_some_and(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()))
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
