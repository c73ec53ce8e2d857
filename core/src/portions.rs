//! [`Portions`]: requests divided into portions, one for each statement. If a statement fails because of a name, the
//! portion is halved repeatedly until the name is found.

use std::collections::VecDeque;

use crate::segment_answer::MOST_REQUESTS;

/// The portions that are still to be sent.
#[derive(Debug)]
pub struct Portions<T>(VecDeque<Vec<T>>);

impl<T> Portions<T> {
    /// Divides requests into portions of at most [`MOST_REQUESTS`].
    pub fn of(mut all: Vec<T>) -> Portions<T> {
        let mut portions = VecDeque::new();
        while !all.is_empty() {
            let rest = all.split_off(all.len().min(MOST_REQUESTS));
            portions.push_back(std::mem::replace(&mut all, rest));
        }
        Portions(portions)
    }

    /// Adds a portion after all others.
    pub fn add(&mut self, portion: Vec<T>) {
        self.0.push_back(portion);
    }

    /// Returns whether no portion is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the next portion.
    pub fn pop(&mut self) -> Option<Vec<T>> {
        self.0.pop_front()
    }

    /// Splits a portion into two halves, which will be sent next. If the portion contains only one request,
    /// returns that request instead.
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
