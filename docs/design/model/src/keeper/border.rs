//! The border between the model and the product: converts the state to the product's types and back.

use std::num::NonZeroU64;

use snowflake_id_core::track::{Begun, Horizon, Track};
use snowflake_id_core::used::{History as ProductHistory, Scope, Use, Uses as ProductUses};
use snowflake_id_core::{self as core, Field, Generator, Layout, Reservation, SlotKey};

use crate::keeper::mutation::Mutation;
use crate::keeper::protocol::Protocol;
use crate::keeper::state::*;

/// A layout of a few bits. All have an epoch one unit after 1970.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The length of a tick in units.
    pub tick: u8,
    pub clock_seq_bits: u32,
    pub worker_bits: u32,
    pub sequence_bits: u32,
}

const TIME_BITS: u32 = 6;

impl Shape {
    fn layout(self, unit_us: i64) -> Layout {
        let fields = [
            (Field::Time, TIME_BITS),
            (Field::ClockSeq, self.clock_seq_bits),
            (Field::Worker, self.worker_bits),
            (Field::Sequence, self.sequence_bits),
        ];
        let fields: Vec<_> = fields.into_iter().filter(|(_, bits)| *bits > 0).collect();
        let layout = Layout::new(&fields, u64::from(self.tick) * unit_us as u64, unit_us);
        layout.expect("bug: the layouts of the model are valid")
    }
}

/// A possible slot: the key of some layout.
#[derive(Clone, Copy, Debug)]
pub struct SlotShape {
    pub key: SlotKey,
    /// A layout with this slot, with the narrowest clock sequence.
    pub layout: Layout,
}

/// The slots that layouts may have.
pub fn slot_shapes(shapes: &[Shape], unit_us: i64) -> [Option<SlotShape>; SLOTS] {
    let layouts = shapes.iter().map(|shape| shape.layout(unit_us));
    let mut slot_shapes: Vec<SlotShape> = Vec::new();
    for layout in layouts {
        for track in 0..=usize::from(layout.max_clock_seq() > 0) {
            let key = SlotKey::on_track(&layout, track);
            match slot_shapes.iter_mut().find(|slot_shape| slot_shape.key == key) {
                Some(slot_shape) if slot_shape.layout.max_clock_seq() > layout.max_clock_seq() => {
                    slot_shape.layout = layout
                }
                Some(_) => {}
                None => slot_shapes.push(SlotShape { key, layout }),
            }
        }
    }
    std::array::from_fn(|at| slot_shapes.get(at).copied())
}

impl Protocol {
    pub fn us(&self, instant: Instant) -> i64 {
        match instant {
            Instant::NEVER => i64::MAX,
            Instant(half) => i64::from(half / 2) * self.unit_us + i64::from(half % 2),
        }
    }

    pub fn instant(&self, us: i64) -> Instant {
        if us == i64::MAX {
            return Instant::NEVER;
        }
        let (unit, rest) = (us / self.unit_us, us % self.unit_us);
        assert!((0..=1).contains(&rest) && (0..100).contains(&unit), "bug: no instant of the model: {us} us");
        Instant((2 * unit + rest) as u8)
    }

    pub fn slot_shape(&self, at: impl Into<usize>) -> &SlotShape {
        self.slot_shapes[at.into()].as_ref().expect("bug: there is no such slot")
    }

    pub fn slot_shapes(&self) -> impl Iterator<Item = (usize, &SlotShape)> {
        self.slot_shapes.iter().flatten().enumerate()
    }

    /// Whether some layout has this slot while a value is in use.
    pub fn is_of(&self, slot_shape: &SlotShape, current: u8) -> bool {
        self.is(Mutation::KeyWithoutValue) || SlotKey::at(&slot_shape.layout, current) == slot_shape.key
    }

    /// How far ahead of the clock a horizon is written.
    pub fn reach_us(&self) -> i64 {
        self.max_ahead_us + self.horizon_margin_us
    }

    pub fn horizon(&self, mark: Mark) -> Horizon {
        Horizon::new(mark.value, self.us(mark.at))
    }

    pub fn mark(&self, horizon: Horizon) -> Mark {
        Mark { value: horizon.value(), at: self.instant(horizon.until_us()) }
    }

    pub fn begun(&self, mark: Mark) -> Begun {
        Begun { value: mark.value, floor_us: self.us(mark.at) }
    }

    pub fn mark_of_begun(&self, begun: Begun) -> Mark {
        Mark { value: begun.value, at: self.instant(begun.floor_us) }
    }

    pub fn lease(&self, lease: Lease) -> core::Lease {
        let Range { from, until } = lease.range;
        core::Lease { identity: identity(lease.identity), from_us: self.us(from), until_us: self.us(until) }
    }

    pub fn lease_of(&self, lease: &core::Lease) -> Lease {
        let range = Range { from: self.instant(lease.from_us), until: self.instant(lease.until_us) };
        Lease { identity: lease.identity.worker as Identity, range }
    }

    pub fn uses(&self, uses: &Uses) -> ProductUses {
        let records = uses.0.iter().enumerate().filter(|(_, until)| **until > 0);
        let records = records.map(|(kind, until)| {
            let (identity, scope) = named(kind);
            Use { identity, scope, until_us: self.us(Instant(until - 1)) }
        });
        records.collect()
    }

    /// Whether no layout has a clock sequence.
    pub fn has_no_values(&self) -> bool {
        self.slot_shapes().all(|(_, slot_shape)| slot_shape.key.track() == 0)
    }

    /// A record as a write. A record about values that no layout has contains no instant, because it has no effect and
    /// would multiply the states.
    pub fn write_of(&self, record: &Use) -> Write {
        let who = record.identity.map_or(0, |identity| 1 + identity.worker as usize);
        let scope = match record.scope {
            Scope::Value(value) => usize::from(value),
            Scope::Others => VALUES,
        };
        let is_of_nobody = record.scope == Scope::Others && self.has_no_values();
        let until = if is_of_nobody { Instant(0) } else { self.instant(record.until_us) };
        Write::Record { kind: (who * SCOPES + scope) as u8, until }
    }

    pub fn history(&self, history: &History) -> ProductHistory {
        ProductHistory {
            highest_us: self.us(history.highest),
            last_identity: history.last_identity.map(identity),
        }
    }

    /// `State::tracks` of src/shared/tracks.rs.
    pub fn tracks(&self, shared: &Shared, stored: [Horizon; TRACKS]) -> [Track; TRACKS] {
        let History { published, promised, .. } = shared.history;
        [0, 1].map(|at| Track {
            begun: shared.begun.map(|begun| self.begun(begun[at])),
            stored: stored[at],
            published: self.horizon(published[at]),
            promised: self.horizon(promised[at]),
            end_of_use_us: self.us(self.end_of_use(shared, at)),
        })
    }

    pub fn word(&self, slot_shape: &SlotShape, word: Word) -> u64 {
        match self.is(Mutation::WordWithoutValue) {
            true => word.counter.into(),
            false => slot_shape.key.word(word.value, word.counter.into()),
        }
    }

    pub fn word_of(&self, slot_shape: &SlotShape, word: u64, mutated: u8) -> Word {
        let (value, counter) = slot_shape.key.parts(word);
        let value = if self.is(Mutation::WordWithoutValue) { mutated } else { value };
        Word { value, counter: counter.try_into().expect("bug: a counter beyond the bounds") }
    }

    /// The generator of a slot with a value.
    pub fn generator(
        &self,
        slot_shape: &SlotShape,
        who: Identity,
        value: u8,
        max_ahead_us: i64,
    ) -> Generator {
        let generator = Generator::new(slot_shape.layout, identity(who), max_ahead_us as u64, 0);
        generator.expect("bug: the identity fits").with_clock_seq(value)
    }

    /// The next ID after a word, and the counter that follows.
    pub fn advance(
        &self,
        slot_shape: &SlotShape,
        generator: &Generator,
        word: Word,
        clock: Instant,
        limit: u8,
    ) -> Option<(u16, u8)> {
        let word = self.word(slot_shape, word);
        let current = match self.has_raw_words() {
            true => word,
            false => generator.counter_of(word),
        };
        let reservation: Reservation =
            generator.advance(current, self.us(clock), limit.into(), NonZeroU64::MIN).ok()?;
        let id = generator.first_id(reservation);
        let parts = slot_shape.layout.unpack(id).expect("bug: its own ID");
        let next = slot_shape.key.counter_at(parts.tick) + parts.sequence + reservation.count();
        Some((id as u16, next as u8))
    }

    /// The first tick of a slot that must not be used under a horizon. `State::first_unusable_tick`.
    pub fn limit(&self, slot_shape: &SlotShape, published: i64, range: Range) -> u8 {
        match published {
            0 => 0,
            published_us if self.is(Mutation::LeaseUncapped) => {
                slot_shape.key.first_tick_from(published_us) as u8
            }
            published_us => slot_shape.key.first_tick_from(published_us.min(self.us(range.until))) as u8,
        }
    }
}

pub fn identity(identity: Identity) -> core::Identity {
    core::Identity { datacenter: 0, worker: identity.into() }
}

/// The kind of a record.
pub fn named(kind: usize) -> (Option<core::Identity>, Scope) {
    let who = (kind / SCOPES).checked_sub(1).map(|who| identity(who as Identity));
    let scope = match kind % SCOPES {
        VALUES => Scope::Others,
        value => Scope::Value(value as u8),
    };
    (who, scope)
}
