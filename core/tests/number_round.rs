//! The conversation about numbers, with a driver that fails, repeats and dies at any step, and with registries that are
//! restarted, set back and exchanged, and answer anything.

use std::collections::{BTreeMap, BTreeSet};

use snowflake_id_core::had::{End, Had};
use snowflake_id_core::number_call::Request;
use snowflake_id_core::number_round::{Effect, Event, Given, Holder, NumberRound, Refusal, Take};
use snowflake_id_core::segment::{NEVER_ENDS, Range};
use snowflake_id_core::segment_answer::{About, Answer, Granted, MOST_REQUESTS, Period, SegmentState};
use snowflake_id_core::segment_records::{Change, SegmentRecords};
use uuid::Uuid;

use crate::random_runs::{Counts, Random, count_all};

const RUNS: u64 = 1_000;
/// A name that the database of the second registry cannot represent.
const STRANGE: &str = "\u{e9}";

/// A registry. It may lie about its numbers.
struct Registry {
    id: Uuid,
    started_us: i64,
    next: BTreeMap<String, i64>,
    /// What it has heard since its start.
    heard: BTreeMap<String, BTreeSet<i64>>,
}

/// A process, what survives it, and the registries.
struct Driver {
    random: Random,
    holder: Holder,
    registries: [Registry; 2],
    /// The registry that the setting names.
    at: usize,
    /// The file. It may be newer than the records.
    file: SegmentRecords,
    records: SegmentRecords,
    /// Ranges by name, first and last number, each with the registry and the start of its server that has granted it.
    granted: BTreeMap<(String, i64, i64), BTreeSet<(Uuid, i64)>>,
    /// The numbers up to which tokens were signed, by name, registry and start.
    signed: BTreeMap<(String, Uuid, i64), i64>,
    /// The highest number of each name that was available.
    published: BTreeMap<String, i64>,
    /// The start of each registry's server that this process has seen last.
    seen: Option<(Uuid, i64)>,
    has_kept: bool,
    counts: Counts,
}

impl Driver {
    fn new(seed: u64) -> Driver {
        let mut random = Random(seed);
        let holder = [Holder::Program, Holder::Server, Holder::ServerOfRegistry][random.below(3) as usize];
        let registry = |id| Registry {
            id: Uuid::from_u128(id),
            started_us: 1,
            next: BTreeMap::new(),
            heard: BTreeMap::new(),
        };
        Driver {
            random,
            holder,
            registries: [registry(1), registry(2)],
            at: 0,
            file: SegmentRecords::default(),
            records: SegmentRecords::default(),
            granted: BTreeMap::new(),
            signed: BTreeMap::new(),
            published: BTreeMap::new(),
            seen: None,
            has_kept: false,
            counts: Counts::new(),
        }
    }

    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    /// A new process reads the file. The memory of a program does not survive it.
    fn start(&mut self) -> NumberRound {
        if self.holder == Holder::Program {
            (self.file, self.published) = <_>::default();
        }
        self.records = self.file.clone();
        self.seen = None;
        NumberRound::new(self.holder)
    }

    /// A holder requests numbers only after it has reported all its numbers to this start of this registry, or was
    /// granted them by it.
    fn check_request(&mut self, take: &Take) {
        assert!(take.requests.len() <= MOST_REQUESTS);
        if take.requests.iter().all(|request| request.report) {
            return;
        }
        let registry = self.registries.iter().find(|registry| Some(registry.id) == take.registry_id);
        for (name, had) in &self.records.segments {
            let registry = registry.expect("any registry is asked after numbers were granted");
            if name == STRANGE || self.seen != Some((registry.id, registry.started_us)) {
                continue; // A restart that no answer has shown.
            }
            for end in had.ends() {
                let is_heard = registry.heard.get(name).is_some_and(|heard| heard.contains(&end.until));
                assert!(is_heard, "numbers of {name} are requested before a report");
            }
        }
        self.count("requested");
    }

    fn about(&mut self, at: usize, request: &Request) -> About {
        let registry = &mut self.registries[self.at];
        let (id, started_us, name) = (registry.id, registry.started_us, request.name.clone());
        registry.heard.entry(name.clone()).or_default().extend(request.had.iter().map(|had| had.had_until));
        let next = registry.next.entry(name.clone()).or_insert(1);
        let had_until = request.had.as_ref().map_or(0, |had| had.had_until);
        let mut about = About {
            state: SegmentState::Open,
            granted: None,
            max_value: None,
            token: None,
            detail: None,
            near: None,
        };
        if request.report {
            if !self.random.one_in(12) {
                about.token = Some(format!("segment:{name}:{next}::9:.{}", self.random.below(1 << 30)));
                self.signed.insert((name, id, started_us), *next - 1);
            } else if self.random.one_in(4) {
                about.state = SegmentState::Busy;
            }
            return about;
        }
        if self.random.one_in(10) {
            about.state = SegmentState::Closed;
            return about;
        }
        // A registry that was set back may grant numbers that the holder had.
        let is_honest = !self.random.one_in(6);
        let first = (*next).max(if is_honest { had_until + 1 } else { 0 });
        let count = 1 + self.random.below(9);
        let last = first + count as i64 - 1;
        *next = (last + 1).max(*next);
        let period = request.may_be_early.then_some(Period { key: 1, starts_us: 100 });
        about.granted =
            Some(Granted { range: Range { first, increment: 1, count, ends_us: NEVER_ENDS }, period });
        registry.heard.entry(name.clone()).or_default().insert(last);
        // A lost commit: the grant does not count, so its numbers are granted again.
        if self.random.one_in(10) {
            *next = first;
        }
        assert!(at < MOST_REQUESTS);
        self.granted.entry((name, first, last)).or_default().insert((id, started_us));
        about
    }

    fn answer(&mut self, take: &Take) -> Event {
        if self.random.one_in(30) {
            self.at = 1 - self.at;
            self.count("another registry");
        }
        if self.random.one_in(20) {
            let back = self.random.below(30) as i64;
            let registry = &mut self.registries[self.at];
            registry.started_us += 1;
            registry.heard.clear();
            registry.next.values_mut().for_each(|next| *next = (*next - back).max(1));
            self.count("restarted");
        }
        if self.at == 1 && take.requests.iter().any(|request| request.name == STRANGE) {
            return Event::Failed { is_of_data: true };
        }
        let (id, started_us) = (self.registries[self.at].id, self.registries[self.at].started_us);
        let is_foreign = take.registry_id.is_some_and(|registry_id| registry_id != id);
        let about = match is_foreign {
            true => vec![],
            false => {
                let requests = take.requests.iter().enumerate();
                requests.map(|(at, request)| (at, self.about(at, request))).collect()
            }
        };
        if self.random.one_in(15) {
            return Event::Failed { is_of_data: false };
        }
        self.seen = Some((id, started_us));
        Event::Answered(Answer {
            registry_id: Some(id),
            protocols: None,
            clock_us: 0,
            report_every_us: Some(1_000_000),
            server_started_us: Some(started_us),
            is_foreign,
            mismatch: None,
            detail: None,
            about,
        })
    }

    fn keep(&mut self, changes: &[Change]) -> Event {
        let fate = self.random.below(10);
        let apply = |records: &mut SegmentRecords| {
            let text = serde_json::to_string(changes).unwrap();
            let changes: Vec<Change> = serde_json::from_str(&text).unwrap();
            changes.into_iter().for_each(|change| records.apply(change));
        };
        if fate > 0 {
            apply(&mut self.file);
        }
        if fate < 2 {
            return Event::NotKept;
        }
        apply(&mut self.records);
        self.has_kept = true;
        Event::Kept
    }

    fn publish(&mut self, given: &[Given], wishes: &[Request]) {
        for Given { at, about, is_held, not_above } in given {
            let name = &wishes[*at].name;
            let Some(granted) = about.granted else {
                if not_above.is_some() {
                    self.count("not above");
                }
                continue;
            };
            let (first, last) = (granted.range.first, granted.range.last().unwrap());
            assert!(self.has_kept, "a range is published that is not kept");
            let had = &self.records.segments[name];
            assert!(had.ends().any(|end| end.until >= last), "a range is published that is not kept");
            assert_eq!(*is_held, wishes[*at].may_be_early, "a range is used before its period");
            let mut starts = self.granted[&(name.clone(), first, last)].iter();
            let is_proved = starts
                .any(|&(id, started_us)| self.signed.get(&(name.clone(), id, started_us)) >= Some(&last));
            assert!(
                self.holder == Holder::ServerOfRegistry || is_proved,
                "a range is published that was not proved in the same start of the registry's server"
            );
            let before = self.published.insert(name.clone(), last);
            assert!(before < Some(first), "numbers of {name} do not increase");
            self.count(if *is_held { "held" } else { "published" });
        }
    }

    fn carry_out(&mut self, effect: &Effect, wishes: &[Request]) -> Event {
        match effect {
            Effect::Send(take) => {
                self.check_request(take);
                self.has_kept = false;
                self.answer(take)
            }
            Effect::Keep(changes) => self.keep(changes),
            Effect::Publish(given) => {
                self.publish(given, wishes);
                Event::Published
            }
            Effect::Rest(_) => unreachable!("this has no event"),
        }
    }

    fn wishes(&mut self) -> Vec<Request> {
        let count = if self.random.one_in(20) { MOST_REQUESTS as u64 } else { self.random.below(4) };
        let wish = |name: String, may_be_early| Request { name, may_be_early, ..Request::default() };
        let mut wishes: Vec<_> = (0..count).map(|at| wish(format!("{at}"), false)).collect();
        match self.random.below(6) {
            0 => wishes.insert(0, wish(STRANGE.into(), false)),
            1 => wishes.extend(wishes.first().cloned()),
            2 => wishes.extend(wishes.last().cloned().map(|last| wish(last.name, true))),
            _ => {}
        }
        wishes.truncate(MOST_REQUESTS);
        for wish in &mut wishes {
            let had = self.records.segments.get(&wish.name);
            wish.had = had.and_then(|had| had.ends().next()).map(Into::into);
        }
        wishes
    }

    fn run(&mut self) {
        let mut round = self.start();
        for _ in 0..30 {
            if self.random.one_in(10) {
                self.at = 1 - self.at;
                round.forget_registry();
            }
            let wishes = self.wishes();
            let mut effect = match self.random.below(8) {
                0 => round.meet(&self.records),
                1 => round.report(&self.records),
                _ => round.take(&self.records, wishes.clone()),
            };
            let mut is_urgent = round.is_report_urgent();
            for turn in 0.. {
                assert!(turn < 60, "the round does not end");
                if let Effect::Rest(result) = &effect {
                    self.note_end(result);
                    break;
                }
                if self.random.one_in(100) {
                    // An effect that is cut off may have been carried out.
                    if self.random.one_in(2) {
                        self.carry_out(&effect, &wishes);
                    }
                    round = self.start();
                    self.count("died");
                    break;
                }
                let event = self.carry_out(&effect, &wishes);
                effect = round.step(&self.records, event, 50);
                is_urgent |= round.is_report_urgent();
            }
            if is_urgent {
                self.count("urgent");
            }
        }
    }

    fn note_end(&mut self, result: &Result<(), Refusal>) {
        match result {
            Ok(()) => {}
            Err(Refusal::Failure(why)) => {
                assert!(!why.contains("bug"), "{why}");
                self.count(why);
            }
            Err(_) => self.count("failed"),
        }
    }
}

#[test]
fn a_driver_that_does_anything() {
    count_all(RUNS, 14, |seed| {
        let mut driver = Driver::new(seed);
        driver.run();
        driver.counts
    });
}

fn answer(started_us: i64, about: Vec<About>) -> Event {
    Event::Answered(Answer {
        registry_id: Some(Uuid::from_u128(1)),
        protocols: None,
        clock_us: 0,
        report_every_us: None,
        server_started_us: Some(started_us),
        is_foreign: false,
        mismatch: None,
        detail: None,
        about: about.into_iter().enumerate().collect(),
    })
}

fn about(granted: Option<Granted>, token: Option<&str>) -> About {
    About {
        state: SegmentState::Open,
        granted,
        max_value: None,
        token: token.map(Into::into),
        detail: None,
        near: None,
    }
}

/// A program that was granted the numbers 1 to 10 of two segments, and requests the tokens of both.
fn before_the_proof() -> NumberRound {
    let records = SegmentRecords::default();
    let mut round = NumberRound::new(Holder::Program);
    let wish = |name: &str| Request { name: name.into(), ..Request::default() };
    round.take(&records, vec![wish("a"), wish("b")]);
    let range = Range { first: 1, increment: 1, count: 10, ends_us: NEVER_ENDS };
    let granted = || about(Some(Granted { range, period: None }), None);
    let effect = round.step(&records, answer(1, vec![granted(), granted()]), 0);
    let Effect::Send(take) = effect else { panic!("{effect:?}") };
    assert!(take.requests.len() == 2 && take.requests.iter().all(|request| request.report));
    assert_eq!(take.registry_id, Some(Uuid::from_u128(1)));
    round
}

/// One range without a token is not used, and the other one is.
#[test]
fn a_range_without_a_token() {
    let mut records = SegmentRecords::default();
    let mut round = before_the_proof();
    let tokens = [Some("segment:61:11::1:.00"), Some("segment:62:10::1:.00")];
    let about = tokens.map(|token| about(None, token)).into();
    let Effect::Keep(changes) = round.step(&records, answer(1, about), 0) else { panic!("not kept") };
    changes.into_iter().for_each(|change| records.apply(change));
    assert_eq!(records.segments.keys().collect::<Vec<_>>(), ["a"]);
    let Effect::Publish(given) = round.step(&records, Event::Kept, 0) else { panic!("not published") };
    assert_eq!(given.iter().map(|given| given.at).collect::<Vec<_>>(), [0]);
    let effect = round.step(&records, Event::Published, 0);
    let Effect::Rest(Err(Refusal::Failure(why))) = effect else { panic!("{effect:?}") };
    assert_eq!(why, "the registry did not sign the numbers that it granted");
}

/// The registry has signed one of two ranges, because the other one was not durable. Its token is requested again.
#[test]
fn a_range_that_is_not_durable_yet() {
    let (records, mut round) = (SegmentRecords::default(), before_the_proof());
    let signed = |token: &str| answer(1, vec![about(None, Some(token))]);
    let first = answer(1, vec![about(None, Some("segment:61:11::1:.00")), about(None, None)]);
    let mut effect = round.step(&records, first, 0);
    for _ in 0..2 {
        let Effect::Send(take) = effect else { panic!("{effect:?}") };
        assert!(take.requests.len() == 1 && take.requests[0].report && take.requests[0].name == "b");
        effect = round.step(&records, answer(1, vec![about(None, None)]), 0);
    }
    assert!(matches!(effect, Effect::Send(_)), "{effect:?}");
    let Effect::Keep(changes) = round.step(&records, signed("segment:62:11::1:.00"), 0) else { panic!() };
    assert!(changes.len() >= 2, "{changes:?}");
    let Effect::Publish(given) = round.step(&records, Event::Kept, 0) else { panic!() };
    assert_eq!(given.iter().map(|given| given.at).collect::<Vec<_>>(), [0, 1]);
    assert!(matches!(round.step(&records, Event::Published, 0), Effect::Rest(Ok(()))));
}

/// A registry that never signs is not asked forever.
#[test]
fn a_range_that_does_not_become_durable() {
    let (records, mut round) = (SegmentRecords::default(), before_the_proof());
    let mut calls = 0;
    let mut effect = round.step(&records, answer(1, vec![about(None, None), about(None, None)]), 0);
    while let Effect::Send(_) = effect {
        calls += 1;
        effect = round.step(&records, answer(1, vec![about(None, None), about(None, None)]), 0);
    }
    assert_eq!(calls, 3);
    // Only the ID of the registry is kept.
    assert!(matches!(&effect, Effect::Keep(changes) if changes.len() == 1), "{effect:?}");
    let Effect::Publish(given) = round.step(&records, Event::Kept, 0) else { panic!("not published") };
    assert!(given.is_empty());
    let Effect::Rest(Err(Refusal::Failure(why))) = round.step(&records, Event::Published, 0) else {
        panic!()
    };
    assert_eq!(why, "the grant is not durable yet");
}

/// The registry may have lost the grants, and granted the same numbers to another holder before it signed them.
#[test]
fn a_restart_between_grant_and_proof() {
    let records = SegmentRecords::default();
    let mut round = before_the_proof();
    let token = || about(None, Some("segment:61:11::1:.00"));
    let effect = round.step(&records, answer(2, vec![token(), token()]), 0);
    let Effect::Rest(Err(Refusal::Failure(why))) = effect else { panic!("{effect:?}") };
    assert_eq!(why, "the registry's server was restarted");
    assert!(round.is_report_urgent());
}

/// The records of a server that was granted numbers of these names by the registry `id`.
fn records_of(id: u128, names: &[&str]) -> SegmentRecords {
    let registry_id = Some(Uuid::from_u128(id));
    let now = Some(End { until: 10, registry_id, period: None });
    let had = Had { now, next: None };
    let segments = names.iter().map(|&name| (name.into(), had.clone())).collect();
    SegmentRecords { registry_id, segments, ..SegmentRecords::default() }
}

/// Other names get their tokens, and the report is not repeated at once.
#[test]
fn a_report_with_a_name_that_the_registry_cannot_represent() {
    let mut records = records_of(1, &["a", "b", STRANGE]);
    let mut round = NumberRound::new(Holder::Server);
    for started_us in [1, 2, 2] {
        let mut effect = round.report(&records);
        loop {
            let event = match effect {
                Effect::Send(take) if take.requests.iter().any(|request| request.name == STRANGE) => {
                    Event::Failed { is_of_data: true }
                }
                Effect::Send(take) => {
                    let token = |name: &str| format!("segment:{name}:11::{started_us}:.00");
                    let about = take.requests.iter().map(|of| about(None, Some(&token(&of.name)))).collect();
                    answer(started_us, about)
                }
                Effect::Keep(changes) => {
                    changes.into_iter().for_each(|change| records.apply(change));
                    Event::Kept
                }
                Effect::Publish(_) => unreachable!("a report publishes nothing"),
                Effect::Rest(result) => {
                    assert_eq!(result, Ok(()));
                    break;
                }
            };
            effect = round.step(&records, event, 0);
        }
        assert!(!round.is_report_urgent());
        for name in ["a", "b"] {
            let tokens = records.signed.tokens(records.registry_id, name);
            assert!(tokens.iter().any(|token| token.contains(&format!(":{started_us}:"))), "{tokens:?}");
        }
    }
}

/// The registry of the reports had no ID, so the one that answers next need not be the same.
#[test]
fn a_registry_without_an_id() {
    let records = records_of(2, &["a"]);
    let mut round = NumberRound::new(Holder::Server);
    let is_report = |effect: &Effect| matches!(effect, Effect::Send(take) if take.requests[0].report);
    let effect = round.take(&records, vec![Request { name: "b".into(), ..Request::default() }]);
    assert!(is_report(&effect));
    let Event::Answered(mut first) = answer(1, vec![]) else { unreachable!() };
    first.registry_id = None;
    let effect = round.step(&records, Event::Answered(first), 0);
    assert!(!is_report(&effect));
    let effect = round.step(&records, answer(1, vec![about(None, None)]), 0);
    assert!(is_report(&effect), "{effect:?}");
}
