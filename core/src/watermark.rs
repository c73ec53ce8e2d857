//! The watermark of a layout: the counter below which no transaction in progress has taken an ID.
//!
//! [`low_water`] computes the watermarks of all slots together with a [`Snapshot`]. A row whose ID is below the
//! watermark was written by a transaction that has ended in the snapshot. In each statement whose snapshot is at least
//! as new ([`Snapshot::is_covered_by`]), the row is therefore visible, or will never be visible.

use crate::field::Field;
use crate::identity::Identity;
use crate::layout::{Layout, Parts};
use crate::marks::{Mark, Marks};
use crate::slot::Slot;

/// A snapshot states which transactions were in progress at a given time. Transaction IDs have 64 bits, so that they
/// never wrap around. Subtransactions are not included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// All transactions with this ID or a later one count as in progress.
    pub xmax: u64,
    /// The earlier transactions that were in progress, in increasing order.
    pub running: Vec<u64>,
}

impl Snapshot {
    /// Returns whether a transaction was in progress, or had not yet started.
    pub fn is_running(&self, transaction: u64) -> bool {
        transaction >= self.xmax || self.running.binary_search(&transaction).is_ok()
    }

    /// Returns whether all transactions that have ended in this snapshot have also ended in the other snapshot.
    pub fn is_covered_by(&self, other: &Snapshot) -> bool {
        other.xmax >= self.xmax && other.running.iter().all(|&transaction| self.is_running(transaction))
    }
}

/// A transaction that holds back a watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The transaction of the process with this index.
    Process(usize),
    /// The prepared transaction with this ID, or a transaction about which only the ID is known.
    Transaction(u64),
}

/// The watermark of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowWater {
    /// No transaction in progress has taken an ID below this counter.
    pub word: u64,
    /// The transaction that holds back the watermark. `None` if the watermark is the counter of the slot.
    pub holder: Option<Holder>,
}

/// The reason why no watermark can be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// A transaction has taken IDs from more slots than it can mark.
    AnyLayout(Holder),
    /// A transaction has taken IDs from a slot that was retired by a reset.
    Retired(Holder),
    /// A transaction began before the server was started, so its marks are unknown. The transaction is prepared, or
    /// will end soon.
    Older(Holder),
}

/// Returns the watermarks of the slots, and a snapshot in which all transactions that have taken IDs below the
/// watermarks have ended.
///
/// `slots` are the slots by index, with `None` for each slot that is not in use. No slot may be assigned or retired
/// during the call. `processes` are the marks of all processes. `prepared` returns the marks of prepared transactions.
/// `snapshot` takes a snapshot, and `first` is the first transaction whose marks are known.
///
/// The order of the steps matters. The counters are read first. The marks of the processes are read before the marks of
/// prepared transactions, because a transaction that is being prepared copies its marks from the process to the list of
/// prepared transactions. The snapshot is taken last, because it must show the end of each transaction whose marks were
/// found cleared.
///
/// # Errors
/// Returns [`Blocked`] if the marks of a transaction in progress do not show from which slots it has taken IDs.
pub fn low_water<'a>(
    slots: impl IntoIterator<Item = Option<&'a Slot>>,
    processes: impl IntoIterator<Item = &'a Marks>,
    prepared: impl FnOnce() -> Vec<(u64, Vec<Mark>)>,
    snapshot: impl FnOnce() -> Snapshot,
    first: u64,
) -> Result<(Vec<Option<LowWater>>, Snapshot), Blocked> {
    let mut low: Vec<_> =
        slots.into_iter().map(|slot| slot.map(|slot| LowWater { word: slot.word(), holder: None })).collect();
    let mut blocked = None;
    for (index, marks) in processes.into_iter().enumerate() {
        if !marks.is_empty() {
            marks.read().for_each(|mark| hold_back(&mut low, &mut blocked, mark, Holder::Process(index)));
        }
    }
    let prepared = prepared();
    let snapshot = snapshot();
    for (transaction, marks) in prepared {
        if snapshot.is_running(transaction) {
            let holder = Holder::Transaction(transaction);
            marks.into_iter().for_each(|mark| hold_back(&mut low, &mut blocked, mark, holder));
        }
    }
    if let Some(blocked) = blocked {
        return Err(blocked);
    }
    match snapshot.running.first() {
        Some(&transaction) if transaction < first => Err(Blocked::Older(Holder::Transaction(transaction))),
        _ => Ok((low, snapshot)),
    }
}

fn hold_back(low: &mut [Option<LowWater>], blocked: &mut Option<Blocked>, mark: Mark, holder: Holder) {
    match mark {
        Mark::Slot { index, word } => match low.get_mut(index) {
            Some(Some(low)) if word < low.word => *low = LowWater { word, holder: Some(holder) },
            Some(Some(_)) => {}
            // The slot was retired. IDs of the same layout now come from another slot, and the counters of the two
            // slots cannot be compared.
            Some(None) | None => *blocked = Some(Blocked::Retired(holder)),
        },
        Mark::Any => *blocked = Some(Blocked::AnyLayout(holder)),
    }
}

/// Returns the watermark as an ID. Each ID that the server has issued or will issue at or after `counter` is at or
/// above the result. Each ID that contains `identity` and is below `counter` is below the result. The server must never
/// issue IDs below `counter` again.
///
/// `identity` is the identity under which the server issues IDs, and `from` is the first counter that this identity has
/// used. The result contains zeros instead of the identity in these cases:
///
/// * There is no identity, or it does not fit the layout, or the counter is below `from`. With an identity, the result
///   could be above an ID with a lower identity in the same tick.
/// * The counter is the start of a tick. No IDs of this tick have been issued, so IDs with a lower identity can still
///   be issued in this tick. The zeros exclude no IDs, because each ID below the counter is in an earlier tick.
///
/// If the counter is past the end of the layout, the result is the largest number.
///
/// The layout must have no clock sequence.
pub fn id_at(layout: &Layout, counter: u64, identity: Option<(Identity, u64)>) -> i64 {
    let is_in_tick = counter & layout.max(Field::Sequence) != 0;
    let identity = identity.filter(|&(_, from)| from <= counter && is_in_tick);
    identity
        .and_then(|(identity, _)| id_of(layout, counter, identity))
        .or_else(|| id_of(layout, counter, Identity { datacenter: 0, worker: 0 }))
        .unwrap_or(i64::MAX)
}

/// Returns the ID of a counter, or `None` if the counter is past the end of the layout or the identity does not fit the
/// layout. The layout must have no clock sequence.
pub fn id_of(layout: &Layout, counter: u64, identity: Identity) -> Option<i64> {
    let parts = Parts {
        tick: counter >> layout.bits(Field::Sequence),
        sequence: counter & layout.max(Field::Sequence),
        datacenter: identity.datacenter.into(),
        worker: identity.worker.into(),
        ..Parts::default()
    };
    layout.pack(&parts).ok()
}
