//! Rounds of accidents at random, while clients take numbers: what the tests of them share.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use crate::faults::cut_power;
use crate::load::{Random, beside};
use crate::{Cluster, Run, TIMEOUT, text};

/// What runs beside accidents until it is told to stop.
pub type Client<T> = Box<dyn FnOnce(&AtomicBool) -> T + Send>;

/// Servers, and what a test does to them.
pub trait FaultTarget {
    /// What a client was given.
    type Taken: Send;

    fn random(&mut self) -> &mut Random;

    /// The clients of a round.
    fn clients(&self) -> Vec<Client<Self::Taken>>;

    /// Something happens. Returns what.
    fn have_an_accident(&mut self) -> String;

    /// Keeps what clients were given, to be compared in the end.
    fn keep(&mut self, taken: Self::Taken);

    /// Has all servers give numbers again.
    fn recover(&mut self);
}

/// Goes through rounds of up to `most` accidents each. After each of them the servers recover.
pub fn rounds_of_accidents(target: &mut impl FaultTarget, rounds: u32, most: u64) {
    target.recover();
    for round in 0..rounds {
        print!("round {round}:");
        let clients = target.clients();
        let (taken, ()) = beside(clients, || {
            for _ in 0..1 + target.random().below(most) {
                target.random().pause(500);
                print!(" {}", target.have_an_accident());
            }
            // The clients are to meet with the last one as well.
            thread::sleep(Duration::from_millis(200));
        });
        println!();
        taken.into_iter().for_each(|taken| target.keep(taken));
        target.recover();
    }
}

/// Asks for a number by this query until there is one. After each refusal `help` is told what was said, and how often
/// it was refused before.
pub fn recovered(server: &Cluster, database: &str, query: &str, mut help: impl FnMut(&str, u32)) -> i64 {
    let began = Instant::now();
    for refusals in 0.. {
        let taken = server.try_connect(database).and_then(|mut client| client.query_one(query, &[]));
        let message = match taken {
            Ok(row) => return row.get(0),
            Err(error) => text(&error),
        };
        assert!(began.elapsed() < 2 * TIMEOUT, "{query}: {message}\n{}", server.log());
        help(&message, refusals);
        thread::sleep(Duration::from_millis(50));
    }
    unreachable!("it is asked for ever");
}

/// A registry and its synchronous standby.
pub struct Pair {
    pub primary: Cluster,
    pub standby: Cluster,
}

impl Pair {
    /// Gives a registry, which runs, a standby.
    pub fn of(primary: Cluster) -> Pair {
        let standby = primary.start_standby(&[]);
        primary.replicate_synchronously();
        Pair { primary, standby }
    }

    /// The primary dies, and its standby takes over: nothing is lost.
    pub fn fail_over(&mut self) {
        cut_power(&self.primary);
        self.standby.promote();
        std::mem::swap(&mut self.primary, &mut self.standby);
        self.replace_standby();
    }

    /// Both die, and a copy takes over, which has not seen the last commits. Its administrator has it give out nothing.
    pub fn restore(&mut self, copy: Cluster) {
        [&self.primary, &self.standby].into_iter().for_each(cut_power);
        copy.start_server();
        copy.connect().run("SELECT snowflake_registry.quarantine()");
        self.primary = copy;
        self.replace_standby();
    }

    /// The primary has a new standby.
    pub fn replace_standby(&mut self) {
        self.primary.change("synchronous_standby_names", "");
        self.standby = self.primary.start_standby(&[]);
        self.primary.replicate_synchronously();
    }
}
