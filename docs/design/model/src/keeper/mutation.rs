//! The protocol with one part broken. Each mutation shows the purpose of a rule of the protocol.

use crate::keeper::check::{FOLLOWED, LEASED, NO_REPEAT, ORDER, RAISED, WITHDRAWN};

/// Lists the mutations, each with its name on the command line, the broken part, and the property that it violates.
macro_rules! mutations {
    ($($mutation:ident $name:literal $what:literal $violates:ident)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutation {
            $($mutation,)*
        }

        impl Mutation {
            pub const ALL: &[Mutation] = &[$(Mutation::$mutation,)*];

            /// The name on the command line, and the broken part.
            pub fn name(self) -> (&'static str, &'static str) {
                match self {
                    $(Mutation::$mutation => ($name, $what),)*
                }
            }

            /// The property that it violates.
            pub fn violates(self) -> &'static str {
                match self {
                    $(Mutation::$mutation => $violates,)*
                }
            }
        }
    };
}

mutations! {
    PublishFirst "publish-first" "the horizon is published before its commit" NO_REPEAT
    GateBeforeCounter "gate-first" "a caller loads gate and limit before the counter" NO_REPEAT
    LateSlotAtClock "late-slot-at-clock" "a late slot starts at the clock, not at the floor" NO_REPEAT
    PublishRead "publish-read" "a horizon that was only read is published" NO_REPEAT
    ShutdownUnclosed "shutdown-unclosed" "a shutdown raises the counters and leaves the gate open" NO_REPEAT
    ShutdownUnfenced "shutdown-unfenced" "a shutdown stores the high-water mark before it fences" NO_REPEAT
    EndWithoutFloor "end-without-floor" "the high-water mark that a shutdown stores omits the floor" NO_REPEAT
    UnusedTooLow "unused-too-low" "a slot that a fence has raised counts as never used" NO_REPEAT
    OpenUnfenced "open-unfenced" "the gate is opened for another identity than before without a fence" ORDER
    PromiseAfterCommit "promise-after-commit" "a horizon is noted in shared memory after it was committed" NO_REPEAT
    HistoryForgotten "history-forgotten" "a crash of a backend erases the history that the server knows" NO_REPEAT
    ScriptOwnOnly "script-own-only"
        "CREATE EXTENSION, or a keeper that finds a loss, records only the last identity" NO_REPEAT
    AbsenceIsUnused "absence-is-unused" "missing records are taken for identities that were never used" NO_REPEAT
    ResetInUse "reset-in-use" "a reset does not shut out the identities used so far" NO_REPEAT
    ResetUnfenced "reset-unfenced" "a reset is made for an identity that was used before" NO_REPEAT
    ResetSameSlots "reset-same-slots" "a reset sets slots back and uses them again" NO_REPEAT
    ResetLowersHighest "reset-lowers-highest" "a reset also resets the highest horizon" NO_REPEAT
    ResetKeepsLast "reset-keeps-last"
        "a reset also lowers the promise made to the last identity" NO_REPEAT
    RecordAfterOpen "record-after-open" "the use of an identity is recorded after the gate was opened for it" NO_REPEAT
    ClaimLate "claim-late" "a request is claimed after the first durable step" WITHDRAWN
    RecordsAfterHorizon "records-after-horizon" "records are written after the horizons" NO_REPEAT
    JumpFollowed "jump-followed" "a clock that has jumped is followed" FOLLOWED
    RaiseUnrecorded "raise-unrecorded"
        "a request to raise the floor is not recorded for later values" RAISED
    RaiseClaimedLate "raise-claimed-late" "a request to raise the floor is claimed after it was stored" WITHDRAWN
    InheritedIsNew "inherited-is-new" "a lease from before the start counts as one that was just granted" NO_REPEAT
    LeaseUncapped "lease-uncapped" "slots may be used up to the horizon, even beyond the lease" LEASED
    ReusedEarly "reused-early" "a value is opened before the end of its use" NO_REPEAT
    ZeroAgain "zero-again" "value 0 is left and opened again like any other" NO_REPEAT
    KeyWithoutValue "key-without-value" "the value is not part of a slot's key: all values share one slot" NO_REPEAT
    WordWithoutValue "word-without-value" "the word of a slot does not hold the value" NO_REPEAT
    OpenedFirst "opened-first" "a value is opened before it is durable" NO_REPEAT
    ClosedAfter "closed-after" "the end of the value in use is written after the next value" NO_REPEAT
    ValueKeepsLimit "value-keeps-limit" "a slot that moves to another value keeps its horizon meanwhile" NO_REPEAT
    LossForgets "loss-forgets" "after a loss, values without a record count as never used" NO_REPEAT
}
