//! [`Attempts`] determines which host of a connection string is tried next, and how long an attempt may take.

use std::collections::VecDeque;
use std::time::Duration;

/// The default port of PostgreSQL.
pub const PORT: u16 = 5432;
/// The time limit for one address, unless the connection string has a `connect_timeout`.
pub const TIME_FOR_AN_ADDRESS: Duration = Duration::from_secs(5);

/// The name, the address and the port of one host, if the connection string specifies them.
pub type Listed<'a, N, A, P> = (Option<&'a N>, Option<&'a A>, Option<&'a P>);

/// Combines the lists in a connection string into a list of hosts. A single port applies to all hosts.
///
/// # Errors
/// Returns the reason why the lengths of the lists do not match.
pub fn listed<'a, N, A, P>(
    names: &'a [N],
    addresses: &'a [A],
    ports: &'a [P],
) -> Result<Vec<Listed<'a, N, A, P>>, String> {
    let hosts = names.len().max(addresses.len());
    if !names.is_empty() && !addresses.is_empty() && names.len() != addresses.len() {
        let (names, addresses) = (names.len(), addresses.len());
        return Err(format!("could not match {names} host names to {addresses} hostaddr values"));
    }
    if ports.len() > 1 && ports.len() != hosts {
        return Err(format!("could not match {} port numbers to {hosts} hosts", ports.len()));
    }
    Ok((0..hosts).map(|at| (names.get(at), addresses.get(at), ports.get(at).or(ports.first()))).collect())
}

/// One step on the way to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<N, A> {
    /// Look up a name, and pass its addresses to [`Attempts::found`].
    LookUp(N),
    /// Connect to an address, or to a socket.
    Connect(A),
}

/// The remaining steps to connect to one of the hosts of a connection string. Each address has its own time
/// limit, so an address that does not answer does not shorten the time for the next address.
pub struct Attempts<N, A, O> {
    left: VecDeque<Step<N, A>>,
    look_up: Duration,
    connect: Duration,
    order: O,
}

impl<N, A, K: Ord, O: FnMut(&Step<N, A>) -> K> Attempts<N, A, O> {
    /// Starts with the steps in `list`. `look_up` and `connect` are the time limits of the two kinds of
    /// steps. Steps with a lower `order` come first. Steps with the same `order` keep their order in the
    /// list.
    pub fn new(list: Vec<Step<N, A>>, look_up: Duration, connect: Duration, order: O) -> Self {
        let mut attempts = Attempts { left: VecDeque::new(), look_up, connect, order };
        attempts.put_first(list);
        attempts
    }

    /// Returns the next step with its time limit, or `None` if no host is left.
    pub fn next_step(&mut self) -> Option<(Step<N, A>, Duration)> {
        let step = self.left.pop_front()?;
        let limit = match step {
            Step::LookUp(_) => self.look_up,
            Step::Connect(_) => self.connect,
        };
        Some((step, limit))
    }

    /// Adds steps for the addresses of the name that was looked up. These steps come before the steps of the
    /// next host.
    pub fn found(&mut self, addresses: impl IntoIterator<Item = A>) {
        self.put_first(addresses.into_iter().map(Step::Connect).collect());
    }

    /// Returns whether a step is left.
    pub fn has_more(&self) -> bool {
        !self.left.is_empty()
    }

    fn put_first(&mut self, mut steps: Vec<Step<N, A>>) {
        steps.sort_by_cached_key(&mut self.order);
        for step in steps.into_iter().rev() {
            self.left.push_front(step);
        }
    }
}
