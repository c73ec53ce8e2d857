//! What the segments worker does, round after round: it looks which segments want numbers, asks the registry for all of
//! them at once, and publishes what it gets.

mod report;

use std::collections::VecDeque;
use std::ffi::CString;
use std::time::{Duration, Instant};

use pgrx::prelude::*;
use snowflake_id_core::segment::{NEVER_ENDS, Standing};
use uuid::Uuid;

use super::answer::{About, Granted};
use super::fetch::{Answered, HadUntil, Lasted, Line, Question, Request};
use super::had::End;
use super::here;
use super::past::Past;
use crate::background::link::NoAnswer;
use crate::background::stop::is_stopping;
use crate::config;
use crate::pg::random::random_between;
use crate::pg::wait::wait;
use crate::pg::{clock, process};
use crate::shared::segments::{self, SegmentState, Segments, Trouble};
use crate::wait_event::WaitEvent;

/// How many names are asked for at once: as many as the registry accepts.
const MOST_REQUESTS: usize = 64;
/// The next range is wanted when so much of one is used: a tenth, not of all servers at once.
const WANTED_AT: (f64, f64) = (0.05, 0.15);
/// How long before its beginning the first range of a period is fetched, not by all servers at once.
const LEAD: (f64, f64) = (60.0, 600.0);
/// How soon after an answer that was no range the registry is asked again, for those who wait.
const PAUSE: Duration = Duration::from_millis(100);
/// The same if it did not answer, at first and later.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How soon if nobody waits, as there still are numbers.
const CALM_PAUSE: (f64, f64) = (5.0, 30.0);
/// How soon the worker looks although nobody has woken it, and while there are numbers of a period.
const IDLE_TIME: Duration = Duration::from_secs(10);
const IDLE_TIME_IN_PERIOD: Duration = Duration::from_secs(1);
/// By how much the clock has to change against the time since boot for that to be a step.
const STEP_US: u64 = 1_000_000;
/// How soon a name is asked for again for which the statement has failed: the registry logs each failure.
const PAUSE_OF_SUSPECTS: Duration = Duration::from_secs(2);
/// How often the registry is told what was had, unless it says otherwise.
const REPORT_EVERY: Duration = Duration::from_secs(60);
/// How many bytes of what others say are told.
const LONGEST_PROBLEM: usize = 400;

/// What the worker alone knows of a segment.
struct Known {
    name: String,
    /// A range of the next period, which has not begun.
    held: Option<Granted>,
    /// Not before this is it asked for again, unless somebody waits.
    calm_until: Option<Instant>,
    last: Option<LastFetch>,
    /// How long before its beginning a period is fetched.
    lead_us: i64,
    /// Whether the last range that the registry gave could not be used.
    is_refused: bool,
    /// When the registry's statement last failed because of this name. It is asked for alone since, until that works.
    failed_at: Option<Instant>,
}

/// The last range that was fetched: when, how many numbers it has, and how many were left with it.
struct LastFetch {
    at: Instant,
    count: u64,
    left: u64,
}

/// One of the requests of a round.
struct Wish {
    /// The place of the slot.
    at: usize,
    request: Request,
}

pub struct Worker {
    segments: &'static Segments,
    is_here: bool,
    past: Result<Past, String>,
    line: Line,
    /// The setting `snowflake_id.registry` that was last followed.
    registry: Option<CString>,
    /// The registry that this process has told up to where numbers were had, of all names, whoever gave them. No other one
    /// is asked for numbers.
    told: Option<Uuid>,
    /// Whether the registry may be able to write the name of this server as it is.
    tells_name_as_it_is: bool,
    /// By the place of the slot.
    known: Vec<Option<Known>>,
    /// How often in a row the registry did not answer, and not before when it is asked again.
    failures: u32,
    not_before: Instant,
    /// The clock less the time since boot, when it was last compared with the registry's.
    clock_offset_us: i64,
    last_problem: Option<String>,
    /// How often, and when next, the registry is told what was had.
    report_every: Duration,
    report_at: Instant,
}

/// Why a round has failed.
struct Failure {
    problem: String,
    trouble: Trouble,
    /// The registry has answered that the statement fails: the fault may be with one of the names.
    is_of_statement: bool,
}

impl Failure {
    fn of_file(problem: &str) -> Failure {
        Failure { problem: problem.into(), trouble: Trouble::File, is_of_statement: false }
    }

    fn of_changes() -> Failure {
        let problem = "another registry answers each time".into();
        Failure { problem, trouble: Trouble::Silence, is_of_statement: false }
    }

    /// `None` if the process has to stop.
    fn of_registry(why: NoAnswer) -> Option<Failure> {
        let (problem, is_of_statement) = match why {
            NoAnswer::Stopping => return None,
            NoAnswer::Failed(problem) | NoAnswer::Stuck(problem) => (problem, false),
            NoAnswer::Refused(problem) => (problem, true),
        };
        Some(Failure { problem, trouble: Trouble::Silence, is_of_statement })
    }
}

impl Worker {
    pub fn new(segments: &'static Segments, is_here: bool) -> Worker {
        Worker {
            segments,
            is_here,
            past: Past::read(),
            line: Line::default(),
            registry: config::registry(),
            told: None,
            tells_name_as_it_is: true,
            known: vec![],
            failures: 0,
            not_before: Instant::now(),
            clock_offset_us: clock_offset_us(),
            // The process before this one may have said it.
            last_problem: segments::registry_problem().map(|problem| problem.text),
            report_every: REPORT_EVERY,
            report_at: Instant::now(),
        }
    }

    pub fn run(&mut self) {
        while self.look_around() {
            self.follow_registry();
            self.segments.bell.take_wanted();
            if Instant::now() >= self.not_before && self.round().is_err() {
                return;
            }
            if Instant::now() >= self.report_at && self.report().is_err() {
                return;
            }
            self.line.rest();
            if !self.sleep() {
                return;
            }
        }
    }

    /// What has to be looked after also while the registry does not answer. Returns whether to go on.
    fn look_around(&mut self) -> bool {
        process::reload_if_asked();
        self.enter_periods();
        !is_stopping() && config::registry().is_none() == self.is_here
    }

    /// Sleeps until somebody asks, or there is something to do. Returns whether to go on.
    fn sleep(&mut self) -> bool {
        let until = Instant::now() + self.pause();
        loop {
            let now = Instant::now();
            let is_asked = self.segments.bell.is_wanted() && now >= self.not_before;
            if is_asked || now >= until {
                return true;
            }
            // While it may not ask, it need not be woken: the latch is set once.
            let next = if self.segments.bell.is_wanted() { self.not_before.min(until) } else { until };
            wait(
                next.saturating_duration_since(now).max(Duration::from_millis(1)),
                WaitEvent::Registry.number(),
            );
            if !self.look_around() {
                return false;
            }
            if config::registry() != self.registry {
                return true;
            }
        }
    }

    /// How long there is nothing to do.
    fn pause(&self) -> Duration {
        let now_us = self.segments.registry_clock_us();
        let mut pause = if self.line.is_open() { LONGEST_PAUSE } else { IDLE_TIME };
        for (_, _, slot) in self.segments.in_use() {
            let is_in_period = |ends_us: i64| ends_us != NEVER_ENDS && ends_us > now_us;
            if slot.segment.standing().current.is_some_and(|range| is_in_period(range.ends_us)) {
                pause = pause.min(IDLE_TIME_IN_PERIOD);
            }
        }
        pause = pause.min(self.report_at.saturating_duration_since(Instant::now()));
        let held = self.known.iter().flatten().filter_map(|known| known.held?.period);
        for period in held {
            // One that has begun could not be noted: that is tried again.
            let left_us = period.starts_us.saturating_sub(now_us);
            let left =
                if left_us > 0 { Duration::from_micros(left_us.unsigned_abs()) } else { IDLE_TIME_IN_PERIOD };
            pause = pause.min(left);
        }
        pause
    }

    /// Publishes the ranges of periods that have begun. A range that cannot be noted stays held. One that does not lie
    /// above what was used meanwhile is lost.
    fn enter_periods(&mut self) {
        let now_us = self.segments.registry_clock_us();
        for at in 0..self.known.len() {
            let Some(known) = &mut self.known[at] else { continue };
            let Some(granted) = known.held.filter(|held| has_begun(held, now_us)) else { continue };
            let name = known.name.clone();
            let Ok(past) = &mut self.past else { continue };
            // The registry's clock was set back, after it had given numbers of a later period; or this one could not be
            // noted.
            if past.is_over(&name, &granted) {
                known.held = None;
                continue;
            }
            if let Err(problem) = past.keep(|past| past.enter(&name, &granted)) {
                self.fail(Failure::of_file(&problem));
                continue;
            }
            if is_stopping() {
                return; // What was noted may not have reached a standby.
            }
            known.held = None;
            self.publish(at, &name, &granted);
        }
    }

    /// One round: looks what is wanted, asks, publishes. Fails when the process has to stop.
    fn round(&mut self) -> Result<(), ()> {
        self.segments.begin_round();
        if self.past.is_err() {
            self.past = Past::read(); // It may have been mended.
        }
        let wishes = self.wishes();
        let is_clock_set = self.is_clock_set();
        if wishes.is_empty() && !is_clock_set {
            self.segments.end_round();
            return Ok(());
        }
        self.ask_in_portions(wishes)?;
        self.segments.end_round();
        Ok(())
    }

    /// Asks for all of these. Where a statement fails because of one name, it alone gets no numbers: halves are asked for,
    /// until it is found. Fails when the process has to stop.
    fn ask_in_portions(&mut self, wishes: Vec<Wish>) -> Result<(), ()> {
        let mut portions = self.portions(wishes);
        let mut has_answered = false;
        while let Some(mut portion) = portions.pop_front() {
            let failure = match self.ask(&portion) {
                Ok(()) => {
                    has_answered = true;
                    self.succeed();
                    continue;
                }
                Err(None) => return Err(()),
                Err(Some(failure)) => failure,
            };
            if failure.is_of_statement && !has_answered {
                // If the same fails where nothing is asked for, it is not because of a name.
                has_answered = match self.ask(&[]) {
                    Ok(()) => true,
                    Err(None) => return Err(()),
                    Err(Some(_)) => false,
                };
            }
            if !(failure.is_of_statement && has_answered) {
                self.fail(failure);
                break;
            }
            self.succeed();
            if portion.len() > 1 {
                let half = portion.split_off(portion.len() / 2);
                portions.push_front(half);
                portions.push_front(portion);
            } else if let Some(wish) = portion.pop() {
                self.suspect(&wish, failure.problem);
            }
        }
        Ok(())
    }

    /// What is asked for in one statement each, at least one: names that are suspected alone, and after the others.
    fn portions(&self, wishes: Vec<Wish>) -> VecDeque<Vec<Wish>> {
        let is_suspected = |wish: &Wish| {
            let known = self.known.get(wish.at).and_then(Option::as_ref);
            known.is_some_and(|known| known.failed_at.is_some())
        };
        let (suspects, mut others): (Vec<_>, Vec<_>) = wishes.into_iter().partition(is_suspected);
        let mut portions = VecDeque::new();
        while !others.is_empty() {
            let rest = others.split_off(others.len().min(MOST_REQUESTS));
            portions.push_back(std::mem::replace(&mut others, rest));
        }
        portions.extend(suspects.into_iter().map(|wish| vec![wish]));
        if portions.is_empty() {
            portions.push_back(vec![]);
        }
        portions
    }

    /// Notes that the registry's statement fails because of this name, for whatever reason.
    fn suspect(&mut self, wish: &Wish, problem: String) {
        let Wish { at, request } = wish;
        // Whoever waits asks again and again.
        if known_at(&mut self.known, *at, &request.name).failed_at.is_none() {
            warning!("snowflake_id: segment \"{}\": the registry fails: {problem}", request.name);
        }
        let (state, detail) = (SegmentState::Invalid, Some(problem));
        self.note_answer(*at, request, &About { state, granted: None, max_value: None, token: None, detail });
        known_at(&mut self.known, *at, &request.name).failed_at = Some(Instant::now());
        self.not_before = Instant::now() + PAUSE;
    }

    /// Whether the clock was set since it was last compared with the registry's: that of the registry may have been
    /// as well, or this machine may have slept without knowing.
    fn is_clock_set(&self) -> bool {
        clock_offset_us().abs_diff(self.clock_offset_us) > STEP_US
            && self.segments.in_use().iter().any(|(_, _, slot)| {
                slot.segment.standing().current.is_some_and(|range| range.ends_us != NEVER_ENDS)
            })
    }

    /// What is wanted now.
    fn wishes(&mut self) -> Vec<Wish> {
        let mut wishes = vec![];
        let now_us = self.segments.registry_clock_us();
        for (at, record, slot) in self.segments.in_use() {
            let is_wanted = slot.take_wanted();
            let standing = slot.segment.standing();
            let known = known_at(&mut self.known, at, record.name());
            let is_calm = known.calm_until.is_some_and(|until| Instant::now() < until);
            let is_fetch_due =
                if standing.is_usable(now_us) { standing.is_next_wanted && !is_calm } else { is_wanted };
            let is_next_due = is_next_period_due(known, &standing, now_us) && !is_calm;
            if known.failed_at.is_some_and(|failed_at| failed_at.elapsed() < PAUSE_OF_SUSPECTS) {
                // Whoever waits is told what was said then.
                if is_wanted {
                    self.not_before = Instant::now() + PAUSE;
                }
                continue;
            }
            let Ok(past) = &self.past else {
                if is_wanted {
                    // The round fails, and says why.
                    wishes.push(Wish {
                        at,
                        request: Request { name: record.name().into(), ..Request::default() },
                    });
                }
                continue;
            };
            let had = past.had(record.name());
            let request = |end: &Option<End>| Request {
                name: record.name().into(),
                had: end.as_ref().map(|end| HadUntil { had_until: end.until, registry_id: end.registry_id }),
                lasted: known.last.as_ref().and_then(|last| last.lasted(&standing)),
                ..Request::default()
            };
            // After a restart the period may have begun of which the server has had numbers before.
            let begun = had.next.clone().filter(|_| known.held.is_none()).filter(has_begun_by_own_clock);
            if is_fetch_due && begun.is_some() {
                wishes.push(Wish { at, request: Request { may_be_early: true, ..request(&begun) } });
            } else if is_fetch_due {
                wishes.push(Wish { at, request: request(&had.now) });
            }
            if is_next_due {
                let next = Request { next: true, may_be_early: true, lasted: None, ..request(&had.now) };
                wishes.push(Wish { at, request: next });
            }
        }
        wishes
    }

    /// Asks for these, and publishes what is granted.
    fn ask(&mut self, wishes: &[Wish]) -> Result<(), Option<Failure>> {
        let past = self.past.as_mut().map_err(|problem| Failure::of_file(problem))?;
        past.prove_writable().map_err(|problem| Failure::of_file(&problem))?;
        let mut registry_id = self.meet_registry()?;
        let requests: Vec<_> = wishes.iter().map(|wish| &wish.request).collect();
        let mut answered = self.ask_registry(&requests, registry_id)?;
        if answered.answer.is_foreign {
            self.told = None;
            registry_id = self.meet_registry()?;
            answered = self.ask_registry(&requests, registry_id)?;
        }
        if answered.answer.is_foreign {
            return Err(Some(Failure::of_changes()));
        }
        self.segments.set_registry_clock(answered.answer.clock_us, answered.since_boot_us);
        self.clock_offset_us = clock_offset_us();
        // The registry may be in the next period already. What is held of that comes before what it gives now.
        self.enter_periods();
        let answer = answered.answer;
        let signed = self.evidence_of(&answer, wishes)?;
        let now_us = self.segments.registry_clock_us();
        let mut past = self.past.clone().map_err(|problem| Failure::of_file(&problem))?;
        past.registry_id = answer.registry_id;
        for (name, token) in signed {
            past.prove(answer.registry_id, &name, token);
        }
        let mut granted = vec![];
        let mut is_refused = false;
        for (at, about) in answer.about {
            let Some(Wish { at, request }) = wishes.get(at) else { continue };
            let at = *at;
            let about = self.checked(&past, at, &request.name, about);
            is_refused |= about.granted.is_none();
            self.note_answer(at, request, &about);
            if let Some(range) = about.granted {
                let is_held = request.may_be_early && !has_begun(&range, now_us);
                if is_held {
                    past.hold(&request.name, &range)
                } else {
                    past.enter(&request.name, &range)
                }
                granted.push((at, &request.name, range, is_held));
            }
        }
        let kept =
            self.past.as_mut().map_err(|problem| problem.clone()).and_then(|all| all.keep(|all| *all = past));
        kept.map_err(|problem| Failure::of_file(&problem))?;
        if is_stopping() {
            return Err(None); // What was noted may not have reached a standby.
        }
        for (at, name, range, is_held) in granted {
            if is_held {
                known_at(&mut self.known, at, name).held = Some(range);
            } else {
                self.publish(at, name, &range);
            }
        }
        if is_refused {
            self.not_before = Instant::now() + PAUSE;
        }
        Ok(())
    }

    fn ask_registry(
        &mut self,
        requests: &[&Request],
        registry_id: Option<Uuid>,
    ) -> Result<Answered, Option<Failure>> {
        let requests = self.with_evidence(requests, registry_id);
        let mut question = Question { registry_id, requests: &requests, node_name: config::node_name() };
        if self.is_here || !self.tells_name_as_it_is {
            question = question.in_ascii();
        }
        if self.is_here {
            return match here::ask(&question).map_err(Failure::of_registry)? {
                Some(answered) => Ok(answered),
                None => {
                    let database = config::database();
                    let problem = format!(
                        "snowflake_id.registry is not set, and there is no extension snowflake_id_registry in database \"{}\" (snowflake_id.database)",
                        database.to_string_lossy()
                    );
                    Err(Some(Failure { problem, trouble: Trouble::NoRegistry, is_of_statement: false }))
                }
            };
        }
        let Some(string) = config::registry() else { return Err(None) };
        // The line is not part of what is looked after meanwhile.
        let mut line = std::mem::take(&mut self.line);
        let mut answered = line.ask(&string, &question, &mut || self.look_around());
        if matches!(answered, Err(NoAnswer::Refused(_))) && !question.node_name.is_ascii() {
            answered = line.ask(&string, &question.in_ascii(), &mut || self.look_around());
            self.tells_name_as_it_is = answered.is_err();
        }
        self.line = line;
        if let Err(NoAnswer::Stuck(problem)) = answered {
            self.fail(Failure { problem, trouble: Trouble::Silence, is_of_statement: false });
            // The keeper starts another one.
            process::exit(1);
        }
        answered.map_err(Failure::of_registry)
    }

    /// What is said, unless it is a range that this server cannot use: numbers may repeat then.
    fn checked(&mut self, past: &Past, at: usize, name: &str, about: About) -> About {
        let highest = about.granted.as_ref().and_then(|granted| past.bound(name, granted));
        match about.granted {
            Some(granted) if highest.is_some_and(|highest| granted.range.first <= highest) => {
                let detail = format!(
                    "the registry gives numbers from {} on, and this server has had numbers up to {}",
                    granted.range.first,
                    highest.unwrap_or(0)
                );
                // Whoever waits asks again and again.
                if !std::mem::replace(&mut known_at(&mut self.known, at, name).is_refused, true) {
                    warning!("snowflake_id: segment \"{name}\": {detail}");
                }
                About { state: SegmentState::Invalid, granted: None, detail: Some(detail), ..about }
            }
            Some(_) => {
                known_at(&mut self.known, at, name).is_refused = false;
                about
            }
            None => about,
        }
    }

    /// Notes for backends and people what the registry says of a segment.
    fn note_answer(&mut self, at: usize, request: &Request, about: &About) {
        // What is said of the next period says nothing about this one.
        if !request.next {
            let now_us = clock::clock_us();
            self.segments.note(at, &request.name, |record| {
                record.state = about.state;
                record.answered_at_us = now_us;
                record.max_value = about.max_value.unwrap_or(0);
                record.set_detail(about.detail.as_deref());
                if let Some(granted) = &about.granted {
                    record.step = granted.range.count as i64;
                    record.taken_at_us = now_us;
                }
            });
        }
        let calm = about.granted.is_none().then(|| Instant::now() + random_time(CALM_PAUSE));
        let known = known_at(&mut self.known, at, &request.name);
        known.calm_until = calm;
        known.failed_at = None;
    }

    /// Lets backends take from a range. It has been noted that it was had.
    fn publish(&mut self, at: usize, name: &str, granted: &Granted) {
        let range = granted.range;
        let wanted_at = (range.count as f64 * random_between(WANTED_AT)) as u64;
        let published = self.segments.with_slot_of(at, name, |slot| {
            slot.segment
                .publish(range, wanted_at.clamp(1, range.count))
                .map(|()| slot.segment.standing().left)
        });
        let Some(published) = published else { return };
        let Ok(left) = published else {
            log!(
                "snowflake_id: segment \"{name}\" has too many ranges; that from {} on is lost",
                range.first
            );
            return;
        };
        self.segments.changes.send();
        let known = known_at(&mut self.known, at, name);
        known.last = Some(LastFetch { at: Instant::now(), count: range.count, left });
    }

    fn succeed(&mut self) {
        if self.failures > 0 {
            log!("snowflake_id: the registry of segments answers again");
        }
        self.failures = 0;
        self.last_problem = None;
        segments::report_problem(None, Trouble::default());
    }

    fn fail(&mut self, Failure { mut problem, trouble, .. }: Failure) {
        problem.truncate(problem.floor_char_boundary(LONGEST_PROBLEM));
        if self.last_problem.as_ref() != Some(&problem) {
            log!("snowflake_id: no numbers of segments: {problem}");
        }
        segments::report_problem(Some(&problem), trouble);
        self.last_problem = Some(problem);
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(8)).min(LONGEST_PAUSE);
        self.failures += 1;
        self.not_before = Instant::now() + pause;
        for known in self.known.iter_mut().flatten() {
            known.calm_until = Some(Instant::now() + random_time(CALM_PAUSE));
        }
    }
}

impl LastFetch {
    /// How long the range would last at the rate at which numbers were taken since; `None` if none were.
    fn lasted(&self, standing: &Standing) -> Option<Lasted> {
        let taken = self.left.checked_sub(standing.left).filter(|&taken| taken > 0)?;
        let lasted = self.at.elapsed().as_secs_f64() * self.count as f64 / taken as f64;
        Some(Lasted { lasted: lasted.min(1e9), count: self.count })
    }
}

/// What is known of the segment in a slot. The slot may have gone to another name since.
fn known_at<'a>(all: &'a mut Vec<Option<Known>>, at: usize, name: &str) -> &'a mut Known {
    if all.len() <= at {
        all.resize_with(at + 1, || None);
    }
    let place = &mut all[at];
    if place.as_ref().is_some_and(|known| known.name != name) {
        *place = None;
    }
    place.get_or_insert_with(|| Known {
        name: name.into(),
        held: None,
        calm_until: None,
        last: None,
        lead_us: random_time(LEAD).as_micros() as i64,
        is_refused: false,
        failed_at: None,
    })
}

/// Whether it is time to fetch the first range of the next period: it begins soon, and numbers of this one were taken.
fn is_next_period_due(known: &Known, standing: &Standing, now_us: i64) -> bool {
    let is_soon =
        |ends_us: i64| ends_us != NEVER_ENDS && now_us < ends_us && now_us >= ends_us - known.lead_us;
    known.held.is_none() && standing.current.is_some_and(|range| is_soon(range.ends_us))
}

fn has_begun(granted: &Granted, now_us: i64) -> bool {
    granted.period.is_none_or(|period| period.starts_us <= now_us)
}

fn has_begun_by_own_clock(end: &End) -> bool {
    end.period.is_none_or(|period| period.starts_us <= clock::clock_us())
}

fn clock_offset_us() -> i64 {
    let (now_us, since_boot_us) = clock::clocks_us();
    now_us - since_boot_us
}

/// A random time between two numbers of seconds.
fn random_time(seconds: (f64, f64)) -> Duration {
    Duration::from_secs_f64(random_between(seconds))
}
