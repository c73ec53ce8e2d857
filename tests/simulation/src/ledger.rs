//! All issued IDs and numbers, and the checks on each.

use std::collections::BTreeMap;

use snowflake_id_core::{Field, Generator, Layout, Parts, Reservation};

/// The holder of a run of consecutive IDs.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The counter after the last ID.
    end: u64,
    server: usize,
    /// The number of writes on its disk at that time: the row comes after them.
    lsn: u64,
}

/// The common part of the IDs of one layout that have consecutive counters.
type Lane = (usize, u64, u64, u64);

#[derive(Default)]
pub struct Ledger {
    ids: BTreeMap<Lane, BTreeMap<u64, Entry>>,
    numbers: Vec<BTreeMap<i64, (i64, usize)>>,
    /// The number after the highest of each segment that a server had.
    pub number_ends: Vec<i64>,
    pub id_count: u64,
    pub number_count: u64,
    pub latest_us: i64,
}

/// A run of IDs as the product returned them.
pub struct Run {
    lane: Lane,
    pub first: u64,
    pub count: u64,
    pub first_id: i64,
    pub last_id: i64,
    pub first_tick: u64,
    pub last_tick: u64,
}

impl Run {
    pub fn of(layout_at: usize, generator: &Generator, reservation: Reservation) -> Result<Run, String> {
        let layout: &Layout = generator.layout();
        let count = reservation.count();
        let first_id = generator.first_id(reservation);
        let last_id = generator.ids(reservation).last().unwrap_or(first_id);
        let [first, last] =
            [first_id, last_id].map(|id| layout.unpack(id).map_err(|error| format!("{id}: {error:?}")));
        let (first, last): (Parts, Parts) = (first?, last?);
        let bits = layout.bits(Field::Sequence);
        let counter = |parts: &Parts| parts.tick << bits | parts.sequence;
        if counter(&last) + 1 != counter(&first) + count || first_id > last_id || first_id < 0 {
            return Err(format!("{first_id} to {last_id} are not {count} consecutive IDs"));
        }
        let identity = generator.identity();
        let lane = (layout_at, first.datacenter, first.worker, first.clock_seq);
        let fits = layout.bits(Field::Datacenter) == 0 || first.datacenter == u64::from(identity.datacenter);
        if !fits || first.worker != u64::from(identity.worker) {
            return Err(format!("{first_id} has another identity than {identity}"));
        }
        Ok(Run {
            lane,
            first: counter(&first),
            count,
            first_id,
            last_id,
            first_tick: first.tick,
            last_tick: last.tick,
        })
    }

    pub fn clock_seq(&self) -> u8 {
        self.lane.3 as u8
    }
}

impl Ledger {
    pub fn new(segments: usize, began_us: i64) -> Ledger {
        Ledger {
            numbers: vec![BTreeMap::new(); segments],
            number_ends: vec![1; segments],
            latest_us: began_us,
            ..Ledger::default()
        }
    }

    /// Records a run of IDs. Returns the server that was issued one of them before, if any.
    pub fn add(&mut self, run: &Run, server: usize, lsn: u64) -> Result<(), usize> {
        let (first, end) = (run.first, run.first + run.count);
        let lane = self.ids.entry(run.lane).or_default();
        self.id_count += run.count;
        let before = lane.range(..end).next_back();
        if let Some((_, entry)) = before.filter(|(_, entry)| entry.end > first) {
            return Err(entry.server);
        }
        lane.insert(first, Entry { end, server, lsn });
        Ok(())
    }

    /// Removes the rows of a server that its standby had not received.
    pub fn forget_rows(&mut self, server: usize, lsn: u64) {
        for lane in self.ids.values_mut() {
            lane.retain(|_, entry| entry.server != server || entry.lsn <= lsn);
        }
    }

    /// The server has another disk: rows on the former one are not lost in a later promotion.
    pub fn keep_rows(&mut self, server: usize) {
        for lane in self.ids.values_mut() {
            lane.values_mut().filter(|entry| entry.server == server).for_each(|entry| entry.lsn = 0);
        }
    }

    /// The end of all IDs under a worker ID, as a floor.
    pub fn end_us(&self, worker: u32, layouts: &[Layout]) -> i64 {
        let lanes = self.ids.iter().filter(|(lane, _)| lane.2 == u64::from(worker));
        let end_us = |(lane, entries): (&Lane, &BTreeMap<u64, Entry>)| {
            let layout = &layouts[lane.0];
            let end = entries.values().map(|entry| entry.end).max()?;
            let last_tick = (end - 1) >> layout.bits(Field::Sequence);
            Some(layout.scale().start_us(last_tick) + 1)
        };
        lanes.filter_map(end_us).max().unwrap_or(0)
    }

    /// Records that a server will use numbers of a segment up to this one.
    pub fn give(&mut self, segment: usize, last: i64) {
        self.number_ends[segment] = self.number_ends[segment].max(last + 1);
    }

    /// Records the numbers of a segment from `first` to `last`.
    pub fn add_numbers(&mut self, segment: usize, first: i64, last: i64, server: usize) -> Result<(), usize> {
        self.number_count += (last - first + 1) as u64;
        let all = &mut self.numbers[segment];
        if let Some((_, (_, holder))) = all.range(..=last).next_back().filter(|(_, (end, _))| *end >= first) {
            return Err(*holder);
        }
        all.insert(first, (last, server));
        Ok(())
    }
}
