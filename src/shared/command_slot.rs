//! The command slot, which passes administrators' requests to the keeper one at a time.
//!
//! ```text
//!                   submit            claim             answer
//!   Free -> Filling -----> Waiting ----------> Claimed --------> Answered -> Free
//!                             |                   |                 (the caller takes the answer)
//!                             +-> Free            +-> Abandoned -----------> Free
//!                          withdraw             give_up              (the answer is discarded)
//! ```
//!
//! Each arrow is one atomic change of a word that contains the phase and the ticket (the request's number). A withdrawn
//! request is never carried out, because `withdraw` and `claim` exchange the same old value, so only one of these calls
//! can succeed. The keeper claims a request right before the first irreversible step. A caller that stops waiting for a
//! claimed request reports that the request may still be carried out.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, Ordering};

use snowflake_id_core::Identity;

use super::wait::Signal;

/// A request of an administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Accept the clock although the clock has jumped ahead.
    AcceptClock,
    /// Issue only IDs with this time (in microseconds of Unix time) or a later time.
    RaiseFloor(i64),
    /// Reset the horizon to the current time under this identity. `None` requests another identity from the
    /// registry.
    Reset(Option<Identity>),
}

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Answer {
    /// The request was carried out, and its result is durable.
    Done = 0,
    /// The request was not carried out. The keeper's report contains the reason. If the server is being stopped, a
    /// reset may still take effect at the next start.
    Failed = 1,
    /// The request was refused because IDs are being issued under the identity.
    IdentityInUse = 2,
    /// The request was refused because IDs were issued under the identity earlier.
    IdentityUsed = 3,
    /// The request was refused because it is not known which identities the server has used.
    HistoryUnknown = 4,
    /// The request to accept the clock had no effect, because the clock has not jumped ahead.
    NoJump = 5,
}

impl Answer {
    fn from_byte(byte: u8) -> Answer {
        use Answer::*;
        [Done, Failed, IdentityInUse, IdentityUsed, HistoryUnknown, NoJump][usize::from(byte)]
    }
}

/// The phase of a request. The phase and the ticket are stored in the same word.
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
    /// The keeper is carrying out the request, but the caller has stopped waiting.
    Abandoned = 5,
}

/// The number by which the caller and the keeper identify a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    fn word(self, phase: Phase) -> u64 {
        self.0 << 3 | phase as u64
    }
}

/// The slot. The caller writes the request in phase `Filling`, and the keeper writes the answer in phase `Claimed`.
/// These writes are ordered by the change of the word that ends the phase (Release), and by the exchange or load that
/// reads the next phase (Acquire).
#[derive(Default)]
pub struct CommandSlot {
    word: AtomicU64,
    kind: AtomicU8,
    instant_us: AtomicI64,
    identity: AtomicU64,
    answer: AtomicU8,
    /// A signal that is sent when a request is answered or the slot becomes free.
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
            Request::RaiseFloor(instant_us) => {
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

    /// Takes the answer and frees the slot. Returns `None` if the keeper has not answered yet.
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

    /// Stops waiting for a request in any phase. The request is withdrawn if the keeper has not claimed it, and
    /// abandoned otherwise. If the keeper has already answered the request, the answer is discarded.
    pub fn leave(&self, ticket: Ticket) {
        if !self.withdraw(ticket) && !self.give_up(ticket) {
            self.take_answer(ticket);
        }
    }

    /// Returns the request that is waiting for the keeper, if any.
    pub fn waiting(&self) -> Option<(Ticket, Request)> {
        let word = self.word.load(Ordering::Acquire);
        let ticket = Ticket(word >> 3);
        if word != ticket.word(Phase::Waiting) {
            return None;
        }
        let request = match self.kind.load(Ordering::Relaxed) {
            0 => Request::AcceptClock,
            1 => Request::RaiseFloor(self.instant_us.load(Ordering::Relaxed)),
            _ => Request::Reset(Identity::from_word(self.identity.load(Ordering::Relaxed))),
        };
        Some((ticket, request))
    }

    /// Claims a request. Returns false if the request was withdrawn. A request that was submitted since then is not
    /// claimed, because it has a different ticket.
    pub fn claim(&self, ticket: Ticket) -> bool {
        self.exchange(ticket, Phase::Waiting, Phase::Claimed)
    }

    /// Answers the claimed request, if any.
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
