//! The answers that the current transaction has received.
//!
//! A statement may call `snowflake_watermark()` for each row. The watermark grows during the statement. If a later call
//! returned a higher watermark, the statement could omit a row and return a row with a higher ID. A reader that
//! continues after the higher ID would never see the omitted row. Therefore, all calls with the same snapshot get the
//! same answer, even if the answer is NULL. A cursor keeps its snapshot over many statements, so an answer is kept as
//! long as its snapshot may be in use.

use parking_lot::Mutex;
use pgrx::pg_sys::TransactionId;
use snowflake_id_core::Layout;

use crate::pg::snapshot::{self, StatementSnapshot};

/// The maximum number of answers that are kept. When the limit is reached, an answer is dropped unless a cursor, or a
/// transaction that writes, has been open since the answer was given. If no answer can be dropped, further statements
/// of the transaction get NULL.
const MAX_ANSWERS: usize = 4096;

struct Answer {
    layout: Layout,
    xmin: TransactionId,
    xmax: TransactionId,
    running: Box<[TransactionId]>,
    watermark: Option<i64>,
}

#[derive(Default)]
struct Answers {
    known: Vec<Answer>,
    /// Whether an answer could not be kept. In this case, no further answers are given until the transaction ends,
    /// because a statement that has received NULL must not receive another answer.
    is_full: bool,
}

static ANSWERS: Mutex<Answers> = Mutex::new(Answers { known: Vec::new(), is_full: false });

/// Returns the answer that the transaction has received for a snapshot, or computes a new answer.
pub fn answer(
    layout: &Layout,
    statement: &StatementSnapshot,
    compute: impl FnOnce() -> Option<i64>,
) -> Option<i64> {
    let mut answers = ANSWERS.lock();
    let is_for = |answer: &Answer| {
        answer.xmax == statement.xmax && *answer.running == *statement.running && answer.layout == *layout
    };
    // The statement most likely needs the last answer.
    if let Some(answer) = answers.known.iter().rev().find(|answer| is_for(answer)) {
        return answer.watermark;
    }
    if answers.known.len() == MAX_ANSWERS {
        answers.known.retain(|answer| snapshot::may_be_in_use(answer.xmin));
    }
    if answers.is_full || answers.known.len() == MAX_ANSWERS {
        answers.is_full = true;
        return None;
    }
    let watermark = compute();
    answers.known.push(Answer {
        layout: *layout,
        xmin: statement.xmin,
        xmax: statement.xmax,
        running: statement.running.into(),
        watermark,
    });
    watermark
}

/// Forgets all answers. Must be called after each transaction.
pub fn forget() {
    // The lock is never held here. It would be held only if an error had skipped its release, and no error does.
    if let Some(mut answers) = ANSWERS.try_lock()
        && (answers.is_full || !answers.known.is_empty())
    {
        *answers = Answers::default();
    }
}
