//! Signed tokens. A caller of the stand-in can only present tokens that it was given, so there are no signatures.

use std::collections::BTreeMap;

use snowflake_id_core::Identity;
use uuid::Uuid;

use crate::tables::{LeaseRow, RequestName, SegmentRow, Settings};
use crate::{FOREVER, StandIn, periods};

/// The protocol of a holder that the registry knows only from tokens.
const LOWEST_PROTOCOL: u32 = 1;

/// The contents of a token. In SQL, the ID of the lease is a hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Lease {
        identity: Identity,
        grant_count: u64,
        from_us: i64,
        until_us: i64,
        lease_id: Uuid,
        serial: u64,
        requests: Requests,
    },
    Segment {
        name: String,
        next: i128,
        ahead: Option<i128>,
        serial: u64,
        requests: Requests,
    },
}

/// The last request of an administrator, and the end of a freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    pub last: Option<RequestName>,
    pub frozen_until_us: Option<i64>,
}

impl Token {
    /// Whether the token proves a grant of this lease.
    pub(crate) fn is_of_lease(&self, id: Uuid) -> bool {
        matches!(self, Token::Lease { lease_id, .. } if *lease_id == id)
    }
}

impl Requests {
    fn of(settings: &Settings) -> Requests {
        Requests { last: settings.requests.last().copied(), frozen_until_us: settings.frozen_until_us }
    }
}

impl Token {
    fn serial(&self) -> u64 {
        match self {
            Token::Lease { serial, .. } | Token::Segment { serial, .. } => *serial,
        }
    }

    fn requests(&self) -> Requests {
        match self {
            Token::Lease { requests, .. } | Token::Segment { requests, .. } => *requests,
        }
    }

    fn is_request_lost(&self, settings: &Settings) -> bool {
        self.requests().last.is_some_and(|last| !settings.requests.contains(&last))
    }
}

/// A comparison with an unknown holder is not true, as in SQL.
fn is_of_another(lease_id: Uuid, row: &LeaseRow) -> bool {
    row.lease_id.is_some_and(|known| known != lease_id)
}

/// The end from which a range that overlaps an earlier range of the identity proves a loss.
fn proving_from_us(row: &LeaseRow) -> i64 {
    row.released_until_us.map_or(row.from_us, |released_us| released_us.max(row.from_us))
}

fn is_beyond(segment: &SegmentRow, next: i128, ahead: Option<i128>) -> bool {
    next > segment.next || ahead.is_some_and(|ahead| ahead > segment.end())
}

impl StandIn {
    pub(crate) fn token_of_lease(&self, lease_id: Uuid) -> Option<Token> {
        if self.has_written {
            return None;
        }
        let (identity, row) = self.tables.leases.iter().find(|(_, row)| row.lease_id == Some(lease_id))?;
        Some(Token::Lease {
            identity: *identity,
            grant_count: row.grant_count,
            from_us: row.from_us,
            until_us: row.until_us,
            lease_id,
            serial: self.tables.settings.serial,
            requests: Requests::of(&self.tables.settings),
        })
    }

    pub(crate) fn token_of_segment(&self, name: &str) -> Option<Token> {
        let segment = self.tables.segments.get(name).filter(|_| !self.has_written)?;
        Some(Token::Segment {
            name: name.into(),
            next: segment.next,
            ahead: segment.ahead_value(),
            serial: self.tables.settings.serial,
            requests: Requests::of(&self.tables.settings),
        })
    }

    /// Whether tokens prove grants that the tables do not contain.
    pub(crate) fn is_proved_by(&self, tokens: &[Token]) -> bool {
        tokens.iter().any(|token| self.proves(token))
    }

    fn proves(&self, token: &Token) -> bool {
        let settings = &self.tables.settings;
        if token.is_request_lost(settings) || token.serial() > settings.serial {
            return true;
        }
        match token {
            Token::Lease { identity, grant_count, from_us, until_us, lease_id, .. } => {
                let Some(row) = self.tables.leases.get(identity) else { return true };
                *grant_count > row.grant_count
                    || *grant_count == row.grant_count && is_of_another(*lease_id, row)
                    || *from_us == row.from_us && *until_us > row.until_us
                    || *from_us != row.from_us && *until_us > proving_from_us(row)
            }
            Token::Segment { name, next, ahead, .. } => {
                let segment = self.tables.segments.get(name);
                segment.is_none_or(|segment| is_beyond(segment, *next, *ahead))
            }
        }
    }

    /// Records what the tokens prove. `lease_id` is the lease of the caller.
    pub(crate) fn learn_from_tokens(&mut self, tokens: &[Token], lease_id: Option<Uuid>) {
        for token in tokens {
            let settings = &mut self.tables.settings;
            settings.serial = settings.serial.max(token.serial());
            if token.is_request_lost(settings) {
                let requests = token.requests();
                settings.requests.extend(requests.last);
                let ends = requests.frozen_until_us.into_iter().chain(settings.frozen_until_us);
                settings.frozen_until_us = Some(ends.min().unwrap_or(FOREVER));
            }
            match token {
                Token::Lease { .. } => self.learn_lease(token, lease_id),
                Token::Segment { name, next, ahead, .. } => self.learn_segment(name, *next, *ahead),
            }
        }
    }

    fn learn_lease(&mut self, token: &Token, caller: Option<Uuid>) {
        let Token::Lease { identity, grant_count, from_us, until_us, lease_id, .. } = *token else { return };
        let moment_us = self.clock.now_us;
        // If the caller is the holder, the caller keeps the identity.
        let is_known = self.tables.held(lease_id).is_some();
        let holder = caller.filter(|caller| *caller == lease_id && !is_known);
        let Some(row) = self.tables.leases.get_mut(&identity) else {
            let row = LeaseRow {
                lease_id: holder,
                is_renewed: true,
                grant_count,
                ..LeaseRow::unheld(from_us, until_us, moment_us)
            };
            self.tables.leases.insert(identity, row);
            return;
        };
        if from_us == row.from_us
            && grant_count <= row.grant_count
            && !(grant_count == row.grant_count && is_of_another(lease_id, row))
        {
            if row.until_us < until_us {
                row.until_us = until_us;
                row.is_renewed = true;
            }
        } else if grant_count >= row.grant_count || until_us > proving_from_us(row) {
            let is_later = grant_count > row.grant_count;
            let ended_us = row.used_until_us.unwrap_or(row.until_us);
            let latest_us = row.until_us.max(until_us);
            row.used_until_us = None;
            if is_later && row.grant_count > 0 && from_us < row.until_us {
                row.released_until_us = row.released_until_us.max(Some(until_us));
            }
            row.lease_id = holder.filter(|_| is_later && (row.grant_count == 0 || ended_us <= from_us));
            row.from_us = if is_later { from_us } else { latest_us };
            row.until_us = latest_us;
            row.grant_count = grant_count.max(row.grant_count + 1);
            row.nonce = None;
            row.is_renewed = true;
            row.protocol = LOWEST_PROTOCOL;
        }
    }

    fn learn_segment(&mut self, name: &str, next: i128, ahead: Option<i128>) {
        let Some(segment) = self.tables.segments.get_mut(name) else {
            let end = ahead.map_or(next, |ahead| ahead.max(next));
            self.tables.segments.insert(name.into(), SegmentRow::lost(end));
            return;
        };
        if !is_beyond(segment, next, ahead) {
            return;
        }
        segment.next = segment.next.max(next);
        let ahead = segment.ahead_value().max(ahead);
        segment.has_left = true;
        match segment.period {
            None => {
                segment.next = ahead.map_or(segment.next, |ahead| ahead.max(segment.next));
                segment.ahead = None;
            }
            Some(period) => {
                let key = periods::key_of_number(period.digits, segment.next - 1);
                segment.period_key = Some(key);
                segment.ahead = ahead.map(|ahead| (periods::key_of_number(period.digits, ahead - 1), ahead));
                // The next period may have started.
                if let Some((ahead_key, ahead)) = segment.ahead
                    && ahead_key <= key
                {
                    segment.next = segment.next.max(ahead);
                    segment.ahead = None;
                }
            }
        }
    }

    /// Whether a token of this lease belongs to a range that was released, and that overlaps the current range.
    pub(crate) fn is_range_released(&self, id: Uuid, tokens: &[Token]) -> bool {
        tokens.iter().any(|token| {
            let Token::Lease { identity, grant_count, until_us, lease_id, .. } = token else { return false };
            let Some(row) = self.tables.leases.get(identity).filter(|_| *lease_id == id) else {
                return false;
            };
            row.released_until_us.is_some_and(|released_us| *until_us <= released_us)
                && (*grant_count < row.grant_count && *until_us > row.from_us
                    || *grant_count == row.grant_count
                        && row.used_until_us.is_some_and(|used_us| *until_us > used_us))
        })
    }
}

impl LeaseRow {
    /// A row that no holder has.
    pub(crate) fn unheld(from_us: i64, until_us: i64, moment_us: i64) -> LeaseRow {
        LeaseRow {
            from_us,
            until_us,
            lease_id: None,
            nonce: None,
            node_name: None,
            role: None,
            protocol: LOWEST_PROTOCOL,
            acquired_at_us: moment_us,
            renewed_at_us: moment_us,
            is_renewed: true,
            grant_count: 0,
            is_reserved: false,
            reserved_for: None,
            said_by_hand_us: BTreeMap::new(),
            used_until_us: None,
            released_until_us: None,
        }
    }
}

impl SegmentRow {
    /// A segment whose creation was lost counts as dropped.
    fn lost(next: i128) -> SegmentRow {
        SegmentRow {
            next,
            start: 0,
            increment: 1,
            min_step: 1000,
            max_step: 1_000_000,
            step: 1000,
            max_value: i64::MAX,
            period: None,
            period_key: None,
            ahead: None,
            has_left: true,
            is_closed: false,
            seen_until: None,
            taken_at_us: None,
            taken_by: None,
            is_dropped: true,
            was_lost: true,
            numbers_granted: 0,
        }
    }
}
