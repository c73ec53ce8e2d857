//! The functions for administrators of segments.

use crate::call::Reply;
use crate::periods;
use crate::tables::SegmentRow;
use crate::{Administration, Fault, SegmentShape, StandIn};

const MOST_IN_A_STEP: i64 = 1_000_000_000;

impl StandIn {
    /// Counts the change.
    fn end_request(&mut self) -> Reply {
        self.tables.settings.serial += 1;
        self.sign();
        Reply::Nothing
    }

    fn segment_named(&mut self, name: &str) -> Result<&mut SegmentRow, Fault> {
        let segment = self.tables.segments.get_mut(name).filter(|segment| !segment.is_dropped);
        segment.ok_or(Fault::NoSuchObject)
    }

    pub(crate) fn create_segment(&mut self, name: &str, shape: &SegmentShape) -> Result<Reply, Fault> {
        let is_start_valid = match shape.period {
            None => (0..=shape.max_value).contains(&shape.start),
            Some(period) => {
                (0..=shape.max_value).contains(&shape.start)
                    && i128::from(shape.start) < periods::period_base(1, period.digits)
            }
        };
        if !is_start_valid || !(1..=MOST_IN_A_STEP).contains(&shape.increment) {
            return Err(Fault::InvalidValue);
        }
        check_steps(shape.min_step, shape.max_step)?;
        self.begin_request();
        let before = self.tables.segments.get(name);
        if before.is_some_and(|before| !before.is_dropped) {
            return Err(Fault::AlreadyExists);
        }
        let SegmentShape { start, increment, .. } = *shape;
        let in_period =
            |key: i64, digits: u32, value: i128| periods::in_period(key, digits, start, increment, value);
        let mut made = SegmentRow {
            next: 0,
            start,
            increment,
            min_step: shape.min_step,
            max_step: shape.max_step,
            step: shape.min_step,
            max_value: shape.max_value,
            period: shape.period,
            period_key: None,
            ahead: None,
            has_left: before.is_some_and(|before| before.has_left),
            is_closed: before.is_some_and(|before| before.is_closed),
            seen_until: before.and_then(|before| before.seen_until),
            taken_at_us: before.and_then(|before| before.taken_at_us),
            taken_by: before.and_then(|before| before.taken_by.clone()),
            is_dropped: false,
            was_lost: false,
            numbers_granted: before.map_or(0, |before| before.numbers_granted),
        };
        match (shape.period, before) {
            (None, _) => {
                let from = before.map_or(start.into(), SegmentRow::end);
                made.next = periods::at_or_above(start.into(), increment, from);
            }
            // The periods are the same and continue where they were.
            (Some(period), Some(before)) if before.period == shape.period => {
                made.period_key = before.period_key;
                made.next = in_period(before.period_key.unwrap_or(0), period.digits, before.next);
                made.ahead = before.ahead.map(|(key, value)| (key, in_period(key, period.digits, value)));
            }
            (Some(period), _) => {
                let key = periods::key_of_clock(period.unit, self.clock.now_us);
                made.period_key = Some(key);
                made.next = in_period(key, period.digits, 0);
                if before.is_some_and(|before| made.next < before.end()) {
                    return Err(Fault::WrongState);
                }
            }
        }
        if made.next > shape.max_value.into() {
            return Err(Fault::InvalidValue);
        }
        self.tables.segments.insert(name.into(), made);
        Ok(self.end_request())
    }

    pub(crate) fn alter_segment(&mut self, call: &Administration) -> Result<Reply, Fault> {
        let Administration::AlterSegment { name, min_step, max_step, max_value, next_value } = call else {
            return Ok(Reply::Nothing);
        };
        self.begin_request();
        let segment = self.segment_named(name)?;
        segment.min_step = min_step.unwrap_or(segment.min_step);
        segment.max_step = max_step.unwrap_or(segment.max_step);
        check_steps(segment.min_step, segment.max_step)?;
        if let Some(next_value) = next_value {
            if segment.is_closed {
                return Err(Fault::WrongState);
            }
            segment.continue_at(*next_value)?;
        }
        if let Some(max_value) = max_value {
            if i128::from(*max_value) < segment.end() - i128::from(segment.increment) {
                return Err(Fault::InvalidValue);
            }
            segment.max_value = *max_value;
        }
        segment.step = segment.step.min(segment.max_step).max(segment.min_step);
        Ok(self.end_request())
    }

    pub(crate) fn drop_segment(&mut self, name: &str) -> Result<Reply, Fault> {
        self.begin_request();
        self.segment_named(name)?.is_dropped = true;
        Ok(self.end_request())
    }

    pub(crate) fn resume_segment(&mut self, name: &str, next_value: i64) -> Result<Reply, Fault> {
        self.begin_request();
        let segment = self.segment_named(name)?;
        if !segment.is_closed {
            return Err(Fault::WrongState);
        }
        segment.continue_at(next_value)?;
        segment.is_closed = false;
        segment.seen_until = None;
        Ok(self.end_request())
    }

    pub(crate) fn resume_segments(&mut self) -> Reply {
        self.begin_request();
        let mut count = 0;
        for segment in self.tables.segments.values_mut() {
            if segment.is_closed && segment.seen_until.is_none_or(|seen| seen < segment.end()) {
                segment.is_closed = false;
                segment.seen_until = None;
                count += 1;
            }
        }
        self.end_request();
        Reply::Count(count)
    }
}

fn check_steps(least: i64, most: i64) -> Result<(), Fault> {
    let is_valid = least >= 1 && most >= least && most <= MOST_IN_A_STEP;
    if is_valid { Ok(()) } else { Err(Fault::InvalidValue) }
}

impl SegmentRow {
    /// As `segment_from()`: sets the next number, and with it the period.
    fn continue_at(&mut self, next_value: i64) -> Result<(), Fault> {
        let next_value = i128::from(next_value);
        if next_value < self.end() || self.seen_until.is_some_and(|seen| next_value <= seen) {
            return Err(Fault::InvalidValue);
        }
        let Some(period) = self.period else {
            self.next = periods::at_or_above(self.start.into(), self.increment, next_value);
            return Ok(());
        };
        let key = periods::key_of_number(period.digits, next_value);
        if !periods::is_key(period.unit, key) {
            return Err(Fault::InvalidValue);
        }
        self.period_key = Some(key);
        self.next = periods::in_period(key, period.digits, self.start, self.increment, next_value);
        self.ahead = None;
        Ok(())
    }
}
