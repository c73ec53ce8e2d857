//! [`Attempts`]: which host of a connection string is tried next, and how long an attempt may take.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// No wait is longer: 100 years, so that no sum of times overflows.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Returns the instant at which a wait of this length ends. A wait without end ends in 100 years.
pub fn deadline(now: Instant, time: Duration) -> Instant {
    now.checked_add(time.min(LONGEST)).unwrap_or(now)
}

/// Returns the number of hosts in a connection string with these numbers of names, addresses and ports.
///
/// # Errors
/// Returns the reason why the lists do not belong together.
pub fn count(names: usize, addresses: usize, ports: usize) -> Result<usize, String> {
    let hosts = names.max(addresses);
    if names > 0 && addresses > 0 && names != addresses {
        return Err(format!("could not match {names} host names to {addresses} hostaddr values"));
    }
    if ports > 1 && ports != hosts {
        return Err(format!("could not match {ports} port numbers to {hosts} hosts"));
    }
    Ok(hosts)
}

/// One step on the way to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step<N, A> {
    /// Looks a name up. The addresses are passed to [`Attempts::found`].
    LookUp(N),
    /// Connects to an address, or to a socket.
    Connect(A),
}

/// A step, and the time that it may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt<N, A> {
    /// The step.
    pub step: Step<N, A>,
    /// The time limit of the step.
    pub limit: Duration,
    /// When the time limit has passed.
    pub deadline: Instant,
}

/// The steps to the hosts of a connection string. Each address of a host has a time limit of its own, so that an
/// address that does not answer never takes the time of the next one.
pub struct Attempts<N, A, O> {
    left: VecDeque<Step<N, A>>,
    look_up: Duration,
    connect: Duration,
    order: O,
}

impl<N, A, K: Ord, O: FnMut(&Step<N, A>) -> K> Attempts<N, A, O> {
    /// Begins with the steps of a list. `look_up` and `connect` are the time limits of a step. Steps with a
    /// lower `order` come first, and steps with the same one in the order of the list.
    pub fn new(list: Vec<Step<N, A>>, look_up: Duration, connect: Duration, order: O) -> Self {
        let mut attempts = Attempts { left: VecDeque::new(), look_up, connect, order };
        attempts.put_first(list);
        attempts
    }

    /// Returns the next step, which begins now, or `None` if no host is left.
    pub fn next(&mut self, now: Instant) -> Option<Attempt<N, A>> {
        let step = self.left.pop_front()?;
        let limit = match step {
            Step::LookUp(_) => self.look_up,
            Step::Connect(_) => self.connect,
        };
        Some(Attempt { step, limit, deadline: deadline(now, limit) })
    }

    /// Notes the addresses of the name that was looked up. They come before the next host.
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
