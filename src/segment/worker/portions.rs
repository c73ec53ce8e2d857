//! What is asked for in one statement each. Where one fails because of a name, halves are asked for, until it is found.

use std::collections::VecDeque;

/// How many names are asked for at once: as many as the registry accepts.
pub const MOST_REQUESTS: usize = 64;

pub struct Portions<T>(VecDeque<Vec<T>>);

impl<T> Portions<T> {
    pub fn of(mut all: Vec<T>) -> Portions<T> {
        let mut portions = VecDeque::new();
        while !all.is_empty() {
            let rest = all.split_off(all.len().min(MOST_REQUESTS));
            portions.push_back(std::mem::replace(&mut all, rest));
        }
        Portions(portions)
    }

    /// One more, after all others.
    pub fn add(&mut self, portion: Vec<T>) {
        self.0.push_back(portion);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn next(&mut self) -> Option<Vec<T>> {
        self.0.pop_front()
    }

    /// The statement fails with this portion: its halves are next. If it was one request alone, that is returned.
    pub fn halve(&mut self, mut portion: Vec<T>) -> Option<T> {
        if portion.len() > 1 {
            let half = portion.split_off(portion.len() / 2);
            self.0.push_front(half);
            self.0.push_front(portion);
            return None;
        }
        portion.pop()
    }
}
