//! The start of each call: lost commits, quarantines, and the wait.

use uuid::Uuid;

use crate::leases::LONGEST_US;
use crate::{Settings, StandIn, Token};

/// The difference between the clocks of two servers.
pub(crate) const ALLOWANCE_US: i64 = 120_000_000;
const MINUTE_US: i64 = 60_000_000;
const LEAST_COUNTED_US: i64 = 50_000;

/// Who opens the registry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening<'a> {
    /// The call changes more than one lease or segment.
    pub is_alone: bool,
    /// `None` in calls of administrators.
    pub tokens: Option<&'a [Token]>,
    pub clocks_agree: bool,
    pub lease_id: Option<Uuid>,
}

impl StandIn {
    /// Takes the lock, at which the clock may step, and checks whether commits were lost.
    pub(crate) fn open(&mut self, opening: Opening) {
        let has_restarted = self.place.started_us != self.tables.settings.place.started_us;
        let has_moved = has_restarted && self.place.timeline != self.tables.settings.place.timeline;
        let tokens = opening.tokens.unwrap_or_default();
        let is_proved = self.is_proved_by(tokens);
        let is_lost = self.are_commits_lost(has_moved);
        let is_alone = opening.is_alone
            || is_lost
            || has_moved
            || is_proved
            || has_restarted
            || self.is_due(opening.tokens.is_some(), opening.clocks_agree);
        self.wait_for_lock();
        if !is_alone {
            return;
        }
        // The clock may have moved, so that the last renewal is no longer fresh.
        let is_lost = self.are_commits_lost(has_moved);
        self.tables.are_guards_on = true;
        if is_proved {
            self.learn_from_tokens(tokens, opening.lease_id);
        }
        if is_lost || is_proved {
            self.enter_quarantine(true);
        } else if has_moved || has_restarted {
            self.note_restart();
        }
        self.count_wait(opening.clocks_agree, !tokens.is_empty());
    }

    pub(crate) fn wait_for_lock(&mut self) {
        self.clock.now_us += std::mem::take(&mut self.clock.step_at_lock_us);
    }

    /// Whether lost commits show without tokens.
    fn are_commits_lost(&self, has_moved: bool) -> bool {
        !self.tables.is_signed
            || has_moved && !(self.tables.settings.synchronous && self.is_fresh())
            || !self.tables.are_guards_on
    }

    fn is_due(&self, is_server: bool, clocks_agree: bool) -> bool {
        let settings = &self.tables.settings;
        let since_us = settings.counted_at_us.map_or(0, |at_us| (self.clock.now_us - at_us).abs());
        let may_change = settings.numbers_wait_us > 0 || settings.waits_us > if clocks_agree { 0 } else { 1 };
        may_change && (since_us > LEAST_COUNTED_US || settings.may_be_witnessed() && is_server)
    }

    /// The interval at which the answers tell the caller to call.
    pub fn call_every_us(&self) -> i64 {
        let settings = &self.tables.settings;
        let is_short = settings.waits_us > 1 || settings.place.started_us != self.place.started_us;
        let most_us = if is_short { settings.most_counted_us() } else { i64::MAX };
        settings.renew_every_us.min(most_us)
    }

    /// Whether the last renewal or the last grant of numbers is recent.
    fn is_fresh(&self) -> bool {
        let renewals = self.tables.leases.values().map(|row| row.renewed_at_us);
        let last_us = renewals.chain(self.tables.segments.values().filter_map(|row| row.taken_at_us)).max();
        let earliest_us = self.clock.now_us - 3 * self.tables.settings.renew_every_us;
        last_us.is_some_and(|at_us| (earliest_us..=self.clock.now_us + 60_000_000).contains(&at_us))
    }

    /// As `sign_settings()` does: each change of the settings also notes where it was made.
    pub(crate) fn sign(&mut self) {
        self.tables.settings.place = self.place;
        self.tables.is_signed = true;
    }

    pub(crate) fn enter_quarantine(&mut self, closes_segments: bool) {
        let moment_us = self.clock.now_us;
        let ends = self.tables.leases.values().map(|row| row.until_us - moment_us);
        let known_us = ends.filter(|left_us| *left_us <= LONGEST_US + ALLOWANCE_US).max().unwrap_or(0);
        let settings = &mut self.tables.settings;
        let longest_us = settings.longest_lease_us.max(known_us);
        settings.waits_us = settings.waits_us.max(longest_us + ALLOWANCE_US);
        settings.counted_at_us = Some(moment_us);
        settings.is_proved = true;
        settings.is_witnessed = false;
        if closes_segments {
            settings.numbers_wait_us = 0;
        }
        settings.serial += 1;
        for row in self.tables.leases.values_mut().filter(|row| row.lease_id.is_some()) {
            if row.until_us <= moment_us + ALLOWANCE_US {
                row.lease_id = None;
            }
            row.nonce = None;
        }
        for segment in self.tables.segments.values_mut().filter(|_| closes_segments) {
            if !segment.is_closed && (segment.has_left || self.serves_others) {
                segment.is_closed = true;
                segment.seen_until = None;
            }
        }
        self.sign();
    }

    fn note_restart(&mut self) {
        if !(self.tables.settings.synchronous && self.is_fresh()) {
            let moment_us = self.clock.now_us;
            let settings = &mut self.tables.settings;
            if settings.waits_us <= 0 {
                settings.is_proved = false;
            }
            settings.numbers_wait_us = settings.longest_lease_us + ALLOWANCE_US;
            settings.waits_us = settings.waits_us.max(settings.numbers_wait_us);
            settings.counted_at_us = Some(moment_us);
            settings.is_witnessed = false;
            settings.was_alone = !self.serves_others;
        }
        self.tables.leases.values_mut().for_each(|row| row.nonce = None);
        self.sign();
    }

    fn count_wait(&mut self, clocks_agree: bool, has_token: bool) {
        let moment_us = self.clock.now_us;
        let may_end_wait = self.may_end_wait;
        let settings = &mut self.tables.settings;
        if settings.waits_us <= 0 {
            return;
        }
        let since_us = moment_us - settings.counted_at_us.unwrap_or(moment_us);
        let passed_us = since_us.clamp(0, settings.most_counted_us());
        let is_for_numbers = settings.numbers_wait_us > 0;
        settings.waits_us -= passed_us;
        settings.numbers_wait_us = (settings.numbers_wait_us - passed_us).max(0);
        if settings.may_be_witnessed() && has_token {
            settings.is_witnessed = true;
            let short_us = settings.longest_renewal_us.max(1_000_000) * 5 / 2;
            settings.numbers_wait_us = settings.numbers_wait_us.min(short_us);
            if !settings.is_proved {
                settings.waits_us = settings.waits_us.min(short_us);
            }
        }
        if !may_end_wait {
            settings.waits_us = settings.waits_us.max(1);
            settings.numbers_wait_us = settings.numbers_wait_us.max(is_for_numbers.into());
        }
        if settings.waits_us <= 1 && clocks_agree && may_end_wait {
            (settings.waits_us, settings.numbers_wait_us) = (0, 0);
            settings.is_proved = false;
            settings.is_witnessed = false;
            if settings.is_started {
                settings.nothing_before_us = settings.nothing_before_us.max(moment_us);
            }
        } else {
            settings.waits_us = settings.waits_us.max(1);
            settings.counted_at_us = Some(moment_us);
        }
        self.sign();
    }

    /// The end of the wait, if there is one.
    pub(crate) fn wait_ends_us(&self) -> Option<i64> {
        let settings = &self.tables.settings;
        settings.counted_at_us.map(|at_us| at_us + settings.waits_us)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.tables.settings.waits_us > 0
    }
}

impl Settings {
    /// The longest time between two calls that counts.
    fn most_counted_us(&self) -> i64 {
        MINUTE_US.min(self.renew_every_us.max(1_000_000) / 2)
    }

    fn may_be_witnessed(&self) -> bool {
        self.witnesses && !self.is_witnessed && (self.numbers_wait_us > 0 || !self.is_proved)
    }
}
