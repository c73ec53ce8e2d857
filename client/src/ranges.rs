//! The task that takes ranges of numbers from the registry.
//!
//! As on a server, a range is used only if it is above all numbers of this program, and if the registry has
//! signed it in a second call: the registry signs only what is committed. The task reports its numbers and
//! presents its tokens at the interval that the registry asks for, so that a registry that was set back
//! learns of its grants.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use snowflake_id_core::failures::Failures;
use snowflake_id_core::number_call::{self, Protocol, TAKE};
use snowflake_id_core::protocol::{Caller, Mismatch};
use snowflake_id_core::reply::{NOT_VALID, Reply};
use snowflake_id_core::segment_answer::{Granted, LONGEST_TOKEN, MOST_REQUESTS, REPORT_EVERY, report_every};
use snowflake_id_core::signed::{Signed, proves};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, sleep_until};
use uuid::Uuid;

use crate::connection::{Connection, Connector, Problem, in_short};
use crate::error::Error;
use crate::numbers::{Ranges, RegistryClock, Wish, since_boot_us};
use crate::pauses::about;

/// Idle time after which a connection is closed.
const KEPT: Duration = Duration::from_secs(5);
/// The pause after a round in which the registry has refused a request.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// The maximum pause after a round without an answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The pause after a failed report that follows a start of the registry's server.
const PAUSE_AFTER_REPORT: Duration = Duration::from_secs(1);
/// The maximum length of the name of a segment, in bytes. The registry has the same limit.
const LONGEST_NAME: usize = 255;
/// The part of a range after which the next range is requested.
const WANTED_AT: (f64, f64) = (0.1, 0.2);

/// What the task knows of a segment.
struct Known {
    ranges: Arc<Ranges>,
    /// The highest number that the registry has granted to this program.
    had_until: Option<i64>,
    /// The count of numbers of the last range, and when it was published.
    last: Option<(u64, Instant)>,
}

/// The task.
pub struct Task {
    connect: Connector,
    connection: Option<(Connection, Instant)>,
    node_name: String,
    protocol: Protocol,
    /// The registry that has granted numbers. No other registry is accepted.
    registry_id: Option<Uuid>,
    clock: Arc<RegistryClock>,
    known: BTreeMap<String, Known>,
    signed: Signed,
    report_every: Duration,
    /// When the registry's server was started, in microseconds of Unix time, according to the last answer.
    registry_started_us: Option<i64>,
    /// Whether the registry's server was restarted since the last complete report. It may have lost what it was told
    /// before.
    must_report: bool,
    failures: Failures,
}

/// The calls that wait for a segment.
type Waiting = Vec<oneshot::Sender<Result<(), Error>>>;
/// The rows of an answer, by the index of their request.
type Answered = BTreeMap<usize, Reply>;

impl Task {
    pub fn new(connect: Connector, node_name: String, clock: Arc<RegistryClock>) -> Task {
        Task {
            connect,
            connection: None,
            node_name,
            protocol: Protocol::default(),
            registry_id: None,
            clock,
            known: BTreeMap::new(),
            signed: Signed::default(),
            report_every: REPORT_EVERY,
            registry_started_us: None,
            must_report: false,
            failures: Failures::default(),
        }
    }

    /// Runs until all senders of wishes are dropped, or until the handle closes the channel.
    pub async fn run(mut self, mut wishes: mpsc::Receiver<Wish>) {
        let mut report_at = tokio::time::Instant::now() + self.report_every;
        loop {
            let wish = tokio::select! {
                wish = wishes.recv() => match wish {
                    Some(wish) => Some(wish),
                    None => return,
                },
                _ = sleep_until(report_at) => None,
                _ = sleep(KEPT), if self.connection.is_some() => {
                    self.connection.take_if(|(_, used)| used.elapsed() >= KEPT);
                    continue;
                }
            };
            let Some(wish) = wish else {
                report_at = tokio::time::Instant::now() + self.report_in_turn().await;
                continue;
            };
            let mut wanted: BTreeMap<String, Waiting> = BTreeMap::new();
            let mut next = Some(wish);
            while let Some(Wish { of, reply }) = next {
                wanted.entry(of.name.clone()).or_default().extend(reply);
                self.known.entry(of.name.clone()).or_insert(Known {
                    ranges: of,
                    had_until: None,
                    last: None,
                });
                next = if wanted.len() < MOST_REQUESTS { wishes.try_recv().ok() } else { None };
            }
            let pause = self.round(wanted).await;
            // The first answer contains the interval. The registry relies on it after a start of its server.
            report_at = report_at.min(tokio::time::Instant::now() + about(self.report_every, 0.9, 1.1));
            if self.must_report {
                report_at = tokio::time::Instant::now() + self.report_in_turn().await;
            }
            sleep(pause).await;
        }
    }

    /// Takes ranges of the wanted segments, and replies to the calls that wait. Returns the pause before
    /// the next round.
    async fn round(&mut self, mut wanted: BTreeMap<String, Waiting>) -> Duration {
        // A range may have come while the wish was in the channel.
        wanted.retain(|name, waiting| {
            let is_wanted = self.known.get(name).is_some_and(|known| {
                let standing = known.ranges.segment.standing();
                !standing.is_usable(self.clock.now_us()) || standing.is_next_wanted
            });
            if !is_wanted {
                waiting.drain(..).for_each(|reply| drop(reply.send(Ok(()))));
            }
            is_wanted
        });
        // The registry would refuse the whole request, or its answer would be too long.
        for (name, waiting) in wanted.extract_if(.., |name, _| !is_possible(name)) {
            let why = format!(
                "the name of a segment must have 1 to {LONGEST_NAME} bytes and must not contain a null character"
            );
            let error = Error::NoNumbers { name, why };
            waiting.into_iter().for_each(|reply| drop(reply.send(Err(error.clone()))));
        }
        if wanted.is_empty() {
            return Duration::ZERO;
        }
        let names: Vec<String> = wanted.keys().cloned().collect();
        let taken = self.take(&names).await;
        let mut pause = Duration::ZERO;
        if taken.is_ok() {
            self.failures.end();
        } else {
            pause = about(self.failures.add(PAUSE_AFTER_REFUSAL, LONGEST_PAUSE), 0.5, 1.0);
        }
        for (name, waiting) in wanted {
            let result = match &taken {
                Ok(results) => results.get(&name).cloned().unwrap_or(Ok(())),
                Err(why) => Err(Error::NoNumbers { name: name.clone(), why: why.clone() }),
            };
            if result.is_err() {
                pause = pause.max(PAUSE_AFTER_REFUSAL);
            }
            // A call that has stopped waiting needs no reply.
            waiting.into_iter().for_each(|reply| drop(reply.send(result.clone())));
        }
        pause
    }

    /// Takes one range of each segment, and publishes the ranges that the registry has signed.
    async fn take(&mut self, names: &[String]) -> Result<BTreeMap<String, Result<(), Error>>, Problem> {
        let requests: Vec<_> = names.iter().map(|name| self.request(name)).collect();
        let answered = self.ask(&requests).await?;
        let mut results = BTreeMap::new();
        let mut granted = BTreeMap::new();
        for (at, name) in names.iter().enumerate() {
            match self.read(name, answered.get(&at)) {
                Ok(range) => drop(granted.insert(name.clone(), range)),
                Err(error) => drop(results.insert(name.clone(), Err(error))),
            }
        }
        if granted.is_empty() {
            return Ok(results);
        }
        let reported: Vec<_> = granted.keys().cloned().collect();
        let started_us = self.registry_started_us;
        let signed = self.report_on(&reported).await?;
        if self.registry_started_us != started_us {
            // The registry may have lost the grant, and granted the same numbers to another program.
            return Err("the registry's server was restarted".into());
        }
        for (name, granted) in granted {
            let is_proved = signed.iter().any(|(of, token)| *of == name && proves(token, &granted));
            let Some(known) = self.known.get_mut(&name).filter(|_| is_proved) else {
                return Err("the registry did not sign the numbers that it granted".into());
            };
            let range = granted.range;
            known.had_until = range.last();
            let wanted_at =
                about(Duration::from_secs(1), WANTED_AT.0, WANTED_AT.1).as_secs_f64() * range.count as f64;
            // There is room, because a range is taken only when the last one is in use.
            if known.ranges.segment.publish(range, (wanted_at as u64).clamp(1, range.count)).is_ok() {
                known.last = Some((range.count, Instant::now()));
            }
            results.insert(name, Ok(()));
        }
        Ok(results)
    }

    /// A request for the next range of a segment.
    fn request(&self, name: &str) -> Value {
        let mut request = self.report_of(name);
        let object = request.as_object_mut().into_iter();
        object.for_each(|object| drop(object.remove("report")));
        if let Some(known) = self.known.get(name)
            && let Some((count, at)) = known.last
        {
            let taken = count.saturating_sub(known.ranges.segment.standing().left).max(1);
            // If numbers are left, the time is an estimate based on the current rate.
            let lasted = at.elapsed().as_secs_f64() * count as f64 / taken as f64;
            request["lasted"] = json!(lasted.min(1e9));
            request["count"] = json!(count);
        }
        request
    }

    /// A report of the highest number of a segment, for which the registry signs a token.
    fn report_of(&self, name: &str) -> Value {
        let mut report = json!({"name": name, "report": true});
        if let Some(had_until) = self.known.get(name).and_then(|known| known.had_until) {
            report["had_until"] = json!(had_until);
        }
        report
    }

    /// Reports, and returns the pause before the next report. The registry waits only a short time for a report after
    /// a start of its server, so the pause is short if such a report fails. Other failures need no handling: the next
    /// request presents the same tokens.
    async fn report_in_turn(&mut self) -> Duration {
        let is_urgent = std::mem::take(&mut self.must_report);
        let is_told = self.report().await.is_ok();
        // The registry's server may have been restarted during the report.
        self.must_report |= is_urgent && !is_told;
        match self.must_report {
            true => about(PAUSE_AFTER_REPORT, 0.5, 1.0).min(self.report_every),
            false => about(self.report_every, 0.9, 1.1),
        }
    }

    /// Reports on all segments of which the program has had numbers.
    async fn report(&mut self) -> Result<(), Problem> {
        let had = self.known.iter().filter(|(_, known)| known.had_until.is_some());
        let names: Vec<String> = had.map(|(name, _)| name.clone()).collect();
        for names in names.chunks(MOST_REQUESTS) {
            self.report_on(names).await?;
        }
        Ok(())
    }

    /// Reports on segments, and keeps the tokens. Returns the tokens, with the names of their segments.
    async fn report_on(&mut self, names: &[String]) -> Result<Vec<(String, String)>, Problem> {
        let reports: Vec<_> = names.iter().map(|name| self.report_of(name)).collect();
        let answered = self.ask(&reports).await?;
        let mut signed = vec![];
        let mut is_busy = false;
        for (at, name) in names.iter().enumerate() {
            let Some(row) = answered.get(&at) else { continue };
            if let Some(report_every_us) = row.number("report_every").and_then(|us| us.try_into().ok()) {
                self.report_every = report_every(report_every_us);
            }
            if let Some(token) = row.token(LONGEST_TOKEN) {
                self.signed.note(self.registry_id, name, token.clone());
                signed.push((name.clone(), token));
            }
            is_busy |= row.text("outcome") == Some("busy");
        }
        match is_busy {
            true => Err("other sessions held a lock on a segment for too long".into()),
            false => Ok(signed),
        }
    }

    /// Reads the answer to a request for a range.
    fn read(&self, name: &str, row: Option<&Reply>) -> Result<Granted, Error> {
        let no_numbers = |why: &str| Error::NoNumbers { name: name.into(), why: why.into() };
        let row = row.ok_or_else(|| no_numbers(NOT_VALID))?;
        match row.text("outcome") {
            Some("granted") => {}
            Some(outcome) => {
                let detail = row.text("detail").unwrap_or_default();
                return Err(Error::Segment {
                    name: name.into(),
                    outcome: in_short(outcome.to_owned()),
                    detail: in_short(detail.to_owned()),
                });
            }
            None => return Err(no_numbers(NOT_VALID)),
        }
        let granted = Granted::read(row).ok_or_else(|| no_numbers(NOT_VALID))?;
        let had_until = self.known.get(name).and_then(|known| known.had_until).unwrap_or(-1);
        if granted.range.first <= had_until {
            return Err(no_numbers("the registry granted numbers that are not above those of this program"));
        }
        Ok(granted)
    }

    /// Calls the registry's function. If an idle connection fails, the function connects again: the registry
    /// may have been restarted. Numbers of a lost answer are lost.
    async fn ask(&mut self, requests: &[Value]) -> Result<Answered, Problem> {
        if let Some((connection, _)) = self.connection.take_if(|(_, used)| used.elapsed() < KEPT)
            && let Ok(answered) = self.ask_over(connection, requests).await
        {
            return Ok(answered);
        }
        let connection = (self.connect)().await?;
        self.ask_over(connection, requests).await
    }

    async fn ask_over(&mut self, connection: Connection, requests: &[Value]) -> Result<Answered, Problem> {
        let names: BTreeSet<_> = requests.iter().filter_map(|request| request["name"].as_str()).collect();
        let tokens: Vec<_> =
            names.into_iter().flat_map(|name| self.signed.tokens(self.registry_id, name)).collect();
        let (mut rows, mut middle_us) = self.call(&connection, requests, &tokens).await?;
        if self.note_protocols(&rows) {
            (rows, middle_us) = self.call(&connection, requests, &tokens).await?;
            self.note_protocols(&rows);
        }
        self.connection = Some((connection, Instant::now()));
        let first = rows.first().ok_or("the registry's reply is empty")?;
        if let Some(mismatch) = first.text("outcome").and_then(Mismatch::read) {
            return Err(in_short(mismatch.explain(Caller::Program, first.text("detail"))));
        }
        if first.text("outcome") == Some("foreign") {
            return Err("the numbers of this program were granted by another registry".into());
        }
        let registry_id: Option<Uuid> = first.text("registry_id").and_then(|text| text.parse().ok());
        if self.registry_id.is_some() && self.registry_id != registry_id {
            return Err("the numbers of this program were granted by another registry".into());
        }
        self.registry_id = registry_id;
        let started_us = first.number("server_started");
        self.must_report |= self.registry_started_us.is_some() && self.registry_started_us != started_us;
        self.registry_started_us = started_us;
        if let Some(clock_us) = first.number("registry_clock") {
            self.clock.note(clock_us, middle_us);
        }
        let index = |row: &Reply| usize::try_from(row.number("request")?).ok()?.checked_sub(1);
        Ok(rows.into_iter().filter_map(|row| Some((index(&row)?, row))).collect())
    }

    /// Sends a request. Returns the answer, and the time since boot at which the registry gave it.
    async fn call(
        &self,
        connection: &Connection,
        requests: &[Value],
        tokens: &[String],
    ) -> Result<(Vec<Reply>, i64), Problem> {
        let call =
            number_call::take(TAKE, self.protocol, self.registry_id, &self.node_name, requests, tokens);
        let sent_us = since_boot_us();
        let rows = connection.call(&call).await?;
        Ok((rows, sent_us.midpoint(since_boot_us())))
    }

    /// Returns whether the request has to be sent once more.
    fn note_protocols(&mut self, rows: &[Reply]) -> bool {
        let Some(first) = rows.first() else { return false };
        let mismatch = first.text("outcome").and_then(Mismatch::read);
        self.protocol.note(mismatch.is_some(), first.protocols())
    }
}

fn is_possible(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && !name.contains('\0')
}
