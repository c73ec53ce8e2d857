//! Layouts: how the 63 usable bits of an ID are divided.

use crate::error::{LayoutError, RangeError};
use crate::field::{Field, MAX_TOTAL_BITS};
use crate::identity::Identity;
use crate::message::{instant, year};
use crate::time_scale::{EPOCH_RANGE_US, MAX_UNIT_US, TimeScale};

pub mod json;
pub mod parse;
pub mod presets;

/// The width, in bits, of the integers that JavaScript numbers represent exactly.
const JAVASCRIPT_BITS: u32 = 53;
const US_PER_SECOND: f64 = 1_000_000.0;

/// The position of a field in the ID. A field that the layout lacks has 0 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Span {
    shift: u8,
    bits: u8,
}

impl Span {
    fn max(self) -> u64 {
        (1 << self.bits) - 1
    }

    fn extract(self, id: u64) -> u64 {
        (id >> self.shift) & self.max()
    }
}

/// How the bits of an ID are divided, the unit of its time, and the epoch from which its time counts.
///
/// Every `Layout` is valid: its fields fit 63 bits and do not overlap, `time` comes first, and each of its
/// ticks is an instant that a PostgreSQL `timestamptz` can hold. A layout is created from text (see
/// [`parse`]), from JSON, or by [`Layout::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    spans: [Span; Field::ALL.len()],
    scale: TimeScale,
}

/// The raw fields of an ID. A field that the layout lacks is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Ticks since the epoch.
    pub tick: u64,
    /// The `datacenter` field.
    pub datacenter: u64,
    /// The `worker` field.
    pub worker: u64,
    /// The `clock_seq` field.
    pub clock_seq: u64,
    /// The `sequence` field.
    pub sequence: u64,
}

/// The contents of an ID in terms that do not depend on its layout. A field that the layout lacks is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Decoded {
    /// When the tick of the ID started, in microseconds of Unix time.
    pub generated_at: i64,
    /// The `datacenter` field.
    pub datacenter_id: Option<u32>,
    /// The `worker` field.
    pub worker_id: Option<u32>,
    /// The `clock_seq` field.
    pub clock_seq: Option<u32>,
    /// The `sequence` field.
    pub sequence: Option<u64>,
}

impl Layout {
    /// Creates a layout from its fields, most significant first, each with its number of bits.
    ///
    /// `unit_us` is the length of a tick in microseconds (1 to 10,000,000). `epoch_us` is the start of tick 0
    /// in microseconds of Unix time.
    ///
    /// # Errors
    /// Returns a [`LayoutError`] that names the invalid field or option, and states what is allowed instead.
    pub fn new(fields: &[(Field, u32)], unit_us: u64, epoch_us: i64) -> Result<Layout, LayoutError> {
        if fields.first().map(|&(field, _)| field) != Some(Field::Time) {
            return Err(LayoutError::TimeNotFirst { found: fields.first().map(|&(field, _)| field.name()) });
        }
        let mut total = 0;
        for (at, &(field, bits)) in fields.iter().enumerate() {
            if fields[..at].iter().any(|&(earlier, _)| earlier == field) {
                return Err(LayoutError::RepeatedField(field));
            }
            if bits == 0 || bits > field.max_bits() {
                return Err(LayoutError::FieldBits { field, bits: bits.to_string() });
            }
            total += bits;
            if total > MAX_TOTAL_BITS {
                let total = fields.iter().map(|&(_, bits)| u64::from(bits)).sum();
                return Err(LayoutError::TooManyBits { field, bits, total });
            }
        }
        if !(1..=MAX_UNIT_US).contains(&unit_us) {
            return Err(LayoutError::Unit(format!("{unit_us}us")));
        }

        if !EPOCH_RANGE_US.contains(&epoch_us) {
            return Err(LayoutError::Epoch(instant(epoch_us)));
        }

        let mut spans = [Span::default(); Field::ALL.len()];
        let mut shift = total;
        for &(field, bits) in fields {
            shift -= bits;
            // Both numbers are at most 63.
            spans[field as usize] = Span { shift: shift as u8, bits: bits as u8 };
        }
        let layout = Layout { spans, scale: TimeScale { unit_us, epoch_us } };
        layout.check_end()?;
        Ok(layout)
    }

    /// Checks that the end of the layout, in microseconds of Unix time, fits an `i64` (up to the year
    /// 294247). This limit is thirty years before the last `timestamptz`. This check makes overflow checks
    /// unnecessary in all arithmetic on times of a layout.
    fn check_end(&self) -> Result<(), LayoutError> {
        match self.scale.checked_start_us(self.ticks()) {
            Ok(_) => Ok(()),
            Err(end_us) => {
                Err(LayoutError::EndsTooLate { time_bits: self.bits(Field::Time), year: year(end_us) })
            }
        }
    }

    fn span(&self, field: Field) -> Span {
        self.spans[field as usize]
    }

    /// Returns the number of bits of a field, which is 0 if the layout lacks the field.
    pub fn bits(&self, field: Field) -> u32 {
        self.span(field).bits.into()
    }

    /// Returns the position of the lowest bit of a field, counted from the lowest bit of the ID.
    pub fn shift(&self, field: Field) -> u32 {
        self.span(field).shift.into()
    }

    /// Returns the largest value of a field, which is 0 if the layout lacks the field.
    pub fn max(&self, field: Field) -> u64 {
        self.span(field).max()
    }

    /// Returns the fields that the layout has, most significant first, each with its number of bits.
    pub fn fields(&self) -> Vec<(Field, u32)> {
        let mut fields = Field::ALL.to_vec();
        fields.retain(|&field| self.bits(field) > 0);
        fields.sort_by_key(|&field| std::cmp::Reverse(self.shift(field)));
        fields.into_iter().map(|field| (field, self.bits(field))).collect()
    }

    /// Returns the unit and the epoch.
    #[inline]
    pub fn scale(&self) -> TimeScale {
        self.scale
    }

    /// Returns the length of a tick, in microseconds.
    #[inline]
    pub fn unit_us(&self) -> u64 {
        self.scale.unit_us
    }

    /// Returns the start of tick 0, in microseconds of Unix time.
    #[inline]
    pub fn epoch_us(&self) -> i64 {
        self.scale.epoch_us
    }

    /// Returns the number of ticks of the layout. The last tick is one less.
    pub fn ticks(&self) -> u64 {
        1 << self.bits(Field::Time)
    }

    /// Returns the instant at which the layout is exhausted (the end of its last tick), in microseconds of
    /// Unix time.
    pub fn end_us(&self) -> i64 {
        self.start_of(self.ticks())
    }

    /// Returns the number of bits of the largest ID.
    pub fn total_bits(&self) -> u32 {
        self.shift(Field::Time) + self.bits(Field::Time)
    }

    /// Returns how many servers can create IDs of this layout at the same time: the number of combinations of
    /// datacenter and worker.
    pub fn workers(&self) -> u64 {
        1 << (self.bits(Field::Datacenter) + self.bits(Field::Worker))
    }

    /// Returns how many IDs per second one worker can create continuously.
    pub fn ids_per_second(&self) -> f64 {
        (1u64 << self.bits(Field::Sequence)) as f64 * US_PER_SECOND / self.unit_us() as f64
    }

    /// Returns whether every ID fits the 53 bits that a JavaScript number holds exactly.
    pub fn fits_in_53_bits(&self) -> bool {
        self.total_bits() <= JAVASCRIPT_BITS
    }

    /// Returns the start of a tick, in microseconds of Unix time. `tick` is at most [`Layout::ticks`].
    pub(crate) fn start_of(&self, tick: u64) -> i64 {
        debug_assert!(tick <= self.ticks());
        self.scale.start_us(tick)
    }

    /// Returns the tick that contains an instant (microseconds of Unix time).
    ///
    /// # Errors
    /// Returns [`RangeError::Time`] if the instant is before the epoch, or is not before the end of the
    /// layout.
    pub fn tick_at(&self, unix_us: i64) -> Result<u64, RangeError> {
        match self.scale.tick_at(unix_us).filter(|&tick| tick < self.ticks()) {
            Some(tick) => Ok(tick),
            None => Err(RangeError::Time { unix_us, from_us: self.epoch_us(), until_us: self.end_us() }),
        }
    }

    /// Returns the name of the layout's preset, or its text if it is no preset.
    pub fn label(&self) -> String {
        match presets::PRESETS.iter().find(|preset| preset.layout() == *self) {
            Some(preset) => preset.name.into(),
            None => self.to_string(),
        }
    }

    /// Checks whether both parts of an identity fit their fields.
    ///
    /// # Errors
    /// [`RangeError::Field`] for the first part that does not fit.
    pub fn check_identity(&self, identity: Identity) -> Result<(), RangeError> {
        let (datacenter, worker) = (identity.datacenter.into(), identity.worker.into());
        self.pack(&Parts { datacenter, worker, ..Parts::default() }).map(|_| ())
    }

    /// Describes an error of [`Layout::check_identity`] in one clause that contains the layout and the limit.
    pub fn explain_misfit(&self, problem: &RangeError) -> String {
        let label = self.label();
        match problem {
            RangeError::Field { field, value, max: 0 } => {
                let name = field.name();
                format!("{name} ID {value} does not fit layout \"{label}\", which has no {name} field")
            }
            RangeError::Field { field, value, max } => {
                let name = field.name();
                format!("{name} ID {value} does not fit layout \"{label}\", whose {name} IDs end at {max}")
            }
            _ => format!("layout \"{label}\": {problem}"),
        }
    }

    /// Combines the fields of an ID.
    ///
    /// # Errors
    /// Returns [`RangeError::Field`] for the first value that does not fit its field.
    pub fn pack(&self, parts: &Parts) -> Result<i64, RangeError> {
        let values = [parts.tick, parts.datacenter, parts.worker, parts.clock_seq, parts.sequence];
        let mut id = 0;
        for (field, value) in Field::ALL.into_iter().zip(values) {
            let span = self.span(field);
            if value > span.max() {
                return Err(RangeError::Field { field, value: value.into(), max: span.max() });
            }
            id |= value << span.shift;
        }
        Ok(id as i64)
    }

    /// Splits an ID into its fields.
    ///
    /// # Errors
    /// Returns [`RangeError::NegativeId`] for a negative ID, and [`RangeError::IdPastEnd`] for an ID that has
    /// more bits than the layout.
    #[inline]
    pub fn unpack(&self, id: i64) -> Result<Parts, RangeError> {
        let bits = self.checked(id)?;
        let part = |field: Field| self.span(field).extract(bits);
        Ok(Parts {
            tick: part(Field::Time),
            datacenter: part(Field::Datacenter),
            worker: part(Field::Worker),
            clock_seq: part(Field::ClockSeq),
            sequence: part(Field::Sequence),
        })
    }

    /// Returns the start of the tick in which an ID was created, in microseconds of Unix time.
    ///
    /// # Errors
    /// The same as those of [`Layout::unpack`].
    #[inline]
    pub fn time_of(&self, id: i64) -> Result<i64, RangeError> {
        Ok(self.start_of(self.span(Field::Time).extract(self.checked(id)?)))
    }

    /// Returns one field of an ID, or `None` if the layout lacks the field. For `time` this is the tick.
    ///
    /// # Errors
    /// The same as those of [`Layout::unpack`].
    #[inline]
    pub fn field_of(&self, field: Field, id: i64) -> Result<Option<u64>, RangeError> {
        let bits = self.checked(id)?;
        let span = self.span(field);
        Ok((span.bits > 0).then(|| span.extract(bits)))
    }

    /// Returns the contents of an ID.
    ///
    /// # Errors
    /// The same as those of [`Layout::unpack`].
    pub fn decode(&self, id: i64) -> Result<Decoded, RangeError> {
        let parts = self.unpack(id)?;
        let present = |field: Field, value: u64| (self.bits(field) > 0).then_some(value);
        // An identity field has at most 31 bits.
        let identity = |field: Field, value: u64| present(field, value).map(|value| value as u32);
        Ok(Decoded {
            generated_at: self.start_of(parts.tick),
            datacenter_id: identity(Field::Datacenter, parts.datacenter),
            worker_id: identity(Field::Worker, parts.worker),
            clock_seq: identity(Field::ClockSeq, parts.clock_seq),
            sequence: present(Field::Sequence, parts.sequence),
        })
    }

    #[inline]
    fn checked(&self, id: i64) -> Result<u64, RangeError> {
        let bits = u64::try_from(id).map_err(|_| RangeError::NegativeId(id))?;
        if bits >> self.total_bits() != 0 {
            return Err(RangeError::IdPastEnd { id, max: ((1u64 << self.total_bits()) - 1) as i64 });
        }
        Ok(bits)
    }
}
