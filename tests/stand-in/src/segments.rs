//! `take()` and `take_local()`.

use crate::open::Opening;
use crate::tables::SegmentRow;
use crate::{Caller, Outcome, Request, StandIn, TakeOutcome, Taken, periods};

/// What a request means in this registry.
struct Asked<'a> {
    request: &'a Request,
    had_until: Option<i128>,
    /// The numbers are of this registry.
    is_ours: bool,
    is_local: bool,
    node_name: Option<&'a String>,
}

impl StandIn {
    pub(crate) fn take_ranges(
        &mut self,
        caller: &Caller,
        is_local: bool,
        requests: &[Request],
    ) -> Vec<Taken> {
        let tokens = Some(&caller.tokens[..]);
        let refusal = match self.protocol_mismatch(caller) {
            Some(Outcome::RegistryTooOld) => Some(TakeOutcome::RegistryTooOld),
            Some(_) => Some(TakeOutcome::CallerTooOld),
            None => self.is_foreign(caller).then_some(TakeOutcome::Foreign),
        };
        if let Some(outcome) = refusal {
            self.open(Opening { tokens, ..Opening::default() });
            return vec![Taken::of(outcome)];
        }
        // A server that proves a loss gets no new tokens, and the registry's own server needs none.
        let is_signed = !is_local && !self.is_proved_by(&caller.tokens);
        let new_tokens: Vec<_> = requests
            .iter()
            .map(|request| self.token_of_segment(&request.name).filter(|_| is_signed))
            .collect();
        let asked: Vec<_> = requests
            .iter()
            .map(|request| Asked {
                request,
                had_until: request.had_until.map(i128::from),
                is_ours: match request.registry_id {
                    Some(id) => id == Some(self.tables.settings.registry_id),
                    None => caller.registry_id.is_some(),
                },
                is_local,
                node_name: caller.node_name.as_ref(),
            })
            .collect();
        let is_lost = self.are_numbers_lost(&asked);
        // Without a fleet there is no floor, so the quarantine can end although the server does not report its clock.
        let clocks_agree = !self.tables.settings.is_started;
        self.open(Opening { is_alone: is_lost, tokens, clocks_agree, lease_id: None });
        if is_lost && self.are_numbers_lost(&asked) {
            self.enter_quarantine(true);
        }
        if requests.is_empty() {
            return vec![Taken::of(TakeOutcome::Empty)];
        }
        let is_busy = self.tables.settings.numbers_wait_us > 0;
        let mut order: Vec<usize> = (0..requests.len()).collect();
        order.sort_by_key(|at| &requests[*at].name);
        let answers = order.into_iter().map(|at| {
            let name = &requests[at].name;
            let is_denied = !is_local && self.limits.as_ref().is_some_and(|limits| !limits.contains(name));
            let (answer, token) = match is_denied {
                true => (Taken::of(TakeOutcome::Denied), None),
                false => (self.take_range(&asked[at], is_busy), new_tokens[at].clone()),
            };
            Taken { request: Some(at + 1), name: Some(name.clone()), token, ..answer }
        });
        answers.collect()
    }

    /// Whether the registry's own server has numbers that the registry has not granted.
    fn are_numbers_lost(&self, asked: &[Asked]) -> bool {
        asked.iter().any(|asked| {
            let Some(segment) = self.tables.segments.get(&asked.request.name) else { return false };
            let Some(had_until) = asked.had_until.filter(|_| asked.is_ours && asked.is_local) else {
                return false;
            };
            let is_ahead = |key: i64| {
                segment.period.is_some_and(|period| periods::key_of_number(period.digits, had_until) == key)
            };
            let granted_until = match segment.ahead {
                Some((key, value)) if is_ahead(key) => value,
                _ => segment.next,
            };
            !segment.is_closed
                && (segment.has_left || self.serves_others)
                && had_until >= granted_until
                && self.is_credible(segment, had_until)
        })
    }

    fn is_credible(&self, segment: &SegmentRow, number: i128) -> bool {
        match segment.period {
            None => {
                let most = 1000 * i128::from(segment.max_step.max(1_000_000)) * i128::from(segment.increment);
                number < segment.next + most
            }
            Some(period) => {
                let now = segment.at(self.clock.now_us);
                let next_key = now.period_key.map(|key| periods::key_after(period.unit, key));
                Some(periods::key_of_number(period.digits, number)) <= next_key
            }
        }
    }

    fn take_range(&mut self, asked: &Asked, is_busy: bool) -> Taken {
        let request = asked.request;
        let Some(stored) = self.tables.segments.get(&request.name).cloned() else {
            let is_lost = asked.is_ours && asked.had_until.is_some();
            return Taken::of(if is_lost { TakeOutcome::Lost } else { TakeOutcome::Unknown });
        };
        if stored.is_dropped {
            return Taken::of(if stored.was_lost { TakeOutcome::Lost } else { TakeOutcome::Dropped });
        }
        let mut answer = Taken::of(TakeOutcome::Granted);
        answer.shape = Some((stored.increment, stored.max_value, stored.step));
        if stored.is_closed || self.tables.settings.frozen_until_us.is_some() {
            let may_be_seen =
                stored.is_closed && (asked.is_ours && asked.is_local || !asked.is_ours && request.is_report);
            if let Some(had_until) = asked.had_until.filter(|_| may_be_seen)
                && had_until > stored.seen_until.unwrap_or(-1)
                && self.is_credible(&stored, had_until)
            {
                self.tables.segments.get_mut(&request.name).expect("read above").seen_until = Some(had_until);
            }
            answer.outcome = TakeOutcome::Closed;
            return answer;
        }
        if request.is_report && (asked.is_ours || asked.had_until.is_none()) {
            answer.outcome = TakeOutcome::Noted;
            return answer;
        }
        let needs_no_wait = asked.is_local && !stored.has_left && self.tables.settings.was_alone;
        if is_busy && !request.is_report && !needs_no_wait {
            answer.outcome = TakeOutcome::Busy;
            return answer;
        }
        let mut segment = stored.at(self.clock.now_us);
        answer.period_key = segment.period_key;
        let taken = match self.skip(asked, &mut segment) {
            Ok(()) if request.is_report => Err(TakeOutcome::Noted),
            Ok(()) => segment.take(asked, self.clock.now_us, &mut answer),
            Err(outcome) => Err(outcome),
        };
        match taken {
            Ok(()) => drop(self.tables.segments.insert(request.name.clone(), segment)),
            Err(outcome) => {
                let is_changed = (segment.next, segment.ahead_value().unwrap_or(0))
                    != (stored.next, stored.ahead_value().unwrap_or(0));
                // Another registry has granted these numbers.
                if outcome == TakeOutcome::Noted && is_changed {
                    self.tables.segments.insert(request.name.clone(), segment);
                }
                answer.outcome = outcome;
            }
        }
        answer
    }

    /// Skips the numbers that the server has. An error is the outcome.
    fn skip(&self, asked: &Asked, segment: &mut SegmentRow) -> Result<(), TakeOutcome> {
        let Some(period) = segment.period else {
            let Some(had_until) = asked.had_until.filter(|had_until| *had_until >= segment.next) else {
                return Ok(());
            };
            if asked.is_ours && !asked.is_local || !self.is_credible(segment, had_until) {
                return Err(TakeOutcome::Invalid);
            }
            segment.next = periods::at_or_above(segment.start.into(), segment.increment, had_until + 1);
            return Ok(());
        };
        let key = segment.period_key.expect("a segment with periods is in one");
        let after_key = periods::key_after(period.unit, key);
        let had_key = segment.had_key(asked);
        if had_key == Some(0) && asked.request.period_key.is_some_and(|key| key > 0) {
            return Err(TakeOutcome::Invalid);
        } else if had_key > Some(after_key) {
            return Err(TakeOutcome::Ahead);
        }
        let Some(had_until) = asked.had_until else { return Ok(()) };
        let next_of =
            |key| periods::in_period(key, period.digits, segment.start, segment.increment, had_until + 1);
        if had_key == Some(key) && had_until >= segment.next {
            segment.next = next_of(key);
        } else if had_key == Some(after_key) && had_until >= segment.ahead_value().unwrap_or(0) {
            segment.ahead = Some((after_key, next_of(after_key)));
        }
        Ok(())
    }
}

impl SegmentRow {
    /// The segment in the period of a point in time. It never returns to an earlier period.
    fn at(&self, moment_us: i64) -> SegmentRow {
        let mut segment = self.clone();
        let Some(period) = segment.period else { return segment };
        let key = periods::key_of_clock(period.unit, moment_us);
        if Some(key) > segment.period_key {
            segment.period_key = Some(key);
            segment.next = match segment.ahead {
                Some((ahead_key, value)) if ahead_key == key => value,
                _ => periods::in_period(key, period.digits, segment.start, segment.increment, 0),
            };
            if segment.ahead_key().is_some_and(|ahead_key| ahead_key <= key) {
                segment.ahead = None;
            }
        }
        segment
    }

    /// The period of the numbers that the server has.
    fn had_key(&self, asked: &Asked) -> Option<i64> {
        let digits = self.period?.digits;
        let of_number = asked.had_until.map(|had_until| periods::key_of_number(digits, had_until));
        of_number.or(asked.request.period_key)
    }

    /// Takes a range.
    fn take(&mut self, asked: &Asked, moment_us: i64, answer: &mut Taken) -> Result<(), TakeOutcome> {
        let request = asked.request;
        let mut first = self.next;
        let mut last = i128::from(self.max_value);
        let mut is_ahead = false;
        if let (Some(period), Some(key)) = (self.period, self.period_key) {
            let after_key = periods::key_after(period.unit, key);
            let had_key = self.had_key(asked);
            is_ahead =
                had_key == Some(after_key) || request.is_next && had_key.is_none_or(|had_key| had_key >= key);
            if is_ahead {
                let value = self.ahead_value().unwrap_or_else(|| {
                    periods::in_period(after_key, period.digits, self.start, self.increment, 0)
                });
                self.ahead = Some((after_key, value));
                first = value;
            }
            let key = if is_ahead { after_key } else { key };
            answer.period_key = Some(key);
            let next_base = periods::period_base(key, period.digits) + periods::period_base(1, period.digits);
            last = last.min(next_base - 1);
            let ends = periods::key_after(period.unit, key);
            answer.period_us = Some((
                periods::period_begins_us(period.unit, key),
                periods::period_begins_us(period.unit, ends),
            ));
        }
        if first > last {
            return Err(TakeOutcome::Exhausted);
        }
        let basis = request.count.unwrap_or(self.step);
        let wanted = match request.lasted_s {
            Some(..900) => basis * 2,
            Some(1801..) => basis / 2,
            _ => basis,
        };
        let step = wanted.min(self.max_step).max(self.min_step);
        let increment = i128::from(self.increment);
        let count = i128::from(step).min((last - first) / increment + 1);
        answer.outcome = TakeOutcome::Granted;
        answer.range = Some((first as i64, count as i64));
        answer.shape = Some((self.increment, self.max_value, step));
        let end = first + count * increment;
        let in_period = |key, period: periods::Period| {
            periods::in_period(key, period.digits, self.start, self.increment, end)
        };
        match (self.period, answer.period_key) {
            (Some(period), Some(key)) if is_ahead => self.ahead = Some((key, in_period(key, period))),
            (Some(period), Some(key)) => self.next = in_period(key, period),
            _ => self.next = end,
        }
        self.step = step;
        self.has_left |= !asked.is_local;
        self.taken_at_us = Some(moment_us);
        self.taken_by = asked.node_name.cloned();
        self.numbers_granted += count as i64;
        Ok(())
    }
}
