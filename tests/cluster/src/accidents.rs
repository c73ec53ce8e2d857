//! Rounds of random accidents while clients take numbers: the code that such tests share.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use crate::faults::cut_power;
use crate::load::{Random, beside};
use crate::{Cluster, Run, TIMEOUT, assert_within, text};

/// A client that runs during the accidents until it is told to stop.
pub type Client<T> = Box<dyn FnOnce(&AtomicBool) -> T + Send>;

/// The servers under test, and the accidents that happen to them.
pub trait FaultTarget {
    /// The numbers that a client was given.
    type Taken: Send;

    fn random(&mut self) -> &mut Random;

    /// The clients of a round.
    fn clients(&self) -> Vec<Client<Self::Taken>>;

    /// Waits, at the start of a round, until its clients have taken some numbers.
    fn wait_for_clients(&self) {}

    /// Causes an accident. Returns its description.
    fn have_an_accident(&mut self) -> String;

    /// Keeps the numbers that a client was given, to be compared at the end.
    fn keep(&mut self, taken: Self::Taken);

    /// Waits until all servers give numbers again.
    fn recover(&mut self);
}

/// Runs rounds of up to `most` accidents each. After each round the servers recover.
pub fn rounds_of_accidents(target: &mut impl FaultTarget, rounds: u32, most: u64) {
    target.recover();
    for round in 0..rounds {
        print!("round {round}:");
        let clients = target.clients();
        let (taken, ()) = beside(clients, || {
            target.wait_for_clients();
            for _ in 0..1 + target.random().below(most) {
                target.random().pause(500);
                print!(" {}", target.have_an_accident());
            }
            // Give the clients time to see the effect of the last accident.
            thread::sleep(Duration::from_millis(200));
        });
        println!();
        taken.into_iter().for_each(|taken| target.keep(taken));
        target.recover();
    }
}

/// Repeats a query for a number until it succeeds. After each refusal, calls `help` with the error and the number of
/// earlier refusals.
pub fn recovered(server: &Cluster, database: &str, query: &str, mut help: impl FnMut(&str, u32)) -> i64 {
    let began = Instant::now();
    for refusals in 0.. {
        let taken = server.try_connect(database).and_then(|mut client| client.query_one(query, &[]));
        let message = match taken {
            Ok(row) => return row.get(0),
            Err(error) => text(&error),
        };
        assert_within(2 * TIMEOUT, began.elapsed(), format_args!("{query}: {message}\n{}", server.log()));
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
    /// Adds a standby to a running registry.
    pub fn of(primary: Cluster) -> Pair {
        let standby = primary.start_standby(&[]);
        primary.replicate_synchronously();
        Pair { primary, standby }
    }

    /// Kills the primary and promotes its standby. Nothing is lost.
    pub fn fail_over(&mut self) {
        cut_power(&self.primary);
        self.standby.promote();
        std::mem::swap(&mut self.primary, &mut self.standby);
        self.replace_standby();
    }

    /// Kills both, and replaces them by a copy that has not received the last commits. Its administrator starts a
    /// quarantine.
    pub fn restore(&mut self, copy: Cluster) {
        [&self.primary, &self.standby].into_iter().for_each(cut_power);
        copy.start_server();
        copy.connect().run("SELECT snowflake_registry.quarantine()");
        self.primary = copy;
        self.replace_standby();
    }

    /// Gives the primary a new standby.
    pub fn replace_standby(&mut self) {
        self.primary.change("synchronous_standby_names", "");
        self.standby = self.primary.start_standby(&[]);
        self.primary.replicate_synchronously();
    }
}
