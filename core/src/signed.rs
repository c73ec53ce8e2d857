//! [`Signed`]: the tokens of a server. A token is a statement, signed by a registry, about the numbers that the
//! registry granted to this server or to other servers.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::segment_answer::Granted;

/// The reason why a grant is not used yet: the registry has not signed it. A registry signs only grants that a crash or
/// a failover cannot undo.
pub const NOT_DURABLE: &str = "the grant is not durable yet";
/// The number of registries whose tokens are kept. These are the registries that signed most recently.
const MOST_REGISTRIES: usize = 8;

/// The tokens of each registry. The registry that signed most recently is first. A token proves nothing to another
/// registry, and says nothing about the numbers that another registry granted.
#[derive(Clone, Debug, Default)]
pub struct Signed(Vec<OfRegistry>);

#[derive(Clone, Debug)]
struct OfRegistry {
    registry_id: Option<Uuid>,
    segments: BTreeMap<String, Tokens>,
}

/// The tokens kept for one name. Only the registry can verify a signature. A forged token may therefore be stored in
/// the field `most` if it states more than any real token. The last token is kept as well, so that a forged token
/// does not displace the registry's next token.
#[derive(Clone, Debug)]
struct Tokens {
    /// The token that states the most. A registry that is restored from a backup may later sign tokens that state
    /// less.
    most: String,
    last: String,
}

impl Signed {
    /// Returns the tokens of a name to send to this registry.
    pub fn tokens(&self, registry_id: Option<Uuid>, name: &str) -> Vec<String> {
        let of_registry = self.0.iter().find(|of| of.registry_id == registry_id);
        let Some(tokens) = of_registry.and_then(|of| of.segments.get(name)) else { return vec![] };
        let mut all = vec![tokens.most.clone(), tokens.last.clone()];
        all.dedup();
        all
    }

    /// Returns whether this token is the last one that was stored for a name, so that it need not be stored again.
    pub fn is_last(&self, registry_id: Option<Uuid>, name: &str, token: &str) -> bool {
        let of_registry = self.0.first().filter(|of| of.registry_id == registry_id);
        of_registry.and_then(|of| of.segments.get(name)).is_some_and(|tokens| tokens.last == token)
    }

    /// Iterates over all tokens. Storing the tokens in this order restores the same contents.
    pub fn all(&self) -> impl Iterator<Item = (Option<Uuid>, &str, &str)> {
        self.0.iter().rev().flat_map(|of| {
            of.segments.iter().flat_map(|(name, tokens)| {
                let last = Some(&tokens.last).filter(|last| **last != tokens.most);
                std::iter::once(&tokens.most)
                    .chain(last)
                    .map(|token| (of.registry_id, name.as_str(), token.as_str()))
            })
        })
    }

    /// Stores a token that a registry has signed.
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

/// Returns whether a token proves that this range was granted. If the registry has since lost the grant, its token
/// states less. A higher number of a later period also proves the range, because the registry does not return to an
/// earlier period. However, a number that was granted in advance for the next period proves only ranges of that period.
pub fn proves(token: &str, granted: &Granted) -> bool {
    let (Some((next, ahead)), Some(last)) = (shown(token), granted.range.last()) else { return false };
    let last = last as u128;
    let is_of_next_period = granted.period.is_some_and(|period| {
        let is_prefix = |digits| last / 10_u128.pow(digits) == period.key as u128;
        let digits = (1..=18).find(|&digits| is_prefix(digits));
        digits.is_some_and(|digits| ahead / 10_u128.pow(digits) == period.key as u128)
    });
    last < next || is_of_next_period && last < ahead
}

/// Returns the position that a token states: the next number of the segment in its current period, and in the next
/// period. Returns `None` for an invalid token.
fn shown(token: &str) -> Option<(u128, u128)> {
    let (statement, _) = token.split_once('.')?;
    let mut parts = statement.split(':').skip(2);
    let next = parts.next()?.parse().ok()?;
    Some((next, parts.next()?.parse().unwrap_or(0)))
}
