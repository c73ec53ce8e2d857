//! [`Clients`]: which client may use which names.
//!
//! Each line of the file is a token and the names that requests with this token may use. With `-` in place of
//! a token, requests need no token. A name may be in several lines. Lines that begin with `#` are ignored.

use std::collections::{BTreeSet, HashMap};
use std::fs;

/// The token of requests without a token.
const ANYONE: &str = "-";

pub struct Clients {
    names_of: HashMap<String, BTreeSet<String>>,
}

impl Clients {
    /// Reads the file.
    ///
    /// # Errors
    /// Returns the reason if the file cannot be read, or if a line has no name.
    pub fn read(path: &str) -> Result<Clients, String> {
        let text = fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        let mut names_of: HashMap<String, BTreeSet<String>> = HashMap::new();
        let lines = text.lines().map(str::trim).enumerate();
        for (at, line) in lines.filter(|(_, line)| !line.starts_with('#')) {
            let mut words = line.split_whitespace().map(String::from);
            let Some(token) = words.next() else { continue };
            let names: Vec<String> = words.collect();
            if names.is_empty() {
                return Err(format!("{path}, line {}: there is no name after the token", at + 1));
            }
            names_of.entry(token).or_default().extend(names);
        }
        Ok(Clients { names_of })
    }

    /// All names.
    pub fn names(&self) -> BTreeSet<&str> {
        self.names_of.values().flatten().map(String::as_str).collect()
    }

    /// Whether a request with this token may use this name. Without a token, it is empty.
    pub fn may_use(&self, token: &str, name: &str) -> bool {
        [token, ANYONE]
            .iter()
            .any(|&token| self.names_of.get(token).is_some_and(|names| names.contains(name)))
    }
}
