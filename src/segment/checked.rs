//! [`Checked`]: results of checks that a process remembers until something changes.

/// The maximum number of results. A session usually takes numbers as one role.
const CAPACITY: usize = 16;

/// Results of checks, starting with the oldest one. No change has occurred between these checks. The next change makes
/// all results outdated.
pub struct Checked<T> {
    as_of: u64,
    results: Vec<T>,
}

impl<T> Checked<T> {
    pub const fn new() -> Checked<T> {
        Checked { as_of: 0, results: Vec::new() }
    }

    /// Returns the result for which the closure `is_it` returns true, unless the result is outdated. `changes` is the
    /// current number of changes.
    pub fn find(&self, changes: u64, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        self.results.iter().find(|result| is_it(result)).filter(|_| self.as_of == changes)
    }

    /// Remembers a result. `as_of` is the number of changes before the check started.
    pub fn remember(&mut self, as_of: u64, result: T) {
        if self.as_of != as_of {
            *self = Checked { as_of, ..Checked::new() };
        }
        if self.results.len() == CAPACITY {
            self.results.remove(0);
        }
        self.results.push(result);
    }
}
