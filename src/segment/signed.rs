//! What registries have signed: evidence of what they have given of a segment, to whomever.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Of so many registries it is kept, those that have signed last.
const MOST_REGISTRIES: usize = 8;

/// The evidence of each registry, the one that has signed last first. It proves nothing to another one, and says nothing of what
/// that has given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed(Vec<OfRegistry>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OfRegistry {
    registry_id: Option<Uuid>,
    segments: BTreeMap<String, Tokens>,
}

/// What is kept of a name. Nobody but the registry can check a signature. So what shows more than anything the registry has
/// signed, and is made up, does not keep out what the registry signs next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Tokens {
    /// What shows most: a registry that was set back may sign less.
    most: String,
    last: String,
}

impl Signed {
    /// What can be shown to a registry.
    pub fn tokens(&self, registry_id: Option<Uuid>, name: &str) -> Vec<String> {
        let of_registry = self.0.iter().find(|of| of.registry_id == registry_id);
        let Some(tokens) = of_registry.and_then(|of| of.segments.get(name)) else { return vec![] };
        let mut all = vec![tokens.most.clone(), tokens.last.clone()];
        all.dedup();
        all
    }

    /// Notes what a registry has signed.
    pub fn note(&mut self, registry_id: Option<Uuid>, name: &str, token: String) {
        let at = self.0.iter().position(|of| of.registry_id == registry_id);
        let mut of_registry = match at {
            Some(at) => self.0.remove(at),
            None => OfRegistry { registry_id, segments: BTreeMap::new() },
        };
        let first = || Tokens { most: token.clone(), last: token.clone() };
        let tokens = of_registry.segments.entry(name.into()).or_insert_with(first);
        if shown(&tokens.most) <= shown(&token) {
            tokens.most.clone_from(&token);
        }
        tokens.last = token;
        self.0.insert(0, of_registry);
        self.0.truncate(MOST_REGISTRIES);
    }
}

/// What a token shows: where the segment goes on, in its period and in the next one.
fn shown(token: &str) -> Option<(u128, u128)> {
    let (statement, _) = token.split_once('.')?;
    let mut parts = statement.split(':').skip(2);
    let next = parts.next()?.parse().ok()?;
    Some((next, parts.next()?.parse().unwrap_or(0)))
}
