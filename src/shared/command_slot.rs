//! The command slot: passes requests of administrators to the keeper, one at a time.
//!
//! ```text
//!                   submit            claim             answer
//!   Free -> Filling -----> Waiting ----------> Claimed --------> Answered -> Free
//!                             |                   |                 (the caller takes the answer)
//!                             +-> Free            +-> Abandoned -----------> Free
//!                          withdraw             give_up              (the answer is discarded)
//! ```
//!
//! Each arrow is one atomic exchange of a word that holds the phase and a number, the ticket. A withdrawn
//! request is never carried out: withdrawing and claiming both exchange the same old value, so only one of
//! them succeeds. The keeper claims a request right before the first irreversible step. A caller either
//! gets the answer or, if it leaves earlier, reports that the request may still be carried out.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use snowflake_id_core::Identity;

use super::wait::Signal;

/// A request of an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Follow the clock, although it has jumped ahead.
    AcceptClock,
    /// Issue no more IDs with a time before this instant, in microseconds of Unix time.
    Advance(i64),
    /// Reset the horizon to the present, under this identity. `None` selects another identity that the
    /// registry leases.
    Reset(Option<Identity>),
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Answer {
    /// The request was carried out, durably.
    Done = 0,
    /// The request was not carried out; the keeper's report says why.
    Failed = 1,
    /// The request was refused because IDs are being issued under the identity.
    IdentityInUse = 2,
    /// The request was refused because IDs were issued under the identity.
    IdentityUsed = 3,
    /// The request was refused because it is not known which identities were used.
    HistoryUnknown = 4,
}

impl Answer {
    fn from_byte(byte: u8) -> Answer {
        use Answer::*;
        [Done, Failed, IdentityInUse, IdentityUsed, HistoryUnknown][usize::from(byte)]
    }
}

/// The phase of a request, which is stored together with the ticket in the word of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Phase {
    Free = 0,
    /// A caller is writing its request.
    Filling = 1,
    /// The request waits for the keeper.
    Waiting = 2,
    /// The keeper is carrying out the request.
    Claimed = 3,
    /// The answer waits for the caller.
    Answered = 4,
    /// The keeper is carrying out the request, but the caller has left.
    Abandoned = 5,
}

/// The number of a request, by which the caller and the keeper identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    fn word(self, phase: Phase) -> u64 {
        self.0 << 3 | phase as u64
    }
}

/// The slot. The caller writes the request in phase `Filling`, and the keeper writes the answer in phase
/// `Claimed`. These writes are ordered by the exchange that ends a phase (Release), and by the exchange or
/// load that reads the next phase (Acquire).
#[derive(Default)]
pub struct CommandSlot {
    word: AtomicU64,
    kind: AtomicU8,
    instant_us: AtomicI64,
    identity: AtomicU64,
    answer: AtomicU8,
    /// A signal that is sent when a request has been answered or has left the slot.
    pub changes: Signal,
}

impl CommandSlot {
    fn exchange(&self, ticket: Ticket, from: Phase, to: Phase) -> bool {
        let (from, to) = (ticket.word(from), ticket.word(to));
        self.word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Submits a request. Returns `None` if the slot is occupied.
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

    /// Withdraws a request. Returns true if the request was withdrawn, and false if the keeper has already
    /// claimed the request.
    pub fn withdraw(&self, ticket: Ticket) -> bool {
        let is_withdrawn = self.exchange(ticket, Phase::Waiting, Phase::Free);
        if is_withdrawn {
            self.changes.send();
        }
        is_withdrawn
    }

    /// Takes the answer and frees the slot. Returns `None` if there is no answer yet.
    pub fn take_answer(&self, ticket: Ticket) -> Option<Answer> {
        if self.word.load(Ordering::Acquire) != ticket.word(Phase::Answered) {
            return None;
        }
        let answer = Answer::from_byte(self.answer.load(Ordering::Relaxed));
        self.word.store(ticket.word(Phase::Free), Ordering::Release);
        self.changes.send();
        Some(answer)
    }

    /// Stops waiting for a request that the keeper has claimed. Returns false if the keeper has already
    /// answered the request.
    pub fn give_up(&self, ticket: Ticket) -> bool {
        self.exchange(ticket, Phase::Claimed, Phase::Abandoned)
    }

    /// Stops waiting, whatever the phase of the request: withdraws it, abandons it, or discards the answer.
    pub fn leave(&self, ticket: Ticket) {
        if !self.withdraw(ticket) && !self.give_up(ticket) {
            self.take_answer(ticket);
        }
    }

    /// Returns the request that waits for the keeper, if there is one.
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

    /// Claims a request. Returns false if it was withdrawn. A request that was submitted later is not
    /// claimed, as its ticket differs.
    pub fn claim(&self, ticket: Ticket) -> bool {
        self.exchange(ticket, Phase::Waiting, Phase::Claimed)
    }

    /// Answers the claimed request, if there is one.
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
