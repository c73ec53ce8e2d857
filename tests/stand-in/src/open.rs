//! The start of each call: lost commits, quarantines, and the wait.

use uuid::Uuid;

use crate::{StandIn, Token};

/// The difference between the clocks of two servers.
pub(crate) const ALLOWANCE_US: i64 = 120_000_000;
const MOST_COUNTED_US: i64 = 60_000_000;
const LONGEST_LEASE_US: i64 = 24 * 3_600_000_000;
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
            || self.is_due(opening.tokens.is_some());
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
            self.enter_quarantine();
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

    fn is_due(&self, is_server: bool) -> bool {
        let settings = &self.tables.settings;
        let since_us = settings.counted_at_us.map_or(0, |at_us| (self.clock.now_us - at_us).abs());
        let may_witness = settings.witnesses && !settings.is_proved && !settings.is_witnessed && is_server;
        settings.waits_us > 0 && (since_us > LEAST_COUNTED_US || may_witness)
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

    pub(crate) fn enter_quarantine(&mut self) {
        let moment_us = self.clock.now_us;
        let known_us = self.tables.latest_end_us().map_or(0, |end_us| end_us - moment_us);
        let settings = &mut self.tables.settings;
        let longest_us = settings.longest_lease_us.max(known_us.min(LONGEST_LEASE_US));
        settings.waits_us = settings.waits_us.max(longest_us + ALLOWANCE_US);
        settings.counted_at_us = Some(moment_us);
        settings.is_proved = true;
        settings.is_witnessed = false;
        settings.is_restarted = false;
        settings.serial += 1;
        for row in self.tables.leases.values_mut().filter(|row| row.lease_id.is_some()) {
            if row.until_us <= moment_us + ALLOWANCE_US {
                row.lease_id = None;
            }
            row.nonce = None;
        }
        for segment in self.tables.segments.values_mut() {
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
            settings.waits_us = settings.waits_us.max(settings.longest_lease_us + ALLOWANCE_US);
            settings.counted_at_us = Some(moment_us);
            settings.is_witnessed = false;
            settings.is_restarted = true;
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
        if clocks_agree {
            let since_us = moment_us - settings.counted_at_us.unwrap_or(moment_us);
            settings.waits_us -= since_us.clamp(0, MOST_COUNTED_US);
        }
        if settings.witnesses && !settings.is_proved && !settings.is_witnessed && has_token {
            settings.is_witnessed = true;
            let short_us = settings.renew_every_us.max(1_000_000) * 5 / 2;
            settings.waits_us = settings.waits_us.min(short_us).max(1);
        }
        if !may_end_wait {
            settings.waits_us = settings.waits_us.max(1);
        }
        if settings.waits_us <= 0 {
            settings.waits_us = 0;
            settings.is_proved = false;
            settings.is_witnessed = false;
            if settings.is_started {
                settings.nothing_before_us = settings.nothing_before_us.max(moment_us);
            }
        } else if clocks_agree || settings.counted_at_us > Some(moment_us) {
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
