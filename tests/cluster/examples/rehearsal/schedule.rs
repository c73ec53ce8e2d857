//! When which fault begins.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use snowflake_id_cluster_tests::Random;

use crate::faults::{Fault, Place, all};
use crate::scene::{Record, Scene, Stage};
use crate::site::SERVERS;

pub struct Schedule<'a> {
    /// The time between the beginnings of two faults.
    pub interval: Duration,
    /// For how long faults begin.
    pub minutes: u32,
    pub seed: u64,
    /// A part of the names of the faults to be used.
    pub only: &'a str,
}

/// A fault that has ended.
pub struct Done {
    pub fault: &'static Fault,
    pub record: Record,
}

/// The faults that run now: each with the index of its server.
struct Running(Vec<(&'static Fault, usize)>);

impl Running {
    /// Whether a fault can begin on this server beside those that run.
    fn admits(&self, fault: &Fault, at: usize) -> bool {
        self.0.iter().all(|&(other, of_other)| match (fault.place, other.place) {
            _ if std::ptr::eq(fault, other) => false,
            (Place::Single, Place::Single) | (Place::Registry, Place::Registry | Place::Server) => false,
            (Place::Server, Place::Registry) => false,
            (Place::Server | Place::ServerAlone, Place::Server | Place::ServerAlone) => at != of_other,
            _ => true,
        })
    }
}

impl Schedule<'_> {
    /// Runs faults one after the other, and some at the same time, and waits until the last of them has ended.
    pub fn run(&self, stage: &Stage) -> Vec<Done> {
        let mut random = Random::of(self.seed);
        let mut deck: Vec<&'static Fault> = Vec::new();
        let (mut running, mut done) = (Running(Vec::new()), Vec::new());
        let (end, ended) = channel::<(usize, Done)>();
        let last = stage.began + Duration::from_secs(60 * u64::from(self.minutes));
        thread::scope(|scope| {
            let mut next = Instant::now();
            loop {
                let now = Instant::now();
                if now < last && now >= next {
                    if deck.is_empty() {
                        deck = self.shuffled(stage, &mut random);
                    }
                    let mut drawn = draw(&mut deck, &running, stage, &mut random);
                    if drawn.is_none() {
                        // The faults of the deck wait for one that lasts for many minutes. Those that are about a
                        // server alone delay none of them for long.
                        let mut more = self.shuffled(stage, &mut random);
                        more.retain(|fault| matches!(fault.place, Place::ServerAlone | Place::Single));
                        drawn = draw(&mut more, &running, stage, &mut random);
                    }
                    if let Some((fault, at)) = drawn {
                        running.0.push((fault, at));
                        let end = end.clone();
                        scope.spawn(move || {
                            let done = Done { fault, record: run(stage, fault, at) };
                            // The receiver waits for all of them.
                            let _ = end.send((at, done));
                        });
                        next = now + self.interval;
                    }
                }
                if let Ok((at, one)) = ended.recv_timeout(Duration::from_millis(200)) {
                    running.0.retain(|&(fault, of)| !std::ptr::eq(fault, one.fault) || of != at);
                    tell(&one);
                    done.push(one);
                } else if now >= last && running.0.is_empty() {
                    break;
                }
            }
        });
        done
    }

    /// All faults that can happen, or those that are asked for, in random order.
    fn shuffled(&self, stage: &Stage, random: &mut Random) -> Vec<&'static Fault> {
        let is_meant =
            |fault: &&Fault| fault.name.contains(self.only) && (stage.scale.0 == 1 || !fault.needs_real_time);
        let mut left: Vec<&'static Fault> = all().into_iter().filter(is_meant).collect();
        assert!(!left.is_empty(), "there is no fault with \"{}\" in its name", self.only);
        let mut deck = Vec::new();
        while !left.is_empty() {
            deck.push(left.swap_remove(random.below(left.len() as u64) as usize));
        }
        deck
    }
}

/// Takes the first fault that can begin now from the deck. Returns it with its server.
fn draw(
    deck: &mut Vec<&'static Fault>,
    running: &Running,
    stage: &Stage,
    random: &mut Random,
) -> Option<(&'static Fault, usize)> {
    let first = random.below(SERVERS as u64) as usize;
    let drawn = deck
        .iter()
        .enumerate()
        .flat_map(|(card, fault)| (0..SERVERS).map(move |at| (card, fault, (first + at) % SERVERS)))
        .find(|(_, fault, at)| running.admits(fault, *at) && Scene::new(stage, fault, *at).can_begin())
        .map(|(card, _, at)| (card, at));
    drawn.map(|(card, at)| (deck.remove(card), at))
}

/// Runs a fault from its beginning to its end.
fn run(stage: &Stage, fault: &'static Fault, at: usize) -> Record {
    let scene = Scene::new(stage, fault, at);
    println!("{:4.0} s  begins: {} ({})", stage.began.elapsed().as_secs_f64(), fault.name, scene.place());
    let outcome = catch_unwind(AssertUnwindSafe(|| (fault.run)(&scene)));
    let outcome = outcome.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    });
    if outcome.is_err() {
        scene.repair();
    }
    scene.into_record(outcome)
}

fn tell(done: &Done) {
    let Done { fault, record } = done;
    let word = if record.failure.is_some() { "FAILED" } else { "ended" };
    let alerts: Vec<String> =
        record.alerts.iter().map(|(name, at)| format!("{name} after {:.0} s", at - record.from)).collect();
    println!(
        "{:4.0} s  {word} after {:.0} s: {} ({}) {}",
        record.to,
        record.to - record.from,
        fault.name,
        record.place,
        alerts.join(", ")
    );
    if let Some(failure) = &record.failure {
        println!("        {}\n{failure}", record.acts.join("\n        "));
    }
}
