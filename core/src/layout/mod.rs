//! Layouts, which divide the 63 usable bits of an ID into fields.

use crate::error::{LayoutError, RangeError};
use crate::field::{Field, MAX_TOTAL_BITS};
use crate::identity::Identity;
use crate::message::{instant, year};
use crate::time_scale::{EPOCH_RANGE_US, MAX_UNIT_US, TimeScale};

pub mod json;
pub mod parse;
pub mod presets;

/// The maximum width, in bits, of integers that JavaScript numbers can represent exactly.
const JAVASCRIPT_BITS: u32 = 53;
const US_PER_SECOND: f64 = 1_000_000.0;

/// The position of a field in the ID. The width is 0 if the layout does not have the field.
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

/// The division of an ID into fields, and the unit and epoch of its time.
///
/// Every `Layout` is valid. The fields fit in 63 bits and do not overlap, `time` is the first field, and
/// PostgreSQL's type `timestamptz` can represent the start of every tick. A layout is created from text (see
/// [`parse`]), from JSON, or with [`Layout::new`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    spans: [Span; Field::ALL.len()],
    scale: TimeScale,
}

/// The raw fields of an ID. Fields that the layout does not have are 0.
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

/// The contents of an ID, in a form that is independent of the layout. Fields that the layout does not have
/// are `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Decoded {
    /// The start of the ID's tick, in microseconds of Unix time.
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
    /// Creates a layout from a list of fields and their widths in bits. The most significant field comes
    /// first.
    ///
    /// `unit_us` is the length of a tick in microseconds (1 to 10,000,000). `epoch_us` is the start of tick 0
    /// in microseconds of Unix time.
    ///
    /// # Errors
    /// Returns a [`LayoutError`] that contains the invalid field or option and the allowed values.
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

    /// Checks that the end of the layout, in microseconds of Unix time, fits in an `i64`. The limit is in the
    /// year 294247, thirty years before the last `timestamptz`. Because of this check, arithmetic on times of
    /// a layout cannot overflow.
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

    /// Returns the width of a field in bits, or 0 if the layout does not have the field.
    pub fn bits(&self, field: Field) -> u32 {
        self.span(field).bits.into()
    }

    /// Returns the position of the lowest bit of a field, counted from the lowest bit of the ID.
    pub fn shift(&self, field: Field) -> u32 {
        self.span(field).shift.into()
    }

    /// Returns the largest value of a field, or 0 if the layout does not have the field.
    pub fn max(&self, field: Field) -> u64 {
        self.span(field).max()
    }

    /// Returns the fields of the layout and their widths in bits. The most significant field comes first.
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

    /// Returns the number of ticks of the layout. Ticks are numbered from 0.
    pub fn ticks(&self) -> u64 {
        1 << self.bits(Field::Time)
    }

    /// Returns the end of the layout's last tick, in microseconds of Unix time.
    pub fn end_us(&self) -> i64 {
        self.start_of(self.ticks())
    }

    /// Returns the width of the largest ID, in bits.
    pub fn total_bits(&self) -> u32 {
        self.shift(Field::Time) + self.bits(Field::Time)
    }

    /// Returns the maximum number of servers, which is the number of combinations of datacenter and worker.
    pub fn workers(&self) -> u64 {
        1 << (self.bits(Field::Datacenter) + self.bits(Field::Worker))
    }

    /// Returns the maximum sustained rate of one worker, in IDs per second.
    pub fn ids_per_second(&self) -> f64 {
        (1u64 << self.bits(Field::Sequence)) as f64 * US_PER_SECOND / self.unit_us() as f64
    }

    /// Returns whether a JavaScript number can represent every ID of the layout exactly.
    pub fn fits_in_53_bits(&self) -> bool {
        self.total_bits() <= JAVASCRIPT_BITS
    }

    /// Returns the start of a tick, in microseconds of Unix time. `tick` is at most [`Layout::ticks`].
    pub(crate) fn start_of(&self, tick: u64) -> i64 {
        debug_assert!(tick <= self.ticks());
        self.scale.start_us(tick)
    }

    /// Returns the tick that contains a given time, in microseconds of Unix time.
    ///
    /// # Errors
    /// Returns [`RangeError::Time`] if the time is before the epoch, or at or after the end of the layout.
    pub fn tick_at(&self, unix_us: i64) -> Result<u64, RangeError> {
        match self.scale.tick_at(unix_us).filter(|&tick| tick < self.ticks()) {
            Some(tick) => Ok(tick),
            None => Err(RangeError::Time { unix_us, from_us: self.epoch_us(), until_us: self.end_us() }),
        }
    }

    /// Returns the name of the layout's preset, or the text form of a layout that is not a preset.
    pub fn label(&self) -> String {
        match presets::PRESETS.iter().find(|preset| preset.layout() == *self) {
            Some(preset) => preset.name.into(),
            None => self.to_string(),
        }
    }

    /// Checks whether both parts of an identity fit in the fields of the layout.
    ///
    /// # Errors
    /// Returns [`RangeError::Field`] for the first part that does not fit.
    pub fn check_identity(&self, identity: Identity) -> Result<(), RangeError> {
        let (datacenter, worker) = (identity.datacenter.into(), identity.worker.into());
        self.pack(&Parts { datacenter, worker, ..Parts::default() }).map(|_| ())
    }

    /// Returns a clause that describes an error of [`Layout::check_identity`], including the layout and the
    /// limit.
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

    /// Combines fields into an ID.
    ///
    /// # Errors
    /// Returns [`RangeError::Field`] for the first value that does not fit in its field.
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
    /// Returns [`RangeError::NegativeId`] if the ID is negative, and [`RangeError::IdPastEnd`] if the ID has
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
    /// Returns the same errors as [`Layout::unpack`].
    #[inline]
    pub fn time_of(&self, id: i64) -> Result<i64, RangeError> {
        Ok(self.start_of(self.span(Field::Time).extract(self.checked(id)?)))
    }

    /// Returns one field of an ID, or `None` if the layout does not have the field. The value of `time` is
    /// the tick.
    ///
    /// # Errors
    /// Returns the same errors as [`Layout::unpack`].
    #[inline]
    pub fn field_of(&self, field: Field, id: i64) -> Result<Option<u64>, RangeError> {
        let bits = self.checked(id)?;
        let span = self.span(field);
        Ok((span.bits > 0).then(|| span.extract(bits)))
    }

    /// Returns the contents of an ID.
    ///
    /// # Errors
    /// Returns the same errors as [`Layout::unpack`].
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
