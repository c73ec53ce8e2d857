//! Where administrators leave orders for the keeper: one at a time.
//!
//! ```text
//!                   place             claim             answer
//!   Free -> Filling -----> Waiting ----------> Claimed --------> Answered -> Free
//!                             |                   |                 (the caller takes the answer)
//!                             +-> Free            +-> Abandoned -----------> Free
//!                          withdraw             give_up              (the keeper answers nobody)
//! ```
//!
//! Each arrow is one exchange of a word that holds a number, the ticket, and the phase. So an order that was
//! withdrawn is not carried out: withdrawing and claiming are exchanges from the same value, of which only
//! one succeeds. The keeper claims an order right before the first thing that cannot be undone. Whoever has
//! placed one learns what became of it, and is told so if it has to leave before that.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use snowflake_id_core::Identity;

use super::wait::Signal;

/// What an administrator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Follow a clock that has jumped ahead.
    AcceptClock,
    /// Make no more IDs whose time is earlier than this, in microseconds of Unix time.
    Advance(i64),
    /// Begin anew at the present, for this identity; without one, for another that the registry leases.
    Reset(Option<Identity>),
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Answer {
    /// It was carried out, durably.
    Done = 0,
    /// It was not; the keeper's report says why.
    Failed = 1,
    /// IDs are being made under the identity.
    IdentityInUse = 2,
    /// IDs were made under the identity.
    IdentityUsed = 3,
    /// It is not known which identities were used.
    HistoryUnknown = 4,
}

impl Answer {
    fn from_byte(byte: u8) -> Answer {
        use Answer::*;
        [Done, Failed, IdentityInUse, IdentityUsed, HistoryUnknown][usize::from(byte)]
    }
}

/// What the word of the desk says besides the ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Phase {
    Free = 0,
    /// A caller is writing its order down.
    Filling = 1,
    /// For the keeper.
    Waiting = 2,
    /// The keeper carries it out.
    Claimed = 3,
    /// For the caller.
    Answered = 4,
    /// The keeper carries it out, and nobody waits for the answer.
    Abandoned = 5,
}

/// The number of an order, by which caller and keeper know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    fn word(self, phase: Phase) -> u64 {
        self.0 << 3 | phase as u64
    }
}

/// The desk. The order is written by its caller while `Filling`, the answer by the keeper while `Claimed`;
/// the exchange that ends a phase (Release) and the one that finds the next (Acquire) order these.
#[derive(Default)]
pub struct CommandSlot {
    word: AtomicU64,
    kind: AtomicU8,
    instant_us: AtomicI64,
    identity: AtomicU64,
    answer: AtomicU8,
    /// Sent when an order was answered, or has left the desk.
    pub changes: Signal,
}

impl CommandSlot {
    fn exchange(&self, ticket: Ticket, from: Phase, to: Phase) -> bool {
        let (from, to) = (ticket.word(from), ticket.word(to));
        self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Places an order; `None` if there is one already.
    pub fn submit(&self, request: Request) -> Option<Ticket> {
        let word = self.word.load(Ordering::Acquire);
        let (last, ticket) = (Ticket(word >> 3), Ticket((word >> 3) + 1));
        let (from, to) = (last.word(Phase::Free), ticket.word(Phase::Filling));
        self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let kind = match request {
            Request::AcceptClock => 0,
            Request::Advance(instant_us) => {
                self.instant_us.store(instant_us, Ordering::Relaxed);
                1
            }
            Request::Reset(identity) => {
                self.identity.store(identity.map_or(Identity::NOBODY, Identity::to_word), Ordering::Relaxed);
                2
            }
        };
        self.kind.store(kind, Ordering::Relaxed);
        self.word.store(ticket.word(Phase::Waiting), Ordering::Release);
        Some(ticket)
    }

    /// Takes an order back. Returns whether it will not be carried out: false if the keeper has claimed it.
    pub fn withdraw(&self, ticket: Ticket) -> bool {
        let is_withdrawn = self.exchange(ticket, Phase::Waiting, Phase::Free);
        if is_withdrawn {
            self.changes.send();
        }
        is_withdrawn
    }

    /// Takes the answer, once it is there.
    pub fn take_answer(&self, ticket: Ticket) -> Option<Answer> {
        if self.word.load(Ordering::Acquire) != ticket.word(Phase::Answered) {
            return None;
        }
        let answer = Answer::from_byte(self.answer.load(Ordering::Relaxed));
        self.word.store(ticket.word(Phase::Free), Ordering::Release);
        self.changes.send();
        Some(answer)
    }

    /// Waits no more for an order that the keeper has claimed. Returns false if the answer is there.
    pub fn give_up(&self, ticket: Ticket) -> bool {
        self.exchange(ticket, Phase::Claimed, Phase::Abandoned)
    }

    /// Leaves, whatever the order has come to.
    pub fn leave(&self, ticket: Ticket) {
        if !self.withdraw(ticket) && !self.give_up(ticket) {
            self.take_answer(ticket);
        }
    }

    /// The order that waits for the keeper.
    pub fn waiting(&self) -> Option<(Ticket, Request)> {
        let word = self.word.load(Ordering::Acquire);
        let ticket = Ticket(word >> 3);
        if word != ticket.word(Phase::Waiting) {
            return None;
        }
        let request = match self.kind.load(Ordering::Relaxed) {
            0 => Request::AcceptClock,
            1 => Request::Advance(self.instant_us.load(Ordering::Relaxed)),
            _ => Request::Reset(Identity::from_word(self.identity.load(Ordering::Relaxed))),
        };
        Some((ticket, request))
    }

    /// Claims an order; false if it was withdrawn. (If another one was placed meanwhile, that has another
    /// ticket.)
    pub fn claim(&self, ticket: Ticket) -> bool {
        self.exchange(ticket, Phase::Waiting, Phase::Claimed)
    }

    /// Answers the order that is claimed, if there is one.
    pub fn answer_claimed(&self, answer: Answer) {
        let word = self.word.load(Ordering::Acquire);
        let ticket = Ticket(word >> 3);
        if ![Phase::Claimed, Phase::Abandoned].map(|phase| ticket.word(phase)).contains(&word) {
            return;
        }
        self.answer.store(answer as u8, Ordering::Relaxed);
        if !self.exchange(ticket, Phase::Claimed, Phase::Answered) {
            self.exchange(ticket, Phase::Abandoned, Phase::Free);
        }
        self.changes.send();
    }
}
