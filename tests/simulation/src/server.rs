//! A server: its disk, its memory while it runs, and events that affect all of it.

use std::collections::BTreeMap;

use snowflake_id_core::clocks::{ClockOffset, SinceBoot};
use snowflake_id_core::lease_state::LeaseState;
use snowflake_id_core::segment_records::SegmentRecords;
use snowflake_id_core::track::Horizon;
use snowflake_id_core::{Identity, Layout, Lease};

use crate::caller::Caller;
use crate::context::{Context, duration};
use crate::disk::{Disk, Pages, SEGMENTS, StandbyKind, Stored, Write};
use crate::keeper::{Ending, Keeper};
use crate::mutation::Mutation;
use crate::numbers::{NumbersWorker, marks};
use crate::random::Random;
use crate::shared::{HistoryWords, Request, Shared};
use crate::worker::Worker;

/// The properties by which an original is told from a copy: the file system, the boot of the host, the timeline.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Original {
    pub disk: u64,
    pub boot: u64,
    pub timeline: u64,
}

#[derive(Clone, Default)]
pub struct LeaseFile {
    pub original: Original,
    pub state: LeaseState,
}

/// A base backup, or a disk that was kept.
#[derive(Clone)]
pub struct Backup {
    pages: Pages,
    file: LeaseFile,
    numbers: SegmentRecords,
    timeline: u64,
}

/// The state of a running server.
pub struct Running {
    pub shared: Shared,
    pub keeper: Keeper,
    pub worker: Worker,
    pub numbers: NumbersWorker,
    pub callers: Vec<Caller>,
}

pub struct Server {
    pub at: usize,
    pub name: String,
    pub is_leased: bool,
    /// The worker IDs that its settings may have, and the present one.
    pub workers: Vec<u32>,
    pub worker: Option<u32>,
    /// The server was restored: before it gets this worker ID back, its floor must be raised to this instant.
    pub must_raise: Option<(i64, u32)>,
    /// The floor was raised when the disk had so many writes. A standby with fewer writes does not know of it.
    pub has_raised: Option<(u64, (i64, u32))>,
    pub layout_at: usize,
    pub max_ahead_us: i64,
    pub horizon_margin_us: i64,
    pub spread: u32,
    pub disk: Disk,
    pub file: LeaseFile,
    pub numbers_file: SegmentRecords,
    pub original: Original,
    pub backup: Option<Backup>,
    /// The error of its clock, and the boot time of its host.
    pub offset_us: i64,
    pub booted_us: i64,
    pub is_cut: bool,
    /// Whether the next commit of the keeper fails.
    pub is_commit_failing: bool,
    pub running: Option<Running>,
    /// The highest ID that was returned, for each layout and value of the clock sequence.
    pub last: BTreeMap<(usize, u8), i64>,
    /// Ranges that the registry has granted to it.
    pub granted: Vec<Lease>,
    pub last_number: [i64; SEGMENTS],
}

pub const CALLERS: usize = 3;

impl Server {
    pub fn clock_us(&self, cx: &Context) -> i64 {
        cx.now_us + self.offset_us
    }

    pub fn clock_offset(&self, cx: &Context) -> ClockOffset {
        ClockOffset::of(self.clock_us(cx), SinceBoot::from_us(cx.now_us - self.booted_us))
    }

    pub fn say(&self, cx: &mut Context, text: impl FnOnce() -> String) {
        cx.say(&self.name, text);
    }

    /// The lease that its settings give it.
    pub fn fixed_lease(&self) -> Option<Lease> {
        let worker = self.worker.filter(|_| self.must_raise.is_none())?;
        Some(Lease::for_good(Identity { datacenter: 0, worker }))
    }

    pub fn start(&mut self, cx: &mut Context) {
        if self.running.is_some() {
            return;
        }
        self.say(cx, || "is started".into());
        let history = HistoryWords { clock_offset: Some(self.clock_offset(cx)), ..<_>::default() };
        self.run_with(cx, history);
    }

    fn run_with(&mut self, cx: &mut Context, history: HistoryWords) {
        let overrun_us = if cx.is(Mutation::LeaseOverrun) { 60_000_000 } else { 0 };
        let worker = Worker::new(self, cx);
        self.running = Some(Running {
            shared: Shared::new(history, overrun_us),
            keeper: Keeper::default(),
            worker,
            numbers: NumbersWorker::new(self),
            callers: (0..CALLERS).map(|_| Caller::default()).collect(),
        });
    }

    /// The power fails, or the postmaster is killed.
    pub fn crash(&mut self, cx: &mut Context, random: &mut Random) -> bool {
        if self.running.is_none() || !self.disk.durable.is_sound() {
            return false;
        }
        let unflushed = self.disk.unflushed();
        let survivors = random.below(unflushed + 1);
        self.disk.crash(survivors);
        self.running = None;
        self.say(cx, || match unflushed {
            0 => "CRASHES".into(),
            _ => format!("CRASHES; of {unflushed} writes that were not flushed {survivors} survive"),
        });
        true
    }

    /// A backend is killed: shared memory is reinitialized, but the history is kept.
    pub fn crash_backend(&mut self, cx: &mut Context, random: &mut Random) -> bool {
        let Some(history) = self.running.as_ref().map(|running| running.shared.history) else { return false };
        if self.disk.durable.0.is_none() {
            return false;
        }
        let survivors = random.below(self.disk.unflushed() + 1);
        self.disk.crash(survivors);
        self.say(cx, || "a backend is killed: shared memory is reinitialized".into());
        self.run_with(cx, history);
        true
    }

    /// Whether emptied records would be stored again when the keeper stops.
    fn may_stop(&self) -> bool {
        let Some(running) = &self.running else { return false };
        let seals = running.keeper.has_committed;
        self.disk.read.0.as_ref().is_some_and(|stored| !stored.is_incomplete || seals)
    }

    pub fn stop(&mut self, cx: &mut Context, ending: Ending) -> bool {
        if !self.may_stop() {
            return false;
        }
        let Some(running) = &mut self.running else { return false };
        if running.keeper.ending.is_some() {
            return false;
        }
        running.keeper.ending = Some(ending);
        self.say(cx, || match ending {
            Ending::Server => "a clean stop begins".into(),
            Ending::Keeper => "the keeper is terminated".into(),
        });
        true
    }

    /// The end of a clean stop.
    pub fn down(&mut self, cx: &mut Context) {
        self.disk.flush(usize::MAX);
        self.running = None;
        self.say(cx, || "has stopped".into());
    }

    pub fn boot_host(&mut self, cx: &mut Context, random: &mut Random) -> bool {
        if self.running.is_some() && !self.crash(cx, random) {
            return false;
        }
        self.original.boot = random.bits();
        self.booted_us = cx.now_us;
        self.say(cx, || "its host is booted".into());
        true
    }

    /// The standby takes over, and the primary is gone.
    pub fn promote(&mut self, cx: &mut Context) -> bool {
        if self.disk.kind == StandbyKind::None || !self.disk.standby.pages.is_sound() {
            return false;
        }
        let lsn = self.disk.standby.lsn;
        cx.is_evidence_lost = true;
        if self.disk.kind == StandbyKind::Asynchronous && !self.is_leased {
            // The new primary may repeat IDs that it has not received.
            cx.ledger.forget_rows(self.at, lsn);
            if let Some((_, to)) = self.has_raised.take_if(|(done, _)| *done > lsn) {
                self.must_raise = Some(to);
            }
        }
        let kind = self.disk.kind;
        let behind = self.disk.standby.is_behind_by();
        self.disk.promote();
        self.running = None;
        self.last.clear();
        self.original.timeline += 1;
        self.original.disk = self.original.disk.wrapping_mul(31) + 17;
        self.last_number = [0; SEGMENTS];
        // The files came with a base backup.
        (self.file, self.numbers_file) = match &self.backup {
            Some(backup) => (backup.file.clone(), backup.numbers.clone()),
            None => <_>::default(),
        };
        self.say(cx, || format!("is lost; its {kind:?} standby, {behind} writes behind, is promoted"));
        true
    }

    pub fn take_backup(&mut self, cx: &mut Context) -> bool {
        let is_sound = self.disk.durable.is_sound();
        if is_sound {
            self.backup = Some(Backup {
                pages: self.disk.durable.clone(),
                file: self.file.clone(),
                numbers: self.numbers_file.clone(),
                timeline: self.original.timeline,
            });
            self.say(cx, || "its disk is copied".into());
        }
        is_sound
    }

    /// An older disk replaces the present one. With a fixed worker ID, an administrator first moves the floor or
    /// assigns another worker ID.
    pub fn restore(&mut self, cx: &mut Context, random: &mut Random, layouts: &[Layout]) -> bool {
        let Some(backup) = self.backup.clone() else { return false };
        cx.is_evidence_lost = true;
        if !self.is_leased {
            let worker = match cx.fresh_worker().filter(|_| random.one_in(2)) {
                Some(worker) => worker,
                None => {
                    let kept = random.pick(&self.workers);
                    self.must_raise = Some((cx.ledger.end_us(kept, layouts).max(1), kept));
                    kept
                }
            };
            self.workers = vec![worker];
            self.worker = Some(worker);
        }
        self.has_raised = None;
        self.disk = Disk::new(backup.pages, self.disk.kind);
        cx.ledger.keep_rows(self.at);
        (self.file, self.numbers_file) = (backup.file, backup.numbers);
        self.original = Original { disk: random.bits(), timeline: backup.timeline, ..self.original };
        self.running = None;
        self.last.clear();
        self.last_number = [0; SEGMENTS];
        let worker = self.worker;
        self.say(cx, || format!("is lost, and restored from a copy of its disk; worker ID {worker:?}"));
        true
    }

    /// Starts a copy that runs beside the original.
    pub fn copy(&mut self, cx: &mut Context, random: &mut Random, at: usize) -> Option<Server> {
        let backup = self.backup.clone()?;
        let worker = if self.is_leased { None } else { Some(cx.fresh_worker()?) };
        let name = format!("S{at}");
        let copied = &self.name;
        cx.say(&name, || format!("starts as a copy of {copied}, with worker ID {worker:?}"));
        Some(Server {
            at,
            name,
            workers: worker.into_iter().collect(),
            worker,
            must_raise: None,
            has_raised: None,
            disk: Disk::new(backup.pages, self.disk.kind),
            file: backup.file,
            numbers_file: backup.numbers,
            original: Original { disk: random.bits(), timeline: backup.timeline, boot: self.original.boot },
            backup: None,
            is_cut: false,
            is_commit_failing: false,
            running: None,
            last: BTreeMap::new(),
            granted: vec![],
            last_number: [0; SEGMENTS],
            ..*self
        })
    }

    /// Whether DDL does not have to wait for the keeper's lock, and a crash would be covered.
    fn is_ddl_possible(&self) -> bool {
        let is_standby_there = self.disk.kind != StandbyKind::Synchronous || !self.disk.standby.is_away;
        let is_idle = |running: &Running| {
            running.shared.is_begun() && !running.keeper.is_locked && running.keeper.ending.is_none()
        };
        is_standby_there && self.running.as_ref().is_some_and(is_idle)
    }

    pub fn drop_extension(&mut self, cx: &mut Context) -> bool {
        if !self.is_ddl_possible() || self.disk.read.0.is_none() {
            return false;
        }
        self.disk.write(Write::Drop);
        self.disk.commit(false);
        self.say(cx, || "DROP EXTENSION".into());
        true
    }

    /// The script stores the history that the server knows.
    pub fn create_extension(&mut self, cx: &mut Context) -> bool {
        let Some(running) = &self.running else { return false };
        if self.disk.read.0.is_some() {
            return false;
        }
        let shared = &running.shared;
        let tracks = shared.tracks([Horizon::NONE; 2]);
        let history = shared.history.snapshot();
        let mut stored = Stored { oid: cx.fresh_oid(), ..Stored::default() };
        if history.highest_us > 0 {
            let (records, horizons) = history.stored_anew(&tracks);
            stored = Stored { horizons, uses: records.into_iter().collect(), ..stored };
        }
        stored.had = marks(&self.numbers_file);
        let horizons = stored.horizons;
        self.disk.write(Write::Create(stored));
        self.disk.commit(false);
        self.say(cx, || format!("CREATE EXTENSION, with {}", horizons_in_words(horizons)));
        true
    }

    pub fn empty(&mut self, cx: &mut Context, is_horizon: bool) -> bool {
        // A keeper that has opened no gate and published nothing since the start has nothing to compare with.
        let has_published = self.running.as_ref().is_some_and(|running| {
            let history = &running.shared.history;
            history.published[0] != Horizon::NONE && history.last_identity.is_some()
        });
        if !self.is_ddl_possible() || !self.disk.read.is_sound() || !has_published {
            return false;
        }
        self.disk.write(if is_horizon { Write::EmptyHorizons } else { Write::EmptyUses });
        self.disk.commit(false);
        self.say(cx, || {
            format!("the stored {} are emptied", if is_horizon { "horizons" } else { "records" })
        });
        true
    }

    pub fn step_clock(&mut self, cx: &mut Context, step_us: i64) {
        self.offset_us += step_us;
        let offset_us = self.offset_us;
        self.say(cx, || format!("its clock is set by {}, to {} off", duration(step_us), duration(offset_us)));
    }

    pub fn request(&mut self, cx: &mut Context, request: Request) -> bool {
        // The earlier request has waited for too long, and is withdrawn.
        let Some(running) = &mut self.running else { return false };
        running.shared.request = Some(request);
        self.say(cx, || format!("an administrator requests {request:?}"));
        true
    }
}

pub fn horizons_in_words(horizons: [Horizon; 2]) -> String {
    let one = |horizon: Horizon| match horizon.value() {
        0 => format!("horizon {}", instant(horizon.until_us())),
        value => format!("horizon {} of value {value}", instant(horizon.until_us())),
    };
    match horizons {
        [first, Horizon::NONE] => one(first),
        [first, second] => format!("{}, {}", one(first), one(second)),
    }
}

/// An instant, relative to the start of the story.
pub fn instant(us: i64) -> String {
    match us {
        0 => "none".into(),
        i64::MAX => "infinity".into(),
        _ => duration(us - crate::setup::BEGAN_US),
    }
}
