//! The task that takes ranges of numbers from the registry, and reports its numbers.
//!
//! [`NumberRound`] determines the steps, and this module carries them out. The records are in memory instead of a file.
//! If the memory is lost, the ranges are lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use snowflake_id_core::clocks::ClockOffset;
use snowflake_id_core::failures::Failures;
use snowflake_id_core::lease_call::Call;
use snowflake_id_core::number_call::{Lasted, Request};
use snowflake_id_core::number_round::{Effect, Event, Given, Holder, NumberRound, Refusal, Take};
use snowflake_id_core::protocol::Caller;
use snowflake_id_core::reply::NOT_VALID;
use snowflake_id_core::segment_answer::{Answer, MOST_REQUESTS, SegmentState};
use snowflake_id_core::segment_records::SegmentRecords;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, sleep_until};

use crate::connection::{Connection, Connector, Problem, in_short};
use crate::error::Error;
use crate::numbers::{Ranges, RegistryClock, Wish, since_boot};
use crate::pauses::about;

/// Idle time after which a connection is closed.
const KEPT: Duration = Duration::from_secs(5);
/// The pause after a round in which the registry has refused a request.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_millis(100);
/// The maximum pause after a round without an answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The maximum length of the name of a segment, in bytes. The registry has the same limit.
const LONGEST_NAME: usize = 255;
/// The part of a range after which the next range is requested.
const WANTED_AT: (f64, f64) = (0.1, 0.2);

/// What the task knows of a segment.
struct Known {
    ranges: Arc<Ranges>,
    /// The count of numbers of the last range, and when it was published.
    last: Option<(u64, Instant)>,
}

/// The task.
pub struct Task {
    connect: Connector,
    connection: Option<(Connection, Instant)>,
    node_name: String,
    clock: Arc<RegistryClock>,
    known: BTreeMap<String, Known>,
    records: SegmentRecords,
    round: NumberRound,
    failures: Failures,
}

/// The calls that wait for a segment.
type Waiting = Vec<oneshot::Sender<Result<(), Error>>>;
/// The results of a round, by name.
type Results = BTreeMap<String, Result<(), Error>>;

impl Task {
    pub fn new(connect: Connector, node_name: String, clock: Arc<RegistryClock>) -> Task {
        Task {
            connect,
            connection: None,
            node_name,
            clock,
            known: BTreeMap::new(),
            records: SegmentRecords::default(),
            round: NumberRound::new(Holder::Program),
            failures: Failures::default(),
        }
    }

    /// Runs until all senders of wishes are dropped, or until the handle closes the channel.
    pub async fn run(mut self, mut wishes: mpsc::Receiver<Wish>) {
        let mut report_at = tokio::time::Instant::now() + self.round.pause_of_reports();
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
                report_at = tokio::time::Instant::now() + self.report().await;
                continue;
            };
            let mut wanted: BTreeMap<String, Waiting> = BTreeMap::new();
            let mut next = Some(wish);
            while let Some(Wish { of, reply }) = next {
                wanted.entry(of.name.clone()).or_default().extend(reply);
                self.known.entry(of.name.clone()).or_insert(Known { ranges: of, last: None });
                next = if wanted.len() < MOST_REQUESTS { wishes.try_recv().ok() } else { None };
            }
            let pause = self.round(wanted).await;
            // The first answer contains the interval. The registry relies on it after a start of its server.
            report_at = match self.round.is_report_urgent() {
                true => tokio::time::Instant::now() + self.report().await,
                false => report_at.min(tokio::time::Instant::now() + self.pause_of_reports()),
            };
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
        let requests = names.iter().map(|name| self.request(name)).collect();
        let effect = self.round.take(&self.records, requests);
        let (results, taken) = self.drive(effect, &names).await;
        let mut pause = Duration::ZERO;
        if taken.is_ok() {
            self.failures.end();
        } else {
            pause = about(self.failures.add(PAUSE_AFTER_REFUSAL, LONGEST_PAUSE), 0.5, 1.0);
        }
        let why = taken.err().unwrap_or_else(|| NOT_VALID.into());
        for (name, waiting) in wanted {
            let result = results.get(&name).cloned();
            let result = result.unwrap_or_else(|| Err(Error::NoNumbers { name, why: why.clone() }));
            if result.is_err() {
                pause = pause.max(PAUSE_AFTER_REFUSAL);
            }
            // A call that has stopped waiting needs no reply.
            waiting.into_iter().for_each(|reply| drop(reply.send(result.clone())));
        }
        pause
    }

    /// Carries out effects until the end of the round. `names` are those of the requests for ranges.
    async fn drive(&mut self, mut effect: Effect, names: &[String]) -> (Results, Result<(), Problem>) {
        let (mut results, mut problem) = (Results::new(), Problem::new());
        loop {
            let event = match effect {
                Effect::Send(take) => match self.send(&take).await {
                    Ok(answer) => Event::Answered(answer),
                    Err(why) => {
                        problem = why;
                        Event::Failed { is_of_data: false }
                    }
                },
                Effect::Keep(changes) => {
                    changes.into_iter().for_each(|change| self.records.apply(change));
                    Event::Kept
                }
                Effect::Publish(given) => {
                    for given in given {
                        let name = &names[given.at];
                        results.insert(name.clone(), self.publish(name, given));
                    }
                    Event::Published
                }
                Effect::Rest(result) => {
                    return (results, result.map_err(|refusal| text_of(refusal, problem)));
                }
            };
            effect = self.round.step(&self.records, event, self.clock.now_us());
        }
    }

    /// Makes a range available to calls.
    fn publish(&mut self, name: &str, given: Given) -> Result<(), Error> {
        if given.not_above.is_some() {
            let why = "the registry granted numbers that are not above those of this program".into();
            return Err(Error::NoNumbers { name: name.into(), why });
        }
        let Some(granted) = given.about.granted else {
            let outcome = match given.about.state {
                SegmentState::Denied => "denied",
                state => state.name(),
            };
            let detail = in_short(given.about.detail.unwrap_or_default());
            return Err(Error::Segment { name: name.into(), outcome: outcome.into(), detail });
        };
        let range = granted.range;
        let wanted_at =
            about(Duration::from_secs(1), WANTED_AT.0, WANTED_AT.1).as_secs_f64() * range.count as f64;
        // There is room, because a range is taken only when the last one is in use.
        if let Some(known) = self.known.get_mut(name)
            && known.ranges.segment.publish(range, (wanted_at as u64).clamp(1, range.count)).is_ok()
        {
            known.last = Some((range.count, Instant::now()));
        }
        Ok(())
    }

    /// A request for the next range of a segment.
    fn request(&self, name: &str) -> Request {
        let had = self.records.segments.get(name).and_then(|had| had.now.as_ref());
        let lasted = self.known.get(name).and_then(|known| {
            let (count, at) = known.last?;
            let taken = count.saturating_sub(known.ranges.segment.standing().left).max(1);
            Some(Lasted::new(count, taken, at.elapsed()))
        });
        Request { name: name.into(), had: had.map(Into::into), lasted, ..Request::default() }
    }

    /// Reports, and returns the pause before the next report. Failures need no handling: the next request presents the
    /// same tokens.
    async fn report(&mut self) -> Duration {
        let effect = self.round.report(&self.records);
        let _ = self.drive(effect, &[]).await;
        self.pause_of_reports()
    }

    fn pause_of_reports(&self) -> Duration {
        about(self.round.pause_of_reports(), 0.9, 1.1)
    }

    /// Calls the registry's function. If an idle connection fails, the function connects again: the registry
    /// may have been restarted. Numbers of a lost answer are lost.
    async fn send(&mut self, take: &Take) -> Result<Answer, Problem> {
        let call = self.round.call(&self.records, take, &self.node_name);
        if let Some((connection, _)) = self.connection.take_if(|(_, used)| used.elapsed() < KEPT)
            && let Ok(answer) = self.send_over(connection, &call).await
        {
            return Ok(answer);
        }
        let connection = (self.connect)().await?;
        self.send_over(connection, &call).await
    }

    async fn send_over(&mut self, connection: Connection, call: &Call) -> Result<Answer, Problem> {
        let sent = since_boot();
        let rows = connection.call(call).await?;
        let middle = sent.midpoint(since_boot());
        self.connection = Some((connection, Instant::now()));
        let answer = Answer::read(&rows)?;
        if !answer.is_foreign && answer.mismatch.is_none() {
            self.clock.note(ClockOffset::of(answer.clock_us, middle));
        }
        Ok(answer)
    }
}

/// The text of a refusal. `problem` is the reason why an effect has failed.
fn text_of(refusal: Refusal, problem: Problem) -> Problem {
    match refusal {
        Refusal::Failed => problem,
        Refusal::Failure(why) => why.into(),
        Refusal::Mismatch(mismatch, detail) => in_short(mismatch.explain(Caller::Program, detail.as_deref())),
    }
}

fn is_possible(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len()) && !name.contains('\0')
}
